"""Every noun of the store on one connection to PostgreSQL, the appends that lengthen journals, and proofs of rows.

The database tells which rows a piece of work touched, in a setting of the transaction that triggers fill; each is
proven again before the commit.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from psycopg.sql import SQL, Identifier

from outlast.errors import LeaseLost, StoreNewer
from outlast.ledger.journal import JournalEntry, Later, link
from outlast.store.contract.runs import Hold, PlainEnd, PlainStart
from outlast.store.nouns import Nouns, WrittenNouns
from outlast.store.nouns.rows import newest_version, proof_of
from outlast.store.postgres.connection import Link, PostgresRows, PostgresWrites
from outlast.store.postgres.prepared import (
    NUMBER,
    NUMBERS,
    PIECE,
    PIECES,
    PlainRuns,
    Prepared,
    as_columns,
    as_number,
    as_numbers,
    as_pieces,
    kinds_of,
    numbers_in,
    roll_back,
)

MARKED = "work "  # how the names of marks begin; then comes when their process began, so that old ones are together
DAY_US = 86_400_000_000
_MARK = (
    "INSERT INTO counters (name, last) VALUES ('{name}', {mark}) ON CONFLICT (name) DO UPDATE SET last = excluded.last;"
)
_CLEAR = "DELETE FROM counters WHERE name >= '{name}' AND name < '{upto}' AND last < {day};"
_SAVE = "SAVEPOINT work"
NOW = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
Append = tuple[Hold, Sequence[JournalEntry]]


class PostgresReader(PostgresRows, Nouns):
    """Lookups on a connection."""

    gaps: dict[int, int]  # the store's: see `settled_entry`

    def highest_entry(self) -> int:
        return int(self._one("highest_entry")[0])

    def settled_entry(self, after: int, limit: int) -> int:
        """Numbers are given before the commit, so that a lower one may be committed later.

        Where one is missing, whoever was given it is waited for: until all transactions that were under way when that
        was first seen are over. What is missing then was rolled back, or removed. Before a row that keeps a number
        (`keep_number`) nothing is.
        """
        begun, unbegun = self._one("snapshot_ends")
        settled = after
        for (number,) in self._all("entry_numbers", after, limit):
            is_gap = number != settled + 1 and self._one("entry_of", 0, number) is None
            if is_gap and self.gaps.setdefault(number, unbegun) > begun:  # an entry may still come before this one
                break
            settled = number
        return settled


class PostgresTransaction(PostgresWrites, WrittenNouns, PostgresReader):
    """Lookups and writes inside one open transaction."""

    def __init__(
        self, connection: Link, sql: dict[str, str], lock: int, place: str, channel: str = "", marked: str = MARKED
    ) -> None:
        """`marked` is the name by which this process marks what it commits."""
        super().__init__(connection, sql)
        self._notify = SQL("NOTIFY {}").format(Identifier(channel)).as_string(connection) if channel else ""
        self.moved: list[tuple[Hold, int, bytes]] = []  # heads to put back if the transaction fails
        self.mark = 0  # of the transaction that is open, or was last; none of two is the same
        self._marked, self.last_mark = marked, 0
        self._lock, self._locked, self._place = lock, as_number(lock), place
        self._append_entry = Prepared(connection, "outlast_append", sql["append_entry"], _ENTRY)
        self._append_each = Prepared(connection, "outlast_append_each", sql["append_one_each"], _EACH)
        self._append_entries = Prepared(connection, "outlast_appends", sql["append_entries"], _ENTRIES)
        self._plain = PlainRuns(connection, sql)
        self._about = self._one("about_connection")
        self.ahead_us: int = self._about[-1] - time.time_ns() // 1000  # the server's clock, of this one

    @property
    def backend(self) -> tuple[int, str]:
        """Who serves this connection, and since when."""
        pid, since, *_ = self._about
        return pid, since

    def begin(self, *, synced: bool) -> None:
        """Begin a transaction that nobody else writes beside, in one way to the server and back.

        Raises StoreNewer when another process has brought the schema to a newer version meanwhile.
        """
        how = "" if synced else "SET LOCAL synchronous_commit = off;"
        mark = max(self.last_mark + 1, time.time_ns() // 1000)
        write = f"{self._cleared(mark)} {_MARK.format(name=self._marked, mark=mark)}"
        self._begin(f"BEGIN; {how} SELECT pg_advisory_xact_lock({self._lock}); {write}", mark)

    def begin_beside(self) -> None:
        """Begin one for what others may append or end beside it: that is known by its entries, not by a mark."""
        self._begin(f"BEGIN; SELECT pg_advisory_xact_lock_shared({self._lock});")

    def _begin(self, how: str, mark: int = 0) -> None:
        self.forget_put_off()
        cursor = self.connection.execute(f"{how} SELECT version, {NOW} FROM schema_version")  # sees what was waited for
        self.mark = mark
        while cursor.nextset():
            pass
        ((version, now),) = cursor.fetchall()
        self.ahead_us = now - time.time_ns() // 1000
        if version != newest_version("postgres"):
            raise StoreNewer(self._place, version, newest_version("postgres"))

    def _cleared(self, now: int) -> str:
        """The first time, also forget the marks of processes that wrote nothing for a day."""
        first, self.last_mark, day = not self.last_mark, now, now - DAY_US
        return _CLEAR.format(name=MARKED, upto=f"{MARKED}{day:020d}", day=day) if first else ""

    def is_marked(self, mark: int) -> bool:
        """Whether the transaction that had this mark is committed: asked before another one is begun."""
        found = self._one("last_mark", self._marked)
        return found is not None and found[0] == mark

    def unmark(self) -> None:
        """This process writes no more. No disk is waited for."""
        if self.last_mark and not self.connection.closed:
            gone = _CLEAR.format(name=self._marked, upto=f"{self._marked}~", day=self.last_mark + 1)
            self.connection.execute(f"BEGIN; SET LOCAL synchronous_commit = off; {gone} COMMIT")

    def later(self, chain: int) -> Later | None:
        """Of a journal that this transaction has lengthened nobody else can read everything yet."""
        return None if any(hold.run_key == chain for hold, _, _ in self.moved) else super().later(chain)

    def commit(self, *, tells: bool) -> None:
        """Commit what was put off too; `tells` those who listen. All in one way to the server and back."""
        if tells and self._notify:
            self.put_off(self._notify)
        self.do("COMMIT")

    def begin_work(self) -> None:
        """Begin a piece of work that can be undone alone."""
        self.put_off(_SAVE)

    def end_work(self) -> None:
        self.prove()
        self.put_off("RELEASE work")

    def undo_work(self) -> None:
        """Nothing of it stays, of what was put off neither."""
        saves = [place for place, (text, _) in enumerate(self._put_off) if text == _SAVE]
        del self._put_off[saves[0] if saves else 0 :]
        if not saves:
            roll_back(self.connection, "ROLLBACK TO work")
            self.put_off("RELEASE work")

    def append(self, hold: Hold, entries: Sequence[JournalEntry]) -> None:
        if self.append_all([(hold, entries)]):
            raise LeaseLost(hold.run_id, hold.epoch)

    def append_last(self, hold: Hold, entries: Sequence[JournalEntry]) -> None:
        self.append(hold, entries)
        self.release_lease(hold)

    def append_all(self, appends: Sequence[Append]) -> set[Hold]:
        """Chain entries to the journals of many runs, each guarded by its epoch, head and hash; those that are stale.

        Nothing of a stale one is written, and its head is as it was.
        """
        self.send_put_off()
        if _are_plain(appends):
            return self._append_one_each(appends)
        groups = _grouped(appends)
        ends: list[tuple[Any, ...]] = []
        rows: list[tuple[Any, ...]] = []
        blobs: list[tuple[Any, ...]] = []
        for place, (hold, entries) in enumerate(groups):
            head, before = hold.head, hold.hash
            self.moved.append((hold, head, before))
            for seq, (header, payload, names) in enumerate(entries, head + 1):
                before = link(before, header)
                rows.append((place, hold.run_key, seq, header, before, payload))
                if names:
                    blobs += [(place, hold.run_key, name, seq) for name in names]
            ends.append((place, hold.lease_key, hold.epoch, head, hold.hash, head + len(entries), before))
            hold.head, hold.hash = head + len(entries), before
        moved = self._moved_by(ends, rows, blobs)
        return self._stale(hold for place, (hold, _) in enumerate(groups) if place not in moved)

    def _append_one_each(self, appends: Sequence[Append]) -> set[Hold]:
        """The same for one entry of each, which refers to no blob."""
        holds, entries = [hold for hold, _ in appends], [entries[0] for _, entries in appends]
        if len(appends) == 1:
            return set() if self.append_alone(holds[0], entries[0]) else {holds[0]}
        before = [(hold, hold.head, hold.hash) for hold in holds]
        hashes = [link(hash_, entry.header) for (_, _, hash_), entry in zip(before, entries, strict=True)]
        self.moved += before
        for hold, hash_ in zip(holds, hashes, strict=True):
            hold.head, hold.hash = hold.head + 1, hash_
        answer = self._append_each.run(
            (
                self._locked,
                as_numbers([hold.run_key for hold in holds]),
                as_numbers([hold.epoch for hold in holds]),
                as_numbers([head for _, head, _ in before]),
                as_pieces([hash_ for _, _, hash_ in before]),
                as_pieces(hashes),
                as_pieces([entry.header for entry in entries]),
                as_pieces([entry.payload for entry in entries]),
            )
        )
        if answer.ntuples == len(holds):
            return set()
        moved = set(numbers_in(answer))
        return self._stale(hold for place, hold in enumerate(holds) if place not in moved)

    def _stale(self, holds: Iterable[Hold]) -> set[Hold]:
        """These, of which nothing was written: their heads are as they were."""
        if stale := set(holds):
            self.put_back(only=stale)
        return stale

    def _moved_by(self, ends: _Table, rows: _Table, blobs: _Table) -> Collection[int]:
        """Which of the chains were moved, by their places."""
        if blobs:
            given = [self._lock, *_columns(ends, 7), *_columns(rows, 6), *_columns(blobs, 4)]
            return {place for (place,) in self.execute(self.sql["append_entries_with_blobs"], given, prepare=True)}
        answer = self._append_entries.run((self._locked, *as_columns(ends, _ENDS), *as_columns(rows, _ROWS)))
        return range(len(ends)) if answer.ntuples == len(ends) else set(numbers_in(answer))

    def append_alone(self, hold: Hold, entry: JournalEntry) -> bool:
        """Chain one entry that refers to no blob; False, and nothing is done, for one that is stale."""
        self.send_put_off()
        head, before = hold.head, hold.hash
        hash_ = link(before, entry.header)
        self.moved.append((hold, head, before))
        hold.head, hold.hash = head + 1, hash_
        lease, epoch, at, chain, seq = map(as_number, (hold.lease_key, hold.epoch, head, hold.run_key, head + 1))
        given = (self._locked, hash_, lease, epoch, at, before, chain, seq, entry.header, entry.payload)
        if self._append_entry.run(given).command_tuples:
            return True
        self.put_back(only={hold})
        return False

    def start_all(self, starts: Sequence[PlainStart]) -> tuple[list[Any], int]:
        """Add these runs where nothing is known of their tasks: what the work of each would give, or `NOT_PLAIN`.

        And how many were not because their process is silent: a piece of work gives a sign of its life.
        """
        self.send_put_off()
        given = self._plain.start(starts)
        self.put_off(self.sql["take_touched"])
        return given

    def end_all(self, ends: Sequence[PlainEnd]) -> set[Hold]:
        """End these runs; those that are stale, or to which there is more, of which nothing is written."""
        self.send_put_off()
        moved = len(self.moved)
        self.moved += [(end.hold, end.hold.head, end.hold.hash) for end in ends]
        left = self._plain.end(ends)
        self.put_back(moved, only=left)
        self.put_off(self.sql["take_touched"])
        return left

    def put_back(self, to: int = 0, only: set[Hold] | None = None) -> None:
        """Forget heads that were moved since: what moved them was undone, or never done."""
        kept = [each for each in self.moved[to:] if only is not None and each[0] not in only]
        for hold, head, before in reversed(self.moved[to:]):
            if only is None or hold in only:
                hold.head, hold.hash = head, before
        self.moved[to:] = kept

    def prove(self) -> None:
        """Prove what was touched since the last time, as it is now."""
        told = (self._one("take_touched")[0] or "").split()
        touched = sorted({(table, int(key)) for table, key in zip(told[::2], told[1::2], strict=True)})
        found = self._rows_now(touched)
        put = [(table, key, proof_of(table, row)) for (table, key), row in zip(touched, found, strict=True) if row]
        gone = [each for each, row in zip(touched, found, strict=True) if not row]
        if put:
            self._one("put_proofs", *_columns(put, 3))
        if gone:
            self._one("drop_proofs", *_columns(gone, 2))

    def _rows_now(self, touched: Sequence[tuple[str, int]]) -> list[Any]:
        """What is to be proven of each row, asked all at once; None for one that is gone."""
        with self.connection.pipeline():
            asked = [
                self.connection.cursor(binary=True).execute(self.sql[f"rows_of_{table}"], (key - 1, 1))
                for table, key in touched
            ]
        rows = [cursor.fetchone() for cursor in asked]
        return [row if row and row[0] == key else None for (_, key), row in zip(touched, rows, strict=True)]


def is_plain(entries: Sequence[JournalEntry]) -> bool:
    """Whether it is one entry, which refers to no blob."""
    return len(entries) == 1 and not entries[0].blobs


def _are_plain(appends: Sequence[Append]) -> bool:
    """Whether each is one entry, which refers to no blob, and no two are of one hold."""
    return all(is_plain(entries) for _, entries in appends) and len({hold for hold, _ in appends}) == len(appends)


def _grouped(appends: Sequence[Append]) -> list[Append]:
    """All entries of a hold together, in their order: a row can be moved once by a statement."""
    groups: dict[Hold, list[JournalEntry]] = {}
    for hold, entries in appends:
        groups.setdefault(hold, []).extend(entries)
    return list(groups.items())


_Table = Sequence[tuple[Any, ...]]
_ENDS = (as_numbers, as_numbers, as_numbers, as_numbers, as_pieces, as_numbers, as_pieces)
_ROWS = (as_numbers, as_numbers, as_numbers, as_pieces, as_pieces, as_pieces)
_ENTRY = (NUMBER, PIECE, NUMBER, NUMBER, NUMBER, PIECE, NUMBER, NUMBER, PIECE, PIECE)
_EACH = (NUMBER, NUMBERS, NUMBERS, NUMBERS, PIECES, PIECES, PIECES, PIECES)
_ENTRIES = (NUMBER, *kinds_of((*_ENDS, *_ROWS)))


def _columns(rows: _Table, width: int) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]
