"""The ordinary call goes a shorter way, and nobody can tell: the journal has the same bytes whichever way it went."""

import itertools
import threading
from pathlib import Path
from typing import Any

import apsw
import pytest
from msgspec import Struct

from outlast import AsyncRun, Outlast, Run, current, flow, step
from outlast.clock import ManualClock
from outlast.errors import LeaseLost
from outlast.ledger.journal import Row
from outlast.runs import call_flat

from ..kit.place import KNOBS


class Ticking(ManualClock):
    """Each look of the flow's thread is a moment later: who looks more often writes other times."""

    def now(self) -> int:
        if threading.current_thread() is threading.main_thread():
            self.advance(0.001)
        return super().now()


class Fish(Struct):
    name: str
    weight: float


# -- steps of every shape ----------------------------------------------------------------------------


@step
def scalar(number: int) -> int:
    return number + 1


@step
def nothing() -> None:
    return None


@step
def no_words(a: Any = None, *, b: bool = True) -> Any:
    return a


@step
def text(words: str) -> str:
    return f'{words} "quoted" \\ % %d {{}} \u00e9\u2028'


@step
def typed(fish: Fish) -> Fish:
    return Fish(fish.name, fish.weight * 2)


@step
def unannotated(given):  # type: ignore[no-untyped-def]
    return {"given": given, "half": 0.5}


@step
def starred(*names: str, **more: int) -> list[str]:
    return [*names, *more]


@step(agent='a "50%" agent', name="named % of steps")
def named(number: int) -> int:
    return number


@step(timeout=30)
def timed(number: int) -> int:
    return number


@step(ignore=["noise"])
def ignoring(number: int, noise: int) -> int:
    return number


@step(record_inputs=False)
def unrecorded(words: str) -> str:
    return words * 20


@step(record_inputs=True)
def recorded(words: str) -> int:
    return len(words)


@step
def large(size: int) -> str:
    return "x" * size


@step
def writes(number: int) -> int:
    current().state["number"] = number
    return number


@step
def says(number: int) -> int:
    current().envelope(done="counted", next="count on")
    return number


@step
def emits(number: int) -> int:
    current().emit("seen", number)
    return number


@step(retries=2, backoff=0)
def fails_first(number: int) -> int:
    if current().attempt < 3:
        raise ValueError("not yet")
    return number


@step
def refuses() -> Any:
    return object()


@step
async def slept(number: int) -> int:
    return number + 1


@flow
def shapes(run: Run) -> Any:
    for n in range(3):
        scalar(n), scalar(0), nothing(), no_words(), no_words(n, b=False), no_words(1.5), text(f"w%{n}")
        typed(Fish("cod", 1.5)), unannotated([n]), unannotated("x" * 60), starred("a", "b", c=n), named(n), timed(n)
        ignoring(n, noise=5), unrecorded("ab"), recorded("ab" * 20_000), large(40_000 if n == 1 else 3000)
        run.state["n"] = n
        scalar(n + 10), scalar(n + 20)
        run.emit("passed", {"n": n})
        scalar(n + 30), writes(n), scalar(n + 40), says(n), emits(n), scalar(n + 50)
        fails_first(n)
        assert run.now()
        scalar(n + 60), run.step(scalar, n, id=f'id "{n}" %s'), run.map(scalar, [n, n, 7], concurrency=1)
        text(text("b" * 40))
        try:
            refuses()
        except Exception:
            scalar(n + 70)
        with run.branch("inner % scope"):
            scalar(n), scalar(n)
    return run.state["n"]


@flow
async def shapes_async(run: AsyncRun) -> int:
    for n in range(3):
        await slept(n)
        await slept(0)
        run.state["n"] = n
        await slept(n + 5)
        run.emit("passed", n)
        await slept(n + 6)
        await run.step(scalar, n)
        await run.map(slept, [n, 3], concurrency=1)
        await slept(n + 7)
    return n


def rows(home: Path, body: Any, monkeypatch: pytest.MonkeyPatch, *, flat: bool) -> list[Row]:
    """The journal of a run of the body, gone one way or the other; all else being equal."""
    monkeypatch.setattr(call_flat, "enabled", flat)
    names = (f"id-{number:04}" for number in itertools.count())
    with Outlast(home, clock=Ticking(), ids=lambda: next(names), store_options={"synchronous": "OFF"}) as outlast:
        run_id = outlast.run(body).run_id
        return outlast._caller.home.store.read(lambda look: look.journal_of(look.run_by_id(run_id).key))  # type: ignore[union-attr]


@pytest.fixture
def short_ways(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The steps whose receipts were made the short way."""
    taken: list[str] = []
    made = call_flat.receipt_of

    def noting(execution: Any, attempt: Any, ended: Any) -> Any:
        found = made(execution, attempt, ended)
        taken.extend([attempt.asked.spec.name] if found is not None else [])
        return found

    monkeypatch.setattr(call_flat, "receipt_of", noting)
    return taken


@pytest.mark.parametrize("body", [shapes, shapes_async], ids=lambda flow: flow.__name__)
def test_both_ways_write_the_same_bytes(
    body: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short_ways: list[str]
) -> None:
    long = rows(tmp_path / "long", body, monkeypatch, flat=False)
    assert short_ways == []
    short = rows(tmp_path / "short", body, monkeypatch, flat=True)
    assert len(short) > 25
    for one, other in zip(long, short, strict=True):
        assert one == other
    wanted = {"slept"} if body is shapes_async else {"scalar", "nothing", "text", "typed", "named % of steps", "timed"}
    assert wanted <= set(short_ways)
    assert not {"writes", "says", "fails_first", "refuses"} & set(short_ways)


# -- what it costs, and that nothing of it is saved at the wrong end ----------------------------------


class SyncedFile(apsw.VFSFile):
    """A file that counts how often it is synced."""

    def __init__(self, synced: list[str], name: Any, flags: list[int]) -> None:
        self._synced, self._name = synced, name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        super().__init__("", name, flags)

    def xSync(self, flags: int) -> None:
        self._synced.append(self._name)
        super().xSync(flags)


class SyncedVFS(apsw.VFS):
    def __init__(self, name: str) -> None:
        self.synced: list[str] = []
        super().__init__(name, "")

    def xOpen(self, name: Any, flags: list[int]) -> SyncedFile:
        return SyncedFile(self.synced, name, flags)


@flow
def counted(run: Run) -> None:
    scalar(-1), scalar(-2)
    store = run._execution.store
    before = len(KNOBS["vfs"].synced), store.read(lambda look: len(look.journal_of(run._execution.hold.run_key)))
    for number in range(10):
        scalar(number)
        after = len(KNOBS["vfs"].synced), store.read(lambda look: len(look.journal_of(run._execution.hold.run_key)))
        KNOBS["cost"].append((after[0] - before[0], after[1] - before[1]))
        before = after


@pytest.mark.parametrize("flat", [True, False])
def test_a_step_costs_one_sync_and_one_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flat: bool) -> None:
    """On disk before the flow has its result: neither fewer syncs than steps, nor a row more than a receipt."""
    monkeypatch.setattr(call_flat, "enabled", flat)
    KNOBS["cost"], KNOBS["vfs"] = [], SyncedVFS(f"synced-{flat}")
    with Outlast(tmp_path / "home", store_options={"vfs": f"synced-{flat}"}) as outlast:
        outlast.run(counted).unwrap()
    assert KNOBS["cost"] == [(1, 1)] * 10


def test_a_step_that_lost_its_lease_keeps_nothing_and_is_not_given(tmp_path: Path, short_ways: list[str]) -> None:
    with Outlast(tmp_path / "home", store_options={"synchronous": "OFF"}) as outlast:
        with pytest.raises(LeaseLost):
            outlast.run(loses)
        rows = outlast.receipts(outlast.runs()[0].id)
    assert short_ways == ["taken", "scalar", "scalar", "taken"]  # it came as far as the store
    assert [row.label for row in rows if row.status == "succeeded"] == ["taken", "scalar", "scalar~2"]
    assert KNOBS["given"] == [0]


@step
def taken(number: int) -> int:
    if number:
        execution = KNOBS["execution"]
        execution.store.write(lambda tx: tx.take_lease(tx.lease_of(execution.id), "another"))
    return number


@flow
def loses(run: Run) -> None:
    KNOBS["execution"], KNOBS["given"] = run._execution, []
    KNOBS["given"].append(taken(0))
    scalar(1), scalar(2)
    KNOBS["given"].append(taken(1))
