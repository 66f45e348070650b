"""Looking and caring by the command line: reading, ids, damage, pipes, terminals, start-up."""

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from outlast import Outlast, Run, flow
from outlast.ids import counted

from ..kit import ledgers

if TYPE_CHECKING:
    from tests.doors.conftest import Cli


@flow
def nothing(run: Run) -> None: ...


@pytest.fixture
def two_runs(cli: "Cli") -> "Cli":
    with Outlast(cli.folder / ".outlast", ids=counted("run")) as outlast:
        for _ in range(2):
            outlast.run(nothing)
    return cli


READING = [("runs",), ("show", "x"), ("receipts", "x"), ("verify",), ("doctor",), ("resume",), ("retry", "x", "y")]


@pytest.mark.parametrize("words", READING, ids=lambda words: words[0])
def test_without_a_home_a_reading_command_says_so_and_makes_none(cli: "Cli", words: tuple[str, ...]) -> None:
    answer = cli(*words, "--json")
    assert (answer.code, answer.json["error"]["code"]) == (5, "home_not_found")
    assert not (cli.folder / ".outlast").exists()


def test_a_prefix_of_several_runs_is_a_choice(two_runs: "Cli") -> None:
    ids = [run["id"] for run in two_runs("runs", "--json").json["runs"]]
    shared = next(ids[0][:size] for size in range(12, -1, -1) if ids[1].startswith(ids[0][:size]))
    answer = two_runs("show", shared)
    assert (answer.code, all(run in answer.err for run in ids)) == (2, True)
    assert [two_runs("show", run).code for run in ids] == [0, 0]


def test_what_is_not_there_exits_5(two_runs: "Cli") -> None:
    run = two_runs.run_id
    assert [two_runs(*words).code for words in (["show", "zzz"], ["receipts", run, "nope"])] == [5, 5]
    assert two_runs("runs", "--tenant", "nobody").code == 5
    assert not (two_runs.folder / ".outlast" / "nobody").exists()


def test_an_empty_list_says_what_to_do(two_runs: "Cli") -> None:
    assert two_runs("runs", "--status", "failed").out == "no failed runs; see `outlast runs`\n"
    assert two_runs("runs", "--status", "lost").code == 2


def test_show_and_receipts_tell_what_happened(cli: "Cli", in_doubt: Callable[[], str]) -> None:
    run = in_doubt()
    shown = cli("show", run[:6], "--json").json
    assert (shown["status"], shown["verdict"]["word"]) == ("crashed", "contested")
    assert [(step["label"], step["status"]) for step in shown["steps"]] == [
        ("find", "succeeded"),
        ("draft", "succeeded"),
        ("publish", "started"),
    ]
    assert "did not end" in cli("show", run).out
    assert cli("receipts", run, "find", "--json").json["receipts"][0]["result"] == ["ai", "AI"]
    assert [line.split()[1] for line in cli("receipts", run).out.splitlines()] == ["STEP", "find", "draft", "publish"]


def test_verify_names_the_broken_record(cli: "Cli") -> None:
    cli("run", "flows.py:report", "topic=ai")
    assert cli("verify").code == 0
    change = "UPDATE journal SET payload = CAST(replace(payload, 'AI', 'IA') AS BLOB) WHERE seq = 3"
    ledgers.change(cli.folder / ".outlast", change, rows=1)
    answer, run = cli("verify", "--json"), cli.run_id
    assert (answer.code, answer.json["ok"], answer.json["problems"][0]["record"]) == (1, False, f"entry {run}/3")
    assert f"broken: entry {run}/3" in cli("verify", run).out


def test_doctor_finds_a_sound_home_sound(two_runs: "Cli") -> None:
    found = two_runs("doctor", "--json").json
    assert (found["ok"], found["journal_mode"], found["synchronous"]) == (True, "wal", "FULL")
    assert (found["runs"], found["schema"] > 0, bool(found["filesystem"])) == ({"succeeded": 2}, True, True)


def test_a_reader_that_goes_away_is_no_error(two_runs: "Cli") -> None:
    child = two_runs.start("receipts", two_runs.run_id)
    assert child.stdout is not None
    child.stdout.close()
    assert child.stderr is not None
    assert (child.stderr.read(), child.wait()) == ("", 141)


def test_a_terminal_gets_colour_and_a_pipe_gets_none(two_runs: "Cli") -> None:
    assert "\x1b" not in two_runs("runs").out
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "outlast", "runs"]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80"}
    environment.pop("NO_COLOR", None)
    subprocess.run(words, stdout=theirs, cwd=two_runs.folder, check=True, env=environment)
    os.close(theirs)
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    assert "\x1b[32msucceeded" in shown


def test_usage_errors_exit_2_as_text_and_as_json(cli: "Cli") -> None:
    assert (cli("skip", "x").code, cli("dance").code) == (2, 2)
    assert cli("skip", "x", "--json").json["error"]["code"] == "usage"
    assert "outlast skip --help" in cli("skip", "x").err


def test_help_is_grouped_and_every_command_has_its_own(cli: "Cli") -> None:
    from outlast.doors.cli.group import PLACES, SECTIONS

    shown = cli("--help")
    assert shown.code == 0
    assert [*SECTIONS] == ["Run", "Decide", "Look", "Hand over", "Connect", "Care"]
    assert all(f"{title}:" in shown.out for title in SECTIONS)
    lines = [f"{name} {line}" for section in SECTIONS.values() for name, (_, line) in section.items()]
    assert {*lines} <= {" ".join(line.split()) for line in shown.out.splitlines()}  # none is broken
    assert all(f"  {name} " in shown.out for name in PLACES)
    assert max(map(len, shown.out.splitlines())) <= 80


HEAVY = ("apsw", "msgspec", "rich", "asyncio", "yaml")
DOOR_ONLY = """
import sys, types
package = types.ModuleType("outlast")
package.__path__ = [sys.argv.pop(1)]
sys.modules["outlast"] = package
from outlast.doors.cli import main
try:
    main(sys.argv[1:])
finally:
    print(*sorted(sys.modules), file=sys.stderr)
"""


@pytest.mark.parametrize(
    "words",
    [["--help"], ["run", "--help"], ["runs", "--help"], ["events", "--help"], ["handoff", "recover", "--help"]],
    ids=" ".join,
)
def test_help_loads_nothing_heavy(words: list[str]) -> None:
    package = Path(__import__("outlast").__file__).parent
    command = [sys.executable, "-c", DOOR_ONLY, str(package), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert {*HEAVY} & {*done.stderr.split()} == set()
    assert "Usage: outlast" in done.stdout


def test_the_demo_tells_its_story_and_leaves_nothing(cli: "Cli") -> None:
    answer = cli("demo", TMPDIR=str(cli.folder))
    assert answer.code == 0, answer.out + answer.err
    assert answer.out.count("$ kill -9") == 3
    assert "write_draft   ran 2 times" in answer.out
    assert max(map(len, answer.out.splitlines())) <= 80
    assert [file.name for file in cli.folder.iterdir()] == ["flows.py"]
