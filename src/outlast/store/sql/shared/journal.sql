-- name: add_entry
INSERT INTO journal (run, seq, header, hash, payload) VALUES (?, ?, ?, ?, ?)

-- name: journal_of
SELECT seq, header, hash, payload FROM journal WHERE run = ? AND seq > ? ORDER BY seq LIMIT ?

-- name: entry_of
SELECT seq, header, hash, payload FROM journal WHERE run = ? AND seq = ?

-- name: journals_without_run
SELECT DISTINCT run FROM journal
WHERE run > 0 AND NOT EXISTS (SELECT 1 FROM runs WHERE key = journal.run)
ORDER BY run

-- name: add_blob_ref
INSERT INTO blob_refs (digest, run, seq) VALUES (?, ?, ?) ON CONFLICT DO NOTHING

-- name: blob_refs_of
SELECT DISTINCT digest FROM blob_refs WHERE run = ?
