"""What a flow asks of the world outside: `pause_for` a person, `wait_for` a signal; and signals as they are sent.

A question is saved, with everything that led to it, before anyone can see it; then its branch ends here. The answer is
written into the journal by whoever continues the run, and from then on the call gives it, on every replay.

Saving a wait, inside the transaction that writes what led to it.

A signal is a named message to a run, or to whatever run of a task comes to wait for it: durable at once, and taken
once, by a wait that is open or by one that is still to come.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from outlast.clock import micros, moment
from outlast.errors import (
    AnswerInvalid,
    DeadlinePassed,
    NameInvalid,
    Paused,
    Refused,
    RunFinished,
    ValueRefused,
    WaitCancelled,
)
from outlast.home import caller as operations
from outlast.home.caller import Caller, Repeatable
from outlast.home.home import run_row
from outlast.home.place import check_name
from outlast.ledger.journal import Header, JournalEntry, Payload, decode_payload, entry
from outlast.runs.call import Call, Past
from outlast.runs.holder import refuse_sealed
from outlast.runs.run import FINISHED
from outlast.runs.waits.interrupt import NO_DEFAULT, RESERVED, digest_of, is_told
from outlast.runs.waits.stored import Notes, note_closed
from outlast.store.contract import Hold, InterruptRow, NewSignal, NewWait, RunRow, Writing
from outlast.values.codec import SENT_BYTES, decode, decoder, encode, pack_small
from outlast.values.frozen import NamedTuple
from outlast.values.late import late
from outlast.values.text import duration

if TYPE_CHECKING:
    from outlast.runs import decisions
    from outlast.runs.attempt import Frame
    from outlast.runs.execution import Execution
    from outlast.values import schema as schemas
else:
    decisions = late("outlast.runs.decisions")
    schemas = late("outlast.values.schema")  # most waits have none


def save(
    tx: Writing, hold: Hold, notes: Notes, interrupt_id: str, wait: NewWait, signal: str | None
) -> tuple[str, str, str] | None:
    """Save a wait, if it is not there yet, and say so. A `signal` of that name which came before answers it at once."""
    is_new = tx.add_interrupt(interrupt_id, hold.run_key, wait)
    if not is_new and is_told(wait.type) and _close_changed(tx, hold, notes, wait):
        is_new = tx.add_interrupt(interrupt_id, hold.run_key, wait)
    if not is_new:
        return None
    row = next(row for row in tx.interrupts_by_prefix(interrupt_id) if row.id == interrupt_id)
    taken = _take_signal(tx, hold.run_id, interrupt_id, signal) if signal is not None else None
    told = notes.answered(row, taken[1], taken[2]) if taken is not None else []
    tx.append(hold, [*notes.opened(row), *told])
    return taken


def _close_changed(tx: Writing, hold: Hold, notes: Notes, wait: NewWait) -> bool:
    """Close a question that is still open and asks something else by now: nobody is to answer the old one."""
    for old in tx.waits_of(hold.run_key):
        if old.call == wait.call and old.status == "open" and (old.payload, old.form) != (wait.payload, wait.form):
            tx.append(hold, notes.closed(old, "it is asked anew, with something else"))
            tx.use_interrupt(old.id)
            return True
    return False


def _take_signal(tx: Writing, run_id: str, interrupt_id: str, name: str) -> tuple[str, str, str] | None:
    """Answer a wait by a signal that came before it: the wait's id, the signal's body and its sender."""
    run = tx.run_by_id(run_id)
    found = tx.signal_for(run, name) if run is not None else None
    if found is None or tx.unproven_row("signals", found.key):  # one that was changed tells nothing; `verify` names it
        return None
    tx.take_signal(found.key, interrupt_id)
    tx.answer_interrupt(interrupt_id, found.body, found.actor)
    return interrupt_id, found.body, found.actor


_LAST_DUE = micros(datetime(9999, 12, 31, tzinfo=UTC))  # still a date wherever it is shown
Deadline = str | float | timedelta | datetime | None


class Question(NamedTuple):
    """Something that a flow asks: as what call, with what payload, until when."""

    type: str
    payload: dict[str, Any]
    form: dict[str, Any]
    deadline: Deadline
    back: Any = None  # the type that the answer is given as
    step: str = ""  # its id in a flow file: there it is known by that, whatever it shows

    @property
    def digest(self) -> str:
        return digest_of(self.type, self.payload)


class GivenAnswer(NamedTuple):
    """What the flow is given, and who said it."""

    value: Any
    by: str = ""


# -- making questions --------------------------------------------------------------------------------


def question(
    kind: str, payload: Mapping[str, Any] | None, schema: Any, deadline: Deadline, default: Any, assignee: str
) -> Question:
    """A question to a person. Raises NameInvalid or ValueRefused for what cannot be asked."""
    if not isinstance(kind, str) or not kind.isidentifier() or kind in RESERVED:
        why = f"it must be a word, and none of {', '.join(RESERVED)}"
        raise NameInvalid("wait", str(kind), f"{why}; such as approval, decision, input, clarification")
    shown = dict(payload or {})
    pack_small(shown, "payload")
    if not isinstance(assignee, str) or len(assignee) > 500 or (assignee and not assignee.isprintable()):
        raise NameInvalid("assignee", str(assignee), "it must be printable text of at most 500 characters")
    form: dict[str, Any] = {"digest": digest_of(kind, shown), "assignee": assignee}
    wanted, back = _schema(kind, schema)
    if wanted is not None and kind != "approval":
        form["schema"] = wanted
    _add_default(form, wanted, deadline, default, back)
    return Question(kind, shown, form, deadline, back)


def signal(name: str, deadline: Deadline, default: Any) -> Question:
    """A question that a signal answers."""
    if not isinstance(name, str) or not name.strip() or len(name) > 200 or not name.isprintable():
        raise NameInvalid("signal", str(name), "it must be printable text of at most 200 characters")
    form: dict[str, Any] = {"digest": digest_of("signal", {"name": name}), "assignee": ""}
    _add_default(form, None, deadline, default)
    return Question("signal", {"name": name}, form, deadline)


def in_file(step: str, asked: Question) -> Question:
    """The same, asked by a step of a flow file: an approval that is declined may end the run there."""
    form = {name: value for name, value in asked.form.items() if name != "digest" or asked.type != "approval"}
    return asked._replace(form=form, step=step)


def _schema(kind: str, schema: Any) -> tuple[dict[str, Any] | None, Any]:
    """A schema as JSON, and the type that it was made of, if it was."""
    if kind == "approval":
        if schema is not None:
            raise NameInvalid("schema", kind, "an approval has its own: approved (true or false), comment (text)")
        return schemas.APPROVAL, None
    if schema is None or isinstance(schema, dict):
        made, back = schema, None
    else:
        made, back = schemas.schema_of(schema), schema
    if made is not None:
        pack_small(made, "schema")
        try:
            schemas.refuse_schema(made)
        except ValueError as error:
            where, _, why = str(error).partition(": ")
            raise ValueRefused(where, why, "say it in the part of JSON Schema that docs/waits.md names") from error
    return made, back


def _add_default(
    form: dict[str, Any], schema: dict[str, Any] | None, deadline: Deadline, default: Any, back: Any = None
) -> None:
    if default is NO_DEFAULT:
        return
    if deadline is None:
        raise NameInvalid("default", repr(default), "it counts once a deadline has passed; give deadline= too")
    raw = pack_small(default, "default")
    if wrong := schemas.wrong_with(schema, default, "default") if schema is not None else "":
        raise ValueRefused("default", wrong, "a default must be an answer that fits")
    try:
        _as_type(back, raw)
    except (ValueError, TypeError) as error:
        raise ValueRefused("default", str(error), "a default must be an answer that fits") from error
    form["default"] = default


# -- asking ------------------------------------------------------------------------------------------


def ask_plain(frame: Frame, asked: Question) -> Any:
    """The answer, in a plain body: until there is one, the body ends here."""
    told = ask(frame, asked)
    if told is None:
        frame.execution.paused = True
        raise Paused
    return told.value


async def ask_async(frame: Frame, asked: Question) -> Any:
    """The same in an async body: until there is an answer, this branch is parked."""
    told = ask(frame, asked)
    if told is not None:
        return told.value
    branches = frame.execution.branches
    if branches is None:
        frame.execution.paused = True
        raise Paused
    with branches.call():
        await branches.park()
    return None  # never: a parked branch goes on in the run's next execution


def ask(frame: Frame, asked: Question) -> GivenAnswer | None:
    """What the call was answered; None, and the question is saved for all to see, while it was not."""
    execution = frame.execution
    if frame.attempt is not None:
        raise Refused(detail="a flow's body waits, not a step: return from the step, then pause_for or wait_for")
    execution.gate()
    call = _call(execution, frame, asked)
    past = execution.ledger.calls.get(call)
    if past is not None and past.finished:
        past.asked = True
        execution.come_to(past)
        return _told(execution, asked, past)
    execution.come_to_new()
    old = execution.ledger.answers.get(call)
    if old is not None and past is None:  # the run was rewound; the same was asked, and shown, before
        # it stands in the journal after the rewind too: a failure that it causes can be told from it
        header = replace(old.last, epoch=execution.hold.epoch, ended_at=execution.clock.now())
        execution.writer.commit(JournalEntry(msgspec.json.encode(header), old.payload))
        return _told(execution, asked, old)
    return _open(execution, call, asked)


def _call(execution: Execution, frame: Frame, asked: Question) -> Call:
    """Which call this is: in Python by what is asked and shown, in a flow file by the id of its step."""
    if asked.step:
        return execution.numbered(frame, asked.step, f"?{asked.type}")
    name = asked.payload["name"] if asked.type == "signal" else asked.type
    return execution.numbered(frame, name, f"?{asked.type}:{asked.digest}")


def _told(execution: Execution, asked: Question, past: Past) -> GivenAnswer:
    payload = decode_payload(past.payload) if past.payload else Payload()
    said = payload.facts if isinstance(payload.facts, dict) else {}
    match past.last.status:
        case "timed_out":
            raise execution.endings.failed(DeadlinePassed(execution.id, past.call.step), past.call)
        case "cancelled":
            why, by = str(said.get("why", "")), str(said.get("by", ""))
            raise execution.endings.failed(WaitCancelled(execution.id, past.call.step, by, why), past.call)
        case _:
            execution.endings.settled()
            raw = b"null" if payload.result is msgspec.UNSET else bytes(payload.result)
            try:
                value = _as_type(asked.back, raw)
            except (ValueError, TypeError) as error:  # it fitted the schema, and the type asks for more
                wanted = f"what {getattr(asked.back, '__name__', asked.back)} takes; a resume asks again"
                refusal = AnswerInvalid(str(said.get("interrupt", "")), str(error), wanted)
                raise execution.endings.failed(refusal, past.call) from error
            return GivenAnswer(value, str(said.get("by", "")))


def _as_type(back: Any, raw: bytes) -> Any:
    """An answer as the type that was asked for."""
    return decoder(back)(raw) if back is not None else decode(raw)


def _open(execution: Execution, call: Call, asked: Question) -> GivenAnswer | None:
    """Save the question. A signal that came before it was waited for answers it at once."""
    due = due_at(asked.deadline, execution.clock.now())
    signal_name = asked.payload["name"] if asked.type == "signal" else None
    taken = execution.open_wait(call, asked.type, asked.payload, due, asked.form, signal_name)
    if taken is None:
        return None
    del execution.waits[call]
    interrupt_id, body, actor = taken
    made = told_entry(call, interrupt_id, "signal", body, actor, execution.hold.epoch, execution.clock.now())
    execution.writer.commit_work(lambda tx: tx.use_interrupt(interrupt_id), made)
    return GivenAnswer(decode(body), actor)


def due_at(deadline: Deadline, now: int) -> int | None:
    """When a deadline is, in microseconds."""
    if deadline is None:
        return None
    if isinstance(deadline, datetime):
        if deadline.tzinfo is None:
            raise NameInvalid("deadline", str(deadline), "it has no time zone; use an aware datetime")
        due = micros(deadline)
    else:
        length = duration(deadline.total_seconds() if isinstance(deadline, timedelta) else deadline)
        if length is None:
            raise NameInvalid("deadline", str(deadline), "it is no time to come; use seconds, 10m, 48h, a timedelta")
        due = now + int(length * 1_000_000)
    if not 0 <= due <= _LAST_DUE:
        raise NameInvalid("deadline", str(deadline), "no calendar has it: it must be between the years 1970 and 9999")
    return due


def told_entry(
    call: Call,
    interrupt_id: str,
    kind: str,
    answer: str | None,
    by: str,
    epoch: int,
    at: int,
    *,
    why: str = "",
    began: int = 0,
) -> JournalEntry:
    """What the flow is given, as the journal keeps it: an answer, or that there will be none."""
    status = "succeeded" if answer is not None else "cancelled" if why else "timed_out"
    place = (call.step, call.scope, call.inputs, call.occurrence, 1)
    header = Header("wait", *place, status, delivered=True, started_at=began or at, ended_at=at, epoch=epoch)
    facts = {"by": by, "interrupt": interrupt_id, "type": kind} | ({"why": why} if why else {})
    result: Any = msgspec.UNSET if answer is None else msgspec.Raw(answer.encode())
    return entry(header, Payload(result=result, facts=facts))


# -- sending signals ---------------------------------------------------------------------------------


class Signal(Struct, frozen=True):
    """A message that was sent. It is consumed once."""

    id: str
    name: str
    body: Any
    task: str
    run_id: str  # the run it was sent to, or the one that it let go on; "" while nobody waits for it
    interrupt: str  # the wait that it answered; "" while it is kept for one to come
    actor: str
    sent_at: datetime
    replayed: bool = False


def send(
    caller: Caller, name: str, body: Any, *, task: str | None, run_id: str | None, operation_id: str | None
) -> Signal:
    """Send a signal to a task or a run. Raises NameInvalid, RunNotFound, RunFinished, OperationConflict."""
    signal(name, None, NO_DEFAULT)  # the name is one that can be waited for
    raw = pack_small(body, "body", SENT_BYTES).decode()
    if (task is None) == (run_id is None):
        raise NameInvalid("signal", name, "say to whom: a task, or a run")
    run = run_row(caller.home, run_id) if run_id is not None else None
    found = check_name("task", task) if task is not None else ""
    operation = Repeatable(operation_id, "signal", [name, body, found, run.id if run else ""])

    def work(tx: Writing) -> tuple[Signal, str]:
        wait = _waiting(caller, tx, name, found, run)
        if wait is not None:
            tx.answer_interrupt(wait.id, raw, caller.actor)
            note_closed(caller.home, tx, wait.id)
        at, signal_id = caller.home.clock.now(), caller.home.ids()
        taken = wait.id if wait else ""
        scope = run.scope if run else caller.scope
        tx.add_signal(NewSignal(signal_id, scope, found, run.key if run else 0, name, raw, caller.actor, at, taken))
        to = wait.run_id if wait else run.id if run else ""
        sent = Signal(signal_id, name, decode(raw), found, to, taken, caller.actor, moment(at))
        return sent, encode(sent).decode()

    def again(answer: str) -> Signal:
        return replace(msgspec.json.decode(answer, type=Signal), replayed=True)

    return operations.once(caller.home, operation, work, again)


def _waiting(caller: Caller, tx: Writing, name: str, task: str, run: RunRow | None) -> InterruptRow | None:
    """The oldest open wait for this signal. One whose deadline has passed is answered by that."""
    if run is not None:
        now = tx.run_by_id(run.id)
        if now is None or now.status in FINISHED:
            raise RunFinished(run.id, now.status if now else "removed")
        refuse_sealed(now)
    runs = [run] if run is not None else [row for row in tx.unfinished_of_task(caller.scope, task) if not row.seal]
    waits = [wait for row in runs for wait in tx.waits_of(row.key)]
    signals = (wait for wait in waits if wait.type == "signal" and wait.status == "open")
    in_order = sorted((wait for wait in signals if decode(wait.payload)["name"] == name), key=lambda wait: wait.key)
    return next((wait for wait in in_order if not decisions.pass_deadline(caller.home, tx, wait)), None)
