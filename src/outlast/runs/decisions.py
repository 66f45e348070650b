"""What people decide about a run from outside: answer, retry, skip, abort, rewind, pause.

Each is durable before it takes effect and is taken by the run's owner, or the next one, under its epoch. Abort
does not wait: it ends the epoch itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar, cast

import msgspec
from msgspec.structs import replace

from outlast.errors import (
    AlreadyAnswered,
    AnswerInvalid,
    Forbidden,
    Invalid,
    OutlastError,
    RunFinished,
    RunNotFound,
    StepAmbiguous,
    StepNotFound,
)
from outlast.home import caller as operations
from outlast.home.caller import Caller, Repeatable
from outlast.home.home import Home, interrupt_row
from outlast.ledger.journal import CALLS, JournalEntry, Row, decode_header
from outlast.runs import journal
from outlast.runs.call import Call, Ledger, Past, fold, labels
from outlast.runs.claim import run_fact
from outlast.runs.found import refuse_unproven_wait
from outlast.runs.holder import holder_of, refuse_held, refuse_sealed
from outlast.runs.look import record_in
from outlast.runs.outputs.files import flow_file_of, ids_beside
from outlast.runs.rewind import BEHIND, inside, place_of
from outlast.runs.run import FINISHED, RunRecord
from outlast.runs.under_way import rows_of_starts, starts_of
from outlast.runs.waits.interrupt import BY_DEADLINE, Interrupt, check_answer, in_time, is_late, is_told
from outlast.runs.waits.stored import append_notes, interrupt_of, note_closed, notes_of
from outlast.store.contract import Ending, Hold, InterruptRow, LeaseRow, Reading, RunRow, Writing
from outlast.store.contract.runs import damage_of, refuse_damaged
from outlast.values.codec import SENT_BYTES, decode, encode, pack_small
from outlast.values.frozen import NamedTuple

S = TypeVar("S")
T = TypeVar("T", RunRecord, Interrupt)
ASK_A_PERSON = "let a person look whether it happened, and decide: `outlast inbox` shows how"


def once(
    home: Home,
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
    kept_as: Any = Interrupt if kind == "answer" else RunRecord

    def done(tx: Writing) -> tuple[T, str]:
        work(tx)
        answer = told(tx)
        return answer, encode(answer).decode()

    def again(answer: str) -> T:
        return replace(cast(T, msgspec.json.decode(answer, type=kept_as)), replayed=True)

    return operations.once(home, Repeatable(operation_id, kind, content), done, again)


def answer(
    caller: Caller, interrupt_id: str, given: Any, operation_id: str | None, shown: str | None = None
) -> Interrupt:
    """Answer a wait: one of many answers wins. `shown` is the digest of the question that was answered.

    Raises AlreadyAnswered (also when the deadline has passed), AnswerInvalid.
    """
    pack_small(given, "answer", SENT_BYTES)
    whole = _whole_id(caller.home, interrupt_id)

    def work(tx: Writing) -> None:
        row = _open_row(caller.home, tx, whole)
        found = interrupt_of(row)
        if shown is not None and shown != found.digest:
            raise AnswerInvalid(row.id, "what it asks is not what was shown", "look at it again: `outlast inbox`")
        checked = check_answer(found, given)
        said = checked if isinstance(checked, dict) and not found.by_flow else {}
        raw = encode(checked).decode()
        if said.get("choice") == "abort":
            abort_in(caller, tx, row.run_id, str(said.get("why", "")), by_answer=(row.id, raw))
        elif said.get("approved") is False and not found.payload.get("on_decline"):
            abort_in(caller, tx, row.run_id, str(said.get("comment", "")), "declined", by_answer=(row.id, raw))
        else:
            tx.answer_interrupt(row.id, raw, caller.actor)
            note_closed(caller.home, tx, row.id)

    return _decide(caller.home, whole, operation_id, given, work)


def cancel(caller: Caller, interrupt_id: str, why: str, operation_id: str | None) -> Interrupt:
    """End a wait without an answer: the flow is told so, and why. Raises AlreadyAnswered, AnswerInvalid."""
    if not why.strip():
        raise Invalid(detail="a wait is cancelled with a reason; say why")
    pack_small(why, "why")
    whole = _whole_id(caller.home, interrupt_id)

    def work(tx: Writing) -> None:
        row = _open_row(caller.home, tx, whole)
        if not interrupt_of(row).by_flow:
            instead = f"an answer, or `outlast abort {row.run_id} --why WHY`"
            raise AnswerInvalid(row.id, "it cannot be cancelled", instead)
        tx.end_interrupt(row.id, caller.actor, why)
        note_closed(caller.home, tx, row.id)

    return _decide(caller.home, whole, operation_id, {"cancel": why}, work)


def _whole_id(home: Home, interrupt_id: str) -> str:
    """The id of a wait that may be named by a prefix of it: both mean one and the same."""
    return home.store.read(lambda look: interrupt_row(look, interrupt_id)).id


class _Late(Exception):
    """The deadline of a wait has passed, and nobody has recorded that yet."""


def _decide(
    home: Home, interrupt_id: str, operation_id: str | None, given: Any, work: Callable[[Writing], None]
) -> Interrupt:
    """Decide about a wait. A deadline that passes meanwhile is recorded first, and decides instead."""
    while True:
        try:
            told = lambda tx: interrupt_of(interrupt_row(tx, interrupt_id))  # noqa: E731
            return once(home, operation_id, "answer", [interrupt_id, given], work, told)
        except _Late:
            home.store.write(lambda tx: pass_deadline(home, tx, interrupt_row(tx, interrupt_id)))


def _open_row(home: Home, tx: Writing, interrupt_id: str) -> InterruptRow:
    """The wait, if it can still be answered here. Raises AlreadyAnswered, RunSealed, IntegrityBroken."""
    row = interrupt_row(tx, interrupt_id)
    refuse_damaged(row, f"wait {row.id}")
    refuse_unproven_wait(tx, row.key)
    if row.status != "open":
        by = "its deadline" if row.answered_by == BY_DEADLINE else row.answered_by or "the run"
        raise AlreadyAnswered(row.id, row.run_id, interrupt_of(row).status, by)
    refuse_sealed(cast(RunRow, tx.run_by_id(row.run_id)))
    if is_late(row, home.clock.now()):
        raise _Late
    return row


def pass_deadline(home: Home, tx: Writing, wait: InterruptRow) -> bool:
    """The first commit at or after a deadline records what counts: the default, or that nobody answered.

    Whether this wait's deadline has passed.
    """
    at = home.clock.now()
    if not is_late(wait, at):
        return False
    refuse_sealed(cast(RunRow, tx.run_by_id(wait.run_id)))
    now = in_time(wait, at)
    if now.answer is not None:
        tx.answer_interrupt(now.id, now.answer, now.answered_by)
    else:
        tx.end_interrupt(now.id, now.answered_by, now.reason)
    note_closed(home, tx, now.id)
    return True


def ask(
    caller: Caller,
    run_id: str,
    kind: str,
    step: str,
    body: dict[str, Any],
    operation_id: str | None,
    *,
    effects: bool = True,
) -> RunRecord:
    """Ask the run's owner to retry or skip a step, or to rewind to it. A wait on that step is answered by it.

    `effects`: whether who asks may say so of an effect. Raises Forbidden.
    """
    pack_small(body, kind, SENT_BYTES)
    back = kind == "rewind"
    seen = look_ahead(caller.home, lambda look: _target(caller, look, unfinished(look, run_id), step, back))

    def work(tx: Writing) -> None:
        run = unfinished(tx, run_id)
        lease = tx.lease_of(run_id)
        assert lease is not None
        refuse_held(caller, tx, run_id, lease)  # a live owner would not hear of it before it is over
        is_known = seen is not None and seen.at == _position(tx, run)
        target = seen if seen is not None and is_known else _target(caller, tx, run, step, back)
        call = target.call
        if target.kind == "effect" and not effects:
            raise Forbidden(f"{step} is an effect: only who may approve can let it be tried again", ASK_A_PERSON)
        _refuse_succeeded(kind, step, target)
        wait = _wait_on(tx, run, call)
        _refuse_question(kind, step, wait)
        if wait is not None and kind in interrupt_of(wait).choices:
            choice = {"choice": kind, **body}
            tx.answer_interrupt(wait.id, encode(choice).decode(), caller.actor)
            note_closed(caller.home, tx, wait.id)
            return
        if kind == "rewind":
            _close_questions(caller.home, tx, run)
        sent = target.sent() | body
        tx.send(run.key, kind, encode(sent).decode(), caller.actor, caller.home.clock.now())

    return once(caller.home, operation_id, kind, [run_id, step, body], work, lambda tx: record_in(caller, tx, run_id))


def _refuse_succeeded(kind: str, step: str, target: _Target) -> None:
    """That is final: it would happen twice, or was used already."""
    if kind != "rewind" and target.has_succeeded:
        raise Invalid(detail=f"{step} has succeeded already, so it cannot be asked to {kind}; rewind to a step")


def _wait_on(look: Reading, run: RunRow, call: Call) -> InterruptRow | None:
    waits = look.waits_of(run.key)
    return next((wait for wait in waits if wait.status == "open" and Call(*decode(wait.call)) == call), None)


def _refuse_question(kind: str, step: str, wait: InterruptRow | None) -> None:
    if wait is None or kind == "rewind" or kind in interrupt_of(wait).choices:
        return
    if is_told(wait.type):
        raise Invalid(detail=f"{step} asks a question ({wait.type}); answer it: `outlast answer {wait.id} JSON`")


def _close_questions(home: Home, tx: Writing, run: RunRow) -> None:
    """What the flow asks, it asks again when it comes there again: nobody is to answer the old question."""
    lease = tx.lease_of(run.id)
    assert lease is not None
    notes, told = notes_of(home, lease.epoch, run.trace_id), list[JournalEntry]()
    for wait in tx.waits_of(run.key):
        if wait.status == "open" and is_told(wait.type):
            tx.use_interrupt(wait.id)
            told += notes.closed(wait, "the run goes back")
    if run.status != "running":
        append_notes(tx, run, lease, told)


class _Target(NamedTuple):
    """A call that something is asked of, as it was at a moment of the run."""

    at: tuple[Any, ...]
    call: Call
    kind: str
    place: int  # where to go back to for it
    has_succeeded: bool

    def sent(self) -> dict[str, Any]:
        """What is sent of it to who goes on with the run."""
        return {"call": list(self.call), "kind": self.kind, "to": self.place}


class SupposedDecision(NamedTuple):
    """Something that nobody has decided yet."""

    kind: str  # rewind, retry, skip
    body: dict[str, Any]
    answers: str  # the wait that it is the answer to, if any


def _target(caller: Caller, look: Reading, run: RunRow, step: str, back: bool) -> _Target:
    rows, flaws, _ = journal.read(look, run)
    rows = [*rows, *rows_of_starts(caller.home, look, run, rows)]
    ledger = fold(rows, flaws)
    call, kind = gone_back_to(caller, look, run, rows, step, ledger) if back else _found(look, run, rows, step)
    past = ledger.calls.get(call)
    done = past is not None and past.finished and past.last.status == "succeeded"
    return _Target(_position(look, run), call, kind, place_of(ledger, call), done)


def suppose(caller: Caller, look: Reading, run: RunRow, kind: str, step: str) -> SupposedDecision:
    """What `ask` would send, if it may be asked. Raises StepNotFound, StepAmbiguous, Invalid."""
    target = _target(caller, look, run, step, kind == "rewind")
    _refuse_succeeded(kind, step, target)
    wait = _wait_on(look, run, target.call)
    _refuse_question(kind, step, wait)
    said = {"by": caller.actor, "why": "", "result": None}
    return SupposedDecision(kind, target.sent() | said, wait.id if wait is not None and kind != "rewind" else "")


def look_ahead(home: Home, find: Callable[[Reading], S]) -> S | None:
    """What a write needs, found before it begins: a long journal keeps nobody waiting. None when there is none yet."""

    def look(reading: Reading) -> S | None:
        try:
            return find(reading)
        except OutlastError:  # the write decides, and says so: an operation that was done before is not refused
            return None

    return home.store.read(look)


def _position(look: Reading, run: RunRow) -> tuple[Any, ...]:
    """What changes whenever a step's name may mean another call."""
    lease = look.lease_of(run.id)
    return (lease.head if lease else 0, *((wait.id, wait.status) for wait in look.waits_of(run.key)))


def pause(caller: Caller, run_id: str, operation_id: str | None) -> RunRecord:
    """Ask a live run to stop at its next step; it ends `interrupted`."""

    def work(tx: Writing) -> None:
        run, lease = unfinished(tx, run_id), tx.lease_of(run_id)
        executed = run.status == "running" and lease is not None and holder_of(caller, tx, run_id, lease)
        if not executed:  # also when it is only claimed: nobody would hear of it
            status = "crashed" if run.status == "running" else run.status
            why = f"run {run_id} is {status}; only a running one can be asked to stop"
            raise Invalid(detail=f"{why}; see `outlast show {run_id}`")
        tx.send(run.key, "pause", "{}", caller.actor, caller.home.clock.now())

    return once(caller.home, operation_id, "pause", [run_id], work, lambda tx: record_in(caller, tx, run_id))


def abort(caller: Caller, run_id: str, why: str, operation_id: str | None) -> RunRecord:
    """Give a run up: its owner, if it has one, cannot commit anything from now on."""
    work = partial(abort_in, caller, run_id=run_id, why=why)
    return once(caller.home, operation_id, "abort", [run_id, why], work, lambda tx: record_in(caller, tx, run_id))


def give_up(caller: Caller, tx: Writing, run_id: str, why: str) -> None:
    """Give a run up that nobody holds; also one that was moved away, which cannot come back then. Raises RunHeld."""
    lease = tx.lease_of(run_id)
    if lease is not None:
        refuse_held(caller, tx, run_id, lease)
    abort_in(caller, tx, run_id, why, sealed=True)


def abort_in(
    caller: Caller,
    tx: Writing,
    run_id: str,
    why: str,
    kind: str = "aborted",
    *,
    sealed: bool = False,
    by: str = "",
    by_answer: tuple[str, str] = ("", ""),
) -> None:
    """The same inside a transaction. `kind`: also `declined`, by a no that its flow does not handle, and
    `queue_timed_out`, when nobody took it out of its queue in time.
    """
    run, lease = unfinished(tx, run_id, sealed=sealed), tx.lease_of(run_id)
    assert isinstance(lease, LeaseRow)
    at = caller.home.clock.now()
    starts = [] if holder_of(caller, tx, run_id, lease) else starts_of(caller.home, tx, run, lease)
    tx.take_lease(lease, None)
    hold = Hold(run.key, run_id, lease.key, lease.epoch + 1, lease.head, lease.hash)
    facts = {"why": why, "by": by or caller.actor}
    told = starts + _last_notes(caller.home, tx, run, hold.epoch, facts["by"], by_answer)
    tx.append(hold, [*told, run_fact("aborted", facts, epoch=hold.epoch, at=at, trace_id=run.trace_id)])
    tx.give_back_signals(run.key)
    tx.cancel_interrupts(run.key)
    error = encode({"type": kind, "message": why, "by": facts["by"]}).decode()
    tx.end_run(run.key, Ending("aborted", run.phase, None, error, at))
    tx.drop_entry(run.key)
    for child in tx.children_of(run_id):
        if child.status not in FINISHED:
            abort_in(caller, tx, child.id, why, sealed=sealed)


def _last_notes(
    home: Home, tx: Writing, run: RunRow, epoch: int, by: str, answer: tuple[str, str]
) -> list[JournalEntry]:
    """What is said of the waits of a run that is given up: of the one whose answer gave it up, the answer."""
    waits = [wait for wait in tx.waits_of(run.key) if not damage_of(wait)]
    notes, told = notes_of(home, epoch, run.trace_id), list[JournalEntry]()
    is_any = any(wait.status == "answered" for wait in waits)
    closed = fold(*journal.read(tx, run)[:2]).closed if is_any else set()
    for wait in waits:
        if wait.id == answer[0]:
            told += notes.answered(wait, answer[1], by)
        elif wait.status == "open":
            told += notes.closed(wait, "the run was given up")
        elif wait.id not in closed:
            told += notes.closed(wait)
    return told


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


def find_call(look: Reading, run: RunRow, step: str) -> tuple[Call, str]:
    """The call that people name so, and its kind. Raises StepNotFound, StepAmbiguous."""
    return _found(look, run, journal.read(look, run).rows, step)


def gone_back_to(
    caller: Caller, look: Reading, run: RunRow, rows: list[Row], step: str, ledger: Ledger
) -> tuple[Call, str]:
    """The same for who goes back to it. Raises StepNotFound, with how to go on to a step that was not reached.

    A name means the call that the body came to last: one that it made with other inputs since is over.
    What is not over yet, and has no entry of its own (a `foreach`, a `repeat`, a map), begins with its first call;
    so does a `parallel`, which never has one.
    """
    try:
        call, kind = _found(look, run, rows, step)
    except StepNotFound as error:
        begun_inside = [*inside(ledger, step), *_in_branches(caller, run, ledger, step)]
        if begun := min(begun_inside, key=lambda past: past.first, default=None):
            return begun.call, begun.kind
        names = labels(rows)
        undone = [past for past in ledger.calls.values() if past.kind in CALLS and not past.finished]
        raise StepNotFound.going_back(run.id, step, error.known, names[undone[-1].call] if undone else "") from None
    past = ledger.calls.get(call)
    if past is None or past.first < BEHIND or step != call.path:
        return call, kind
    alike = [each for each in ledger.calls.values() if each.call[:2] == call[:2] and each.first < BEHIND]
    return (min(alike, key=lambda each: each.first).call if alike else call), kind


def _in_branches(caller: Caller, run: RunRow, ledger: Ledger, step: str) -> Iterator[Past]:
    """The calls that were made in the branches of a `parallel`, by the flow file as it is now."""
    scope, slash, name = step.rpartition("/")
    spec = flow_file_of(caller, run)
    names = ids_beside(spec.definition, name) if spec is not None else set[str]()
    for call, past in ledger.calls.items():
        is_inside = any(call.scope.startswith((f"{scope}{slash}{each}[", f"{scope}{slash}{each}/")) for each in names)
        if not past.aside and (is_inside or (call.scope == f"{scope}{slash}" and call.step in names)):
            yield past


def _found(look: Reading, run: RunRow, rows: list[Row], step: str) -> tuple[Call, str]:
    waits = {Call(*decode(wait.call)): wait.step for wait in look.waits_of(run.key) if wait.status == "open"}
    known = labels(rows)
    call = _named(run, rows, known | {call: name for call, name in waits.items() if call not in known}, step)
    for row in rows:
        header = decode_header(row.header)
        if header.kind in CALLS and Call(header.scope, header.name, header.inputs, header.occurrence) == call:
            return call, header.kind
    return call, "effect"


def _named(run: RunRow, rows: list[Row], names: dict[Call, str], step: str) -> Call:
    """By its label; else by the bare name of its step, if one call has it or one of those is unfinished."""
    exact = [call for call, name in names.items() if name == step]
    if len(exact) > 1:
        raise StepAmbiguous(run.id, step, ", ".join(names.values()))
    if exact:
        return exact[0]
    alike = [call for call in names if call.step == step]
    if not alike:
        raise StepNotFound(run.id, step, ", ".join([*names.values()][-8:]) or "none yet")
    past = fold(rows).calls
    undone = [call for call in alike if call not in past or not past[call].finished]
    found = alike if len(alike) == 1 else undone
    if len(found) != 1:  # of several in doubt the wrong one would be done twice
        raise StepAmbiguous(run.id, step, ", ".join(names[call] for call in found or alike))
    return found[0]
