"""Waits that several decide about: signals that come late or to a run that is given up, runs that move meanwhile."""

import asyncio
from typing import Any

import pytest

from outlast import AsyncRun, Run, flow, step
from outlast.errors import Invalid, RunSealed
from outlast.store.sqlite.transaction import StoreReader, Transaction

from ..kit.place import KNOBS, Place
from .test_waits import HOUR, asking, listening, only_wait, seal


@flow
def listening_too(run: Run) -> Any:
    return run.wait_for("news")


def test_a_late_signal_does_not_beat_the_deadline_and_is_kept(place: Place) -> None:
    KNOBS["how"] = {"deadline": "1h", "default": "nothing came"}
    place.outlast.run(listening, task="t")
    place.clock.advance(HOUR)
    assert place.outlast.signal("news", "late", task="t").interrupt == ""
    assert place.outlast.run(listening, task="t").unwrap() == ["nothing came"]
    assert place.again(listening, task="t").unwrap() == ["late"]


def test_of_two_waits_a_signal_passes_over_the_late_one(place: Place) -> None:
    KNOBS["how"] = {"deadline": "1h", "default": "nothing came"}
    place.outlast.run(listening, task="t")
    KNOBS["how"] = {}
    other = only_wait(place.outlast.run(listening_too, task="t"))
    place.clock.advance(HOUR)
    assert place.outlast.signal("news", "late", task="t").interrupt == other


def test_a_signal_to_a_task_is_not_lost_with_a_run_that_was_given_up(place: Place) -> None:
    place.outlast.run(listening, task="t")
    place.outlast.signal("news", 1, task="t")
    place.outlast.signal("news", 2, task="t")
    assert place.outlast.run(listening, task="t", fresh=True).unwrap() == [1]
    assert place.again(listening, task="t").unwrap() == [2]


def test_a_signal_to_a_run_is_given_up_with_it(place: Place) -> None:
    outcome = place.outlast.run(listening, task="t")
    place.outlast.signal("news", 1, run_id=outcome.run_id)
    assert place.outlast.run(listening, task="t", fresh=True).status == "waiting"


def test_a_signal_to_a_sealed_run_is_refused(place: Place) -> None:
    outcome = place.outlast.run(listening, task="t")
    seal(place, outcome.run_id)
    with pytest.raises(RunSealed):
        place.outlast.signal("news", 1, run_id=outcome.run_id)
    assert place.outlast.signal("news", 1, task="t").interrupt == ""


@flow
async def racing(run: AsyncRun) -> str:
    """Waits for a signal and for work beside it, and lets go of the signal when the work is done."""
    listening = asyncio.ensure_future(run.wait_for("news"))
    await asyncio.sleep(0)
    done = await run.step(telling)
    listening.cancel()
    return str(done)


@step
def telling() -> str:
    KNOBS["tell"]()
    return "done"


def test_a_signal_to_a_branch_that_the_flow_let_go_of_is_kept(place: Place) -> None:
    sent = []
    KNOBS["tell"] = lambda: sent.append(place.outlast.signal("news", 1, task="t"))
    assert place.outlast.run(racing, task="t").unwrap() == "done"
    assert sent[0].interrupt
    assert place.outlast.run(listening, task="t").unwrap() == [1]


def test_a_step_is_looked_up_before_the_write_that_asks_to_go_back_to_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = place.outlast.run(asking)
    journal_of: Any = Transaction.journal_of
    writing: list[int] = []

    def counted(self: Any, run_key: int, *how: int) -> Any:
        writing.append(run_key)
        return journal_of(self, run_key, *how)

    monkeypatch.setattr(Transaction, "journal_of", counted)
    place.outlast.rewind(outcome.run_id, "work")
    assert writing == []


def test_a_step_is_looked_up_again_when_the_run_moved_meanwhile(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    KNOBS["raise"] = ("before", ValueError("not yet"))
    outcome = place.outlast.run(asking)
    store = place.outlast._executor.home.store
    write = store.write

    def write_after_it_went_on(work: Any, plain: Any = None) -> Any:
        monkeypatch.undo()
        del KNOBS["raise"]
        assert place.outlast.resume(outcome.run_id).status == "waiting"
        return write(work, plain)

    monkeypatch.setattr(store, "write", write_after_it_went_on)
    with pytest.raises(Invalid, match="has succeeded already"):
        place.outlast.retry(outcome.run_id, "work")


# -- many waits --------------------------------------------------------------------------------------


@flow
async def asking_often(run: AsyncRun) -> None:
    for number in range(20):
        await run.step(counting, number)
    await asyncio.gather(*(run.pause_for("input", payload={"n": number}) for number in range(20)))


@step
def counting(number: int) -> int:
    return number


def test_opening_many_waits_reads_the_journal_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    journal_of: Any = StoreReader.journal_of
    headers_of: Any = StoreReader.headers_of
    read: list[int] = []

    def counted(self: Any, run_key: int, *how: int) -> Any:
        rows = journal_of(self, run_key, *how)
        read.extend(row.seq for row in rows)
        return rows

    def counted_headers(self: Any, run_key: int, *how: int) -> Any:
        rows = headers_of(self, run_key, *how)
        read.extend(seq for seq, _ in rows)
        return rows

    monkeypatch.setattr(StoreReader, "journal_of", counted)
    monkeypatch.setattr(StoreReader, "headers_of", counted_headers)
    outcome = place.outlast.run(asking_often)
    assert len(outcome.interrupts) == 20
    assert 20 <= len(read) == len(set(read))
