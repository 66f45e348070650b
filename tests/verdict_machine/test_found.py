"""What the machine has found, each as a sentence."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.errors import NotSettled

from ..kit.desk import TASK, Desk, codes
from .doors import DOORS

FILE, OTHER = "src/export.py", "src/other.py"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    found = Desk(tmp_path)
    yield found
    found.close()


def test_what_came_of_a_later_revision_says_nothing_of_an_earlier_one(desk: Desk) -> None:
    flag = desk.folder / "flag"
    flag.touch()
    desk.store(acceptance_checks=[f"test -f '{flag}'"], baseline=True)
    desk.store(summary="Further on", acceptance_checks=[f"test -f '{flag}'"])
    flag.unlink()
    desk.recover(run_checks=True)
    assert codes(desk.recover(revision=1), ["contests", "weakens"]) == {"superseded"}


def test_a_claim_on_a_later_revision_makes_no_work_of_an_edit_before_it(desk: Desk) -> None:
    desk.store(target_files=[FILE, OTHER])
    desk.write(OTHER, "OTHER = 2\n")
    desk.store(summary="Further on", target_files=[FILE])
    desk.recover(claim=True)
    assert codes(desk.recover(revision=1), ["contests"]) == {"file_changed"}


def test_what_changes_after_somebody_elses_revision_was_taken_on_is_work(desk: Desk) -> None:
    ben = desk.sit_down("ben")
    desk.store()
    desk.recover(claim=True)
    desk.store(ben, summary="Mine instead")
    desk.recover(claim=True, accept=["rival"], why="both are needed")
    desk.write(FILE, "def export():\n    return 2\n")
    assert codes(desk.recover(), ["contests", "weakens"]) == {"rival", "partial_work"}


def test_a_failure_that_was_seen_while_settling_is_remembered_though_that_was_refused(desk: Desk) -> None:
    flag = desk.folder / "flag"
    flag.touch()
    desk.store(acceptance_checks=[f"test -f '{flag}'"], baseline=True)
    flag.unlink()
    with pytest.raises(NotSettled):
        desk.settle("completed")
    assert codes(desk.recover(), ["contests"]) == {"check_regressed"}
    assert desk.recover(claim=True).claim is None
    assert [each.kind for each in desk.outlast.handoff.history(TASK)][-2:] == ["checked", "lost"]
    flag.touch()
    desk.settle("completed")


@pytest.mark.parametrize("name", DOORS)
def test_who_has_a_revision_in_a_list_has_not_read_it(tmp_path: Path, name: str) -> None:
    door, fields = DOORS[name](tmp_path), {"handoff_text": "Patch the exporter."}
    try:
        door.store("ann", tmp_path, TASK, "", {"summary": "Pause after diagnosis"} | fields)
        assert door.contested("ben", tmp_path) == set()
        door.store("ben", tmp_path, TASK, "", {"summary": "Mine instead"} | fields)
        told = door.recover("ben", tmp_path, TASK, "", {}).reasons
        assert [code for weight, code, _ in told if weight == "contests"] == ["rival"]
        assert door.contested("ben", tmp_path) == {TASK}  # and nobody has looked
    finally:
        door.close()
