-- name: stored_bytes_of
SELECT coalesce(sum(size), 0) FROM stored_by WHERE key = ?

-- name: note_stored
INSERT INTO stored_by (blob, key, size) VALUES (?, ?, ?) ON CONFLICT (blob) DO NOTHING

-- name: add_stored
INSERT INTO stored_by (blob, key, size) VALUES (?, ?, ?)
ON CONFLICT (blob) DO UPDATE SET size = stored_by.size + excluded.size

-- name: forget_stored
DELETE FROM stored_by WHERE blob = ?
