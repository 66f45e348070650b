"""What a person is asked to look at is shown as it is, and the answer itself is taken at the prompt."""

from typing import TYPE_CHECKING, Any

import pytest

from .terminal import Open

if TYPE_CHECKING:
    from tests.doors.conftest import Cli

FLOW = """
from outlast import Run, flow

TEXT = "# Report\\n\\n\\tFirst line.\\n- one\\n"

@flow
def reviewing(run: Run) -> object:
    shown = {"question": "May it go out?", "document": TEXT, "parts": {"title": "kelp", "body": [TEXT, "end"]}}
    return run.pause_for("approval", shown)

@flow
def long(run: Run) -> object:
    return run.pause_for("approval", {"document": "\\n".join(f"line {n}" for n in range(300))})

@flow
def colour(run: Run) -> object:
    return run.pause_for("decision", {"message": "Which one?"}, schema={"enum": ["c", "red", "l"]})

@flow
def number(run: Run) -> object:
    return run.pause_for("input", {"message": "How many?"}, schema={"type": "integer", "minimum": 3})

@flow
def text(run: Run) -> object:
    return run.pause_for("input", {"message": "Its name?"}, schema={"type": "string"})

@flow
def anything(run: Run) -> object:
    return run.pause_for("input", {"message": "Well?"})

@flow
def field(run: Run) -> object:
    schema = {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}
    return run.pause_for("input", {"message": "Its size?"}, schema=schema)

@flow
def result(run: Run) -> object:
    return {"title": "kelp", "body": TEXT}
"""
PROMPT, APPROVAL = "[c]ancel the question, [l]eave it: ", "[y]es, approve, [n]o, decline, [l]eave it: "


@pytest.fixture
def asked(cli: "Cli") -> "Cli":
    (cli.folder / "asked.py").write_text(FLOW)
    return cli


SHOWN = """  document:
    | # Report
    |
    |     First line.
    | - one
  parts:
    title: kelp
    body:
      -
        | # Report
        |
        |     First line.
        | - one
      - end
"""


def test_a_document_to_approve_is_shown_as_one(asked: "Cli", at_terminal: Open) -> None:
    run = asked("run", "asked.py:reviewing")
    assert run.code == 3
    for said in (run.out, asked("inbox").out, asked("show", asked.run_id).out):
        assert SHOWN in said
        assert "\\n" not in said
    screen = at_terminal("resume", asked.run_id)
    screen.type("l\n", after=APPROVAL)
    assert screen.end() == 3
    assert SHOWN.replace("\n", "\r\n") in screen.seen


def test_a_long_one_is_counted_in_a_list_and_whole_for_whoever_decides(asked: "Cli", at_terminal: Open) -> None:
    listed = asked("run", "asked.py:long").out
    assert "| line 19\n" in listed
    assert "| line 20\n" not in listed
    assert "[… 280 more lines; all of it: outlast answer " in listed
    screen = at_terminal("resume", asked.run_id)
    screen.type("l\n", after=APPROVAL)
    assert screen.end() == 3
    assert "| line 299\r\n" in screen.seen.partition(APPROVAL)[0]


def test_a_result_with_a_text_in_it_is_shown_as_one_and_json_is_as_it_was(asked: "Cli") -> None:
    assert "result:\n  title: kelp\n  body:\n    | # Report\n" in asked("run", "asked.py:result").out
    assert asked("run", "asked.py:result", "--json").json["result"]["title"] == "kelp"


@pytest.mark.parametrize(
    ("flow", "typed", "answer"),
    [
        ("colour", "red", "red"),
        ("colour", "c", "c"),
        ("colour", "l", "l"),
        ("number", "12", 12),
        ("text", "kelp forest", "kelp forest"),
        ("text", "12", "12"),
        ("anything", "12", 12),
        ("anything", "yes, please", "yes, please"),
        ("anything", '{"a": [1]}', {"a": [1]}),
        ("field", "7", {"size": 7}),
        ("field", '{"size": 8}', {"size": 8}),
    ],
)
def test_at_the_prompt_the_answer_itself_is_taken(
    asked: "Cli", at_terminal: Open, flow: str, typed: str, answer: Any
) -> None:
    screen = at_terminal("run", f"asked.py:{flow}")
    screen.type(f"{typed}\n", after=PROMPT)
    assert screen.end() == 0
    with asked.opened() as outlast:
        assert outlast.runs()[0].result == answer


def test_an_answer_that_does_not_fit_is_refused_and_asked_for_again(asked: "Cli", at_terminal: Open) -> None:
    screen = at_terminal("run", "asked.py:number")
    screen.type("many\n", after=PROMPT)
    screen.type("2\n", after=PROMPT)
    screen.type("3\n", after=PROMPT)
    assert screen.end() == 0
    assert screen.seen.count(PROMPT) == 3


@pytest.mark.parametrize("typed", ["", "l", "leave"])
def test_it_can_still_be_left(asked: "Cli", at_terminal: Open, typed: str) -> None:
    screen = at_terminal("run", "asked.py:text")
    screen.type(f"{typed}\n", after=PROMPT)
    assert screen.end() == 3


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("yes, well done", {"approved": True, "comment": "well done"}),
        ("YES fine", {"approved": True, "comment": "fine"}),
        ("no: too long", {"approved": False, "comment": "too long"}),
        ('{"approved": true}', {"approved": True}),
    ],
)
def test_yes_and_no_are_taken_with_what_is_added_to_them(
    asked: "Cli", at_terminal: Open, typed: str, answer: Any
) -> None:
    screen = at_terminal("run", "asked.py:reviewing")
    screen.type(f"{typed}\n", after=APPROVAL)
    assert screen.end() == 0
    with asked.opened() as outlast:
        assert outlast.runs()[0].result == answer
