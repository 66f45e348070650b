-- Sessions: conversations. Messages and memos form a chain each, whose ends are in the session's row.

CREATE TABLE sessions (
  key        INTEGER PRIMARY KEY,
  scope      TEXT NOT NULL,
  id         TEXT NOT NULL,
  meta       TEXT NOT NULL,
  actor      TEXT NOT NULL,
  head       INTEGER NOT NULL CHECK (head >= 0),  -- seq of the newest message: how many there are
  hash       BLOB NOT NULL CHECK (length(hash) = 32),
  memos      INTEGER NOT NULL DEFAULT 0 CHECK (memos >= 0),  -- version of the newest memo
  memo_hash  BLOB NOT NULL CHECK (length(memo_hash) = 32),
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  UNIQUE (scope, id)
) STRICT;
CREATE INDEX sessions_by_update ON sessions (scope, updated_at);

CREATE TABLE messages (
  key     INTEGER PRIMARY KEY,
  session INTEGER NOT NULL REFERENCES sessions (key),
  seq     INTEGER NOT NULL CHECK (seq > 0),
  role    TEXT NOT NULL,
  content TEXT NOT NULL,                    -- JSON
  digest  BLOB NOT NULL CHECK (length(digest) = 32),
  meta    TEXT NOT NULL,
  run_id  TEXT NOT NULL,
  actor   TEXT NOT NULL,
  at      INTEGER NOT NULL,
  hash    BLOB NOT NULL CHECK (length(hash) = 32),
  UNIQUE (session, seq)
) STRICT;
CREATE INDEX system_messages ON messages (session, seq) WHERE role = 'system';

-- What stands for the messages up to a seq. The newest version counts; older ones stay.
CREATE TABLE memos (
  key     INTEGER PRIMARY KEY,
  session INTEGER NOT NULL REFERENCES sessions (key),
  version INTEGER NOT NULL CHECK (version > 0),
  upto    INTEGER NOT NULL CHECK (upto >= 0),
  text    TEXT NOT NULL,                    -- JSON
  digest  BLOB NOT NULL CHECK (length(digest) = 32),
  actor   TEXT NOT NULL,
  at      INTEGER NOT NULL,
  hash    BLOB NOT NULL CHECK (length(hash) = 32),
  UNIQUE (session, version)
) STRICT;

CREATE INDEX runs_by_session ON runs (session) WHERE session <> '';
