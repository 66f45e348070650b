"""What a bundle says is what somebody elsewhere says: kept byte for byte, and believed only as far as that."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast
from outlast.errors import NotSettled
from outlast.handoffs.handoff import Lint, Recovered

from ..kit.anchored import anchor_row, journal, revise
from ..kit.desk import TASK, Desk, codes, digest_of, found, git
from ..kit.place import Place


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    one = Desk(tmp_path)
    yield one
    one.close()


class Elsewhere:
    """A clone of the desk's repository, and a home of its own that handoffs are brought to."""

    def __init__(self, desk: Desk) -> None:
        self.desk, self.repo = desk, desk.folder / "clone"
        git(desk.folder, "clone", "-q", str(desk.repo), "clone")
        self.outlast = Outlast(desk.folder / "elsewhere", actor="ben", clock=desk.clock)
        desk.opened.append(self.outlast)

    def bring(self, source: Outlast | None = None, target: Outlast | None = None) -> Any:
        file = self.desk.folder / "it.handoff"
        (source or self.desk.outlast).handoff.export(TASK, file, force=True)
        return (target or self.outlast).handoff.import_(file)

    def recover(self, **how: Any) -> Recovered:
        """As somebody does who agreed to the commands that came."""
        if how.get("run_checks"):
            how["agree"] = digest_of(self.outlast.handoff.get(anchor=TASK))
        return self.desk.recover(outlast=self.outlast, **({"repo_root": str(self.repo)} | how))

    def write(self, text: str) -> None:
        (self.repo / "src/export.py").write_text(text)


@pytest.fixture
def elsewhere(desk: Desk) -> Elsewhere:
    return Elsewhere(desk)


# -- claims end, and what changes afterwards is nobody's progress ----------------------------------------


def test_a_claim_that_was_open_when_it_was_exported_lends_its_name_to_nobody(desk: Desk, elsewhere: Elsewhere) -> None:
    desk.store()
    assert desk.recover(claim=True).resume == "attached"
    elsewhere.bring()
    elsewhere.write("a stranger was here\n")
    got = elsewhere.recover(claim=True)
    assert (str(got.verdict), got.resume, "file_changed" in codes(got)) == ("contested", "lost", True)


def test_nor_does_a_claim_under_which_it_was_stored(desk: Desk, elsewhere: Elsewhere) -> None:
    desk.store()
    desk.recover(claim=True)
    assert desk.store(summary="Further on").claim
    elsewhere.bring()
    elsewhere.write("a stranger was here\n")
    assert "file_changed:src/export.py" in found(elsewhere.recover())


def test_work_that_was_settled_elsewhere_is_still_that_claimers(desk: Desk, elsewhere: Elsewhere) -> None:
    desk.store()
    desk.recover(claim=True)
    desk.write("src/export.py", "half done\n")
    desk.settle("released")
    elsewhere.bring()
    elsewhere.write("half done\n")
    assert "partial_work:src/export.py" in found(elsewhere.recover())


def test_a_claim_that_is_made_after_the_import_counts_as_ever(desk: Desk, elsewhere: Elsewhere) -> None:
    desk.store()
    desk.recover(claim=True)
    elsewhere.bring()
    assert elsewhere.recover(claim=True).resume == "attached"
    elsewhere.write("half done\n")
    got = elsewhere.recover()
    assert found(got)["partial_work:src/export.py"].endswith("changed under the claim of ben")


def test_a_claim_that_was_given_back_where_the_files_are_not_ends_as_it_began(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.store()
    desk.recover(claim=True)
    hidden = desk.repo.rename(tmp_path / "hidden")
    monkeypatch.chdir(tmp_path)
    desk.outlast.handoff.settle(TASK, "released")
    hidden.rename(desk.repo)
    assert str(desk.recover().verdict) == "trusted"
    desk.write("src/export.py", "a stranger was here\n")
    got = desk.recover()
    assert (str(got.verdict), "file_changed" in codes(got)) == ("contested", True)


def test_what_changed_between_two_claims_is_the_work_of_neither(desk: Desk) -> None:
    desk.store()
    desk.recover(claim=True)
    desk.write("src/export.py", "half done\n")
    desk.settle("released")
    (desk.repo / "src/export.py").write_text("half done\nand more\n")
    assert "file_changed" in codes(desk.recover())
    desk.recover(claim=True, accept=["file_changed"], why="it is mine")
    desk.settle("released")
    assert str(desk.recover().verdict) == "contested"


# -- acceptances, evidence and scores are words ----------------------------------------------------------


def test_what_was_accepted_elsewhere_is_accepted_by_nobody_here(desk: Desk, elsewhere: Elsewhere) -> None:
    desk.store()
    (desk.repo / "src/export.py").unlink()
    assert desk.recover(claim=True, accept=["file_missing"], why="I moved it").resume == "attached"
    desk.settle("released")
    elsewhere.bring()
    (elsewhere.repo / "src/export.py").unlink()
    got = elsewhere.recover(claim=True)
    assert (got.resume, got.accepted) == ("lost", ())
    assert elsewhere.recover(claim=True, accept=["file_missing"], why="I saw it").resume == "attached"
    assert str(elsewhere.recover().verdict) == "contested"
    assert elsewhere.recover().accepted


def test_checks_that_were_run_elsewhere_are_reports_here(desk: Desk, elsewhere: Elsewhere) -> None:
    desk.store(baseline=True)
    desk.recover(run_checks=True)
    assert str(desk.recover().verdict) == "trusted"
    elsewhere.bring()
    got = elsewhere.recover()
    assert (str(got.verdict), "self_reported" in codes(got)) == ("candidate", True)
    assert got.handoff == desk.recover().handoff
    assert "self_reported" not in codes(elsewhere.recover(run_checks=True))
    assert str(elsewhere.recover().verdict) == "trusted"


def test_a_baseline_that_was_run_elsewhere_is_a_report_here(desk: Desk, elsewhere: Elsewhere) -> None:
    desk.store(baseline=True)
    elsewhere.bring()
    assert "self_reported" in codes(elsewhere.recover())
    (elsewhere.repo / "src/export.py").unlink()
    got = elsewhere.recover(run_checks=True)
    assert ("evidence_contradicted" in codes(got), "check_regressed" in codes(got)) == (True, False)


def test_checks_that_were_run_elsewhere_complete_nothing_here(desk: Desk, elsewhere: Elsewhere) -> None:
    desk.store()
    desk.recover(run_checks=True)
    elsewhere.bring()
    with pytest.raises(NotSettled, match="was not run by a runner"):
        elsewhere.outlast.handoff.settle(TASK, "completed", repo_root=str(elsewhere.repo), run_checks=False)
    elsewhere.recover(run_checks=True)
    done = elsewhere.outlast.handoff.settle(TASK, "completed", repo_root=str(elsewhere.repo), run_checks=False)
    assert done.outcome == "completed"


def test_the_score_of_what_came_is_found_out_here(place: Place, other: Place) -> None:
    revise(place.outlast, next_action=None, acceptance_checks=(), target_files=(), lint=Lint(100))
    file = place.folder / "it.handoff"
    place.outlast.handoff.export("task:x", file)
    other.outlast.handoff.import_(file)
    assert "weak" not in codes(place.outlast.handoff.recover("task:x"))
    assert "weak" in codes(other.outlast.handoff.recover("task:x"))
    assert other.outlast.handoff.get(anchor="task:x").lint == Lint(100)


def test_what_was_too_early_elsewhere_stays_so(desk: Desk, elsewhere: Elsewhere) -> None:
    desk.store(acceptance_checks=[])
    assert [each.code for each in desk.store(acceptance_checks=[]).lint.findings] == ["no_checks", "too_early"]
    elsewhere.bring()
    assert [found(one.recover()).get(f"weak:{TASK}") for one in (desk, elsewhere)] == [
        "70 of 100: no_checks, too_early"
    ] * 2


# -- the mark --------------------------------------------------------------------------------------------


def test_only_what_is_new_raises_the_mark_and_the_chain_goes_on(desk: Desk, elsewhere: Elsewhere) -> None:
    desk.store()
    assert (elsewhere.bring().added, anchor_row(elsewhere.outlast, TASK).arrived) == (1, 1)
    elsewhere.recover(run_checks=True)
    assert (elsewhere.bring().added, anchor_row(elsewhere.outlast, TASK).arrived) == (0, 1)
    assert elsewhere.bring(elsewhere.outlast, desk.outlast).added == 1
    assert (anchor_row(desk.outlast, TASK).arrived, journal(desk.outlast, TASK)) == (
        2,
        journal(elsewhere.outlast, TASK),
    )
    assert "self_reported" in codes(desk.recover())
    desk.store(summary="Further on", baseline=True)
    assert str(desk.recover().verdict) == "trusted"
    assert elsewhere.bring().change == "continued"
    assert (desk.outlast.verify().ok, elsewhere.outlast.verify().ok) == (True, True)


def test_records_stay_as_they_were_written(desk: Desk, elsewhere: Elsewhere) -> None:
    desk.store(baseline=True)
    desk.recover(run_checks=True, claim=True)
    elsewhere.bring()
    elsewhere.recover()
    assert journal(elsewhere.outlast, TASK)[:4] == journal(desk.outlast, TASK)
    assert elsewhere.outlast.handoff.get(anchor=TASK) == desk.outlast.handoff.get(anchor=TASK)
