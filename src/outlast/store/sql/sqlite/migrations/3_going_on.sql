CREATE INDEX interrupts_by_time ON interrupts (due_at) WHERE status = 'open' AND due_at IS NOT NULL;
CREATE INDEX interrupts_for_children ON interrupts (type, run) WHERE status = 'open' AND type = 'child';
CREATE INDEX inbox_of_all ON inbox (taken, run) WHERE taken = 0;
