"""What words on the command line mean: inputs by annotation, exit codes by error, text that only prints."""

import dataclasses
import enum
import io
import sys
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from outlast import Outcome, Run, errors, flow
from outlast.doors.cli.entry import ADVICE, OF_ERRORS, exit_code, exit_code_of, told
from outlast.doors.cli.render import clean
from outlast.python.named_flows import find_flow, inputs_of

if TYPE_CHECKING:
    from .conftest import Cli


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


@flow
def everything(
    run: Run,
    text: str = "",
    number: int = 0,
    yes: bool = False,
    maybe: str | None = None,
    day: date | None = None,
    file: Path = Path(),
    colour: Colour = Colour.RED,
    point: Point | None = None,
    words: list[str] | None = None,
    bare=None,  # type: ignore[no-untyped-def]
) -> None: ...


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("text=12", "12"),
        ("text=a=b", "a=b"),
        ("text=", ""),
        ("number=-3", -3),
        ("yes=true", True),
        ("maybe=null", None),
        ("maybe=12", "12"),
        ("day=2031-02-03", date(2031, 2, 3)),
        ("file=a/b.txt", Path("a/b.txt")),
        ("colour=red", Colour.RED),
        ('point={"x": 1}', Point(1)),
        ('words=["a", "b"]', ["a", "b"]),
        ("bare=3", 3),
        ("bare=three", "three"),
    ],
)
def test_a_word_is_read_as_the_annotation_says(word: str, value: object) -> None:
    assert inputs_of(everything, [word]) == {word.partition("=")[0]: value}


def test_inputs_come_as_one_object_from_an_argument_a_file_or_stdin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = '{"point": {"x": 1}, "day": "2031-02-03"}'
    (tmp_path / "inputs.json").write_text(text)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    for word in (text, f"@{tmp_path / 'inputs.json'}", "-"):
        assert inputs_of(everything, [word]) == {"point": Point(1), "day": date(2031, 2, 3)}


@pytest.mark.parametrize(
    "words",
    [
        ["nope=1"],
        ["task=x"],
        ["number=x"],
        ["text"],
        ["text=a", "text=b"],
        ["{"],
        ["[1]"],
        ['{"number": "x"}'],
        ["@missing"],
        ["=1"],
    ],
    ids=" ".join,
)
def test_inputs_that_do_not_fit_are_refused_with_the_signature(words: list[str]) -> None:
    with pytest.raises(errors.InputsInvalid, match="text: str = ''"):
        inputs_of(everything, words)


@flow
def needy(run: Run, topic: str) -> None: ...


def test_a_missing_input_is_named() -> None:
    with pytest.raises(errors.InputsInvalid, match="topic"):
        inputs_of(needy, [])


@pytest.mark.parametrize("name", ["flow.yaml", "nowhere.py:x", "json:loads", "json", "no_such_module:x"])
def test_what_is_no_flow_is_not_found(name: str) -> None:
    with pytest.raises(errors.FlowNotFound):
        find_flow(name)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.RunNotFound("x"), 5),
        (errors.RunHeld("x", "someone", 1), 4),
        (errors.AmbiguousPrefix("x", "x1, x2"), 2),
        (errors.Contested("x", "because"), 4),
        (errors.IntegrityBroken("x", "why"), 4),
        (errors.NameInvalid("task", "", "why"), 2),
        (errors.DiskFull("x"), 1),
        (errors.StepFailed("x", "ValueError", "no"), 1),
        (errors.RunWaiting("x", "y"), 3),
        (errors.RunAborted("x", "y"), 6),
        (errors.RunInterrupted("x"), 130),
    ],
    ids=lambda value: getattr(value, "code", ""),
)
def test_each_family_of_errors_has_its_exit_code(error: errors.OutlastError, code: int) -> None:
    assert exit_code(error) == code


@pytest.mark.parametrize(
    ("status", "code"),
    [("succeeded", 0), ("failed", 1), ("waiting", 3), ("aborted", 6), ("interrupted", 130), ("crashed", 1)],
)
def test_each_status_has_its_exit_code(status: str, code: int) -> None:
    assert exit_code_of(Outcome("x", status)) == code


def test_what_has_an_exit_code_or_advice_of_its_own_is_an_error() -> None:
    for name in (*OF_ERRORS, *ADVICE):
        assert issubclass(getattr(errors, name), errors.OutlastError)


def test_advice_on_the_command_line_speaks_of_commands() -> None:
    assert "outlast resume x --accept" in told(errors.Contested("x", "because"))
    assert "--task" in told(errors.InputsConflict("daily", "x"))


@pytest.mark.parametrize("text", ["\x1b[2J", "\x9b2J", "a\rb", "\u202egnp.exe", "a\nb", "\udc80"])
def test_nothing_shown_can_steer_a_terminal(text: str) -> None:
    assert clean(text).isprintable()
    assert clean(f"é {text} 漢").startswith("é ")


def test_the_choices_of_an_argument_that_is_missing_stand_in_one_line(cli: "Cli") -> None:
    said = cli("notify", "add", "ops").err.splitlines()[0]
    assert said == "error: Missing argument 'KIND'. Choose from: webhook, slack, email, command"
