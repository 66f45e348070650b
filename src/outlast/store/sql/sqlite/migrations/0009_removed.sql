-- Versions of artifacts that gc removed: their refs were told, so that they stay names of what was.

CREATE TABLE artifact_removed (
  key        INTEGER PRIMARY KEY,           -- the artifact's, which is never given again
  scope      TEXT NOT NULL,
  name       TEXT NOT NULL,
  version    INTEGER NOT NULL,
  digest     TEXT NOT NULL,
  size       INTEGER NOT NULL,
  stored_at  INTEGER NOT NULL,
  removed_at INTEGER NOT NULL,
  by         TEXT NOT NULL,
  UNIQUE (scope, name, version)
) STRICT;
