-- Proofs in the order that they have in a file, where those of one piece of work lie together: a move compares the two.
ALTER TABLE proofs DROP CONSTRAINT proofs_pkey;
ALTER TABLE proofs ADD PRIMARY KEY (row, noun);
