-- name: add_interrupt
INSERT INTO interrupts (id, run, type, call, step, payload, status, opened_at, due_at, form)
VALUES (?, ?, ?, ?, ?, ?, 'open', ?, ?, ?)
ON CONFLICT DO NOTHING

-- name: waits_of
SELECT i.*, r.id AS run_id FROM interrupts i JOIN runs r ON r.key = i.run
WHERE i.run = ? AND i.status IN ('open', 'answered') ORDER BY i.key

-- name: open_waits
-- The second condition follows from the first and is there for the database: it is the one of the partial index
-- interrupts_waiting, which is not used for a query that does not repeat it.
SELECT i.*, r.id AS run_id FROM interrupts i JOIN runs r ON r.key = i.run
WHERE i.status = 'open' AND i.status IN ('open', 'answered') AND i.key > ? AND r.seal = '' ORDER BY i.key LIMIT ?

-- name: inbox_waits
-- As open_waits, with what a list shows of the runs: one read, whatever their number.
SELECT i.*, r.id AS run_id, r.task, r.flow, r.scope FROM interrupts i JOIN runs r ON r.key = i.run
WHERE i.status = 'open' AND i.status IN ('open', 'answered') AND r.seal = '' ORDER BY i.key

-- name: interrupts_by_prefix
SELECT i.*, r.id AS run_id FROM interrupts i JOIN runs r ON r.key = i.run
WHERE i.id >= ? AND i.id < ? ORDER BY i.id LIMIT 6

-- name: answer_interrupt
UPDATE interrupts SET status = 'answered', answer = ?, answered_by = ? WHERE id = ? AND status = 'open'

-- name: end_interrupt
UPDATE interrupts SET status = 'answered', answer = NULL, answered_by = ?, reason = ? WHERE id = ? AND status = 'open'

-- name: use_interrupt
UPDATE interrupts SET status = 'used' WHERE id = ? AND status IN ('open', 'answered')

-- name: cancel_interrupts
UPDATE interrupts SET status = 'cancelled' WHERE run = ? AND status IN ('open', 'answered')
