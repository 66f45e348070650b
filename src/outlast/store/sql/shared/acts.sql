-- name: add_act
INSERT INTO acts (entry, at, actor, host, door, scope, noun, name, verb, changes, done)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING number

-- name: finish_act
UPDATE acts SET done = 1 WHERE number = ?

-- name: acts_before
SELECT * FROM acts WHERE (entry, number) < (?, ?) AND entry >= ? ORDER BY entry DESC, number DESC LIMIT ?
