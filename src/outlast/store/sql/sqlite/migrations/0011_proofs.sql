-- Rows that are no entries of a chain, and what each of them said when it was written last. A row that is gone leaves
-- its proof behind.

CREATE TABLE proofs (
  noun  TEXT NOT NULL,                      -- the table
  row   INTEGER NOT NULL,                   -- its rowid there
  proof BLOB NOT NULL CHECK (length(proof) = 16),
  PRIMARY KEY (noun, row)
) WITHOUT ROWID, STRICT;

-- These had no number of their own that VACUUM leaves as it is.

ALTER TABLE processes RENAME TO old_processes;
CREATE TABLE processes (
  number        INTEGER PRIMARY KEY,
  id            TEXT NOT NULL UNIQUE,
  host          TEXT NOT NULL,
  boot_id       TEXT NOT NULL,
  pid_namespace TEXT NOT NULL,
  pid           INTEGER NOT NULL,
  started       INTEGER NOT NULL,
  boot_us       INTEGER NOT NULL,
  wall_us       INTEGER NOT NULL,
  lease_seconds REAL NOT NULL
) STRICT;
INSERT INTO processes (id, host, boot_id, pid_namespace, pid, started, boot_us, wall_us, lease_seconds)
SELECT id, host, boot_id, pid_namespace, pid, started, boot_us, wall_us, lease_seconds FROM old_processes;
DROP TABLE old_processes;

ALTER TABLE operations RENAME TO old_operations;
CREATE TABLE operations (
  number INTEGER PRIMARY KEY,
  id     TEXT NOT NULL UNIQUE,
  kind   TEXT NOT NULL,
  digest TEXT NOT NULL,
  answer TEXT NOT NULL,
  at     INTEGER NOT NULL
) STRICT;
INSERT INTO operations (id, kind, digest, answer, at)
SELECT id, kind, digest, answer, at FROM old_operations;
DROP TABLE old_operations;

ALTER TABLE tombstones RENAME TO old_tombstones;
CREATE TABLE tombstones (
  number     INTEGER PRIMARY KEY,
  id         TEXT NOT NULL UNIQUE,
  key        INTEGER NOT NULL UNIQUE,       -- runs.key of the run, which no other run is ever given
  scope      TEXT NOT NULL,
  flow       TEXT NOT NULL,
  task       TEXT NOT NULL,
  status     TEXT NOT NULL,
  head       INTEGER NOT NULL,
  hash       BLOB NOT NULL CHECK (length(hash) = 32),
  created_at INTEGER NOT NULL,
  ended_at   INTEGER NOT NULL,
  removed_at INTEGER NOT NULL,
  removed_by TEXT NOT NULL,
  swept      INTEGER NOT NULL DEFAULT 0     -- 1 once nothing of its journal is left
) STRICT;
INSERT INTO tombstones (id, key, scope, flow, task, status, head, hash, created_at, ended_at, removed_at, removed_by, swept)
SELECT id, key, scope, flow, task, status, head, hash, created_at, ended_at, removed_at, removed_by, swept FROM old_tombstones;
DROP TABLE old_tombstones;
CREATE INDEX tombstones_unswept ON tombstones (key) WHERE swept = 0;
