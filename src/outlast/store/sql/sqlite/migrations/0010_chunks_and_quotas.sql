-- Chunks: the digests of the parts of large content, in a blob of their own. And what the holders of keys have stored.

ALTER TABLE artifacts ADD COLUMN chunks TEXT NOT NULL DEFAULT '';

CREATE TABLE stored_by (
  number INTEGER PRIMARY KEY,
  blob   TEXT NOT NULL UNIQUE,
  key    TEXT NOT NULL,
  size   INTEGER NOT NULL CHECK (size >= 0)
) STRICT;
CREATE INDEX stored_by_key ON stored_by (key, size);
