-- What a flow is known by in every place, where it was found last, and the linked work tree that a run belongs to.

ALTER TABLE runs ADD COLUMN identity TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN source TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN worktree TEXT NOT NULL DEFAULT '';
ALTER TABLE tombstones ADD COLUMN identity TEXT NOT NULL DEFAULT '';
ALTER TABLE tombstones ADD COLUMN source TEXT NOT NULL DEFAULT '';
ALTER TABLE tombstones ADD COLUMN worktree TEXT NOT NULL DEFAULT '';
UPDATE runs SET identity = flow, source = flow;

DROP INDEX one_unfinished_run;
CREATE UNIQUE INDEX one_unfinished_run ON runs (scope, task, identity)
  WHERE status NOT IN ('succeeded', 'aborted') AND seal IN ('', 'moved');
CREATE INDEX unfinished_by_flow ON runs (scope, identity, key)
  WHERE status NOT IN ('succeeded', 'aborted') AND seal IN ('', 'moved');
