-- What is asked of tables as such, when a home is taken from one database to another.

-- name: tables_of_file
SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\_%' ESCAPE '\' ORDER BY name

-- name: columns_of_file
SELECT name, pk FROM pragma_table_info(?) ORDER BY cid

-- name: references_of_file
SELECT DISTINCT "table" FROM pragma_foreign_key_list(?)

-- name: numbers_of_file
SELECT name, seq FROM sqlite_sequence

-- name: counted_of_file
SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE '%AUTOINCREMENT%'

-- name: drop_number_of_file
DELETE FROM sqlite_sequence WHERE name = ?

-- name: set_number_of_file
INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)

-- name: seals_of_file
SELECT sql FROM sqlite_schema WHERE type = 'trigger' AND name LIKE 'moved\_%' ESCAPE '\' LIMIT 1

-- name: columns_of_server
SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = ?
ORDER BY table_name COLLATE "C", ordinal_position

-- name: keys_of_server
SELECT tables.relname, columns.attname
FROM pg_index JOIN pg_class AS tables ON tables.oid = indrelid
  JOIN pg_namespace ON pg_namespace.oid = tables.relnamespace
  CROSS JOIN LATERAL unnest(indkey) WITH ORDINALITY AS part (number, place)
  JOIN pg_attribute AS columns ON columns.attrelid = tables.oid AND columns.attnum = part.number
WHERE indisprimary AND nspname = ? ORDER BY tables.relname, place

-- name: references_of_server
SELECT DISTINCT tables.relname, others.relname
FROM pg_constraint JOIN pg_class AS tables ON tables.oid = conrelid JOIN pg_class AS others ON others.oid = confrelid
  JOIN pg_namespace ON pg_namespace.oid = tables.relnamespace
WHERE contype = 'f' AND nspname = ?

-- name: identities_of_server
SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = ? AND is_identity = 'YES'

-- name: number_shown
SELECT last FROM counters WHERE name = ?

-- name: go_on_counting
SELECT setval(?::text::regclass, ?, ?::bigint = 1)

-- name: schemas_named
SELECT 1 FROM pg_namespace WHERE nspname = ?

-- name: seals_of_server
SELECT prosrc FROM pg_proc JOIN pg_namespace ON pg_namespace.oid = pronamespace
WHERE nspname = ? AND proname = 'moved_away'
