CREATE TABLE run_tags (
  tag TEXT NOT NULL,
  run INTEGER NOT NULL REFERENCES runs (key),
  PRIMARY KEY (tag, run)
) STRICT;
CREATE INDEX run_tags_by_run ON run_tags (run);
CREATE INDEX runs_by_flow ON runs (substr(flow, instr(flow, ':') + 1));
CREATE INDEX runs_by_identity ON runs (identity);
CREATE INDEX runs_by_task_of_any_scope ON runs (task);
CREATE INDEX runs_by_trace ON runs (trace_id) WHERE trace_id <> '';
CREATE INDEX runs_by_actor ON runs (actor);
CREATE INDEX runs_by_time ON runs (created_at);
