"""Tasks killed between any two writes: the state and the handoff agree, and the same call can simply be made again."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.crash.clerk import Clerk
from tests.crash.test_handoff_kills import make_crashed, opened, repository
from tests.kit.desk import GOOD
from tests.kit.ledgers import copy_folder

from outlast import Outlast, failpoints
from outlast.errors import TaskNotFound
from outlast.python.tasks import TaskSession
from outlast.store.contract import Reading
from outlast.testing.crashes import ChildEnd, in_child

from ..kit.ledgers import remove_folder

pytestmark = pytest.mark.crash

TASK = "export-repair"
FIELDS: dict[str, Any] = {name: value for name, value in GOOD.items() if name != "anchor"}
WORKERS = 8
Id = str | None


def session(outlast: Outlast, folder: Path, task: str = TASK) -> TaskSession:
    return outlast.tasks.open(task, repo_root=str(folder / "repo"))


# -- what is done ------------------------------------------------------------------------------------


def open_(outlast: Outlast, folder: Path, operation_id: Id) -> Any:
    return outlast.tasks.open(TASK, meta={"a": 1}, operation_id=operation_id)


def reopen(outlast: Outlast, folder: Path, operation_id: Id) -> Any:
    return outlast.tasks.open(TASK, reopen=True, operation_id=operation_id)


def event(outlast: Outlast, folder: Path, operation_id: Id) -> Any:
    return session(outlast, folder).record_event("begun", {"a": 1}, operation_id=operation_id)


def pause(outlast: Outlast, folder: Path, operation_id: Id) -> Any:
    return session(outlast, folder).pause_task(**FIELDS, operation_id=operation_id)


def resume(outlast: Outlast, folder: Path, operation_id: Id) -> Any:
    return session(outlast, folder).resume_task(operation_id=operation_id)


def resume_run(outlast: Outlast, folder: Path, operation_id: Id) -> Any:
    return session(outlast, folder, "report").resume_task(operation_id=operation_id)


def complete(outlast: Outlast, folder: Path, operation_id: Id) -> Any:
    return session(outlast, folder).complete_task(operation_id=operation_id)


def complete_alone(outlast: Outlast, folder: Path, operation_id: Id) -> Any:
    return session(outlast, folder).complete_task(override="seen by eye", operation_id=operation_id)


# -- where it is done --------------------------------------------------------------------------------


def make_empty(folder: Path) -> None:
    repository(folder)
    opened(folder).close()


def make_open(folder: Path) -> None:
    repository(folder)
    with opened(folder) as outlast:
        session(outlast, folder)


def make_paused(folder: Path) -> None:
    repository(folder)
    with opened(folder) as outlast:
        pause(outlast, folder, None)


def make_completed(folder: Path) -> None:
    repository(folder)
    with opened(folder) as outlast:
        pause(outlast, folder, None)
        complete(outlast, folder, None)


def make_run(folder: Path) -> None:
    make_crashed(folder)
    (folder / "repo").mkdir()
    with opened(folder) as outlast:
        session(outlast, folder, "report")


# -- what came of it ---------------------------------------------------------------------------------


def stands(outlast: Outlast) -> tuple[str, str, bool, int]:
    """State of the task, standing of the handoff, whether somebody claims it or its run, and how many events."""
    (name,) = {task.task for task in outlast.tasks.list()} or {TASK}
    try:
        task = outlast.tasks.get(name)
        state, events = task.state, task.events
    except TaskNotFound:
        state, events = "", 0
    runs = [run.id for run in outlast.runs()]

    def look(reading: Reading) -> tuple[str, bool]:
        anchor = reading.anchor_of("default", f"task:{name}")
        leases = [reading.lease_of_anchor(anchor.id)] if anchor else []
        leases += [reading.lease_of(run) for run in runs]
        beats = [reading.beat_of(lease.holder) for lease in leases if lease and lease.holder]
        claimed = any(beat is not None and beat.lease_seconds == 900 for beat in beats)
        return anchor.status if anchor else "", claimed

    return state, *outlast._executor.home.store.read(look), events


class Call(NamedTuple):
    """A call, the place it is made in, and how things stand before and after it."""

    act: Callable[[Outlast, Path, Id], Any]
    make: Callable[[Path], None]
    before: tuple[str, str, bool, int]
    after: tuple[str, str, bool, int]


CALLS = {
    "open": Call(open_, make_empty, ("", "", False, 0), ("active", "", False, 1)),
    "reopen": Call(reopen, make_completed, ("completed", "finished", False, 3), ("active", "finished", False, 4)),
    "event": Call(event, make_open, ("active", "", False, 1), ("active", "", False, 2)),
    "pause": Call(pause, make_open, ("active", "", False, 1), ("paused", "open", False, 2)),
    "resume": Call(resume, make_paused, ("paused", "open", False, 2), ("resumed", "open", True, 3)),
    "resume_run": Call(resume_run, make_run, ("active", "", False, 1), ("resumed", "", True, 2)),
    "complete": Call(complete, make_paused, ("paused", "open", False, 2), ("completed", "finished", False, 3)),
    "complete_alone": Call(complete_alone, make_open, ("active", "", False, 1), ("completed", "", False, 2)),
}


def done_by(call: Call, folder: Path, operation_id: Id, hook: Callable[[str], None] | None) -> ChildEnd:
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


@pytest.mark.parametrize("name", CALLS)
def test_a_call_killed_anywhere_left_task_and_handoff_agreeing_and_is_made_again(name: str, tmp_path: Path) -> None:
    call = CALLS[name]
    call.make(tmp_path / "made")
    copy_folder(tmp_path / "made", tmp_path / "undisturbed")
    points = points_of(call, tmp_path / "undisturbed", tmp_path / "log")
    commit = [number for number, (point, _) in enumerate(points) if point == "commit.done"]
    outcomes = set()
    for number, (point, nth) in enumerate(points):
        trial = tmp_path / "trial"
        copy_folder(tmp_path / "made", trial)
        assert done_by(call, trial, "op-1", failpoints.kill_at(point, nth)).killed, f"{point}:{nth}"
        with opened(trial) as outlast:
            assert outlast.verify().ok, outlast.verify().problems
            found = stands(outlast)
            happened = number >= commit[-1]
            assert found == (call.after if happened else call.before), f"{point}:{nth}"
            again = call.act(outlast, trial, "op-1")
            assert getattr(again, "replayed", happened) == happened
            assert stands(outlast) == call.after
            assert outlast.verify().ok
        outcomes.add(happened)
        remove_folder(trial)
    assert outcomes == {True, False}


# -- many at once ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "task"), [(make_paused, TASK), (make_run, "report")], ids=["handoff", "run"])
def test_of_eight_processes_that_resume_at_once_one_wins_and_the_others_are_told_who(
    make: Callable[[Path], None], task: str, tmp_path: Path
) -> None:
    place = tmp_path / "place"
    make(place)
    clerks = [Clerk(place / "home", f"worker-{number}") for number in range(WORKERS)]
    try:
        for clerk in clerks:
            clerk.tell("resume_task", task, str(place / "repo"))
        answers = [clerk.hear() for clerk in clerks]
        (winner,) = [answer.value["actor"] for answer in answers if answer.ok]
        lost = [answer for answer in answers if not answer.ok]
        assert [answer.code for answer in lost] == ["handoff_claimed"] * (WORKERS - 1)
        assert all(winner in answer.value["holder"] for answer in lost)
        next(clerk for clerk in clerks if clerk.actor == winner).kill()
        second = next(clerk for clerk in clerks if clerk.actor != winner)
        assert second.ask("resume_task", task, str(place / "repo")).value["actor"] == second.actor
    finally:
        for clerk in clerks:
            clerk.kill()
    with opened(place) as outlast:
        events = [(each.kind, each.actor) for each in outlast.tasks.session(task).events() if each.kind == "resumed"]
        assert events == [("resumed", winner), ("resumed", second.actor)]
        assert outlast.verify().ok
