-- name: add_queue
INSERT INTO queues (name, engine) VALUES (?, ?) ON CONFLICT DO NOTHING

-- name: all_queues
SELECT name, paused, paused_by, paused_at, served, engine FROM queues WHERE name >= '' ORDER BY name

-- name: queue_by_name
SELECT name, paused, paused_by, paused_at, served, engine FROM queues WHERE name = ?

-- name: set_engine_of_queue
UPDATE queues SET engine = ? WHERE name = ?

-- name: entries_of_queue
SELECT * FROM queue_entries WHERE queue = ? AND state = ? AND run > ? ORDER BY run LIMIT ?

-- name: runs_asked
-- Those for which somebody left a request, such as to try a step again, that nobody has taken.
SELECT * FROM runs AS asked WHERE asked.key IN (SELECT run FROM inbox WHERE taken = 0) AND asked.key > ?
ORDER BY asked.key LIMIT ?

-- name: pause_queue
UPDATE queues SET paused = ?, paused_by = ?, paused_at = ? WHERE name = ?

-- name: serve_lane
UPDATE queues SET served = ? WHERE name = ?

-- name: queue_depth
SELECT state, count(*), min(added_at) FROM queue_entries WHERE queue = ? GROUP BY state

-- name: add_entry_of_queue
INSERT INTO queue_entries (run, queue, lane, priority, due_at, most, rate, window_us, state, added_at,
  expires_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: entry_of_queue
SELECT * FROM queue_entries WHERE run = ?

-- name: set_entry_of_queue
-- Once taken it was taken in time.
UPDATE queue_entries SET state = ?, due_at = ?, expires_at = CASE ? WHEN 'taken' THEN 0 ELSE expires_at END
WHERE run = ?

-- name: drop_entry_of_queue
DELETE FROM queue_entries WHERE run = ?

-- name: release_delayed
UPDATE queue_entries SET state = 'ready' WHERE run IN
  (SELECT run FROM queue_entries WHERE state = 'delayed' AND due_at <= ? ORDER BY due_at LIMIT 500)

-- name: coming
-- When a wait, a delay, a place in a queue and a schedule are over next; and whether a run was not taken in time, a
-- schedule's time has come, and one may be taken. Each is the first of an index, whatever the database has counted.
SELECT
  (SELECT due_at FROM interrupts WHERE status = 'open' AND due_at IS NOT NULL AND due_at > ? ORDER BY due_at LIMIT 1),
  (SELECT due_at FROM queue_entries WHERE state = 'delayed' AND due_at > ? ORDER BY due_at LIMIT 1),
  (SELECT expires_at FROM queue_entries WHERE expires_at > 0 AND expires_at > ? ORDER BY expires_at LIMIT 1),
  (SELECT next_at FROM schedules WHERE paused = 0 AND next_at > ? ORDER BY next_at LIMIT 1),
  (SELECT run FROM queue_entries WHERE expires_at > 0 AND expires_at <= ? ORDER BY expires_at LIMIT 1) IS NOT NULL,
  (SELECT number FROM schedules WHERE paused = 0 AND next_at <= ? ORDER BY next_at LIMIT 1) IS NOT NULL,
  (SELECT run FROM queue_entries WHERE state = 'ready' AND queue >= '' ORDER BY queue, priority, lane, run LIMIT 1)
    IS NOT NULL
  OR (SELECT run FROM queue_entries WHERE state = 'delayed' AND due_at <= ? ORDER BY due_at LIMIT 1) IS NOT NULL

-- name: is_delayed_over
SELECT 1 FROM queue_entries WHERE state = 'delayed' AND due_at <= ? LIMIT 1

-- name: expired_entries
SELECT run FROM queue_entries WHERE expires_at > 0 AND expires_at <= ? ORDER BY expires_at LIMIT 500

-- name: keep_entry_of_queue
UPDATE queue_entries SET expires_at = 0 WHERE run = ?

-- name: is_queue_paused
SELECT paused FROM queues WHERE name = ?

-- name: top_priority
SELECT priority FROM queue_entries WHERE state = 'ready' AND queue = ? AND priority < ? ORDER BY priority DESC LIMIT 1

-- name: next_ready
SELECT * FROM queue_entries WHERE state = 'ready' AND queue = ? AND priority = ? AND lane > ? AND lane <= ?
ORDER BY lane, run LIMIT 1

-- name: taken_in_lane
SELECT count(*) FROM queue_entries WHERE state = 'taken' AND lane = ?

-- name: add_begun
INSERT INTO queue_begun (lane, at) VALUES (?, ?)

-- name: begun_before
-- When the so manieth of the last ones began.
SELECT at FROM queue_begun WHERE lane = ? ORDER BY at DESC LIMIT 1 OFFSET ?

-- name: forget_begun
DELETE FROM queue_begun WHERE lane = ? AND at < ?

-- name: run_by_key
SELECT * FROM runs WHERE key = ?
