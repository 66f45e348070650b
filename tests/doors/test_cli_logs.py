"""`outlast logs`: what commands printed, whole, in order, also of those that run or did not end."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from outlast.commands.logs import logs as logs_of
from outlast.doors.cli.screen import harmless

if TYPE_CHECKING:
    from tests.doors.conftest import Cli

TWO = """\
flow: two
steps:
  - {id: first, run: "printf 'one\\\\ntwo'"}
  - {id: second, run: "test $OUTLAST_ATTEMPT = 2 && echo yes || { echo no >&2; exit 7; }", retries: 1}
"""
LONG = """\
flow: long
steps:
  - {id: much, run: "seq 1 20000"}
"""
LOOP = """\
flow: loop
steps:
  - id: fix
    repeat:
      max: 3
      until: test $OUTLAST_ITERATION = 2
      steps: [{id: author, run: "echo round $OUTLAST_ITERATION"}]
"""
SLOW = """\
flow: slow
steps:
  - {id: early, run: "echo begun"}
  - id: late
    run: echo half > out.txt; printf started; while ! test -e go; do sleep 0.02; done; echo over
    writes: [out.txt]
"""


def wait_until(holds: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, f"{what} did not happen"
        time.sleep(0.01)


def made(cli: "Cli", text: str) -> str:
    """The id of the run of a flow file, which ran to where it stops."""
    (cli.folder / "flow.yaml").write_text(text)
    return cli.here("flow.yaml")


def test_several_transcripts_have_a_line_in_front_of_each_and_one_has_none(cli: "Cli") -> None:
    run = made(cli, TWO)
    assert cli("logs", run, "first").out == "one\ntwo"
    assert cli("logs", run, "second", "--attempt", "1").out == "no\n"
    answer = cli("logs", run)
    assert (answer.code, answer.out) == (
        0,
        "==> first (attempt 1) succeeded, exit 0 <==\none\ntwo\n"
        "==> second (attempt 1) failed, exit 7 <==\nno\n"
        "==> second (attempt 2) succeeded, exit 0 <==\nyes\n",
    )
    found = cli("logs", run, "--json").json
    assert found["run_id"] == run
    assert [(log["step"], log["attempt"], log["status"], log["exit"], log["text"]) for log in found["logs"]] == [
        ("first", 1, "succeeded", 0, "one\ntwo"),
        ("second", 1, "failed", 7, "no\n"),
        ("second", 2, "succeeded", 0, "yes\n"),
    ]


def test_a_step_is_named_as_everywhere(cli: "Cli") -> None:
    run = made(cli, LOOP)
    assert cli("logs", run, "fix[2]/author").out == "round 2\n"
    answer = cli("logs", run, "author")
    assert (answer.code, "fix[1]/author, fix[2]/author" in answer.err) == (2, True)
    answer = cli("logs", run, "nobody", "--json")
    assert (answer.code, answer.json["error"]["code"]) == (5, "step_not_found")
    answer = cli("logs", run, "fix[1]/author", "--attempt", "4")
    assert (answer.code, "it has: fix[1]/author (attempt 1)" in answer.err) == (5, True)


def test_a_step_of_another_flow_that_the_run_started_is_found_there(cli: "Cli") -> None:
    (cli.folder / "other.yaml").write_text("flow: other\nsteps: [{id: deep, run: echo why; exit 3}]\n")
    (cli.folder / "outer.yaml").write_text("flow: outer\nsteps: [{id: sub, flow: other.yaml}]\n")
    said = cli("run", "outer.yaml")
    (advice,) = [line for line in said.out.splitlines() if line.startswith("its output: ")]
    assert cli(*advice.partition("outlast ")[2].split()).out == "why\n"
    assert cli("logs", advice.split()[-2], "deeper").code == 5


def test_a_long_transcript_is_whole(cli: "Cli") -> None:
    run = made(cli, LONG)
    wanted = "".join(f"{number}\n" for number in range(1, 20_001))
    assert cli("logs", run, "much").out == wanted
    assert cli("logs", run, "--json").json["logs"][0]["text"] == wanted


@pytest.mark.parametrize("damage", ["removed", "changed"])
def test_a_damaged_transcript_is_named(cli: "Cli", damage: str) -> None:
    run = made(cli, LONG)
    (blob,) = [path for path in (cli.folder / ".outlast" / "default" / "blobs").rglob("*") if path.is_file()]
    blob.unlink() if damage == "removed" else blob.write_text("other words\n")
    answer = cli("logs", run)
    assert (answer.code, "the transcript of much (attempt 1)" in answer.err, "Traceback" in answer.err) == (
        4,
        True,
        False,
    )
    found = cli("logs", run, "--json")
    assert (found.code, found.json["logs"][0]["error"]["code"]) == (4, "integrity_broken")


def test_a_run_of_python_code_has_none_and_says_so(cli: "Cli") -> None:
    run = cli.here("flows.py:report", topic="ai")
    answer = cli("logs", run)
    assert (answer.code, "its steps leave no transcripts" in answer.out, f"outlast receipts {run}" in answer.out) == (
        0,
        True,
        True,
    )
    assert cli("logs", run, "--json").json == {"run_id": run, "logs": []}


def test_a_command_that_did_not_end_shows_what_it_printed(cli: "Cli") -> None:
    (cli.folder / "flow.yaml").write_text(SLOW)
    child = cli.start("run", "flow.yaml")
    wait_until((cli.folder / "out.txt").exists, "the command")
    run = cli.run_id
    wait_until(lambda: "started" in cli("logs", run, "late").out, "its output")
    assert "==> late (attempt 1) running <==\nstarted\n" in cli("logs", run).out
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    assert "==> late (attempt 1) did not end <==\nstarted\n" in cli("logs", run).out
    assert cli("logs", run, "late", "--json").json["logs"][0]["status"] == "crashed"


def test_following_shows_what_comes_until_the_run_ends(cli: "Cli") -> None:
    (cli.folder / "flow.yaml").write_text(SLOW)
    child = cli.start("run", "flow.yaml")
    wait_until((cli.folder / "out.txt").exists, "the command")
    whole, lines = cli.start("logs", cli.run_id, "-f"), cli.start("logs", cli.run_id, "late", "-f", "--json")
    assert lines.stdout is not None
    first = json.loads(lines.stdout.readline())
    assert (first["step"], first["status"], first["text"]) == ("late", "running", "started")
    (cli.folder / "go").touch()
    child.communicate(timeout=60)
    out, err = whole.communicate(timeout=60)
    assert whole.returncode == 0
    assert out.startswith("==> early (attempt 1) succeeded, exit 0 <==\nbegun\n")
    over = "==> late (attempt 1) succeeded, exit 0 <==\n"  # it may end between its last words and our look at them
    assert out.endswith(("startedover\n", f"started\n{over}over\n", f"startedover\n{over}"))
    assert "is succeeded" in err
    rest = [json.loads(line) for line in lines.communicate(timeout=60)[0].splitlines()]
    assert "".join(each["text"] for each in [first, *rest]) == "startedover\n"
    assert (rest[-1]["status"], rest[-1]["exit"]) == ("succeeded", 0)


def test_ctrl_c_while_following_is_no_trouble(cli: "Cli") -> None:
    (cli.folder / "flow.yaml").write_text(SLOW)
    child = cli.start("run", "flow.yaml")
    wait_until((cli.folder / "out.txt").exists, "the command")
    follower = cli.start("logs", cli.run_id, "-f")
    assert follower.stdout is not None
    assert follower.stdout.readline().startswith("==> early")
    answer = cli.stop(follower, signal.SIGINT)
    assert (answer.code, "Traceback" in answer.err) == (130, False)
    (cli.folder / "go").touch()
    assert child.communicate(timeout=60)
    assert child.returncode == 0


def test_following_a_step_that_never_comes_says_so_at_the_end(cli: "Cli") -> None:
    answer = cli("logs", made(cli, LONG), "third", "-f")
    assert (answer.code, "[step_not_found]" in answer.err) == (5, True)


def test_secrets_stay_masked(cli: "Cli") -> None:
    (cli.folder / "flow.yaml").write_text('flow: f\nsecrets: [TOKEN]\nsteps:\n  - {id: a, run: "echo my $TOKEN"}\n')
    run = cli.here("flow.yaml", env={"TOKEN": "hunter2"})
    assert cli("logs", run).out == "my ***\n"


def test_a_terminal_is_not_steered() -> None:
    assert harmless("\x1b[31mred\x1b[0m\tx\r\n\x1b]0;title\x07\x1b[2J") == (
        "\x1b[31mred\x1b[0m\tx\n\\x1b]0;title\\x07\\x1b[2J"
    )


def test_a_transcript_is_read_in_pieces(cli: "Cli") -> None:
    run = made(cli, LONG.replace("seq 1 20000", "yes | head -c 3000000"))
    with cli.opened() as outlast:
        (log,) = outlast.logs(run)
        sizes = [len(piece) for piece in log.pieces()]
        assert (sum(sizes), len(sizes) > 1, log.size_bytes) == (3_000_000, True, 3_000_000)
        assert logs_of(outlast._executor.caller, run)[0].step == "much"


def test_a_pipe_that_nobody_reads_ends_it(cli: "Cli") -> None:
    run = made(cli, LONG)
    words = [sys.executable, "-m", "outlast", "logs", run]
    child = subprocess.Popen(
        words, cwd=cli.folder, env=cli.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    child.stdout.close()
    assert child.stderr is not None
    err = child.stderr.read()
    assert (child.wait(60), "Traceback" in err) == (141, False)
    assert Path(cli.folder).is_dir()
