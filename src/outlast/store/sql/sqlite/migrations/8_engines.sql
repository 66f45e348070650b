-- Who takes runs out of a queue: our own workers (empty), or another engine, by its name.
ALTER TABLE queues ADD COLUMN engine TEXT NOT NULL DEFAULT '';
CREATE INDEX queue_by_run ON queue_entries (queue, state, run);
