-- name: task_of
SELECT key, scope, task, state, session, meta, actor, opened_at, updated_at, head, hash
FROM tasks WHERE scope = ? AND task = ?

-- name: newest_tasks
SELECT key, scope, task, state, session, meta, actor, opened_at, updated_at, head, hash
FROM tasks WHERE scope = ? AND (updated_at, key) < (?, ?) ORDER BY updated_at DESC, key DESC LIMIT ?

-- name: newest_tasks_of_state
SELECT key, scope, task, state, session, meta, actor, opened_at, updated_at, head, hash
FROM tasks WHERE scope = ? AND state = ? AND (updated_at, key) < (?, ?) ORDER BY updated_at DESC, key DESC LIMIT ?

-- name: tasks_after_key
SELECT key, scope, task, state, session, meta, actor, opened_at, updated_at, head, hash
FROM tasks WHERE key > ? ORDER BY key LIMIT ?

-- name: add_task
INSERT INTO tasks (scope, task, state, session, meta, actor, opened_at, updated_at, head, hash)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, ?)

-- name: move_task
UPDATE tasks SET state = ?, session = ?, actor = ?, opened_at = ?, updated_at = ?, head = ?, hash = ?
WHERE key = ? AND head = ?

-- name: add_task_event
INSERT INTO task_events (task, seq, kind, name, body, digest, masked, actor, at, hash)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: task_events_after
SELECT seq, kind, name, body, digest, masked, actor, at, hash
FROM task_events WHERE task = ? AND seq > ? ORDER BY seq LIMIT ?

-- name: runs_of_task
SELECT * FROM runs WHERE scope = ? AND task = ? ORDER BY key DESC LIMIT ?

-- name: events_without_task
SELECT DISTINCT task FROM task_events
WHERE task > 0 AND NOT EXISTS (SELECT 1 FROM tasks WHERE key = task_events.task)
ORDER BY task
