-- Runs that a `run` call began and whose outcome nobody has received: it is given once to the next equal call.
CREATE TABLE deliveries (
  run      INTEGER PRIMARY KEY REFERENCES runs (key),
  scope    TEXT NOT NULL,
  task     TEXT NOT NULL,
  receiver TEXT NOT NULL                    -- the process that is about to be given it; '' when none is
) STRICT;
CREATE INDEX deliveries_by_task ON deliveries (scope, task);
