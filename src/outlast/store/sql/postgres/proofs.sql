-- Not shared: rows are proven many at a time here, for each question takes a way to the server and back.

-- name: take_touched
SELECT current_setting('outlast.touched', true), set_config('outlast.touched', '', true)

-- name: put_proofs
INSERT INTO proofs (noun, row, proof) SELECT * FROM unnest(?::text[], ?::bigint[], ?::bytea[])
ON CONFLICT (noun, row) DO UPDATE SET proof = excluded.proof WHERE proofs.proof <> excluded.proof

-- name: drop_proofs
DELETE FROM proofs USING unnest(?::text[], ?::bigint[]) AS gone (noun, row)
WHERE proofs.noun = gone.noun AND proofs.row = gone.row
