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
ON CONFLICT (scope, name) DO UPDATE SET highest = max(highest, excluded.highest)

-- name: raise_newest
UPDATE artifact_names SET newest = max(newest, ?3) WHERE scope = ?1 AND name = ?2

-- name: artifact_of_digest
SELECT blob, codec, chunks FROM artifacts WHERE digest = ? ORDER BY key DESC LIMIT 1

-- name: artifacts_of_scope
SELECT one.* FROM artifact_names AS named CROSS JOIN artifacts AS one ON one.key = named.newest
WHERE named.scope = ? AND named.newest < ? AND named.newest > 0 ORDER BY named.newest DESC LIMIT ?

-- name: artifacts_of_prefix
SELECT one.* FROM artifact_names AS named CROSS JOIN artifacts AS one ON one.key = named.newest
WHERE named.scope = ? AND named.name >= ? AND named.name < ? AND +named.newest < ? ORDER BY +named.newest DESC LIMIT ?

-- name: artifacts_of_tag
SELECT one.* FROM artifact_tags AS tagged CROSS JOIN artifacts AS one ON one.key = tagged.artifact
CROSS JOIN artifact_names AS named ON named.scope = one.scope AND named.name = one.name AND named.newest = one.key
WHERE tagged.scope = ? AND tagged.tag = ? AND tagged.artifact < ?
ORDER BY tagged.artifact DESC LIMIT ?

-- name: artifacts_of_run
SELECT * FROM artifacts WHERE run_id = ? AND run_id <> '' AND key < ? AND pending = 0 ORDER BY key DESC LIMIT ?

-- name: artifacts_after_key
SELECT * FROM artifacts WHERE key > ? ORDER BY key LIMIT ?

-- name: count_artifacts
SELECT (SELECT count(*) FROM artifacts INDEXED BY artifacts_by_scope),
       (SELECT count(*) FROM artifacts WHERE run_id > '' AND pending > 0)

-- name: add_artifact
INSERT INTO artifacts (scope, name, version, digest, size, media_type, summary, tags, source, run_id, stored_at, blob,
                       codec, pending, proof, chunks)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
RETURNING key

-- name: add_artifact_tag
INSERT INTO artifact_tags (scope, tag, artifact) VALUES (?, ?, ?)

-- name: tags_of_artifact
-- One that is kept under another scope is no tag that it is found by.
SELECT CASE scope WHEN ?2 THEN tag ELSE scope || ':' || tag END FROM artifact_tags WHERE artifact = ?1 ORDER BY tag

-- name: show_artifact
UPDATE artifacts SET pending = 0 WHERE key = ? AND pending > 0 RETURNING scope, name

-- name: drop_artifact
DELETE FROM artifacts WHERE key = ? AND pending > 0 RETURNING scope, name, version, digest

-- name: drop_artifact_tags
DELETE FROM artifact_tags WHERE artifact = ?

-- name: drop_artifact_ref
DELETE FROM blob_refs WHERE run = 0 AND seq = ?

-- name: pending_artifacts
SELECT key FROM artifacts WHERE run_id = ? AND run_id > '' AND pending > 0 AND pending < ?

-- name: abandoned_artifacts
-- Of attempts that will never end: their run is not running, or has another owner since.
SELECT key, blob, chunks FROM artifacts
WHERE run_id > '' AND pending > 0 AND NOT EXISTS (
  SELECT 1 FROM runs JOIN leases ON leases.subject = 'run:' || runs.id
  WHERE runs.id = artifacts.run_id AND runs.status = 'running' AND leases.epoch = artifacts.pending)

-- name: artifact_refs_of
SELECT digest FROM blob_refs WHERE run = 0 AND seq = ? ORDER BY digest

-- name: artifacts_of_blob
SELECT seq FROM blob_refs WHERE digest = ? AND run = 0

-- name: refs_without_artifact
SELECT DISTINCT seq FROM blob_refs
WHERE run = 0 AND seq > ? AND NOT EXISTS (SELECT 1 FROM artifacts WHERE key = blob_refs.seq)
ORDER BY seq

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
