-- name: add_entry
INSERT INTO journal (chain, seq, header, hash, payload) VALUES (?, ?, ?, ?, ?)

-- name: journal_of
SELECT seq, header, hash, payload FROM journal WHERE chain = ? AND seq > ? ORDER BY seq LIMIT ?

-- name: entry_of
SELECT seq, header, hash, payload FROM journal WHERE chain = ? AND seq = ?

-- name: journals_of_nothing
SELECT DISTINCT chain FROM journal
WHERE chain > 0 AND NOT EXISTS (SELECT 1 FROM runs WHERE key = journal.chain)
  AND NOT EXISTS (SELECT 1 FROM anchors WHERE key = journal.chain)
ORDER BY chain

-- name: add_blob_ref
INSERT INTO blob_refs (digest, chain, seq) VALUES (?, ?, ?) ON CONFLICT DO NOTHING

-- name: blob_refs_of
SELECT DISTINCT digest FROM blob_refs WHERE chain = ?
