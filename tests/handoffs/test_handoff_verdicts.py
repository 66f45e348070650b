"""The verdict on real repositories, case by case: what was done, the word, and every code."""

import os
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast import Outlast
from outlast.handoffs.handoff import Recovered
from outlast.handoffs.sighting import NOBODY
from outlast.handoffs.verdict import _quoted
from outlast.ledger.verdict import CONTESTS, NOTES, WEAKENS

from ..kit.desk import TASK, Desk, codes, git

DAY = 86_400
CHECK = "test -f src/export.py"
Done = Callable[[Desk], Recovered]


class Case(NamedTuple):
    """What is done at the desk, and what the next one is told."""

    name: str
    do: Done
    verdict: str
    codes: set[str]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    found = Desk(tmp_path)
    yield found
    found.close()


CASES: list[Case] = []


def case(verdict: str, *expected: str) -> Callable[[Done], Done]:
    """A case. Checks that nobody ran are noted nearly everywhere, so `run` stands for their absence."""

    def add(do: Done) -> Done:
        unrun = set() if "run" in expected else {"checks_not_run"}
        CASES.append(Case(do.__name__.replace("_", " "), do, verdict, {*expected} - {"run"} | unrun))
        return do

    return add


def stored(
    desk: Desk, after: Callable[[], Any] = lambda: None, *, how: dict[str, Any] | None = None, **fields: Any
) -> Recovered:
    """Store, let something happen, recover."""
    desk.store(**fields)
    after()
    return desk.recover(**(how or {}))


# -- files -------------------------------------------------------------------------------------------


@case("trusted")
def nothing_changed(desk: Desk) -> Recovered:
    return stored(desk)


@case("contested", "file_changed")
def target_edited(desk: Desk) -> Recovered:
    return stored(desk, lambda: desk.write("src/export.py", "def export():\n    return 2\n"))


@case("contested", "file_missing")
def target_deleted(desk: Desk) -> Recovered:
    return stored(desk, (desk.repo / "src/export.py").unlink)


@case("contested", "file_changed")
def target_created_where_absent_was_bound(desk: Desk) -> Recovered:
    return stored(desk, lambda: desk.write("src/new.py", "x"), target_files=["src/export.py", "src/new.py"])


@case("candidate", "target_absent")
def target_still_absent(desk: Desk) -> Recovered:
    return stored(desk, target_files=["src/export.py", "src/new.py"])


@case("candidate", "target_absent")
def folder_that_is_not_there(desk: Desk) -> Recovered:
    return stored(desk, target_files=["src/export.py", "lib/"])


@case("trusted")
def file_to_be_made_is_not_there_yet(desk: Desk) -> Recovered:
    return stored(desk, creates=["src/new.py"])


@case("trusted")
def target_that_is_named_as_to_be_made_too(desk: Desk) -> Recovered:
    return stored(desk, target_files=["src/export.py", "src/new.py"], creates=["src/new.py"])


@case("trusted")
def file_to_be_made_that_was_there_already(desk: Desk) -> Recovered:
    return stored(desk, creates=["src/other.py"])


@case("contested", "file_changed")
def file_to_be_made_was_made_under_no_claim(desk: Desk) -> Recovered:
    return stored(desk, lambda: desk.write("src/new.py", "x"), creates=["src/new.py"])


@case("candidate", "partial_work")
def file_to_be_made_was_made_under_a_claim(desk: Desk) -> Recovered:
    desk.store(creates=["src/new.py"])
    desk.recover(claim=True)
    desk.write("src/new.py", "x")
    return desk.recover()


@case("candidate", "no_checks", "run")
def without_checks(desk: Desk) -> Recovered:
    return stored(desk, acceptance_checks=[])


@case("contested", "file_changed", "other_files_changed")
def target_replaced_by_a_link(desk: Desk) -> Recovered:
    def replace() -> None:
        (desk.repo / "src/export.py").rename(desk.repo / "src/moved.py")
        (desk.repo / "src/export.py").symlink_to("moved.py")

    return stored(desk, replace)


@case("contested", "file_changed")
def target_replaced_by_a_link_that_leaves(desk: Desk) -> Recovered:
    def replace() -> None:
        (desk.repo / "src/export.py").unlink()
        (desk.repo / "src/export.py").symlink_to("/etc/hostname")

    return stored(desk, replace)


@case("contested", "file_changed")
def target_replaced_by_a_pipe(desk: Desk) -> Recovered:
    def replace() -> None:
        (desk.repo / "src/export.py").unlink()
        os.mkfifo(desk.repo / "src/export.py")

    return stored(desk, replace)


@case("contested", "file_changed")
def exec_bit_set(desk: Desk) -> Recovered:
    return stored(desk, lambda: (desk.repo / "src/export.py").chmod(0o755))


@case("trusted", "line_ends_changed")
def line_ends_only(desk: Desk) -> Recovered:
    return stored(desk, lambda: desk.write("src/export.py", "def export():\r\n    return 1\r\n"))


@case("candidate", "link_target_changed", "other_files_changed")
def what_a_link_leads_to_edited(desk: Desk) -> Recovered:
    (desk.repo / "src/link.py").symlink_to("other.py")
    return stored(desk, lambda: desk.write("src/other.py", "OTHER = 2\n"), target_files=["src/link.py"])


@case("contested", "file_missing", "other_files_changed", "renamed_to")
def target_renamed(desk: Desk) -> Recovered:
    return stored(desk, lambda: (desk.repo / "src/export.py").rename(desk.repo / "src/renamed.py"))


@case("trusted")
def touched_only(desk: Desk) -> Recovered:
    return stored(desk, lambda: os.utime(desk.repo / "src/export.py", (1, 1)))


@case("trusted")
def edited_and_put_back(desk: Desk) -> Recovered:
    def there_and_back() -> None:
        desk.write("src/export.py", "other")
        desk.git("checkout", "-q", "--", "src/export.py")

    return stored(desk, there_and_back)


@case("trusted")
def dirty_target_unchanged(desk: Desk) -> Recovered:
    desk.write("src/export.py", "half done\n")
    return stored(desk)


@case("contested", "file_changed")
def dirty_target_reverted(desk: Desk) -> Recovered:
    desk.write("src/export.py", "half done\n")
    return stored(desk, lambda: desk.git("checkout", "-q", "--", "src/export.py"))


@case("trusted")
def untracked_target_unchanged(desk: Desk) -> Recovered:
    desk.write("notes/plan.md", "a plan\n")
    return stored(desk, target_files=["notes/plan.md"])


@case("trusted")
def odd_names(desk: Desk) -> Recovered:
    names = ["a b.txt", 'it\'s "quoted".txt', "😀/é.md", "-rf"]
    for name in names:
        desk.write(name, "x\n")
    return stored(desk, target_files=names)


@case("trusted")
def folder_unchanged(desk: Desk) -> Recovered:
    return stored(desk, target_files=["src/"])


@case("contested", "file_changed")
def file_in_a_folder_edited(desk: Desk) -> Recovered:
    return stored(desk, lambda: desk.write("src/other.py", "OTHER = 2\n"), target_files=["src/"])


@case("contested", "file_changed")
def file_added_to_a_folder(desk: Desk) -> Recovered:
    def add() -> None:
        desk.write("src/more.py", "MORE = 1\n")
        desk.git("add", "src/more.py")

    return stored(desk, add, target_files=["src/"])


@case("contested", "file_changed")
def binary_target_edited(desk: Desk) -> Recovered:
    desk.write("logo.bin", b"\0\r\n\1")
    return stored(desk, lambda: desk.write("logo.bin", b"\0\n\1"), target_files=["logo.bin"])


# -- other files, the repository ---------------------------------------------------------------------


@case("trusted", "other_files_changed")
def another_file_dirty(desk: Desk) -> Recovered:
    return stored(desk, lambda: desk.write("src/other.py", "OTHER = 2\n"))


@case("trusted", "other_files_changed")
def another_file_untracked(desk: Desk) -> Recovered:
    return stored(desk, lambda: desk.write("scratch.txt", "x"))


@case("trusted", "head_moved")
def head_moved_by_an_unrelated_commit(desk: Desk) -> Recovered:
    return stored(desk, lambda: (desk.write("README.md", "x"), desk.commit("more")))


@case("contested", "head_moved", "file_changed")
def head_moved_by_a_commit_to_the_target(desk: Desk) -> Recovered:
    return stored(desk, lambda: (desk.write("src/export.py", "x"), desk.commit("more")))


@case("trusted", "head_moved")
def dirty_target_committed_as_it_was(desk: Desk) -> Recovered:
    desk.write("src/export.py", "half done\n")
    return stored(desk, lambda: desk.commit("half"))


@case("candidate", "diverged")
def other_branch(desk: Desk) -> Recovered:
    return stored(desk, lambda: desk.git("switch", "-q", "-c", "feature"))


@case("trusted")
def detached_at_the_same_commit(desk: Desk) -> Recovered:
    return stored(desk, lambda: desk.git("switch", "-q", "--detach"))


@case("candidate", "diverged")
def rebased(desk: Desk) -> Recovered:
    return stored(desk, lambda: desk.git("commit", "-q", "--amend", "-m", "other words"))


@case("candidate", "diverged")
def reset_to_before(desk: Desk) -> Recovered:
    desk.commit("second")
    return stored(desk, lambda: desk.git("reset", "-q", "--hard", "HEAD~1"))


@case("trusted")
def repository_moved_to_another_folder(desk: Desk) -> Recovered:
    desk.store()
    shutil.move(desk.repo, desk.folder / "moved")
    return desk.recover(repo_root=str(desk.folder / "moved"))


@case("trusted")
def another_clone(desk: Desk) -> Recovered:
    desk.store()
    git(desk.folder, "clone", "-q", str(desk.repo), "clone")
    return desk.recover(repo_root=str(desk.folder / "clone"))


@case("contested", "file_changed")
def another_clone_without_the_uncommitted_work(desk: Desk) -> Recovered:
    desk.write("src/export.py", "half done\n")
    desk.store()
    git(desk.folder, "clone", "-q", str(desk.repo), "clone")
    return desk.recover(repo_root=str(desk.folder / "clone"))


@case("trusted", "head_moved")
def another_clone_of_the_same_branch_that_is_ahead(desk: Desk) -> Recovered:
    desk.store()
    git(desk.folder, "clone", "-q", str(desk.repo), "clone")
    git(desk.folder / "clone", "commit", "-q", "--allow-empty", "-m", "more")
    return desk.recover(repo_root=str(desk.folder / "clone"))


@case("trusted")
def stored_and_recovered_in_a_worktree(desk: Desk) -> Recovered:
    desk.git("worktree", "add", "-q", "-b", "side", str(desk.folder / "tree"))
    desk.store(repo_root=str(desk.folder / "tree"))
    return desk.recover(repo_root=str(desk.folder / "tree"))


@case("candidate", "diverged")
def recovered_in_a_worktree_of_another_branch(desk: Desk) -> Recovered:
    desk.git("worktree", "add", "-q", "-b", "side", str(desk.folder / "tree"))
    desk.store()
    return desk.recover(repo_root=str(desk.folder / "tree"))


@case("candidate", "environment_changed", "other_files_changed")
def environment_changed(desk: Desk) -> Recovered:
    return stored(desk, lambda: desk.write("uv.lock", "other\n"), environment=["uv.lock"])


@case("trusted")
def environment_unchanged(desk: Desk) -> Recovered:
    return stored(desk, environment=["uv.lock"])


@case("trusted")
def outside_of_git(desk: Desk) -> Recovered:
    plain = desk.folder / "plain"
    plain.mkdir()
    (plain / "a.txt").write_text("x")
    desk.store(repo_root=str(plain), target_files=["a.txt"])
    return desk.recover(repo_root=str(plain))


@case("candidate", "diverged")
def no_repository_any_more(desk: Desk) -> Recovered:
    return stored(desk, lambda: shutil.rmtree(desk.repo / ".git"))


# -- the record --------------------------------------------------------------------------------------


@case("trusted")
def almost_stale(desk: Desk) -> Recovered:
    return stored(desk, lambda: desk.clock.advance(30 * DAY - 1))


@case("candidate", "stale")
def stale(desk: Desk) -> Recovered:
    return stored(desk, lambda: desk.clock.advance(30 * DAY))


@case("candidate", "stale")
def expired(desk: Desk) -> Recovered:
    return stored(desk, lambda: desk.clock.advance(3600), expires="1h")


@case("trusted")
def a_long_life_as_said(desk: Desk) -> Recovered:
    return stored(desk, lambda: desk.clock.advance(60 * DAY), expires="90d")


@case("candidate", "superseded")
def an_older_revision_by_its_id(desk: Desk) -> Recovered:
    first = desk.store()
    desk.store(summary="Further on")
    return desk.recover(None, handoff_id=first.id)


@case("candidate", "superseded")
def superseded_by_another_anchor(desk: Desk) -> Recovered:
    first = desk.store()
    desk.store(anchor="task:export-again", supersedes=first.id)
    return desk.recover()


@case("candidate", "no_checks", "unbound", "weak", "run")
def weak(desk: Desk) -> Recovered:
    return stored(desk, target_files=[], next_action=None, acceptance_checks=[], handoff_text="Fixed the parser.")


@case("candidate", "unbound")
def nothing_was_looked_at(desk: Desk) -> Recovered:
    return stored(desk, bind=False)


@case("candidate", "unobserved")
def nobody_looks(desk: Desk) -> Recovered:
    desk.store()
    desk.outlast._executor.caller.observer = NOBODY  # as in a server
    return desk.recover()


@case("candidate", "other_place")
def the_files_are_elsewhere(desk: Desk) -> Recovered:
    desk.store()
    shutil.rmtree(desk.repo)
    before = Path.cwd()
    os.chdir(desk.folder)
    try:
        return desk.recover(repo_root=None)
    finally:
        os.chdir(before)


@case("trusted", "masked")
def a_secret_was_masked(desk: Desk) -> Recovered:
    text = "Resume in src/export.py; the token is ghp_" + "a1B2" * 9 + "."
    return stored(desk, handoff_text=text, redact=True)


# -- checks ------------------------------------------------------------------------------------------


@case("trusted", "run")
def checks_pass_now(desk: Desk) -> Recovered:
    return stored(desk, how={"run_checks": True})


@case("trusted", "run")
def a_check_that_describes_the_end_fails_now(desk: Desk) -> Recovered:
    return stored(desk, acceptance_checks=["test -f done"], how={"run_checks": True})


@case("contested", "run", "check_regressed")
def a_check_passed_then_fails(desk: Desk) -> Recovered:
    flag = desk.folder / "flag"
    flag.touch()
    return stored(desk, flag.unlink, acceptance_checks=[f"test -f '{flag}'"], baseline=True, how={"run_checks": True})


@case("contested", "run", "check_regressed")
def a_check_failed_once_and_nobody_runs_it_again(desk: Desk) -> Recovered:
    a_check_passed_then_fails(desk)
    return desk.recover()


@case("candidate", "failed_before", "head_moved")
def a_check_failed_once_and_the_content_changed(desk: Desk) -> Recovered:
    a_check_passed_then_fails(desk)
    desk.commit("more")
    return desk.recover()


@case("candidate", "run", "maybe_done")
def a_check_failed_then_passes(desk: Desk) -> Recovered:
    flag = desk.folder / "flag"
    return stored(desk, flag.touch, acceptance_checks=[f"test -f '{flag}'"], baseline=True, how={"run_checks": True})


@case("candidate", "self_reported")
def a_check_is_only_reported(desk: Desk) -> Recovered:
    return stored(desk, baseline=[{"check": CHECK, "passed": True}])


@case("trusted", "run")
def a_report_is_borne_out(desk: Desk) -> Recovered:
    return stored(desk, baseline=[{"check": CHECK, "passed": True}], how={"run_checks": True})


@case("contested", "run", "evidence_contradicted")
def a_report_is_contradicted(desk: Desk) -> Recovered:
    check = "test -f nowhere"
    baseline = [{"check": check, "passed": True}]
    return stored(desk, acceptance_checks=[check], baseline=baseline, how={"run_checks": True})


@case("trusted", "run")
def checks_by_the_runner_clear_what_is_stale(desk: Desk) -> Recovered:
    return stored(desk, lambda: desk.clock.advance(31 * DAY), how={"run_checks": True})


@case("candidate", "run", "stale")
def a_failing_check_clears_nothing(desk: Desk) -> Recovered:
    later = lambda: desk.clock.advance(31 * DAY)  # noqa: E731
    return stored(desk, later, acceptance_checks=["test -f done"], how={"run_checks": True})


@case("contested", "must_violated", "other_files_changed")
def a_must_is_violated(desk: Desk) -> Recovered:
    must = {"file": "src/other.py", "contains": "OTHER = 1"}
    return stored(desk, lambda: desk.write("src/other.py", "OTHER = 2\n"), must_keep=[must])


@case("trusted")
def musts_are_kept(desk: Desk) -> Recovered:
    must = {"file": "src/other.py", "contains": "OTHER = 1"}
    return stored(desk, must_keep=[must, "keep the public names"])


@case("trusted")
def what_must_change_is_not_asked_yet(desk: Desk) -> Recovered:
    return stored(desk, must_change=[{"file": "src/export.py", "contains": "patched"}], must_remove=["the old path"])


# -- claims ------------------------------------------------------------------------------------------


@case("contested", "claimed")
def claimed_by_somebody_else(desk: Desk) -> Recovered:
    desk.store()
    desk.recover(claim=True, outlast=desk.sit_down("ben"))
    return desk.recover()


@case("trusted")
def claimed_by_me(desk: Desk) -> Recovered:
    desk.store()
    desk.recover(claim=True)
    return desk.recover()


@case("trusted")
def the_claim_ran_out(desk: Desk) -> Recovered:
    desk.store()
    desk.recover(claim=True, outlast=desk.sit_down("ben"))
    desk.clock.advance(15 * 60 + 1)
    return desk.recover()


@case("candidate", "partial_work")
def changed_under_my_claim(desk: Desk) -> Recovered:
    desk.store()
    desk.recover(claim=True)
    desk.write("src/export.py", "further\n")
    return desk.recover()


@case("candidate", "partial_work")
def changed_under_a_claim_that_ran_out(desk: Desk) -> Recovered:
    desk.store()
    desk.recover(claim=True, outlast=desk.sit_down("ben"))
    desk.write("src/export.py", "further\n")
    desk.clock.advance(15 * 60 + 1)
    return desk.recover()


@case("candidate", "partial_work")
def left_by_who_gave_it_back(desk: Desk) -> Recovered:
    desk.store()
    desk.recover(claim=True)
    desk.write("src/export.py", "further\n")
    desk.settle("released")
    return desk.recover()


@case("contested", "file_changed")
def changed_after_it_was_given_back(desk: Desk) -> Recovered:
    desk.store()
    desk.recover(claim=True)
    desk.settle("released")
    desk.write("src/export.py", "by nobody\n")
    return desk.recover()


@case("candidate", "partial_work")
def a_target_deleted_under_a_claim(desk: Desk) -> Recovered:
    desk.store()
    desk.recover(claim=True)
    (desk.repo / "src/export.py").unlink()
    return desk.recover()


@case("trusted")
def stored_again_under_the_claim(desk: Desk) -> Recovered:
    desk.store()
    desk.recover(claim=True)
    desk.write("src/export.py", "further\n")
    desk.store(summary="Further on")
    return desk.recover()


@case("candidate", "partial_work")
def changed_after_storing_under_the_claim(desk: Desk) -> Recovered:
    desk.store()
    desk.recover(claim=True)
    desk.store(summary="Further on")
    desk.write("src/export.py", "and further\n")
    return desk.recover()


@case("contested", "rival", "claimed")
def stored_by_another_while_it_was_claimed(desk: Desk) -> Recovered:
    desk.store()
    desk.recover(claim=True, outlast=desk.sit_down("ben"))
    desk.store(summary="Mine instead")
    return desk.recover()


@case("contested", "rival")
def a_rival_outlives_the_claim(desk: Desk) -> Recovered:
    desk.store()
    desk.recover(claim=True, outlast=desk.sit_down("ben"))
    desk.store(summary="Mine instead")
    desk.clock.advance(15 * 60 + 1)
    return desk.recover()


@case("trusted")
def a_rival_was_superseded(desk: Desk) -> Recovered:
    desk.store()
    ben = desk.sit_down("ben")
    desk.recover(claim=True, outlast=ben)
    mine = desk.store(summary="Mine instead")
    desk.clock.advance(15 * 60 + 1)
    desk.store(summary="Both of it", supersedes=mine.id)
    return desk.recover()


@case("trusted")
def failed_is_open_again(desk: Desk) -> Recovered:
    desk.store()
    desk.recover(claim=True)
    desk.settle("failed")
    return desk.recover()


@case("trusted", "run")
def finished_and_asked_for_all_the_same(desk: Desk) -> Recovered:
    desk.store()
    desk.settle("completed")
    return desk.recover(include_finished=True)


@case("trusted")
def opened_again(desk: Desk) -> Recovered:
    desk.store()
    desk.settle("completed")
    desk.store(summary="One thing more")
    return desk.recover()


@case("trusted", "foreign_commands")
def it_came_in_a_file(desk: Desk) -> Recovered:
    desk.store()
    desk.outlast.handoff.export(TASK, desk.folder / "it.handoff")
    elsewhere = Outlast(desk.folder / "elsewhere", clock=desk.clock)
    desk.opened.append(elsewhere)
    elsewhere.handoff.import_(desk.folder / "it.handoff")
    return desk.recover(outlast=elsewhere)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_next_one_is_told(desk: Desk, case: Case) -> None:
    recovered = case.do(desk)
    assert (str(recovered.verdict), codes(recovered)) == (case.verdict, case.codes)
    assert all(reason.advice for reason in recovered.verdict.reasons)


def test_the_table_has_at_least_sixty_cases_and_every_verdict() -> None:
    assert len(CASES) >= 60
    assert {case.verdict for case in CASES} == {"trusted", "candidate", "contested"}


FROM_RUNS = {
    "auto_composed",
    "code_changed",
    "effect_in_doubt",
    "effect_inputs_changed",
    "imported",
    "inputs_changed",
    "output_changed",
    "output_missing",
    "resource_missing",
    "still_running",
}
TAMPERED = {"integrity_broken", "artifact_corrupt", "artifact_missing"}


def test_every_code_of_a_handoff_is_reached_here_or_where_runs_and_tampering_are_tested() -> None:
    reached = set().union(*(case.codes for case in CASES))
    assert {*CONTESTS, *WEAKENS, *NOTES} - reached == FROM_RUNS | TAMPERED
    assert TASK.startswith("task:")


@given(st.lists(st.text("ab -'\"$;é\n@%+=:,./~\\", max_size=6), min_size=1, max_size=5))
def test_a_command_is_quoted_as_the_shell_needs_it(words: list[str]) -> None:
    assert _quoted(words) == shlex.join(words)
