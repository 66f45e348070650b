"""A contract that nobody can check is not trusted, and is not completed by a word alone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import Run, flow
from outlast.errors import HandoffInvalid, NotSettled

from ..kit.desk import TASK, Desk, codes


@flow
def repair(run: Run) -> int:
    return 1


LOOKED = [{"check": "read every line of it", "passed": True}]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    found = Desk(tmp_path)
    yield found
    found.close()


# -- no checks ---------------------------------------------------------------------------------------


def test_a_handoff_without_checks_is_a_candidate_and_the_advice_names_the_option(desk: Desk) -> None:
    desk.store(acceptance_checks=[])
    recovered = desk.recover()
    assert str(recovered.verdict) == "candidate"
    (reason,) = recovered.verdict.reasons
    assert (reason.code, reason.weight) == ("no_checks", "weakens")
    assert f"outlast handoff store {TASK} --again --check COMMAND" in reason.advice


def test_work_without_checks_is_completed_by_evidence_or_a_reason_and_by_nothing_else(desk: Desk) -> None:
    desk.store(acceptance_checks=[])
    with pytest.raises(NotSettled, match="nothing shows that it is done"):
        desk.settle("completed")
    with pytest.raises(NotSettled, match="failed, says"):
        desk.settle("completed", evidence=[{"check": "make test", "passed": False}])
    done = desk.settle("completed", evidence=LOOKED)
    assert [(each.check, each.runner) for each in done.evidence] == [("read every line of it", "self")]
    desk.store(acceptance_checks=[])
    assert desk.settle("completed", override="it was dropped").override == "it was dropped"


@pytest.mark.parametrize("outcome", ["failed", "released"])
def test_work_without_checks_fails_and_is_given_back_as_any_other(desk: Desk, outcome: Any) -> None:
    desk.store(acceptance_checks=[])
    assert desk.settle(outcome).outcome == outcome


def test_a_report_does_not_complete_what_has_checks_of_its_own(desk: Desk) -> None:
    desk.store(acceptance_checks=["test -f src/missing.py"])
    with pytest.raises(HandoffInvalid, match="no check of the handoff"):
        desk.settle("completed", evidence=LOOKED)
    with pytest.raises(NotSettled):
        desk.settle("completed", evidence=[{"check": "test -f src/missing.py", "passed": True}])


def test_a_run_of_the_task_that_succeeded_since_shows_it(desk: Desk) -> None:
    desk.store(acceptance_checks=[])
    with pytest.raises(NotSettled):
        desk.settle("completed")
    desk.outlast.run(repair, task=TASK.removeprefix("task:")).unwrap()
    assert desk.settle("completed").outcome == "completed"


@pytest.mark.parametrize("check", ["true", "echo ok", "test -f src/missing.py || true", {"run": "exit 0"}])
def test_a_check_that_passes_whatever_was_done_shows_no_more_than_none(desk: Desk, check: Any) -> None:
    desk.store(acceptance_checks=[check])
    with pytest.raises(NotSettled, match=r"nothing shows that it is done: its checks pass whatever was done"):
        desk.settle("completed")
    with pytest.raises(NotSettled):
        desk.settle("completed", evidence=[{"check": check, "passed": True}])
    done = desk.settle("completed", evidence=LOOKED)
    assert [(each.check, each.runner) for each in done.evidence] == [(LOOKED[0]["check"], "self"), (check, "runner")]
    desk.store(acceptance_checks=[check])
    assert desk.settle("completed", override="it was dropped").override == "it was dropped"


def test_an_empty_check_beside_a_real_one_does_no_harm(desk: Desk) -> None:
    desk.store(acceptance_checks=["true", "test -f src/export.py"])
    assert desk.settle("completed").override == ""


def test_a_report_of_what_passes_always_shows_nothing(desk: Desk) -> None:
    desk.store(acceptance_checks=[])
    with pytest.raises(NotSettled, match="nothing shows"):
        desk.settle("completed", evidence=[{"check": "true", "passed": True}])


# -- files that are to be made -----------------------------------------------------------------------


def test_a_target_that_is_not_there_is_a_finding_when_it_is_stored(desk: Desk) -> None:
    stored = desk.store(target_files=["src/export.py", "src/exprot.py"])
    (finding,) = stored.lint.findings
    assert (finding.code, finding.path) == ("target_absent", "target_files[1]")
    assert "src/exprot.py" in finding.says
    assert 'creates=["src/exprot.py"]' in finding.better
    assert codes(desk.recover(), ["weakens"]) == {"target_absent"}


def test_a_file_that_is_to_be_made_is_no_finding(desk: Desk) -> None:
    assert desk.store(creates=["src/new.py"]).lint.findings == ()
    assert desk.recover().handoff.creates == ("src/new.py",)


def test_nothing_is_said_of_targets_that_nobody_looked_at(desk: Desk) -> None:
    assert desk.store(target_files=["nowhere.py"], bind=False).lint.findings == ()


def test_work_is_completed_when_what_it_was_to_make_is_there(desk: Desk) -> None:
    desk.store(creates=["src/new.py", "docs/"], acceptance_checks=[])
    desk.recover(claim=True)
    with pytest.raises(NotSettled) as refused:
        desk.settle("completed")
    assert "creates 'src/new.py': it is missing" in str(refused.value)
    assert "creates 'docs/': it is missing" in str(refused.value)
    desk.write("src/new.py", "x\n")
    desk.write("docs/index.md", "x\n")
    assert desk.settle("completed").outcome == "completed"


@pytest.mark.parametrize("path", ["../x.py", "/etc/passwd", ".git/config", "a//b", ""])
def test_a_file_to_be_made_is_inside_the_root(desk: Desk, path: str) -> None:
    with pytest.raises(HandoffInvalid, match=r"creates\[0\]"):
        desk.store(creates=[path])


@pytest.mark.parametrize("path", ["src/two words.py", "src/it's.py", "src/🦭.py"])
def test_a_file_to_be_made_may_have_any_name(desk: Desk, path: str) -> None:
    desk.store(creates=[path])
    assert str(desk.recover().verdict) == "trusted"
    assert desk.recover(anchor=None, file_path=path).anchor == TASK
