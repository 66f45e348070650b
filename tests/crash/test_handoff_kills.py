"""Handoffs killed between any two writes: each call happened whole or not at all, and can simply be made again."""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.kit.desk import GOOD, TASK, git
from tests.kit.ledgers import copy_folder

from outlast import AsyncRun, Outlast, Run, current, failpoints, flow, step
from outlast.errors import ClaimLost, HandoffInvalid, HandoffNotFound, NameInvalid, OutlastError
from outlast.handoffs.handoff import HandoffEvent, Recovered
from outlast.testing import crash_everywhere
from outlast.testing.crashes import ChildEnd, in_child

from ..kit.ledgers import remove_folder

pytestmark = pytest.mark.crash

QUICK = {"synchronous": "OFF"}  # a killed process leaves its writes to the kernel
SHORT = 6  # of the points of one call; with --crash-long all of them
CHECK = "echo checked && test -f src/export.py"
Act = Callable[[Outlast, Path, str | None], Any]


# -- what is done ------------------------------------------------------------------------------------


def store(outlast: Outlast, folder: Path, operation_id: str | None) -> Any:
    given = GOOD | {"acceptance_checks": [CHECK], "summary": "Stored", "repo_root": str(folder / "repo")}
    return outlast.handoff.store(**given, baseline=True, operation_id=operation_id)


def claim(outlast: Outlast, folder: Path, operation_id: str | None) -> Recovered:
    """The file was edited by somebody: the claim needs an acceptance, and the checks are run."""
    return outlast.handoff.recover(
        TASK,
        repo_root=str(folder / "repo"),
        claim=True,
        run_checks=True,
        accept=["file_changed"],
        why="it is mine",
        operation_id=operation_id,
    )


def settle(outlast: Outlast, folder: Path, operation_id: str | None) -> Any:
    return outlast.handoff.settle(TASK, "completed", repo_root=str(folder / "repo"), operation_id=operation_id)


def claim_run(outlast: Outlast, folder: Path, operation_id: str | None) -> Recovered:
    return outlast.handoff.recover("task:report", claim=True, operation_id=operation_id)


@step(writes=["draft.md"])
def write(folder: str) -> str:
    Path(folder, "draft.md").write_text("half of it")
    if failpoints.armed:
        failpoints.armed("test.writing")
    return "a draft"


@flow
def reports(run: Run, folder: str) -> str:
    return write(folder)


# -- where it is done --------------------------------------------------------------------------------


def repository(folder: Path) -> None:
    (folder / "repo" / "src").mkdir(parents=True)
    (folder / "repo" / "src" / "export.py").write_text("def export():\n    return 1\n")
    git(folder / "repo", "init", "-q")
    git(folder / "repo", "add", "-A")
    git(folder / "repo", "commit", "-q", "-m", "first")


def opened(folder: Path) -> Outlast:
    return Outlast(folder / "home", store_options=QUICK)


def make_empty(folder: Path) -> None:
    repository(folder)
    opened(folder).close()


def make_edited(folder: Path) -> None:
    repository(folder)
    with opened(folder) as outlast:
        store(outlast, folder, None)
    (folder / "repo" / "src" / "export.py").write_text("def export():\n    return 2\n")


def make_stored(folder: Path) -> None:
    repository(folder)
    with opened(folder) as outlast:
        store(outlast, folder, None)


def make_crashed(folder: Path) -> None:
    def work(tell: object) -> None:
        failpoints.arm(failpoints.kill_at("test.writing", 1))
        with opened(folder) as outlast:
            outlast.run(reports, str(folder), task="report")

    folder.mkdir(parents=True)
    assert in_child(work, 60).killed


# -- what came of it ---------------------------------------------------------------------------------


def history(outlast: Outlast) -> list[HandoffEvent]:
    try:
        return outlast.handoff.history(TASK)
    except HandoffNotFound:
        return []


def kinds(outlast: Outlast) -> list[str]:
    return [event.kind for event in history(outlast)]


def stored(outlast: Outlast) -> bool:
    """Whether the revision is there: whole, with its evidence and all that it refers to, or not at all."""
    if not history(outlast):
        assert outlast.handoff.list() == []
        return False
    found = outlast.handoff.get(anchor=TASK)
    assert (found.revision, found.summary, len(found.baseline), found.binding is None) == (1, "Stored", 1, False)
    assert all(outlast._executor.home.blobs.has(name) for name in found.blobs)
    return True


def claimed(outlast: Outlast) -> bool:
    """Whether the claim is there, with all that was said with it."""
    row = outlast._executor.home.store.read(lambda look: look.anchor_of("default", TASK))
    assert row is not None
    lease = outlast._executor.home.store.read(lambda look: look.lease_of_anchor(row.id))
    assert lease is not None
    done = kinds(outlast) == ["stored", "accepted", "checked", "claimed", "attached"]
    assert done == (lease.holder is not None)
    assert done or kinds(outlast) == ["stored"]
    return done


def settled(outlast: Outlast) -> bool:
    (one,) = outlast.handoff.list()
    assert (one.standing, one.outcome, kinds(outlast)) in (
        ("finished", "completed", ["stored", "settled"]),
        ("open", "", ["stored"]),
    )
    return one.standing == "finished"


def run_claimed(outlast: Outlast) -> bool:
    (run,) = outlast.runs()
    lease = outlast._executor.home.store.read(lambda look: look.lease_of(run.id))
    assert lease is not None
    facts = [event.name for event in outlast.events(run.id) if event.name == "run.claimed"]
    beat = outlast._executor.home.store.read(lambda look: look.beat_of(str(lease.holder)))
    done = beat is not None and beat.lease_seconds == 900
    assert len(facts) == done
    return done


class Call(NamedTuple):
    """A call, the place it is made in, whether it happened, and the entry that there is one of then."""

    act: Act
    make: Callable[[Path], None]
    happened: Callable[[Outlast], bool]
    once: str


CALLS = {
    "store": Call(store, make_empty, stored, "stored"),
    "claim": Call(claim, make_edited, claimed, "claimed"),
    "settle": Call(settle, make_stored, settled, "settled"),
    "claim_run": Call(claim_run, make_crashed, run_claimed, ""),
}


def done_by(call: Call, folder: Path, operation_id: str | None, hook: Callable[[str], None] | None) -> ChildEnd:
    """The call in a process of its own, which may be killed at a point."""

    def work(tell: Callable[[str, Any], None]) -> None:
        with opened(folder) as outlast:
            failpoints.arm(hook)
            call.act(outlast, folder, operation_id)
            failpoints.arm(None)

    ended = in_child(work, 60)
    assert not ended.told("error"), ended.told("error")[0]
    return ended


def points_of(call: Call, folder: Path, log: Path) -> list[tuple[str, int]]:
    """Every point that the call reaches when nothing disturbs it."""
    assert not done_by(call, folder, "op-1", failpoints.log_to(str(log))).killed
    seen: Counter[str] = Counter()
    found = []
    for name in log.read_text().split():
        seen[name] += 1
        found.append((name, seen[name]))
    return found


def chosen(points: list[tuple[str, int]], name: str, crash_long: bool) -> list[tuple[str, int]]:
    """All points, or some of them; those around the commit are always among them."""
    commit = [point for point in points if point[0].startswith("commit.")][-3:]
    others = [point for point in points if point not in commit]
    few = others if crash_long else random.Random(name).sample(others, min(SHORT, len(others)))
    return [*few, *commit]


@pytest.mark.parametrize("operation_id", ["op-1", None], ids=["by-its-id", "again"])
@pytest.mark.parametrize("name", CALLS)
def test_a_call_killed_anywhere_happened_whole_or_not_at_all_and_is_made_again(
    name: str, operation_id: str | None, tmp_path: Path, crash_long: bool
) -> None:
    call = CALLS[name]
    call.make(tmp_path / "made")
    copy_folder(tmp_path / "made", tmp_path / "undisturbed")
    points = points_of(call, tmp_path / "undisturbed", tmp_path / "log")
    assert [point for point, _ in points][-3:] == ["commit.begin", "commit.applied", "commit.done"]
    outcomes = set()
    for point, nth in chosen(points, f"{name} {operation_id}", crash_long):
        trial = tmp_path / "trial"
        copy_folder(tmp_path / "made", trial)
        assert done_by(call, trial, operation_id, failpoints.kill_at(point, nth)).killed, f"{point}:{nth}"
        with opened(trial) as outlast:
            assert outlast.verify().ok, outlast.verify().problems
            before = call.happened(outlast)
        outcomes.add(before)
        assert before == ((point, nth) == points[-1]), f"{point}:{nth}"
        _repeat(call, trial, operation_id, before)
        remove_folder(trial)
    assert outcomes == {True, False}


def _repeat(call: Call, folder: Path, operation_id: str | None, before: bool) -> None:
    """The same call from this process: it gives what is there, or does it now."""
    with opened(folder) as outlast:
        if operation_id is None and before:
            _made_again(call, outlast, folder)
        else:
            again = call.act(outlast, folder, operation_id)
            told = again.claim if isinstance(again, Recovered) else again
            assert told.replayed == before
            assert call.happened(outlast)
            assert not call.once or kinds(outlast).count(call.once) == 1
        assert outlast.verify().ok


def _made_again(call: Call, outlast: Outlast, folder: Path) -> None:
    """Without an id there is a second one of what may be there twice; what may not says so."""
    if call.act is settle:
        with pytest.raises(OutlastError, match="completed"):
            call.act(outlast, folder, None)
        assert kinds(outlast).count("settled") == 1
        return
    again = call.act(outlast, folder, None)
    if call.act is store:
        assert again.revision == 2
    else:
        assert again.resume == "attached"  # the claimer was killed, so its claim is free at once


def test_a_claim_that_nobody_heard_of_is_given_to_who_repeats_the_operation(tmp_path: Path) -> None:
    make_edited(tmp_path)
    assert done_by(CALLS["claim"], tmp_path, "op-1", failpoints.kill_at("commit.done", 1)).killed
    with opened(tmp_path) as outlast:
        again = claim(outlast, tmp_path, "op-1").claim
        assert again is not None
        assert again.replayed
        (tmp_path / "repo" / "src" / "export.py").write_text("def export():\n    return 3\n")
        assert outlast.handoff.renew(TASK, claim_id=again.id).id == again.id
        assert settle(outlast, tmp_path, None).outcome == "completed"
        with pytest.raises(ClaimLost):
            outlast.handoff.renew(TASK, claim_id=again.id)


# -- a run's own handoff -----------------------------------------------------------------------------


@step
def diagnose(topic: str) -> str:
    return f"diagnosed {topic}"


@flow
def hands_over(run: Run, repo: str) -> list[Any]:
    said = diagnose("tides")
    first = run.handoff("Half way", f"Go on: {said}.", next_action="Patch it.", **about(repo), baseline=True)
    with run.branch("aside"):
        second = run.handoff("Half way", "Go on.", anchor="task:aside", next_action="Patch it.", **about(repo))
    again = run.handoff("Half way", "Go on.", next_action="Patch the rest.", **about(repo))
    return [first.anchor, first.revision, second.anchor, second.revision, again.revision]


def about(repo: str) -> dict[str, Any]:
    return {"repo_root": repo, "target_files": ["src/export.py"], "acceptance_checks": [CHECK]}


def test_a_run_killed_anywhere_stores_each_of_its_handoffs_once(tmp_path: Path, crash_long: bool) -> None:
    repository(tmp_path)
    limit = None if crash_long else 6
    report = crash_everywhere(hands_over, str(tmp_path / "repo"), home=tmp_path, task="tides", limit=limit)
    assert report.result == ["task:tides", 1, "task:aside", 1, 2]  # by their numbers: one of each
    assert report.kills == min(len(report.points), limit or len(report.points)) - len(report.missed) > 3


def test_a_replay_gives_the_handoff_that_was_stored_first(tmp_path: Path) -> None:
    repository(tmp_path)

    def work(tell: Callable[[str, Any], None]) -> None:
        with opened(tmp_path) as outlast:
            failpoints.arm(failpoints.kill_at("run.ended", 1))
            outlast.run(hands_over, str(tmp_path / "repo"), task="tides")

    assert in_child(work, 60).killed
    (tmp_path / "repo" / "src" / "export.py").write_text("edited since")
    with opened(tmp_path) as outlast:
        first = outlast.handoff.get(anchor="task:tides", revision=1)
        outcome = outlast.run(hands_over, str(tmp_path / "repo"), task="tides")
        assert outcome.unwrap() == ["task:tides", 1, "task:aside", 1, 2]
        assert outlast.handoff.get(anchor="task:tides", revision=1) == first
        assert [event.kind for event in outlast.handoff.history("task:tides")] == ["stored", "stored"]
        assert outlast.verify().ok


@flow
def hands_over_default(run: Run) -> str:
    return run.handoff("Half way", "Go on from here.", bind=False).anchor


def test_it_is_anchored_at_the_task_and_stored_in_the_name_of_the_run(tmp_path: Path) -> None:
    with Outlast(tmp_path, actor="ann", scope="harbour") as outlast:
        assert outlast.run(hands_over_default, task="tides").unwrap() == "task:tides"
        found = outlast.handoff.get(anchor="task:tides")
        assert (found.actor, found.scope, found.binding) == ("ann", "harbour", None)


@step
def stores(number: int) -> int:
    stored = current().handoff(f"Part {number}", "Go on from here.", bind=False)
    return int(stored.revision)


@flow
def hands_over_in_steps(run: Run) -> list[int]:
    return [stores(1), stores(2)]


def test_a_step_hands_over_each_time_it_runs_and_its_receipt_remembers_that(tmp_path: Path) -> None:
    with Outlast(tmp_path) as outlast:
        assert outlast.run(hands_over_in_steps, task="tides").unwrap() == [1, 2]
        assert [event.body["summary"] for event in outlast.handoff.history("task:tides")] == ["Part 1", "Part 2"]


@flow
async def hands_over_async(run: AsyncRun) -> list[int]:
    first = run.handoff("Half way", "Go on from here.", bind=False)
    second = run.handoff("Further", "Go on from there.", bind=False, expected_revision=1)
    return [first.revision, second.revision]


def test_an_async_flow_hands_over_too(tmp_path: Path) -> None:
    with Outlast(tmp_path) as outlast:
        assert outlast.run(hands_over_async, task="tides").unwrap() == [1, 2]


@flow
def hands_over_wrongly(run: Run, fields: dict[str, Any]) -> str:
    try:
        run.handoff("Half way", "Go on from here.", bind=False, **fields)
    except (HandoffInvalid, NameInvalid) as error:
        return f"{error.to_dict().get('path')} {error}"
    return "it was stored"


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"operation_id": "mine"}, "operation_id"),
        ({"actor": "somebody"}, "actor"),
        ({"scope": "elsewhere"}, "scope"),
        ({"tenant_id": "acme"}, "tenant_id"),
        ({"next_step": "x"}, "next_step"),
        ({"target_files": ["../up"]}, "target_files[0]"),
        ({"anchor": "a\nb"}, "anchor"),
    ],
)
def test_wrong_fields_are_refused_by_name_and_nothing_is_stored(
    tmp_path: Path, fields: dict[str, Any], path: str
) -> None:
    with Outlast(tmp_path) as outlast:
        assert path in outlast.run(hands_over_wrongly, fields).unwrap()
        assert outlast.handoff.list() == []
