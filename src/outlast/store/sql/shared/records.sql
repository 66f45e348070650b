-- name: record_by_key
SELECT * FROM records WHERE key = ?

-- name: records_by_prefix
SELECT * FROM records WHERE id >= ? AND id < ? ORDER BY id LIMIT 6

-- name: records_of_scope
SELECT * FROM records WHERE scope = ? AND pending = 0 AND key < ? ORDER BY key DESC LIMIT ?

-- name: records_of_kind
SELECT * FROM records WHERE scope = ? AND kind = ? AND pending = 0 AND key < ? ORDER BY key DESC LIMIT ?

-- name: records_of_task
SELECT * FROM records WHERE scope = ? AND task = ? AND task <> '' AND pending = 0 AND key < ? ORDER BY key DESC LIMIT ?

-- name: pinned_records
SELECT * FROM records WHERE scope = ? AND pinned = 1 AND pending = 0 AND key < ? ORDER BY key DESC LIMIT ?

-- name: records_of_run
SELECT * FROM records WHERE run_id = ? AND run_id <> '' AND key < ? AND pending = 0 ORDER BY key DESC LIMIT ?

-- name: records_after_key
SELECT * FROM records WHERE key > ? ORDER BY key LIMIT ?

-- name: add_record
INSERT INTO records (id, scope, kind, text, refs, tags, source, run_id, task, at, stored_at, masked, pending, pinned,
                     pinned_by, proof)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
RETURNING key

-- name: add_record_tag
INSERT INTO record_tags (scope, tag, record) VALUES (?, ?, ?)

-- name: add_record_ref
INSERT INTO record_refs (ref, record) VALUES (?, ?)

-- name: tags_of_record
-- One that is kept under another scope is no tag that it is found by.
SELECT CASE scope WHEN ? THEN tag ELSE scope || ':' || tag END FROM record_tags WHERE record = ? ORDER BY tag

-- name: refs_of_record
SELECT ref FROM record_refs WHERE record = ? ORDER BY ref

-- name: pin_record
UPDATE records SET pinned = ?, pinned_by = ? WHERE key = ?

-- name: show_record
UPDATE records SET pending = 0 WHERE key = ? AND pending > 0 RETURNING scope

-- name: drop_record
DELETE FROM records WHERE key = ? AND pending > 0

-- name: drop_record_tags
DELETE FROM record_tags WHERE record = ?

-- name: drop_record_refs
DELETE FROM record_refs WHERE record = ?

-- name: pending_records
SELECT key FROM records WHERE run_id = ? AND run_id > '' AND pending > 0 AND pending < ?

-- name: abandoned_records
-- Of attempts that will never end: their run is not running, or has another owner since.
SELECT key FROM records
WHERE run_id > '' AND pending > 0 AND NOT EXISTS (
  SELECT 1 FROM runs JOIN chains ON chains.subject = 'run:' || runs.id
  WHERE runs.id = records.run_id AND runs.status = 'running' AND chains.epoch = records.pending)
