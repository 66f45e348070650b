"""Starts and ends of many runs at once, where there is no more to them than what is given: one statement for all.

Owns what these rows say, with their proofs, which are those that a piece of work would have written. Everything else
(a task that is known, a run that waits) is refused here, and done by its work.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from outlast.ledger.journal import JournalEntry, link
from outlast.store.contract.runs import NOT_PLAIN, Hold, PlainEnd, PlainStart
from outlast.store.nouns.rows import ended_row, started_row
from outlast.store.postgres.connection import Link
from outlast.store.postgres.prepared import (
    Prepared,
    as_columns,
    as_numbers,
    as_pieces,
    as_texts,
    kinds_of,
    numbers_in,
)

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
            head, hash_ = _chained(entries, (key,), 0, start.start, start.entries)
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
            hold.head, hold.hash = _chained(entries, (number, hold.run_key), *before, end.entries)
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
