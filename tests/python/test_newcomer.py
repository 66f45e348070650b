"""The errors that a newcomer meets say what is wrong, where, and what to write instead."""

import asyncio
from collections.abc import Callable, Iterator
from inspect import isfunction
from pathlib import Path
from typing import Any

import pytest

import outlast as package
from outlast import AsyncOutlast, Outlast, Settings, effect, step
from outlast.errors import FlowInvalid, InputsInvalid, OutlastError, StepInvalid

from . import newcomer


@pytest.fixture
def outlast(tmp_path: Path) -> Iterator[Outlast]:
    with Outlast(tmp_path / "home", settings=Settings(lease_seconds=5)) as found:
        yield found


def line_of(text: str) -> str:
    lines = Path(newcomer.__file__).read_text("utf-8").splitlines()
    return f"newcomer.py:{lines.index(text) + 1}"


def refused(kind: type[OutlastError], call: Callable[[], Any]) -> str:
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.code == {FlowInvalid: "flow_invalid", StepInvalid: "step_invalid"}.get(kind, caught.value.code)
    return str(caught.value)


def test_a_function_without_flow_is_named_with_its_place(outlast: Outlast) -> None:
    unflowed: Any = newcomer.forgot
    for call in (lambda: outlast.run(unflowed, "kelp"), lambda: outlast.start(unflowed, "kelp")):
        said = refused(FlowInvalid, call)
        assert line_of("def forgot(run: Run, topic: str) -> str:") in said
        assert "write @flow above def forgot(run: Run, …)" in said
    failed = outlast.run(newcomer.spawns)
    assert failed.error is not None
    assert (failed.error.code, "write @flow above" in failed.error.message) == ("flow_invalid", True)


def test_the_same_on_an_event_loop(tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncOutlast(tmp_path / "home") as outlast:
            unflowed: Any = newcomer.forgot
            await outlast.run(unflowed, "kelp")

    assert "write @flow above" in refused(FlowInvalid, lambda: asyncio.run(main()))


def test_a_step_is_no_flow(outlast: Outlast) -> None:
    of_step: Any = newcomer.find
    assert "it is a step" in refused(FlowInvalid, lambda: outlast.run(of_step, "kelp"))
    assert "it is no function" in refused(FlowInvalid, lambda: outlast.run(3))  # type: ignore[call-overload]


@pytest.mark.parametrize("make", [step, effect])
def test_a_misspelt_option_names_the_one_that_was_meant(make: Any) -> None:
    said = refused(StepInvalid, lambda: make(timout=5)(newcomer.find.plain))
    assert "did you mean `timeout`?" in said
    assert "newcomer.py:" in said
    assert "the options are: name, retries" in refused(StepInvalid, lambda: make(xyz=5)(newcomer.find.plain))


def test_a_flow_without_a_run_says_where_the_run_comes(outlast: Outlast) -> None:
    for call in (lambda: outlast.run(newcomer.no_run, "kelp"), lambda: outlast.run(newcomer.no_run)):  # type: ignore[call-overload]
        said = refused(FlowInvalid, call)
        assert "let the run come first: def no_run(run: Run, topic: str, …)" in said
        assert "newcomer.py:" in said
    assert "let the run come first" in refused(FlowInvalid, lambda: outlast.run(newcomer.nothing))  # type: ignore[call-overload]


def test_an_input_of_another_type_is_named_with_the_inputs(outlast: Outlast) -> None:
    said = refused(InputsInvalid, lambda: outlast.run(newcomer.counted, "three"))  # type: ignore[call-overload]
    assert "pages is 'three': Expected `int`, got `str`" in said
    assert "its inputs are pages: int" in said.replace("'", "")
    assert outlast.runs() == []


def test_an_async_step_in_a_plain_flow_says_how_to_call_it(outlast: Outlast) -> None:
    failed = outlast.run(newcomer.unawaited)
    assert failed.error is not None
    assert failed.error.code == "never_awaited"
    assert line_of('    find_soon("kelp")') in failed.error.message
    assert "call run.step(find_soon, …), or make the flow `async def`" in failed.error.message


def test_every_public_name_says_what_it_is() -> None:
    """Each public object has a docstring, and so has each public method and property of every one."""
    said_by_type = {"KEY", "NOT_DONE", "RunStatus", "UNKNOWN"}  # values and a Literal: they can carry no docstring
    found = {name: getattr(package, name) for name in package.__all__ if name not in said_by_type}
    silent = [name for name, value in found.items() if not (value.__doc__ or "").strip()]
    ours = {name: value for name, value in found.items() if isinstance(value, type)}
    for name, kind in ours.items():
        if name in ("Outlast", "AsyncOutlast", "Run", "AsyncRun", "Step", "Flow", "FlowFile"):
            silent += [f"{name}.{each}" for each in dir(kind) if not each.startswith("_") and not _doc(kind, each)]
        silent += [f"{name}.{each}" for each in _members(kind) if not _doc(kind, each)]
    assert silent == []


def _members(kind: type) -> list[str]:
    """The public methods and properties that are ours: those of what a class is made from say so themselves."""
    there = [(name, value) for base in kind.__mro__ for name, value in vars(base).items() if not name.startswith("_")]
    made = [(name, value.fget if isinstance(value, property) else value) for name, value in there]
    return [name for name, value in made if isfunction(value) and value.__module__.startswith("outlast")]


def _doc(kind: type, name: str) -> str:
    return (getattr(kind, name).__doc__ or "").strip()


@pytest.mark.parametrize("name", ["handoffs", "sessions", "workspace", "tasks"])
def test_every_method_of_a_room_says_what_it_gives(name: str) -> None:
    module = __import__(f"outlast.python.{name}", fromlist=["x"])
    kinds = [getattr(module, kind) for kind in (name.capitalize(), f"Async{name.capitalize()}")]
    public = [(kind, each) for kind in kinds for each in dir(kind) if not each.startswith("_")]
    assert [f"{kind.__name__}.{each}" for kind, each in public if not _doc(kind, each)] == []
