"""One attempt of one call while it is being made.

Where in a run the current code is: a context variable that tasks inherit and threads do not.

Which calls a body's end undoes: the failures that it is made of, and what was cancelled with them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from outlast.runs.call import Call, NextCall, Past
from outlast.runs.step import ReadyWork, StepSpec, Work
from outlast.values import ambient
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.files.changes import LeftFiles, SeenFile
    from outlast.runs.call_flat import StepForm
    from outlast.runs.execution import Execution
    from outlast.runs.journal_writer import Entries
    from outlast.store.contract.workspace import WorkspaceKeys


class Frame(Struct, eq=False):
    """A place in a run: its scope, and the attempt whose body is running, if one is.

    The scope of a task is not known before its first call (`scope` is None until then): a task is told from its
    siblings by the call it begins with, since the order in which tasks start or finish is never identity.
    """

    execution: Execution
    scope: str | None = ""
    attempt: Attempt | None = None
    base: str = ""
    lanes: int = 0

    def outer(self) -> str:
        """The scope that anything started here begins in."""
        return self.base if self.scope is None else self.scope

    def task(self) -> Frame:
        """The place of a task started here."""
        return Frame(self.execution, None, base=self.outer())

    def lane(self) -> Frame:
        """The place of a function bound here for another thread, numbered in program order."""
        self.lanes += 1
        return Frame(self.execution, f"{self.outer()}~{self.lanes}/")

    def within(self, name: str) -> Frame:
        """A named scope inside this one. In a task that has made no call yet, two such scopes may have one name."""
        if self.scope is None:
            return Frame(self.execution, None, base=f"{self.base}{name}/")
        return Frame(self.execution, f"{self.outer()}{name}/")


CURRENT: ContextVar[Frame | None] = ambient.CURRENT


class StepCall(Struct, eq=False):
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
    kept: dict[str, Any] | None = None  # what its receipts keep of its inputs, once an attempt begins
    shared: str = ""  # the map, `foreach` or `parallel` of which another, done at once, declares the same files
    lane: Any = None  # of a flow file: where it stands there
    envelope: dict[str, Any] | None = None  # of a flow file: what it hands to the next step
    left: LeftFiles | None = None  # what its last attempt in this process left unfinished
    left_before: dict[str, Any] | None = None  # how the declared files were before that


class Answered(NamedTuple):
    """A write that was done once, by its operation id, and what it is answered with from then on."""

    id: str
    kind: str
    print: str  # of what was asked for
    answer: str
    at: int


class Attempt(Struct, eq=False):
    """An attempt under way. Its writes to the state count only if it succeeds."""

    asked: StepCall
    number: int
    failures: int
    key: str
    started_at: int
    tick: int  # of the process's heartbeat: how long it has been running, roughly
    recorded: bool = False  # its start is in the journal
    noted: int = -1  # where this process has a note of it (`under_way.py`)
    form: StepForm | None = None  # what is known of its receipt before it begins (`call_flat.py`)
    place: bytes = b""  # its inputs and occurrence, as its receipt says them
    closed: bool = False
    wrote: dict[str, bytes] | None = None
    done: str = ""
    next: str = ""
    artifacts: tuple[str, ...] = ()
    kept: WorkspaceKeys | None = None  # what it put into the workspace: seen by all when it succeeds
    saved: tuple[dict[str, Any], ...] = ()  # what the journal says of artifacts that it saved, when it succeeds
    operations: tuple[Answered, ...] = ()  # what it did by an operation id: known to all when it succeeds
    handoffs: int = 0  # that it stored
    facts: dict[str, Any] | None = None  # for its next entry: how files were, the process group; then what became of it
    blobs: tuple[str, ...] = ()  # that these facts name
    before: dict[str, SeenFile] | None = None  # the declared files as they were
    previous: LeftFiles | None = None  # what the attempt before left
    ready: ReadyWork | None = None  # what runs it, if that is no Python function
    slot: int = 0  # of the limit that it shares, while it holds one
    awaited: Any = None  # the task that is in its body, if it is awaited

    def drop(self) -> None:
        """It is over, or will not begin: let go of what was made ready for it."""
        if self.ready is not None:
            self.ready.drop()
            self.ready = None


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


# -- what the drivers (call_plain.py, call_async.py) do for the logic (call_logic.py) ----------------


class Write(Struct, frozen=True, gc=False):
    """Make these entries durable."""

    entries: Entries


class Prepare(Struct, frozen=True, gc=False):
    """Make the attempt's work ready. Answered by why it cannot begin, if it cannot."""

    attempt: Attempt
    work: Work


class TakeSlot(Struct, frozen=True, gc=False):
    """Wait for a slot of the limit that the step shares. Answered by why there is none, if there is no such limit."""

    attempt: Attempt


class RunBody(Struct, frozen=True, gc=False):
    """Run the body. Answered by how it ended."""

    attempt: Attempt


class AskProbe(Struct, frozen=True, gc=False):
    """Ask what became of an effect. Answered by what its probe says, or what that raised."""

    attempt: Attempt


class WaitForRetry(Struct, frozen=True, gc=False):
    """Wait for as long as comes between this attempt and the next."""

    attempt: Attempt


class ListenForStop(Struct, frozen=True, gc=False):
    """Wait so long for a stop of this process that may explain a failure."""

    seconds: float


class Park(Struct, frozen=True, gc=False):
    """The call waits for somebody outside: its branch goes no further."""


class Hang(Struct, frozen=True, gc=False):
    """The flow cancelled this call before: wait until it does so again."""


Do = Write | Prepare | TakeSlot | RunBody | AskProbe | WaitForRetry | ListenForStop | Park | Hang


lingering: dict[tuple[str, Any], threading.Thread] = {}  # timed-out bodies that have not ended yet


REMEMBERED = 1_000  # failures that a body caught long ago cannot end it any more


class Endings:
    """Failures and cancellations that the flow was given, in order."""

    def __init__(self) -> None:
        self._failed: dict[int, tuple[BaseException, list[Call], int]] = {}
        self._room = REMEMBERED
        self._cancelled: list[Call] = []
        self._settled = 0  # how many of the cancelled ones another outcome followed

    def failed(self, error: BaseException, call: Call) -> BaseException:
        """Remember which call a failure came from, in case it ends the run."""
        known = self._failed.get(id(error))
        if known is not None:  # one exception that several calls ended with
            known[1].append(call)
            return error
        if len(self._failed) >= self._room:
            del self._failed[next(iter(self._failed))]
        self._failed[id(error)] = (error, [call], len(self._cancelled))
        return error

    def together(self, error: BaseException, others: Iterable[BaseException]) -> None:
        """The flow is given one failure for several: if it ends the run, all of their calls are tried again."""
        known = self._failed.get(id(error))
        if known is not None:
            for _, calls, _ in [self._failed[id(other)] for other in others if id(other) in self._failed]:
                known[1].extend(call for call in calls if call not in known[1])

    def make_room(self, calls: int) -> None:
        """So many calls may fail, and all of their failures end the run together."""
        self._room = max(self._room, calls)

    def knows(self, error: BaseException) -> bool:
        """Whether this is a failure that a call ended with."""
        return id(error) in self._failed

    def cancelled(self, call: Call) -> None:
        """The flow cancelled a call, now or again."""
        self._cancelled.append(call)

    def settled(self) -> None:
        """The flow was given another outcome: what it cancelled before stays cancelled."""
        self._settled = len(self._cancelled)

    def ended_by(self, error: BaseException) -> list[Call]:
        """The calls to try again after this exception ended the run.

        Those whose failures it is, wraps or was raised while handling; and those that were cancelled with it: after
        the first of these failures, or, when the body itself failed, with no other outcome after them.
        """
        found: list[Call] = []
        since = self._settled
        seen: set[int] = set()
        todo: list[BaseException | None] = [error]
        while todo:
            one = todo.pop()
            if one is None or id(one) in seen:
                continue
            seen.add(id(one))
            known = self._failed.get(id(one))
            if known is not None:
                since = min(known[2], since) if found else known[2]
                found += known[1]
                continue  # what it was raised while handling, the flow had caught: that is an outcome
            todo += [one.__cause__, one.__context__]
            if isinstance(one, BaseExceptionGroup):
                todo += one.exceptions
        return found + [call for call in self._cancelled[since:] if call not in found]
