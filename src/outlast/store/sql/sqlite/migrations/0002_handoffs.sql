-- Handoffs: an anchor and its revisions. Their content is in the journal, under the negative of anchors.key.

CREATE TABLE anchors (
  key        INTEGER PRIMARY KEY,
  id         TEXT NOT NULL UNIQUE,          -- the lease's subject is handoff:<id>
  scope      TEXT NOT NULL,
  anchor     TEXT NOT NULL,
  status     TEXT NOT NULL CHECK (status IN ('open', 'finished')),
  outcome    TEXT NOT NULL DEFAULT ''       -- how it was last settled
               CHECK (outcome IN ('', 'completed', 'failed', 'released')),
  revision   INTEGER NOT NULL,              -- the newest one
  newest     INTEGER NOT NULL,              -- handoffs.key of it: orders anchors by what was stored last
  branch     TEXT NOT NULL DEFAULT '',
  root       TEXT NOT NULL DEFAULT '',      -- where its files were looked at
  symbol     TEXT NOT NULL DEFAULT '',
  score      INTEGER NOT NULL,
  stored_at  INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  arrived    INTEGER NOT NULL DEFAULT 0     -- the last entry that came by import; 0 when all was written here
               CHECK (arrived >= 0),
  UNIQUE (scope, anchor)
) STRICT;
CREATE INDEX anchors_by_status ON anchors (scope, status, newest);
CREATE INDEX anchors_by_branch ON anchors (scope, branch, newest) WHERE status = 'open' AND branch <> '';
CREATE INDEX anchors_by_expiry ON anchors (scope, expires_at) WHERE status = 'open';

CREATE TABLE handoffs (
  key        INTEGER PRIMARY KEY,
  id         TEXT NOT NULL UNIQUE,
  anchor     INTEGER NOT NULL REFERENCES anchors (key),
  revision   INTEGER NOT NULL CHECK (revision > 0),
  seq        INTEGER NOT NULL,              -- of its entry in the anchor's journal
  supersedes TEXT NOT NULL DEFAULT '',      -- the id of a handoff that this one replaces
  UNIQUE (anchor, revision)
) STRICT;
CREATE INDEX handoffs_by_superseded ON handoffs (supersedes) WHERE supersedes <> '';

-- The files that the newest revision of each anchor is about.
CREATE TABLE handoff_files (
  path   TEXT NOT NULL,
  anchor INTEGER NOT NULL REFERENCES anchors (key),
  PRIMARY KEY (path, anchor)
) STRICT;
CREATE INDEX handoff_files_by_anchor ON handoff_files (anchor);
