-- The index of one scope for recall: derived from the ledger, in a file of its own, rebuilt whenever it is missing.
-- A passage's id is made of its family, key and piece, so that an index built anew is the same as one that grew.

CREATE TABLE tally (passages INTEGER NOT NULL, words INTEGER NOT NULL, documents INTEGER NOT NULL) STRICT;
INSERT INTO tally VALUES (0, 0, 0);

CREATE TABLE marks (family TEXT PRIMARY KEY, key INTEGER NOT NULL) STRICT;
CREATE TABLE waiting (family TEXT NOT NULL, key INTEGER NOT NULL, PRIMARY KEY (family, key)) STRICT, WITHOUT ROWID;

CREATE TABLE streams (
    id INTEGER PRIMARY KEY, family TEXT NOT NULL, name TEXT NOT NULL,
    size INTEGER NOT NULL, last INTEGER NOT NULL, UNIQUE (family, name)
) STRICT;

CREATE TABLE voices (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, passages INTEGER NOT NULL) STRICT;
CREATE TABLE voice_words (word TEXT NOT NULL, voice INTEGER NOT NULL, PRIMARY KEY (word, voice)) STRICT, WITHOUT ROWID;

CREATE TABLE terms (term TEXT PRIMARY KEY, passages INTEGER NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE passages (
    id INTEGER PRIMARY KEY, starts INTEGER NOT NULL, ends INTEGER NOT NULL, kind TEXT NOT NULL,
    stream INTEGER NOT NULL, place INTEGER NOT NULL, voice INTEGER NOT NULL, said_by TEXT NOT NULL,
    day INTEGER, length INTEGER NOT NULL, asks INTEGER NOT NULL, words TEXT NOT NULL
) STRICT;
CREATE INDEX passages_in_streams ON passages (stream, place);
CREATE INDEX passages_by_day ON passages (day) WHERE day IS NOT NULL;

CREATE VIRTUAL TABLE found USING fts5 (
    words, said_by, content = 'passages', content_rowid = 'id', tokenize = 'unicode61 remove_diacritics 0'
);
