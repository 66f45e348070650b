"""The index that recall searches: the passages of one scope, their words, and who and what stands next to what.

Derived data: it may be deleted at any time. It owns adding and finding; `recall_file.py` owns the file it is in, the
ledger owns what it was made from, and `workspace/recall/rank.py` what counts how much.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import apsw

from outlast.store.sqlite.recall_adding import KEY_BITS, PIECE_BITS, Adding, id_of, name_words
from outlast.store.statements import recall_statements
from outlast.values.frozen import NamedTuple
from outlast.workspace.recall.passages import FAMILIES, Document
from outlast.workspace.recall.query import Query
from outlast.workspace.recall.rank import BACK, ON, Match, Placed, Statistics, matches, names_actor
from outlast.workspace.recall.words import TIME_WORDS

CLOSELY = 50  # passages found by their words that are looked at closely at least, each with its neighbours
ENTRIES = 2_000  # entries of the index that are read for that: the rarest words come first, the first one always whole
EVERYBODY = 0.9  # an actor who said more than this much of the scope is named by no goal: it would say nothing
KEPT_STEMS = 100_000
MAX_DAYS = 4  # dates of a goal that are looked up on their own

_YEAR = re.compile(r"\b[12]\d{3}\b")
_stems: dict[str, str] = {}  # of this process: the same words come again and again


class Found(NamedTuple):
    """What a search gives: the best passage of each document, best first."""

    matches: list[Match]
    considered: int  # documents looked at closely
    documents: int  # documents in the index
    unknown: tuple[str, ...]  # words of the goal that no document has


class RecallIndex:
    """The passages of one scope. `with_index` of `recall_file` opens it."""

    def __init__(self, connection: apsw.Connection, *, lasting: bool) -> None:
        self.lasting = lasting  # False: in memory, for this call only
        self._connection, self._sql = connection, recall_statements()
        self._tokenizer = connection.fts5_tokenizer("porter", ["unicode61", "remove_diacritics", "0"])

    # -- what is in it ---------------------------------------------------------------------------

    def mark(self, family: str) -> int:
        """All documents of the family up to this key have been looked at; 0 at first."""
        return int(next(self._run("mark", family=family), (0,))[0])

    def waiting(self, family: str) -> tuple[int, ...]:
        """Keys up to the mark that could not be seen yet when they were looked at."""
        return tuple(key for (key,) in self._run("waiting", family=family))

    def add(self, family: str, documents: Iterable[Document], upto: int, waiting: Iterable[int] = ()) -> int:
        """Take in the documents and set the mark to `upto`, in one transaction; how many of them were new.

        `waiting` are all keys up to there that cannot be seen yet. What another process took in meanwhile is skipped,
        and the mark never goes back.
        """
        with self._transaction("IMMEDIATE"):
            adding = Adding(self._connection, self._sql, self.stem)
            for document in documents:
                adding.take(document)
            adding.finish()
            self._run("forget_waiting", family=family, upto=upto)
            for key in waiting:
                self._run("add_waiting", family=family, key=key)
            self._run("set_mark", family=family, key=upto)
        return adding.documents

    def remove(self, family: str, keys: Iterable[int]) -> None:
        """Take documents out, in one transaction; those that are not there are fine."""
        with self._transaction("IMMEDIATE"):
            for key in keys:
                self._remove(id_of(family, key, 0), id_of(family, key + 1, 0) - 1)

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

    # -- searching -------------------------------------------------------------------------------

    def search(self, query: Query, kinds: Collection[str] | None = None, limit: int = 150) -> Found:
        """The documents that the goal asks for, of these kinds or of all; the same index gives the same answer."""
        with self._transaction("DEFERRED"):
            return self._search(query, kinds, limit)

    def _search(self, query: Query, kinds: Collection[str] | None, limit: int) -> Found:
        passages, words, documents = next(self._run("tally"))
        stems = {word: self.stem(word) for word in query.terms}
        counted = dict(self._run("frequencies", terms=json.dumps(list(stems.values()))))
        frequency = {term: counted[term] for term in stems.values() if term in counted}
        named = self._named(query, passages)
        lanes = self._lanes(query, frequency, named, kinds, max(limit // 3, CLOSELY))
        ids = sorted({passage for lane in lanes for (passage,) in lane})
        placed = self._around(ids, frequency, self._time_stems() if query.asks_when else frozenset())
        statistics = Statistics(passages, words / passages if passages else 0.0, frequency)
        found = matches(query, stems, named, placed, statistics, kinds, limit)
        unknown = tuple(word for word, term in stems.items() if term not in frequency)
        return Found(found, len({(passage.family, passage.key) for passage in placed}), documents, unknown)

    def _named(self, query: Query, passages: int) -> dict[int, str]:
        """The actors that the goal names, unless nearly all is theirs."""
        rows = self._run("voices_by_words", words=json.dumps(sorted(query.words)))
        return {
            voice: name
            for voice, name, said in rows
            if said <= EVERYBODY * passages and names_actor(query, name_words(name))
        }

    def _lanes(
        self,
        query: Query,
        frequency: dict[str, int],
        voices: Collection[int],
        kinds: Collection[str] | None,
        limit: int,
    ) -> Iterator[Iterator[tuple[int]]]:
        """The passages with the best words; those of whom and of when the goal names have a lane of their own."""
        if not frequency:
            return
        some, json_kinds = f"words : ({_any_of(_rarest(frequency))})", json.dumps(sorted(kinds or ()))
        best = "best" if kinds is None else "best_of_kinds"
        yield self._run(best, match=some, kinds=json_kinds, limit=limit)
        if voices:
            said_by = _any_of(f"v{voice}" for voice in voices)
            both = f"({some}) AND said_by : ({said_by})"
            yield self._run(best, match=both, kinds=json_kinds, limit=limit // 2)
        for first, last in query.days[:MAX_DAYS]:
            yield self._run("best_of_days", match=some, first=first - 1, last=last + 7, limit=limit // 2)

    def _around(self, ids: list[int], terms: Collection[str], times: frozenset[str]) -> list[Placed]:
        """The passages and their neighbours."""
        windows = list(_windows(self._run("places", ids=json.dumps(ids))))
        return [_placed(row, terms, times) for row in self._run("windows", windows=json.dumps(windows))]

    # -- words -----------------------------------------------------------------------------------

    def stem(self, word: str) -> str:
        """The word without its English ending, so that `exported` and `exports` are one."""
        known = _stems.get(word)
        if known is None:
            if len(_stems) >= KEPT_STEMS:
                _stems.clear()
            known = _stems[word] = self._stemmed(word)
        return known

    def _stemmed(self, word: str) -> str:
        if not word.isascii():
            return word
        flags = apsw.FTS5_TOKENIZE_DOCUMENT
        found = list(self._tokenizer(word.encode(), flags, None, include_offsets=False, include_colocated=False))
        return str(found[0]) if len(found) == 1 else word

    def _time_stems(self) -> frozenset[str]:
        return frozenset(self.stem(word) for word in TIME_WORDS)

    # -- running statements ----------------------------------------------------------------------

    def _run(self, statement: str, /, **values: Any) -> Iterator[Any]:
        return self._connection.execute(self._sql[statement], values)

    @contextmanager
    def _transaction(self, kind: str) -> Iterator[None]:
        self._connection.execute(f"BEGIN {kind}")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if not self._connection.getautocommit():
                self._connection.execute("ROLLBACK")
            raise


def _placed(row: tuple[Any, ...], terms: Collection[str], times: frozenset[str]) -> Placed:
    number, start, end, kind, stream, place, voice, day, length, asks, text = row
    words = text.split()
    there = frozenset(words)
    counts = {term: words.count(term) for term in terms if term in there}  # in the goal's order: sums come out equal
    timed = bool(times) and (not times.isdisjoint(there) or bool(_YEAR.search(text)))
    family, key = FAMILIES[number >> PIECE_BITS + KEY_BITS], number >> PIECE_BITS & (1 << KEY_BITS) - 1
    piece = number & (1 << PIECE_BITS) - 1
    return Placed(family, key, piece, start, end, kind, stream, place, voice, day, length, bool(asks), timed, counts)


def _rarest(frequency: dict[str, int]) -> list[str]:
    """The rarest terms, as many as ENTRIES allows, and always one."""
    chosen: list[str] = []
    read = 0
    for term, count in sorted(frequency.items(), key=lambda one: (one[1], one[0])):
        read += count
        if chosen and read > ENTRIES:
            break
        chosen.append(term)
    return chosen


def _any_of(terms: Iterable[str]) -> str:
    return " OR ".join(f'"{term}"' for term in terms)  # terms are letters and digits: nothing to escape


def _windows(places: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """The stretches of each stream that cover the places and their neighbours, none of them twice."""
    open_stream, first, last = 0, 0, -1
    for stream, place in sorted(places):
        if stream == open_stream and place - BACK <= last + 1:
            last = place + ON
            continue
        if last >= 0:
            yield open_stream, first, last
        open_stream, first, last = stream, place - BACK, place + ON
    if last >= 0:
        yield open_stream, first, last
