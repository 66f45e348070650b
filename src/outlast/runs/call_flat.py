"""The ordinary call, the short way: a step that the journal does not know, whose body returns, and nothing else.

Nearly every call of a run is one, and what it costs is how much code and how many objects it touches, because all of
them come back from far away after each sync. So here is no generator, no queue and no encoder of headers: the entry is
made by one format from what is known of the step, and appended by one statement. It is byte for byte the entry that
the general way (call_logic.py, execution.py) makes of the same call.

Everything else is left to that, from where it stands. When, is said in three places: `begin` (before the body),
`receipt_of` (once it has returned), and the store, which takes an entry at once only while nobody else is writing.
An error of the store ends the body here as there; nothing is tried twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Raw

from outlast import failpoints
from outlast.errors import OutlastError
from outlast.ledger.journal import JournalEntry, Payload, encode_header, encode_payload, made_entry
from outlast.runs.attempt import Attempt, Ended, Returned, StepCall
from outlast.runs.call import FIRST
from outlast.runs.step_inputs import SHORT_BYTES, begun_with
from outlast.values.codec import digest, pack

if TYPE_CHECKING:
    from outlast.runs.execution import Execution
    from outlast.runs.step import StepSpec

enabled = True  # tests that compare the two ways switch it off


def begin(execution: Execution, asked: StepCall) -> Attempt | None:
    """The first attempt of a call, about to run its body: noted for who finds this process dead.

    None, and nothing was done, where there is more to it: of an effect, of a step that something is made ready for,
    that shares a limit, or that keeps its inputs as blobs; where its start, or a value that the body was told, must be
    on disk first; and where nothing is run.
    """
    writer, spec = execution.writer, asked.spec
    if asked.next is not FIRST or execution.sync_start or writer.owed or not enabled:
        return None
    scope, name, inputs, occurrence = asked.call
    form = writer.forms.get((name, scope))
    if form is None or form.spec is not spec:
        if not spec.shape.is_ordinary or execution.on_receipts_only:
            return None
        form = writer.forms[name, scope] = StepForm(execution, spec, scope)
    if execution.over or execution.stopping or execution.paused or writer.severed is not None:
        execution.gate()  # it may have been asked for long ago
    execution.ran.add(name)
    asked.kept = execution.inputs.of(asked)  # before its body can change them
    said = encode_header(inputs) if asked.digest else b'"%b"' % inputs.encode()  # an id of the caller's, or a digest
    place, now = b"%b,%d" % (said, occurrence), execution.clock.now()
    noted = form.notes.put(form.note % (place, now, asked.item, asked.digest.encode()))
    attempt = Attempt(asked, 1, 0, "", now, execution.ticks, False, noted, form, place)
    execution.open[attempt] = None
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
    shape = asked.spec.shape
    try:
        raw, copy = pack(ended.value, shape.decode, asked.spec.name, shape.same)
    except OutlastError:
        return None
    if len(raw) > execution.settings.inline_bytes:
        return None
    with writer.lock:
        if writer.waiting or execution.state.dirty:
            return None
        execution.forget(attempt)
        execution.endings.settled()
        place = None if shape.code in writer.placed else writer.new_place(asked.spec)
    return copy, _entry(execution, attempt, *_payload(execution, asked, raw, place))


def _entry(execution: Execution, attempt: Attempt, payload: bytes | None, proof: str) -> JournalEntry:
    """The receipt with this payload."""
    asked, form = attempt.asked, attempt.form
    assert form is not None
    seen = f"{asked.item}#{asked.digest}" if asked.item else asked.digest
    told = (attempt.place, attempt.started_at, execution.clock.now(), seen.encode(), proof.encode())
    return made_entry((form.receipt % told, payload, ()))


def _payload(execution: Execution, asked: StepCall, raw: bytes, place: list[str] | None) -> tuple[bytes | None, str]:
    """What a receipt carries, as `ledger.journal.Payload` encodes to, and its digest.

    A result is known by the same hash, as far as it stands in the payload: nothing is hashed twice.
    """
    if place is not None:
        return _first_payload(execution, asked, raw, place)
    given = encode_payload(asked.kept) if asked.kept else b""
    if raw == b"null":
        payload = b'{"in":%b}' % given if given else None
        return payload, digest(payload) if payload else ""
    hashed, rest = begun_with(raw), b',"in":%b}' % given if given else b"}"
    if len(raw) > SHORT_BYTES:
        execution.inputs.note_known(asked.call, hashed.copy().digest())
    hashed.update(rest)
    return b'{"result":%b%b' % (raw, rest), hashed.hexdigest()


def _first_payload(execution: Execution, asked: StepCall, raw: bytes, place: list[str]) -> tuple[bytes, str]:
    """The same of the first receipt of its code, which says where that is."""
    execution.inputs.note_result(asked.call, raw, "")
    result: Any = UNSET if raw == b"null" else Raw(raw)
    payload = encode_payload(Payload(place=place, result=result, inputs=asked.kept or None))
    return payload, digest(payload)


class StepForm:
    """What is said of the calls of a step in one scope, but for what differs from call to call.

    That is the header of their receipts (`ledger.journal.Header`), and the note that one is under way (`StepNote`).
    """

    __slots__ = ("note", "notes", "receipt", "spec")

    def __init__(self, execution: Execution, spec: StepSpec, scope: str) -> None:
        self.spec, self.notes, hold = spec, execution.notes, execution.hold
        known = (spec.kind, spec.name, scope, spec.agent, spec.code, hold.epoch, execution.trace_id)
        parts = _formatted(*known)
        self.receipt = b'[%b,%b,%b,%%b,1,"succeeded",true,"",%b,%%d,%%d,"",%b,%b,%b,"%%b","%%b"]' % parts
        parts = _formatted(hold.run_id, hold.epoch, scope, spec.name, spec.agent, spec.code, spec.crashes)
        self.note = b'[%b,%b,[%b,%b,%%b],1,%%d,%%d,"%%b",%b,%b,%b]\n' % parts


def _formatted(*values: Any) -> tuple[bytes, ...]:
    """These as they stand in JSON that is a format."""
    return tuple(encode_header(value).replace(b"%", b"%%") for value in values)
