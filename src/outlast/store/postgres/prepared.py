"""A statement that is prepared once and sent past the driver's cursors, which cost more than it does.

What it is given is written here as the server has it. It waits as the driver does: a signal is heard meanwhile, and
what is under way is then ended at the server.

And starts and ends of many runs at once, where there is no more to them than what is given: one statement for all. What
these rows say is here, with their proofs, which are those that a piece of work would have written. Everything else (a
task that is known, a run that waits) is refused here, and done by its work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from struct import Struct
from typing import Any

from psycopg.errors import error_from_result
from psycopg.generators import execute
from psycopg.pq import ExecStatus, Format
from psycopg.pq.abc import PGresult

from outlast.ledger.journal import JournalEntry, link
from outlast.store.contract.runs import NOT_PLAIN, Hold, PlainEnd, PlainStart
from outlast.store.nouns.rows import ended_row, started_row
from outlast.store.postgres.connection import Link, as_text

# As the server knows them: bigint, bytea, text, and lists of these.
NUMBER, PIECE, TEXT, NUMBERS, PIECES, TEXTS = 20, 17, 25, 1016, 1001, 1009
_DONE = (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK)


class Prepared:
    """One statement on one connection."""

    def __init__(self, connection: Link, name: str, text: str, kinds: Sequence[int]) -> None:
        self._connection, self._pgconn = connection, connection.pgconn
        self._name, self._text, self._kinds = name.encode(), text.encode(), kinds
        self._formats = [Format.BINARY] * len(kinds)
        self._is_prepared = False

    def run(self, values: Sequence[bytes | None]) -> PGresult:
        """What the server answers. Raises what the driver does."""
        if not self._is_prepared:
            self._pgconn.send_prepare(self._name, self._text, self._kinds)
            _answer_of(self._connection)
            self._is_prepared = True
        self._pgconn.send_query_prepared(self._name, values, self._formats, Format.BINARY)
        return _answer_of(self._connection)


def roll_back(connection: Link, how: str = "ROLLBACK") -> None:
    """The same past the driver: told of it, that would forget all that was prepared, at the server too."""
    connection.pgconn.send_query(how.encode())
    _answer_of(connection)


def _answer_of(connection: Link) -> PGresult:
    """What was answered, and committed: where that fails, it is told after the answer."""
    answers: list[PGresult] = connection.wait(execute(connection.pgconn))
    for answer in answers:
        if answer.status not in _DONE:
            raise error_from_result(answer, encoding="utf-8")
    return answers[0]


as_number: Callable[[int], bytes] = Struct("!q").pack
_ARRAY, _SIZE = Struct("!iii"), Struct("!ii")  # dimensions, whether there are nulls, the kind; how many, the first
_LENGTH = Struct("!i").pack
_GONE = _LENGTH(-1)


def as_numbers(column: Sequence[int]) -> bytes:
    """A column of numbers, given as one value."""
    row = [8] * (2 * len(column))
    row[1::2] = column
    return _head(len(column), False, NUMBER) + _pairs(len(column))(*row)


def as_pieces(column: Sequence[bytes | None], kind: int = PIECE) -> bytes:
    """A column of bytes."""
    there = [piece for piece in column if piece is not None]
    if len(there) < len(column):
        each = [_GONE if piece is None else _LENGTH(len(piece)) + piece for piece in column]
    else:
        each = [b""] * (2 * len(there))  # pieces may be long: each is copied once
        each[::2], each[1::2] = map(_LENGTH, map(len, there)), there
    return b"".join((_head(len(column), len(there) < len(column), kind), *each))


def as_texts(column: Sequence[str | None]) -> bytes:
    """A column of texts."""
    return as_pieces([None if text is None else as_text(text) for text in column], TEXT)


Writers = Sequence[Callable[[Any], bytes]]
_KINDS: dict[Callable[[Any], bytes], int] = {as_numbers: NUMBERS, as_pieces: PIECES, as_texts: TEXTS}


def kinds_of(how: Writers) -> tuple[int, ...]:
    """As what the server knows columns that are written so."""
    return tuple(_KINDS[write] for write in how)


def as_columns(rows: Sequence[tuple[Any, ...]], how: Writers) -> list[bytes]:
    """Rows, a column as one value each."""
    columns = zip(*rows, strict=True) if rows else [()] * len(how)
    return [write(column) for write, column in zip(how, columns, strict=True)]


def numbers_in(answer: PGresult) -> list[int]:
    """The first column of what was answered."""
    return [int.from_bytes(answer.get_value(row, 0) or b"") for row in range(answer.ntuples)]


@cache
def _head(count: int, has_gone: bool, kind: int) -> bytes:
    return _ARRAY.pack(1 if count else 0, has_gone, kind) + (_SIZE.pack(count, 1) if count else b"")


@cache
def _pairs(count: int) -> Callable[..., bytes]:
    return Struct(f"!{'iq' * count}").pack


# -- starts and ends of many runs at once ------------------------------------------------------------


_KNOWN, _SILENT = 1, 2  # as the statement says it
_FACTS = (as_texts, as_texts, as_texts, as_numbers, as_numbers)
_STARTS = (
    *(as_numbers, *(as_texts,) * 11, as_numbers, as_numbers, *(as_texts,) * 4),
    *(as_numbers, as_pieces, as_pieces, as_pieces, as_texts, as_pieces),
)
_ENDS = (
    *(as_numbers, as_numbers, as_numbers, as_numbers, as_numbers, as_pieces, as_numbers, as_pieces),
    *(as_texts, as_texts, as_texts, as_numbers, as_texts, as_pieces, as_pieces, as_pieces),
)
_ENTRIES = (as_numbers, as_numbers, as_pieces, as_pieces, as_pieces)
_ENTRIES_OF_ENDS = (as_numbers, *_ENTRIES)
_Row = tuple[Any, ...]


class PlainRuns:
    """The statements on one connection."""

    def __init__(self, connection: Link, sql: dict[str, str]) -> None:
        self._facts = Prepared(connection, "outlast_facts", sql["start_facts"], kinds_of(_FACTS))
        self._starts = Prepared(connection, "outlast_starts", sql["start_runs"], kinds_of((*_STARTS, *_ENTRIES)))
        self._ends = Prepared(connection, "outlast_ends", sql["end_runs"], kinds_of((*_ENDS, *_ENTRIES_OF_ENDS)))

    def start(self, starts: Sequence[PlainStart]) -> tuple[list[Any], int]:
        """What each gives, or NOT_PLAIN; and how many of these were not for want of a sign of life."""
        why, key = self._refused(starts)
        given: list[Any] = [NOT_PLAIN] * len(starts)
        rows, entries = list[_Row](), list[_Row]()
        for place, start in enumerate(starts):
            if why[place]:
                continue
            row = start.run.as_row(key, "running")
            head, hash_ = _chained(entries, (key,), 0, start.start, (start.entry,))
            rows.append(started_row(start, row, head, hash_))
            given[place] = start.given(Hold(key, row.id, key, epoch=1, head=head, hash=hash_), row)
            key += 1
        if rows:
            self._starts.run((*as_columns(rows, _STARTS), *as_columns(entries, _ENTRIES)))
        return given, why.count(_SILENT)

    def _refused(self, starts: Sequence[PlainStart]) -> tuple[list[int], int]:
        """What keeps each from being added, if anything; and the next key. Of one task only the first is added."""
        asked = [(each.run.scope, each.run.task, each.holder, each.beaten_after, each.beaten_upto) for each in starts]
        answer = self._facts.run(as_columns(asked, _FACTS))
        why, tasks = numbers_in(answer), set[tuple[str, str]]()
        for place, (scope, task, *_) in enumerate(asked):
            if (scope, task) in tasks:
                why[place] = _KNOWN
            tasks.add((scope, task))
        return why, int.from_bytes(answer.get_value(0, 1) or b"")

    def end(self, ends: Sequence[PlainEnd]) -> set[Hold]:
        """The holds of those that were not ended. All are moved, in any case."""
        rows, entries = list[_Row](), list[_Row]()
        for number, end in enumerate(ends):
            hold, before = end.hold, (end.hold.head, end.hold.hash)
            hold.head, hold.hash = _chained(entries, (number, hold.run_key), *before, (end.entry,))
            moved = (number, hold.lease_key, hold.run_key, hold.epoch, *before, hold.head, hold.hash)
            rows.append((*moved, *ended_row(end)))
        answer = self._ends.run((*as_columns(rows, _ENDS), *as_columns(entries, _ENTRIES_OF_ENDS)))
        ended = set(numbers_in(answer))
        return {end.hold for number, end in enumerate(ends) if number not in ended}


def _chained(
    rows: list[_Row], of: tuple[int, ...], head: int, hash_: bytes, entries: Sequence[JournalEntry]
) -> tuple[int, bytes]:
    """Rows for these entries after that end of a chain, each with what it is of; its end then."""
    for header, payload, _ in entries:
        head, hash_ = head + 1, link(hash_, header)
        rows.append((*of, head, header, hash_, payload))
    return head, hash_
