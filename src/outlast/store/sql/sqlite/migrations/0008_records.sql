-- Records, links between whatever has a ref, and the order in which everybody came to see what is in the workspace.

CREATE TABLE records (
  key       INTEGER PRIMARY KEY AUTOINCREMENT,  -- never given twice: others remember it
  id        TEXT NOT NULL UNIQUE,
  scope     TEXT NOT NULL,
  kind      TEXT NOT NULL CHECK (kind IN ('observation', 'decision', 'evidence', 'note')),
  text      TEXT NOT NULL,
  refs      TEXT NOT NULL,                  -- JSON: what it is about
  tags      TEXT NOT NULL,                  -- JSON
  source    TEXT NOT NULL,                  -- JSON: who, in which run and step
  run_id    TEXT NOT NULL DEFAULT '',
  task      TEXT NOT NULL DEFAULT '',
  at        INTEGER NOT NULL,               -- when it was so
  stored_at INTEGER NOT NULL,
  masked    TEXT NOT NULL,                  -- JSON: paths of what was masked
  pending   INTEGER NOT NULL DEFAULT 0,     -- epoch of the attempt that made it and is not over; 0: everybody sees it
  pinned    INTEGER NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1)),
  pinned_by TEXT NOT NULL DEFAULT '',       -- who pinned it, or took the pin away
  proof     BLOB NOT NULL CHECK (length(proof) = 32)  -- of what it says; whether it is seen or pinned is no part of that
) STRICT;
CREATE INDEX records_by_scope ON records (scope) WHERE pending = 0;
CREATE INDEX records_by_kind ON records (scope, kind) WHERE pending = 0;
CREATE INDEX records_by_task ON records (scope, task) WHERE pending = 0 AND task <> '';
CREATE INDEX records_by_run ON records (run_id) WHERE run_id <> '';
CREATE INDEX records_pinned ON records (scope, pinned) WHERE pending = 0 AND pinned = 1;
CREATE INDEX records_pending ON records (run_id, pending) WHERE pending > 0;

CREATE TABLE record_tags (
  scope  TEXT NOT NULL,
  tag    TEXT NOT NULL,
  record INTEGER NOT NULL REFERENCES records (key),
  PRIMARY KEY (scope, tag, record)
) STRICT;
CREATE INDEX record_tags_by_record ON record_tags (record);

CREATE TABLE record_refs (
  ref    TEXT NOT NULL,
  record INTEGER NOT NULL REFERENCES records (key),
  PRIMARY KEY (ref, record)
) STRICT;
CREATE INDEX record_refs_by_record ON record_refs (record);

CREATE TABLE links (
  key       INTEGER PRIMARY KEY AUTOINCREMENT,
  id        TEXT NOT NULL UNIQUE,
  scope     TEXT NOT NULL,                  -- of who made it; its ends may be of others
  source    TEXT NOT NULL,                  -- a ref
  relation  TEXT NOT NULL CHECK (relation IN ('supports', 'contradicts', 'derived_from', 'supersedes', 'produced_by')),
  target    TEXT NOT NULL,                  -- a ref
  note      TEXT NOT NULL,
  by        TEXT NOT NULL,                  -- JSON: who, in which run and step
  run_id    TEXT NOT NULL DEFAULT '',
  stored_at INTEGER NOT NULL,
  masked    TEXT NOT NULL,
  pending   INTEGER NOT NULL DEFAULT 0,
  proof     BLOB NOT NULL CHECK (length(proof) = 32)
) STRICT;
CREATE UNIQUE INDEX one_link ON links (source, relation, target) WHERE pending = 0;
CREATE INDEX links_by_source ON links (source, relation) WHERE pending = 0;
CREATE INDEX links_by_target ON links (target, relation) WHERE pending = 0;
CREATE INDEX links_by_run ON links (run_id) WHERE run_id <> '';
CREATE INDEX links_pending ON links (run_id, pending) WHERE pending > 0;

CREATE TABLE workspace_shown (
  number INTEGER PRIMARY KEY AUTOINCREMENT,  -- without holes: a missing row is noticed
  noun   TEXT NOT NULL CHECK (noun IN ('artifact', 'checkpoint', 'record', 'link')),
  scope  TEXT NOT NULL,
  row    INTEGER NOT NULL,                  -- its key in the table of that noun
  UNIQUE (noun, row)
) STRICT;
CREATE INDEX workspace_shown_by_scope ON workspace_shown (scope);

INSERT INTO workspace_shown (noun, scope, row) SELECT 'artifact', scope, key FROM artifacts WHERE pending = 0 ORDER BY key;
INSERT INTO workspace_shown (noun, scope, row) SELECT 'checkpoint', scope, key FROM checkpoints ORDER BY key;
