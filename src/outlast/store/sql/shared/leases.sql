-- name: add_chain
-- The key is one that no chain ever had, also none whose journal is still being swept away.
INSERT INTO chains (key, subject, epoch, head, hash, holder)
VALUES ((SELECT 1 + coalesce(max(key), 0)
         FROM (SELECT max(key) AS key FROM chains UNION ALL SELECT max(key) FROM tombstones) AS used),
        ?, ?, ?, ?, ?) RETURNING key

-- name: lease_of
SELECT key, epoch, head, hash, holder FROM chains WHERE subject = ?

-- name: leases_without_run
SELECT substr(subject, 5) FROM chains
WHERE subject > 'run:' AND subject < 'run;' AND NOT EXISTS (SELECT 1 FROM runs WHERE id = substr(subject, 5))
ORDER BY subject

-- name: take_lease
UPDATE chains SET epoch = epoch + 1, holder = ? WHERE key = ? AND epoch = ?

-- name: release_lease
UPDATE chains SET holder = NULL, epoch = epoch + 1 WHERE key = ? AND epoch = ?

-- name: advance_lease
UPDATE chains SET head = ?, hash = ? WHERE key = ? AND epoch = ? AND head = ?

-- name: add_process
INSERT INTO processes (id, host, boot_id, pid_namespace, pid, started, machine_id, boot_us, wall_us, lease_seconds)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET boot_us = excluded.boot_us, wall_us = excluded.wall_us

-- name: beaten_at
SELECT boot_us FROM processes WHERE id = ?

-- name: beat_of
-- Of a process, or of a claim.
SELECT id, host, boot_id, pid_namespace, machine_id, pid, started, boot_us, wall_us, lease_seconds, shared
FROM processes WHERE id = ?
UNION ALL
SELECT id, host, boot_id, pid_namespace, machine_id, pid, started, boot_us, wall_us, lease_seconds, 0 FROM claims
WHERE id = ?

-- name: add_claim
INSERT INTO claims (id, host, boot_id, pid_namespace, pid, started, machine_id, boot_us, wall_us, lease_seconds)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET boot_us = excluded.boot_us, wall_us = excluded.wall_us

-- name: forget_claim
DELETE FROM claims WHERE id = ? AND NOT EXISTS (SELECT 1 FROM chains WHERE holder = claims.id)

-- name: forget_silent_claims
DELETE FROM claims WHERE wall_us < ? AND NOT EXISTS (SELECT 1 FROM chains WHERE holder = claims.id)

-- name: runs_held_by
SELECT r.id FROM chains l JOIN runs r ON r.id = substr(l.subject, 5)
WHERE l.holder = ? AND l.subject > 'run:' AND l.subject < 'run;' AND r.status = 'running'

-- name: held_by
-- With how much is asked of anybody's runs: one question, for it is asked twenty times a second.
SELECT key, epoch, (SELECT count(*) FROM inbox WHERE taken = 0) FROM chains WHERE holder = ?

-- name: note_shared
UPDATE processes SET shared = 1 WHERE id = ?

-- name: forget_process
DELETE FROM processes WHERE id = ? AND NOT EXISTS (SELECT 1 FROM chains WHERE holder = processes.id)

-- name: forget_silent_processes
DELETE FROM processes WHERE wall_us < ? AND NOT EXISTS (SELECT 1 FROM chains WHERE holder = processes.id)

-- name: count_processes
SELECT count(*) FROM processes
