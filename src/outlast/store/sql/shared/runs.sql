-- name: add_run
INSERT INTO runs (key, id, scope, flow, task, inputs, inputs_digest, status, parent, session, trace_id, meta,
                  actor, created_at, updated_at, named, identity, source, worktree)
VALUES (?, ?, ?, ?, ?, ?, ?, 'running', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

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
