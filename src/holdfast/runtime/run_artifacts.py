"""What a run saves: once, however often its body is replayed; and in a step together with its receipt, or not at all.

In the body the row and the entry that remembers the answer are one transaction. In a step the row is added at once, so
that the ref is known, its number taken and its content kept, however long the step goes on; but nobody sees it before
the transaction that writes the attempt's receipt. What an attempt that does not succeed saved is dropped with its
receipt; what a killed one saved is dropped by the next save of the run, or by `gc`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from holdfast.domain.artifact import PREFIX, Artifact
from holdfast.domain.call import Call
from holdfast.domain.digest import identity
from holdfast.domain.journal import Row, decode_header, decode_payload
from holdfast.errors import IntegrityBroken, LeaseLost, Refused, Unavailable
from holdfast.runtime import artifacts
from holdfast.runtime.artifact_content import Given
from holdfast.runtime.artifacts import Added, Draft
from holdfast.runtime.claims import refuse_lost
from holdfast.store.contract import RunRow, Writing

if TYPE_CHECKING:
    from holdfast.runtime.attempt import Attempt
    from holdfast.runtime.context import Frame
    from holdfast.runtime.execution import Execution
    from holdfast.store.spool import Taken

T = TypeVar("T")
SAVE = "run.workspace.save"


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
        return Told(call, decode_payload(past.payload).facts)
    if execution.on_receipts_only:
        from holdfast.runtime.replaying import Replaying

        assert isinstance(execution, Replaying)
        execution.end_at(call, "value")
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


# -- saving ------------------------------------------------------------------------------------------


def save_from_run(execution: Execution, frame: Frame, given: Callable[[RunRow], Draft], content: Given) -> Artifact:
    """The artifact that this call saved. On replay its content is not even looked at."""
    runtime = execution.runtime
    run = runtime.row(execution.id)
    draft = given(run)
    if frame.attempt is not None:
        return _save_in_step(execution, frame.attempt, draft, content)
    call, answer = told(execution, frame, SAVE, draft.name)
    if answer is not None:
        return _first_answer(execution, run.scope, answer)
    draft = draft._replace(source=replace(draft.source, run_id=run.id))
    taken = _staged(execution, draft, content)

    def work(tx: Writing) -> tuple[Added, list[str]]:
        added = artifacts.add(runtime, tx, draft, taken)
        return added, [artifacts.ref_of(added.row), added.row.digest]

    added = remember(execution, call, work)
    return artifacts.artifact_of(runtime, added.row, replayed=not added.is_new)


def _first_answer(execution: Execution, scope: str, answer: str | list[str]) -> Artifact:
    """What a save gave the first time. Another content under its ref was saved by somebody else, in another home."""
    ref, digest = (answer, "") if isinstance(answer, str) else answer  # a ref alone: from before digests were kept
    found = artifacts.get(execution.runtime, scope, ref)
    if digest and found.digest != digest:
        why = "this home has other content under that ref; what the run saved did not travel with it"
        raise IntegrityBroken(f"{ref} of run {execution.id}", why)
    return found


def refs_saved(rows: Iterable[Row]) -> list[str]:
    """The refs of all that a run saved, by its journal: also of versions that were there already."""
    found: list[str] = []
    for row in rows:
        if row.payload is None or (b'"artifacts"' not in row.payload and b'"artifact:' not in row.payload):
            continue
        payload = decode_payload(row.payload)
        found += [ref for ref in payload.artifacts if ref.startswith(PREFIX)]  # a flow file's step may name files
        if decode_header(row.header).name == SAVE and payload.facts:
            found.append(payload.facts if isinstance(payload.facts, str) else payload.facts[0])
    return list(dict.fromkeys(found))


def _staged(execution: Execution, draft: Draft, content: Given) -> Taken:
    """Content that cannot be kept because the disk fails ends the run here; it is not the flow that failed."""
    try:
        return artifacts.stage(execution.runtime, draft, content)
    except Unavailable as error:
        execution.pen.sever(error)


def _save_in_step(execution: Execution, attempt: Attempt, draft: Draft, content: Given) -> Artifact:
    runtime, asked = execution.runtime, attempt.asked
    refuse_over(attempt, draft.name)
    step = f"{asked.call.scope}{asked.call.step}"
    draft = draft._replace(source=replace(draft.source, run_id=execution.id, step=step, attempt=attempt.number))
    taken = _staged(execution, draft, content)

    def work(tx: Writing) -> Added:
        refuse_lost(tx, execution.hold)
        _drop_older(tx, execution)
        return artifacts.add(runtime, tx, draft, taken, execution.hold.epoch, own=attempt.saves)

    try:
        added = runtime.store.write(work)
    except (LeaseLost, Unavailable) as error:
        execution.pen.sever(error)
    if not _count(execution, attempt, added):
        if added.is_new:
            runtime.store.write(lambda tx: tx.drop_artifacts([added.row.key]))
        refuse_over(attempt, draft.name)
    return artifacts.artifact_of(runtime, added.row, replayed=not added.is_new)


def _count(execution: Execution, attempt: Attempt, added: Added) -> bool:
    """Let it be the attempt's, whose receipt will decide about it; False if that is written already."""
    with execution.pen.lock:
        if attempt.closed:
            return False
        ref = artifacts.ref_of(added.row)
        if added.is_new:
            attempt.saves = (*attempt.saves, added.row.key)
        if ref not in attempt.artifacts:
            attempt.artifacts = (*attempt.artifacts, ref)
    return True


def _drop_older(tx: Writing, execution: Execution) -> None:
    """What attempts of this run saved under owners before this one, and never will be seen."""
    tx.drop_artifacts(tx.pending_artifacts(execution.id, execution.hold.epoch))


def refuse_over(attempt: Attempt, name: str) -> None:
    """Raises Refused for a body that works on although its attempt has ended: nothing of it counts any more."""
    if attempt.closed:
        raise Refused(detail=f"an attempt that is over cannot save {name!r}")


def fate_of_saves(attempt: Attempt, status: str, delivered: bool, mark: str) -> Callable[[Writing], None] | None:
    """What becomes of what an attempt saved, to be done with its receipt. None: nothing yet, or nothing was saved."""
    keys = attempt.saves
    if not keys:
        return None
    if status == "succeeded":
        return lambda tx: tx.show_artifacts(keys)
    if attempt.asked.spec.is_effect and not delivered and mark != "not_done":
        return None  # in doubt: its probe may yet say that it happened
    return lambda tx: tx.drop_artifacts(keys)
