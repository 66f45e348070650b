-- Statements that are asked in another way of PostgreSQL, and those that only it has.

-- Every commit that appends holds the tenant's lock together with others, and every piece of work holds it alone: what work
-- has read is so until it is committed, as in SQLite, where there is one writer.

-- name: append_entries
-- The whole commit of many appends in one statement. The chain of each is moved where its epoch, head and hash are as they
-- were, and only then its entries go in; the numbers of those that were moved are given. The hash tells apart what epoch and
-- head do not: a database that was put back to an earlier state gives the same numbers again. Whether an entry's chain was
-- moved is no join, of which there is only that by an index here (`_BY_INDEX`): by coalesce it is looked up in a hash. That
-- numbers are not below 0 is so in any case, and lets the server expect few of them: so each is looked up by its key.
WITH given AS MATERIALIZED (
  SELECT pg_advisory_xact_lock_shared(?), ?::bigint[] AS a, ?::bigint[] AS b, ?::bigint[] AS c, ?::bigint[] AS d,
         ?::bytea[] AS e, ?::bigint[] AS f, ?::bytea[] AS g,
         ?::bigint[] AS h, ?::bigint[] AS i, ?::bigint[] AS j, ?::bytea[] AS k, ?::bytea[] AS l, ?::bytea[] AS m),
ends AS (
  SELECT one.* FROM given, unnest(a, b, c, d, e, f, g) AS one (number, lease, epoch, head, before, upto, hash)),
moved AS (
  UPDATE chains SET head = ends.upto, hash = ends.hash FROM ends
  WHERE chains.key = ends.lease AND chains.epoch = ends.epoch AND chains.head = ends.head AND chains.hash = ends.before
    AND ends.number >= 0 AND ends.epoch >= 0 AND ends.head >= 0
  RETURNING ends.number),
added AS (
  INSERT INTO journal (chain, seq, header, hash, payload)
  SELECT one.chain, one.seq, one.header, one.hash, one.payload
  FROM given, unnest(h, i, j, k, l, m) AS one (number, chain, seq, header, hash, payload)
  WHERE coalesce(one.number IN (SELECT number FROM moved), false))
SELECT number FROM moved

-- name: append_entries_with_blobs
-- The same where entries refer to blobs.
WITH given AS MATERIALIZED (
  SELECT pg_advisory_xact_lock_shared(?), ?::bigint[] AS a, ?::bigint[] AS b, ?::bigint[] AS c, ?::bigint[] AS d,
         ?::bytea[] AS e, ?::bigint[] AS f, ?::bytea[] AS g,
         ?::bigint[] AS h, ?::bigint[] AS i, ?::bigint[] AS j, ?::bytea[] AS k, ?::bytea[] AS l, ?::bytea[] AS m,
         ?::bigint[] AS n, ?::bigint[] AS o, ?::text[] AS p, ?::bigint[] AS q),
ends AS (
  SELECT one.* FROM given, unnest(a, b, c, d, e, f, g) AS one (number, lease, epoch, head, before, upto, hash)),
moved AS (
  UPDATE chains SET head = ends.upto, hash = ends.hash FROM ends
  WHERE chains.key = ends.lease AND chains.epoch = ends.epoch AND chains.head = ends.head AND chains.hash = ends.before
    AND ends.number >= 0 AND ends.epoch >= 0 AND ends.head >= 0
  RETURNING ends.number),
added AS (
  INSERT INTO journal (chain, seq, header, hash, payload)
  SELECT one.chain, one.seq, one.header, one.hash, one.payload
  FROM given, unnest(h, i, j, k, l, m) AS one (number, chain, seq, header, hash, payload)
  WHERE coalesce(one.number IN (SELECT number FROM moved), false)),
referred AS (
  INSERT INTO blob_refs (digest, chain, seq)
  SELECT one.digest, one.chain, one.seq FROM given, unnest(n, o, p, q) AS one (number, chain, digest, seq)
  WHERE coalesce(one.number IN (SELECT number FROM moved), false) ON CONFLICT DO NOTHING)
SELECT number FROM moved

-- name: append_one_each
-- The same for one entry without blobs of each chain, which most are. Nothing is read twice.
WITH given AS MATERIALIZED (
  SELECT pg_advisory_xact_lock_shared(?), ?::bigint[] AS chain, ?::bigint[] AS epoch, ?::bigint[] AS head,
         ?::bytea[] AS before, ?::bytea[] AS hash, ?::bytea[] AS header, ?::bytea[] AS payload),
moved AS (
  UPDATE chains SET head = one.head + 1, hash = one.hash FROM given,
    unnest(given.chain, given.epoch, given.head, given.before, given.hash, given.header, given.payload) WITH ORDINALITY
    AS one (chain, epoch, head, before, hash, header, payload, number)
  WHERE chains.key = one.chain AND chains.epoch = one.epoch AND chains.head = one.head AND chains.hash = one.before
    AND one.number > 0 AND one.epoch >= 0 AND one.head >= 0
  RETURNING one.*),
added AS (
  INSERT INTO journal (chain, seq, header, hash, payload) SELECT chain, head + 1, header, hash, payload FROM moved)
SELECT number - 1 FROM moved

-- name: append_entry
-- The same for one entry without blobs: no list is made or read.
WITH locked AS MATERIALIZED (SELECT pg_advisory_xact_lock_shared(?)),
moved AS (
  UPDATE chains SET head = head + 1, hash = ? FROM locked
  WHERE key = ? AND epoch = ? AND head = ? AND chains.hash = ? RETURNING hash)
INSERT INTO journal (chain, seq, header, hash, payload) SELECT ?, ?, ?, moved.hash, ? FROM moved

-- Starts and ends of runs, many in one statement, where there is no more to them than what is given. The statement before
-- has taken the tenant's lock, so that each of these sees what was committed until then.

-- name: start_facts
-- The next key of a chain, and what keeps each from being added as it is: 1, that something is known of its task; 2, that its
-- process has given no sign of life lately.
WITH all_given AS MATERIALIZED (
  SELECT ?::text[] AS a, ?::text[] AS b, ?::text[] AS c, ?::bigint[] AS d, ?::bigint[] AS e)
SELECT CASE WHEN unfinished.key IS NOT NULL OR finished.key IS NOT NULL OR removed.key IS NOT NULL OR left_over.run IS NOT NULL
       THEN 1 WHEN alive.number IS NULL THEN 2 ELSE 0 END::bigint,
       (SELECT 1 + coalesce(max(key), 0)
        FROM (SELECT max(key) AS key FROM chains UNION ALL SELECT max(key) FROM tombstones) AS used)
FROM all_given, unnest(a, b, c, d, e) WITH ORDINALITY AS given (scope, task, holder, since, upto, place)
LEFT JOIN LATERAL (
  SELECT key FROM runs WHERE scope = given.scope AND task = given.task
    AND status NOT IN ('succeeded', 'aborted') AND seal IN ('', 'moved') LIMIT 1) AS unfinished ON true
LEFT JOIN LATERAL (
  SELECT key FROM runs WHERE scope = given.scope AND task = given.task
    AND named = 1 AND status IN ('succeeded', 'aborted') AND seal IN ('', 'moved') LIMIT 1) AS finished ON true
LEFT JOIN LATERAL (
  SELECT key FROM tombstones WHERE scope = given.scope AND task = given.task AND named = 1 LIMIT 1) AS removed ON true
LEFT JOIN LATERAL (
  SELECT run FROM deliveries WHERE scope = given.scope AND task = given.task LIMIT 1) AS left_over ON true
LEFT JOIN LATERAL (
  SELECT number FROM processes WHERE id = given.holder AND boot_us > given.since AND boot_us <= given.upto LIMIT 1
) AS alive ON true
ORDER BY given.place

-- name: start_runs
WITH given AS (
  SELECT * FROM unnest(?::bigint[], ?::text[], ?::text[], ?::text[], ?::text[], ?::text[], ?::text[], ?::text[], ?::text[],
                       ?::text[], ?::text[], ?::text[], ?::bigint[], ?::bigint[], ?::text[], ?::text[], ?::text[],
                       ?::text[], ?::bigint[], ?::bytea[], ?::bytea[], ?::bytea[], ?::text[], ?::bytea[])
  AS given (key, id, scope, flow, task, inputs, inputs_digest, parent, session,
            trace_id, meta, actor, at, named, identity, source, worktree,
            holder, head, hash, chain_proof, run_proof, receiver, delivery_proof)),
chained AS (
  INSERT INTO chains (key, subject, epoch, head, hash, holder) SELECT key, 'run:' || id, 1, head, hash, holder FROM given),
begun AS (
  INSERT INTO runs (key, id, scope, flow, task, inputs, inputs_digest, status, parent, session, trace_id, meta,
                    actor, created_at, updated_at, named, identity, source, worktree)
  SELECT key, id, scope, flow, task, inputs, inputs_digest, 'running', parent, session, trace_id, meta,
         actor, at, at, named, identity, source, worktree FROM given),
expected AS (
  INSERT INTO deliveries (run, scope, task, receiver) SELECT key, scope, task, receiver FROM given WHERE receiver <> ''),
proven AS (
  INSERT INTO proofs (noun, row, proof)
  SELECT 'chains', key, chain_proof FROM given UNION ALL SELECT 'runs', key, run_proof FROM given
  UNION ALL SELECT 'deliveries', key, delivery_proof FROM given WHERE receiver <> ''
  ON CONFLICT (noun, row) DO UPDATE SET proof = excluded.proof)
INSERT INTO journal (chain, seq, header, hash, payload)
SELECT * FROM unnest(?::bigint[], ?::bigint[], ?::bytea[], ?::bytea[], ?::bytea[])

-- name: end_runs
-- Those that nothing waits for and whose row is as its proof says, each where its chain is as it was; the numbers of those
-- that were ended are given.
WITH given AS (
  SELECT * FROM unnest(?::bigint[], ?::bigint[], ?::bigint[], ?::bigint[], ?::bigint[], ?::bytea[], ?::bigint[], ?::bytea[],
                       ?::text[], ?::text[], ?::text[], ?::bigint[], ?::text[], ?::bytea[], ?::bytea[], ?::bytea[])
  AS given (number, lease, run, epoch, head, before, upto, hash,
            status, phase, result, at, receiver, known, chain_proof, run_proof)),
plain AS MATERIALIZED (
  SELECT given.* FROM given JOIN proofs ON noun = 'runs' AND proofs.row = given.run AND proof = given.known
  LEFT JOIN LATERAL (
    SELECT key FROM interrupts WHERE run = given.run AND status IN ('open', 'answered') LIMIT 1) AS waits ON true
  LEFT JOIN LATERAL (
    SELECT run FROM deliveries WHERE run = given.run AND receiver <> given.receiver LIMIT 1) AS others ON true
  WHERE waits.key IS NULL AND others.run IS NULL AND given.number >= 0 AND given.epoch >= 0 AND given.head >= 0),
moved AS (
  UPDATE chains SET head = plain.upto, hash = plain.hash, epoch = plain.epoch + 1, holder = NULL FROM plain
  WHERE chains.key = plain.lease AND chains.epoch = plain.epoch AND chains.head = plain.head AND chains.hash = plain.before
  RETURNING plain.*),
ended AS (
  UPDATE runs SET status = moved.status, phase = moved.phase, result = moved.result, error = NULL, updated_at = moved.at
  FROM moved WHERE runs.key = moved.run),
left_queue AS (DELETE FROM queue_entries WHERE run = ANY (ARRAY(SELECT run FROM moved))),
proven AS (
  INSERT INTO proofs (noun, row, proof)
  SELECT 'chains', lease, chain_proof FROM moved UNION ALL SELECT 'runs', run, run_proof FROM moved
  ON CONFLICT (noun, row) DO UPDATE SET proof = excluded.proof),
added AS (
  INSERT INTO journal (chain, seq, header, hash, payload)
  SELECT one.run, one.seq, one.header, one.hash, one.payload
  FROM unnest(?::bigint[], ?::bigint[], ?::bigint[], ?::bytea[], ?::bytea[], ?::bytea[])
    AS one (number, run, seq, header, hash, payload)
  WHERE coalesce(one.number IN (SELECT number FROM moved), false))
SELECT number FROM moved

-- name: comments_of_schemas
SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace
WHERE starts_with(nspname, 'outlast') AND obj_description(oid, 'pg_namespace') IS NOT NULL

-- name: snapshot
-- Another text once anybody has committed something.
SELECT pg_current_snapshot()::text

-- name: snapshot_ends
-- The oldest transaction that is under way, and the first that was not begun, as this transaction sees them.
SELECT pg_snapshot_xmin(seen)::text::bigint, pg_snapshot_xmax(seen)::text::bigint FROM pg_current_snapshot() AS seen

-- name: entry_numbers
SELECT key FROM journal WHERE key > ? ORDER BY key LIMIT ?

-- name: last_mark
-- What a process wrote with its last piece of work that was committed. The number of a transaction would not do: of one that
-- was lost in a crash it is given again.
SELECT last FROM counters WHERE name = ?

-- name: end_backend
-- Of a connection that was lost: what it was about to do is done or not, and nothing comes later. True once it is gone.
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE pid = ? AND backend_start::text = ?

-- name: about_connection
SELECT pg_backend_pid(), (SELECT backend_start::text FROM pg_stat_activity WHERE pid = pg_backend_pid()),
       current_setting('server_encoding'), current_setting('synchronous_commit'),
       (extract(epoch FROM clock_timestamp()) * 1000000)::bigint

-- name: durability_of_server
SELECT current_setting('fsync'), current_setting('full_page_writes')

-- name: version_of_schema
SELECT version FROM schema_version

-- name: set_version_of_schema
UPDATE schema_version SET version = ?

-- name: columns_of_schema
SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = ? ORDER BY table_name, column_name

-- name: parts_of_schema
-- Tables, indexes, and the triggers that are not switched off, each with the table that it is on.
SELECT CASE c.relkind WHEN 'r' THEN 'table' ELSE 'index' END, c.relname, ''
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = ? AND c.relkind IN ('r', 'i')
UNION ALL
SELECT 'trigger', t.tgname, c.relname
FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = ? AND NOT t.tgisinternal AND t.tgenabled <> 'D'

-- name: size_of_schema
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = ? AND c.relkind = 'r'

-- A list is one parameter, and unnest makes rows of it.

-- name: leases_of_runs
SELECT chains.key, epoch, head, hash, holder
FROM unnest(?::text[]) WITH ORDINALITY AS wanted (id, place) LEFT JOIN chains ON subject = 'run:' || wanted.id
ORDER BY wanted.place

-- name: linked_among
SELECT asked.ref FROM unnest(?::text[]) AS asked (ref)
WHERE EXISTS (SELECT 1 FROM links WHERE links.source = asked.ref AND pending = 0)
   OR EXISTS (SELECT 1 FROM links WHERE links.target = asked.ref AND pending = 0)

-- SQLite is told which index to use for these. PostgreSQL keeps statistics and finds it.

-- name: found_by_tag
SELECT one.* FROM run_tags AS tagged JOIN runs AS one ON one.key = tagged.run
WHERE tagged.tag = ? AND tagged.run < ? ORDER BY tagged.run DESC LIMIT ?

-- name: found_by_time
SELECT * FROM runs WHERE created_at >= ? AND created_at < ? AND key < ? ORDER BY key DESC LIMIT ?

-- name: found_by_flow
-- By what follows the file or the module: an index of that expression.
SELECT * FROM runs WHERE substr(flow, strpos(flow, ':') + 1) = ? AND key < ? ORDER BY key DESC LIMIT ?

-- name: artifacts_of_scope
SELECT one.* FROM artifact_names AS named JOIN artifacts AS one ON one.key = named.newest
WHERE named.scope = ? AND named.newest < ? AND named.newest > 0 ORDER BY named.newest DESC LIMIT ?

-- name: artifacts_of_prefix
SELECT one.* FROM artifact_names AS named JOIN artifacts AS one ON one.key = named.newest
WHERE named.scope = ? AND named.name >= ? AND named.name < ? AND named.newest < ? ORDER BY named.newest DESC LIMIT ?

-- name: artifacts_of_tag
SELECT one.* FROM artifact_tags AS tagged JOIN artifacts AS one ON one.key = tagged.artifact
JOIN artifact_names AS named ON named.scope = one.scope AND named.name = one.name AND named.newest = one.key
WHERE tagged.scope = ? AND tagged.tag = ? AND tagged.artifact < ? ORDER BY tagged.artifact DESC LIMIT ?

-- name: count_artifacts
SELECT (SELECT count(*) FROM artifacts), (SELECT count(*) FROM artifacts WHERE run_id > '' AND pending > 0)

-- name: count_checkpoints
SELECT count(*) FROM checkpoints

-- name: claimed_anchors
SELECT a.key, a.id, a.scope, a.anchor, a.status, a.outcome, a.revision, a.newest, a.branch, a.root, a.symbol, a.score,
       a.stored_at, a.expires_at, a.arrived
FROM chains l JOIN anchors a ON a.id = substr(l.subject, 9)
WHERE l.holder > '' AND l.subject > 'handoff:' AND l.subject < 'handoff;' AND a.scope = ?
ORDER BY a.newest DESC LIMIT ?

-- name: links_from
SELECT * FROM links WHERE source = ? AND relation = ? AND pending = 0 AND key > ? ORDER BY key LIMIT ?

-- name: refs_under_way
-- What records and links of steps under way name: nobody sees these yet, and they may come to stay.
SELECT ref FROM records JOIN record_refs ON record = records.key WHERE run_id > '' AND pending > 0
UNION SELECT source FROM links WHERE run_id > '' AND pending > 0
UNION SELECT target FROM links WHERE run_id > '' AND pending > 0

-- name: records_of_tag
SELECT one.* FROM record_tags AS tagged JOIN records AS one ON one.key = tagged.record
WHERE tagged.scope = ? AND tagged.tag = ? AND tagged.record < ? AND one.pending = 0 ORDER BY tagged.record DESC LIMIT ?

-- name: records_of_ref
SELECT one.* FROM record_refs AS named JOIN records AS one ON one.key = named.record
WHERE named.ref = ? AND named.record < ? AND one.pending = 0 ORDER BY named.record DESC LIMIT ?

-- name: count_records
SELECT (SELECT count(*) FROM records WHERE pending = 0), (SELECT count(*) FROM links WHERE pending = 0)

-- Numbers without holes are counted in a table: a sequence is not undone with its transaction.

-- name: add_shown
WITH given AS (
  INSERT INTO counters (name, last) VALUES ('workspace_shown', 1)
  ON CONFLICT (name) DO UPDATE SET last = counters.last + 1 RETURNING last)
INSERT INTO workspace_shown (number, noun, scope, row) SELECT last, ?, ?, ? FROM given

-- name: highest_shown
SELECT last FROM counters WHERE name = 'workspace_shown'

-- A sequence goes on, whatever was removed, and knows the highest number that it gave.

-- name: highest_entry
SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence('journal', 'key')::regclass), 0)

-- Readers who ask how far all is told ask for the highest number that is there: a row of no chain keeps that of a newest
-- entry that was removed.

-- name: keep_number
INSERT INTO journal (key, chain, seq, header, hash)
SELECT kept.key, 0, kept.key, '\x7b7d'::bytea, decode(repeat('00', 32), 'hex') FROM (SELECT ?::bigint AS key) AS kept
WHERE kept.key > (SELECT coalesce(max(key), 0) FROM journal)

-- name: drop_kept_numbers
DELETE FROM journal WHERE chain = 0 AND key < (SELECT max(key) FROM journal)
