"""The files of finished steps: looked at before a run goes on, put back from what was kept, or accepted as they are."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import AsyncRun, Outlast, Reason, Run, flow, flow_file, step
from outlast.errors import Contested, NotRestorable, OutputNotFound, OutputNotKept, RunHeld
from outlast.files import partial as looking
from outlast.files import snapshot
from outlast.home.home import run_row

from ..crash.command_folder import Folder
from ..kit.commands import wait_until

PLAN = "- {id: plan, run: 'echo plan > plan.md', writes: plan.md}\n"
USE = "- {id: use, run: 'cat plan.md >> diary; test -f go', reads: plan.md}"
STOP = "- {id: stop, run: test -f go}"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    found = Folder(tmp_path / "work")
    yield found
    found.end()


def failed(folder: Folder, steps: str, head: str = "") -> Folder:
    assert folder.flow(steps, head).run().status == "failed"
    return folder


def reasons(folder: Folder) -> list[Reason]:
    found = folder.outlast.plan(folder.run_id).verdict.reasons
    return [reason for reason in found if reason.code.startswith("output_")]


def told(folder: Folder) -> list[tuple[str, str, str, str]]:
    return [(one.code, one.weight, one.subject, one.found) for one in reasons(folder)]


def standing(folder: Folder) -> dict[str, str]:
    return {one.path: one.found for one in folder.outlast.outputs(folder.run_id)}


# -- a reason ----------------------------------------------------------------------------------------


def test_a_run_whose_files_are_as_they_were_left_is_trusted(folder: Folder) -> None:
    failed(folder, PLAN + USE)
    assert folder.outlast.plan(folder.run_id).verdict.word == "trusted"
    folder.write("go", "")
    assert folder.resume().status == "succeeded"


def test_a_missing_file_that_a_step_still_to_run_reads_contests_and_nothing_is_run(folder: Folder) -> None:
    failed(folder, PLAN + USE)
    (folder.path / "plan.md").unlink()
    folder.write("go", "")
    assert told(folder) == [("output_missing", "contests", "plan", "plan.md (use will read it)")]
    with pytest.raises(Contested, match="output_missing"):
        folder.resume()
    assert folder.lines() == ["plan"]
    assert folder.statuses("use") == ["failed"]


def test_a_missing_file_that_nobody_reads_any_more_only_weakens(folder: Folder) -> None:
    failed(folder, PLAN + STOP)
    (folder.path / "plan.md").unlink()
    assert told(folder) == [("output_missing", "weakens", "plan", "plan.md")]
    folder.write("go", "")
    assert folder.resume().status == "succeeded"


def test_a_file_whose_readers_are_done_only_weakens(folder: Folder) -> None:
    failed(folder, PLAN + "- {id: use, run: cat plan.md, reads: plan.md}\n" + STOP)
    (folder.path / "plan.md").unlink()
    assert [(code, weight) for code, weight, *_ in told(folder)] == [("output_missing", "weakens")]


def test_a_changed_file_weakens_also_with_equal_size_and_time(folder: Folder) -> None:
    failed(folder, PLAN + USE)
    file = folder.path / "plan.md"
    times = file.stat()
    file.write_text("nalp\n")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    ((code, weight, subject, found),) = told(folder)
    assert (code, weight, subject) == ("output_changed", "weakens", "plan")
    assert found == "plan.md (other content, 5 bytes; use will read it)"
    folder.write("go", "")
    assert folder.resume().status == "succeeded"


def test_many_files_of_one_step_are_one_reason_that_an_acceptance_holds_for_whole(folder: Folder) -> None:
    steps = "- {id: make, run: 'mkdir out; for i in 1 2 3 4 5 6 7 8; do echo $i > out/$i; done', writes: 'out/**'}\n"
    failed(folder, steps + "- {id: use, run: test -f go, reads: 'out/**'}")
    for name in "123456":
        (folder.path / "out" / name).unlink()
    (first,) = reasons(folder)
    assert first.found.startswith("out/1 (use will read it), out/2")
    assert " and 1 more (" in first.found
    folder.write("out/6", "6\n")
    (folder.path / "out" / "7").unlink()
    (second,) = reasons(folder)
    assert " and 1 more (" in second.found
    assert first.fingerprint != second.fingerprint


def test_advice_names_the_commands_that_help(folder: Folder) -> None:
    failed(folder, PLAN + USE)
    (folder.path / "plan.md").unlink()
    (reason,) = reasons(folder)
    run = folder.run_id
    assert f"outlast resume {run} --from plan" in reason.advice
    assert f"outlast outputs {run} --restore --step plan" in reason.advice
    assert f"outlast resume {run} --accept output_missing:plan --why" in reason.advice


# -- the three ways on -------------------------------------------------------------------------------


def test_doing_the_step_again_makes_the_file_anew(folder: Folder) -> None:
    failed(folder, PLAN + USE)
    (folder.path / "plan.md").unlink()
    folder.write("go", "")
    folder.outlast.rewind(folder.run_id, "plan")
    assert folder.resume().status == "succeeded"
    assert folder.lines() == ["plan", "plan"]


def test_what_was_kept_is_put_back_and_nothing_is_done_again(folder: Folder) -> None:
    failed(folder, PLAN + USE)
    (folder.path / "plan.md").unlink()
    done = folder.outlast.restore_outputs(folder.run_id)
    assert [one.path for one in done.restored] == ["plan.md"]
    assert (folder.read("plan.md"), done.not_kept, done.displaced) == ("plan\n", (), ())
    assert reasons(folder) == []
    folder.write("go", "")
    assert folder.resume().status == "succeeded"
    assert folder.statuses("plan") == ["succeeded"]
    assert folder.outlast.restore_outputs(folder.run_id).restored == ()


def test_an_acceptance_holds_for_the_next_resume_too(folder: Folder) -> None:
    failed(folder, PLAN + "- {id: use, run: 'test -f go', reads: plan.md}")
    (folder.path / "plan.md").unlink()
    with pytest.raises(Contested):
        folder.resume(accept=["output_missing:other"], why="not that one")
    assert folder.resume(accept=["output_missing:plan"], why="it is not needed").status == "failed"
    folder.write("go", "")
    assert folder.resume().status == "succeeded"


# -- restoring ---------------------------------------------------------------------------------------


def test_a_changed_file_is_put_back_only_if_it_is_named_and_what_gives_way_is_kept(folder: Folder) -> None:
    failed(folder, PLAN + USE)
    folder.write("plan.md", "an edit by hand\n")
    assert folder.outlast.restore_outputs(folder.run_id).restored == ()
    done = folder.outlast.restore_outputs(folder.run_id, paths=["plan.md"])
    assert (folder.read("plan.md"), done.displaced) == ("plan\n", ("plan.md",))
    (gave_way,) = folder.outlast.displaced(folder.run_id)
    assert (gave_way.step, gave_way.path, gave_way.content()) == ("plan", "plan.md", b"an edit by hand\n")
    assert folder.outlast.verify(folder.run_id).ok
    folder.write("go", "")
    assert folder.resume().status == "succeeded"


def test_a_file_that_was_too_large_to_keep_is_refused_by_name_and_the_others_come_back(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot.look_and_keep, "__kwdefaults__", {"secrets": (), "file_bytes": 10, "all_bytes": 100})
    failed(folder, "- {id: make, run: 'echo a > small; seq 99 > large', writes: [small, large]}\n" + STOP)
    for name in ("small", "large"):
        (folder.path / name).unlink()
    with pytest.raises(OutputNotKept, match="too large"):
        folder.outlast.restore_outputs(folder.run_id, paths=["large"])
    done = folder.outlast.restore_outputs(folder.run_id)
    assert ([one.path for one in done.restored], [one.path for one in done.not_kept]) == (["small"], ["large"])
    with pytest.raises(OutputNotKept):
        folder.outlast.restore_outputs(folder.run_id)


def test_a_file_with_a_secret_in_it_is_never_kept(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "s3cr3t-of-mine")
    failed(folder, "- {id: make, run: 'echo $TOKEN > out', writes: out}\n" + STOP, "secrets: [TOKEN]\n")
    (folder.path / "out").unlink()
    with pytest.raises(OutputNotKept, match="secret"):
        folder.outlast.restore_outputs(folder.run_id)
    folder.close()
    assert not [path for path, content in folder.everything() if b"s3cr3t-of-mine" in content]


def test_an_edit_with_a_secret_in_it_does_not_give_way(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "s3cr3t-of-mine")
    failed(folder, "- {id: make, run: 'echo fine > out', writes: out}\n" + STOP, "secrets: [TOKEN]\n")
    folder.write("out", "s3cr3t-of-mine")
    with pytest.raises(NotRestorable, match="secret"):
        folder.outlast.restore_outputs(folder.run_id, paths=["out"])
    assert folder.read("out") == "s3cr3t-of-mine"


def test_files_of_a_finished_run_come_back_and_nothing_gives_way_there(folder: Folder) -> None:
    folder.flow(PLAN).run()
    (folder.path / "plan.md").unlink()
    assert [one.path for one in folder.outlast.restore_outputs(folder.run_id).restored] == ["plan.md"]
    folder.write("plan.md", "mine\n")
    with pytest.raises(NotRestorable, match="move it away"):
        folder.outlast.restore_outputs(folder.run_id, paths=["plan.md"])
    assert folder.read("plan.md") == "mine\n"
    assert folder.outlast.verify(folder.run_id).ok


def test_a_path_or_step_that_left_no_file_is_named_with_those_that_did(folder: Folder) -> None:
    failed(folder, PLAN + USE)
    for given in ({"paths": ["plan.txt"]}, {"paths": ["../plan.md"]}, {"step": "use"}):
        with pytest.raises(OutputNotFound, match="plan"):
            folder.outlast.restore_outputs(folder.run_id, **given)


def test_hostile_names_come_back(folder: Folder) -> None:
    names = ["sp ace", "qu\"o'te", "ne\nw", "🙂", "-rf", "[x]*", "n" * 200]
    make = "import os, sys; os.mkdir('out'); [open('out/' + n, 'w').write(n) for n in eval(sys.argv[1])]"
    folder.write("make.py", make)
    folder.write("names", repr(names))
    failed(folder, "- {id: make, run: 'python3 make.py \"$(cat names)\"', writes: out}\n" + STOP)
    shutil.rmtree(folder.path / "out")
    assert len(folder.outlast.restore_outputs(folder.run_id).restored) == len(names)
    assert sorted(os.listdir(folder.path / "out")) == sorted(names)
    assert all(folder.read(f"out/{name}") == name for name in names)


def test_while_somebody_executes_the_run_nothing_is_put_back(folder: Folder) -> None:
    folder.flow(PLAN + "- {id: hang, run: 'echo > here; while ! test -f go; do sleep 0.02; done'}")
    child = folder.start("run", "flow.yaml")
    wait_until((folder.path / "here").exists, "the second step")
    (folder.path / "plan.md").unlink()
    with pytest.raises(RunHeld):
        folder.outlast.restore_outputs(folder.run_id)
    folder.write("go", "")
    assert child.wait().code == 0


# -- whose file it is --------------------------------------------------------------------------------


def test_of_two_steps_that_write_a_file_the_last_recorded_one_counts(folder: Folder) -> None:
    failed(folder, PLAN + "- {id: amend, run: 'echo more >> plan.md', writes: '*.md'}\n" + STOP)
    assert reasons(folder) == []
    folder.write("plan.md", "plan\n")  # as the first one left it
    assert [(code, subject) for code, _, subject, _ in told(folder)] == [("output_changed", "amend")]


def test_a_file_that_a_later_step_removed_on_purpose_is_not_missed(folder: Folder) -> None:
    failed(folder, PLAN + "- {id: tidy, run: rm plan.md, writes: '*.md'}\n" + USE)
    assert reasons(folder) == []
    assert standing(folder) == {}


def test_what_an_unfinished_attempt_did_to_an_earlier_file_is_its_partial_work(folder: Folder) -> None:
    failed(folder, PLAN + "- {id: amend, run: 'echo half > plan.md; false', writes: 'p*'}")
    assert reasons(folder) == []
    (folder.path / "plan.md").unlink()
    assert reasons(folder) == []


def test_a_step_that_was_killed_may_have_written_after_its_neighbour_ended(folder: Folder) -> None:
    a = "{id: a, run: 'echo a > out/a', writes: 'out/**'}"
    until = "while ! test -f {}; do sleep 0.02; done"
    wait = f"{until.format('a-done')}; echo 2 > out/b; echo > here; {until.format('go')}"
    (folder.path / "out").mkdir()
    folder.flow(f"- {{id: both, parallel: [{a}, {{id: b, run: 'echo 1 > out/b; {wait}', writes: out/b}}]}}")
    child = folder.start("run", "flow.yaml")
    wait_until(lambda: is_done(folder, "a"), "the receipt of a")
    folder.write("a-done", "")
    wait_until((folder.path / "here").exists, "b")
    child.kill()
    assert standing(folder) == {"out/a": "same"}
    assert reasons(folder) == []


def is_done(folder: Folder, step: str) -> bool:
    found = folder.cli("runs", "--json").json.get("runs")  # none while there is no home
    return bool(found) and "succeeded" in folder.statuses(step)


def test_files_of_a_step_that_is_to_be_done_again_are_not_missed(folder: Folder) -> None:
    amend = "- {id: amend, run: 'echo more >> plan.md; echo x > extra', writes: [plan.md, extra]}\n"
    failed(folder, PLAN + amend + STOP)
    (folder.path / "extra").unlink()
    folder.outlast.rewind(folder.run_id, "amend")
    folder.resume()
    assert reasons(folder) == []
    folder.outlast.rewind(folder.run_id, "amend")
    (folder.path / "extra").unlink()
    assert folder.resume().status == "failed"
    assert folder.statuses("amend") == ["succeeded"] * 3


def test_each_round_of_a_loop_counts_for_the_ones_before(folder: Folder) -> None:
    loop = "- id: fix\n  repeat:\n    max: 3\n    until: test -f enough\n    steps:\n"
    failed(folder, loop + "      - {id: author, run: 'echo $OUTLAST_ITERATION > draft', writes: draft}\n")
    assert standing(folder) == {"draft": "same"}
    folder.write("draft", "2\n")
    assert [(code, subject) for code, _, subject, _ in told(folder)] == [("output_changed", "fix[3]/author")]


def test_in_a_loop_that_goes_on_every_step_is_still_to_run(folder: Folder) -> None:
    loop = "- id: fix\n  repeat:\n    max: 9\n    until: 'false'\n    steps:\n"
    use = "      - {id: use, run: 'cat plan.md; test -f go || test $OUTLAST_ITERATION != 2', reads: plan.md}\n"
    failed(folder, PLAN + loop + "      - {id: first, run: cat plan.md, reads: plan.md}\n" + use)
    (folder.path / "plan.md").unlink()
    assert told(folder) == [("output_missing", "contests", "plan", "plan.md (first, use will read it)")]


def test_a_long_loop_that_resumes_from_a_mark_still_knows_its_files(folder: Folder) -> None:
    loop = "- id: fix\n  repeat:\n    max: 200\n    until: test $OUTLAST_ITERATION = 150\n    steps:\n"
    once = "      - {id: author, run: 'test $OUTLAST_ITERATION -lt 149', when: 'true'}\n"
    made = (
        "      - {id: made, run: 'echo $OUTLAST_ITERATION > out', writes: out, when: test $OUTLAST_ITERATION -le 100}\n"
    )
    folder.flow(PLAN + loop + made + once)
    assert folder.run().status == "failed"
    assert folder.events("run.mark")
    home = folder.outlast._executor.home
    assert run_row(home, folder.run_id).mark
    assert reasons(folder) == []
    (folder.path / "out").unlink()
    (folder.path / "plan.md").unlink()
    assert [subject for _, _, subject, _ in told(folder)] == ["fix[100]/made", "plan"]
    assert [one.step for one in folder.outlast.outputs(folder.run_id)] == ["fix[100]/made", "plan"]


def test_branches_side_by_side_have_their_own_files(folder: Folder) -> None:
    both = "- {id: both, parallel: [{id: a, run: echo a > a, writes: a}, {id: b, run: echo b > b, writes: b}]}\n"
    failed(folder, both + "- {id: use, run: test -f go, reads: [a]}")
    (folder.path / "a").unlink()
    (folder.path / "b").unlink()
    assert sorted((subject, weight) for _, weight, subject, _ in told(folder)) == [("a", "contests"), ("b", "weakens")]


def test_folders_of_steps_are_told_apart(folder: Folder) -> None:
    for name in ("one", "two"):
        (folder.path / name).mkdir()
    make = (
        "- {id: one, cwd: one, run: echo 1 > out, writes: out}\n- {id: two, cwd: two, run: echo 2 > out, writes: out}\n"
    )
    failed(folder, make + "- {id: use, cwd: two, run: test -f go, reads: out}")
    (folder.path / "one" / "out").unlink()
    (folder.path / "two" / "out").unlink()
    assert sorted((weight, found) for _, weight, _, found in told(folder)) == [
        ("contests", "two/out (use will read it)"),
        ("weakens", "one/out"),
    ]
    folder.outlast.restore_outputs(folder.run_id)
    assert (folder.read("one/out"), folder.read("two/out")) == ("1\n", "2\n")


# -- what may be there instead -----------------------------------------------------------------------


def in_place(path: Path, what: str) -> None:
    content = path.read_bytes()
    path.unlink()
    match what:
        case "a folder":
            path.mkdir()
        case "a pipe":
            os.mkfifo(path)
        case "a link":
            (path.parent / "elsewhere").write_bytes(content)
            path.symlink_to("elsewhere")
        case "a dangling link":
            path.symlink_to("nowhere")
        case "an equal file":
            path.write_bytes(content)


@pytest.mark.parametrize(
    ("what", "code"),
    [
        ("a folder", "output_missing"),
        ("a pipe", "output_missing"),
        ("a dangling link", "output_missing"),
        ("a link", "output_changed"),
        ("an equal file", ""),
    ],
)
def test_what_is_in_the_place_of_a_file_is_told(folder: Folder, what: str, code: str) -> None:
    failed(folder, PLAN + USE)
    in_place(folder.path / "plan.md", what)
    assert [one.code for one in reasons(folder)] == ([code] if code else [])


def test_a_folder_that_became_a_link_is_not_followed(folder: Folder) -> None:
    failed(folder, "- {id: make, run: 'mkdir out; echo a > out/a', writes: 'out/**'}\n" + STOP)
    (folder.path / "out").rename(folder.path / "moved")
    (folder.path / "out").symlink_to("moved")
    assert told(folder) == [("output_missing", "weakens", "make", "out/a (its folder is a link now)")]
    with pytest.raises(NotRestorable):
        folder.outlast.restore_outputs(folder.run_id)


def test_a_pipe_is_never_opened_or_displaced(folder: Folder) -> None:
    failed(folder, PLAN + USE)
    in_place(folder.path / "plan.md", "a pipe")
    with pytest.raises(NotRestorable):
        folder.outlast.restore_outputs(folder.run_id)


def test_a_file_that_cannot_be_read_is_said_to_be_so(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    failed(folder, PLAN + USE)
    file = folder.path / "plan.md"
    os.utime(file, (1, 1))
    opens = os.open

    def refuse(path: Any, *args: Any, **options: Any) -> int:  # tests may run as root, whom no permission stops
        if str(path).endswith("/plan.md"):
            raise PermissionError(13, "Permission denied", path)
        return opens(path, *args, **options)

    monkeypatch.setattr(os, "open", refuse)
    assert [(code, found) for code, _, _, found in told(folder)] == [
        ("output_changed", "plan.md (it cannot be read; use will read it)")
    ]


# -- cost --------------------------------------------------------------------------------------------


def test_a_file_that_nobody_touched_is_not_read_again(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "_TICK_NS", 0)
    failed(folder, PLAN + STOP)
    read: list[str] = []
    monkeypatch.setattr(looking, "_compare_content", lambda path, was: read.append(path) or looking.SAME)
    assert standing(folder) == {"plan.md": "same"}
    assert read == []
    os.utime(folder.path / "plan.md")
    assert standing(folder) == {"plan.md": "same"}
    assert len(read) == 1


def test_a_file_that_was_written_a_moment_before_it_was_looked_at_is_read_again(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "_TICK_NS", 10**18)  # two writes within it have equal times
    failed(folder, PLAN + STOP)
    was = (folder.path / "plan.md").stat()
    monkeypatch.setattr(os, "lstat", lambda path, lstat=os.lstat: was if str(path).endswith("plan.md") else lstat(path))
    (folder.path / "plan.md").write_text("nalp\n")
    assert standing(folder) == {"plan.md": "changed"}


def test_a_large_file_is_read_only_if_a_step_still_to_run_reads_it(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "HASH_BYTES", 3)
    monkeypatch.setattr("outlast.runs.outputs.files.HASH_BYTES", 3)
    failed(
        folder,
        "- {id: make, run: 'echo aaaa > a; echo bbbb > b', writes: [a, b]}\n- {id: use, run: test -f go, reads: a}",
    )
    folder.write("a", "AAAA\n")
    folder.write("b", "BBBB\n")
    assert standing(folder) == {"a": "changed", "b": "same"}
    folder.write("b", "longer\n")
    assert standing(folder) == {"a": "changed", "b": "changed"}


# -- elsewhere ---------------------------------------------------------------------------------------


def test_files_are_looked_for_where_the_flow_file_is_now(folder: Folder) -> None:
    (folder.path / "old").mkdir()
    folder.write("old/flow.yaml", f"flow: build\nsteps:\n  {PLAN}  {USE}\n")
    assert folder.outlast.run(flow_file(folder.path / "old" / "flow.yaml")).status == "failed"
    shutil.copytree(folder.path / "old", folder.path / "new")
    shutil.rmtree(folder.path / "old")
    outcome = folder.outlast.plan(folder.run_id)
    assert outcome.status == "failed"
    folder.write("new/go", "")
    resumed = folder.outlast.resume(folder.run_id, flow=flow_file(folder.path / "new" / "flow.yaml"))
    assert resumed.status == "succeeded"
    assert [one.path for one in folder.outlast.outputs(folder.run_id)] == ["new/plan.md"]


def test_a_run_that_moved_without_its_files_misses_them_where_it_is_now(folder: Folder, tmp_path: Path) -> None:
    failed(folder, PLAN + USE)
    folder.outlast.export(folder.run_id, tmp_path / "run.zip", move=True)
    run = folder.run_id
    assert folder.outlast.outputs(run) == []  # it only stands for the one that left
    other = Folder(tmp_path / "other")
    shutil.copy(folder.path / "flow.yaml", other.path / "flow.yaml")
    other.outlast.import_(tmp_path / "run.zip")
    assert [(code, weight) for code, weight, *_ in told(other)] == [("output_missing", "contests")]
    other.outlast.restore_outputs(run)
    assert other.read("plan.md") == "plan\n"
    other.end()


# -- Python ------------------------------------------------------------------------------------------


@step(writes=["report.md"])
def report(text: str) -> int:
    return Path("report.md").write_text(text)


@step
def last() -> str:
    if not Path("go").exists():
        raise ValueError("not yet")
    return "done"


@flow
def reporting(run: Run, text: str) -> str:
    report(text)
    return last()


@flow
def mapped(run: Run) -> str:
    run.map(report, ["one", "two", "three"], concurrency=1)
    return last()


def test_files_of_python_steps_are_looked_at_and_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Outlast(tmp_path / ".outlast") as outlast:
        run = outlast.run(reporting, "a report").run_id
        Path("report.md").unlink()
        (reason,) = (one for one in outlast.plan(run).verdict.reasons if one.code.startswith("output_"))
        assert (reason.code, reason.weight, reason.subject) == ("output_missing", "weakens", "report")
        outlast.restore_outputs(run)
        assert Path("report.md").read_text() == "a report"
        Path("go").touch()
        assert outlast.resume(run).result == "done"


def test_items_of_a_map_that_write_one_file_count_by_the_last_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Outlast(tmp_path / ".outlast") as outlast:
        run = outlast.run(mapped).run_id
        assert [(one.path, one.found) for one in outlast.outputs(run)] == [("report.md", "same")]
        assert outlast.plan(run).verdict.word == "trusted"


def test_a_run_from_elsewhere_writes_only_inside_of_the_project(folder: Folder, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    shutil.copy(Path(folder.flow(PLAN + USE).path / "flow.yaml"), outside / "flow.yaml")
    assert folder.outlast.run(flow_file(outside / "flow.yaml")).status == "failed"
    run = folder.run_id
    folder.outlast.export(run, tmp_path / "run.zip", move=True)
    (outside / "plan.md").unlink()
    other = Folder(tmp_path / "other")
    other.outlast.import_(tmp_path / "run.zip")
    with pytest.raises(NotRestorable, match="came from elsewhere"):
        other.outlast.restore_outputs(run)
    assert not (outside / "plan.md").exists()
    other.end()


# -- items of a map that are done at once and declare the same files -----------------------------------


# `b` fails while the file of `a` is written: it begins before that and ends after it.
@step(writes=["*.part"], on_partial="restore")
def part(name: str) -> str:
    if name == "a":
        wait_until(Path("b.began").exists, "b is under way")
        Path("a.part").write_text("a")
        Path("a.done").touch()
    else:
        Path("b.began").touch()
        wait_until(Path("a.done").exists, "a has written")
        Path("b.part").write_text("b")
        if not Path("go").exists():
            raise ValueError("not yet")
    return name


@flow
def parts(run: Run) -> list[str]:
    return run.map(part, ["a", "b"], key=str, concurrency=2)


@flow
async def parts_async(run: AsyncRun) -> list[str]:
    return await run.map(part, ["a", "b"], key=str, concurrency=2)


@step(writes=["*.part"])
def alone(name: str) -> int:
    return Path(f"{name}.part").write_text(name)


@flow
def one_by_one(run: Run) -> list[int]:
    return run.map(alone, ["a", "b"], concurrency=1)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Outlast]:
    monkeypatch.chdir(tmp_path)
    with Outlast() as outlast:
        yield outlast


@pytest.mark.parametrize("mapping", [parts, parts_async])
def test_an_item_of_a_map_that_is_done_again_never_takes_away_what_another_wrote(home: Outlast, mapping: Any) -> None:
    run_id = home.run(mapping).run_id
    assert home.plan(run_id).of("decide") == ("part[0]/part~b",)
    assert [each.partial for each in home.plan(run_id).steps if each.action == "decide"] == [("keep",)]
    Path("go").touch()
    outcome = home.resume(run_id)
    assert (outcome.status, outcome.interrupts[0].choices) == ("waiting", ("keep", "skip", "abort"))
    assert "nobody knows whose" in str(outcome.interrupts[0].payload["why"])
    assert Path("a.part").read_text() == "a"
    home.answer(outcome.interrupts[0].id, {"choice": "keep"})
    assert home.resume(run_id).status == "succeeded"
    assert {one.path: one.step for one in home.outputs(run_id)} == {"a.part": "part[0]", "b.part": "part[0]"}


def test_files_of_items_of_a_map_that_come_one_after_the_other_are_each_items_own(home: Outlast) -> None:
    run_id = home.run(one_by_one).run_id
    assert {one.path: one.step for one in home.outputs(run_id)} == {
        "a.part": "alone[0]/alone", "b.part": "alone[0]/alone~2",
    }  # fmt: skip
