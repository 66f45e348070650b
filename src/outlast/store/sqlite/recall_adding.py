"""Documents on their way into the index for recall, within one transaction.

What many passages share (streams, voices, how many have a word) is kept here and written once, at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import apsw

from outlast.workspace.recall.passages import FAMILIES, Document, Passage, passages_of, stream_of, voice_of
from outlast.workspace.recall.words import FUNCTION_WORDS, words_of

PIECE_BITS, KEY_BITS = 18, 40


def id_of(family: str, key: int, piece: int) -> int:
    """A passage's id. The same document has the same ids in any index."""
    return (FAMILIES.index(family) << KEY_BITS | key) << PIECE_BITS | piece


def name_words(name: str) -> list[str]:
    """The words by which an actor may be named."""
    return [word for word in words_of(name) if word not in FUNCTION_WORDS and len(word) > 1]


class Adding:
    """Takes documents, then writes what they share: `finish` belongs to the same transaction."""

    def __init__(self, connection: apsw.Connection, sql: Mapping[str, str], stem: Callable[[str], str]) -> None:
        self._connection, self._sql, self._stem = connection, sql, stem
        self.documents = self._passages = self._words = 0
        self._terms: Counter[str] = Counter()
        self._streams: dict[tuple[str, str], list[int]] = {}  # id, size and last passage of each
        self._late: set[int] = set()  # streams that got something before their end
        self._voices: dict[str, int] = {}
        self._said: Counter[int] = Counter()

    def take(self, document: Document) -> None:
        """One document; nothing when it is there already."""
        if self._first("is_there", id=id_of(document.family, document.key, 0)):
            return
        self.documents += 1
        stream, voice = self._stream(document.family, _storable(stream_of(document))), self._voice(voice_of(document))
        for passage in passages_of(document):
            self._put(document, passage, stream, voice)

    def finish(self) -> None:
        """Write what was counted."""
        self._many("add_term", [{"term": term, "passages": count} for term, count in self._terms.items()])
        streams = ({"id": id, "size": size, "last": last} for id, size, last in self._streams.values())
        self._many("grow_stream", list(streams))
        self._many("number_stream", [{"stream": stream} for stream in sorted(self._late)])
        self._many("grow_voice", [{"voice": voice, "passages": said} for voice, said in self._said.items()])
        counted = {"passages": self._passages, "words": self._words, "documents": self.documents}
        self._many("count", [counted])

    def _put(self, document: Document, passage: Passage, stream: list[int], voice: int) -> None:
        number = id_of(document.family, document.key, passage.piece)
        words = [self._stem(word) for word in passage.words]
        row = {
            "id": number,
            "starts": passage.start,
            "ends": passage.end,
            "kind": document.kind,
            "stream": stream[0],
            "place": self._place(stream, number),
            "voice": voice,
            "said_by": f"v{voice}",
            "day": document.at.toordinal() if document.at else None,
            "length": len(words),
            "asks": int(passage.asks),
            "words": " ".join(words),
        }
        self._first("add_passage", **row)
        self._first("add_found", **row)
        self._terms.update(set(words))
        self._said[voice] += 1
        self._passages += 1
        self._words += len(words)

    def _stream(self, family: str, name: str) -> list[int]:
        if (family, name) not in self._streams:
            self._streams[family, name] = list(self._first("stream", family=family, name=name) or ())
        return self._streams[family, name]

    def _place(self, stream: list[int], number: int) -> int:
        """The next place in a stream; one that comes late gets its own when the stream is numbered anew."""
        if number < stream[2]:
            self._late.add(stream[0])
        stream[1], stream[2] = stream[1] + 1, max(stream[2], number)
        return stream[1]

    def _voice(self, said: str) -> int:
        name = _storable(said)
        if name not in self._voices:
            voice, known = self._first("voice", name=name) or (0, 0)
            self._voices[name] = voice
            if not known:
                self._many("add_voice_word", [{"word": word, "voice": voice} for word in name_words(name)])
        return self._voices[name]

    def _first(self, statement: str, **values: Any) -> tuple[Any, ...] | None:
        found: tuple[Any, ...] | None = next(self._connection.execute(self._sql[statement], values), None)
        return found

    def _many(self, statement: str, rows: list[dict[str, Any]]) -> None:
        self._connection.executemany(self._sql[statement], rows)


def _storable(name: str) -> str:
    """A name as the file can hold it: half of a character, which is no text, becomes a question mark."""
    return name.encode("utf-8", "replace").decode()
