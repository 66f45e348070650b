"""The index that recall searches, in SQLite: one file for each scope, derived from the ledger.

A file is opened for one call, made when missing, replaced when it is not as we left it. Nothing depends on it: when the
disk is full or the folder cannot be written, the call works on an index in memory. What is in a document and which
words it has is `workspace/recall/`'s.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import apsw

from outlast.store.contract.workspace import FAMILIES, FoundPassage, IndexedDocument, IndexedPassage, Tally
from outlast.store.nouns.rows import schema, statements_of
from outlast.store.sqlite.file import transaction
from outlast.values.private import kind_of, make_file, make_folder, open_file

APPLICATION_ID = 0x4F_4C_52_43  # "OLRC"
FORMAT = 2  # of the file and of what it was made by (words, stems): another one is built anew
BUSY_MILLISECONDS = 10_000

PIECE_BITS, KEY_BITS = 18, 40

T = TypeVar("T")

# A file that says such a thing is not an index, or not any more.
_BROKEN = (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, apsw.ConstraintError, apsw.MismatchError)


class _NotOurs(Exception):
    """The file is no index of this format."""


def index_path(tenant_folder: Path, scope: str) -> Path:
    """Where the index of a scope is; the name says nothing of the scope and fits every file system."""
    return tenant_folder / "recall" / f"{sha256(scope.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}.db"


def with_index(path: Path, work: Callable[[SqliteRecall], T]) -> T:
    """What `work` gives on the index at `path`. It is called again on an empty one when the file turns out unusable.

    So `work` has to begin with taking in what the index lacks. A file that is corrupt, foreign or of another format
    is replaced; one that cannot be written (full disk, read-only folder, locked for too long) is left alone, and the
    work is done in memory. What `work` itself raises comes out as it is.
    """
    try:
        return _on_file(path, work)
    except (_NotOurs, *_BROKEN):
        with suppress(OSError, apsw.Error):
            _replace(path)
    except (OSError, apsw.Error):
        return _in_memory(work)
    try:
        return _on_file(path, work)
    except (_NotOurs, OSError, apsw.Error):
        return _in_memory(work)


def _on_file(path: Path, work: Callable[[SqliteRecall], T]) -> T:
    make_folder(path.parent)
    if kind_of(path):
        raise _NotOurs
    make_file(path)
    with closing(apsw.Connection(str(path))) as connection:
        connection.set_busy_timeout(BUSY_MILLISECONDS)
        _prepare(connection)
        return work(SqliteRecall(connection, lasting=True))


def _in_memory(work: Callable[[SqliteRecall], T]) -> T:
    with closing(apsw.Connection(":memory:")) as connection:
        _make(connection)
        return work(SqliteRecall(connection, lasting=False))


def _prepare(connection: apsw.Connection) -> None:
    """Make the tables in an empty file. Raises _NotOurs for any other than ours."""
    if not _is_ours(connection):
        connection.pragma("journal_mode", "WAL")
        _make(connection)
    connection.pragma("synchronous", "NORMAL")


def _is_ours(connection: apsw.Connection) -> bool:
    """True: ours; False: still empty. Raises _NotOurs."""
    stamp = "SELECT (SELECT application_id FROM pragma_application_id), (SELECT user_version FROM pragma_user_version)"
    found, tables = next(connection.execute(stamp)), next(connection.execute("SELECT count(*) FROM sqlite_schema"))
    if found == (APPLICATION_ID, FORMAT):
        return True
    if tables != (0,):
        raise _NotOurs
    return False


def _make(connection: apsw.Connection) -> None:
    with transaction(connection):
        if not _is_ours(connection):  # under the lock: another process may have been first
            for _ in connection.execute(schema("recall")):  # iterating runs every statement of the text
                pass
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {FORMAT}")


def _replace(path: Path) -> None:
    """Put an empty index in the place of an unusable file, unless another process just has."""
    with _locked(path):
        with (
            suppress(_NotOurs, apsw.Error),
            closing(apsw.Connection(str(path) if not kind_of(path) else "")) as connection,
        ):
            if _is_ours(connection) and next(connection.execute("PRAGMA quick_check(1)")) == ("ok",):
                return
        fresh = path.with_suffix(".new")
        _unlink(fresh)
        make_file(fresh)
        with closing(apsw.Connection(str(fresh))) as connection:
            _prepare(connection)
        _unlink(path, only_beside=True)  # a log that belongs to the old file would be read into the new one
        os.replace(fresh, path)


def _unlink(path: Path, *, only_beside: bool = False) -> None:
    for ending in ("-wal", "-shm", "-journal") if only_beside else ("", "-wal", "-shm", "-journal"):
        Path(f"{path}{ending}").unlink(missing_ok=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    lock = open_file(path.with_suffix(".lock"), os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


# -- what is in it -----------------------------------------------------------------------------------


def number_of(family: str, key: int, piece: int) -> int:
    """A passage's number. The same document has the same ones in any index."""
    return (FAMILIES.index(family) << KEY_BITS | key) << PIECE_BITS | piece


class SqliteRecall:
    """See contract.workspace.RecallIndex. `with_index` opens it."""

    def __init__(self, connection: apsw.Connection, *, lasting: bool) -> None:
        self.lasting = lasting  # False: in memory, for this call only
        self._connection, self._sql = connection, statements_of("recall")
        self._tokenizer = connection.fts5_tokenizer("porter", ["unicode61", "remove_diacritics", "0"])

    # -- what is in it ---------------------------------------------------------------------------

    def mark(self, family: str) -> int:
        return int(next(self._run("mark", family=family), (0,))[0])

    def waiting(self, family: str) -> tuple[int, ...]:
        return tuple(key for (key,) in self._run("waiting", family=family))

    def add(self, family: str, documents: Iterable[IndexedDocument], upto: int, waiting: Iterable[int] = ()) -> int:
        with transaction(self._connection):
            adding = _Adding(self._connection, self._sql)
            for document in documents:
                adding.take(document)
            adding.finish()
            self._run("forget_waiting", family=family, upto=upto)
            for key in waiting:
                self._run("add_waiting", family=family, key=key)
            self._run("set_mark", family=family, key=upto)
        return adding.documents

    def remove(self, family: str, keys: Iterable[int]) -> None:
        with transaction(self._connection):
            for key in keys:
                self._remove(number_of(family, key, 0), number_of(family, key + 1, 0) - 1)

    def _remove(self, first: int, last: int) -> None:
        gone, streams = list(self._run("passages_of", first=first, last=last)), Counter[int]()
        for passage, stream, voice, said_by, length, words in gone:
            self._run("remove_found", id=passage, words=words, said_by=said_by)
            self._run("remove_passage", id=passage)
            self._run("leave_voice", voice=voice)
            self._run("count", passages=-1, words=-length, documents=0)
            for term in set(words.split()):
                self._run("add_term", term=term, passages=-1)
            streams[stream] += 1
        for stream, passages in streams.items():
            self._run("leave_stream", stream=stream, passages=passages)
            self._run("number_stream", stream=stream)
        if gone:
            self._run("count", passages=0, words=0, documents=-1)

    # -- looking ---------------------------------------------------------------------------------

    def one_moment(self) -> AbstractContextManager[None]:
        return transaction(self._connection, "DEFERRED")

    def tally(self) -> Tally:
        return Tally(*next(self._run("tally")))

    def frequencies(self, terms: Collection[str]) -> dict[str, int]:
        return dict(self._run("frequencies", terms=json.dumps(list(terms))))

    def voices(self, words: Collection[str]) -> list[tuple[int, str, int]]:
        return list(self._run("voices_by_words", words=json.dumps(sorted(words))))

    def best(
        self,
        terms: Iterable[str],
        limit: int,
        *,
        kinds: Collection[str] | None = None,
        voices: Collection[int] = (),
        days: tuple[int, int] | None = None,
    ) -> list[int]:
        match = f"words : ({_any_of(terms)})"
        if voices:
            match = f"({match}) AND said_by : ({_any_of(f'v{voice}' for voice in voices)})"
        if days is not None:
            rows = self._run("best_of_days", match=match, first=days[0], last=days[1], limit=limit)
        elif kinds is not None:
            rows = self._run("best_of_kinds", match=match, kinds=json.dumps(sorted(kinds)), limit=limit)
        else:
            rows = self._run("best", match=match, limit=limit)
        return [number for (number,) in rows]

    def around(self, numbers: Collection[int], back: int, on: int) -> list[FoundPassage]:
        places = self._run("places", ids=json.dumps(sorted(numbers)))
        windows = list(_windows(places, back, on))
        return [_passage(row) for row in self._run("windows", windows=json.dumps(windows))]

    def stem(self, word: str) -> str:
        flags = apsw.FTS5_TOKENIZE_DOCUMENT
        found = list(self._tokenizer(word.encode(), flags, None, include_offsets=False, include_colocated=False))
        return str(found[0]) if len(found) == 1 else word

    # -- running statements ----------------------------------------------------------------------

    def _run(self, statement: str, /, **values: Any) -> Iterator[Any]:
        return self._connection.execute(self._sql[statement], values)


def _passage(row: tuple[Any, ...]) -> FoundPassage:
    number, *about, asks, terms = row
    family, key = FAMILIES[number >> PIECE_BITS + KEY_BITS], number >> PIECE_BITS & (1 << KEY_BITS) - 1
    return FoundPassage._make((number, family, key, number & (1 << PIECE_BITS) - 1, *about, bool(asks), terms))


def _any_of(terms: Iterable[str]) -> str:
    return " OR ".join(f'"{term}"' for term in terms)  # terms are letters and digits: nothing to escape


def _windows(places: Iterable[tuple[int, int]], back: int, on: int) -> Iterator[tuple[int, int, int]]:
    """The stretches of each stream that cover the places and their neighbours, none of them twice."""
    open_stream, first, last = 0, 0, -1
    for stream, place in sorted(places):
        if stream == open_stream and place - back <= last + 1:
            last = place + on
            continue
        if last >= 0:
            yield open_stream, first, last
        open_stream, first, last = stream, place - back, place + on
    if last >= 0:
        yield open_stream, first, last


class _Adding:
    """Takes documents, then writes what they share: `finish` belongs to the same transaction."""

    def __init__(self, connection: apsw.Connection, sql: Mapping[str, str]) -> None:
        self._connection, self._sql = connection, sql
        self.documents = self._passages = self._words = 0
        self._terms: Counter[str] = Counter()
        self._streams: dict[tuple[str, str], list[int]] = {}  # id, size and last passage of each
        self._late: set[int] = set()  # streams that got something before their end
        self._voices: dict[str, int] = {}
        self._said: Counter[int] = Counter()

    def take(self, document: IndexedDocument) -> None:
        """One document; nothing when it is there already."""
        if self._first("is_there", id=number_of(document.family, document.key, 0)):
            return
        self.documents += 1
        stream = self._stream(document.family, _storable(document.stream))
        voice = self._voice(_storable(document.voice), document.voice_words)
        for passage in document.passages:
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

    def _put(self, document: IndexedDocument, passage: IndexedPassage, stream: list[int], voice: int) -> None:
        number, words = number_of(document.family, document.key, passage.piece), passage.terms
        row = {
            "id": number,
            "starts": passage.start,
            "ends": passage.end,
            "kind": document.kind,
            "stream": stream[0],
            "place": self._place(stream, number),
            "voice": voice,
            "said_by": f"v{voice}",
            "day": document.day,
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

    def _voice(self, name: str, words: Iterable[str]) -> int:
        if name not in self._voices:
            voice, known = self._first("voice", name=name) or (0, 0)
            self._voices[name] = voice
            if not known:
                self._many("add_voice_word", [{"word": word, "voice": voice} for word in words])
        return self._voices[name]

    def _first(self, statement: str, **values: Any) -> tuple[Any, ...] | None:
        found: tuple[Any, ...] | None = next(self._connection.execute(self._sql[statement], values), None)
        return found

    def _many(self, statement: str, rows: list[dict[str, Any]]) -> None:
        self._connection.executemany(self._sql[statement], rows)


def _storable(name: str) -> str:
    """A name as the file can hold it: half of a character, which is no text, becomes a question mark."""
    return name.encode("utf-8", "replace").decode()
