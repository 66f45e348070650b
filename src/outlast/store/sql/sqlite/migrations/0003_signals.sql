-- Messages from outside to a run, or to whatever run of a task comes to wait for them.

CREATE TABLE signals (
  key     INTEGER PRIMARY KEY,
  id      TEXT NOT NULL UNIQUE,
  scope   TEXT NOT NULL,
  task    TEXT NOT NULL DEFAULT '',         -- one of these two is set
  run     INTEGER NOT NULL DEFAULT 0,       -- runs.key
  name    TEXT NOT NULL,
  body    TEXT NOT NULL,
  actor   TEXT NOT NULL,
  sent_at INTEGER NOT NULL,
  taken   TEXT NOT NULL DEFAULT ''          -- the interrupt that it answered
) STRICT;
CREATE INDEX signals_of_task ON signals (scope, task, name, key) WHERE taken = '' AND task <> '';
CREATE INDEX signals_of_run ON signals (run, name, key) WHERE taken = '' AND run <> 0;
CREATE INDEX signals_taken ON signals (taken) WHERE taken <> '';
