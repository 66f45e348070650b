-- Durable runs: the first schema.

CREATE TABLE runs (
  key           INTEGER PRIMARY KEY,
  id            TEXT NOT NULL UNIQUE,
  scope         TEXT NOT NULL,
  flow          TEXT NOT NULL,              -- where a process finds it: module:name, file.py:name; or script:name
  task          TEXT NOT NULL,
  inputs        TEXT NOT NULL,
  inputs_digest TEXT NOT NULL,
  status        TEXT NOT NULL CHECK (status IN
                  ('running', 'waiting', 'failed', 'interrupted', 'crashed', 'succeeded', 'aborted')),
  phase         TEXT NOT NULL DEFAULT '',
  result        TEXT,
  error         TEXT,
  parent        TEXT NOT NULL DEFAULT '',
  session       TEXT NOT NULL DEFAULT '',
  trace_id      TEXT NOT NULL DEFAULT '',
  meta          TEXT NOT NULL DEFAULT '{}',
  actor         TEXT NOT NULL,
  created_at    INTEGER NOT NULL,
  updated_at    INTEGER NOT NULL,
  mark          INTEGER NOT NULL DEFAULT 0, -- seq of the newest entry from which a resume can start reading
  seal          TEXT NOT NULL DEFAULT ''    -- why nobody may continue it here
                  CHECK (seal IN ('', 'moved', 'copy', 'testimony'))
) STRICT;

-- A task has at most one unfinished run per flow: two starters meet in one run.
CREATE UNIQUE INDEX one_unfinished_run ON runs (scope, task, flow)
  WHERE status NOT IN ('succeeded', 'aborted') AND seal IN ('', 'moved');
CREATE INDEX runs_by_status ON runs (status, key);
CREATE INDEX runs_by_parent ON runs (parent) WHERE parent <> '';

-- One row per worker process, renewed by its heartbeat.
CREATE TABLE processes (
  id            TEXT PRIMARY KEY,
  host          TEXT NOT NULL,
  boot_id       TEXT NOT NULL,
  pid_namespace TEXT NOT NULL,
  pid           INTEGER NOT NULL,
  started       INTEGER NOT NULL,
  boot_us       INTEGER NOT NULL,
  wall_us       INTEGER NOT NULL,
  lease_seconds REAL NOT NULL
) STRICT;

-- Who may continue what. The epoch fences: every commit compares it. Head and hash end the run's chain.
CREATE TABLE leases (
  key     INTEGER PRIMARY KEY,
  subject TEXT NOT NULL UNIQUE,             -- run:<id>
  epoch   INTEGER NOT NULL CHECK (epoch >= 0),
  head    INTEGER NOT NULL CHECK (head >= 0),
  hash    BLOB NOT NULL CHECK (length(hash) = 32),
  holder  TEXT
) STRICT;
CREATE INDEX leases_by_holder ON leases (holder) WHERE holder IS NOT NULL;

-- The append-only, chained journal of every run. Receipts are its entries about steps and effects.
CREATE TABLE journal (
  key     INTEGER PRIMARY KEY,
  run     INTEGER NOT NULL,                 -- runs.key; the lease, compared in each commit, proves it
  seq     INTEGER NOT NULL CHECK (seq > 0),
  header  BLOB NOT NULL,                    -- JSON, hashed as it stands
  hash    BLOB NOT NULL CHECK (length(hash) = 32),
  payload BLOB                              -- JSON; its digest is in the header
) STRICT;
CREATE UNIQUE INDEX journal_in_order ON journal (run, seq);

CREATE TABLE interrupts (
  key         INTEGER PRIMARY KEY,
  id          TEXT NOT NULL UNIQUE,
  run         INTEGER NOT NULL REFERENCES runs (key),
  type        TEXT NOT NULL,
  call        TEXT NOT NULL,                -- JSON of the call that waits
  step        TEXT NOT NULL,                -- its name for people
  payload     TEXT NOT NULL,
  status      TEXT NOT NULL CHECK (status IN ('open', 'answered', 'used', 'cancelled')),
  answer      TEXT,
  answered_by TEXT NOT NULL DEFAULT '',
  opened_at   INTEGER NOT NULL,
  due_at      INTEGER,
  form        TEXT NOT NULL DEFAULT '{}',   -- JSON: what an answer must look like, a default, who is asked
  reason      TEXT NOT NULL DEFAULT ''      -- why it was cancelled
) STRICT;
CREATE INDEX interrupts_by_run ON interrupts (run, status);
CREATE INDEX interrupts_waiting ON interrupts (status, key) WHERE status IN ('open', 'answered');
CREATE UNIQUE INDEX one_wait_per_call ON interrupts (run, call) WHERE status IN ('open', 'answered');

-- What outsiders ask of a run; the owner, or the next one, takes it under its epoch.
CREATE TABLE inbox (
  key     INTEGER PRIMARY KEY,
  run     INTEGER NOT NULL REFERENCES runs (key),
  kind    TEXT NOT NULL CHECK (kind IN ('retry', 'skip', 'pause', 'rewind')),
  body    TEXT NOT NULL,
  actor   TEXT NOT NULL,
  sent_at INTEGER NOT NULL,
  taken   INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX inbox_untaken ON inbox (run, key) WHERE taken = 0;
CREATE INDEX inbox_by_run ON inbox (run);

-- Writes that carried an operation_id: an exact repeat gets the first answer.
CREATE TABLE operations (
  id     TEXT PRIMARY KEY,
  kind   TEXT NOT NULL,
  digest TEXT NOT NULL,
  answer TEXT NOT NULL,
  at     INTEGER NOT NULL
) STRICT;

-- Runs that were removed to make room: that they were, and where their chains ended.
CREATE TABLE tombstones (
  id         TEXT PRIMARY KEY,
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
CREATE INDEX tombstones_unswept ON tombstones (key) WHERE swept = 0;

CREATE TABLE blob_refs (
  digest TEXT NOT NULL,
  run    INTEGER NOT NULL,
  seq    INTEGER NOT NULL,
  PRIMARY KEY (digest, run, seq)
) STRICT;
CREATE INDEX blob_refs_by_run ON blob_refs (run, seq);
