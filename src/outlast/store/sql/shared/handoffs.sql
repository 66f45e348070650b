-- name: anchor_of
SELECT key, id, scope, anchor, status, outcome, revision, newest, branch, root, symbol, score, stored_at, expires_at,
       arrived
FROM anchors WHERE scope = ? AND anchor = ?

-- name: anchor_by_key
SELECT key, id, scope, anchor, status, outcome, revision, newest, branch, root, symbol, score, stored_at, expires_at,
       arrived
FROM anchors WHERE key = ?

-- name: anchor_by_id
SELECT key, id, scope, anchor, status, outcome, revision, newest, branch, root, symbol, score, stored_at, expires_at,
       arrived
FROM anchors WHERE id = ?

-- name: newest_anchors
SELECT key, id, scope, anchor, status, outcome, revision, newest, branch, root, symbol, score, stored_at, expires_at,
       arrived
FROM anchors WHERE scope = ? AND status = ? AND newest < ? ORDER BY newest DESC LIMIT ?

-- name: anchors_after_key
SELECT key, id, scope, anchor, status, outcome, revision, newest, branch, root, symbol, score, stored_at, expires_at,
       arrived
FROM anchors WHERE key > ? ORDER BY key LIMIT ?

-- name: expired_anchors
SELECT key, id, scope, anchor, status, outcome, revision, newest, branch, root, symbol, score, stored_at, expires_at,
       arrived
FROM anchors WHERE scope = ? AND status = 'open' AND expires_at <= ? AND (expires_at < ? OR key < ?)
ORDER BY expires_at DESC, key DESC LIMIT ?

-- name: anchors_of_branch
SELECT key, id, scope, anchor, status, outcome, revision, newest, branch, root, symbol, score, stored_at, expires_at,
       arrived
FROM anchors WHERE scope = ? AND branch = ? AND status = 'open' AND branch <> '' AND newest < ?
ORDER BY newest DESC LIMIT ?

-- name: anchors_of_file
SELECT a.key, a.id, a.scope, a.anchor, a.status, a.outcome, a.revision, a.newest, a.branch, a.root, a.symbol, a.score,
       a.stored_at, a.expires_at, a.arrived
FROM handoff_files f JOIN anchors a ON a.key = f.anchor
WHERE f.path = ? AND a.scope = ? AND a.status = 'open' ORDER BY a.newest DESC LIMIT ?

-- name: anchors_before
SELECT anchor FROM anchors WHERE scope = ? AND anchor < ? ORDER BY anchor DESC LIMIT ?

-- name: anchors_from
SELECT anchor FROM anchors WHERE scope = ? AND anchor >= ? ORDER BY anchor LIMIT ?

-- name: count_anchors
SELECT status, count(*) FROM anchors GROUP BY status

-- name: add_anchor
-- Its first revision comes in the same commit and says what it is found by: until then it is the last in every order,
-- so that no other page of an index is written for it.
INSERT INTO anchors (key, id, scope, anchor, status, revision, newest, score, stored_at, expires_at)
VALUES (?, ?, ?, ?, 'open', 0, 9223372036854775807, 0, 0, 253402300799999999)
RETURNING key, id, scope, anchor, status, outcome, revision, newest, branch, root, symbol, score, stored_at, expires_at,
          arrived

-- name: set_anchor
UPDATE anchors SET status = 'open', revision = ?, newest = ?, branch = ?, root = ?, symbol = ?, score = ?,
                   stored_at = ?, expires_at = ?
WHERE key = ?

-- name: settle_anchor
UPDATE anchors SET status = ?, outcome = ? WHERE key = ?

-- name: mark_anchor_arrived
UPDATE anchors SET arrived = ? WHERE key = ?

-- name: add_handoff
INSERT INTO handoffs (id, anchor, revision, seq, supersedes) VALUES (?, ?, ?, ?, ?) RETURNING key

-- name: forget_handoff_files
DELETE FROM handoff_files WHERE anchor = ?

-- name: add_handoff_file
INSERT INTO handoff_files (path, anchor) VALUES (?, ?) ON CONFLICT DO NOTHING

-- name: handoffs_by_prefix
SELECT key, id, anchor, revision, seq, supersedes FROM handoffs WHERE id >= ? AND id < ? ORDER BY id LIMIT 6

-- name: handoff_at
SELECT key, id, anchor, revision, seq, supersedes FROM handoffs WHERE anchor = ? AND revision = ?

-- name: handoffs_of
SELECT key, id, anchor, revision, seq, supersedes FROM handoffs WHERE anchor = ? ORDER BY revision

-- name: handoffs_after_key
SELECT key, id, anchor, revision, seq, supersedes FROM handoffs WHERE key > ? ORDER BY key LIMIT ?

-- name: handoff_superseding
SELECT key, id, anchor, revision, seq, supersedes FROM handoffs WHERE supersedes = ? AND supersedes <> ''
ORDER BY key DESC LIMIT 1

-- name: files_of_anchor
SELECT path FROM handoff_files WHERE anchor = ? ORDER BY path

-- name: leases_without_anchor
SELECT substr(subject, 9) FROM chains
WHERE subject > 'handoff:' AND subject < 'handoff;' AND NOT EXISTS (SELECT 1 FROM anchors WHERE id = substr(subject, 9))
ORDER BY subject

-- name: handoffs_without_anchor
SELECT DISTINCT anchor FROM handoffs
WHERE anchor > 0 AND NOT EXISTS (SELECT 1 FROM anchors WHERE key = handoffs.anchor)
ORDER BY anchor
