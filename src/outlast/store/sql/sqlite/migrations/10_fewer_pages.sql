-- What is written together lies together: a commit writes whole pages, and much of what a small one takes is how many.
-- Proofs go by the number of their row, since rows of one piece of work have the same one or such as are near each other.
CREATE TEMP TABLE kept AS SELECT noun, row, proof FROM proofs;
DROP TABLE proofs;
CREATE TABLE proofs (
  noun  TEXT NOT NULL,                      -- the table
  row   INTEGER NOT NULL,                   -- its rowid there
  proof BLOB NOT NULL CHECK (length(proof) = 16),
  PRIMARY KEY (row, noun)
) WITHOUT ROWID, STRICT;
INSERT INTO proofs SELECT noun, row, proof FROM kept ORDER BY row, noun;
DROP TABLE kept;
-- The files that the newest revision of each anchor is about: all of it is in its key.
CREATE TEMP TABLE kept AS SELECT path, anchor FROM handoff_files;
DROP TABLE handoff_files;
CREATE TABLE handoff_files (
  path   TEXT NOT NULL,
  anchor INTEGER NOT NULL REFERENCES anchors (key),
  PRIMARY KEY (path, anchor)
) WITHOUT ROWID, STRICT;
INSERT INTO handoff_files SELECT path, anchor FROM kept ORDER BY path, anchor;
DROP TABLE kept;
CREATE INDEX handoff_files_by_anchor ON handoff_files (anchor);
