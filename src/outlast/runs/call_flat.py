"""The ordinary call, the short way: a step that the journal does not know, whose body returns, and nothing else.

Nearly every call of a run is one, and what it costs is how much code and how many objects it touches, because all of
them come back from far away after each sync. So here is no generator, no queue and no encoder of headers: the entry is
made by one format from what is known of the step, and appended by one statement. It is byte for byte the entry that
the general way (call_logic.py, execution.py) makes of the same call.

Everything else is left to that, from where it stands. When, is said in three places: `may_begin` (before the body),
`receipt_of` (once it has returned), and the store, which takes an entry at once only while nobody else is writing.
An error of the store ends the body here as there; nothing is tried twice.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

from outlast import failpoints
from outlast.errors import OutlastError
from outlast.ledger.journal import JournalEntry, encode_header, encode_payload, made_entry
from outlast.runs.attempt import Attempt, Ended, Returned, StepCall
from outlast.runs.call import FIRST
from outlast.values.codec import pack

if TYPE_CHECKING:
    from outlast.runs.execution import Execution
    from outlast.runs.journal_writer import JournalWriter
    from outlast.runs.step import StepSpec

enabled = True  # tests that compare the two ways switch it off


def may_begin(execution: Execution, asked: StepCall) -> bool:
    """Whether the first attempt of a call may be made here.

    Not of an effect, of a step that something is made ready for, that shares a limit, or that keeps its inputs as
    blobs; nor where its start, or a value that the body was told, must be on disk first; nor of the first step of its
    code, whose receipt says where that is.
    """
    code, writer = asked.spec.code, execution.writer
    return (
        asked.next is FIRST
        and enabled
        and asked.spec.is_ordinary
        and not execution.sync_start
        and not writer.owed
        and (code in writer.placed or not code)
    )


def begin(execution: Execution, asked: StepCall) -> Attempt:
    """Its attempt, about to run its body: noted for who finds this process dead."""
    if execution.over or execution.stopping or execution.paused or execution.writer.severed is not None:
        execution.gate()  # it may have been asked for long ago
    execution.ran.add(asked.spec.name)
    asked.kept = execution.inputs.of(asked)  # before its body can change them
    attempt = Attempt(asked, 1, 0, "", execution.clock.now(), execution.ticks)
    with execution.writer.lock:
        execution.open[id(attempt)] = execution.fresh[id(attempt)] = attempt
    execution.take_note(attempt)
    if failpoints.armed:
        failpoints.armed("step.begun")
    return attempt


def receipt_of(execution: Execution, attempt: Attempt, ended: Ended) -> tuple[Any, JournalEntry] | None:
    """The value that the flow gets and the entry that keeps it; None where more is to be said than that.

    That is: the body raised; it wrote to the state, said what is next, saved something; its value is refused, or too
    large for the journal; or something else waits to ride with the receipt.
    """
    if failpoints.armed:
        failpoints.armed("step.ended")
    if type(ended) is not Returned or attempt.wrote or attempt.done or attempt.next or attempt.facts:
        return None
    if attempt.artifacts or attempt.kept is not None or attempt.operations:
        return None
    asked, writer = attempt.asked, execution.writer
    spec = asked.spec
    try:
        raw, copy = pack(ended.value, spec.decode, spec.name, spec.same)
    except OutlastError:
        return None
    if len(raw) > execution.settings.inline_bytes:
        return None
    with writer.lock:
        if writer.waiting or execution.state.dirty:
            return None
        execution.forget(attempt)
        execution.endings.settled()
    execution.inputs.note_result(asked.call, raw, "")
    return copy, _entry(execution, attempt, raw)


def _entry(execution: Execution, attempt: Attempt, raw: bytes) -> JournalEntry:
    """The receipt: its payload as `ledger.journal.Payload` encodes to with a result and inputs alone."""
    asked, writer = attempt.asked, execution.writer
    scope, name, inputs, occurrence = asked.call
    form = writer.forms.get((name, scope))
    if form is None or form.spec is not asked.spec:
        form = writer.forms[name, scope] = ReceiptForm(writer, asked.spec, scope)
    given = encode_payload(asked.kept) if asked.kept else b""
    if raw == b"null":
        payload = b'{"in":%b}' % given if given else None
    else:
        payload = b'{"result":%b,"in":%b}' % (raw, given) if given else b'{"result":%b}' % raw
    proof = sha256(payload).hexdigest().encode() if payload else b""
    seen = f"{asked.item}#{asked.digest}" if asked.item else asked.digest
    told = (encode_header(inputs), occurrence, attempt.started_at, execution.clock.now(), seen.encode(), proof)
    return made_entry((form.text % told, payload, ()))


class ReceiptForm:
    """The header of a step's receipt, but for what differs from call to call (`ledger.journal.Header`)."""

    __slots__ = ("spec", "text")

    def __init__(self, writer: JournalWriter, spec: StepSpec, scope: str) -> None:
        self.spec = spec
        begins = encode_header([spec.kind, spec.name, scope])[:-1]
        known = (begins, *map(encode_header, (spec.agent, spec.code, writer.hold.epoch, writer.trace_id)))
        parts = tuple(part.replace(b"%", b"%%") for part in known)
        self.text = b'%b,%%b,%%d,1,"succeeded",true,"",%b,%%d,%%d,"",%b,%b,%b,"%%b","%%b"]' % parts
