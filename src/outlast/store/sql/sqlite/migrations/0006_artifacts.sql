-- The workspace: artifacts, which are content with a ref, and checkpoints, which are named boundaries. What a row says
-- of itself is proven by its proof. A blob that an artifact needs is in blob_refs under run 0, with the artifact's key.

CREATE TABLE artifacts (
  key        INTEGER PRIMARY KEY,
  scope      TEXT NOT NULL,
  name       TEXT NOT NULL,
  version    INTEGER NOT NULL CHECK (version > 0),
  digest     TEXT NOT NULL,                 -- of the content
  size       INTEGER NOT NULL CHECK (size >= 0),
  media_type TEXT NOT NULL,
  summary    TEXT NOT NULL,
  tags       TEXT NOT NULL,                 -- JSON
  source     TEXT NOT NULL,                 -- JSON: who, in which run and step
  run_id     TEXT NOT NULL DEFAULT '',
  stored_at  INTEGER NOT NULL,
  blob       TEXT NOT NULL,                 -- the name of what is stored: the digest of the content, or of its packed form
  codec      TEXT NOT NULL CHECK (codec IN ('raw', 'zlib')),
  pending    INTEGER NOT NULL DEFAULT 0,    -- epoch of the attempt that saved it and is not over; 0: everybody sees it
  proof      BLOB NOT NULL CHECK (length(proof) = 32),
  UNIQUE (scope, name, version)
) STRICT;
CREATE INDEX artifacts_by_scope ON artifacts (scope);
CREATE INDEX artifacts_by_digest ON artifacts (digest);
CREATE INDEX artifacts_by_run ON artifacts (run_id) WHERE run_id <> '';
CREATE INDEX artifacts_pending ON artifacts (run_id, pending) WHERE pending > 0;

CREATE TABLE artifact_tags (
  scope    TEXT NOT NULL,
  tag      TEXT NOT NULL,
  artifact INTEGER NOT NULL REFERENCES artifacts (key),
  PRIMARY KEY (scope, tag, artifact)
) STRICT;
CREATE INDEX artifact_tags_by_artifact ON artifact_tags (artifact);

CREATE TABLE checkpoints (
  key      INTEGER PRIMARY KEY,
  id       TEXT NOT NULL UNIQUE,
  scope    TEXT NOT NULL,
  task     TEXT NOT NULL,
  run_id   TEXT NOT NULL DEFAULT '',
  name     TEXT NOT NULL,
  summary  TEXT NOT NULL,
  refs     TEXT NOT NULL,                   -- JSON
  state    TEXT NOT NULL,                   -- JSON: the run's state then
  phase    TEXT NOT NULL DEFAULT '',
  position INTEGER NOT NULL,                -- seq in the run's journal; 0 without a run
  actor    TEXT NOT NULL,
  at       INTEGER NOT NULL,
  proof    BLOB NOT NULL CHECK (length(proof) = 32)
) STRICT;
CREATE INDEX checkpoints_by_scope ON checkpoints (scope);
CREATE INDEX checkpoints_of_task ON checkpoints (scope, task);
CREATE INDEX checkpoints_of_run ON checkpoints (run_id) WHERE run_id <> '';
