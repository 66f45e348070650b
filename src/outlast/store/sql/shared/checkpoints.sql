-- name: add_checkpoint
INSERT INTO checkpoints (id, scope, task, run_id, name, summary, refs, state, phase, position, actor, at, proof)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
RETURNING key

-- name: checkpoints_by_prefix
SELECT * FROM checkpoints WHERE id >= ? AND id < ? ORDER BY id LIMIT 6

-- name: checkpoints_of_task
SELECT * FROM checkpoints WHERE scope = ? AND task = ? AND key < ? ORDER BY key DESC LIMIT ?

-- name: checkpoints_of_scope
SELECT * FROM checkpoints WHERE scope = ? AND key < ? ORDER BY key DESC LIMIT ?

-- name: checkpoints_of_run
SELECT * FROM checkpoints WHERE run_id = ? AND run_id <> '' AND key < ? ORDER BY key DESC LIMIT ?

-- name: checkpoints_after_key
SELECT * FROM checkpoints WHERE key > ? ORDER BY key LIMIT ?
