"""Resources that a flow's own module provides, and the timeline, through the real command."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.doors.conftest import Cli

CLIENTS = """
from pathlib import Path
from outlast import inject, resource


def diary(line):
    with Path("diary.txt").open("a") as file:
        file.write(line + "\\n")


@resource("http")
def http():
    diary("open http")
    yield "http"
    diary("close http")


@resource("search", close=lambda made: 1 / 0)
def search(http=inject("http")):
    diary("open search")
    return f"search on {http}"
"""
FLOW = """
import os
from clients import diary
from outlast import Run, flow, inject, step


@step
def look(word: str, *, search: str = inject("search")) -> str:
    diary(f"look {word}")
    return f"{word} by {search}"


@step
def stop() -> str:
    diary("stop")
    if os.environ.get("DIE"):
        os.kill(os.getpid(), 9)
    return "went on"


@flow
def looks(run: Run) -> list[str]:
    run.phase = "looking"
    return [look("a"), stop(), look("b")]
"""


@pytest.fixture
def looking(cli: "Cli") -> "Cli":
    (cli.folder / "clients.py").write_text(CLIENTS)
    (cli.folder / "looking.py").write_text(FLOW)
    return cli


def test_run_and_resume_use_what_the_flow_s_module_imports(looking: "Cli") -> None:
    assert looking("run", "looking.py:looks", DIE="1").code == -9
    run = looking.run_id
    assert "resource_missing" not in looking("show", run).out
    plan = looking("resume", run, "--dry-run", "--json").json
    assert (plan["resources"], [r for r in plan["verdict"]["reasons"] if r["code"] == "resource_missing"]) == (
        ["search"],
        [],
    )
    answer = looking("resume", run)
    assert answer.code == 0
    assert looking.diary == [
        *["open http", "open search", "look a", "stop"],
        *["stop", "open http", "open search", "look b", "close http"],
    ]


def test_what_cannot_be_closed_is_told_and_changes_nothing(looking: "Cli") -> None:
    answer = looking("run", "looking.py:looks", "--json")
    assert (answer.code, answer.json["status"]) == (0, "succeeded")
    assert "resource 'search' could not be closed: ZeroDivisionError: division by zero\n" in answer.err
    assert "Traceback" not in answer.err
    assert "Warning" not in answer.err


def test_one_that_was_taken_away_refuses_the_resume_before_any_step(looking: "Cli") -> None:
    looking("run", "looking.py:looks", DIE="1")
    run, before = looking.run_id, looking.diary
    (looking.folder / "clients.py").write_text(CLIENTS.replace('@resource("http")', ""))
    answer = looking("resume", run)
    assert answer.code == 4
    assert "http: nothing (resource 'search' needs it)" in answer.err
    assert looking.diary == before
    (looking.folder / "clients.py").write_text(CLIENTS.replace('@resource("search", close=lambda made: 1 / 0)', ""))
    assert "search: nothing" in looking("resume", run).err  # its function is there still, and is not registered
    (looking.folder / "clients.py").write_text(CLIENTS.partition("@resource")[0])
    assert "resource_missing" in looking("show", run).out
    assert "search: nothing" in looking("resume", run).err


def test_two_functions_for_one_key_are_named_with_their_places(looking: "Cli") -> None:
    with (looking.folder / "looking.py").open("a") as file:
        file.write('\n\nfrom outlast import resource\n@resource("http")\ndef mine(): return 1\n')
    answer = looking("run", "looking.py:looks")
    assert answer.code != 0
    assert "resource 'http' is registered twice: by " in answer.err
    assert "clients.py:" in answer.err
    assert "looking.py:" in answer.err


def test_the_timeline_is_readable_in_80_columns_and_plain_in_a_pipe(looking: "Cli") -> None:
    looking("run", "looking.py:looks", DIE="1")
    run = looking.run_id
    looking("resume", run)
    lines = looking("show", run, "--timeline").out.splitlines()
    words = [line[37:] for line in lines[1:]]
    assert lines[0].startswith(f"run {run} of looking.py:looks succeeded; began ")
    assert [word for word in words if not word.startswith("stop")] == [
        "run started by local",
        "phase looking",
        "look",
        "run crashed: the last sign of life",
        next(word for word in words if word.startswith("run resumed: from crashed, ")),
        "look~2",
        "run succeeded",
    ]
    assert all(len(line) <= 80 for line in lines[1:])
    assert all(line.isprintable() for line in lines)
    assert all(line.lstrip().startswith("+") for line in lines[1:])


def test_the_timeline_as_json_has_the_fields_of_the_value(looking: "Cli") -> None:
    run = looking.here("looking.py:looks")
    found = looking("show", run, "--timeline", "--json").json
    assert (found["run_id"], found["status"]) == (run, "succeeded")
    looked = found["timeline"][2]
    assert (looked["kind"], looked["name"], looked["status"], looked["attempt"]) == ("step", "look", "succeeded", 1)
    assert looked["seconds"] >= 0
    assert looked["started_at"] <= looked["ended_at"]


def test_the_timeline_of_a_waiting_run_names_the_wait(looking: "Cli") -> None:
    run = looking.here("flows.py:report", topic="ai", env={"BREAK": "1", "DIE": "1"})
    looking("resume", run)
    last = looking("show", run, "--timeline").out.splitlines()
    with looking.opened() as outlast:
        (wait,) = outlast.interrupts(run)
    assert any(line.endswith(f"wait publish open: in_doubt [{wait.id}]") for line in last)
