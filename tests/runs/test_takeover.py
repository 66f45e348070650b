"""When a run may be taken from its owner: a reboot, a clock set back, a process that lives and is silent, a person."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from outlast import AsyncRun, Outlast, Run, flow, step
from outlast.clock import ManualClock
from outlast.errors import LeaseLost, NameInvalid, RunHeld
from outlast.home.settings import Settings

from ..kit.place import KNOBS, Place, happen, ran, reach, until

DAY = 86_400


@step
def work(what: str) -> str:
    ran(f"work {what}")
    reach(f"work {what}")
    return what


@flow
def works(run: Run) -> list[str]:
    return [work("a"), work("b")]


def on(outlast: Outlast, **changed: Any) -> Outlast:
    """The same, on another machine or after another boot."""
    outlast._executor.home.process = replace(outlast._executor.home.process, **changed)
    return outlast


def die_before_reboot(place: Place, boot: str = "the boot before", **where: Any) -> None:
    place.killed(lambda outlast: on(outlast, boot_id=boot, **where).run(works), at="work b")


def test_after_a_reboot_with_the_clock_set_back_a_dead_run_goes_on_at_once(place: Place) -> None:
    die_before_reboot(place, machine_id="m")
    place.clock.set_back(DAY)
    here = on(place.outlast, machine_id="m")
    assert [one.reason for one in here.due()] == ["crashed"]
    assert here.resume(place.run_id).result == ["a", "b"]


@pytest.mark.parametrize("theirs", ["", "another"])
def test_of_another_machine_or_none_the_lease_must_be_over_or_somebody_take_it(place: Place, theirs: str) -> None:
    die_before_reboot(place, machine_id=theirs)
    place.clock.set_back(DAY)
    here = on(place.outlast, machine_id="m" if theirs else "")
    assert here.due() == []
    with pytest.raises(RunHeld) as held:
        here.resume(place.run_id)
    assert "take" in held.value.advice
    assert here.resume(place.run_id, take=True, why="that machine is gone").result == ["a", "b"]
    (taken,) = place.events("run.taken")
    assert (taken.body["why"], taken.body["by"]) == ("that machine is gone", "local")
    assert here.verify().ok


def test_a_reboot_is_no_step_doing_however_often(place: Place) -> None:
    for number in range(5):
        die_before_reboot(place, f"boot {number}", machine_id="m")
    assert on(place.outlast, machine_id="m").resume(place.run_id).status == "succeeded"
    resumed = place.events("run.resumed")
    assert all(event.body["death"] == "rebooted" for event in resumed)


@step
async def slow() -> str:
    if KNOBS.get("die") == "slow":
        while not begun("slow"):  # a death that leaves no start is not counted
            await asyncio.sleep(0.01)
        reach("slow")
    await until("quick")
    return "slow"


@step
async def quick() -> str:
    KNOBS["seen"] = begun("quick")
    happen("quick")
    return "quick"


@flow
async def beside(run: AsyncRun) -> list[str]:
    return list(await asyncio.gather(run.step(slow), run.step(quick) if KNOBS.get("die") != "slow" else run.step(slow)))


def begun(name: str) -> bool:
    """Whether the start of a step is on disk."""
    outlast = KNOBS["place"].outlast
    return any(one.step == name for run in outlast.runs() for one in outlast.receipts(run.id))


def test_after_a_crash_every_start_is_on_disk_before_its_step_until_what_was_under_way_has_ended(place: Place) -> None:
    """Else one that dies at once leaves no trace, and what was beside it looks as if it had been alone."""
    KNOBS["place"] = place
    place.crash(beside, at="slow")
    KNOBS.pop("die", None)
    assert place.outlast.resume(place.run_id).result == ["slow", "quick"]
    assert KNOBS["seen"]


def test_to_take_needs_a_reason_and_a_free_run_is_only_resumed(place: Place) -> None:
    place.crash(works, at="work b")
    with pytest.raises(NameInvalid):
        place.outlast.resume(place.run_id, take=True, why=" ")
    assert place.outlast.resume(place.run_id, take=True, why="it looked held").status == "succeeded"
    assert place.events("run.taken") == []


def held_here(folder: Path, clock: ManualClock, use: Callable[[Outlast, Outlast, Any, Any], None]) -> None:
    """Two workers of one clock; the first is in the middle of a run, and gives no sign of life any more."""
    entered, release = threading.Event(), threading.Event()
    KNOBS["log"] = str(folder / "ran.log")
    KNOBS["wait"] = lambda: (entered.set(), release.wait(20))
    options: Any = {"clock": clock, "settings": Settings(lease_seconds=10, beat_seconds=1)}
    with Outlast(folder / "home", **options) as first, Outlast(folder / "home", **options) as second:
        started = first.start(waits)
        assert entered.wait(20)
        first._executor.live.heartbeat.stop()
        try:
            use(first, second, started, release)
        finally:
            release.set()
            KNOBS.pop("wait", None)


@step
def wait_here() -> str:
    if "wait" in KNOBS:
        KNOBS["wait"]()
    return "waited"


@flow
def waits(run: Run) -> list[str]:
    return [wait_here(), work("after")]


def test_an_owner_that_lives_and_renews_nothing_is_taken_over_after_four_leases(tmp_path: Path) -> None:
    clock = ManualClock()

    def use(first: Outlast, second: Outlast, started: Any, release: Any) -> None:
        run_id = started.run_id
        clock.advance(40)
        with pytest.raises(RunHeld):
            second.resume(run_id)
        clock.advance(1)
        KNOBS.pop("wait")
        assert second.resume(run_id).result == ["waited", "after"]
        (resumed,) = [event for event in second.events(run_id) if event.name == "run.resumed"]
        assert resumed.body["death"] == "taken"
        release.set()
        with pytest.raises(LeaseLost):
            started.outcome(20)

    held_here(tmp_path, clock, use)


def test_a_run_that_is_taken_from_a_living_owner_fences_it(tmp_path: Path) -> None:
    def use(first: Outlast, second: Outlast, started: Any, release: Any) -> None:
        KNOBS.pop("wait")
        assert second.resume(started.run_id, take=True, why="it hangs").status == "succeeded"
        release.set()
        with pytest.raises(LeaseLost):
            started.outcome(20)
        assert second.verify().ok

    held_here(tmp_path, ManualClock(), use)


def test_nobody_takes_a_run_from_himself(tmp_path: Path) -> None:
    def use(first: Outlast, second: Outlast, started: Any, release: Any) -> None:
        with pytest.raises(RunHeld):
            first.resume(started.run_id, take=True, why="impatient")

    held_here(tmp_path, ManualClock(), use)


@flow
def nothing(run: Run) -> int:
    return 1


def test_a_process_says_that_it_lives_with_a_new_run_unless_it_just_did_and_is_still_known(tmp_path: Path) -> None:
    clock = ManualClock()
    with Outlast(tmp_path / ".outlast", clock=clock) as outlast:
        home = outlast._executor.home

        def lived_at() -> int | None:
            outlast.run(nothing)
            return home.store.read(lambda look: look.beaten_at(home.process.id))

        first = lived_at()
        clock.advance(1)
        assert lived_at() == first == clock.boot() - 1_000_000
        clock.advance(home.settings.beat_seconds)
        assert lived_at() == clock.boot()
        home.store.write(lambda tx: tx.forget_process(home.process.id))  # as who takes its run over does
        assert lived_at() == clock.boot()
