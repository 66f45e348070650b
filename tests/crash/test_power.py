"""A power cut before every operation on the disk: every step that was acknowledged is in what survives.

kill -9 does not show this: the kernel keeps what a killed process wrote. Here unsynced writes are gone, or
torn, or reordered (see power.py). With `synchronous=OFF` the same script must lose steps, or it proves nothing.
"""

import itertools
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from outlast import Outlast, Run, current, flow
from outlast.store.sqlite import log
from outlast.store.sqlite.open import SqliteStore
from outlast.testing import crashes

from ..store.support import begin, broken, lease_of, some
from . import flows
from .power import DropAll, DropSome, Loss, Operation, PowerVFS
from .processes import AfterReboot

pytestmark = [pytest.mark.crash, pytest.mark.timeout(1200)]  # the long form looks at a thousand homes

_names = (f"power-{number}" for number in itertools.count())
SHARE = 5  # of the cuts one in so many is looked at in every run of the tests; the long form looks at all
acknowledged: list[str] = []  # labels of the calls that have returned to the flow


@pytest.fixture
def power() -> Iterator[PowerVFS]:
    vfs = PowerVFS(next(_names))
    acknowledged.clear()
    yield vfs
    vfs.unregister()


@flow
def story(run: Run, world: str) -> str:
    """Steps, an effect with its intent, state and a value; each call is acknowledged once it has returned."""
    for number in range(4):
        run.state["number"] = number
        flows.add(number, 1)
        acknowledged.append("add" if number == 0 else f"add~{number + 1}")
    flows.tell(world, f"uuid {run.uuid()}")
    acknowledged.append("tell")
    paid = flows.charge(world, 5)
    acknowledged.append("charge")
    current().phase = "paid"
    flows.add(9, 9)
    acknowledged.append("add~5")
    return paid


@dataclass(slots=True)
class Cuts:
    """Cuts the power before every operation, and keeps what survived and what had been acknowledged by then."""

    power: PowerVFS
    folder: Path
    losses: int = 1
    torn_every: int = 1  # operation: at the others all that was not synced is gone
    made: list[tuple[Path, list[str], Loss]] = field(default_factory=list)

    def before(self, operation: Operation) -> None:
        torn = self.losses if operation.number % self.torn_every == 0 else 1
        losses: list[Loss] = [DropAll(), *(DropSome(operation.number * 10 + n) for n in range(1, torn))]
        for loss in losses:
            home = self.folder / f"{operation.number}-{len(self.made)}"
            known = list(acknowledged)
            self.power.cut(home / "default", loss)
            self.made.append((home, known, loss))


def run_and_cut(power: PowerVFS, folder: Path, synchronous: str, losses: int = 1, torn_every: int = 1) -> Cuts:
    cuts = Cuts(power, folder / "cuts", losses, torn_every)
    power.before = cuts.before
    options = {"vfs": power.name, "synchronous": synchronous}
    with Outlast(folder / "live", store_options=options) as outlast:
        assert outlast.run(story, str(folder / "world")).unwrap() == "charged 5"
    return cuts


def lost(home: Path, known: list[str]) -> set[str]:
    """Which acknowledged calls are not in a surviving home; and it must verify, whatever is in it."""
    with Outlast(home, store_options={"synchronous": "OFF"}) as outlast:
        assert list(crashes.wrongs(outlast)) == []
        kept = {r.label for run in outlast.runs() for r in outlast.receipts(run.id) if r.delivered}
    return set(known) - kept


def test_every_acknowledged_step_survives_a_power_cut_at_any_operation(
    power: PowerVFS, tmp_path: Path, crash_long: bool
) -> None:
    often = {"losses": 6} if crash_long else {"losses": 2, "torn_every": 4}
    cuts = run_and_cut(power, tmp_path, "FULL", **often)
    assert len(cuts.made) > 100
    looked_at = cuts.made if crash_long else cuts.made[::SHARE]
    assert {len(known) for _, known, _ in looked_at} == set(range(8))
    assert [(loss, gone) for home, known, loss in looked_at if (gone := lost(home, known))] == []


def test_without_syncs_the_same_cuts_lose_acknowledged_steps(power: PowerVFS, tmp_path: Path) -> None:
    cuts = run_and_cut(power, tmp_path, "OFF")
    assert any(lost_or_broken(home, known) for home, known, _ in cuts.made[::SHARE])


def lost_or_broken(home: Path, known: list[str]) -> bool:
    try:
        return bool(lost(home, known))
    except Exception:
        return True


def test_a_run_goes_on_from_what_a_power_cut_left(power: PowerVFS, tmp_path: Path, crash_long: bool) -> None:
    world = tmp_path / "world"
    cuts = run_and_cut(power, tmp_path, "FULL")
    power.before = None
    then = {number: world_at(cuts, number, world) for number in range(0, len(cuts.made), 9 if crash_long else 18)}
    for number, lines in then.items():
        home, known, _ = cuts.made[number]
        world.write_text(lines)
        with Outlast(home, clock=AfterReboot()) as outlast:
            if not any(run.finished for run in outlast.runs()):
                outcome = outlast.run(story, str(world))
                assert outcome.unwrap() == "charged 5"
                assert outcome.replayed_steps >= len(known)
            assert list(crashes.wrongs(outlast)) == []
        assert len(flows.shown(str(world))) == len(set(flows.shown(str(world)))) == 2


def world_at(cuts: Cuts, number: int, world: Path) -> str:
    """What the world had seen by a cut: both lines once the effect was acknowledged, none before the first."""
    lines = world.read_text().splitlines()
    known = cuts.made[number][1]
    return "".join(f"{line}\n" for line in lines[: ("tell" in known) + ("charge" in known)])


# -- while the log is copied beside the writer -------------------------------------------------------

RUNS, COMMITS = 8, 60


@dataclass(slots=True)
class CopyCuts:
    """Cuts the power before operations of who writes and of who copies the log; what was acknowledged by then."""

    power: PowerVFS
    folder: Path
    often: int  # one in so many of each thread's, and each sync
    acknowledged: int = 0  # commits
    made: list[tuple[Path, int, bool]] = field(default_factory=list)
    seen: dict[str, int] = field(default_factory=dict)

    def before(self, operation: Operation) -> None:
        known, who = self.acknowledged, threading.current_thread().name
        number = self.seen[who] = self.seen.get(who, 0) + 1
        if operation.kind == "sync" or number % self.often == 0:
            loss = DropAll() if number % 2 else DropSome(operation.number)
            home = self.folder / f"{operation.number}-{who}"
            self.power.cut(home, loss)
            self.made.append((home, known, who == "outlast-log"))


def test_every_entry_survives_a_power_cut_at_any_operation_while_the_log_is_copied_beside(
    power: PowerVFS, tmp_path: Path, crash_long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "COPIED_PAGES", 60)
    store = SqliteStore(tmp_path / "outlast.db", vfs=power.name)
    holds = [begin(store, f"run{number}") for number in range(RUNS)]
    copier, never = store._writer._copier, threading.Event()  # type: ignore[union-attr]
    cuts = CopyCuts(power, tmp_path / "cuts", 3 if crash_long else 25)
    power.before = cuts.before
    for number in range(COMMITS):
        tickets = [store.put(hold, [some(number, text="x" * 1500)]) for hold in holds]
        store.finish(tickets[0])
        cuts.acknowledged += 1
        while number % 3 and copier._stage == "is copied":  # of some, nothing is written during the copy
            never.wait(0.001)
    power.before = None
    store.close()
    assert sum(beside for _, _, beside in cuts.made) > 10
    assert [home for home, known, _ in cuts.made if min(entries_left(home)) < known] == []


def entries_left(home: Path) -> list[int]:
    """How many entries each run has in what a cut left, of whose journals none is broken."""
    store = SqliteStore(home / "outlast.db", synchronous="OFF")
    heads = [lease_of(store, f"run{number}").head for number in range(RUNS)]
    assert store.check() == []
    assert [broken(store, f"run{number}", head) for number, head in enumerate(heads)] == [None] * RUNS
    store.close()
    return heads
