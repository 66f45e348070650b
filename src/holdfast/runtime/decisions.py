"""What people decide about a run from outside: answer, retry, skip, abort, rewind, pause.

Each is durable before it takes effect and is taken by the run's owner, or the next one, under its epoch. Abort
does not wait: it ends the epoch itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from holdfast.domain.call import Call, fold, labels
from holdfast.domain.codec import decode, encode, pack_json
from holdfast.domain.digest import identity
from holdfast.domain.interrupt import TOLD, Interrupt, check_answer
from holdfast.domain.journal import CALLS, Row, decode_header
from holdfast.domain.run import FINISHED, RunRecord
from holdfast.errors import (
    AlreadyAnswered,
    Invalid,
    OperationConflict,
    RunFinished,
    RunNotFound,
    StepAmbiguous,
    StepNotFound,
)
from holdfast.runtime.claims import holder_of, refuse_held, refuse_sealed, run_fact
from holdfast.runtime.views import interrupt_of
from holdfast.store.contract import Ending, Hold, LeaseRow, Reading, RunRow, Writing

if TYPE_CHECKING:
    from holdfast.runtime import Runtime


T = TypeVar("T", RunRecord, Interrupt)


def once(
    runtime: Runtime,
    operation_id: str | None,
    kind: str,
    content: Any,
    work: Callable[[Writing], None],
    told: Callable[[Writing], T],
) -> T:
    """Do `work` once per operation_id and give what is `told` afterwards.

    An exact repeat does nothing and is told what the first one was, with `replayed`. Raises OperationConflict when
    the id was used with other content.
    """
    print_ = identity(encode([kind, content]))

    def guarded(tx: Writing) -> T:
        before = tx.operation(operation_id) if operation_id is not None else None
        if before is not None:
            if before[:2] != (kind, print_):
                raise OperationConflict(str(operation_id), before[0])
            kept: Any = msgspec.json.decode(before[2], type=Interrupt if kind == "answer" else RunRecord)
            return replace(cast(T, kept), replayed=True)
        work(tx)
        answer = told(tx)
        if operation_id is not None:
            tx.add_operation(operation_id, kind, print_, encode(answer).decode(), runtime.clock.now())
        return answer

    return runtime.store.write(guarded)


def answer(runtime: Runtime, interrupt_id: str, given: Any, operation_id: str | None) -> Interrupt:
    """Answer a wait: one of many answers wins. Raises AlreadyAnswered, AnswerInvalid."""

    def work(tx: Writing) -> None:
        row = runtime.interrupt_row(tx, interrupt_id)
        found = interrupt_of(row)
        if row.status != "open":
            raise AlreadyAnswered(row.id, row.run_id, row.status, row.answered_by or "the run")
        refuse_sealed(cast(RunRow, tx.run_by_id(row.run_id)))
        checked = check_answer(found, given)
        pack_json(checked, "answer")
        if checked.get("choice") == "abort":
            _abort(runtime, tx, row.run_id, str(checked.get("why", "")))
        elif checked.get("approved") is False and not found.payload.get("on_decline"):
            _abort(runtime, tx, row.run_id, str(checked.get("comment", "")), "declined")
        else:
            tx.answer_interrupt(row.id, encode(checked).decode(), runtime.actor)

    return once(
        runtime,
        operation_id,
        "answer",
        [interrupt_id, given],
        work,
        lambda tx: interrupt_of(runtime.interrupt_row(tx, interrupt_id)),
    )


def ask(
    runtime: Runtime, run_id: str, kind: str, step: str, body: dict[str, Any], operation_id: str | None
) -> RunRecord:
    """Ask the run's owner to retry or skip a step, or to rewind to it. A wait on that step is answered by it."""
    pack_json(body, kind)

    def work(tx: Writing) -> None:
        run = unfinished(tx, run_id)
        lease = tx.lease_of(run_id)
        assert lease is not None
        refuse_held(runtime, tx, run_id, lease)  # a live owner would not hear of it before it is over
        call, call_kind, first = find_call(tx, run, step)
        if kind != "rewind":
            _refuse_done(tx, run, call, step, kind)
        wait = next((w for w in tx.waits_of(run.key) if w.status == "open" and Call(*decode(w.call)) == call), None)
        if wait is not None and kind in interrupt_of(wait).choices:
            choice = {"choice": kind, **body}
            tx.answer_interrupt(wait.id, encode(choice).decode(), runtime.actor)
            return
        if wait is not None and wait.type in TOLD and kind != "rewind":
            raise Invalid(detail=f"{step} asks a question ({wait.type}); answer it: `holdfast answer {wait.id} JSON`")
        if kind == "rewind":
            _close_questions(tx, run)
        sent = {"call": list(call), "kind": call_kind, "to": first, **body}
        tx.send(run.key, kind, encode(sent).decode(), runtime.actor, runtime.clock.now())

    return once(runtime, operation_id, kind, [run_id, step, body], work, lambda tx: runtime.record_in(tx, run_id))


def _close_questions(tx: Writing, run: RunRow) -> None:
    """What the flow asks, it asks again when it comes there again: nobody is to answer the old question."""
    for wait in tx.waits_of(run.key):
        if wait.status == "open" and wait.type in TOLD:
            tx.use_interrupt(wait.id)


def _refuse_done(look: Reading, run: RunRow, call: Call, step: str, kind: str) -> None:
    """What has succeeded is final: an effect would happen twice, a step's result was used already."""
    past = fold(look.journal_of(run.key)).calls.get(call)
    if past is not None and past.finished and past.last.status == "succeeded":
        raise Invalid(detail=f"{step} has succeeded already, so it cannot be asked to {kind}; rewind to a step")


def pause(runtime: Runtime, run_id: str, operation_id: str | None) -> RunRecord:
    """Ask a live run to stop at its next step; it ends `interrupted`."""

    def work(tx: Writing) -> None:
        run, lease = unfinished(tx, run_id), tx.lease_of(run_id)
        if lease is None or not holder_of(runtime, tx, run_id, lease):
            status = "crashed" if run.status == "running" else run.status
            why = f"run {run_id} is {status}; only a running one can be asked to stop"
            raise Invalid(detail=f"{why}; see `holdfast show {run_id}`")
        tx.send(run.key, "pause", "{}", runtime.actor, runtime.clock.now())

    return once(runtime, operation_id, "pause", [run_id], work, lambda tx: runtime.record_in(tx, run_id))


def abort(
    runtime: Runtime,
    run_id: str,
    why: str,
    operation_id: str | None,
    *,
    only_free: bool = False,
    sealed: bool = False,
) -> RunRecord:
    """Give a run up: its owner, if it has one, cannot commit anything from now on.

    `sealed`: also one that was moved away, so that its task is free again. What was moved cannot come back then.
    """

    def work(tx: Writing) -> None:
        if only_free:
            lease = tx.lease_of(run_id)
            if lease is not None:
                refuse_held(runtime, tx, run_id, lease)
        _abort(runtime, tx, run_id, why, sealed=sealed)

    return once(runtime, operation_id, "abort", [run_id, why], work, lambda tx: runtime.record_in(tx, run_id))


def _abort(
    runtime: Runtime, tx: Writing, run_id: str, why: str, kind: str = "aborted", *, sealed: bool = False
) -> None:
    run, lease = unfinished(tx, run_id, sealed=sealed), tx.lease_of(run_id)
    assert isinstance(lease, LeaseRow)
    at = runtime.clock.now()
    tx.take_lease(lease, None)
    hold = Hold(run.key, run_id, lease.key, lease.epoch + 1, lease.head, lease.hash)
    facts = {"why": why, "by": runtime.actor}
    tx.append(hold, [run_fact("aborted", facts, epoch=hold.epoch, at=at, trace_id=run.trace_id)])
    tx.cancel_interrupts(run.key)
    error = encode({"type": kind, "message": why, "by": runtime.actor}).decode()
    tx.end_run(run.key, Ending("aborted", run.phase, None, error, at))
    for child in tx.children_of(run_id):
        if child.status not in FINISHED:
            _abort(runtime, tx, child.id, why, sealed=sealed)


def unfinished(look: Reading, run_id: str, *, sealed: bool = False) -> RunRow:
    """The run, if something can still be decided about it here. Raises RunNotFound, RunFinished, RunSealed."""
    run = look.run_by_id(run_id)
    if run is None:
        raise RunNotFound(run_id)
    if run.status in FINISHED:
        raise RunFinished(run_id, run.status)
    if not sealed:
        refuse_sealed(run)
    return run


def find_call(look: Reading, run: RunRow, step: str) -> tuple[Call, str, int]:
    """The call that people name so, its kind, and the seq of its first entry. Raises StepNotFound, StepAmbiguous."""
    rows = look.journal_of(run.key)
    waits = {Call(*decode(wait.call)): wait.step for wait in look.waits_of(run.key) if wait.status == "open"}
    known = labels(rows)
    call = _named(run, rows, known | {call: name for call, name in waits.items() if call not in known}, step)
    for row in rows:
        header = decode_header(row.header)
        if header.kind in CALLS and Call(header.scope, header.name, header.inputs, header.occurrence) == call:
            return call, header.kind, row.seq
    return call, "effect", 1 + (rows[-1].seq if rows else 0)


def _named(run: RunRow, rows: list[Row], names: dict[Call, str], step: str) -> Call:
    """By its label; else by the bare name of its step, if one call has it or one of those is unfinished."""
    exact = next((call for call, name in names.items() if name == step), None)
    if exact is not None:
        return exact
    alike = [call for call in names if call.step == step]
    if not alike:
        raise StepNotFound(run.id, step, ", ".join([*names.values()][-8:]) or "none yet")
    past = fold(rows).calls
    undone = [call for call in alike if call not in past or not past[call].finished]
    found = alike if len(alike) == 1 else undone
    if len(found) != 1:  # of several in doubt the wrong one would be done twice
        raise StepAmbiguous(run.id, step, ", ".join(names[call] for call in found or alike))
    return found[0]
