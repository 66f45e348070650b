-- name: add_schedule
INSERT INTO schedules (scope, name, flow, inputs, cron, timezone, missed, queue, made_by, made_at, next_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: change_schedule
UPDATE schedules SET flow = ?, inputs = ?, cron = ?, timezone = ?, missed = ?, queue = ?, made_by = ?, made_at = ?,
  next_at = ?
WHERE scope = ? AND name = ?

-- name: all_schedules
SELECT * FROM schedules WHERE scope >= '' ORDER BY scope, name

-- name: schedule_of
SELECT * FROM schedules WHERE scope = ? AND name = ?

-- name: due_schedules
SELECT * FROM schedules WHERE paused = 0 AND next_at <= ? ORDER BY next_at

-- name: advance_schedule
UPDATE schedules SET next_at = ? WHERE scope = ? AND name = ? AND next_at = ?

-- name: pause_schedule
UPDATE schedules SET paused = ?, next_at = ? WHERE scope = ? AND name = ?

-- name: remove_schedule
DELETE FROM schedules WHERE scope = ? AND name = ?
