-- A task that a caller named happens once, also when its run was removed.

ALTER TABLE runs ADD COLUMN named INTEGER NOT NULL DEFAULT 0 CHECK (named IN (0, 1));
CREATE INDEX finished_by_name ON runs (scope, task, key)
  WHERE named = 1 AND status IN ('succeeded', 'aborted') AND seal IN ('', 'moved');

ALTER TABLE tombstones ADD COLUMN named INTEGER NOT NULL DEFAULT 0 CHECK (named IN (0, 1));
ALTER TABLE tombstones ADD COLUMN inputs_digest TEXT NOT NULL DEFAULT '';
ALTER TABLE tombstones ADD COLUMN result TEXT NOT NULL DEFAULT '';
ALTER TABLE tombstones ADD COLUMN error TEXT;
CREATE INDEX tombstones_by_name ON tombstones (scope, task, key) WHERE named = 1;

CREATE INDEX operations_by_run ON operations (answer) WHERE kind = 'run_start';
