-- Statements that only SQLite understands, or is to be asked in another way than others.

-- A list is given as one JSON text, and json_each makes rows of it.

-- name: leases_of_runs
SELECT chains.key, epoch, head, hash, holder
FROM json_each(?) AS wanted LEFT JOIN chains ON subject = 'run:' || wanted.value ORDER BY wanted.key

-- name: linked_among
SELECT value FROM json_each(?) AS asked
WHERE EXISTS (SELECT 1 FROM links WHERE links.source = asked.value AND pending = 0)
   OR EXISTS (SELECT 1 FROM links WHERE links.target = asked.value AND pending = 0)

-- Left to itself, it walks all runs of the scope: it takes an index of every row for as narrow as one of some rows.

-- name: unfinished_of_scope
SELECT * FROM runs INDEXED BY one_unfinished_run
WHERE scope = ? AND status NOT IN ('succeeded', 'aborted') AND seal IN ('', 'moved')

-- name: unfinished_of_task
SELECT * FROM runs INDEXED BY one_unfinished_run
WHERE scope = ? AND task = ? AND status NOT IN ('succeeded', 'aborted') AND seal IN ('', 'moved') ORDER BY key

-- One entry in one statement, which is its own transaction: the guard, the end of the chain, the row and the commit. The
-- view and what is done for it belong to the connection that writes; the file has neither.

-- name: advance_and_release
UPDATE chains SET head = ?, hash = ?, holder = NULL, epoch = epoch + 1 WHERE key = ? AND epoch = ? AND head = ?

-- name: append_view
CREATE TEMP VIEW IF NOT EXISTS appended AS
SELECT 0 AS lease, 0 AS epoch, 0 AS chain, 0 AS seq, x'' AS header, x'' AS hash, x'' AS payload

-- name: append_trigger
CREATE TEMP TRIGGER IF NOT EXISTS append INSTEAD OF INSERT ON appended BEGIN
  UPDATE chains SET head = NEW.seq, hash = NEW.hash
  WHERE key = NEW.lease AND epoch = NEW.epoch AND head = NEW.seq - 1;
  SELECT RAISE(ABORT, 'the lease is stale') WHERE changes() = 0;
  INSERT INTO journal (chain, seq, header, hash, payload)
  VALUES (NEW.chain, NEW.seq, NEW.header, NEW.hash, NEW.payload);
END

-- name: append_entry
INSERT INTO appended (lease, epoch, chain, seq, header, hash, payload) VALUES (?, ?, ?, ?, ?, ?, ?)

-- name: end_of_chain
SELECT head, hash FROM chains WHERE key = ?

-- Of several the row of marks is repeated for as many as there are (`Transaction._do_rows`), and one that begins with nothing
-- is none. SQLite puts what it selects for a view aside first, which of one row takes longer than the rest.

-- name: append_entries
INSERT INTO appended (lease, epoch, chain, seq, header, hash, payload)
SELECT * FROM (VALUES (?, ?, ?, ?, ?, ?, ?)) WHERE column1 IS NOT NULL

-- Starts and ends of runs, and the first revision of a handoff, where there is no more to them than is given, in one
-- statement: what pieces of work would write, with the proofs. Where there is more to one it is refused, and nothing is done.
-- What a trigger has looked at SQLite puts aside when the same one fills it by a SELECT or with several rows, in a table of
-- its own that takes longer than the rest; and so it does with a list of values (`IN`). Triggers of one view may go in any
-- order: the guard of a start does not look at what it writes itself.

-- name: next_chain
SELECT 1 + max(coalesce((SELECT max(key) FROM chains), 0), coalesce((SELECT max(key) FROM tombstones), 0))

-- name: begin_view
CREATE TEMP VIEW IF NOT EXISTS begun AS
SELECT 0 AS key, '' AS id, '' AS scope, '' AS flow, '' AS task, '' AS inputs, '' AS inputs_digest, '' AS parent,
       '' AS session, '' AS trace_id, '' AS meta, '' AS actor, 0 AS at, 0 AS named, '' AS identity, '' AS source,
       '' AS worktree, '' AS holder, 0 AS head, x'' AS hash, x'' AS chain_proof, x'' AS run_proof, '' AS receiver,
       x'' AS delivery_proof, 0 AS beaten_after, 0 AS beaten_upto, x'' AS header, x'' AS payload

-- name: begin_trigger
CREATE TEMP TRIGGER IF NOT EXISTS begin_run INSTEAD OF INSERT ON begun BEGIN
  SELECT RAISE(ABORT, 'there is more to this start')  -- its key is taken, its task known, or no sign of life is late enough
  WHERE EXISTS (SELECT 1 FROM chains WHERE key = NEW.key)
     OR EXISTS (SELECT 1 FROM tombstones WHERE key >= NEW.key)
     OR NOT EXISTS (SELECT 1 FROM processes
                    WHERE id = NEW.holder AND boot_us > NEW.beaten_after AND boot_us <= NEW.beaten_upto)
     OR EXISTS (SELECT 1 FROM runs INDEXED BY one_unfinished_run
                WHERE scope = NEW.scope AND task = NEW.task
                AND status NOT IN ('succeeded', 'aborted') AND seal IN ('', 'moved'))
     OR EXISTS (SELECT 1 FROM runs WHERE scope = NEW.scope AND task = NEW.task
                AND named = 1 AND status IN ('succeeded', 'aborted') AND seal IN ('', 'moved'))
     OR EXISTS (SELECT 1 FROM tombstones WHERE scope = NEW.scope AND task = NEW.task AND named = 1)
     OR EXISTS (SELECT 1 FROM deliveries WHERE scope = NEW.scope AND task = NEW.task AND run <> NEW.key);
  INSERT INTO chains (key, subject, epoch, head, hash, holder)
  VALUES (NEW.key, 'run:' || NEW.id, 1, NEW.head, NEW.hash, NEW.holder);
  INSERT INTO runs (key, id, scope, flow, task, inputs, inputs_digest, status, parent, session, trace_id, meta,
                    actor, created_at, updated_at, named, identity, source, worktree)
  VALUES (NEW.key, NEW.id, NEW.scope, NEW.flow, NEW.task, NEW.inputs, NEW.inputs_digest, 'running', NEW.parent,
          NEW.session, NEW.trace_id, NEW.meta, NEW.actor, NEW.at, NEW.at, NEW.named, NEW.identity, NEW.source,
          NEW.worktree);
  INSERT INTO proofs (noun, row, proof) VALUES ('chains', NEW.key, NEW.chain_proof), ('runs', NEW.key, NEW.run_proof)
  ON CONFLICT (noun, row) DO UPDATE SET proof = excluded.proof;
  INSERT INTO journal (chain, seq, header, hash, payload)
  VALUES (NEW.key, NEW.head, NEW.header, NEW.hash, NEW.payload);
END

-- name: due_trigger
CREATE TEMP TRIGGER IF NOT EXISTS due_run INSTEAD OF INSERT ON begun WHEN NEW.receiver <> '' BEGIN
  INSERT INTO deliveries (run, scope, task, receiver) VALUES (NEW.key, NEW.scope, NEW.task, NEW.receiver);
  INSERT INTO proofs (noun, row, proof) VALUES ('deliveries', NEW.key, NEW.delivery_proof)
  ON CONFLICT (noun, row) DO UPDATE SET proof = excluded.proof;
END

-- name: begin_run_plainly
INSERT INTO begun VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: begin_runs_plainly
INSERT INTO begun
SELECT * FROM (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)) WHERE column1 IS NOT NULL

-- name: end_view
CREATE TEMP VIEW IF NOT EXISTS ended AS
SELECT 0 AS lease, 0 AS run, 0 AS epoch, 0 AS seq, x'' AS hash, '' AS status, '' AS phase, '' AS result, 0 AS at,
       '' AS receiver, x'' AS known, x'' AS chain_proof, x'' AS run_proof, x'' AS header, x'' AS payload

-- name: end_trigger
CREATE TEMP TRIGGER IF NOT EXISTS end_run INSTEAD OF INSERT ON ended BEGIN
  SELECT RAISE(ABORT, 'there is more to this end')
  WHERE NOT EXISTS (SELECT 1 FROM proofs WHERE noun = 'runs' AND row = NEW.run AND proof = NEW.known)
     OR EXISTS (SELECT 1 FROM interrupts WHERE run = NEW.run AND status = 'open')
     OR EXISTS (SELECT 1 FROM interrupts WHERE run = NEW.run AND status = 'answered')
     OR EXISTS (SELECT 1 FROM deliveries WHERE run = NEW.run AND receiver <> NEW.receiver);
  UPDATE chains SET head = NEW.seq, hash = NEW.hash, holder = NULL, epoch = epoch + 1
  WHERE key = NEW.lease AND epoch = NEW.epoch AND head = NEW.seq - 1;
  SELECT RAISE(ABORT, 'the lease is stale') WHERE changes() = 0;
  UPDATE runs SET status = NEW.status, phase = NEW.phase, result = NEW.result, error = NULL, updated_at = NEW.at
  WHERE key = NEW.run;
  DELETE FROM queue_entries WHERE run = NEW.run;
  INSERT INTO proofs (noun, row, proof) VALUES ('chains', NEW.lease, NEW.chain_proof)
  ON CONFLICT (noun, row) DO UPDATE SET proof = excluded.proof;
  INSERT INTO proofs (noun, row, proof) VALUES ('runs', NEW.run, NEW.run_proof)
  ON CONFLICT (noun, row) DO UPDATE SET proof = excluded.proof;
  INSERT INTO journal (chain, seq, header, hash, payload) VALUES (NEW.run, NEW.seq, NEW.header, NEW.hash, NEW.payload);
END

-- name: end_run_plainly
INSERT INTO ended VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: end_runs_plainly
INSERT INTO ended
SELECT * FROM (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)) WHERE column1 IS NOT NULL

-- name: store_plainly
INSERT INTO stored VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: store_facts
-- The next keys of a chain and of a handoff; and whether nothing is known of the anchor, and of its task.
SELECT 1 + max(coalesce((SELECT max(key) FROM chains), 0), coalesce((SELECT max(key) FROM tombstones), 0)),
       (SELECT 1 + coalesce(max(key), 0) FROM handoffs),
       NOT EXISTS (SELECT 1 FROM anchors WHERE scope = asked.value ->> 0 AND anchor = asked.value ->> 1)
       AND NOT EXISTS (SELECT 1 FROM tasks WHERE scope = asked.value ->> 0 AND task = asked.value ->> 2)
       AND NOT EXISTS (SELECT 1 FROM runs INDEXED BY one_unfinished_run
                       WHERE scope = asked.value ->> 0 AND task = asked.value ->> 2
                       AND status NOT IN ('succeeded', 'aborted') AND seal IN ('', 'moved'))
FROM json_each(?) AS asked ORDER BY asked.key

-- name: store_all_plainly
INSERT INTO stored
SELECT * FROM (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)) WHERE column1 IS NOT NULL

-- name: store_view
CREATE TEMP VIEW IF NOT EXISTS stored AS
SELECT 0 AS key, 0 AS newest, '' AS id, '' AS scope, '' AS anchor, '' AS task, '' AS branch, '' AS root, '' AS symbol,
       0 AS score, 0 AS stored_at, 0 AS expires_at, '' AS handoff, x'' AS chain_proof, x'' AS anchor_proof,
       x'' AS handoff_proof, '[]' AS files, x'' AS hash, x'' AS header, x'' AS payload

-- The facts are the next keys of a chain and of a handoff, and whether nothing is known of the anchor and of its task. What
-- was asked for them is compared here: the statement may be a transaction of its own. That nothing is known of the anchor,
-- and that nobody took the keys meanwhile, its own rows and those of the chain and the handoff say by being added.

-- name: store_trigger
CREATE TEMP TRIGGER IF NOT EXISTS store_handoff INSTEAD OF INSERT ON stored BEGIN
  SELECT RAISE(ABORT, 'there is more to this handoff')
  WHERE EXISTS (SELECT 1 FROM tombstones WHERE key >= NEW.key)
     OR EXISTS (SELECT 1 FROM tasks WHERE scope = NEW.scope AND task = NEW.task)
     OR EXISTS (SELECT 1 FROM runs INDEXED BY one_unfinished_run
                WHERE scope = NEW.scope AND task = NEW.task
                AND status NOT IN ('succeeded', 'aborted') AND seal IN ('', 'moved'));
  INSERT INTO chains (key, subject, epoch, head, hash, holder)
  VALUES (NEW.key, 'handoff:' || NEW.id, 0, 1, NEW.hash, NULL);
  INSERT INTO anchors (key, id, scope, anchor, status, revision, newest, branch, root, symbol, score, stored_at, expires_at)
  VALUES (NEW.key, NEW.id, NEW.scope, NEW.anchor, 'open', 1, NEW.newest, NEW.branch, NEW.root, NEW.symbol, NEW.score,
          NEW.stored_at, NEW.expires_at);
  INSERT INTO handoffs (key, id, anchor, revision, seq) VALUES (NEW.newest, NEW.handoff, NEW.key, 1, 1);
  INSERT INTO handoff_files (path, anchor) SELECT value, NEW.key FROM json_each(NEW.files) WHERE true ON CONFLICT DO NOTHING;
  INSERT INTO proofs (noun, row, proof)
  VALUES ('chains', NEW.key, NEW.chain_proof), ('anchors', NEW.key, NEW.anchor_proof),
         ('handoffs', NEW.newest, NEW.handoff_proof)
  ON CONFLICT (noun, row) DO UPDATE SET proof = excluded.proof;
  INSERT INTO journal (chain, seq, header, hash, payload) VALUES (NEW.key, 1, NEW.header, NEW.hash, NEW.payload);
END

-- SQLite keeps no statistics here and is told where to begin: CROSS JOIN keeps the order of tables, a sign before a column
-- keeps its index out, and INDEXED BY names one.

-- name: found_by_tag
SELECT one.* FROM run_tags AS tagged CROSS JOIN runs AS one ON one.key = tagged.run
WHERE tagged.tag = ? AND tagged.run < ? ORDER BY tagged.run DESC LIMIT ?

-- name: found_by_time
-- Those of a span of time are sorted: they are fewer than all that began before it.
SELECT * FROM runs INDEXED BY runs_by_time WHERE created_at >= ? AND created_at < ? AND +key < ?
ORDER BY +key DESC LIMIT ?

-- name: found_by_flow
-- By what follows the file or the module: an index of that expression.
SELECT * FROM runs WHERE substr(flow, instr(flow, ':') + 1) = ? AND key < ? ORDER BY key DESC LIMIT ?

-- name: artifacts_of_scope
SELECT one.* FROM artifact_names AS named CROSS JOIN artifacts AS one ON one.key = named.newest
WHERE named.scope = ? AND named.newest < ? AND named.newest > 0 ORDER BY named.newest DESC LIMIT ?

-- name: artifacts_of_prefix
SELECT one.* FROM artifact_names AS named CROSS JOIN artifacts AS one ON one.key = named.newest
WHERE named.scope = ? AND named.name >= ? AND named.name < ? AND +named.newest < ? ORDER BY +named.newest DESC LIMIT ?

-- name: artifacts_of_tag
SELECT one.* FROM artifact_tags AS tagged CROSS JOIN artifacts AS one ON one.key = tagged.artifact
CROSS JOIN artifact_names AS named ON named.scope = one.scope AND named.name = one.name AND named.newest = one.key
WHERE tagged.scope = ? AND tagged.tag = ? AND tagged.artifact < ?
ORDER BY tagged.artifact DESC LIMIT ?

-- name: count_artifacts
SELECT (SELECT count(*) FROM artifacts INDEXED BY artifacts_by_scope),
       (SELECT count(*) FROM artifacts WHERE run_id > '' AND pending > 0)

-- name: count_checkpoints
SELECT count(*) FROM checkpoints INDEXED BY checkpoints_of_task

-- name: claimed_anchors
SELECT a.key, a.id, a.scope, a.anchor, a.status, a.outcome, a.revision, a.newest, a.branch, a.root, a.symbol, a.score,
       a.stored_at, a.expires_at, a.arrived
FROM chains l JOIN anchors a ON a.id = substr(l.subject, 9)
WHERE l.holder > '' AND +l.subject > 'handoff:' AND +l.subject < 'handoff;' AND a.scope = ?
ORDER BY a.newest DESC LIMIT ?

-- name: links_from
SELECT * FROM links INDEXED BY links_by_source
WHERE source = ? AND relation = ? AND pending = 0 AND key > ? ORDER BY key LIMIT ?

-- name: refs_under_way
-- What records and links of steps under way name: nobody sees these yet, and they may come to stay.
SELECT ref FROM records CROSS JOIN record_refs ON record = records.key WHERE run_id > '' AND pending > 0
UNION SELECT source FROM links WHERE run_id > '' AND pending > 0
UNION SELECT target FROM links WHERE run_id > '' AND pending > 0

-- name: records_of_tag
SELECT one.* FROM record_tags AS tagged CROSS JOIN records AS one ON one.key = tagged.record
WHERE tagged.scope = ? AND tagged.tag = ? AND tagged.record < ? AND one.pending = 0 ORDER BY tagged.record DESC LIMIT ?

-- name: records_of_ref
SELECT one.* FROM record_refs AS named CROSS JOIN records AS one ON one.key = named.record
WHERE named.ref = ? AND named.record < ? AND one.pending = 0 ORDER BY named.record DESC LIMIT ?

-- name: count_records
SELECT (SELECT count(*) FROM records INDEXED BY records_by_scope WHERE pending = 0),
       (SELECT count(*) FROM links INDEXED BY links_by_source WHERE pending = 0)

-- The numbers that were given are counted by SQLite itself.

-- name: highest_shown
SELECT seq FROM sqlite_sequence WHERE name = 'workspace_shown'

-- The number after the highest one is given next: where the newest entry was removed, a row of no chain keeps its number.

-- name: keep_number
INSERT INTO journal (key, chain, seq, header, hash)
SELECT kept.key, 0, kept.key, x'7b7d', zeroblob(32) FROM (SELECT ? AS key) AS kept
WHERE kept.key > (SELECT coalesce(max(key), 0) FROM journal)

-- name: drop_kept_numbers
DELETE FROM journal WHERE chain = 0 AND key < (SELECT max(key) FROM journal)
