-- name: find_keys
-- A row where a key was ever made, and whether their table is still there.
SELECT EXISTS (SELECT 1 FROM pg_class WHERE relnamespace = pg_namespace.oid AND relname = 'keys')
FROM pg_namespace WHERE nspname = ?

-- name: make_keys
-- In a schema of its own: who may ask, of every tenant.
CREATE TABLE IF NOT EXISTS keys (
  id           text COLLATE "C" PRIMARY KEY,
  print        text NOT NULL,
  tenant       text NOT NULL,
  actor        text NOT NULL,
  roles        text NOT NULL,
  scopes       text NOT NULL,
  created_at   bigint NOT NULL,
  expires_at   bigint NOT NULL DEFAULT 0,
  last_used_at bigint NOT NULL DEFAULT 0,
  revoked_at   bigint NOT NULL DEFAULT 0,
  proof        bytea NOT NULL
)

-- name: all_keys
SELECT id, print, tenant, actor, roles, scopes, created_at, expires_at, last_used_at, revoked_at, proof FROM keys ORDER BY created_at, id COLLATE "C"
