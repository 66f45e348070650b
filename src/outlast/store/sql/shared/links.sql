-- name: link_by_key
SELECT * FROM links WHERE key = ?

-- name: link_by_id
SELECT * FROM links WHERE id = ?

-- name: link_between
SELECT * FROM links WHERE source = ? AND relation = ? AND target = ? AND pending = 0

-- name: links_to
SELECT * FROM links WHERE target = ? AND relation = ? AND pending = 0 AND key > ? ORDER BY key LIMIT ?

-- name: links_of_run
SELECT * FROM links WHERE run_id = ? AND run_id <> '' AND key < ? AND pending = 0 ORDER BY key DESC LIMIT ?

-- name: links_after_key
SELECT * FROM links WHERE key > ? ORDER BY key LIMIT ?

-- name: add_link
INSERT INTO links (id, scope, source, relation, target, note, by, run_id, stored_at, masked, pending, proof)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
RETURNING key

-- name: show_link
UPDATE links SET pending = 0 WHERE key = ? AND pending > 0 RETURNING scope

-- name: drop_link
DELETE FROM links WHERE key = ? AND pending > 0

-- name: pending_links
SELECT key FROM links WHERE run_id = ? AND run_id > '' AND pending > 0 AND pending < ?

-- name: abandoned_links
SELECT key FROM links
WHERE run_id > '' AND pending > 0 AND NOT EXISTS (
  SELECT 1 FROM runs JOIN chains ON chains.subject = 'run:' || runs.id
  WHERE runs.id = links.run_id AND runs.status = 'running' AND chains.epoch = links.pending)

-- name: add_shown
INSERT INTO workspace_shown (noun, scope, row) VALUES (?, ?, ?)

-- name: shown_of_scope
SELECT number, noun, scope, row FROM workspace_shown WHERE scope = ? AND number > ? ORDER BY number LIMIT ?

-- name: shown_after_number
SELECT number, noun, scope, row FROM workspace_shown WHERE number > ? ORDER BY number LIMIT ?

-- name: shown_row
SELECT number FROM workspace_shown WHERE noun = ? AND row = ?

-- name: checkpoint_by_key
SELECT * FROM checkpoints WHERE key = ?
