"""What a run puts into the workspace: once, however often its body is replayed; in a step with its receipt, or never.

In the body the row and the entry that remembers the answer are one transaction. In a step the row is added at once, so
that its ref is known; but nobody sees it before the transaction that writes the attempt's receipt. What an attempt that
does not succeed made is dropped with its receipt; what a killed one made is dropped by the next write of the run to the
workspace, or by `gc`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from outlast.errors import LeaseLost, Refused, Unavailable
from outlast.ledger.journal import decode_payload
from outlast.runs.call import Call
from outlast.runs.claim import refuse_lost
from outlast.store.contract import Writing
from outlast.store.contract.records import Kept
from outlast.values.digest import identity
from outlast.values.frozen import NamedTuple
from outlast.workspace.artifact import Source

if TYPE_CHECKING:
    from outlast.runs.attempt import Attempt
    from outlast.runs.context import Frame
    from outlast.runs.execution import Execution

T = TypeVar("T")
NOTHING = Kept()


class Told(NamedTuple):
    """A call of the body that is answered once, and its first answer if it was made before."""

    call: Call
    answer: Any


def told(execution: Execution, frame: Frame, what: str, name: str) -> Told:
    """Which call of the body this is: it is known by its place, by what it does, and by the name that it gives."""
    execution.gate()
    call = execution.numbered(frame, what, identity(name.encode()))
    past = execution.ledger.calls.get(call)
    if past is not None and past.payload:
        past.asked = True
        execution.come_to(past)
        return Told(call, decode_payload(past.payload).facts)
    if execution.on_receipts_only:
        from outlast.runs.replay.execution import Replaying

        assert isinstance(execution, Replaying)
        execution.end_at(call, "value")
    execution.come_to_new()
    return Told(call, None)


def remember(execution: Execution, call: Call, work: Callable[[Writing], tuple[T, Any]]) -> T:
    """Do `work` and remember its answer as the call's, in one transaction that only the run's owner can make."""
    pen = execution.pen

    def both(tx: Writing) -> T:
        value, answer = work(tx)
        tx.append(execution.hold, [pen.fact("value", call.step, answer, call)])
        return value

    with pen.lock:
        queued = pen.queue_work(both)
    done: T = pen.write(queued)
    return done


# -- in a step ---------------------------------------------------------------------------------------


def kept_by(attempt: Attempt | None) -> Kept:
    """What an attempt made so far: it sees it, others do not."""
    return NOTHING if attempt is None or attempt.kept is None else attempt.kept


def source_in(execution: Execution, attempt: Attempt, source: Source) -> Source:
    """Who it is from, with the run, the step and the attempt."""
    call = attempt.asked.call
    return Source(source.actor, execution.id, call.path, attempt.number, source.origin)


def write_in_step(execution: Execution, work: Callable[[Writing], T]) -> T:
    """Do `work` as the run's owner; what attempts under owners before left is dropped on the way."""

    def owned(tx: Writing) -> T:
        refuse_lost(tx, execution.hold)
        tx.drop(tx.pending_of(execution.id, execution.hold.epoch))
        return work(tx)

    try:
        return execution.runtime.store.write(owned)
    except (LeaseLost, Unavailable) as error:
        execution.pen.sever(error)


def keep(execution: Execution, attempt: Attempt, added: Kept, what: str, refs: tuple[str, ...] = ()) -> None:
    """Let what was added be the attempt's, whose receipt will decide about it and names these refs.

    Raises Refused, and drops it, if that receipt is written already.
    """
    with execution.pen.lock:
        if not attempt.closed:
            before = kept_by(attempt)
            attempt.kept = Kept(*((*old, *new) for old, new in zip(before, added, strict=True)))
            fresh = tuple(ref for ref in refs if ref not in attempt.artifacts)
            attempt.artifacts = (*attempt.artifacts, *fresh)
            return
    if any(added):
        execution.runtime.store.write(lambda tx: tx.drop(added))
    refuse_over(attempt, what)


def refuse_over(attempt: Attempt, what: str) -> None:
    """Raises Refused for a body that works on although its attempt has ended: nothing of it counts any more."""
    if attempt.closed:
        raise Refused(detail=f"an attempt that is over cannot save {what}")


def fate_of(attempt: Attempt, status: str, delivered: bool, mark: str) -> Callable[[Writing], None] | None:
    """What becomes of what an attempt made, to be done with its receipt. None: nothing yet, or nothing was made."""
    kept = kept_by(attempt)
    if not any(kept):
        return None
    if status == "succeeded":
        return lambda tx: tx.show(kept)
    if attempt.asked.spec.is_effect and not delivered and mark != "not_done":
        return None  # in doubt: its probe may yet say that it happened
    return lambda tx: tx.drop(kept)
