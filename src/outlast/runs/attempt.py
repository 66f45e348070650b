"""One attempt of one call while it is being made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from outlast.flows.spec import StepSpec
from outlast.runs.call import Call, NextCall, Past

if TYPE_CHECKING:
    from outlast.files.changes import Left, Seen
    from outlast.store.contract.records import Kept


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
    item: int = 0  # of a map: which item it is the call of, counted from 1
    held: bool = False  # it is one of a map's: what it writes to the state waits for the others
    wrote: Mapping[str, bytes] | None = None  # what waits so
    lane: Any = None  # of a flow file: where it stands there
    envelope: dict[str, Any] | None = None  # of a flow file: what it hands to the next step
    left: Left | None = None  # what its last attempt in this process left unfinished
    left_before: dict[str, Any] | None = None  # how the declared files were before that


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
    artifacts: tuple[str, ...] = ()
    kept: Kept | None = None  # what it put into the workspace: seen by all when it succeeds
    saved: tuple[dict[str, Any], ...] = ()  # what the journal says of artifacts that it saved, when it succeeds
    handoffs: int = 0  # that it stored
    facts: dict[str, Any] | None = None  # for its next entry: how files were, the process group; then what became of it
    blobs: tuple[str, ...] = ()  # that these facts name
    before: dict[str, Seen] | None = None  # the declared files as they were
    previous: Left | None = None  # what the attempt before left
    work: Any = None  # what runs it, if that is no Python function
    awaited: Any = None  # the task that is in its body, if it is awaited

    def drop(self) -> None:
        """It is over, or will not begin: let go of what was made ready for it."""
        if self.work is not None:
            self.work.drop()
            self.work = None


class Returned(Struct, frozen=True, eq=False):
    """The body returned."""

    value: Any


class Raised(Struct, frozen=True, eq=False):
    """The body failed, ran out of time, was cancelled by the flow, or was told to stop."""

    error: BaseException
    status: str = "failed"  # failed, timed_out, cancelled, interrupted


Ended = Returned | Raised


class Ask(Struct, frozen=True, eq=False):
    """A person has to say how it goes on before the attempt begins."""

    kind: str
    payload: dict[str, Any]


# What the drivers in call_plain.py do for the logic in execution.py.
WRITE, PREPARE, BODY, PROBE, SLEEP, PARK, HANG, LISTEN = range(8)
Do = tuple[int, Any]
