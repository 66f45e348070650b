"""Every write point of every kind of flow: a real process is killed there, resumed, and the promises are checked."""

from pathlib import Path
from typing import Any

import pytest

from outlast import NOT_DONE, Flow, Happened, Receipt, failpoints
from outlast.runs import call_flat
from outlast.testing import Crashes, crash_everywhere

from . import flows

pytestmark = pytest.mark.crash

FLOWS: dict[str, tuple[Flow[..., Any], int | None]] = {  # and how many effects each leaves in the world
    "plain": (flows.plain, None),
    "probed": (flows.probed, 3),
    "unprobed": (flows.unprobed, 2),
    "retried": (flows.retried, 1),
    "not_done": (flows.not_done, 1),
    "blobs": (flows.blobs, None),
    "remembers": (flows.remembers, None),
    "maps": (flows.maps, None),
    "branches": (flows.branches, 2),
    "gathers": (flows.gathers, 2),
    "catches": (flows.catches, None),
    "sleeps": (flows.sleeps, None),
    "spawns": (flows.spawns, 2),
}
RESULTS = {"post": "posted a", "post~2": "posted b", "says_not_done": "sent"}  # of effects without a probe
WORLDLESS = {"plain": (5,), "blobs": (), "catches": (), "sleeps": ()}
AT_ONCE = 4  # points of a flow in every run of the tests, spread evenly; the long form has all of them


def crash(name: str, folder: Path, **options: Any) -> Crashes:
    """Crash one of the flows everywhere, with a world of its own that each trial begins anew."""
    world = folder / "world"
    found, effects = FLOWS[name]

    def settle(receipt: Receipt) -> object:
        return Happened(RESULTS[receipt.label]) if receipt.key in lines() else NOT_DONE

    def lines() -> list[str]:
        return flows.shown(str(world))

    def check(result: object) -> None:
        if effects is not None:
            assert len(lines()) == len(set(lines())) == effects

    args = WORLDLESS.get(name, (str(world),))
    return crash_everywhere(
        found, *args, settle=settle, check=check, reset=lambda: world.write_text(""), home=folder, **options
    )


@pytest.mark.parametrize("name", FLOWS)
def test_a_flow_killed_at_any_write_point_ends_as_if_nothing_had_happened(
    name: str, tmp_path: Path, crash_long: bool
) -> None:
    limit = None if crash_long else AT_ONCE
    report = crash(name, tmp_path, limit=limit)
    assert report.kills == min(len(report.points), limit or len(report.points)) - len(report.missed) > 0


@pytest.mark.parametrize("name", ["plain", "remembers", "maps", "gathers"])
def test_so_does_one_whose_ordinary_calls_go_the_general_way(
    name: str, tmp_path: Path, crash_long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_flat, "enabled", False)  # in the processes that are forked and killed
    report = crash(name, tmp_path, limit=None if crash_long else AT_ONCE // 2)
    assert report.kills > 0


@pytest.mark.parametrize("name", ["probed", "unprobed", "remembers", "spawns"])
def test_a_resume_that_is_killed_as_well_ends_the_same(name: str, tmp_path: Path, crash_long: bool) -> None:
    report = crash(name, tmp_path, twice=True, limit=None if crash_long else 3)
    assert report.kills > report.resumes / 3


def test_every_write_point_is_reached_by_one_of_these_flows(tmp_path: Path) -> None:
    reached = {point.name for name in FLOWS for point in crash(name, tmp_path, limit=0).points}
    assert reached == set(failpoints.POINTS)
