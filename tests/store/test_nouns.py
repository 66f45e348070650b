"""What the runtime may ask of a store: runs, leases, processes, interrupts, the inbox, operations."""

from collections.abc import Callable
from typing import TypeVar

import pytest
from msgspec import Raw

from outlast.errors import IntegrityBroken, StoreFailed
from outlast.ledger.journal import Header, JournalEntry, Payload, entry, leave
from outlast.ledger.lease import Beat, Process
from outlast.runs.run import STATUSES
from outlast.store.contract import Ending, NewWait, Reading, Store, Writing
from outlast.store.contract.runs import ENTRIES
from outlast.store.nouns.runs import AHEAD

from .support import begin, lease_of, new_run, some, start_of, take_over

T = TypeVar("T")
Look = Callable[[Reading], T]


def ids(rows: list) -> list[str]:  # type: ignore[type-arg]
    return [row.id for row in rows]


# -- runs --------------------------------------------------------------------------------------------


def test_a_task_has_one_unfinished_run_per_flow(store: Store) -> None:
    hold = begin(store, "run1")
    for status in STATUSES:
        store.write(lambda tx, s=status: tx.set_run_status(hold.run_key, s, 2))
        unfinished = store.read(lambda look: look.unfinished_run("default", "run1", "m:flow"))
        assert (unfinished is None) == (status in ("succeeded", "aborted"))
    store.write(lambda tx: tx.add_run(new_run("run2", task="run1"), start_of("run2"), "p1"))
    for other in ({"task": "t2"}, {"identity": "m:other"}, {"scope": "elsewhere"}):
        changed = new_run(f"run-{next(iter(other))}", **{"task": "run1", **other})
        store.write(lambda tx, run=changed: tx.add_run(run, start_of(run.id), "p1"))


def test_a_status_that_the_table_does_not_know_is_refused(store: Store) -> None:
    hold = begin(store, "run1")
    with pytest.raises(StoreFailed, match="CHECK"):
        store.write(lambda tx: tx.set_run_status(hold.run_key, "done", 2))


def test_a_run_keeps_what_it_was_started_with_and_how_it_ended(store: Store) -> None:
    run = new_run(
        "run1", inputs='{"a":1}', parent="run0", session="s", trace_id="t", meta='{"m":1}', actor="ann", at=7, named=1
    )
    hold = store.write(lambda tx: tx.add_run(run, start_of("run1"), "p1"))
    store.write(lambda tx: tx.end_run(hold.run_key, Ending("failed", "late", '{"value":1}', '{"e":1}', 9)))
    row = store.read(lambda look: look.run_by_id("run1"))
    assert row is not None
    assert row[1:] == (
        "run1", "default", "m:flow", "run1", '{"a":1}', "digest", "failed", "late", '{"value":1}', '{"e":1}',
        "run0", "s", "t", '{"m":1}', "ann", 7, 9, 0, "", 1, "m:flow", "m:flow", "",
    )  # fmt: skip


@pytest.mark.parametrize(("holder", "status"), [("p1", "running"), (None, "queued")])
def test_a_new_run_is_stored_as_it_says_itself(store: Store, holder: str | None, status: str) -> None:
    about = {"scope": "s", "flow": "f", "task": "t", "inputs": '{"a":1}', "inputs_digest": "d", "parent": "p"}
    about |= {"session": "e", "trace_id": "r", "meta": '{"b":2}', "actor": "who", "identity": "i", "source": "o"}
    new = new_run("run1", at=7, named=1, worktree="w", tags=("x",), **about)
    hold = store.write(lambda tx: tx.add_run(new, start_of("run1"), holder))
    assert store.read(lambda look: look.run_by_id("run1")) == new.as_row(hold.run_key, status)


def test_a_page_of_runs_gives_every_text_and_number_as_it_was_stored(store: Store) -> None:
    odd = 'nul \0, quote ", back\\slash, line\n, \u2028, \U0001f980, {"not": "json"}, ~\x7f'
    inputs = '{"a":[1.1,"\\u0000",-9223372036854775808]}'
    run = new_run("run1", inputs=inputs, session=odd, actor=odd, at=(1 << 57) + 1)
    store.write(lambda tx: tx.add_run(run, start_of("run1"), "p1"))
    alone = store.read(lambda look: look.run_by_id("run1"))
    assert alone is not None
    assert (alone.session, alone.actor, alone.inputs) == (odd, odd, inputs)
    assert store.read(lambda look: look.newest_runs(None, 5, 0)) == [alone]
    assert store.read(lambda look: look.newest_runs("running", 5, 0)) == [alone]


def test_the_leases_of_many_runs_are_those_of_each(store: Store) -> None:
    for name in ("b", "c", "a"):
        begin(store, name)
    each = {name: store.read(lambda look, name=name: look.lease_of(name)) for name in ("a", "b", "c")}  # type: ignore[misc]
    assert store.read(lambda look: look.leases_of(["a", "nobody", "c", "b"])) == each
    assert store.read(lambda look: look.leases_of([])) == {}


def test_runs_are_found_by_prefix_newest_first_by_page_by_status_and_by_parent(store: Store) -> None:
    names = [f"ab{number}" for number in range(8)] + ["b", "a"]
    for name in names:
        begin(store, name)
    store.write(lambda tx: tx.add_run(new_run("child", parent="ab1"), start_of("child"), "p1"))
    look = store.read
    assert ids(look(lambda r: r.runs_by_prefix("ab"))) == names[:6]  # enough to say that it is ambiguous
    assert ids(look(lambda r: r.runs_by_prefix("ab7"))) == ["ab7"]
    assert look(lambda r: r.runs_by_prefix("x")) == []
    newest = look(lambda r: r.newest_runs(None, 3, 0))
    assert ids(newest) == ["child", "a", "b"]
    assert ids(look(lambda r: r.newest_runs(None, 2, newest[-1].key))) == ["ab7", "ab6"]
    assert ids(look(lambda r: r.newest_runs("running", 1, 0))) == ["child"]
    assert look(lambda r: r.newest_runs("failed", 5, 0)) == []
    assert ids(look(lambda r: r.children_of("ab1"))) == ["child"]
    assert look(lambda r: r.children_of("")) == []


def test_a_journal_is_read_in_pages(store: Store) -> None:
    hold = begin(store, "run1")
    store.finish(store.put(hold, [some(number) for number in range(5)]))
    rows = store.read(lambda look: look.journal_of(hold.run_key))
    assert [row.seq for row in rows] == [1, 2, 3, 4, 5]
    assert store.read(lambda look: look.journal_of(hold.run_key, 2, 2)) == rows[2:4]


def test_a_journal_is_read_as_it_is_used_in_pages_of_one_moment(store: Store) -> None:
    hold = begin(store, "run1")
    store.finish(store.put(hold, [some(number) for number in range(ENTRIES * 2 + 3)]))
    rows = store.read(lambda look: look.journal_of(hold.run_key))
    assert store.read(lambda look: list(look.each_entry(hold.run_key))) == rows
    assert store.read(lambda look: list(look.each_entry(hold.run_key, 4, 3))) == rows[4:]
    assert store.read(lambda look: look.headers_of(hold.run_key, 1, 2)) == [(row.seq, row.header) for row in rows[1:3]]


def test_headers_between_two_numbers_come_newest_first_with_what_they_are_of(store: Store) -> None:
    store.finish(store.put(begin(store, "run1"), [some(1)]))
    store.finish(store.put(begin(store, "run2"), [some(2), some(3)]))
    found = store.read(lambda look: look.headers_between(0, look.newest_entry() + 1))
    entries = store.read(lambda look: look.entries_between(0, look.newest_entry(), 100))[::-1]
    assert [(row.key, row.header, row.scope, row.run_id, row.flow, row.anchor) for row in found] == [
        (row.key, row.header, row.scope, row.run_id, row.flow, "") for row in entries
    ]
    assert [row.run_id for row in found] == ["run2", "run2", "run1"]
    assert store.read(lambda look: look.headers_between(found[2].key, found[0].key)) == found[1:2]
    assert [store.read(lambda look, key=row.key: look.payload_at(key)) for row in entries] == [
        row.payload for row in entries
    ]
    assert store.read(lambda look: look.payload_at(found[0].key + 1)) is None


def test_entries_are_found_by_how_their_headers_begin(store: Store) -> None:
    hold = begin(store, "run1")
    store.finish(store.put(hold, [entry(Header("run", name), Payload(facts=name)) for name in ("a", "b", "bb", "c")]))

    def found(name: str) -> list[int]:
        first = f'["run","{name}"'.encode()
        return [row.seq for row in store.read(lambda look: look.entries_named(hold.run_key, first, first + b"\xff"))]

    assert (found("b"), found("bb"), found("d")) == ([2], [3], [])


def test_what_was_left_of_a_journal_is_read_when_it_is_asked_for(store: Store) -> None:
    hold = begin(store, "run1")
    store.finish(store.put(hold, [result(number) for number in range(AHEAD * 3)]))
    later = store.read(lambda look: look.later(hold.run_key))
    rows = store.read(lambda look: look.journal_of(hold.run_key))
    assert later is not None
    left = [leave(row, later) for row in rows]
    assert all(row.told is None and not row.says(b"result") for row in left)
    assert [row.payload for row in left] == [row.payload for row in rows]
    assert [row.payload for row in left[::-7]] == [row.payload for row in rows[::-7]]
    assert store.read(lambda look: [row.payload for row in left[5:9]]) == [row.payload for row in rows[5:9]]
    assert store.write(lambda tx: [row.payload for row in left[5:9]]) == [row.payload for row in rows[5:9]]


def test_nothing_is_left_of_a_journal_that_its_own_transaction_has_lengthened(store: Store) -> None:
    hold = begin(store, "run1")

    def work(tx: Writing) -> tuple[bool, bool]:
        before = tx.later(hold.run_key) is not None
        tx.append(hold, [result(1)])
        return before, tx.later(hold.run_key) is not None

    assert store.write(work) == (True, False)


def test_what_was_left_and_is_not_any_more_what_it_was_is_refused(store: Store) -> None:
    ours, theirs = begin(store, "run1"), begin(store, "run2")
    store.finish(store.put(ours, [result(1)]))
    store.finish(store.put(theirs, [result(2)]))
    (row,) = store.read(lambda look: look.journal_of(ours.run_key))
    elsewhere = store.read(lambda look: look.later(theirs.run_key))
    nowhere = store.read(lambda look: look.later(theirs.run_key + 1))
    assert elsewhere is not None
    assert nowhere is not None
    for later in (elsewhere, nowhere):
        later.of = "run1/"
        with pytest.raises(IntegrityBroken, match="entry run1/1"):
            _ = leave(row, later).payload


def result(number: int) -> JournalEntry:
    return entry(Header("step", "write", inputs=f"{number}", status="succeeded"), Payload(result=Raw(b"%d" % number)))


# -- leases and processes ----------------------------------------------------------------------------


def test_a_lease_is_taken_once_per_epoch(store: Store) -> None:
    hold = begin(store, "run1")
    lease = lease_of(store, "run1")
    assert store.write(lambda tx: tx.take_lease(lease, "p2"))
    assert not store.write(lambda tx: tx.take_lease(lease, "p3"))
    assert (lease_of(store, "run1").holder, lease_of(store, "run1").epoch) == ("p2", hold.epoch + 1)


def test_only_the_owner_of_the_epoch_gives_a_lease_back(store: Store) -> None:
    old = begin(store, "run1")
    new = take_over(store, old)
    store.write(lambda tx: tx.release_lease(old))
    assert lease_of(store, "run1").holder == "p2"
    store.write(lambda tx: tx.release_lease(new))
    assert lease_of(store, "run1").holder is None


def test_a_process_beats_and_is_forgotten_only_when_it_holds_nothing(store: Store) -> None:
    process = Process("p1", "host", "boot", "ns", 5, 6)
    store.write(lambda tx: tx.beat(Beat(process, 1, 2, 30.0)))
    store.write(lambda tx: tx.beat(Beat(process, 3, 4, 30.0)))
    assert store.read(lambda look: look.beat_of("p1")) == Beat(process, 3, 4, 30.0)
    hold = begin(store, "run1")
    store.write(lambda tx: tx.forget_process("p1"))
    assert store.read(lambda look: look.count_processes()) == 1
    store.write(lambda tx: tx.release_lease(hold))
    store.write(lambda tx: tx.forget_process("p1"))
    assert store.read(lambda look: (look.count_processes(), look.beat_of("p1"))) == (0, None)


# -- interrupts --------------------------------------------------------------------------------------


def ask(tx: Writing, interrupt_id: str, run_key: int, call: str = "c1") -> None:
    tx.add_interrupt(interrupt_id, run_key, NewWait("in_doubt", f'["","{call}","",0]', "publish", "{}", 5))


def test_a_call_waits_once_and_one_answer_wins(store: Store) -> None:
    hold = begin(store, "run1")
    store.write(lambda tx: [ask(tx, "i1", hold.run_key), ask(tx, "i2", hold.run_key)])
    assert ids(store.read(lambda look: look.waits_of(hold.run_key))) == ["i1"]
    assert store.write(lambda tx: tx.answer_interrupt("i1", '{"choice":"retry"}', "ann"))
    assert not store.write(lambda tx: tx.answer_interrupt("i1", '{"choice":"abort"}', "bob"))
    (wait,) = store.read(lambda look: look.waits_of(hold.run_key))
    assert (wait.status, wait.answer, wait.answered_by, wait.run_id) == (
        "answered", '{"choice":"retry"}', "ann", "run1",
    )  # fmt: skip
    store.write(lambda tx: tx.use_interrupt("i1"))
    assert store.read(lambda look: look.waits_of(hold.run_key)) == []
    store.write(lambda tx: ask(tx, "i3", hold.run_key))  # the same call may come to wait again
    assert ids(store.read(lambda look: look.waits_of(hold.run_key))) == ["i3"]


def test_open_waits_of_all_runs_come_in_pages_and_without_the_answered(store: Store) -> None:
    first, second = begin(store, "run1"), begin(store, "run2")
    for number, hold in enumerate([first, second, first, second]):
        store.write(lambda tx, n=number, h=hold: ask(tx, f"i{n}", h.run_key, f"c{n}"))
    store.write(lambda tx: tx.answer_interrupt("i1", "{}", "ann"))
    waits = store.read(lambda look: look.open_waits(0, 2))
    assert ids(waits) == ["i0", "i2"]
    assert ids(store.read(lambda look: look.open_waits(waits[-1].key, 2))) == ["i3"]
    store.write(lambda tx: tx.cancel_interrupts(first.run_key))
    assert ids(store.read(lambda look: look.open_waits(0))) == ["i3"]
    assert ids(store.read(lambda look: look.interrupts_by_prefix("i"))) == ["i0", "i1", "i2", "i3"]


# -- the inbox and operations ------------------------------------------------------------------------


def test_what_outsiders_ask_is_taken_once_in_order(store: Store) -> None:
    hold, other = begin(store, "run1"), begin(store, "run2")
    for kind in ("retry", "pause", "rewind"):
        store.write(lambda tx, k=kind: tx.send(hold.run_key, k, "{}", "ann", 1))
    store.write(lambda tx: tx.send(other.run_key, "skip", "{}", "bob", 1))
    found = store.read(lambda look: look.untaken(hold.run_key))
    assert [row[1] for row in found] == ["retry", "pause", "rewind"]
    store.write(lambda tx: tx.take(found[0][0]))
    assert [row[1] for row in store.read(lambda look: look.untaken(hold.run_key))] == ["pause", "rewind"]


def test_what_a_process_holds_is_told_with_how_much_is_asked_of_anybodys_runs(store: Store) -> None:
    one, other, lost = (begin(store, run_id) for run_id in ("r1", "r2", "r3"))
    store.write(lambda tx: tx.send(lost.run_key, "pause", "{}", "ann", 1))
    take_over(store, lost)
    assert store.ask(lambda look: look.held_by("p1")) == ({one.lease_key: 1, other.lease_key: 1}, 1)
    assert store.ask(lambda look: look.held_by("p2")) == ({lost.lease_key: 2}, 1)
    assert store.ask(lambda look: look.held_by("nobody")) == ({}, 0)


def test_an_operation_id_is_used_once(store: Store) -> None:
    store.write(lambda tx: tx.add_operation("op1", "skip", "digest", '{"a":1}', 1))
    assert store.read(lambda look: look.operation("op1")) == ("skip", "digest", '{"a":1}')
    assert store.read(lambda look: look.operation("op2")) is None
    with pytest.raises(StoreFailed):
        store.write(lambda tx: tx.add_operation("op1", "skip", "other", "{}", 1))
