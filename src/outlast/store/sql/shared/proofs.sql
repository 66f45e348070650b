-- What each row that is no entry of a chain must say, and its proof. Every `rows_of_` reads rows after a key, with that key
-- first. How proofs are put is each database's own.

-- name: proofs_after
SELECT row, proof FROM proofs WHERE noun = ? AND row > ? ORDER BY row LIMIT ?

-- name: rows_of_runs
SELECT key, * FROM runs WHERE key > ? ORDER BY key LIMIT ?

-- name: rows_of_chains
-- Head and hash are proven by the chain, and move with every entry.
SELECT key, subject, epoch, holder FROM chains WHERE key > ? ORDER BY key LIMIT ?

-- name: rows_of_processes
-- Its signs of life follow each other; what it is does not change.
SELECT number, id, host, boot_id, pid_namespace, pid, started, lease_seconds, machine_id, shared FROM processes
WHERE number > ? ORDER BY number LIMIT ?

-- name: rows_of_claims
SELECT number, id, host, boot_id, pid_namespace, pid, started, lease_seconds, machine_id FROM claims
WHERE number > ? ORDER BY number LIMIT ?

-- name: rows_of_interrupts
SELECT key, * FROM interrupts WHERE key > ? ORDER BY key LIMIT ?

-- name: rows_of_inbox
SELECT key, * FROM inbox WHERE key > ? ORDER BY key LIMIT ?

-- name: rows_of_operations
SELECT number, * FROM operations WHERE number > ? ORDER BY number LIMIT ?

-- name: rows_of_deliveries
SELECT run, * FROM deliveries WHERE run > ? ORDER BY run LIMIT ?

-- name: rows_of_tombstones
SELECT number, * FROM tombstones WHERE number > ? ORDER BY number LIMIT ?

-- name: rows_of_anchors
SELECT key, * FROM anchors WHERE key > ? ORDER BY key LIMIT ?

-- name: rows_of_handoffs
SELECT key, * FROM handoffs WHERE key > ? ORDER BY key LIMIT ?

-- name: rows_of_signals
SELECT key, * FROM signals WHERE key > ? ORDER BY key LIMIT ?

-- name: rows_of_schedules
SELECT number, * FROM schedules WHERE number > ? ORDER BY number LIMIT ?

-- name: rows_of_acts
SELECT number, * FROM acts WHERE number > ? ORDER BY number LIMIT ?

-- name: rows_of_sessions
SELECT key, * FROM sessions WHERE key > ? ORDER BY key LIMIT ?

-- name: rows_of_tasks
SELECT key, * FROM tasks WHERE key > ? ORDER BY key LIMIT ?

-- name: rows_of_artifacts
-- What it says of itself has a proof of its own, in the row.
SELECT key, key, proof, pending, chunks FROM artifacts WHERE key > ? ORDER BY key LIMIT ?

-- name: rows_of_artifact_names
SELECT key, * FROM artifact_names WHERE key > ? ORDER BY key LIMIT ?

-- name: rows_of_artifact_dropped
SELECT key, * FROM artifact_dropped WHERE key > ? ORDER BY key LIMIT ?

-- name: rows_of_artifact_removed
SELECT key, * FROM artifact_removed WHERE key > ? ORDER BY key LIMIT ?

-- name: rows_of_checkpoints
SELECT key, id, proof FROM checkpoints WHERE key > ? ORDER BY key LIMIT ?

-- name: rows_of_records
SELECT key, id, proof, pending, pinned, pinned_by FROM records WHERE key > ? ORDER BY key LIMIT ?

-- name: rows_of_links
SELECT key, id, proof, pending FROM links WHERE key > ? ORDER BY key LIMIT ?

-- name: rows_of_stored_by
SELECT number, * FROM stored_by WHERE number > ? ORDER BY number LIMIT ?

-- name: rows_of_workspace_shown
SELECT number, * FROM workspace_shown WHERE number > ? ORDER BY number LIMIT ?
