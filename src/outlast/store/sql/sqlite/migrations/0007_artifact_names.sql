-- The names of artifacts: what a list shows of each, and which numbers were given, also to saves that were dropped.

CREATE TABLE artifact_names (
  key     INTEGER PRIMARY KEY,
  scope   TEXT NOT NULL,
  name    TEXT NOT NULL,
  highest INTEGER NOT NULL CHECK (highest > 0),  -- version that was ever given, also to a save that was dropped
  newest  INTEGER NOT NULL DEFAULT 0,            -- key of the newest artifact that everybody sees; 0: there is none
  UNIQUE (scope, name)
) STRICT;
CREATE INDEX artifact_names_by_newest ON artifact_names (scope, newest) WHERE newest > 0;

CREATE TABLE artifact_dropped (              -- saves of attempts that did not succeed: their numbers were told
  key     INTEGER PRIMARY KEY,
  scope   TEXT NOT NULL,
  name    TEXT NOT NULL,
  version INTEGER NOT NULL,
  digest  TEXT NOT NULL,                     -- of the content: only for this is the number given again
  UNIQUE (scope, name, digest, version)
) STRICT;

INSERT INTO artifact_names (scope, name, highest, newest)
SELECT scope, name, max(version), coalesce(max(CASE WHEN pending = 0 THEN key END), 0) FROM artifacts GROUP BY scope, name;
