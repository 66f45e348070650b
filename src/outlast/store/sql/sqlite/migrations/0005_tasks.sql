-- Tasks that a host opened: the state of each, and everything that happened to it. Events form a chain, whose end is in
-- the task's row.

CREATE TABLE tasks (
  key        INTEGER PRIMARY KEY,
  scope      TEXT NOT NULL,
  task       TEXT NOT NULL,
  state      TEXT NOT NULL CHECK (state IN ('active', 'paused', 'resumed', 'completed')),
  session    TEXT NOT NULL,                 -- for which it was opened last
  meta       TEXT NOT NULL,
  actor      TEXT NOT NULL,                 -- who moved it last
  opened_at  INTEGER NOT NULL,              -- or opened again
  updated_at INTEGER NOT NULL,
  head       INTEGER NOT NULL CHECK (head >= 0),  -- seq of the newest event
  hash       BLOB NOT NULL CHECK (length(hash) = 32),
  UNIQUE (scope, task)
) STRICT;
CREATE INDEX tasks_by_update ON tasks (scope, updated_at);
CREATE INDEX tasks_by_state ON tasks (scope, state, updated_at);

CREATE TABLE task_events (
  key    INTEGER PRIMARY KEY,
  task   INTEGER NOT NULL REFERENCES tasks (key),
  seq    INTEGER NOT NULL CHECK (seq > 0),
  kind   TEXT NOT NULL CHECK (kind IN ('opened', 'paused', 'resumed', 'completed', 'reopened', 'event')),
  name   TEXT NOT NULL,
  body   TEXT NOT NULL,                     -- JSON
  digest BLOB NOT NULL CHECK (length(digest) = 32),
  masked INTEGER NOT NULL,
  actor  TEXT NOT NULL,
  at     INTEGER NOT NULL,
  hash   BLOB NOT NULL CHECK (length(hash) = 32),
  UNIQUE (task, seq)
) STRICT;

CREATE INDEX runs_by_task ON runs (scope, task);
