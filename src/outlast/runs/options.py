"""How a call of a flow is asked for, besides its inputs: one frozen value from every door to `begin`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from outlast.errors import OptionInvalid
from outlast.values.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """What a caller says of the run that is to be started, continued or repeated."""

    task: str | None = None  # None: the caller names none, and it is made of the flow and its inputs
    fresh: bool = False  # give an unfinished run up
    session: str = ""
    trace_id: str = ""
    meta: Mapping[str, Any] | None = None
    again: bool = False  # a finished named task is to happen once more
    yes: bool = False  # whatever effects are repeated by that, they may be
    effects: tuple[str, ...] = field(default=())  # or only those, by the names of their steps
    operation_id: str | None = None
    wait: bool | float = False  # while somebody else runs it, wait for its end: for so many seconds, or until it comes
    returns: bool = False  # the caller is given the outcome by this call itself, as by `run`

    @property
    def named(self) -> bool:
        """Whether the caller gave the task its name: then it happens once."""
        return self.task is not None

    def said(self) -> list[Any]:
        """What makes two calls with one operation_id the same one. How they are traced does not."""
        return [self.task, self.fresh, self.session, dict(self.meta or {}), self.again]


AS_EVER = Options()
_KINDS: dict[str, tuple[str, tuple[type, ...]]] = {
    "again": ("bool", (bool,)),
    "effects": ("list of names", (list, tuple)),
    "operation_id": ("text", (str, type(None))),
    "wait": ("bool or number of seconds", (bool, int, float)),
    "yes": ("bool", (bool,)),
}


def checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """What `with_options` was given, as `Options` takes it. Raises OptionInvalid."""
    known = ", ".join(_KINDS)
    for name, value in given.items():
        if name not in _KINDS:
            raise OptionInvalid(name, "there is no such option", known)
        if not _fits(name, value):
            raise OptionInvalid(name, f"it is {value!r:.100}, which is no {_KINDS[name][0]}", known)
    return {name: tuple(value) if name == "effects" else value for name, value in given.items()}


def _fits(name: str, value: Any) -> bool:
    if name == "effects":
        return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)
    if name == "wait":
        return isinstance(value, int | float) and value >= 0
    return isinstance(value, _KINDS[name][1])
