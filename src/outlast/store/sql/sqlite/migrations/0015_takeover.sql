-- What tells a reboot of the same machine from another machine, and whether a dead process did several runs' work. Signs
-- of life are not taken over: who lives gives the next one within seconds.

DELETE FROM proofs WHERE noun = 'processes';
DROP TABLE processes;
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
  lease_seconds REAL NOT NULL,
  machine_id    TEXT NOT NULL DEFAULT '',
  shared        INTEGER NOT NULL DEFAULT 0
) STRICT;
