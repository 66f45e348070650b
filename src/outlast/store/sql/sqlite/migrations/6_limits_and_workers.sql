-- Until when a queued run waits to be taken; 0: for ever.
ALTER TABLE queue_entries ADD COLUMN expires_at INTEGER NOT NULL DEFAULT 0;
CREATE INDEX queue_by_end ON queue_entries (expires_at) WHERE expires_at > 0;

-- By when a run is to be done, as its flow said when it last began or went on.
CREATE TABLE run_deadlines (
  run INTEGER PRIMARY KEY REFERENCES runs (key),
  at  INTEGER NOT NULL
) STRICT;

-- What steps of all runs share, such as an API.
CREATE TABLE limits (
  number    INTEGER PRIMARY KEY,
  name      TEXT NOT NULL UNIQUE,
  most      INTEGER NOT NULL CHECK (most >= 0),
  rate      INTEGER NOT NULL CHECK (rate >= 0),
  window_us INTEGER NOT NULL,
  set_by    TEXT NOT NULL,
  set_at    INTEGER NOT NULL
) STRICT;

-- Steps under way that hold a slot of a limit, or wait for one.
CREATE TABLE limit_slots (
  number INTEGER PRIMARY KEY,
  name   TEXT NOT NULL,
  holder TEXT NOT NULL,
  run_id TEXT NOT NULL,
  step   TEXT NOT NULL,
  state  TEXT NOT NULL CHECK (state IN ('waiting', 'held')),
  since  INTEGER NOT NULL
) STRICT;
CREATE INDEX limit_slots_by_name ON limit_slots (name, state, number);
CREATE INDEX limit_slots_by_run ON limit_slots (run_id);

-- Workers at work, each with the process that it is in.
CREATE TABLE workers (
  number  INTEGER PRIMARY KEY,
  id      TEXT NOT NULL UNIQUE,
  process TEXT NOT NULL,
  about   TEXT NOT NULL,
  since   INTEGER NOT NULL
) STRICT;
