-- name: session_of
SELECT key, scope, id, meta, actor, head, hash, memos, memo_hash, created_at, updated_at
FROM sessions WHERE scope = ? AND id = ?

-- name: newest_sessions
SELECT key, scope, id, meta, actor, head, hash, memos, memo_hash, created_at, updated_at
FROM sessions WHERE scope = ? AND (updated_at, key) < (?, ?) ORDER BY updated_at DESC, key DESC LIMIT ?

-- name: sessions_after_key
SELECT key, scope, id, meta, actor, head, hash, memos, memo_hash, created_at, updated_at
FROM sessions WHERE key > ? ORDER BY key LIMIT ?

-- name: add_session
INSERT INTO sessions (scope, id, meta, actor, head, hash, memo_hash, created_at, updated_at)
VALUES (?, ?, ?, ?, 0, ?, ?, ?, ?)

-- name: move_session
UPDATE sessions SET head = ?, hash = ?, updated_at = ? WHERE key = ? AND head = ?

-- name: move_memo
UPDATE sessions SET memos = ?, memo_hash = ?, updated_at = ? WHERE key = ? AND memos = ?

-- name: add_message
INSERT INTO messages (session, seq, role, content, digest, meta, run_id, actor, at, hash)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: messages_after
SELECT seq, role, content, digest, meta, run_id, actor, at, hash
FROM messages WHERE session = ? AND seq > ? ORDER BY seq LIMIT ?

-- name: messages_before
SELECT seq, role, content, digest, meta, run_id, actor, at, hash
FROM messages WHERE session = ? AND seq < ? ORDER BY seq DESC LIMIT ?

-- name: system_messages_after
SELECT seq, role, content, digest, meta, run_id, actor, at, hash
FROM messages WHERE session = ? AND role = 'system' AND seq > ? ORDER BY seq LIMIT ?

-- name: add_memo
INSERT INTO memos (session, version, upto, text, digest, actor, at, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- name: memos_after
SELECT version, upto, text, digest, actor, at, hash FROM memos WHERE session = ? AND version > ? ORDER BY version LIMIT ?

-- name: runs_of_session
SELECT id FROM runs WHERE session = ? AND session <> '' AND scope = ? ORDER BY key DESC

-- name: messages_without_session
SELECT DISTINCT session FROM messages
WHERE session > 0 AND NOT EXISTS (SELECT 1 FROM sessions WHERE key = messages.session)
ORDER BY session

-- name: memos_without_session
SELECT DISTINCT session FROM memos
WHERE session > 0 AND NOT EXISTS (SELECT 1 FROM sessions WHERE key = memos.session)
ORDER BY session
