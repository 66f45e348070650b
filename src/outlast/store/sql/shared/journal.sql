-- name: add_entry
INSERT INTO journal (chain, seq, header, hash, payload) VALUES (?, ?, ?, ?, ?)

-- name: journal_of
SELECT seq, header, hash, payload FROM journal WHERE chain = ? AND seq > ? ORDER BY seq LIMIT ?

-- name: headers_of
SELECT seq, header FROM journal WHERE chain = ? AND seq > ? ORDER BY seq LIMIT ?

-- name: entries_named
SELECT seq, header, hash, payload FROM journal WHERE chain = ? AND header >= ? AND header < ? ORDER BY seq

-- name: entry_of
SELECT seq, header, hash, payload FROM journal WHERE chain = ? AND seq = ?

-- name: newest_entry
SELECT coalesce(max(key), 0) FROM journal

-- name: entries_between
-- Of every chain, in the order in which they were written, each with its run; an entry of a handoff has none.
SELECT journal.key, journal.seq, header, hash, payload, coalesce(runs.key, 0), coalesce(runs.id, ''),
       coalesce(runs.scope, ''), coalesce(runs.flow, ''), coalesce(runs.identity, ''), coalesce(runs.task, ''),
       coalesce(runs.trace_id, '')
FROM journal LEFT JOIN runs ON runs.key = journal.chain
WHERE journal.key > ? AND journal.key <= ? ORDER BY journal.key LIMIT ?

-- name: headers_between
-- Of every chain, the newest first, each with the run or the anchor that it is of.
SELECT journal.key, header, coalesce(runs.scope, anchors.scope, ''), coalesce(runs.id, ''), coalesce(runs.flow, ''),
       coalesce(anchors.anchor, '')
FROM journal LEFT JOIN runs ON runs.key = journal.chain LEFT JOIN anchors ON anchors.key = journal.chain
WHERE journal.key > ? AND journal.key < ? ORDER BY journal.key DESC

-- name: payload_at
SELECT payload FROM journal WHERE key = ?

-- name: journals_of_nothing
SELECT DISTINCT chain FROM journal
WHERE chain > 0 AND NOT EXISTS (SELECT 1 FROM runs WHERE key = journal.chain)
  AND NOT EXISTS (SELECT 1 FROM anchors WHERE key = journal.chain)
ORDER BY chain

-- name: add_blob_ref
INSERT INTO blob_refs (digest, chain, seq) VALUES (?, ?, ?) ON CONFLICT DO NOTHING

-- name: blob_refs_of
SELECT DISTINCT digest FROM blob_refs WHERE chain = ?
