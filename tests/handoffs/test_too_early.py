"""Too early: what nothing was done for is said to be so, and what lint asked for is not."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ..kit.desk import TASK, Desk

NAME = TASK.removeprefix("task:")
SAID = {
    "summary": "Half way",
    "handoff_text": "Patch the serializer in src/export.py.",
    "next_action": "Patch it there",
}
FULL = SAID | {"target_files": ["src/export.py"], "acceptance_checks": ["test -f src/export.py"]}


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    found = Desk(tmp_path)
    yield found
    found.close()


def codes_of(desk: Desk, **fields: object) -> list[str]:
    session = desk.outlast.tasks.open(NAME, repo_root=str(desk.repo))
    return [finding.code for finding in session.pause_task(**{**FULL, **fields}).handoff.lint.findings]


def test_a_task_that_was_opened_and_paused_is_too_early(desk: Desk) -> None:
    assert codes_of(desk) == ["too_early"]


def test_a_task_whose_files_were_worked_on_is_not_too_early(desk: Desk) -> None:
    desk.write("src/export.py", "def export():\n    return 2\n")
    assert codes_of(desk) == []


def test_a_new_file_is_work(desk: Desk) -> None:
    desk.write("src/new.py", "x = 1\n")
    assert codes_of(desk, target_files=["src/new.py"]) == []


def test_what_was_recorded_of_a_task_is_work(desk: Desk) -> None:
    session = desk.outlast.tasks.open(NAME, repo_root=str(desk.repo))
    session.record_event("found it", {"where": "src/export.py"})
    assert session.pause_task(**FULL).handoff.lint.findings == ()


def test_an_anchor_that_no_task_was_opened_for_is_judged_by_its_revisions_alone(desk: Desk) -> None:
    assert desk.store().lint.findings == ()
    assert [finding.code for finding in desk.store().lint.findings] == ["too_early"]


def test_storing_again_with_what_lint_asked_for_is_not_too_early(desk: Desk) -> None:
    first = desk.store(acceptance_checks=[])
    assert [finding.code for finding in first.lint.findings] == ["no_checks"]
    assert desk.store().lint.findings == ()
    assert desk.store(must_keep=["the public names"]).lint.findings == ()


def test_a_task_that_was_paused_too_early_is_paused_again_with_what_lint_asked_for(desk: Desk) -> None:
    assert codes_of(desk, acceptance_checks=[]) == ["no_checks", "too_early"]
    assert codes_of(desk) == []
