-- What people did that no journal has: to schedules, queues, limits, keys, targets of notifications, and runs that are gone.
CREATE TABLE acts (
  number  INTEGER PRIMARY KEY,
  entry   INTEGER NOT NULL,
  at      INTEGER NOT NULL,
  actor   TEXT NOT NULL,
  host    TEXT NOT NULL,
  door    TEXT NOT NULL,
  scope   TEXT NOT NULL,
  noun    TEXT NOT NULL CHECK (noun IN ('run', 'schedule', 'queue', 'limit', 'key', 'target')),
  name    TEXT NOT NULL,
  verb    TEXT NOT NULL,
  changes TEXT NOT NULL,
  done    INTEGER NOT NULL CHECK (done IN (0, 1))
) STRICT;
CREATE INDEX acts_in_order ON acts (entry, number);
