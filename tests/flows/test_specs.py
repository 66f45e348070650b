"""Durations and signatures: what the decorators and calls are read into."""

import inspect
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast import inject, step
from outlast.errors import InputsInvalid, StepInvalid
from outlast.flows.spec import KEY, FlowSpec, Inject, Signature, seconds
from outlast.runs.step import StepSpec

# -- durations ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_value", "expected"),
    [
        (0, 0.0), (90, 90.0), (1.5, 1.5), ("90", 90.0), ("90s", 90.0), (" 10 m ", 600.0), ("48h", 172_800.0),
        ("2d", 172_800.0), ("250ms", 0.25), ("1.5h", 5_400.0), ("0s", 0.0),
    ],
)  # fmt: skip
def test_a_duration_is_seconds_or_text_with_a_unit(given_value: float | str, expected: float) -> None:
    found = seconds(given_value, "fetch")
    assert found == pytest.approx(expected)
    assert type(found) is float


@pytest.mark.parametrize(
    "value",
    [-1, -0.5, math.nan, math.inf, 10**400, True, None, [], "", "s", "1x", "1 hour", "-5s", "1e3", "5 s s", "1.h",
     "inf", "nan", "9" * 400 + "d", "1h30m", b"5s"],
    ids=lambda value: repr(value)[:12],
)  # fmt: skip
def test_what_is_no_duration_is_refused_by_name(value: Any) -> None:
    with pytest.raises(StepInvalid, match=r"fetch.*no duration"):
        seconds(value, "fetch")


@given(st.one_of(st.integers(), st.floats(), st.text(max_size=8), st.from_regex(r"\d+(\.\d+)? ?(ms|s|m|h|d)")))
def test_any_duration_is_finite_and_not_negative_or_refused(value: Any) -> None:
    try:
        found = seconds(value, "fetch")
    except StepInvalid:
        return
    assert 0 <= found < math.inf


# -- binding -----------------------------------------------------------------------------------------

NAMES = ("a", "b", "c", "d")
P = inspect.Parameter


@st.composite
def functions(draw: st.DrawFn) -> Callable[..., Any]:
    """Any signature: positional-only, plain, keyword-only and starred parameters, defaults, resources, a key."""
    kinds = sorted(
        draw(st.lists(st.sampled_from([P.POSITIONAL_ONLY, P.POSITIONAL_OR_KEYWORD, P.KEYWORD_ONLY]), max_size=4))
    )
    parameters, defaulted = [], False
    for name, kind in zip(NAMES, kinds, strict=False):
        default: Any = draw(st.sampled_from([P.empty, P.empty, 1, None, Inject("search"), KEY]))
        if kind is not P.KEYWORD_ONLY:
            default = None if defaulted and default is P.empty else default
            defaulted = default is not P.empty
        parameters.append(P(name, kind, default=default))
    if draw(st.integers(0, 4)) == 4:
        place = sum(p.kind is not P.KEYWORD_ONLY for p in parameters)
        parameters.insert(place, P("rest", P.VAR_POSITIONAL))
    if draw(st.integers(0, 4)) == 4:
        parameters.append(P("more", P.VAR_KEYWORD))

    def function(*args: Any, **kwargs: Any) -> None: ...

    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return function


@st.composite
def calls(draw: st.DrawFn, function: Callable[..., Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A call that mostly fits: each argument in its place, by name or left out; now and then something odd."""
    args: list[int] = []
    kwargs: dict[str, int] = {}
    mixed = draw(st.booleans())
    for parameter in inspect.signature(function).parameters.values():
        by_name = parameter.kind is P.KEYWORD_ONLY or bool(kwargs) or (mixed and draw(st.booleans()))
        if parameter.kind is P.VAR_POSITIONAL:
            args += draw(st.lists(st.integers(), max_size=2)) if not kwargs else []
        elif parameter.kind is P.VAR_KEYWORD:
            kwargs |= draw(st.dictionaries(st.sampled_from(["x", "y"]), st.integers(), max_size=2))
        elif parameter.default is not P.empty and mixed and draw(st.booleans()):
            continue
        elif by_name:
            kwargs[parameter.name] = draw(st.integers())
        else:
            args.append(draw(st.integers()))
    odd = st.dictionaries(st.sampled_from([*NAMES, "rest", "more", "x"]), st.integers(), max_size=1)
    return tuple(args), kwargs | draw(st.just({}) | odd)


def by_inspect(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    signature = inspect.signature(function)
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    silent = [p.name for p in signature.parameters.values() if isinstance(p.default, Inject) or p.default is KEY]
    return {name: value for name, value in bound.arguments.items() if name not in silent}


@given(functions(), st.data(), st.just(set()) | st.sets(st.sampled_from(NAMES), max_size=2))
@settings(max_examples=200)
def test_a_call_is_bound_as_python_would_bind_it(
    function: Callable[..., Any], data: st.DataObject, ignore: set[str]
) -> None:
    call = data.draw(calls(function))
    signature = Signature(function, ignore=tuple(ignore))
    try:
        expected = by_inspect(function, *call)
    except TypeError:
        with pytest.raises(TypeError):
            signature.bind(*call)
    else:
        wanted = {name: value for name, value in expected.items() if name not in ignore}
        assert signature.bind(*call) == wanted


def test_every_way_to_spell_a_call_has_the_same_inputs() -> None:
    def fetch(a: int, b: int = 2, *, c: int = 3, client: Any = inject("client"), key: str = KEY) -> None: ...

    bind = Signature(fetch).bind
    assert bind((1,), {}) == bind((1, 2), {}) == bind((), {"c": 3, "a": 1}) == {"a": 1, "b": 2, "c": 3}
    assert bind((1,), {"client": object(), "key": "k"}) == {"a": 1, "b": 2, "c": 3}


def test_a_resource_given_by_position_is_not_taken_for_an_input() -> None:
    def fetch(a: int, client: Any = inject("client"), *, b: int = 2) -> None: ...

    assert Signature(fetch).bind((1, object()), {}) == {"a": 1, "b": 2}


def test_ignored_parameters_are_no_inputs_however_they_are_given() -> None:
    bind = Signature(work, ignore=("now",)).bind
    assert bind((1,), {}) == bind((1, 5), {}) == bind((1,), {"now": 6}) == {"a": 1}


def test_a_flow_s_run_is_not_an_input() -> None:
    def report(run: Any, topic: str, size: int = 1) -> None: ...

    assert Signature(report, skip=1).bind(("ai",), {}) == {"topic": "ai", "size": 1}
    flow = FlowSpec(report, "report", "m:report", False, Signature(report, skip=1))
    with pytest.raises(InputsInvalid, match="topic: str, size: int = 1"):
        flow.bind((), {"size": 2})


# -- options -----------------------------------------------------------------------------------------


def work(a: int, now: int = 0) -> None: ...


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"name": ""}, "no name"), ({"name": "<lambda>"}, "no name"), ({"name": "run.now"}, "begin with"),
        ({"name": "a/b"}, "contain"), ({"name": "a~2"}, "contain"), ({"name": "a\n"}, "unprintable"),
        ({"retries": -1}, "retries"), ({"retries": 1.5}, "retries"), ({"ignore": ("gone",)}, "no parameter"),
        ({"function": 5}, "called"),
    ],
)  # fmt: skip
def test_a_step_that_could_not_be_known_again_is_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(StepInvalid, match=why):
        StepSpec(**{"function": work, "name": "work", **options})


class Client:
    def fetch(self, url: str) -> None: ...

    @staticmethod
    def parse(text: str) -> None: ...


def test_a_method_is_refused_where_it_is_decorated() -> None:
    def local() -> type:
        class Local:
            @classmethod
            def make(cls, url: str) -> None: ...

        return Local

    for method in (Client.fetch, local().__dict__["make"].__func__):
        with pytest.raises(StepInvalid, match="a method cannot be a step: use a function and inject the object"):
            step(method)


def test_what_is_no_method_may_look_like_one() -> None:
    def visit(self: int) -> None: ...

    for function in (visit, Client.parse, Client().fetch):
        assert step(function).spec.name == function.__name__


def test_waits_between_attempts_double_up_to_a_minute_with_jitter() -> None:
    spec = StepSpec(work, "work", backoff=0.5)
    for failures in range(1, 2_000):
        full = min(0.5 * 2.0 ** min(failures - 1, 1_000), 60.0)
        assert [spec.retry.delay(failures, luck) for luck in (0.0, 0.5, 1.0)] == [full, full * 0.75, full / 2]


def test_one_file_that_a_step_writes_is_one_and_not_its_letters() -> None:
    assert step(writes="out.txt")(plain).spec.writes == ("out.txt",)
    assert step(writes=["a", "b"])(plain).spec.writes == ("a", "b")


def plain() -> None:
    """A step that does nothing."""
