-- Small content that is committed together with the entry that refers to it, and takes no file of its own.
CREATE TABLE contents (
  digest  TEXT PRIMARY KEY CHECK (length(digest) = 64),
  content BLOB NOT NULL
) STRICT;
