-- name: artifact_at
SELECT * FROM artifacts WHERE scope = ? AND name = ? AND version = ?

-- name: artifact_by_key
SELECT * FROM artifacts WHERE key = ?

-- name: artifact_versions
SELECT * FROM artifacts WHERE scope = ? AND name = ? AND version < ? AND pending = 0 ORDER BY version DESC LIMIT ?

-- name: highest_version
SELECT highest FROM artifact_names WHERE scope = ? AND name = ?

-- name: existing_version
SELECT max(version) FROM artifacts WHERE scope = ? AND name = ?

-- name: dropped_version
SELECT min(version) FROM artifact_dropped WHERE scope = ? AND name = ? AND digest = ? AND version > ?

-- name: keep_dropped
INSERT INTO artifact_dropped (scope, name, version, digest) VALUES (?, ?, ?, ?)

-- name: forget_dropped
DELETE FROM artifact_dropped WHERE scope = ? AND name = ? AND digest = ? AND version = ?

-- name: raise_version
INSERT INTO artifact_names (scope, name, highest) VALUES (?, ?, ?)
ON CONFLICT (scope, name) DO UPDATE SET highest = excluded.highest WHERE artifact_names.highest < excluded.highest

-- name: raise_newest
UPDATE artifact_names SET newest = ? WHERE scope = ? AND name = ? AND newest < ?

-- name: artifact_of_digest
SELECT blob, codec, chunks FROM artifacts WHERE digest = ? ORDER BY key DESC LIMIT 1

-- name: artifacts_of_run
SELECT * FROM artifacts WHERE run_id = ? AND run_id <> '' AND key < ? AND pending = 0 ORDER BY key DESC LIMIT ?

-- name: artifacts_after_key
SELECT * FROM artifacts WHERE key > ? ORDER BY key LIMIT ?

-- name: add_artifact
INSERT INTO artifacts (scope, name, version, digest, size, media_type, summary, tags, source, run_id, stored_at, blob,
                       codec, pending, proof, chunks)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
RETURNING key

-- name: add_artifact_tag
INSERT INTO artifact_tags (scope, tag, artifact) VALUES (?, ?, ?)

-- name: tags_of_artifact
-- One that is kept under another scope is no tag that it is found by.
SELECT CASE scope WHEN ? THEN tag ELSE scope || ':' || tag END FROM artifact_tags WHERE artifact = ? ORDER BY tag

-- name: show_artifact
UPDATE artifacts SET pending = 0 WHERE key = ? AND pending > 0 RETURNING scope, name

-- name: drop_artifact
DELETE FROM artifacts WHERE key = ? AND pending > 0 RETURNING scope, name, version, digest

-- name: drop_artifact_tags
DELETE FROM artifact_tags WHERE artifact = ?

-- name: add_artifact_blob
INSERT INTO artifact_blobs (digest, artifact) VALUES (?, ?) ON CONFLICT DO NOTHING

-- name: drop_artifact_blobs
DELETE FROM artifact_blobs WHERE artifact = ?

-- name: pending_artifacts
SELECT key FROM artifacts WHERE run_id = ? AND run_id > '' AND pending > 0 AND pending < ?

-- name: abandoned_artifacts
-- Of attempts that will never end: their run is not running, or has another owner since.
SELECT key, blob, chunks FROM artifacts
WHERE run_id > '' AND pending > 0 AND NOT EXISTS (
  SELECT 1 FROM runs JOIN chains ON chains.subject = 'run:' || runs.id
  WHERE runs.id = artifacts.run_id AND runs.status = 'running' AND chains.epoch = artifacts.pending)

-- name: blobs_of_artifact
SELECT digest FROM artifact_blobs WHERE artifact = ? ORDER BY digest

-- name: artifacts_of_blob
SELECT artifact FROM artifact_blobs WHERE digest = ?

-- name: refs_without_artifact
SELECT DISTINCT artifact FROM artifact_blobs
WHERE artifact > ? AND NOT EXISTS (SELECT 1 FROM artifacts WHERE key = artifact_blobs.artifact)
ORDER BY artifact

-- name: older_versions
-- Versions that everybody sees and that are not the newest of their name.
SELECT artifacts.* FROM artifacts JOIN artifact_names USING (scope, name)
WHERE artifacts.key > ? AND artifacts.pending = 0 AND artifact_names.newest > artifacts.key
ORDER BY artifacts.key LIMIT ?

-- name: remove_artifact
DELETE FROM artifacts WHERE key = ? AND pending = 0 RETURNING key, scope, name, version, digest, size, stored_at

-- name: add_removed
INSERT INTO artifact_removed (key, scope, name, version, digest, size, stored_at, removed_at, by)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: removed_artifact
SELECT * FROM artifact_removed WHERE scope = ? AND name = ? AND version = ?

-- name: removed_before
SELECT * FROM artifact_removed WHERE scope = ? AND name = ? AND version < ? ORDER BY version DESC LIMIT 1

-- name: removed_by_key
SELECT * FROM artifact_removed WHERE key = ?
