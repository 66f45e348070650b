"""Files of finished steps, and what gave way, as a person sees them on the command line."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.doors.cli.render import width

from ..crash.command_folder import Folder

FLOW = """\
- {id: plan, run: "echo plan > plan.md; mkdir -p out; echo a > out/a", writes: [plan.md, "out/**"]}
- {id: use, run: "cat plan.md >> diary; test -f go", reads: plan.md}
"""
HALF = """\
- {id: append, run: "echo line >> log; echo more > extra; test -f go", writes: [log, extra], on_partial: restore}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    found = Folder(tmp_path / "work")
    yield found
    found.end()


def failed(folder: Folder, steps: str) -> str:
    folder.flow(steps)
    said = folder.cli("run", "flow.yaml", "--json")
    assert said.code == 1
    return str(said.json["run_id"])


def test_after_make_clean_resume_is_refused_and_the_dry_run_names_every_way_on(folder: Folder) -> None:
    run = failed(folder, FLOW)
    (folder.path / "plan.md").unlink()
    said = folder.cli("resume", run)
    assert (said.code, "[contested]" in said.err, folder.lines()) == (4, True, ["plan"])
    told = folder.cli("resume", run, "--dry-run").out
    for words in (
        f"outlast resume {run} --from plan",
        f"outlast outputs {run} --restore --step plan",
        f"outlast resume {run} --accept output_missing:plan --why WHY",
    ):
        assert words in told


@pytest.mark.parametrize("way", ["again", "restore", "accept"])
def test_each_way_that_is_named_leads_on(folder: Folder, way: str) -> None:
    run = failed(folder, FLOW)
    (folder.path / "plan.md").unlink()
    folder.write("go", "")
    if way == "restore":
        said = folder.cli("outputs", run, "--restore", "--step", "plan")
        assert (said.code, said.out) == (0, "put back: plan.md (of plan)\n")
    how = {"again": ["--from", "plan"], "accept": ["--accept", "output_missing:plan", "--why", "seen"], "restore": []}
    if way == "accept":  # the step does not need it after all
        folder.flow(FLOW.replace("cat plan.md >> diary; ", ""))
    assert folder.cli("resume", run, *how[way]).code == 0


def test_outputs_shows_every_file_and_what_is_not_as_it_was_first(folder: Folder) -> None:
    run = failed(folder, FLOW)
    folder.write("plan.md", "another plan\n")
    said = folder.cli("outputs", run)
    assert [line.split("  ") for line in said.out.splitlines()][1:3] == [
        ["plan.md", "plan", "changed: 13 bytes, not 5", "yes"],
        ["out/a", "", "plan", "as it was left"],
    ]
    assert all(width(line) <= 80 for line in said.out.splitlines())
    (changed, same) = folder.cli("outputs", run, "--json").json["outputs"]
    assert {changed["path"], same["path"]} == {"plan.md", "out/a"}


def test_outputs_of_a_run_without_declared_files_says_so(folder: Folder) -> None:
    run = failed(folder, "- {id: fail, run: exit 1}")
    said = folder.cli("outputs", run)
    assert (said.code, "declares files" in said.out) == (0, True)
    assert folder.cli("outputs", run, "--json").json == {"run_id": run, "outputs": []}
    assert folder.cli("outputs", run, "--restore").code == 0


def test_wrong_words_are_refused_with_what_to_do(folder: Folder) -> None:
    run = failed(folder, FLOW)
    assert folder.cli("outputs", run, "plan.md").code == 2
    said = folder.cli("outputs", run, "--restore", "nothing.md")
    assert (said.code, "output_not_found" in said.err, f"outlast outputs {run}" in said.err) == (5, True, True)
    assert folder.cli("displaced", run, "-o", "copy").code == 2
    said = folder.cli("displaced", run, "plan.md")
    assert (said.code, "displaced_not_found" in said.err) == (5, True)
    assert folder.cli("displaced", run).out == f"nothing gave way in run {run}\n"
    assert folder.cli("displaced", "nosuchrun").code == 5


def test_verify_of_a_run_says_how_its_files_are_and_no_record_is_broken(folder: Folder) -> None:
    run = failed(folder, FLOW)
    (folder.path / "plan.md").unlink()
    said = folder.cli("verify", run)
    assert said.code == 0
    assert "2 files of finished steps looked at; 1 as they were left" in said.out
    assert "plan.md of plan: missing" in said.out
    found = folder.cli("verify", run, "--json").json
    assert (found["ok"], found["files"], [one["path"] for one in found["outputs"]]) == (True, 2, ["plan.md"])
    assert "files" not in folder.cli("verify").out


def test_audit_of_a_run_fails_by_a_file_that_is_still_to_be_read(folder: Folder) -> None:
    run = failed(folder, FLOW)
    (folder.path / "out" / "a").unlink()
    found = folder.cli("audit", run, "--json").json
    trusted = found["questions"][4]
    assert trusted["passed"]
    assert [(one["code"], one["subject"], one["fails"]) for one in trusted["findings"]] == [
        ("output_missing", "out/a", False)
    ]
    (folder.path / "plan.md").unlink()
    trusted = folder.cli("audit", run, "--json").json["questions"][4]
    assert not trusted["passed"]
    assert f"outlast outputs {run} --restore plan.md" in trusted["findings"][1]["advice"]


# -- what gave way -----------------------------------------------------------------------------------


def test_what_a_restore_displaced_is_announced_listed_and_fetched(folder: Folder) -> None:
    folder.write("log", "before\n")
    run = failed(folder, HALF)
    folder.write("go", "")
    said = folder.cli("resume", run)
    assert said.code == 0
    assert f"outlast displaced {run}" in said.err
    assert "extra, log" in said.err
    assert f"2 files gave way when files were put back: outlast displaced {run}" in folder.cli("show", run).out
    shown = folder.cli("show", run, "--json").json["displaced"]
    assert [(one["step"], one["path"]) for one in shown] == [("append", "extra"), ("append", "log")]
    assert folder.cli("displaced", run, "--json").json["displaced"] == shown
    assert folder.cli("displaced", run, "log").out == "before\nline\n"
    said = folder.cli("displaced", run, "log", "-o", "copy of log", "--json")
    assert (said.json["output"], folder.read("copy of log")) == ("copy of log", "before\nline\n")
    assert folder.cli("displaced", run, "log", "-o", "no/such/folder").code == 2


def test_each_of_several_that_gave_way_can_be_had(folder: Folder) -> None:
    run = failed(folder, HALF)
    for _ in range(2):
        assert folder.cli("resume", run).code == 1
    found = folder.cli("displaced", run, "--json").json["displaced"]
    seqs = [one["seq"] for one in found if one["path"] == "log"]
    assert len(seqs) == 2
    for seq in seqs:
        assert folder.cli("displaced", run, "log", "--seq", str(seq)).out == "line\n"
    assert folder.cli("displaced", run, "log", "--seq", "1").code == 5


def test_a_named_file_that_was_changed_comes_back_and_the_edit_is_kept(folder: Folder) -> None:
    run = failed(folder, FLOW)
    folder.write("plan.md", "mine\n")
    said = folder.cli("outputs", run, "--restore")
    assert said.out == "nothing is missing; a file that was changed is put back when it is named\n"
    assert folder.read("plan.md") == "mine\n"
    said = folder.cli("outputs", run, "--restore", "plan.md", "--json")
    assert json.loads(said.out)["displaced"] == ["plan.md"]
    assert folder.read("plan.md") == "plan\n"
    assert folder.cli("displaced", run, "plan.md").out == "mine\n"


def test_a_file_that_a_step_only_found_is_named_after_the_one_that_made_it(folder: Folder) -> None:
    run = failed(
        folder,
        "- id: each\n  foreach: {items: [a, b], steps: [{id: w, run: 'echo 1 > $OUTLAST_ITEM.out', writes: '*.out'}]}\n"
        "- {id: use, run: 'cat *.out; test -f go', reads: '*.out'}\n",
    )
    (folder.path / "a.out").unlink()
    assert "--from 'each[a]/w'" in folder.cli("resume", run, "--dry-run").out
    folder.write("go", "")
    assert folder.cli("resume", run, "--from", "each[a]/w").code == 0
    assert folder.read("a.out") == "1\n"


# -- of runs that a run began ------------------------------------------------------------------------

SUB = 'flow: sub\nsteps:\n- {id: make, run: "echo made > made.md", writes: [made.md]}\n'
ABOVE = """\
- {id: below, flow: sub.yaml}
- {id: use, run: "cat made.md >> diary; test -f go", reads: made.md}
"""


@pytest.fixture
def began(folder: Folder) -> tuple[str, str]:
    """A run that failed, and the one that it began, which has ended well and whose file is gone."""
    folder.write("sub.yaml", SUB)
    run = failed(folder, ABOVE)
    child = next(each["id"] for each in folder.cli("runs", "--json").json["runs"] if each["parent"] == run)
    assert folder.lines() == ["made"]
    (folder.path / "made.md").unlink()
    return run, str(child)


def test_a_file_that_a_finished_child_left_and_that_is_gone_refuses_its_parent(
    folder: Folder, began: tuple[str, str]
) -> None:
    run, child = began
    said = folder.cli("resume", run)
    assert (said.code, "[contested]" in said.err, folder.lines()) == (4, True, ["made"])
    told = " ".join(folder.cli("resume", run, "--dry-run").out.split())
    for words in (
        f"make of run {child}",
        f"outlast fork {child} --from make --resume",
        f"outlast outputs {child} --restore --step make",
        f"outlast resume {run} --accept 'output_missing:make of run {child}' --why WHY",
    ):
        assert words in told
    verified = folder.cli("verify", run, "--json").json
    assert [(one["path"], one["child"]) for one in verified["outputs"]] == [("made.md", child)]
    assert "made.md" in folder.cli("audit", run).out


@pytest.mark.parametrize("way", ["restore", "restore of its parent", "accept", "again"])
def test_each_way_that_is_named_for_a_file_of_a_child_leads_on(
    folder: Folder, began: tuple[str, str], way: str
) -> None:
    run, child = began
    folder.write("go", "")
    if way.startswith("restore"):
        of = child if way == "restore" else run
        assert folder.cli("outputs", of, "--restore", "--step", "make").out == "put back: made.md (of make)\n"
    if way == "again":
        assert folder.cli("fork", child, "--from", "make", "--resume").code == 0
    accepting = ["--accept", f"output_missing:make of run {child}", "--why", "seen"]
    if way == "accept":
        folder.flow(ABOVE.replace("cat made.md >> diary; ", ""))
    assert folder.cli("resume", run, *(accepting if way == "accept" else [])).code == 0


def test_a_file_that_a_later_step_of_the_parent_wrote_is_that_steps(folder: Folder) -> None:
    folder.write("sub.yaml", SUB)
    again = '- {id: over, run: "echo over > made.md", writes: [made.md]}\n'
    run = failed(folder, ABOVE.replace("- {id: use", f"{again}- {{id: use"))
    (found,) = folder.cli("outputs", run, "--json").json["outputs"]
    assert (found["step"], found["child"], found["found"]) == ("over", "", "same")
