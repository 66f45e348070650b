-- name: add_signal
INSERT INTO signals (id, scope, task, run, name, body, actor, sent_at, taken) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: signal_for_task
SELECT key, id, name, body, actor, sent_at FROM signals
WHERE scope = ? AND task = ? AND name = ? AND taken = '' AND task <> '' ORDER BY key LIMIT 1

-- name: signal_for_run
SELECT key, id, name, body, actor, sent_at FROM signals
WHERE run = ? AND name = ? AND taken = '' AND run <> 0 ORDER BY key LIMIT 1

-- name: take_signal
UPDATE signals SET taken = ? WHERE key = ? AND taken = ''

-- name: untaken_for_run
SELECT DISTINCT name FROM signals WHERE run = ? AND taken = '' AND run <> 0 ORDER BY name

-- name: untaken_for_task
SELECT DISTINCT name FROM signals WHERE scope = ? AND task = ? AND taken = '' AND task <> '' ORDER BY name

-- name: untaken_bodies
SELECT body FROM signals WHERE scope > '' AND taken = '' AND task <> ''
UNION ALL SELECT body FROM signals WHERE run > 0 AND taken = '' AND run <> 0

-- name: give_back_signals
-- What was sent to a task and answered a wait that nobody went on from. `taken <> ''` is the condition of the index.
UPDATE signals SET taken = '' WHERE task <> '' AND taken <> ''
AND taken IN (SELECT id FROM interrupts WHERE run = ? AND status = 'answered')
