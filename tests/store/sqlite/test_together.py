"""Entries that many wait for, in one statement of a file: as durable, chained and guarded as any other."""

import asyncio
from collections import Counter
from typing import Any

import apsw
import pytest

from outlast import failpoints
from outlast.errors import LeaseLost
from outlast.ledger.journal import JournalEntry
from outlast.store.contract import Hold
from outlast.store.sqlite import writer
from outlast.store.sqlite.open import SqliteStore

from ..support import begin, broken, lease_of, some, take_over

ENTRIES = 11  # in statements of sixteen rows


def holds(store: SqliteStore, runs: int = ENTRIES) -> list[Hold]:
    return [begin(store, f"run{number}") for number in range(runs)]


def write(store: SqliteStore, those: list[Hold], number: int = 1) -> None:
    """One entry of each in one commit."""
    tickets = [store.put(hold, [some(number)]) for hold in those]
    store.finish(tickets[0])


def statements(store: SqliteStore) -> list[str]:
    """What the writer says from now on."""
    said: list[str] = []

    def note(cursor: apsw.Cursor, statement: str, values: object) -> bool:
        said.append(statement)
        return True

    store._writer._tx.connection.exec_trace = note  # type: ignore[union-attr]
    return said


def test_it_is_one_statement_and_one_commit(store: SqliteStore, reached: Counter[str]) -> None:
    those = holds(store)
    reached.clear()
    said = statements(store)
    write(store, those)
    assert len(said) == 1
    assert dict(reached) == {"commit.begin": 1, "commit.applied": 1, "commit.done": 1}
    assert [broken(store, hold.run_id, 1) for hold in those] == [None] * ENTRIES


def test_it_writes_what_each_alone_and_all_in_a_transaction_write(store: SqliteStore) -> None:
    alone, together, worked = holds(store), holds_of(store, "b"), holds_of(store, "c")
    for hold in alone:
        assert store.append_now(hold, some(1)) is True
    write(store, together)
    store.write(lambda tx: [tx.append(hold, [some(1)]) for hold in worked])
    rows = [
        [store.read(lambda look, hold=hold: look.journal_of(hold.run_key)) for hold in those]
        for those in (alone, together, worked)
    ]
    plain = [[[(row.seq, row.header, row.kept) for row in journal] for journal in each] for each in rows]
    assert plain[0] == plain[1] == plain[2]
    assert [broken(store, hold.run_id, 1) for hold in (*alone, *together, *worked)] == [None] * 3 * ENTRIES


def holds_of(store: SqliteStore, name: str) -> list[Hold]:
    return [begin(store, f"{name}{number}") for number in range(ENTRIES)]


@pytest.mark.parametrize("stale", [0, 5, ENTRIES - 1])
def test_a_stale_one_fails_alone_and_writes_nothing(store: SqliteStore, stale: int) -> None:
    those = holds(store)
    take_over(store, those[stale])
    tickets = [store.put(hold, [some(1)]) for hold in those]
    for number, ticket in enumerate(tickets):
        if number == stale:
            with pytest.raises(LeaseLost) as caught:
                store.finish(ticket)
            assert caught.value.run == f"run{stale}"
        else:
            store.finish(ticket)
    assert [broken(store, hold.run_id, int(n != stale)) for n, hold in enumerate(those)] == [None] * ENTRIES
    assert those[stale].head == 0


def test_several_of_one_run_are_chained_in_their_order(store: SqliteStore) -> None:
    first, second = holds(store, 2)
    tickets = [store.put(hold, [some(number)]) for number in range(1, 4) for hold in (first, second)]
    store.finish(tickets[-1])
    assert [broken(store, hold.run_id, 3) for hold in (first, second)] == [None, None]


@pytest.mark.parametrize("point", ["commit.begin", "commit.applied", "commit.done"])
def test_ctrl_c_neither_loses_nor_doubles_any(store: SqliteStore, point: str) -> None:
    those = holds(store)

    def interrupt(name: str) -> None:
        if name == point:
            failpoints.arm(None)
            raise KeyboardInterrupt

    tickets = [store.put(hold, [some(1)]) for hold in those]
    failpoints.arm(interrupt)
    with pytest.raises(KeyboardInterrupt):
        store.finish(tickets[0])
    for ticket in tickets:
        store.finish(ticket)
    assert [broken(store, hold.run_id, 1) for hold in those] == [None] * ENTRIES
    for hold in those:
        lease = lease_of(store, hold.run_id)
        assert (lease.head, lease.hash) == (hold.head, hold.hash)


def test_ctrl_c_right_after_it_was_written_doubles_none(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, reached: Counter[str]
) -> None:
    those, tx = holds(store), store._writer._tx  # type: ignore[union-attr]
    append = tx.append_alone

    def interrupted(values: list[Any]) -> None:
        append(values)
        monkeypatch.undo()
        raise KeyboardInterrupt

    tickets = [store.put(hold, [some(1)]) for hold in those]
    monkeypatch.setattr(tx, "append_alone", interrupted)
    reached.clear()
    with pytest.raises(KeyboardInterrupt):
        store.finish(tickets[0])
    for ticket in tickets:
        store.finish(ticket)
    assert reached["commit.begin"] == 1  # nobody wrote it once more
    assert [broken(store, hold.run_id, 1) for hold in those] == [None] * ENTRIES


def test_what_refers_to_content_goes_by_a_transaction(store: SqliteStore) -> None:
    those = holds(store, 2)
    said = statements(store)
    header, payload, _ = some(1)
    tickets = [store.put(those[0], [JournalEntry(header, payload, ("b" * 64,))]), store.put(those[1], [some(1)])]
    store.finish(tickets[0])
    assert said[0].startswith("BEGIN")
    assert [broken(store, hold.run_id, 1) for hold in those] == [None, None]


def test_more_than_a_statement_takes_goes_by_a_transaction(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "STATEMENT_BYTES", 1000)
    those = holds(store)
    said = statements(store)
    write(store, those[:2])
    assert len(said) == 1
    tickets = [store.put(hold, [some(2, text="x" * 100)]) for hold in those]
    store.finish(tickets[0])
    assert said[1].startswith("BEGIN")
    store.append(those[0], some(3, text="x" * 2000))  # one alone has no other to wait for
    assert said[-1].startswith("INSERT INTO appended")
    entries = [3, 2] + [1] * (ENTRIES - 2)
    assert [broken(store, hold.run_id, many) for hold, many in zip(those, entries, strict=True)] == [None] * ENTRIES


# -- who takes turns with the loop -------------------------------------------------------------------


@pytest.mark.parametrize(("runs", "sizes"), [(31, [31]), (32, [16, 16]), (64, [32, 32]), (600, [256])])
def test_of_many_that_a_loop_waits_for_half_are_committed_at_a_time(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, runs: int, sizes: list[int]
) -> None:
    those, found = holds(store, runs), list[int]()
    together = writer.Writer._commit_together

    def noted(self: writer.Writer, batch: list[Any]) -> None:
        found.append(len(batch))
        together(self, batch)

    monkeypatch.setattr(writer.Writer, "_commit_together", noted)

    async def main() -> None:
        store.live = runs

        async def one(hold: Hold) -> None:
            await store.append_later(hold, some(1))

        await asyncio.gather(*map(one, those))

    asyncio.run(main())
    assert found[0] == sizes[0]
    assert sum(found) == runs
    assert [broken(store, hold.run_id, 1) for hold in those] == [None] * runs
