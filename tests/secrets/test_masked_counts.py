"""What was masked is counted, and said: on events, receipts, transcripts, and by every command that shows them."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from outlast import Outlast, Run, flow
from outlast.doors.cli.group import cli
from outlast.python.decorators import flow_file

TOKEN = "gh" + "p_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
SPLIT = TOKEN.replace("p_", 'p""_')  # so that it stands in no file before it is printed


@flow
def talking(run: Run) -> None:
    run.emit("two", {"note": f"{TOKEN} {TOKEN}"})
    run.emit("named", {"password": "hunter2-x", "list": ["plain", {"token": "abc123def456"}]})
    run.emit("none", {"note": "all well"})


def said(home: Path, *words: str) -> str:
    done = CliRunner().invoke(cli, ["--home", str(home), *words])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with one run of Python code and one of commands."""
    folder = tmp_path_factory.mktemp("counts")
    file = folder / "flow.yaml"
    file.write_text(f"flow: f\nsteps:\n  - id: one\n    run: 'echo {SPLIT} {SPLIT}'\n  - id: two\n    run: echo fine\n")
    with Outlast(folder / ".outlast") as outlast:
        outlast.run(talking)
        outlast.run(flow_file(file))
    return folder / ".outlast"


def run_of(home: Path, flow: str) -> str:
    with Outlast(home) as outlast:
        return next(run.id for run in outlast.runs() if flow in run.flow)


def test_an_event_says_how_many_secrets_were_masked_in_it(home: Path) -> None:
    with Outlast(home) as outlast:
        found = {event.name: event.masked for event in outlast.events(run_of(home, "talking"))}
        assert {name: found[name] for name in ("two", "named", "none")} == {"two": 2, "named": 2, "none": 0}
        assert outlast.verify().ok


def test_a_transcript_says_how_many_secrets_were_masked_in_it(home: Path) -> None:
    with Outlast(home) as outlast:
        run_id = run_of(home, "flow.yaml")
        assert [(log.step, log.masked) for log in outlast.logs(run_id)] == [("one", 2), ("two", 0)]
        assert [receipt.facts.get("masked") for receipt in outlast.receipts(run_id)] == [2, None]


def test_the_commands_that_show_them_say_so(home: Path) -> None:
    python, commands = run_of(home, "talking"), run_of(home, "flow.yaml")
    lines = said(home, "events", python).splitlines()
    assert [line.split("(")[1].split(")")[0] for line in lines if " masked)" in line] == ["2 masked", "2 masked"]
    assert "one: 2 secrets masked in its transcript" in said(home, "show", commands)
    assert "2 secrets masked in the transcript of one (attempt 1)" in said(home, "logs", commands)
    assert "2 secrets" in said(home, "receipts", commands, "one")


def test_json_has_the_numbers(home: Path) -> None:
    python, commands = run_of(home, "talking"), run_of(home, "flow.yaml")
    events = json.loads(said(home, "events", python, "--json"))["events"]
    assert [event["masked"] for event in events if event["name"] in ("two", "named", "none")] == [2, 2, 0]
    logs = json.loads(said(home, "logs", commands, "--json"))["logs"]
    assert [log["masked"] for log in logs] == [2, 0]
    steps = json.loads(said(home, "show", commands, "--json"))["steps"]
    assert [step["masked"] for step in steps] == [2, 0]


def test_no_secret_is_in_any_file_of_the_home(home: Path) -> None:
    files = [file for file in home.rglob("*") if file.is_file()]
    assert files
    assert [file.name for file in files if TOKEN.encode() in file.read_bytes()] == []
