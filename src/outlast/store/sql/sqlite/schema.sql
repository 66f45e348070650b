-- The whole model on one page: version 1. What later versions add to it are numbered migrations.

CREATE TABLE runs (
  key           INTEGER PRIMARY KEY,        -- that of its chain
  id            TEXT NOT NULL UNIQUE,
  scope         TEXT NOT NULL,
  flow          TEXT NOT NULL,              -- as it began: module:name, file.py:name; or script:name
  task          TEXT NOT NULL,
  inputs        TEXT NOT NULL,
  inputs_digest TEXT NOT NULL,
  status        TEXT NOT NULL CHECK (status IN
                  ('running', 'waiting', 'failed', 'interrupted', 'crashed', 'succeeded', 'aborted')),
  phase         TEXT NOT NULL DEFAULT '',
  result        TEXT,
  error         TEXT,
  parent        TEXT NOT NULL DEFAULT '',
  session       TEXT NOT NULL DEFAULT '',
  trace_id      TEXT NOT NULL DEFAULT '',
  meta          TEXT NOT NULL DEFAULT '{}',
  actor         TEXT NOT NULL,
  created_at    INTEGER NOT NULL,
  updated_at    INTEGER NOT NULL,
  mark          INTEGER NOT NULL DEFAULT 0, -- seq of the newest entry from which a resume can start reading
  seal          TEXT NOT NULL DEFAULT ''    -- why nobody may continue it here
                  CHECK (seal IN ('', 'moved', 'copy', 'testimony')),
  named         INTEGER NOT NULL DEFAULT 0  -- 1 when a caller gave the task its name: then it happens once
                  CHECK (named IN (0, 1)),
  identity      TEXT NOT NULL DEFAULT '',   -- what its flow is known by in every place: name:, flow:, module:, file:
  source        TEXT NOT NULL DEFAULT '',   -- where a process finds it since it last went on
  worktree      TEXT NOT NULL DEFAULT ''    -- the linked work tree of git's that it belongs to
) STRICT;

-- A task has at most one unfinished run per flow: two starters meet in one run.
CREATE UNIQUE INDEX one_unfinished_run ON runs (scope, task, identity)
  WHERE status NOT IN ('succeeded', 'aborted') AND seal IN ('', 'moved');
CREATE INDEX unfinished_by_flow ON runs (scope, identity, key)
  WHERE status NOT IN ('succeeded', 'aborted') AND seal IN ('', 'moved');
CREATE INDEX runs_by_status ON runs (status, key);
CREATE INDEX runs_by_parent ON runs (parent) WHERE parent <> '';
CREATE INDEX finished_by_name ON runs (scope, task, key)
  WHERE named = 1 AND status IN ('succeeded', 'aborted') AND seal IN ('', 'moved');

-- One row per worker process, renewed by its heartbeat.
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
  machine_id    TEXT NOT NULL DEFAULT '',   -- the same over reboots
  shared        INTEGER NOT NULL DEFAULT 0  -- 1: it died while several of its runs were at work
) STRICT;

-- Claims, by the words that their claimers show: signs of life as those of processes, renewed by use.
CREATE TABLE claims (
  number        INTEGER PRIMARY KEY,
  id            TEXT NOT NULL UNIQUE,
  host          TEXT NOT NULL,
  boot_id       TEXT NOT NULL,
  pid_namespace TEXT NOT NULL,
  machine_id    TEXT NOT NULL,
  pid           INTEGER NOT NULL,           -- of whom the claim is bound to; 0: only time ends it
  started       INTEGER NOT NULL,
  boot_us       INTEGER NOT NULL,
  wall_us       INTEGER NOT NULL,
  lease_seconds REAL NOT NULL
) STRICT;

-- Chains: what happened to a run or an anchor, entry after entry, under one key that both it and its journal have. Head
-- and hash are the chain's end. Who may lengthen it holds its lease; the epoch fences: every commit compares it.
CREATE TABLE chains (
  key     INTEGER PRIMARY KEY,              -- never given again, also not while a removed run's journal is swept away
  subject TEXT NOT NULL UNIQUE,             -- run:<id>, handoff:<id>
  epoch   INTEGER NOT NULL CHECK (epoch >= 0),
  head    INTEGER NOT NULL CHECK (head >= 0),
  hash    BLOB NOT NULL CHECK (length(hash) = 32),
  holder  TEXT
) STRICT;
CREATE INDEX chains_by_holder ON chains (holder) WHERE holder IS NOT NULL;

-- The append-only journal of every chain. Receipts are its entries about steps and effects.
CREATE TABLE journal (
  key     INTEGER PRIMARY KEY,
  chain   INTEGER NOT NULL,                 -- chains.key; the lease, compared in each commit, proves it
  seq     INTEGER NOT NULL CHECK (seq > 0),
  header  BLOB NOT NULL,                    -- JSON, hashed as it stands
  hash    BLOB NOT NULL CHECK (length(hash) = 32),
  payload BLOB                              -- JSON; its digest is in the header
) STRICT;
CREATE UNIQUE INDEX journal_in_order ON journal (chain, seq);

CREATE TABLE interrupts (
  key         INTEGER PRIMARY KEY,
  id          TEXT NOT NULL UNIQUE,
  run         INTEGER NOT NULL REFERENCES runs (key),
  type        TEXT NOT NULL,
  call        TEXT NOT NULL,                -- JSON of the call that waits
  step        TEXT NOT NULL,                -- its name for people
  payload     TEXT NOT NULL,
  status      TEXT NOT NULL CHECK (status IN ('open', 'answered', 'used', 'cancelled')),
  answer      TEXT,
  answered_by TEXT NOT NULL DEFAULT '',
  opened_at   INTEGER NOT NULL,
  due_at      INTEGER,
  form        TEXT NOT NULL DEFAULT '{}',   -- JSON: what an answer must look like, a default, who is asked
  reason      TEXT NOT NULL DEFAULT ''      -- why it was cancelled
) STRICT;
CREATE INDEX interrupts_by_run ON interrupts (run, status);
CREATE INDEX interrupts_waiting ON interrupts (status, key) WHERE status IN ('open', 'answered');
CREATE UNIQUE INDEX one_wait_per_call ON interrupts (run, call) WHERE status IN ('open', 'answered');

-- What outsiders ask of a run; the owner, or the next one, takes it under its epoch.
CREATE TABLE inbox (
  key     INTEGER PRIMARY KEY,
  run     INTEGER NOT NULL REFERENCES runs (key),
  kind    TEXT NOT NULL CHECK (kind IN ('retry', 'skip', 'pause', 'rewind')),
  body    TEXT NOT NULL,
  actor   TEXT NOT NULL,
  sent_at INTEGER NOT NULL,
  taken   INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX inbox_untaken ON inbox (run, key) WHERE taken = 0;
CREATE INDEX inbox_by_run ON inbox (run);

-- Writes that carried an operation_id: an exact repeat gets the first answer.
CREATE TABLE operations (
  number INTEGER PRIMARY KEY,
  id     TEXT NOT NULL UNIQUE,
  kind   TEXT NOT NULL,
  digest TEXT NOT NULL,
  answer TEXT NOT NULL,
  at     INTEGER NOT NULL
) STRICT;
CREATE INDEX operations_by_run ON operations (answer) WHERE kind = 'run_start';

-- Runs that a `run` call began and whose outcome nobody has received: it is given once to the next equal call.
CREATE TABLE deliveries (
  run      INTEGER PRIMARY KEY REFERENCES runs (key),
  scope    TEXT NOT NULL,
  task     TEXT NOT NULL,
  receiver TEXT NOT NULL                    -- the process that is about to be given it; '' when none is
) STRICT;
CREATE INDEX deliveries_by_task ON deliveries (scope, task);

-- Runs that were removed to make room: that they were, and where their chains ended. Of a named task this is what makes
-- it happen once, for ever.
CREATE TABLE tombstones (
  number     INTEGER PRIMARY KEY,
  id         TEXT NOT NULL UNIQUE,
  key        INTEGER NOT NULL UNIQUE,       -- runs.key of the run, which no other run is ever given
  scope      TEXT NOT NULL,
  flow       TEXT NOT NULL,
  task       TEXT NOT NULL,
  status     TEXT NOT NULL,
  head       INTEGER NOT NULL,
  hash       BLOB NOT NULL CHECK (length(hash) = 32),
  created_at INTEGER NOT NULL,
  ended_at   INTEGER NOT NULL,
  removed_at INTEGER NOT NULL,
  removed_by TEXT NOT NULL,
  swept      INTEGER NOT NULL DEFAULT 0,    -- 1 once nothing of its journal is left
  named      INTEGER NOT NULL DEFAULT 0     -- 1 for a run of a named task that lived here
               CHECK (named IN (0, 1)),
  inputs_digest TEXT NOT NULL DEFAULT '',
  result     TEXT NOT NULL DEFAULT '',      -- digest of its result
  error      TEXT,                          -- of an aborted one, JSON: whether it was declined
  identity   TEXT NOT NULL DEFAULT '',      -- this and the two that follow: as of its run
  source     TEXT NOT NULL DEFAULT '',
  worktree   TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX tombstones_unswept ON tombstones (key) WHERE swept = 0;
CREATE INDEX tombstones_by_name ON tombstones (scope, task, key) WHERE named = 1;

-- The blobs that entries need.
CREATE TABLE blob_refs (
  digest TEXT NOT NULL,
  chain  INTEGER NOT NULL,
  seq    INTEGER NOT NULL,
  PRIMARY KEY (digest, chain, seq)
) STRICT;
CREATE INDEX blob_refs_by_chain ON blob_refs (chain, seq);

-- Handoffs: an anchor and its revisions. Their content is in the journal of the anchor's chain.

CREATE TABLE anchors (
  key        INTEGER PRIMARY KEY,           -- that of its chain
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

-- Messages from outside to a run, or to whatever run of a task comes to wait for them.

CREATE TABLE signals (
  key     INTEGER PRIMARY KEY,
  id      TEXT NOT NULL UNIQUE,
  scope   TEXT NOT NULL,
  task    TEXT NOT NULL DEFAULT '',         -- one of these two is set
  run     INTEGER NOT NULL DEFAULT 0,       -- runs.key
  name    TEXT NOT NULL,
  body    TEXT NOT NULL,
  actor   TEXT NOT NULL,
  sent_at INTEGER NOT NULL,
  taken   TEXT NOT NULL DEFAULT ''          -- the interrupt that it answered
) STRICT;
CREATE INDEX signals_of_task ON signals (scope, task, name, key) WHERE taken = '' AND task <> '';
CREATE INDEX signals_of_run ON signals (run, name, key) WHERE taken = '' AND run <> 0;
CREATE INDEX signals_taken ON signals (taken) WHERE taken <> '';

-- Sessions: conversations. Messages and memos form a chain each, whose ends are in the session's row.

CREATE TABLE sessions (
  key        INTEGER PRIMARY KEY,
  scope      TEXT NOT NULL,
  id         TEXT NOT NULL,
  meta       TEXT NOT NULL,
  actor      TEXT NOT NULL,
  head       INTEGER NOT NULL CHECK (head >= 0),  -- seq of the newest message: how many there are
  hash       BLOB NOT NULL CHECK (length(hash) = 32),
  memos      INTEGER NOT NULL DEFAULT 0 CHECK (memos >= 0),  -- version of the newest memo
  memo_hash  BLOB NOT NULL CHECK (length(memo_hash) = 32),
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  UNIQUE (scope, id)
) STRICT;
CREATE INDEX sessions_by_update ON sessions (scope, updated_at);

CREATE TABLE messages (
  key     INTEGER PRIMARY KEY,
  session INTEGER NOT NULL REFERENCES sessions (key),
  seq     INTEGER NOT NULL CHECK (seq > 0),
  role    TEXT NOT NULL,
  content TEXT NOT NULL,                    -- JSON
  digest  BLOB NOT NULL CHECK (length(digest) = 32),
  meta    TEXT NOT NULL,
  run_id  TEXT NOT NULL,
  actor   TEXT NOT NULL,
  at      INTEGER NOT NULL,
  hash    BLOB NOT NULL CHECK (length(hash) = 32),
  UNIQUE (session, seq)
) STRICT;
CREATE INDEX system_messages ON messages (session, seq) WHERE role = 'system';

-- What stands for the messages up to a seq. The newest version counts; older ones stay.
CREATE TABLE memos (
  key     INTEGER PRIMARY KEY,
  session INTEGER NOT NULL REFERENCES sessions (key),
  version INTEGER NOT NULL CHECK (version > 0),
  upto    INTEGER NOT NULL CHECK (upto >= 0),
  text    TEXT NOT NULL,                    -- JSON
  digest  BLOB NOT NULL CHECK (length(digest) = 32),
  actor   TEXT NOT NULL,
  at      INTEGER NOT NULL,
  hash    BLOB NOT NULL CHECK (length(hash) = 32),
  UNIQUE (session, version)
) STRICT;

CREATE INDEX runs_by_session ON runs (session) WHERE session <> '';

-- Tasks that a host opened: the state of each, and everything that happened to it. Events form a chain, whose end is in
-- the task's row.

CREATE TABLE tasks (
  key        INTEGER PRIMARY KEY,
  scope      TEXT NOT NULL,
  task       TEXT NOT NULL,
  state      TEXT NOT NULL CHECK (state IN ('active', 'paused', 'resumed', 'completed')),
  session    TEXT NOT NULL,                 -- for which it was opened last
  meta       TEXT NOT NULL,
  actor      TEXT NOT NULL,                 -- who moved it last
  opened_at  INTEGER NOT NULL,              -- or opened again
  updated_at INTEGER NOT NULL,
  head       INTEGER NOT NULL CHECK (head >= 0),  -- seq of the newest event
  hash       BLOB NOT NULL CHECK (length(hash) = 32),
  UNIQUE (scope, task)
) STRICT;
CREATE INDEX tasks_by_update ON tasks (scope, updated_at);
CREATE INDEX tasks_by_state ON tasks (scope, state, updated_at);

CREATE TABLE task_events (
  key    INTEGER PRIMARY KEY,
  task   INTEGER NOT NULL REFERENCES tasks (key),
  seq    INTEGER NOT NULL CHECK (seq > 0),
  kind   TEXT NOT NULL CHECK (kind IN ('opened', 'paused', 'resumed', 'completed', 'reopened', 'event')),
  name   TEXT NOT NULL,
  body   TEXT NOT NULL,                     -- JSON
  digest BLOB NOT NULL CHECK (length(digest) = 32),
  masked INTEGER NOT NULL,
  actor  TEXT NOT NULL,
  at     INTEGER NOT NULL,
  hash   BLOB NOT NULL CHECK (length(hash) = 32),
  UNIQUE (task, seq)
) STRICT;

CREATE INDEX runs_by_task ON runs (scope, task);

-- The workspace: artifacts, which are content with a ref, and checkpoints, which are named boundaries. What a row says
-- of itself is proven by its proof.

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
  chunks     TEXT NOT NULL DEFAULT '',      -- the blob that lists the chunks of large content, each with its digest
  UNIQUE (scope, name, version)
) STRICT;
CREATE INDEX artifacts_by_scope ON artifacts (scope);
CREATE INDEX artifacts_by_digest ON artifacts (digest);
CREATE INDEX artifacts_by_run ON artifacts (run_id) WHERE run_id <> '';
CREATE INDEX artifacts_pending ON artifacts (run_id, pending) WHERE pending > 0;

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

-- The blobs that artifacts need: their content, and the lists of its chunks.
CREATE TABLE artifact_blobs (
  digest   TEXT NOT NULL,
  artifact INTEGER NOT NULL,                 -- artifacts.key
  PRIMARY KEY (digest, artifact)
) STRICT;
CREATE INDEX artifact_blobs_by_artifact ON artifact_blobs (artifact);

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

CREATE TABLE artifact_removed (
  key        INTEGER PRIMARY KEY,           -- the artifact's, which is never given again
  scope      TEXT NOT NULL,
  name       TEXT NOT NULL,
  version    INTEGER NOT NULL,
  digest     TEXT NOT NULL,
  size       INTEGER NOT NULL,
  stored_at  INTEGER NOT NULL,
  removed_at INTEGER NOT NULL,
  by         TEXT NOT NULL,
  UNIQUE (scope, name, version)
) STRICT;

-- What the holders of API keys have stored, for their quotas: who stored a blob first pays for it until gc removes it.

CREATE TABLE stored_by (
  number INTEGER PRIMARY KEY,
  blob   TEXT NOT NULL UNIQUE,               -- or 'json:' and the key's id: what it sent in bodies
  key    TEXT NOT NULL,
  size   INTEGER NOT NULL CHECK (size >= 0)
) STRICT;
CREATE INDEX stored_by_key ON stored_by (key, size);

-- Rows that are no entries of a chain, and what each of them said when it was written last. A row that is gone leaves
-- its proof behind.

CREATE TABLE proofs (
  noun  TEXT NOT NULL,                      -- the table
  row   INTEGER NOT NULL,                   -- its rowid there
  proof BLOB NOT NULL CHECK (length(proof) = 16),
  PRIMARY KEY (noun, row)
) WITHOUT ROWID, STRICT;
