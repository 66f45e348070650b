-- name: add_delivery
INSERT INTO deliveries (run, scope, task, receiver) VALUES (?, ?, ?, ?)

-- name: deliveries_of
SELECT r.id, d.receiver FROM deliveries d JOIN runs r ON r.key = d.run
WHERE d.scope = ? AND d.task = ? AND r.status = 'succeeded' AND r.updated_at >= ? ORDER BY d.run

-- name: is_undelivered
SELECT 1 FROM deliveries WHERE run = (SELECT key FROM runs WHERE id = ?)

-- name: set_receiver
UPDATE deliveries SET receiver = ? WHERE run = ? AND receiver <> ?

-- name: remove_delivery
DELETE FROM deliveries WHERE run = (SELECT key FROM runs WHERE id = ?)

-- name: forget_deliveries
DELETE FROM deliveries WHERE scope = ? AND task = ? AND run IN
  (SELECT r.key FROM deliveries d JOIN runs r ON r.key = d.run
   WHERE d.scope = ? AND d.task = ? AND r.status IN ('succeeded', 'aborted') AND r.updated_at < ?)
