"""A run, its statuses and the moves between them. CHECKs and docs/state-machine.md repeat the table."""

from __future__ import annotations

import sys
from dataclasses import field
from datetime import datetime
from typing import Any, Generic, TypeVar

from outlast.errors import OutlastError, RunAborted, RunFailed, RunInterrupted, RunWaiting
from outlast.ledger.verdict import Verdict
from outlast.runs.waits.interrupt import Interrupt
from outlast.values.frozen import dataclass

T = TypeVar("T")

STATUSES = ("running", "waiting", "failed", "interrupted", "crashed", "succeeded", "aborted")
FINISHED = ("succeeded", "aborted")
FORK = "~fork-"  # between a task and the number of its fork

# `crashed` is what a running run is called once its owner is dead; the next owner records it.
MOVES: dict[str, tuple[str, ...]] = {
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


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run as the ledger knows it."""

    id: str
    flow: str
    task: str
    scope: str
    status: str
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
    replayed: bool = False

    @property
    def finished(self) -> bool:
        return self.status in FINISHED


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
    import warnings

    from outlast.secrets.find import mask

    kind = str(error.get("type", "")).rpartition(":")[2]
    said = mask(f"{kind}: {error.get('message', '')}")
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
    status: str
    result: T | None = None
    interrupts: tuple[Interrupt, ...] = ()
    error: dict[str, Any] | None = None
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
        error = self.error or {}
        match self.status:
            case "waiting":
                return RunWaiting(self.run_id, ", ".join(wait.says for wait in self.interrupts))
            case "aborted":
                return RunAborted(self.run_id, str(error.get("message", "")))
            case "interrupted":
                return RunInterrupted(self.run_id)
            case _:
                return RunFailed(self.run_id, str(error.get("type", "")), str(error.get("message", "")))
