-- name: put_limit
INSERT INTO limits (name, most, rate, window_us, set_by, set_at) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET most = excluded.most, rate = excluded.rate, window_us = excluded.window_us,
  set_by = excluded.set_by, set_at = excluded.set_at

-- name: all_limits
SELECT name, most, rate, window_us, set_by, set_at FROM limits WHERE name >= '' ORDER BY name

-- name: limit_of
SELECT name, most, rate, window_us, set_by, set_at FROM limits WHERE name = ?

-- name: remove_limit
DELETE FROM limits WHERE name = ?

-- name: add_slot
INSERT INTO limit_slots (name, holder, run_id, step, state, since) VALUES (?, ?, ?, ?, ?, ?) RETURNING number

-- name: hold_slot
UPDATE limit_slots SET state = 'held', since = ? WHERE number = ?

-- name: drop_slot
DELETE FROM limit_slots WHERE number = ?

-- name: slots_of_limit
SELECT number, name, holder, run_id, step, state, since FROM limit_slots WHERE name = ? AND state = ? ORDER BY number

-- name: slots_of_run
SELECT number, name, holder, run_id, step, state, since FROM limit_slots WHERE run_id = ? ORDER BY number

-- name: count_slots
SELECT count(*) FROM limit_slots WHERE name = ? AND state = 'held'
