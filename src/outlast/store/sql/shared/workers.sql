-- name: add_worker
INSERT INTO workers (id, process, about, since) VALUES (?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET about = excluded.about

-- name: all_workers
SELECT id, process, about, since FROM workers ORDER BY number

-- name: drop_worker
DELETE FROM workers WHERE id = ?
