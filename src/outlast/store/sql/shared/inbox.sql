-- name: send
INSERT INTO inbox (run, kind, body, actor, sent_at) VALUES (?, ?, ?, ?, ?)

-- name: untaken
SELECT key, kind, body, actor FROM inbox WHERE run = ? AND taken = 0 ORDER BY key

-- name: take
UPDATE inbox SET taken = 1 WHERE key = ?

-- name: add_operation
INSERT INTO operations (id, kind, digest, answer, at) VALUES (?, ?, ?, ?, ?)

-- name: operation
SELECT kind, digest, answer FROM operations WHERE id = ?

-- name: operations_of
-- Those under which a run was started, or met.
SELECT id, digest, at FROM operations WHERE answer = ? AND kind = 'run_start' ORDER BY number
