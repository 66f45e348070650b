"""Failures as records, and the same failure again on replay."""

import builtins
import json
import traceback
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast import errors
from outlast.errors import OutlastError, StepFailed, StepTimedOut
from outlast.runs.failure import TRACE_CHARACTERS, deliverable, rebuild, record
from outlast.values.codec import encode


class Plain(Exception):
    pass


class Coded(Exception):
    def __init__(self, code: int, text: str = "") -> None:
        super().__init__(code, text)
        self.text = text or None

    def __reduce__(self) -> Any:
        return type(self), self.args


class Formatted(Exception):
    """Its arguments are lost in its text, so it cannot be made again."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


class Annotated(Exception):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.extra = object()


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Silent(Exception):
    """Its text does not show its arguments."""

    def __str__(self) -> str:
        return "silent"


class Textless(Exception):
    def __str__(self) -> str:
        return 5  # type: ignore[return-value]


class Unreducible(Exception):
    def __reduce__(self) -> Any:
        raise TypeError("no")


class Outer:
    class Inner(Exception):
        pass


BUILTIN = sorted(
    {
        kind
        for kind in vars(builtins).values()
        if isinstance(kind, type)
        and issubclass(kind, Exception)
        and not issubclass(kind, UnicodeError | BaseExceptionGroup | StopIteration | StopAsyncIteration)
    },
    key=lambda kind: kind.__name__,
)
arguments = st.lists(st.none() | st.booleans() | st.integers() | st.text(max_size=5), max_size=2)


def raised(error: BaseException) -> BaseException:
    """The same error with a trace."""
    try:
        raise error
    except BaseException as caught:
        return caught


def same(one: BaseException, other: BaseException) -> bool:
    return type(one) is type(other) and str(one) == str(other) and one.args == other.args


@pytest.mark.parametrize("kind", BUILTIN, ids=lambda kind: kind.__name__)
def test_builtin_exceptions_come_back_as_themselves(kind: type[Exception]) -> None:
    for args in ([], ["why"], *([] if issubclass(kind, SyntaxError) else [[1, "why"]])):
        error = raised(kind(*args))
        assert same(rebuild(record(error), "s"), error)
        assert deliverable(error, "s") is error


@given(st.sampled_from([Plain, ValueError, KeyError, OSError, Outer.Inner, LookupError]), arguments)
def test_json_arguments_come_back_equal(kind: type[Exception], args: list[Any]) -> None:
    error = kind(*args)
    assert same(rebuild(record(error), "s"), error)


@given(
    st.sampled_from(
        [Plain, Formatted, Annotated, Mute, Textless, Unreducible, ValueError, Outer.Inner, Coded, OSError]
    ),
    st.lists(st.text(max_size=3) | st.floats() | st.binary(max_size=2) | st.builds(object) | st.tuples(), max_size=3),
)
def test_whatever_is_raised_is_the_same_live_and_on_replay(kind: type[Exception], args: list[Any]) -> None:
    """The type a flow's `except` sees, and the text, are one and the same both times; the record is JSON."""
    try:
        error = kind(*args)
    except TypeError:
        return
    kept = record(raised(error))
    live, again = deliverable(error, "s"), rebuild(json.loads(encode(kept)), "s")
    assert type(live) is type(again)
    if isinstance(live, StepFailed):
        assert live.facts == again.facts  # type: ignore[attr-defined]
        assert live.__cause__ is error
    else:
        assert live is error


@pytest.mark.parametrize(
    "error",
    [
        Formatted("a", "b"),
        Annotated("a"),
        Unreducible("a"),
        ValueError(object()),
        ValueError((1, 2)),
        Silent((1, 2)),
        Silent(float("nan")),
        ValueError(float("nan")),
        ValueError(b"raw"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "why"),
        ExceptionGroup("many", [ValueError("a"), TypeError("b")]),
        BaseExceptionGroup("many", [KeyboardInterrupt()]),
        StopIteration(1),
        StopAsyncIteration(),
        SystemExit(3),
        KeyboardInterrupt(),
        GeneratorExit(),
        type("Local", (Exception,), {})("gone with its function"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_cannot_be_made_again_is_step_failed_both_times(error: BaseException) -> None:
    live, again = deliverable(raised(error), "fetch"), rebuild(record(error), "fetch")
    assert isinstance(live, StepFailed)
    assert isinstance(again, StepFailed)
    assert live.facts == again.facts
    assert (live.step, live.type) == ("fetch", type(error).__qualname__)
    assert live.__cause__ is error


@pytest.mark.parametrize("kind", [Mute, Textless])
def test_an_exception_whose_text_cannot_be_had_is_still_recorded(kind: type[Exception]) -> None:
    kept = record(raised(kind("a")))
    assert kind.__qualname__ in kept["message"]
    assert kind.__qualname__ in kept["trace"]


def test_text_that_is_no_unicode_is_recorded_escaped() -> None:
    kept = record(raised(ValueError("bad \ud800")))
    assert "\\ud800" in kept["message"]
    encode(kept)


def test_notes_and_causes_stay_in_the_trace() -> None:
    error = ValueError("why")
    error.add_note("a note for the reader")
    error.__cause__ = KeyError("the cause")
    kept = record(raised(error))
    assert "a note for the reader" in kept["trace"]
    assert "the cause" in kept["trace"]


def test_a_long_trace_says_how_much_was_left_out() -> None:
    kept = record(raised(ValueError("x" * 50_000)))
    assert len(kept["trace"]) < TRACE_CHARACTERS + 100
    whole = "".join(traceback.format_exception(raised(ValueError("x" * 50_000))))
    assert f"{len(whole) - TRACE_CHARACTERS} characters left out" in kept["trace"]
    assert len(kept["message"]) == 50_000


def test_a_type_that_was_moved_or_changed_meanwhile_is_step_failed() -> None:
    kept = record(ValueError("why"))
    for name in (
        "no.such.module:Gone",
        "builtins:Gone",
        "builtins:len",
        "builtins:int",
        "builtins:SystemExit",
        "nothing",
    ):
        again = rebuild(kept | {"type": name}, "fetch")
        assert isinstance(again, StepFailed)
        assert again.message == "why"


def test_an_exception_that_would_say_something_else_is_step_failed() -> None:
    kept = record(ValueError("why")) | {"message": "another text"}
    assert isinstance(rebuild(kept, "fetch"), StepFailed)


@pytest.mark.parametrize(
    "error",
    [
        errors.ResourceMissing("search"),
        errors.ValueRefused("result[1]", "nan", "use None"),
        errors.StateTooLarge("state['a']", 70_000, 65_536),
        errors.NameInvalid("task", "x" * 200, "long"),
        errors.Refused(detail="as it is"),
        errors.RunAborted("run", "why"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_our_own_errors_come_back_with_their_facts(error: OutlastError) -> None:
    again = rebuild(record(raised(error)), "fetch")
    assert type(again) is type(error)
    assert again.facts == error.facts  # type: ignore[attr-defined]
    assert str(again) == str(error)


@pytest.mark.parametrize("error", [StepFailed("fetch", "ValueError", "why"), StepTimedOut("fetch", 1.5)])
def test_a_step_that_failed_is_not_wrapped_again(error: OutlastError) -> None:
    assert deliverable(error, "outer") is error
    assert str(rebuild(record(error), "outer")) == str(error)
