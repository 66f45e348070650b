-- name: content_of
SELECT content FROM contents WHERE digest = ?

-- name: keep_content
INSERT INTO contents (digest, content) VALUES (?, ?) ON CONFLICT DO NOTHING
