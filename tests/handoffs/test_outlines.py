"""Many unfinished runs in a list: a line each, and nothing is composed, judged or read of their flow for it."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from outlast import Outlast, Run, flow, step
from outlast.errors import HandoffNotFound
from outlast.handoffs.find import HandoffQuery, has_gone_on, subject_of


@step
def measure(place: str) -> int:
    return len(place)


@flow(name="asks-in-lists")
def asks(run: Run, place: str) -> bool:
    measure(place)
    return bool(run.pause_for("approval", payload={"question": f"Sail to {place}?"})["approved"])


@flow(name="fails-in-lists")
def fails(run: Run) -> None:
    raise LookupError("no such harbour")


@pytest.fixture
def outlast(tmp_path: Path) -> Iterator[Outlast]:
    with Outlast(tmp_path / "home") as found:
        yield found


def hand_over(outlast: Outlast, task: str) -> None:
    outlast.handoff.store(f"task:{task}", "Stopped at the quay", "Go on there.", bind=False)


def files_of(work: Callable[[], Any]) -> set[str]:
    """The files of ours whose code runs meanwhile."""
    met: set[str] = set()

    def look(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            met.add(frame.f_code.co_filename)

    sys.setprofile(look)
    try:
        work()
    finally:
        sys.setprofile(None)
    return {Path(each).name for each in met if "outlast" in each}


def test_a_line_says_how_a_run_stands_what_it_waits_for_and_what_comes_next(outlast: Outlast) -> None:
    outlast.run(asks, "Bodø", task="north")
    assert outlast.run(fails, task="south").status == "failed"
    (failed, waiting), tasks = outlast.handoff._left_by_runs(10)
    assert (tasks, failed.anchor, waiting.anchor) == (2, "task:south", "task:north")
    assert (waiting.status, waiting.standing, waiting.next_action) == ("waiting", "open", "answer what it waits for")
    assert "Sail to Bodø?" in waiting.says
    assert (failed.status, failed.says) == ("failed", "no such harbour")
    assert failed.next_action == "mend what it failed of, then resume it"


def test_a_list_of_lines_composes_and_judges_nothing(outlast: Outlast) -> None:
    for number in range(3):
        outlast.run(asks, f"port-{number}", task=f"ask-{number}")
    outlast.handoff._left_by_runs(10)
    met = files_of(lambda: outlast.handoff._left_by_runs(10))
    assert "list.py" in met
    assert not met & {"compose.py", "outlook.py", "recovery.py", "lint.py", "code.py"}
    assert "compose.py" in files_of(lambda: outlast.handoff.list())


def test_lines_are_read_page_by_page(outlast: Outlast) -> None:
    for number in range(5):
        outlast.run(asks, f"port-{number}", task=f"ask-{number}")
    first, _ = outlast.handoff._left_by_runs(2)
    then, tasks = outlast.handoff._left_by_runs(9, first[-1].run_id)
    assert [each.anchor for each in (*first, *then)] == [f"task:ask-{number}" for number in (4, 3, 2, 1, 0)]
    assert tasks == 5


def test_whether_a_run_has_gone_on_is_told_as_by_who_composes_it(outlast: Outlast) -> None:
    """Each task in another case: never handed over, before its run, after it stopped, settled, answered since."""
    outlast.run(asks, "a", task="never")
    hand_over(outlast, "before")
    outlast.run(asks, "b", task="before")
    outlast.run(asks, "c", task="after")
    hand_over(outlast, "after")
    outlast.run(asks, "d", task="settled")
    hand_over(outlast, "settled")
    outlast.handoff.settle("task:settled", "completed", override="done elsewhere")
    outlast.run(asks, "e", task="answered")
    hand_over(outlast, "answered")
    outlast.answer(outlast.interrupts(outlast.runs(task="answered")[0].id)[0].id, {"approved": True})
    outlast.run(asks, "f", task="finished")
    outlast.abort(outlast.runs(task="finished")[0].id, why="no more")
    hand_over(outlast, "finished")
    found = {}
    for task in ("never", "before", "after", "settled", "answered", "finished"):
        asked = HandoffQuery("default", f"task:{task}")
        found[task] = has_gone_on(outlast._executor, asked)
        assert found[task] == (subject_of(outlast._executor, asked).instead is not None), task
    assert [task for task, has in found.items() if has] == ["never", "before", "answered"]


def test_no_run_and_no_handoff_have_not_gone_on(outlast: Outlast) -> None:
    asked = HandoffQuery("default", "task:nothing")
    assert not has_gone_on(outlast._executor, asked)
    with pytest.raises(HandoffNotFound):
        subject_of(outlast._executor, asked)


def test_the_stored_ones_and_the_lines_are_together_what_the_list_has(outlast: Outlast) -> None:
    outlast.run(asks, "a", task="run")
    for task in ("stored", "both"):
        hand_over(outlast, task)
    outlast.run(asks, "b", task="both")
    lines = {each.anchor for each in outlast.handoff._left_by_runs(10)[0]}
    stored = {each.anchor for each in outlast.handoff._stored(None, 10, None)}
    assert (lines, stored) == ({"task:run", "task:both"}, {"task:stored"})
    assert {each.anchor for each in outlast.handoff.list()} == lines | stored


def test_a_list_reads_the_source_of_a_flow_once_however_many_runs_are_of_it(
    outlast: Outlast, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []
    really = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read.append(path) or really(path))

    def reads(work: Callable[[], Any]) -> int:
        del read[:]
        work()
        return read.count(Path(__file__))

    outlast.run(asks, "port", task="one")
    one = reads(outlast.handoff.list)
    for number in range(6):
        outlast.run(asks, f"port-{number}", task=f"ask-{number}")
    assert 0 < one == reads(outlast.handoff.list) == reads(lambda: outlast.inbox().contested)
