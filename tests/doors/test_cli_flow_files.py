"""Flow files as a person sees them: run, resume, show and receipts at 80 columns, and what programs read."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from outlast.doors.cli.render import width

from .conftest import environment
from .terminal import Terminal

if TYPE_CHECKING:
    from tests.doors.conftest import Answer, Cli

FAILING = """\
flow: build
inputs: {ticket: string}
steps:
  - {id: plan, agent: planner, run: "echo planning $OUTLAST_INPUT_TICKET > plan.md", writes: [plan.md]}
  - {id: docs, run: "echo never", when: test -d docs}
  - id: fix
    repeat: {max: 1, until: test -e fine, on_limit: continue, steps: [{id: author, run: "echo fixing"}]}
  - {id: release, run: "echo half > notes.md; test -e ok || { echo no key >&2; exit 3; }", writes: [notes.md, log.md]}
"""
ASKING = """\
flow: asking
steps:
  - {id: plan, run: "echo '# the plan' > plan.md; seq 1 40 >> plan.md"}
  - {id: approve, pause_for: approval, payload: {file: plan.md, risk: low}}
  - id: fix
    repeat: {max: 1, until: test -e fine, on_limit: pause, steps: [{id: author, run: "true"}]}
"""
PARTIAL = """\
flow: partial
steps:
  - id: write
    run: echo half > out.txt; test -e ok || while true; do sleep 0.02; done
    writes: [out.txt, more.txt]
    on_partial: ask
"""


def write(cli: "Cli", text: str) -> None:
    (cli.folder / "flow.yaml").write_text(text)


def fits(answer: "Answer") -> bool:
    return all(width(line) <= 80 for line in answer.out.splitlines())


def test_a_failure_says_what_to_look_at_and_how_to_go_on(cli: "Cli") -> None:
    write(cli, FAILING)
    answer = cli("run", "flow.yaml", "ticket=T1")
    run = cli.run_id
    assert answer.code == 1
    assert answer.out.splitlines() == [
        "fix[1]/author | fixing",
        "release | no key",
        f"run {run} failed",
        "error: CommandFailed: release exited with 3: no key",
        f"its output: outlast logs {run} release",
        f"mend the cause, then go on at the failure: outlast resume {run}",
    ]
    assert "outlast logs RUN" not in answer.err
    (cli.folder / "ok").touch()
    again = cli("run", "flow.yaml", "ticket=T1")
    assert (again.code, f"run {run} succeeded" in again.out) == (0, True)


def test_show_has_steps_exits_notes_and_the_next_thing_to_look_at(cli: "Cli") -> None:
    write(cli, FAILING)
    run = cli.here("flow.yaml", ticket="T1")
    answer = cli("show", run)
    lines = [" ".join(line.split()) for line in answer.out.splitlines()]
    assert "STEP KIND STATUS ATTEMPTS TOOK EXIT" in lines
    assert [line.split()[0:3] for line in lines if line.startswith(("fix[1]/until ", "docs/when "))] == [
        ["docs/when", "step", "does"],
        ["fix[1]/until", "step", "does"],
    ]
    assert any(line.startswith("release step failed 1 ") and line.endswith(" 3") for line in lines)
    assert "docs: skipped, its condition does not hold: test -d docs" in lines
    assert "fix: 1 round, gone on without being accepted" in lines
    assert "release: attempt 1 failed, left partial work: notes.md created" in lines
    assert f"its output: outlast logs {run} release" in lines
    assert f"mirror {cli.folder}/.outlast/runs/{run}/build" in lines
    assert f"continue: outlast resume {run}" in lines
    assert "Traceback" not in answer.out


def test_receipts_have_exit_codes_and_agents(cli: "Cli") -> None:
    write(cli, FAILING)
    run = cli.here("flow.yaml", ticket="T1")
    answer = cli("receipts", run)
    heads = ["SEQ", "STEP", "KIND", "AGENT", "ATTEMPT", "STATUS", "EXIT", "TOOK", "LEFT"]
    assert answer.out.splitlines()[0].split() == heads
    assert fits(answer)
    whole = cli("receipts", run, "plan").out
    assert "  agent    planner" in whole
    assert "  wrote    plan.md " in whole
    assert "Traceback" not in cli("receipts", run, "release").out


def test_programs_read_exits_files_and_what_was_left(cli: "Cli") -> None:
    write(cli, FAILING)
    run = cli.here("flow.yaml", ticket="T1")
    facts = {each["label"]: each["facts"] for each in cli("receipts", run, "--json").json["receipts"]}
    assert (facts["plan"]["exit"], [*facts["plan"]["files"]]) == (0, ["plan.md"])
    assert facts["release"]["transcript"] == {"text": "no key\n"}
    assert (facts["release"]["left"]["judgement"], facts["release"]["left"]["files"][0]["path"]) == (
        "partial",
        "notes.md",
    )
    shown = cli("show", run, "--json").json
    release = shown["steps"][-1]
    assert (release["label"], release["exit"], release["left"]["exit"]) == ("release", 3, 3)
    assert Path(shown["mirror"], "receipts", "release-main.json").is_file()


def test_receipts_of_python_steps_have_no_facts(cli: "Cli") -> None:
    run = cli.here("flows.py:report", topic="ai")
    assert [each["facts"] for each in cli("receipts", run, "--json").json["receipts"]] == [{}, {}, {}]
    assert "EXIT" not in cli("show", run).out


def test_several_failed_branches_are_each_named(cli: "Cli") -> None:
    branches = "{id: lint, run: exit 4}, {id: types, run: exit 5}"
    write(cli, f"flow: f\nsteps:\n  - id: checks\n    parallel: [{branches}]\n")
    answer = cli("run", "flow.yaml")
    assert answer.code == 1
    assert "  lint exited with 4: it printed nothing" in answer.out
    assert "  types exited with 5: it printed nothing" in answer.out
    assert f"outlast logs {cli.run_id} types" in answer.out


def test_a_run_that_waits_for_approval_exits_3_with_the_commands(cli: "Cli") -> None:
    write(cli, ASKING)
    answer = cli("run", "flow.yaml")
    (wait,) = cli("inbox", "--json").json["waits"]
    assert (answer.code, fits(answer)) == (3, True)
    assert f"  approve:  outlast approve {wait['id']}\n" in answer.out
    assert f"  decline:  outlast decline {wait['id']} -m WHY\n" in answer.out
    assert "  file: plan.md\n" in answer.out
    assert "on_decline" not in answer.out
    more = cli("approve", wait["id"], "--resume")
    (limit,) = cli("inbox", "--json").json["waits"]
    assert (more.code, fits(more)) == (3, True)
    assert f"""outlast answer {limit["id"]} '{{"choice":"more"}}'\n""" in more.out
    assert cli("answer", limit["id"], '{"choice":"continue"}', "--resume").code == 0


def test_at_a_terminal_the_file_is_shown_and_the_answers_go_on(cli: "Cli") -> None:
    write(cli, ASKING)
    run = cli.here("flow.yaml")
    terminal = Terminal(cli, "resume", run)
    question = "[y]es, approve, [n]o, decline, [l]eave it: "
    terminal.type("perhaps\n", after=question)
    terminal.type("y\n", after=question)
    terminal.type("good\n", after="a comment, or Enter: ")
    terminal.type("c\n", after="[m]ore rounds, [c]ontinue without, [a]bort, [l]eave it: ")
    assert terminal.end() == 0
    assert "| # the plan" in terminal.seen
    assert "[41 lines, " in terminal.seen
    assert "| 19\r\n" in terminal.seen
    assert "| 20\r\n" not in terminal.seen


def test_a_person_at_a_terminal_declines_with_a_reason(cli: "Cli") -> None:
    write(cli, ASKING.replace("file: plan.md", "file: /dev/zero"))
    terminal = Terminal(cli, "resume", cli.here("flow.yaml"))
    terminal.type("n\n", after="[l]eave it: ")
    terminal.type("\n", after="why? it is on the record: ")
    terminal.type("n\n", after="[l]eave it: ")
    terminal.type("too big\n", after="why? it is on the record: ")
    assert terminal.end() == 4
    assert "zero cannot be shown: it is no plain file" in terminal.seen
    assert "declined by local: too big" in terminal.seen


def test_partial_work_is_shown_and_a_person_decides(cli: "Cli") -> None:
    write(cli, PARTIAL)
    child = cli.start("run", "flow.yaml")
    deadline = time.monotonic() + 60
    while not (cli.folder / "out.txt").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    run = cli.run_id
    answer = cli("resume", run)
    assert (answer.code, fits(answer)) == (4, True)
    (wait,) = cli("inbox", "--json").json["waits"]
    assert "  attempt 1 crashed, left partial work: out.txt created\n" in answer.out
    assert f"""outlast answer {wait["id"]} '{{"choice":"restore"}}'\n""" in answer.out
    assert f"outlast skip {run} write --result JSON --why WHY\n" in answer.out
    (cli.folder / "ok").touch()
    assert cli("answer", wait["id"], '{"choice":"restore"}', "--resume").code == 0
    assert cli("logs", run, "--json").json["logs"][-1]["attempt"] == 2


def test_a_python_run_has_its_mirror_when_it_stops(cli: "Cli") -> None:
    assert cli("run", "flows.py:report", "topic=ai").code == 0
    folder = cli.folder / ".outlast" / "runs" / cli.run_id / "report"
    assert sorted(path.name for path in (folder / "handoffs").iterdir()) == [
        "draft-main.json",
        "find-main.json",
        "publish-main.json",
    ]


def test_a_mirror_that_cannot_be_written_is_only_a_note(cli: "Cli") -> None:
    (cli.folder / ".outlast").mkdir()
    (cli.folder / ".outlast" / "runs").write_text("in the way")
    answer = cli("run", "flows.py:report", "topic=ai")
    assert (answer.code, f"outlast export {cli.run_id} --mirror" in answer.err) == (0, True)
    refused = cli("export", cli.run_id, "--mirror")
    assert (refused.code, "Traceback" in refused.err) == (1, False)


def test_export_mirror_writes_it_and_says_where(cli: "Cli") -> None:
    run = cli.here("flows.py:report", topic="ai")
    folder = cli.folder / ".outlast" / "runs" / run / "report"
    assert cli("export", run[:8], "--mirror", "--json").json == {"run_id": run, "mirror": str(folder)}
    assert str(folder) in cli("export", run, "--mirror").out
    assert (folder / "receipts" / "find-main.json").is_file()
    assert cli("export", run, "--mirror", "--move").code == 2


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_do_not_keep_a_flow_from_running(cli: "Cli", closed: str) -> None:
    (cli.folder / "flow.yaml").write_text("flow: f\nsteps: [{id: a, run: touch done; echo a}]\n")
    command = f'"{sys.executable}" -m outlast run flow.yaml {closed}'
    done = subprocess.run(["sh", "-c", command], cwd=cli.folder, env=environment(), timeout=60, check=False)
    assert done.returncode == 0
    assert (cli.folder / "done").exists()


def test_output_that_cannot_be_written_is_said_without_a_traceback(cli: "Cli") -> None:
    (cli.folder / "flow.yaml").write_text("flow: f\nsteps: [{id: a, run: touch done}]\n")
    command = f'"{sys.executable}" -m outlast run flow.yaml --json > /dev/full'
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=cli.folder,
        env=environment(),
        timeout=60,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert "cannot be written" in done.stderr
    assert (cli.folder / "done").exists()
