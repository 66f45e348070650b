"""More of the table of verdicts on real repositories: what is remembered, where somebody stands, what a contract asks
for, who has read whom, and what became of files."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast
from outlast.errors import NotSettled
from outlast.handoffs.handoff import Recovered
from outlast.handoffs.store import Storing, store

from ..kit.desk import GOOD, QUIET, TASK, Desk, codes, git
from ..kit.repositories import repository
from .test_handoff_verdicts import CHECK, DAY, Case, Done, stored

CASES: list[Case] = []
FILE, OTHER = "src/export.py", "src/other.py"
EDITED = "def export():\n    return 2\n"


def case(verdict: str, *expected: str) -> Callable[[Done], Done]:
    """A case. Checks that nobody ran on what is there are noted nearly everywhere: `run` stands for their absence."""

    def add(do: Done) -> Done:
        unrun = set() if "run" in expected else {"checks_not_run"}
        CASES.append(Case(do.__name__.replace("_", " "), do, verdict, {*expected} - {"run"} | unrun))
        return do

    return add


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    for name, value in QUIET.items():
        monkeypatch.setenv(name, value)
    found = Desk(tmp_path)
    yield found
    found.close()


# -- what is remembered ------------------------------------------------------------------------------


class Flag:
    """A check that passes while a file outside of the repository is there."""

    def __init__(self, desk: Desk, *, up: bool = True) -> None:
        self.file, self.desk = desk.folder / "flag", desk
        self.check = f"test -f '{self.file}'"
        self.set(up=up)

    def set(self, *, up: bool) -> None:
        self.file.touch() if up else self.file.unlink(missing_ok=True)

    def run(self) -> Recovered:
        return self.desk.recover(run_checks=True)


def regressed(desk: Desk) -> Flag:
    """A check passed when the handoff was stored, and failed when it was run."""
    flag = Flag(desk)
    desk.store(acceptance_checks=[flag.check], baseline=True)
    flag.set(up=False)
    flag.run()
    return flag


def report(desk: Desk, check: str, *, passed: bool, actor: str = "local") -> None:
    desk.settle("released", desk.sit_down(actor), evidence=[{"check": check, "passed": passed}])


@case("contested", "run", "check_regressed")
def a_regression_is_known_to_somebody_else_and_later(desk: Desk) -> Recovered:
    regressed(desk)
    desk.clock.advance(DAY)
    return desk.recover(outlast=desk.sit_down("ben"))


@case("contested", "check_regressed", "other_place", "run")
def a_regression_is_known_where_nobody_can_look(desk: Desk) -> Recovered:
    regressed(desk)
    return standing(desk, desk.folder)


@case("trusted", "run")
def a_regression_was_mended_and_run_again(desk: Desk) -> Recovered:
    flag = regressed(desk)
    flag.set(up=True)
    flag.run()
    return desk.recover()


@case("candidate", "failed_before", "other_files_changed")
def a_regression_and_then_another_file_changed(desk: Desk) -> Recovered:
    regressed(desk)
    desk.write(OTHER, "OTHER = 2\n")
    return desk.recover()


@case("contested", "run", "check_regressed")
def a_regression_and_then_all_is_as_it_was(desk: Desk) -> Recovered:
    regressed(desk)
    desk.write(OTHER, "OTHER = 2\n")
    desk.git("checkout", "-q", "--", OTHER)
    return desk.recover()


@case("trusted")
def a_regression_and_then_a_new_revision(desk: Desk) -> Recovered:
    flag = regressed(desk)
    desk.store(summary="Further on", acceptance_checks=[flag.check])
    return desk.recover()


@case("contested", "run", "check_regressed")
def a_regression_that_only_settling_saw(desk: Desk) -> Recovered:
    flag = Flag(desk)
    desk.store(acceptance_checks=[flag.check], baseline=True)
    flag.set(up=False)
    with pytest.raises(NotSettled):
        desk.settle("completed")
    return desk.recover()


@case("contested", "run", "check_regressed")
def a_check_that_passed_since_and_fails(desk: Desk) -> Recovered:
    flag = Flag(desk)
    desk.store(acceptance_checks=[flag.check])
    flag.run()
    flag.set(up=False)
    flag.run()
    return desk.recover()


@case("trusted", "run")
def a_check_that_failed_when_stored_and_still_does(desk: Desk) -> Recovered:
    flag = Flag(desk, up=False)
    desk.store(acceptance_checks=[flag.check], baseline=True)
    flag.run()
    return desk.recover()


@case("candidate", "run", "maybe_done")
def a_check_that_failed_when_stored_passed_and_nobody_runs_it_again(desk: Desk) -> Recovered:
    flag = Flag(desk, up=False)
    desk.store(acceptance_checks=[flag.check], baseline=True)
    flag.set(up=True)
    flag.run()
    return desk.recover()


@case("trusted", "run")
def a_pass_is_remembered_and_clears_what_became_stale(desk: Desk) -> Recovered:
    desk.store()
    desk.recover(run_checks=True)
    desk.clock.advance(31 * DAY)
    return desk.recover()


@case("trusted", "head_moved")
def a_pass_lapses_with_a_commit(desk: Desk) -> Recovered:
    desk.store()
    desk.recover(run_checks=True)
    desk.commit("more")
    return desk.recover()


@case("contested", "run", "evidence_contradicted")
def a_false_report_stays_one(desk: Desk) -> Recovered:
    flag = Flag(desk, up=False)
    desk.store(acceptance_checks=[flag.check], baseline=[{"check": flag.check, "passed": True}])
    flag.run()
    return desk.recover()


@case("contested", "run", "evidence_contradicted")
def somebody_says_that_what_passed_fails(desk: Desk) -> Recovered:
    desk.store()
    desk.recover(run_checks=True)
    report(desk, CHECK, passed=False, actor="ben")
    return desk.recover()


@case("contested", "evidence_contradicted")
def two_reports_disagree(desk: Desk) -> Recovered:
    desk.store()
    report(desk, CHECK, passed=True, actor="ben")
    report(desk, CHECK, passed=False, actor="cy")
    return desk.recover()


@case("trusted", "run")
def two_reports_disagreed_and_it_was_run(desk: Desk) -> Recovered:
    two_reports_disagree(desk)
    desk.recover(run_checks=True)
    return desk.recover()


@case("candidate", "superseded")
def what_failed_later_is_not_held_against_an_older_revision(desk: Desk) -> Recovered:
    flag = Flag(desk)
    first = desk.store(acceptance_checks=[flag.check], baseline=True)
    desk.store(summary="Further on", acceptance_checks=[flag.check])
    flag.set(up=False)
    flag.run()
    return desk.recover(None, handoff_id=first.id)


# -- where somebody stands ---------------------------------------------------------------------------


def standing(desk: Desk, folder: Path, **how: Any) -> Recovered:
    """Recovered by somebody who is in a folder, and names none."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        return desk.recover(repo_root=None, **how)
    finally:
        os.chdir(before)


def cloned(desk: Desk, *options: str) -> Path:
    git(desk.folder, "clone", "-q", *options, f"file://{desk.repo}", "clone")
    return desk.folder / "clone"


@case("trusted")
def in_a_folder_of_the_repository(desk: Desk) -> Recovered:
    desk.store()
    return standing(desk, desk.repo / "src")


@case("contested", "file_changed")
def in_a_clone_that_is_not_as_the_repository_is(desk: Desk) -> Recovered:
    desk.store()
    clone = cloned(desk)
    (clone / FILE).write_text(EDITED)
    return standing(desk, clone)


@case("trusted")
def in_a_clone_while_the_repository_changed(desk: Desk) -> Recovered:
    desk.store()
    clone = cloned(desk)
    desk.write(FILE, EDITED)
    return standing(desk, clone)


@case("trusted")
def in_a_shallow_clone(desk: Desk) -> Recovered:
    desk.store()
    return standing(desk, cloned(desk, "--depth", "1"))


@case("candidate", "diverged")
def in_a_shallow_clone_that_does_not_have_the_commit(desk: Desk) -> Recovered:
    desk.git("remote", "add", "origin", "git@example.org:a/work.git")
    desk.store()
    desk.commit("more")
    clone = cloned(desk, "--depth", "1")
    git(clone, "remote", "set-url", "origin", "https://me@example.org/a/work")
    return standing(desk, clone)


@case("candidate", "diverged")
def in_a_clone_that_has_not_fetched_the_commit(desk: Desk) -> Recovered:
    clone = cloned(desk)
    desk.commit("more")
    desk.store()
    return standing(desk, clone)


@case("candidate", "diverged")
def in_a_linked_work_tree(desk: Desk) -> Recovered:
    desk.store()
    desk.git("worktree", "add", "-q", "-b", "side", str(desk.folder / "tree"))
    return standing(desk, desk.folder / "tree")


@case("candidate", "other_place")
def in_another_repository_with_the_same_file(desk: Desk) -> Recovered:
    desk.store()
    return standing(desk, repository(desk.folder / "another", src__export_py="def export():\n    return 1\n"))


@case("candidate", "other_place")
def in_a_plain_folder_with_the_same_file(desk: Desk) -> Recovered:
    desk.store()
    (desk.folder / "plain/src").mkdir(parents=True)
    (desk.folder / "plain" / FILE).write_text("def export():\n    return 1\n")
    return standing(desk, desk.folder / "plain")


# -- what the contract asks for ----------------------------------------------------------------------


@case("contested", "must_violated", "other_files_changed")
def a_path_that_must_be_kept_changed(desk: Desk) -> Recovered:
    return stored(desk, lambda: desk.write(OTHER, "OTHER = 2\n"), must_keep=[OTHER])


@case("trusted", "other_files_changed")
def a_path_that_must_be_kept_has_other_line_ends(desk: Desk) -> Recovered:
    return stored(desk, lambda: desk.write(OTHER, "OTHER = 1\r\n"), must_keep=[OTHER])


@case("contested", "must_violated", "other_files_changed")
def a_file_was_added_to_what_must_be_kept(desk: Desk) -> Recovered:
    return stored(desk, lambda: desk.write("src/more.py", "MORE = 1\n"), must_keep=["src/*.py"])


@case("contested", "must_violated")
def a_must_was_violated_already_when_it_was_stored(desk: Desk) -> Recovered:
    return stored(desk, must_keep=[{"file": OTHER, "contains": "OTHER = 2"}])


@case("contested", "must_violated", "partial_work")
def a_must_was_violated_under_a_claim(desk: Desk) -> Recovered:
    desk.store(must_keep=[FILE])
    desk.recover(claim=True)
    desk.write(FILE, EDITED)
    return desk.recover()


@case("trusted")
def what_must_change_and_go_is_not_asked_before_the_end(desk: Desk) -> Recovered:
    return stored(desk, must_change=[FILE], must_remove=[OTHER])


@case("trusted", "other_files_changed")
def prose_that_names_a_file_is_prose(desk: Desk) -> Recovered:
    return stored(desk, lambda: desk.write(OTHER, "OTHER = 2\n"), must_keep=[f"keep {OTHER} as it is"])


# -- who has read whom -------------------------------------------------------------------------------


def two(desk: Desk, read: Callable[[Outlast], object] = lambda ben: None) -> Recovered:
    """Ann stores, Ben does something, Ben stores another contract."""
    desk.store(desk.sit_down("ann"))
    ben = desk.sit_down("ben")
    read(ben)
    desk.store(ben, summary="Another plan", next_action="Rewrite the exporter from nothing.")
    return desk.recover(outlast=desk.sit_down("cy"))


@case("contested", "rival")
def stored_beside_somebody_who_was_not_read(desk: Desk) -> Recovered:
    return two(desk)


@case("trusted")
def stored_by_one_who_had_read_the_other(desk: Desk) -> Recovered:
    return two(desk, lambda ben: desk.recover(outlast=ben))


@case("contested", "rival")
def stored_again_by_one_who_read_only_the_rival(desk: Desk) -> Recovered:
    two(desk)
    desk.store(desk.sit_down("cy"), summary="A third plan")
    return desk.recover(outlast=desk.sit_down("dan"))


@case("trusted")
def somebody_looked_at_the_two(desk: Desk) -> Recovered:
    two(desk)
    desk.sit_down("cy").handoff.diff(TASK, revisions=(1, 2))
    return desk.recover(outlast=desk.sit_down("dan"))


@case("candidate", "partial_work")
def the_work_on_a_revision_of_somebody_else_that_was_taken_on(desk: Desk) -> Recovered:
    desk.store()
    desk.recover(claim=True)
    rival = desk.store(desk.sit_down("ben"), summary="Mine instead")
    desk.recover(claim=True, accept=["rival"], why="both are needed")
    desk.store(summary="Both of it", supersedes=rival.id)
    desk.write(FILE, EDITED)
    return desk.recover()


# -- what became of files ----------------------------------------------------------------------------


@case("contested", "file_missing", "other_files_changed")
def renamed_and_edited(desk: Desk) -> Recovered:
    def move() -> None:
        (desk.repo / FILE).rename(desk.repo / "src/moved.py")
        desk.write("src/moved.py", EDITED)

    return stored(desk, move)


@case("candidate", "partial_work", "other_files_changed", "renamed_to")
def renamed_under_a_claim(desk: Desk) -> Recovered:
    desk.store()
    desk.recover(claim=True)
    (desk.repo / FILE).rename(desk.repo / "src/moved.py")
    return desk.recover()


@case("contested", "file_changed")
def edited_and_accepted_is_still_told(desk: Desk) -> Recovered:
    desk.store()
    desk.write(FILE, EDITED)
    desk.recover(accept=["file_changed"], why="the edit is mine")
    return desk.recover()


@case("trusted")
def brought_into_a_clone(desk: Desk) -> Recovered:
    desk.write(FILE, EDITED)
    desk.store()
    clone = cloned(desk)
    desk.outlast.handoff.apply(TASK, repo_root=str(clone))
    return standing(desk, clone)


def left_by_a_hook(desk: Desk, **fields: Any) -> None:
    how = Storing(scope="default", actor="claude", source="hook")
    store(desk.outlast._executor, GOOD | {"repo_root": str(desk.repo)} | fields, how)


@case("candidate", "file_changed")
def edited_between_two_coding_sessions(desk: Desk) -> Recovered:
    left_by_a_hook(desk)
    desk.write(FILE, EDITED)
    return desk.recover()


@case("contested", "file_changed", "must_violated")
def a_must_broken_between_two_coding_sessions(desk: Desk) -> Recovered:
    left_by_a_hook(desk, must_keep=[FILE])
    desk.write(FILE, EDITED)
    return desk.recover()


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_next_one_is_told(desk: Desk, case: Case) -> None:
    recovered = case.do(desk)
    assert (str(recovered.verdict), codes(recovered)) == (case.verdict, case.codes)
    assert all(reason.advice for reason in recovered.verdict.reasons)
