-- name: make_keys
-- In a file of its own, keys.db: who may ask, of every tenant. Not part of schema.sql, which is one tenant's ledger.
CREATE TABLE IF NOT EXISTS keys (
  id           TEXT PRIMARY KEY,
  print        TEXT NOT NULL,              -- SHA-256 of the secret, which is kept nowhere
  tenant       TEXT NOT NULL,
  actor        TEXT NOT NULL,
  roles        TEXT NOT NULL,              -- a JSON list
  scopes       TEXT NOT NULL,              -- a JSON list of those that it is bound to; empty: all
  created_at   INTEGER NOT NULL,           -- microseconds, as all times; 0: never
  expires_at   INTEGER NOT NULL DEFAULT 0,
  last_used_at INTEGER NOT NULL DEFAULT 0,
  revoked_at   INTEGER NOT NULL DEFAULT 0,
  proof        BLOB NOT NULL               -- of all of it but last_used_at
) STRICT

-- name: add_key
INSERT INTO keys (id, print, tenant, actor, roles, scopes, created_at, expires_at, last_used_at, revoked_at, proof)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: any_key
SELECT id, print, tenant, actor, roles, scopes, created_at, expires_at, last_used_at, revoked_at, proof FROM keys LIMIT 1

-- name: key_by_id
SELECT id, print, tenant, actor, roles, scopes, created_at, expires_at, last_used_at, revoked_at, proof FROM keys WHERE id = ?

-- name: all_keys
SELECT id, print, tenant, actor, roles, scopes, created_at, expires_at, last_used_at, revoked_at, proof FROM keys ORDER BY created_at, id

-- name: revoke_key
UPDATE keys SET revoked_at = ?, proof = ? WHERE id = ? AND revoked_at = 0

-- name: use_key
UPDATE keys SET last_used_at = ? WHERE id = ?
