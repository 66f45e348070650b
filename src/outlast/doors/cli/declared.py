"""Options that are made from operations: `options.json` says what each field of a request is on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
OFFERS = {"run_id": "runs", "run": "runs", "step": "steps", "from_step": "steps", "task": "tasks"}


@cache
def _table() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("options.json").read_bytes())
    return found


def items_of(operation: str) -> str:
    """What an operation calls the list that it answers."""
    return str(_table()[operation]["items"])


def options_of(operation: str, without: Collection[str] = (), *, as_given: bool = False) -> list[click.Option]:
    """The options of an operation, but for those of its fields that a command takes in another way, or not at all.

    `as_given`: none of them is needed, and what is not given is None.
    """
    found = [each for each in _table()[operation]["options"] if each["name"] not in without]
    return [option_made(_bare(each) if as_given else each) for each in found]


def _bare(said: dict[str, Any]) -> dict[str, Any]:
    """The same, which need not be given and has no default; a flag is one that is there or not."""
    ends = ("required", *(("default",) if said["kind"] != "flag" else ()))
    return {name: value for name, value in said.items() if name not in ends}


def option_of(operation: str, field: str) -> Callable[[F], F]:
    """One option of an operation, for a command that takes some."""
    (made,) = (each for each in options_of(operation) if each.name == field)

    def decorated(function: F) -> F:
        function.__dict__.setdefault("__click_params__", []).append(made)
        return function

    return decorated


def option_made(said: dict[str, Any]) -> click.Option:
    """An option as its field declares it."""
    repeat = " Repeatable." if said["kind"] == "many" else ""
    settings: dict[str, Any] = {"help": f"{said['help']}{repeat}", "required": said.get("required", False)}
    if "default" in said:
        settings["default"] = said["default"]
    return click.Option([*said["flags"], said["name"]], **settings | dict(_settings(said)))


def _settings(said: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    kind, default = said["kind"], said.get("default")
    if kind == "flag":
        yield from (("flag_value", False), ("type", bool)) if default is True else (("is_flag", True),)
        yield "default", default
        return
    yield "metavar", said.get("metavar")
    yield "multiple", kind == "many"
    if said["name"] in OFFERS:
        yield "shell_complete", _offer(OFFERS[said["name"]])
    if "choices" in said:
        yield "type", click.Choice(said["choices"])
    elif kind in ("number", "seconds"):
        yield "show_default", default is not None
        yield "type", click.FloatRange(0) if kind == "seconds" else click.IntRange(0)
    elif kind == "time":
        yield "type", Time()


def _offer(what: str) -> Any:
    """What a shell offers for it: found out when it is asked for."""

    def offered(context: click.Context, parameter: click.Parameter, begun: str) -> Any:
        from outlast.doors.cli import options

        return getattr(options, f"offer_{what}")(context, parameter, begun)

    return offered


class Time(click.ParamType[datetime]):
    """A time with its offset, such as 2026-11-17T09:00+01:00."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """The time; one without an offset is refused: nobody knows whose it is."""
        try:
            found = datetime.fromisoformat(value)
        except ValueError as error:
            self.fail(f"{value!r} is no time: {error}", param, ctx)
        if found.tzinfo is None:
            self.fail(f"{value!r} has no offset; write {value}Z or {value}+01:00", param, ctx)
        return found
