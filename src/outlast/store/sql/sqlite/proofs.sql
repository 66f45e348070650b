-- Not shared: rows are proven one at a time by the connection that wrote them, which is told their numbers by the database.

-- name: put_proof
INSERT INTO proofs (noun, row, proof) VALUES (?, ?, ?) ON CONFLICT (noun, row) DO UPDATE SET proof = excluded.proof
WHERE proofs.proof <> excluded.proof

-- name: drop_proof
DELETE FROM proofs WHERE noun = ? AND row = ?
