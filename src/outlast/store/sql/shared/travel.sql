-- name: interrupts_of
SELECT i.*, r.id AS run_id FROM interrupts i JOIN runs r ON r.key = i.run WHERE i.run = ? ORDER BY i.key

-- name: requests_of
SELECT kind, body, actor, sent_at FROM inbox WHERE run = ? AND taken = 0 ORDER BY key

-- name: blob_refs_upto
SELECT seq, digest FROM blob_refs WHERE chain = ? AND seq <= ? ORDER BY seq, digest

-- name: hash_at
SELECT hash FROM journal WHERE chain = ? AND seq = ?

-- name: seal_run
UPDATE runs SET seal = ?, status = ? WHERE key = ?

-- name: add_arrived_run
INSERT INTO runs (key, id, scope, flow, task, inputs, inputs_digest, status, phase, result, error, parent, session,
                  trace_id, meta, actor, created_at, updated_at, mark, seal, named, identity, source, worktree)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: renew_arrived_run
UPDATE runs SET status = ?, phase = ?, result = ?, error = ?, updated_at = ?, mark = ?, seal = ?, named = ?,
                identity = ?, source = ?, worktree = ?
WHERE key = ?

-- name: renew_arrived_lease
UPDATE chains SET epoch = ?, head = ?, hash = ?, holder = NULL WHERE key = ?

-- name: add_arrived_interrupt
INSERT INTO interrupts (id, run, type, call, step, payload, status, answer, answered_by, opened_at, due_at, form, reason)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: forget_interrupts
DELETE FROM interrupts WHERE run = ?

-- name: forget_requests
DELETE FROM inbox WHERE run = ? AND taken = 0
