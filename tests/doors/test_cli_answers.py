"""What a person is told about a wait that is answered, overdue, a child's, or takes its answer otherwise."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from outlast import Interrupt
from outlast.doors.cli.waits import example_of, fields_line, has_placeholder
from outlast.values.schema import wrong_with

from ..crash.command_folder import Folder
from .terminal import Terminal

if TYPE_CHECKING:
    from tests.doors.conftest import Cli

FLOWS = """
import asyncio, os
from outlast import AsyncRun, Run, flow

def how():
    late = {"deadline": os.environ["DEADLINE"]} if "DEADLINE" in os.environ else {}
    return late | ({"default": 7} if "DEFAULT" in os.environ else {})

@flow
def decide(run: Run):
    return run.pause_for("decision", **how())

@flow
def approve(run: Run):
    return run.pause_for("approval", {"size": 3})

@flow
def parent(run: Run):
    return ["parent", run.spawn(decide).result()]

@flow
def family(run: Run):
    return run.spawn(approve).result()

@flow
def listen(run: Run):
    return run.wait_for("go")

@flow
async def both(run: AsyncRun):
    return await asyncio.gather(run.pause_for("decision", {"question": "Left?"}), run.pause_for("decision"))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    found = Folder(tmp_path / "work")
    found.write("flows.py", FLOWS)
    yield found
    found.end()


def waiting(folder: Folder, name: str, **env: str) -> Interrupt:
    """Run a flow until it waits; its newest wait that is no child's end."""
    said = folder.cli("run", f"flows.py:{name}", **env)
    assert said.code == 3, said
    return [wait for wait in folder.outlast.interrupts() if wait.type != "child"][-1]


# -- approvals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [("approve",), ("decline", "-m", "no")])
def test_what_is_no_approval_is_neither_approved_nor_declined(folder: Folder, words: tuple[str, ...]) -> None:
    wait = waiting(folder, "decide")
    said = folder.cli(words[0], wait.id, *words[1:])
    assert (said.code, "[answer_invalid]" in said.err) == (2, True)
    assert f"is for decision, which is no approval; use `outlast answer {wait.id} JSON`" in said.err
    assert [each.id for each in folder.outlast.interrupts()] == [wait.id]


def test_a_signal_is_sent_and_not_answered(folder: Folder) -> None:
    wait = waiting(folder, "listen")
    for words in (("approve", wait.id), ("answer", wait.id, "1")):
        said = folder.cli(*words)
        assert (said.code, "one of" in said.err) == (2, False)
        assert f"send it: `outlast signal go JSON --run {wait.run_id}`" in said.err


def test_an_answered_run_is_in_the_inbox_until_it_goes_on(folder: Folder) -> None:
    wait = waiting(folder, "approve")
    folder.cli("approve", wait.id)
    line = f"1 run was answered and can go on: outlast resume {wait.run_id}\n"
    assert folder.cli("inbox").out == line
    assert folder.cli("inbox", "--json").json == {"waits": [], "answered": [wait.run_id], "contested": []}
    other = waiting(folder, "decide")
    folder.cli("answer", other.id, "1")
    assert folder.cli("inbox").out == "2 runs were answered and can go on: outlast tick\n"
    folder.cli("tick")
    assert folder.cli("inbox", "--json").json == {"waits": [], "answered": [], "contested": []}


def test_an_answered_child_lets_its_parent_go_on(folder: Folder) -> None:
    wait = waiting(folder, "parent")
    folder.cli("answer", wait.id, "1")
    top = folder.outlast.get(wait.run_id).parent
    assert folder.cli("inbox", "--json").json["answered"] == [top]


def test_the_same_answer_again_goes_on_with_a_run_that_has_not(folder: Folder) -> None:
    wait = waiting(folder, "approve")
    folder.cli("approve", wait.id)
    other = folder.cli("approve", wait.id, "-m", "another", "--resume")
    assert (other.code, f"`outlast resume {wait.run_id}`" in other.err) == (4, True)
    assert folder.cli("approve", wait.id, "--resume").code == 0
    assert folder.cli("approve", wait.id, "--resume").code == 4


def test_a_conflict_about_a_childs_question_names_the_run_that_goes_on(folder: Folder) -> None:
    wait = waiting(folder, "parent")
    folder.cli("answer", wait.id, "1")
    said = folder.cli("answer", wait.id, "2")
    assert (said.code, f"`outlast resume {folder.outlast.get(wait.run_id).parent}`" in said.err) == (4, True)


# -- deadlines ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env", "counts"), [({"DEFAULT": "1"}, "7 counts"), ({}, "it has no answer")], ids=["default", "none"]
)
def test_an_overdue_question_is_not_offered(folder: Folder, env: dict[str, str], counts: str) -> None:
    wait = waiting(folder, "decide", DEADLINE="1ms", **env)
    lines = folder.cli("inbox").out.splitlines()
    assert lines[0] == "no question for you; 1 wait past the deadline"
    assert f"  decision; its deadline has passed; {counts}" in lines
    assert lines[-1] == f"  go on:  outlast resume {wait.run_id}"
    shown = folder.cli("show", wait.run_id).out
    assert f"outlast resume {wait.run_id}" in shown
    assert "outlast answer" not in shown + "".join(lines)


def test_an_overdue_question_of_a_child_goes_on_with_the_top_run(folder: Folder) -> None:
    wait = waiting(folder, "parent", DEADLINE="1ms")
    (found,) = [each for each in folder.cli("inbox", "--json").json["waits"] if each["type"] == "decision"]
    assert found["commands"] == {"go on": f"outlast resume {folder.outlast.get(wait.run_id).parent}"}


def test_a_tick_says_that_the_deadline_was_the_reason(folder: Folder) -> None:
    wait = waiting(folder, "decide", DEADLINE="1ms")
    assert folder.cli("answer", wait.id, "1").code == 4  # this records it
    out = folder.cli("tick").out
    assert out.startswith(f"run {wait.run_id} was not answered before its deadline; now it is failed\n")


def test_a_tick_says_what_became_of_a_child(folder: Folder) -> None:
    wait = waiting(folder, "parent")
    top = folder.outlast.get(wait.run_id).parent
    folder.cli("abort", wait.run_id, "--why", "not needed")
    out = folder.cli("tick", "--dry-run").out
    assert out == f"run {top} has a child run {wait.run_id} that was given up\n"
    other = waiting(folder, "family")
    folder.cli("approve", other.id)
    assert f"has a child run {other.run_id} that was answered\n" in folder.cli("tick", "--dry-run").out


# -- examples ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "minimum": 1},
        {"type": "integer", "minimum": 1.5},
        {"type": "integer", "maximum": -2.5},
        {"type": "number", "minimum": 0.5, "maximum": 0.75},
        {"type": "integer", "minimum": -5, "maximum": 5},
        {"type": "string", "minLength": 9},
        {"type": "string", "maxLength": 2},
        {"type": "array", "minItems": 2, "items": {"type": "integer", "minimum": 3}},
        {"anyOf": [{"type": "integer", "minimum": 4}, {"type": "null"}]},
        {"enum": ["a", "b"]},
        {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]},
    ],
    ids=json.dumps,
)
def test_the_example_fits_the_schema(schema: dict[str, Any]) -> None:
    assert wrong_with(schema, example_of(schema)) == ""
    assert not has_placeholder(example_of(schema))


def test_what_nobody_can_guess_is_a_placeholder() -> None:
    fields = {"id": {"type": "string", "pattern": "^T-[0-9]+$"}}
    schema = {"type": "object", "properties": fields, "required": ["id"]}
    assert example_of(schema) == {"id": "<matches ^T-[0-9]+$>"}
    assert has_placeholder(example_of(schema))
    assert has_placeholder(example_of({"type": "string", "minLength": 5000}))


def test_a_schema_without_an_end_has_an_example() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}, "required": ["next"]}
    assert "next" in example_of({"$ref": "#/$defs/Node", "$defs": {"Node": node}})


def test_limits_are_told() -> None:
    fields = {
        "n": {"type": "integer", "minimum": 1},
        "m": {"type": "number", "minimum": 0, "maximum": 9},
        "s": {"type": "string", "pattern": "^a", "maxLength": 5},
        "o": {"anyOf": [{"type": "integer", "maximum": 3}, {"type": "null"}]},
    }
    assert fields_line({"type": "object", "properties": fields, "required": list(fields)}) == (
        "n (whole number, at least 1); m (number, 0 to 9); s (text, at most 5 characters, matches ^a); "
        "o (whole number or null, at most 3)"
    )


# -- children, and words -----------------------------------------------------------------------------


def test_a_parent_names_the_questions_of_its_children(folder: Folder) -> None:
    said = folder.cli("run", "flows.py:family")
    (wait,) = [each for each in folder.outlast.interrupts() if each.type == "approval"]
    lines = said.out.splitlines()
    assert f"child run {wait.run_id} waits for your approval" in lines
    assert f"  approve:  outlast approve {wait.id}" in lines
    top = folder.outlast.get(wait.run_id).parent
    assert lines[-1] == f"then continue: outlast resume {top}"
    assert folder.cli("show", wait.run_id).out.splitlines()[-1] == lines[-1]


def test_at_a_terminal_a_childs_question_is_asked(cli: "Cli") -> None:
    (cli.folder / "flows.py").write_text(FLOWS)
    screen = Terminal(cli, "run", "flows.py:family")
    try:
        screen.type("y\n", after="[y]es, approve, [n]o, decline, [l]eave it: ")
        screen.type("\n", after="a comment, or Enter: ")
        assert screen.end() == 0
    finally:
        screen.close()
    assert "succeeded" in screen.seen


def test_a_wait_does_not_say_its_name_twice(folder: Folder) -> None:
    assert "waits for your approval" in folder.cli("run", "flows.py:approve").out.splitlines()
    assert "waits for the signal go" in folder.cli("run", "flows.py:listen").out.splitlines()


def test_a_branch_shows_its_question_without_where_it_is_kept(folder: Folder) -> None:
    out = folder.cli("run", "flows.py:both").out
    assert ("~" in out, "waits: decision: Left?" in out, "waits for your decision" in out) == (False, True, True)


# -- streams, and options ----------------------------------------------------------------------------


def closed(folder: Folder, command: str) -> subprocess.CompletedProcess[str]:
    whole = f'"{sys.executable}" -m outlast {command}'
    return subprocess.run(["sh", "-c", whole], cwd=folder.path, capture_output=True, text=True, timeout=60)


def test_closed_standard_input_is_no_empty_content(folder: Folder) -> None:
    for command in ("workspace save x - <&-", "session append s - <&-"):
        said = closed(folder, command)
        assert (said.returncode, "standard input is closed" in said.stderr) == (2, True)
    assert not (folder.path / ".outlast").exists()


def test_content_for_a_closed_standard_output_is_an_error(folder: Folder) -> None:
    folder.write("a.txt", "content")
    assert folder.cli("workspace", "save", "a", "a.txt").code == 0
    said = closed(folder, "workspace get a >&-")
    assert (said.returncode, "standard output is closed" in said.stderr) == (1, True)


def test_json_may_stand_before_the_command(folder: Folder) -> None:
    wait = waiting(folder, "decide")
    assert folder.cli("--json", "runs").json["runs"][0]["id"] == wait.run_id
    assert folder.cli("--json", "workspace", "list").json == {"artifacts": []}


def test_a_message_names_a_run_that_is_there(folder: Folder) -> None:
    wait = waiting(folder, "decide")
    assert folder.cli("session", "append", "s", "hello", "--run", "nosuch").code == 5
    said = folder.cli("session", "append", "s", "hello", "--run", wait.run_id[:10], "--json")
    assert (said.code, said.json["run_id"]) == (0, wait.run_id)
