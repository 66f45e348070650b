-- name: told_of
SELECT target, state, holder FROM told WHERE target = ?

-- name: add_told
INSERT INTO told (target, state) VALUES (?, ?) ON CONFLICT (target) DO NOTHING

-- name: take_told
UPDATE told SET holder = ? WHERE target = ? AND holder = ?

-- name: keep_told
UPDATE told SET state = ? WHERE target = ? AND holder = ?
