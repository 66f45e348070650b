-- A run may be queued. Only the text of a check changes, which every row fulfils: SQLite's own way for that.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, '''running'', ''waiting'', ''failed''', '''queued'', ''running'', ''waiting'', ''failed''')
WHERE type = 'table' AND name = 'runs';
PRAGMA writable_schema = RESET;

CREATE TABLE queues (
  number    INTEGER PRIMARY KEY,
  name      TEXT NOT NULL UNIQUE,
  paused    INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
  paused_by TEXT NOT NULL DEFAULT '',
  paused_at INTEGER NOT NULL DEFAULT 0,
  served    TEXT NOT NULL DEFAULT ''
) STRICT;

CREATE TABLE queue_entries (
  run       INTEGER PRIMARY KEY REFERENCES runs (key),
  queue     TEXT NOT NULL,
  lane      TEXT NOT NULL,
  priority  INTEGER NOT NULL,
  due_at    INTEGER NOT NULL,
  most      INTEGER NOT NULL CHECK (most >= 0),
  rate      INTEGER NOT NULL CHECK (rate >= 0),
  window_us INTEGER NOT NULL,
  state     TEXT NOT NULL CHECK (state IN ('delayed', 'ready', 'taken', 'idle')),
  added_at  INTEGER NOT NULL
) STRICT;
CREATE INDEX queue_in_order ON queue_entries (queue, priority, lane, run) WHERE state = 'ready';
CREATE INDEX queue_by_time ON queue_entries (due_at) WHERE state = 'delayed';
CREATE INDEX queue_by_lane ON queue_entries (lane) WHERE state = 'taken';
CREATE INDEX queue_by_state ON queue_entries (queue, state, added_at);

CREATE TABLE queue_begun (
  number INTEGER PRIMARY KEY,
  lane   TEXT NOT NULL,
  at     INTEGER NOT NULL
) STRICT;
CREATE INDEX queue_begun_by_lane ON queue_begun (lane, at);

CREATE TABLE schedules (
  number   INTEGER PRIMARY KEY,
  scope    TEXT NOT NULL,
  name     TEXT NOT NULL,
  flow     TEXT NOT NULL,
  inputs   TEXT NOT NULL,
  cron     TEXT NOT NULL,
  timezone TEXT NOT NULL,
  missed   TEXT NOT NULL CHECK (missed IN ('once', 'all', 'skip')),
  queue    TEXT NOT NULL,
  paused   INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
  made_by  TEXT NOT NULL,
  made_at  INTEGER NOT NULL,
  next_at  INTEGER NOT NULL,
  UNIQUE (scope, name)
) STRICT;
CREATE INDEX schedules_by_time ON schedules (next_at) WHERE paused = 0;
