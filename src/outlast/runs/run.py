"""A run, its statuses and the moves between them, and how a call asks for one.

CHECKs and docs/state-machine.md repeat the table. `Options` is one frozen value from every door to `begin`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from msgspec import Struct

from outlast import errors
from outlast.errors import OutlastError
from outlast.flows.loading import is_flow_file
from outlast.ledger.verdict import Verdict
from outlast.runs.waits.interrupt import Interrupt
from outlast.values.late import late
from outlast.values.text import duration

if TYPE_CHECKING:
    import warnings
    from typing import TypedDict

    from outlast.secrets import find
else:
    warnings = late("warnings")
    find = late("outlast.secrets.find")

T = TypeVar("T")

RunStatus = Literal["queued", "running", "waiting", "failed", "interrupted", "crashed", "succeeded", "aborted"]
RecordStatus = RunStatus | Literal["damaged"]  # a record that is not what was stored is listed, and says so
UNFINISHED: tuple[RunStatus, ...] = ("queued", "running", "waiting", "failed", "interrupted", "crashed")
FINISHED: tuple[RunStatus, ...] = ("succeeded", "aborted")
STATUSES = (*UNFINISHED, *FINISHED)
FORK = "~fork-"  # between a task and the number of its fork

# `crashed` is what a running run is called once its owner is dead; the next owner records it.
MOVES: dict[str, tuple[str, ...]] = {
    "queued": ("running", "aborted"),
    "running": ("succeeded", "failed", "interrupted", "waiting", "crashed", "aborted"),
    "waiting": ("running", "aborted"),
    "failed": ("running", "aborted"),
    "interrupted": ("running", "aborted"),
    "crashed": ("running", "aborted"),
    "succeeded": (),
    "aborted": (),
}


def may_move(before: str, after: str) -> bool:
    """Whether a run may go from one status to another."""
    return after in MOVES[before]


class RunRecord(Struct, frozen=True):
    """A run as the ledger knows it."""

    id: str
    flow: str
    task: str
    scope: str
    status: RecordStatus
    phase: str
    inputs: dict[str, Any]
    result: Any
    error: dict[str, Any] | None
    parent: str
    session: str
    trace_id: str
    meta: dict[str, Any]
    actor: str
    created_at: datetime
    updated_at: datetime
    epoch: int
    head: int
    holder: str
    seal: str = ""  # moved, copy, testimony: why nobody may continue it here
    identity: str = ""  # what its flow is known by in every place
    source: str = ""  # where its flow was found when it last went on
    worktree: str = ""  # the linked work tree of git's that it belongs to
    origin: str = ""  # the run that it was forked from
    origin_step: str = ""  # and from which step on it goes its own way
    tags: tuple[str, ...] = ()  # given at its start
    queue: str = ""  # through which it goes, while it is unfinished
    engine: str = ""  # that takes it out of that queue, where it is not ours
    priority: int = 0  # in that, the larger first
    not_before: datetime | None = None  # it is not taken out of its queue before
    take_by: datetime | None = None  # it ends unless a worker took it by then
    deadline_at: datetime | None = None  # by when it is to be done
    held_up: str = ""  # what keeps it: no_worker, queue_paused, delayed, limit:NAME
    state: dict[str, Any] | None = None  # small values by name; None where runs are listed: `get` looks
    replayed: bool = False

    @property
    def finished(self) -> bool:
        """Whether the run has ended: it succeeded, or was aborted."""
        return self.status in FINISHED

    @property
    def schedule(self) -> str:
        """The schedule that fired it; empty for one that was started otherwise."""
        return next((tag.partition(":")[2] for tag in self.tags if tag.startswith("schedule:")), "")

    @property
    def is_of_commands(self) -> bool:
        """Whether it is a run of a flow file: its steps are commands, which leave transcripts."""
        return is_flow_file(self.flow)


class RunError(dict[str, Any]):
    """Why a run failed or was given up: all that is on record of it by name, and the usual parts as fields."""

    @classmethod
    def of(cls, kept: Mapping[str, Any] | None) -> RunError | None:
        """What is on record of an error, if there is one."""
        return None if kept is None else cls(kept)

    @property
    def type(self) -> str:
        """The kind of exception, as `module:name`."""
        return str(self.get("type", ""))

    @property
    def message(self) -> str:
        """What it said."""
        return str(self.get("message", ""))

    @property
    def code(self) -> str:
        """The stable word of one of our own errors; empty for any other."""
        return str(self.get("code", ""))

    @property
    def step(self) -> str:
        """The step that failed, where the error tells; else empty."""
        told = self.get("args")
        return str(told.get("step", "")) if isinstance(told, dict) else ""

    @property
    def trace(self) -> str:
        """Where it was raised, as Python prints it."""
        return str(self.get("trace", ""))


class _Unseen:
    """Room for what an outcome tells, until somebody asks for it: a failure that nobody looks at must not be silent.

    The slots of its fields are empty meanwhile, so that asking for one comes here; every other outcome costs nothing.
    """

    __slots__ = ("_kept",)

    def __getattr__(self, name: str) -> Any:
        if name not in LOOKED_AT:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        for each, value in (object.__getattribute__(self, "_kept") or {}).items():
            object.__setattr__(self, each, value)
        object.__setattr__(self, "_kept", None)
        return object.__getattribute__(self, name)

    def __del__(self) -> None:
        kept = getattr(self, "_kept", None)
        if kept is not None and not sys.is_finalizing():
            _warn(str(object.__getattribute__(self, "run_id")), kept["error"] or {})


def _warn(run_id: str, error: dict[str, Any]) -> None:
    """As Python does of a coroutine that was never awaited: where the outcome was dropped."""
    kind = str(error.get("type", "")).rpartition(":")[2]
    said = find.mask(f"{kind}: {error.get('message', '')}")
    told = f"run {run_id} failed, and nobody looked at its outcome ({said}); unwrap() raises it, .status tells"
    warnings.warn(told, RuntimeWarning, stacklevel=3)


def unseen(outcome: Outcome[T]) -> Outcome[T]:
    """The same outcome, for a caller who is to look at it: one that failed warns if it is dropped unseen."""
    if outcome.status == "failed":
        kept = {name: getattr(outcome, name) for name in LOOKED_AT}
        for name in LOOKED_AT:
            object.__delattr__(outcome, name)
        object.__setattr__(outcome, "_kept", kept)
    return outcome


LOOKED_AT = ("status", "result", "error", "exception")  # by whoever wants to know how a run stands


@dataclass(frozen=True, slots=True)
class Outcome(_Unseen, Generic[T]):
    """How a run stands after `run` or `resume` returned."""

    run_id: str
    status: RecordStatus
    result: T | None = None
    interrupts: tuple[Interrupt, ...] = ()
    error: RunError | None = None
    verdict: Verdict | None = None
    replayed_steps: int = 0
    unasked: tuple[str, ...] = ()  # receipts that this body never asked for
    inputs_changed: tuple[str, ...] = ()  # those of them whose step ran again with other inputs
    replayed: bool = False  # it happened before, in an earlier call: this is how, and nothing was done now
    redelivered: bool = False  # the same, of an equal call whose outcome nobody had received
    notes: tuple[str, ...] = ()  # code_changed, result_pruned of such an outcome; of a new run what lies beside it
    holder: str = ""  # who runs it, when it is running and that is not this call
    stopped_by: str = ""  # of an interrupted run: person (it stays so), shutdown (it goes on by itself)
    exception: BaseException | None = field(default=None, repr=False, compare=False)

    def unwrap(self) -> T:
        """The result of a run that succeeded. Raises what failed it, or says why there is none."""
        if self.status == "succeeded":
            return self.result  # type: ignore[return-value]
        raise self.exception or self._trouble()

    def _trouble(self) -> OutlastError:
        error = self.error or RunError()
        match self.status:
            case "queued":
                return errors.RunWaiting(self.run_id, "a worker to take it out of its queue")
            case "waiting":
                return errors.RunWaiting(self.run_id, ", ".join(wait.says for wait in self.interrupts))
            case "aborted":
                return errors.RunAborted(self.run_id, str(error.get("message", "")))
            case "interrupted":
                return errors.RunInterrupted(self.run_id)
            case _:
                return errors.RunFailed(self.run_id, str(error.get("type", "")), str(error.get("message", "")))


# -- how a call of a flow asks for a run ---------------------------------------------------------------


if TYPE_CHECKING:  # no one asks for it while a program runs

    class CallOptions(TypedDict, total=False):
        """What `with_options` takes."""

        again: bool
        yes: bool
        effects: Sequence[str]
        operation_id: str | None
        wait: bool | float
        tags: Sequence[str]
        queue: str | None
        engine: str | None
        priority: int
        delay: float | str
        queue_timeout: float | str


class Options(Struct, frozen=True):
    """What a caller says of the run that is to be started, continued or repeated."""

    task: str | None = None  # None: the caller names none, and it is made of the flow and its inputs
    fresh: bool = False  # give an unfinished run up
    session: str = ""
    trace_id: str = ""
    meta: Mapping[str, Any] | None = None
    again: bool = False  # a finished named task is to happen once more
    yes: bool = False  # whatever effects are repeated by that, they may be
    effects: tuple[str, ...] = ()  # or only those, by the names of their steps
    operation_id: str | None = None
    wait: bool | float = False  # while somebody else runs it, wait for its end: for so many seconds, or until it comes
    returns: bool = False  # the caller is given the outcome by this call itself, as by `run`
    tags: tuple[str, ...] = ()  # by which the run is found
    queue: str | None = None  # in which a worker finds it; None: as its flow says
    engine: str | None = None  # that takes it out of its queue; None: whichever that queue has
    priority: int = 0  # in its queue, the larger first
    delay: float | str = 0  # before it is taken out of its queue
    queue_timeout: float | str = 0  # after which it ends in its queue if nobody took it; 0: as its flow says

    @property
    def named(self) -> bool:
        """Whether the caller gave the task its name: then it happens once."""
        return self.task is not None

    def queue_of(self, of_flow: str) -> str:
        """Through which queue the run goes; empty: through none.

        Who waits for the outcome, as by `run`, has it begin at once unless a queue is named in that call.
        """
        engine = self.engine if self.engine != OUTLAST else None
        is_named = self.queue is not None or (self.returns and not engine)
        return (self.queue if is_named else of_flow or engine) or ""

    def said(self) -> list[Any]:
        """What makes two calls with one operation_id the same one. How they are traced does not."""
        return [self.task, self.fresh, self.session, dict(self.meta or {}), self.again]


AS_EVER = Options()
_LISTS = ("effects", "tags")
MOST_PRIORITY = 1 << 31
OUTLAST, TEMPORAL = ENGINES = ("outlast", "temporal")  # who takes runs out of queues: our own workers, or another
_KINDS: dict[str, tuple[str, tuple[type, ...]]] = {
    "again": ("bool", (bool,)),
    "effects": ("list of names", (list, tuple)),
    "engine": ("engine: outlast or temporal", (str, type(None))),
    "delay": ("time, such as 30 or 5m", (int, float, str)),
    "operation_id": ("text", (str, type(None))),
    "priority": ("whole number", (int,)),
    "queue_timeout": ("time, such as 30 or 5m", (int, float, str)),
    "queue": ("name of a queue", (str, type(None))),
    "tags": ("list of names", (list, tuple)),
    "wait": ("bool or number of seconds", (bool, int, float)),
    "yes": ("bool", (bool,)),
}


def check_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """What `with_options` was given, as `Options` takes it. Raises OptionInvalid."""
    known = ", ".join(_KINDS)
    for name, value in given.items():
        if name not in _KINDS:
            raise errors.OptionInvalid(name, "there is no such option", known)
        if not _fits(name, value):
            raise errors.OptionInvalid(name, f"it is {value!r:.100}, which is no {_KINDS[name][0]}", known)
    return {name: tuple(value) if name in _LISTS else value for name, value in given.items()}


def _fits(name: str, value: Any) -> bool:
    if name in _LISTS:
        return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)
    if name == "wait":
        return isinstance(value, int | float) and value >= 0
    if name == "engine":
        return value is None or value in ENGINES
    if name == "priority":
        return type(value) is int and abs(value) < MOST_PRIORITY
    if name in ("delay", "queue_timeout"):
        return type(value) is not bool and (duration(value) or 0) >= 0 and duration(value) is not None
    return isinstance(value, _KINDS[name][1])
