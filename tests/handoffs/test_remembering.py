"""The verdict remembers what checks came to: until they are run again, or what they ran on changes."""

from collections.abc import Iterator
from pathlib import Path
from shlex import split
from typing import Any

import pytest

from outlast import Outlast, Run, flow
from outlast.errors import HandoffContested, NotSettled
from outlast.handoffs.handoff import Recovered

from ..kit.desk import TASK, Desk, codes
from ..ready import completed

CHECK = "test ! -f broken"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    found = Desk(tmp_path)
    (found.repo / ".git/info/exclude").write_text("broken\n")  # git does not see it: the content stays the same
    yield found
    found.close()


def regressed(desk: Desk, **fields: Any) -> Recovered:
    """It passed when it was stored; somebody runs it, and it fails."""
    desk.store(**{"acceptance_checks": [CHECK], "baseline": True} | fields)
    desk.write("broken", "")
    return desk.outlast.handoff.verify(TASK, repo_root=str(desk.repo))


def test_a_regression_that_was_found_once_stays_for_whoever_asks(desk: Desk) -> None:
    ran = regressed(desk)
    assert (str(ran.verdict), codes(ran)) == ("contested", {"check_regressed"})
    for who in (desk.outlast, desk.sit_down("ben")):
        plain = desk.recover(outlast=who)
        assert plain.verdict == ran.verdict  # word, reasons and advice
    with pytest.raises(HandoffContested, match="check_regressed"):
        desk.sit_down("cy").handoff.claim(TASK, repo_root=str(desk.repo))


def test_looking_from_nowhere_does_not_raise_it(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    regressed(desk)
    desk.repo.rename(desk.folder / "gone")
    monkeypatch.chdir(desk.folder)
    found = desk.outlast.handoff.recover(TASK)
    assert (str(found.verdict), codes(found)) == ("contested", {"check_regressed", "other_place"})


def test_it_is_over_when_it_is_run_again_and_passes(desk: Desk) -> None:
    regressed(desk)
    (desk.repo / "broken").unlink()
    assert str(desk.recover().verdict) == "contested"  # nobody ran it
    assert (str(desk.recover(run_checks=True).verdict), str(desk.recover().verdict)) == ("trusted", "trusted")
    assert codes(desk.recover()) == set()  # and nothing is said to be unrun


@pytest.mark.parametrize("change", ["commit", "other file", "environment", "must"])
def test_when_the_content_changes_it_only_weakens_until_it_is_run_again(desk: Desk, change: str) -> None:
    must = {"file": "src/other.py", "contains": "OTHER"}
    regressed(desk, environment=["uv.lock"], must_keep=[must])
    match change:
        case "commit":
            desk.commit("more")
        case "other file":
            desk.write("notes.txt", "new")
        case "environment":
            desk.write("uv.lock", "other\n")
        case "must":
            desk.write("src/other.py", "OTHER = 2\n")
    found = desk.recover()
    assert (str(found.verdict), "failed_before" in codes(found)) == ("candidate", True)
    assert {"check_regressed"} <= codes(desk.recover(run_checks=True))
    assert str(desk.recover().verdict) == "contested"


def test_a_pass_lapses_when_the_content_changes_and_counts_again_when_it_is_back(desk: Desk) -> None:
    desk.store(acceptance_checks=[CHECK], summary="?", handoff_text="?", next_action=None)  # weak
    assert "weak" in codes(desk.recover())
    desk.recover(run_checks=True)
    assert codes(desk.recover()) == set()
    note = desk.write("notes.txt", "new")
    assert {"weak", "checks_not_run"} <= codes(desk.recover())
    note.unlink()
    assert codes(desk.recover()) == set()


@pytest.mark.parametrize("change", ["in a new folder", "beside a new target", "what a link leads to", "a submodule"])
def test_a_pass_lapses_with_files_that_git_does_not_tell_one_by_one(desk: Desk, change: str) -> None:
    """Git names a new folder and not its files, a submodule and not its commit, and nothing of what it ignores."""
    path, targets = "new/deep/b.py", ["src/export.py"]
    desk.write(path, "B = 1\n")
    match change:
        case "beside a new target":
            desk.write("new/a.py", "A = 1\n")
            targets = ["new/a.py"]
        case "what a link leads to":
            path, targets = "broken", ["link"]
            desk.write("broken", "one")
            (desk.repo / "link").symlink_to("broken")
        case "a submodule":
            _submodule(desk)
    desk.store(
        acceptance_checks=["test -e .git"], summary="?", handoff_text="?", next_action=None, target_files=targets
    )
    desk.recover(run_checks=True)
    assert "weak" not in codes(desk.recover())
    if change == "a submodule":
        desk.git("-C", "module", "commit", "-q", "--allow-empty", "-m", "three")
    else:
        desk.write(path, "changed")
    assert {"weak", "checks_not_run"} <= codes(desk.recover())
    with pytest.raises(NotSettled):
        desk.settle("completed", run_checks=False)


def _submodule(desk: Desk) -> None:
    """One that is at another commit than its repository says."""
    desk.git("init", "-q", "module")
    for word in ("one", "two"):
        desk.git("-C", "module", "commit", "-q", "--allow-empty", "-m", word)
        if word == "one":
            desk.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "./module", "module")
            desk.commit("with a submodule")


def test_byte_code_that_python_leaves_is_no_content(desk: Desk) -> None:
    desk.write("src/__pycache__/export.cpython-312.pyc", "one")
    regressed(desk)
    desk.write("src/__pycache__/export.cpython-312.pyc", "another")
    assert str(desk.recover().verdict) == "contested"


def test_a_false_report_stays_contradicted(desk: Desk) -> None:
    desk.write("broken", "")
    desk.store(acceptance_checks=[CHECK], baseline=[{"check": CHECK, "passed": True}])
    words = [str(desk.recover(run_checks=ran).verdict) for ran in (False, True, False, True, False)]
    assert words == ["candidate", *["contested"] * 4]
    assert codes(desk.recover(), ("contests",)) == {"evidence_contradicted"}


def test_two_who_report_differently_contradict_each_other(desk: Desk) -> None:
    desk.store(acceptance_checks=[CHECK])
    for actor, passed in (("ann", True), ("ben", False)):
        report = [{"check": CHECK, "passed": passed}]
        desk.settle("failed", desk.sit_down(actor), evidence=report, note="reported")
    found = desk.recover()
    (reason,) = found.verdict.contesting
    assert (reason.code, reason.expected, reason.found) == (
        "evidence_contradicted",
        "passed, says ann",
        "failed, says ben",
    )
    assert str(desk.recover(run_checks=True).verdict) == "trusted"  # a run settles it
    assert str(desk.recover().verdict) == "trusted"


def test_who_is_contradicted_by_a_report_can_paste_what_is_advised(desk: Desk) -> None:
    """To run the check again would settle it, and there would be nothing left to accept."""
    desk.store(acceptance_checks=[CHECK])
    desk.recover(run_checks=True)
    desk.settle("failed", desk.sit_down("ben"), evidence=[{"check": CHECK, "passed": False}])
    (reason,) = desk.recover().verdict.contesting
    words = split(reason.advice.partition("or accept it: outlast ")[2].replace("WHY", "seen"))
    command = ("-m", "outlast", "--home", str(desk.home), *words)
    done = completed(command, cwd=desk.repo, capture_output=True, text=True)
    assert (done.returncode, "accepted" in done.stdout) == (0, True), done.stderr


def test_a_check_that_failed_at_store_and_still_fails_does_not_contest(desk: Desk) -> None:
    desk.write("broken", "")
    desk.store(acceptance_checks=[CHECK], baseline=True)
    for ran in (True, False):
        assert str(desk.recover(run_checks=ran).verdict) == "trusted"


def test_what_was_accepted_stays_accepted_while_it_is_found_the_same(desk: Desk) -> None:
    regressed(desk)
    claim = desk.recover(claim=True, accept=["check_regressed"], why="known to be broken there")
    assert claim.resume == "attached"
    desk.settle("released")
    assert desk.recover(outlast=desk.sit_down("ben"), claim=True).resume == "attached"


def test_settling_without_running_checks_goes_by_what_counts(desk: Desk) -> None:
    regressed(desk)
    with pytest.raises(NotSettled, match="fails"):
        desk.settle("completed", run_checks=False)
    (desk.repo / "broken").unlink()
    desk.recover(run_checks=True)
    desk.write("notes.txt", "new")  # another content than the one it passed on
    with pytest.raises(NotSettled, match="was not run by a runner on the files as they are now"):
        desk.settle("completed", run_checks=False)
    (desk.repo / "notes.txt").unlink()
    assert desk.settle("completed", run_checks=False).outcome == "completed"


def test_what_ran_while_its_files_changed_counts_for_no_content(desk: Desk) -> None:
    check = "echo more >> src/export.py"
    desk.store(acceptance_checks=[check])
    desk.recover(run_checks=True)
    assert "checks_not_run" in codes(desk.recover())


def test_the_list_of_contested_ones_knows_it(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(desk.repo)
    assert desk.outlast.handoff.list("contested") == []
    regressed(desk)
    (listed,) = desk.outlast.handoff.list("contested")
    assert [reason.code for reason in listed.verdict.contesting] == ["check_regressed"] if listed.verdict else False


def test_with_evidence_set_to_runner_a_clients_run_is_a_report(desk: Desk) -> None:
    (desk.home / "settings.yaml").write_text("evidence: runner\n")
    strict = desk.sit_down()
    assert (strict._executor.home.settings.evidence, desk.outlast._executor.home.settings.evidence) == (
        "runner",
        "client",
    )


def test_every_line_of_history_names_actor_host_and_door(desk: Desk) -> None:
    desk.store()
    ben = desk.sit_down("ben")
    desk.recover(outlast=ben, claim=True, run_checks=True)
    desk.settle("completed", ben)
    host = desk.outlast._executor.home.process.host
    told = [(one.kind, one.by, one.host, one.door) for one in desk.outlast.handoff.history(TASK)]
    assert told == [
        ("stored", "local", host, "python"),
        *((kind, "ben", host, "python") for kind in ("checked", "claimed", "attached", "settled")),
    ]


def test_the_same_home_over_another_object_remembers_too(desk: Desk) -> None:
    regressed(desk)
    desk.close()
    with Outlast(desk.home, clock=desk.clock) as later:
        assert str(desk.recover(outlast=later).verdict) == "contested"


@flow
def stopped(run: Run) -> None:
    run.pause_for("approval")


def test_what_is_composed_from_a_run_remembers_too(desk: Desk) -> None:
    desk.store(acceptance_checks=[CHECK], baseline=True)
    desk.clock.advance(60)
    desk.outlast.with_options().run(stopped, task=TASK.removeprefix("task:"))
    assert desk.recover().handoff.revision == 0
    desk.write("broken", "")
    ran = desk.recover(run_checks=True)
    assert "check_regressed" in codes(ran)
    assert codes(desk.recover()) == codes(ran)
    (desk.repo / "broken").unlink()
    assert "check_regressed" not in codes(desk.recover(run_checks=True))
    found = desk.recover()
    assert "check_regressed" not in codes(found)
    assert {"auto_composed", "checks_not_run"} <= codes(found)  # a pass counts for that look only
