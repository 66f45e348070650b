-- How far each target of notifications was told, and the process that tells it now.
CREATE TABLE told (
  number INTEGER PRIMARY KEY,
  target TEXT NOT NULL UNIQUE,
  state  TEXT NOT NULL,
  holder TEXT NOT NULL DEFAULT ''
) STRICT;
