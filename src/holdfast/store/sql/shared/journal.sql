-- name: add_entry
INSERT INTO journal (run, seq, header, hash, payload) VALUES (?, ?, ?, ?, ?)

-- name: journal_of
SELECT seq, header, hash, payload FROM journal WHERE run = ? AND seq > ? ORDER BY seq LIMIT ?

-- name: add_blob_ref
INSERT INTO blob_refs (digest, run, seq) VALUES (?, ?, ?) ON CONFLICT DO NOTHING

-- name: blob_refs_of
SELECT DISTINCT digest FROM blob_refs WHERE run = ?
