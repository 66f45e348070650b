-- name: add_lease
INSERT INTO leases (subject, epoch, head, hash, holder) VALUES (?, 1, 0, ?, ?) RETURNING key

-- name: lease_of
SELECT key, epoch, head, hash, holder FROM leases WHERE subject = ?

-- name: leases_of_runs
SELECT leases.key, epoch, head, hash, holder
FROM json_each(?) AS wanted LEFT JOIN leases ON subject = 'run:' || wanted.value ORDER BY wanted.key

-- name: leases_without_run
SELECT substr(subject, 5) FROM leases
WHERE subject > 'run:' AND subject < 'run;' AND NOT EXISTS (SELECT 1 FROM runs WHERE id = substr(subject, 5))
ORDER BY subject

-- name: take_lease
UPDATE leases SET epoch = epoch + 1, holder = ? WHERE key = ? AND epoch = ?

-- name: release_lease
UPDATE leases SET holder = NULL, epoch = epoch + 1 WHERE key = ? AND epoch = ?

-- name: advance_lease
UPDATE leases SET head = ?, hash = ? WHERE key = ? AND epoch = ? AND head = ?

-- name: add_process
INSERT INTO processes (id, host, boot_id, pid_namespace, pid, started, machine_id, boot_us, wall_us, lease_seconds)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET boot_us = excluded.boot_us, wall_us = excluded.wall_us

-- name: process
SELECT id, host, boot_id, pid_namespace, machine_id, pid, started, boot_us, wall_us, lease_seconds, shared
FROM processes WHERE id = ?

-- name: runs_held_by
SELECT r.id FROM leases l JOIN runs r ON r.id = substr(l.subject, 5)
WHERE l.holder = ? AND l.subject > 'run:' AND l.subject < 'run;' AND r.status = 'running'

-- name: note_shared
UPDATE processes SET shared = 1 WHERE id = ?

-- name: forget_process
DELETE FROM processes WHERE id = ? AND NOT EXISTS (SELECT 1 FROM leases WHERE holder = processes.id)

-- name: forget_silent_processes
DELETE FROM processes WHERE wall_us < ? AND NOT EXISTS (SELECT 1 FROM leases WHERE holder = processes.id)

-- name: count_processes
-- A claim has a row of its own for its signs of life, and is no process: what it holds is not being executed.
SELECT count(*) FROM processes
WHERE NOT EXISTS (SELECT 1 FROM leases l
                  WHERE l.holder = processes.id
                    AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = substr(l.subject, 5) AND r.status = 'running'))
