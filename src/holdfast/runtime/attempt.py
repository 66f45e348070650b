"""One attempt of one call while it is being made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from holdfast.domain.call import Call, NextCall, Past
from holdfast.runtime.specs import StepSpec


class Asked(Struct, eq=False):
    """A call that the body made: which one it is, and what is to be done about it."""

    spec: StepSpec
    call: Call
    digest: str
    inputs: dict[str, Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    next: NextCall
    elsewhere: Past | None = None  # a new effect: an equal one is recorded in another branch, and not asked for yet
    in_map: bool = False
    held: bool = False  # it is one of a map's: what it writes to the state waits for the others
    wrote: Mapping[str, bytes] | None = None  # what waits so


class Attempt(Struct, eq=False):
    """An attempt under way. Its writes to the state count only if it succeeds."""

    asked: Asked
    number: int
    failures: int
    key: str
    started_at: int
    tick: int  # of the process's heart: how long it has been running, roughly
    recorded: bool = False  # its start is in the journal
    closed: bool = False
    wrote: dict[str, bytes] | None = None
    done: str = ""
    next: str = ""


class Returned(Struct, frozen=True, eq=False):
    """The body returned."""

    value: Any


class Raised(Struct, frozen=True, eq=False):
    """The body failed, ran out of time, was cancelled by the flow, or was told to stop."""

    error: BaseException
    status: str = "failed"  # failed, timed_out, cancelled, interrupted


Ended = Returned | Raised

# What the drivers in calls.py do for the logic in execution.py.
WRITE, BODY, PROBE, SLEEP, PARK, HANG = range(6)
Do = tuple[int, Any]
