-- name: add_run
INSERT INTO runs (key, id, scope, flow, task, inputs, inputs_digest, status, parent, session, trace_id, meta,
                  actor, created_at, updated_at, named, identity, source, worktree)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: run_by_id
SELECT * FROM runs WHERE id = ?

-- name: runs_by_prefix
SELECT * FROM runs WHERE id >= ? AND id < ? ORDER BY id LIMIT 6

-- name: unfinished_run
SELECT * FROM runs WHERE scope = ? AND task = ? AND identity = ? AND status NOT IN ('succeeded', 'aborted')
  AND seal IN ('', 'moved')

-- name: unfinished_of_task
SELECT * FROM runs WHERE scope = ? AND task = ? AND status NOT IN ('succeeded', 'aborted') AND seal IN ('', 'moved')
ORDER BY key

-- name: unfinished_of_scope
SELECT * FROM runs WHERE scope = ? AND status NOT IN ('succeeded', 'aborted') AND seal IN ('', 'moved')

-- name: finished_of_task
-- Of a named task, the newest first; also those that were removed. A key is given once, to a run that began later.
SELECT key, id, task, flow, status, inputs_digest, updated_at AS ended_at, error, 0 AS removed, identity, source, worktree
FROM runs
WHERE scope = ? AND task = ? AND named = 1 AND status IN ('succeeded', 'aborted') AND seal IN ('', 'moved')
UNION ALL
SELECT key, id, task, flow, status, inputs_digest, ended_at, error, 1, identity, source, worktree FROM tombstones
WHERE scope = ? AND task = ? AND named = 1
ORDER BY key DESC

-- name: unfinished_of_flow
SELECT * FROM runs WHERE scope = ? AND identity = ? AND status NOT IN ('succeeded', 'aborted') AND seal IN ('', 'moved')
ORDER BY key DESC LIMIT ?

-- name: newest_runs
SELECT * FROM runs WHERE key < ? ORDER BY key DESC LIMIT ?

-- name: newest_runs_of_status
SELECT * FROM runs WHERE status = ? AND key < ? ORDER BY key DESC LIMIT ?

-- name: found_by_identity
SELECT * FROM runs WHERE identity = ? AND key < ? ORDER BY key DESC LIMIT ?

-- name: found_by_task
SELECT * FROM runs WHERE task = ? AND key < ? ORDER BY key DESC LIMIT ?

-- name: found_by_session
SELECT * FROM runs WHERE session = ? AND session <> '' AND key < ? ORDER BY key DESC LIMIT ?

-- name: found_by_trace
SELECT * FROM runs WHERE trace_id = ? AND trace_id <> '' AND key < ? ORDER BY key DESC LIMIT ?

-- name: found_by_actor
SELECT * FROM runs WHERE actor = ? AND key < ? ORDER BY key DESC LIMIT ?

-- name: add_run_tag
INSERT INTO run_tags (tag, run) VALUES (?, ?)

-- name: tags_of_run
SELECT tag FROM run_tags WHERE run = ? ORDER BY tag

-- name: drop_run_tags
DELETE FROM run_tags WHERE run = ?

-- name: count_runs
SELECT status, count(*) FROM runs GROUP BY status

-- name: children_of
SELECT * FROM runs WHERE parent = ? AND parent <> '' ORDER BY key

-- name: set_run_status
UPDATE runs SET status = ?, updated_at = ? WHERE key = ? AND status NOT IN ('succeeded', 'aborted')

-- name: set_run_phase
UPDATE runs SET phase = ? WHERE key = ?

-- name: end_run
UPDATE runs SET status = ?, phase = ?, result = ?, error = ?, updated_at = ?
WHERE key = ? AND status NOT IN ('succeeded', 'aborted')

-- name: set_run_flow
UPDATE runs SET identity = ?, source = ?, worktree = ? WHERE key = ?

-- name: set_run_mark
UPDATE runs SET mark = ? WHERE key = ?

-- name: name_run
UPDATE runs SET named = 1 WHERE key = ?

-- name: runs_to_wake
-- Each part repeats the condition of a partial index, so that it is used.
SELECT * FROM runs AS woken WHERE woken.status = 'waiting' AND woken.key IN (
  SELECT run FROM interrupts WHERE status = 'answered' AND status IN ('open', 'answered')
  UNION SELECT run FROM interrupts WHERE status = 'open' AND due_at IS NOT NULL AND due_at <= ?
  UNION SELECT run FROM interrupts WHERE status = 'open' AND type = 'child'
  UNION SELECT run FROM inbox WHERE taken = 0
) AND woken.key > ? ORDER BY woken.key LIMIT ?

-- name: put_deadline
INSERT INTO run_deadlines (run, at) VALUES (?, ?) ON CONFLICT (run) DO UPDATE SET at = excluded.at

-- name: deadline_of
SELECT at FROM run_deadlines WHERE run = ?

-- name: drop_deadline
DELETE FROM run_deadlines WHERE run = ?
