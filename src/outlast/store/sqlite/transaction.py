"""Every noun of the store on one SQLite connection, the appends that lengthen journals, and proofs of all other rows.

A proof is what a row said when it was written last, kept beside it. The database tells the writing connection which
rows a piece of work touched; each is proven again before the commit, in the same transaction. So no statement can
forget it. Entries, which are chained, take no part in this, and nor does the path of a step.

A STRICT table holds what its columns say, but not that a text is UTF-8: of one that is not, what can be read is given.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any, TypeVar

import apsw
import msgspec

from outlast import errors
from outlast.ledger.journal import JournalEntry, Later, link
from outlast.store.contract import FirstRevision, Plain, PlainStart, PlainStore
from outlast.store.contract.runs import NOT_PLAIN, Hold, PlainEnd
from outlast.store.nouns import Nouns, WrittenNouns
from outlast.store.nouns.rows import (
    ROW_NAMES,
    UNREADABLE,
    Rows,
    WrittenRows,
    ended_row,
    proof_of,
    started_row,
    stored_row,
)
from outlast.values.frozen import NamedTuple

# -- how a named statement is run --------------------------------------------------------------------


R = TypeVar("R", bound=tuple[Any, ...])
# How many values there are of an entry with what guards it, of the start and the end of a run, and of a handoff.
ENTRY_VALUES, START_VALUES, END_VALUES, STORE_VALUES = 7, 28, 15, 20


class SqliteRows(Rows):
    """Lookups."""

    def __init__(self, connection: apsw.Connection, sql: dict[str, str]) -> None:
        super().__init__(sql)
        self.connection = connection
        self.execute = connection.execute

    def _one(self, name: str, *values: Any) -> Any:
        try:
            return next(iter(self.execute(self.sql[name], values)), None)
        except UnicodeDecodeError:
            return next(iter(read_anyway(self.connection, self.sql[name], values)), None)

    def _all(self, name: str, *values: Any) -> list[Any]:
        try:
            return list(self.execute(self.sql[name], values))
        except UnicodeDecodeError:
            return read_anyway(self.connection, self.sql[name], values)

    def _all_at_once(self, kind: type[R], name: str, *values: Any) -> list[Any]:
        """The rows, given by the database as one value: a thread that reads lets others go first at every row."""
        try:
            ((text,),) = self.execute(_as_one(kind, self.sql[name]), values)
            found: list[Any] = msgspec.json.decode(text)
        except (UnicodeDecodeError, apsw.Error, msgspec.DecodeError):  # row by row it shows what is damaged
            return self._all(name, *values)
        for number in _bytes_of(kind):
            for row in found:
                row[number] = bytes.fromhex(row[number]) if type(row[number]) is str else row[number]
        return found

    def _listed(self, values: Sequence[str]) -> str:
        return json.dumps(list(values))


class SqliteWrites(SqliteRows, WrittenRows):
    """The same inside a transaction, with what writing needs."""

    def __init__(self, connection: apsw.Connection, sql: dict[str, str]) -> None:
        super().__init__(connection, sql)
        cursor = connection.cursor()
        self.do = cursor.execute  # for statements without rows: one cursor, used over and over
        self.do_many = cursor.executemany
        self.changes = connection.changes


@cache
def _as_one(kind: type, sql: str) -> str:
    """A statement whose rows come as one JSON text; bytes are hexadecimal there, and nothing else is where they are."""
    names, at = [f"c{number}" for number in range(len(kind.__annotations__))], _bytes_of(kind)
    given = (f"CASE typeof({c}) WHEN 'blob' THEN hex({c}) ELSE 0 END" if n in at else c for n, c in enumerate(names))
    return f"WITH s({', '.join(names)}) AS ({sql}\n) SELECT json_group_array(json_array({', '.join(given)})) FROM s"


@cache
def _bytes_of(kind: type) -> tuple[int, ...]:
    kinds = list(kind.__annotations__.values())
    assert "float" not in kinds, "JSON of the database is not exact about them"
    return tuple(number for number, each in enumerate(kinds) if each == "bytes")


def read_anyway(connection: apsw.Connection, sql: str, values: tuple[Any, ...]) -> list[Any]:
    """The rows of a statement of which one holds a text that is not UTF-8. Such a text is replaced, and told by it.

    Raises IntegrityBroken for a statement that writes: it is not to be run twice.
    """
    import apsw.ext

    about = apsw.ext.query_info(connection, sql)
    if not about.is_readonly:
        raise errors.IntegrityBroken("a row", "a text of it is not UTF-8")
    names = [f"c{number}" for number in range(len(about.description))]
    raw = ", ".join(f"CASE typeof({name}) WHEN 'text' THEN CAST({name} AS BLOB) ELSE {name} END" for name in names)
    types = ", ".join(f"typeof({name})" for name in names)
    wrapped = f"WITH s({', '.join(names)}) AS ({sql}\n) SELECT {raw}, {types} FROM s"
    found = (tuple(row) for row in connection.execute(wrapped, values))
    return [tuple(map(_text, row[: len(names)], row[len(names) :])) for row in found]


def _text(value: Any, kind: str) -> Any:
    if kind != "text":
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode(errors="replace") + UNREADABLE


# -- every noun --------------------------------------------------------------------------------------


def is_refused(error: apsw.Error) -> bool:
    """Whether a statement was refused by what it goes through: nothing of it was done."""
    return getattr(error, "extendedresult", 0) == apsw.SQLITE_CONSTRAINT_TRIGGER


class Prover:
    """Proves again what a piece of work has written, before it is committed."""

    def __init__(self, rows: SqliteRows) -> None:
        self._rows = rows
        self._touched: set[tuple[str, int]] = set()
        self._hook = rows.connection.set_update_hook

    def begin(self) -> None:
        """Be told of every row from now on."""
        self._touched.clear()
        self._hook(self._note)

    def end(self) -> None:
        self._hook(None)

    def prove(self) -> None:
        """Prove what was touched, as it is now."""
        execute, sql = self._rows.execute, self._rows.sql
        for table, key in sorted(self._touched):
            row = next(iter(execute(sql[f"rows_of_{table}"], (key - 1, 1))), None)
            if row is not None and row[0] == key:
                execute(sql["put_proof"], (table, key, proof_of(table, row)))
            else:
                execute(sql["drop_proof"], (table, key))
        self._touched.clear()

    def _note(self, kind: int, database: str, table: str, key: int) -> None:
        if table in ROW_NAMES:
            self._touched.add((table, key))


class PlainRows(NamedTuple):
    """What one statement writes for starts of runs, or for ends: of one, or of many with so many values for each."""

    of_one: str
    of_many: str
    width: int
    values: list[Any]
    given: list[Any]  # by each


_WAYS: dict[type[Plain], tuple[str, ...]] = {
    PlainStart: ("begin_view", "begin_trigger", "due_trigger"),
    PlainEnd: ("end_view", "end_trigger"),
    PlainStore: ("store_view", "store_trigger"),
}


class StoreReader(SqliteRows, Nouns):
    """Lookups on a connection."""


class Transaction(SqliteWrites, WrittenNouns, StoreReader):
    """Lookups and writes inside one open transaction."""

    def __init__(self, connection: apsw.Connection, sql: dict[str, str]) -> None:
        super().__init__(connection, sql)
        self.total_changes = connection.total_changes
        self.prover = Prover(self)
        self.moved: list[tuple[Hold, int, bytes]] = []  # heads to put back if the transaction fails
        self._advance, self._entry = sql["advance_lease"], sql["add_entry"]
        self._append_one = sql["append_entry"]
        self._of_rows: dict[tuple[str, int], str] = {}  # statements for many rows, by their names and how many
        self.make_ready()

    def make_ready(self) -> None:
        """What an entry alone goes through. Changing where temporary things are kept takes it away."""
        self.ways: set[type[Plain]] = set()
        self.do(self.sql["append_view"])
        self.do(self.sql["append_trigger"])

    def make_way(self, kind: type[Plain]) -> None:
        """What plain work of this kind goes through. Outside a transaction, with which it would be undone."""
        for name in _WAYS[kind]:
            self.do(self.sql[name])
        self.ways.add(kind)

    def later(self, chain: int) -> Later | None:
        """Of a journal that this transaction has lengthened nobody else can read everything yet."""
        return None if any(hold.run_key == chain for hold, _, _ in self.moved) else super().later(chain)

    def end_of_chain(self, key: int) -> tuple[int, bytes] | None:
        """The number and the hash of the last entry of a chain; None where it is not there."""
        found: tuple[int, bytes] | None = self._one("end_of_chain", key)
        return found

    def append(self, hold: Hold, entries: Sequence[JournalEntry]) -> None:
        self.append_all([(hold, entries)])

    def append_last(self, hold: Hold, entries: Sequence[JournalEntry]) -> None:
        self.append_all([(hold, entries)], self.sql["advance_and_release"])

    def append_all(self, appends: Sequence[tuple[Hold, Sequence[JournalEntry]]], advance: str = "") -> None:
        """Chain entries to the journals of many runs.

        Each is guarded by its epoch and head. Raises LeaseLost when one of them is stale: the caller rolls all
        back and tries each alone.
        """
        rows: list[tuple[int, int, bytes, bytes, bytes | None]] = []
        guards, blobs = [], []
        for hold, entries in appends:
            head, before, run_key = hold.head, hold.hash, hold.run_key
            self.moved.append((hold, head, before))
            seq = head
            for header, payload, names in entries:
                seq += 1
                before = link(before, header)
                rows.append((run_key, seq, header, before, payload))
                if names:
                    blobs += [(name, run_key, seq) for name in names]
            guards.append((seq, before, hold.lease_key, hold.epoch, head))
            hold.head, hold.hash = seq, before
        expected = self.total_changes() + len(guards)
        self.do_many(advance or self._advance, guards)
        if self.total_changes() != expected:
            self.put_back(len(self.moved) - len(appends))
            raise errors.LeaseLost(appends[0][0].run_id, appends[0][0].epoch)
        self.do_many(self._entry, rows)
        if blobs:
            self.do_many(self.sql["add_blob_ref"], blobs)

    def append_alone(self, appends: Sequence[tuple[Hold, JournalEntry]]) -> None:
        """Chain single entries and append them, with their guards, in one statement. The database refuses it, and does
        nothing, when one of them is stale.
        """
        values, moved = list[Any](), self.moved
        for hold, (header, payload, _) in appends:
            head, before = hold.head, hold.hash
            moved.append((hold, head, before))
            hold.head, hold.hash = seq, hash_ = head + 1, link(before, header)
            values += (hold.lease_key, hold.epoch, hold.run_key, seq, header, hash_, payload)
        if len(values) == ENTRY_VALUES:
            self.do(self._append_one, values)
        else:
            self._do_rows("append_entries", ENTRY_VALUES, values)

    def _do_rows(self, name: str, width: int, values: list[Any]) -> None:
        """One statement for several rows of so many values. There is one for each power of two: what is missing to that
        is filled with rows that are none.
        """
        count = len(values) // width
        size = 1 << (count - 1).bit_length()
        values += [None] * ((size - count) * width)
        self.do(self._of_rows.get((name, size)) or self._make_rows(name, width, size), values)

    def _make_rows(self, name: str, width: int, size: int) -> str:
        row = f"({', '.join('?' * width)})"
        made = self._of_rows[name, size] = self.sql[name].replace(row, ", ".join([row] * size))
        return made

    def do_plains(self, plains: Sequence[Plain]) -> Sequence[Any]:
        """Do by one statement what pieces of work of one kind come to, mostly: what each would give.

        NOT_PLAIN of each, and nothing is done, where there is more to one of them.
        """
        if stores := [plain for plain in plains if isinstance(plain, PlainStore)]:
            return [self._store(stores[0])] if len(stores) == 1 else self._store_all(stores)
        moved = len(self.moved)
        try:
            rows = self.rows_of(plains)
            self.write(rows)
        except apsw.ConstraintError as error:
            if not is_refused(error):
                raise
            self.put_back(moved)
            return [NOT_PLAIN] * len(plains)
        return rows.given

    def rows_of(self, plains: Sequence[Plain]) -> PlainRows:
        """What is written of starts, or of ends, and what each gives. Their heads are moved."""
        if isinstance(plains[0], PlainStart):
            return self._starts([plain for plain in plains if isinstance(plain, PlainStart)])
        return self._ends([plain for plain in plains if isinstance(plain, PlainEnd)])

    def write(self, rows: PlainRows) -> None:
        """The same, in one statement. The database refuses it, and does nothing, where there is more to one of them."""
        if len(rows.given) == 1:
            self.do(self.sql[rows.of_one], rows.values)
        else:
            self._do_rows(rows.of_many, rows.width, rows.values)

    def _starts(self, starts: Sequence[PlainStart]) -> PlainRows:
        ((first,),) = self.execute(self.sql["next_chain"])
        given, values = [], list[Any]()
        for key, start in enumerate(starts, first):
            run, (header, payload, _) = start.run, start.entry
            row, hold = run.as_row(key, "running"), Hold(key, run.id, key, 1, 1, link(start.start, header))
            beaten = start.beaten_after, start.beaten_upto
            values += (*started_row(start, row, hold.head, hold.hash), *beaten, header, payload)
            self.moved.append((hold, 0, start.start))
            given.append(start.given(hold, row))
        return PlainRows("begin_run_plainly", "begin_runs_plainly", START_VALUES, values, given)

    def _ends(self, ends: Sequence[PlainEnd]) -> PlainRows:
        values = list[Any]()
        for end in ends:
            hold, (header, payload, _) = end.hold, end.entry
            head, before = hold.head, hold.hash
            self.moved.append((hold, head, before))
            hold.head, hold.hash = head + 1, link(before, header)
            values += (hold.lease_key, hold.run_key, hold.epoch, hold.head, hold.hash, *ended_row(end), header, payload)
        return PlainRows("end_run_plainly", "end_runs_plainly", END_VALUES, values, [None] * len(ends))

    def store_keys(self, store: PlainStore) -> tuple[int, int] | None:
        """The keys of its chain and of the handoff, if nothing is known of its anchor and its task."""
        ((key, newest, is_plain),) = self._store_facts([store])
        return (key, newest) if is_plain else None

    def _store_facts(self, stores: Sequence[PlainStore]) -> list[Any]:
        """The next keys of a chain and of a handoff; and of each, whether nothing is known of its anchor and task."""
        asked = msgspec.json.encode([(store.scope, store.anchor, store.task) for store in stores]).decode()
        return self._all("store_facts", asked)

    def store(self, store: PlainStore, first: FirstRevision, keys: tuple[int, int]) -> None:
        """A first revision and all that it is found by, in one statement. The database refuses it by a constraint, and
        nothing is done, where the keys are taken or something is known by now.
        """
        hold, row = _stored(store, first, keys)
        self.moved.append((hold, 0, first.start))
        self.do(self.sql["store_plainly"], row)

    def _store(self, store: PlainStore) -> Any:
        keys = self.store_keys(store)
        if keys is None:
            return NOT_PLAIN
        first = store.make()
        self.store(store, first, keys)
        if first.entry.blobs:
            self.do_many(self.sql["add_blob_ref"], [(name, keys[0], 1) for name in first.entry.blobs])
        if first.contents:
            self.keep_contents(first.contents)
        return first.given

    def _store_all(self, stores: Sequence[PlainStore]) -> Sequence[Any]:
        """Those that are plain in one statement, NOT_PLAIN of the others; of all, where two are of one anchor."""
        given: list[Any] = [NOT_PLAIN] * len(stores)
        moved, values = list[tuple[Hold, int, bytes]](), list[Any]()
        for place, (key, newest, is_plain) in enumerate(self._store_facts(stores)):
            if is_plain and not stores[place].has_content:
                first = stores[place].make()
                hold, row = _stored(stores[place], first, (key + len(moved), newest + len(moved)))
                moved.append((hold, 0, first.start))
                values += row
                given[place] = first.given
        try:
            if moved:
                self._do_rows("store_all_plainly", STORE_VALUES, values)
        except apsw.ConstraintError:
            return [NOT_PLAIN] * len(stores)
        self.moved += moved
        return given

    def put_back(self, to: int = 0) -> None:
        """Forget heads that were moved since: what moved them was rolled back."""
        for hold, head, before in reversed(self.moved[to:]):
            hold.head, hold.hash = head, before
        del self.moved[to:]


def _stored(store: PlainStore, first: FirstRevision, keys: tuple[int, int]) -> tuple[Hold, tuple[Any, ...]]:
    """The hold on its chain once it is stored, and the values of the statement that stores it."""
    key, newest = keys
    header, payload, _ = first.entry
    hold = Hold(key, first.anchor_id, key, 0, 1, link(first.start, header))
    return hold, (*stored_row(store, first, key, newest), hold.hash, header, payload)
