-- name: mark
SELECT key FROM marks WHERE family = :family

-- name: set_mark
INSERT INTO marks VALUES (:family, :key) ON CONFLICT (family) DO UPDATE SET key = max(key, excluded.key)

-- name: waiting
SELECT key FROM waiting WHERE family = :family ORDER BY key

-- name: forget_waiting
DELETE FROM waiting WHERE family = :family AND key <= :upto

-- name: add_waiting
INSERT OR IGNORE INTO waiting VALUES (:family, :key)

-- name: tally
SELECT passages, words, documents FROM tally

-- name: count
UPDATE tally SET passages = passages + :passages, words = words + :words, documents = documents + :documents

-- name: is_there
SELECT 1 FROM passages WHERE id = :id

-- name: stream
INSERT INTO streams (family, name, size, last) VALUES (:family, :name, 0, 0)
ON CONFLICT (family, name) DO UPDATE SET size = size RETURNING id, size, last

-- name: grow_stream
UPDATE streams SET size = :size, last = :last WHERE id = :id

-- name: number_stream
UPDATE passages SET place = fresh.place
FROM (SELECT id, row_number() OVER (ORDER BY id) AS place FROM passages WHERE stream = :stream) AS fresh
WHERE passages.id = fresh.id

-- name: leave_stream
UPDATE streams SET size = size - :passages,
    last = coalesce((SELECT max(id) FROM passages WHERE stream = streams.id), 0) WHERE id = :stream

-- name: voice
INSERT INTO voices (name, passages) VALUES (:name, 0)
ON CONFLICT (name) DO UPDATE SET passages = passages RETURNING id, passages

-- name: grow_voice
UPDATE voices SET passages = passages + :passages WHERE id = :voice

-- name: leave_voice
UPDATE voices SET passages = passages - 1 WHERE id = :voice

-- name: add_voice_word
INSERT OR IGNORE INTO voice_words VALUES (:word, :voice)

-- name: voices_by_words
SELECT DISTINCT voices.id, voices.name, voices.passages FROM voice_words JOIN voices ON voices.id = voice_words.voice
WHERE voice_words.word IN (SELECT value FROM json_each(:words)) ORDER BY voices.name

-- name: add_term
INSERT INTO terms VALUES (:term, :passages) ON CONFLICT (term) DO UPDATE SET passages = passages + excluded.passages

-- name: frequencies
SELECT term, passages FROM terms WHERE term IN (SELECT value FROM json_each(:terms)) AND passages > 0

-- name: add_passage
INSERT INTO passages VALUES (
    :id, :starts, :ends, :kind, :stream, :place, :voice, :said_by, :day, :length, :asks, :words
)

-- name: add_found
INSERT INTO found (rowid, words, said_by) VALUES (:id, :words, :said_by)

-- name: remove_found
INSERT INTO found (found, rowid, words, said_by) VALUES ('delete', :id, :words, :said_by)

-- name: passages_of
SELECT id, stream, voice, said_by, length, words FROM passages WHERE id BETWEEN :first AND :last

-- name: remove_passage
DELETE FROM passages WHERE id = :id

-- name: best
SELECT rowid FROM found WHERE found MATCH :match ORDER BY rank, rowid LIMIT :limit

-- name: best_of_kinds
SELECT found.rowid FROM found JOIN passages ON passages.id = found.rowid
WHERE found MATCH :match AND passages.kind IN (SELECT value FROM json_each(:kinds)) ORDER BY rank, found.rowid LIMIT :limit

-- name: best_of_days
SELECT found.rowid FROM found JOIN passages ON passages.id = found.rowid
WHERE found MATCH :match AND passages.day BETWEEN :first AND :last ORDER BY rank, found.rowid LIMIT :limit

-- name: places
SELECT stream, place FROM passages WHERE id IN (SELECT value FROM json_each(:ids))

-- name: windows
SELECT passages.id, starts, ends, kind, stream, place, voice, day, length, asks, words
FROM json_each(:windows) AS near CROSS JOIN passages
ON stream = near.value ->> 0 AND place BETWEEN near.value ->> 1 AND near.value ->> 2
