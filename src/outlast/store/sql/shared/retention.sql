-- name: kin_of_status
SELECT r.key, r.id, r.scope, r.flow, r.task, r.status, r.parent, r.updated_at, r.seal, l.holder, l.head, r.identity
FROM runs r LEFT JOIN chains l ON l.subject = 'run:' || r.id
WHERE r.status = ? AND r.key < ? ORDER BY r.key DESC LIMIT ?

-- name: weight_of
SELECT (SELECT count(*) FROM journal WHERE chain = r.key),
       (SELECT coalesce(sum(octet_length(header) + coalesce(octet_length(payload), 0)), 0)
        FROM journal WHERE chain = r.key),
       octet_length(r.inputs) + coalesce(octet_length(r.result), 0) + coalesce(octet_length(r.error), 0),
       (SELECT count(*) FROM interrupts WHERE run = r.key) + (SELECT count(*) FROM inbox WHERE run = r.key)
FROM runs r WHERE r.key = ?

-- name: entry_sizes
SELECT seq, octet_length(header) + coalesce(octet_length(payload), 0) FROM journal
WHERE chain = ? AND seq > ? ORDER BY seq LIMIT ?

-- name: chains_of_blob
SELECT DISTINCT chain FROM blob_refs WHERE digest = ?

-- name: blobs_between
SELECT digest FROM blob_refs WHERE digest >= ? AND digest < ?
UNION SELECT digest FROM artifact_blobs WHERE digest >= ? AND digest < ?

-- name: bury_run
INSERT INTO tombstones (id, key, scope, flow, task, status, head, hash, created_at, ended_at, removed_at, removed_by,
                        named, inputs_digest, result, error, identity, source, worktree)
SELECT r.id, r.key, r.scope, r.flow, r.task, r.status, l.head, l.hash, r.created_at, r.updated_at, ?, ?,
       ?, r.inputs_digest, ?, ?, r.identity, r.source, r.worktree
FROM runs r JOIN chains l ON l.subject = 'run:' || r.id WHERE r.key = ?
ON CONFLICT (id) DO UPDATE SET
  key = excluded.key, status = excluded.status, head = excluded.head, hash = excluded.hash, swept = 0,
  ended_at = excluded.ended_at, removed_at = excluded.removed_at, removed_by = excluded.removed_by,
  named = CASE WHEN tombstones.named > excluded.named THEN tombstones.named ELSE excluded.named END,
  inputs_digest = excluded.inputs_digest, result = excluded.result, error = excluded.error, identity = excluded.identity, source = excluded.source, worktree = excluded.worktree

-- name: remove_interrupts
DELETE FROM interrupts WHERE key IN (SELECT key FROM interrupts WHERE run = ? LIMIT ?)

-- name: remove_requests
DELETE FROM inbox WHERE key IN (SELECT key FROM inbox WHERE run = ? LIMIT ?)

-- name: remove_lease
DELETE FROM chains WHERE subject = ?

-- name: remove_run
DELETE FROM runs WHERE key = ?

-- name: unswept
SELECT key, id FROM tombstones WHERE swept = 0 ORDER BY key

-- name: remove_entries
DELETE FROM journal WHERE chain = ? AND seq > ? AND seq <= ?

-- name: remove_blob_refs
DELETE FROM blob_refs WHERE chain = ? AND seq > ? AND seq <= ?

-- name: mark_swept
UPDATE tombstones SET swept = 1 WHERE key = ?

-- name: tombstones_by_prefix
SELECT id, flow, task, status, ended_at, removed_at, removed_by FROM tombstones
WHERE id >= ? AND id < ? ORDER BY id LIMIT 6

-- name: holders
-- Of runs that are being executed. Who only claimed a run or a handoff is silent between two uses of the claim.
SELECT id, host, boot_id, pid_namespace, machine_id, pid, started, boot_us, wall_us, lease_seconds, shared FROM processes
WHERE EXISTS (SELECT 1 FROM chains l JOIN runs r ON r.id = substr(l.subject, 5)
              WHERE l.holder = processes.id AND l.subject > 'run:' AND l.subject < 'run;' AND r.status = 'running')
