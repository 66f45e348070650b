"""Receipts and events as people and programs read them, made from journal entries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import compress
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from outlast import errors
from outlast.clock import moment
from outlast.ledger.journal import (
    CALLS,
    NOTES,
    SOUND,
    TESTIMONY,
    UNDAMAGED,
    Flaws,
    Header,
    Payload,
    Row,
    decode_header,
    decode_payload,
)
from outlast.runs.call import GOOD, call_of, id_of, known_scope
from outlast.runs.heard import AnyHeard, attempts_of, heard_quickly
from outlast.runs.step_inputs import REF_LENGTH, LabelOf, shown_inputs
from outlast.values.codec import decode

if TYPE_CHECKING:
    from outlast.runs.journal import Labels


class Envelope(Struct, frozen=True):
    """What a step hands to whoever comes next."""

    done: str
    next: str
    artifacts: tuple[str, ...]
    state: dict[str, Any]


class Receipt(Struct, frozen=True):
    """The durable record of one attempt of one step."""

    run_id: str
    flow: str
    step: str
    label: str
    kind: str
    scope: str
    occurrence: int
    seq: int
    agent: str
    attempt: int
    status: str
    delivered: bool
    mark: str
    started_at: datetime
    ended_at: datetime | None
    input_digest: str
    result: Any
    blob: str
    error: dict[str, Any] | None
    artifacts: tuple[str, ...]
    key: str
    code_digest: str
    epoch: int
    trace_id: str
    envelope: Envelope
    hash: str
    broken: str = ""  # why it, its result or a fact cannot be shown: it is not what was stored
    facts: dict[str, Any] = field(default_factory=dict)  # exit, transcript, files, what was left; a person's decision
    call: str = ""  # of which call it is an attempt: the same in its events and waits
    interrupt: str = ""  # the wait whose answer settled it
    inputs: dict[str, Any] = field(default_factory=dict)  # by name: its value, whose result_of it is, or its digest


class Event(Struct, frozen=True):
    """One item of a run's journal: a `fact`, or `progress` that the work reported."""

    run_id: str
    seq: int
    kind: str
    name: str
    at: datetime
    step: str
    attempt: int
    trace_id: str
    body: Any
    call: str = ""  # the call it is about: the same in its receipts and waits
    interrupt: str = ""  # the wait that it is about, or that was answered by it
    child: str = ""  # the child run that it is about
    emitted: bool = False  # the work itself reported it, under a name of its own
    artifacts: tuple[str, ...] = ()  # of a receipt: what it refers to
    masked: int = 0  # how many secrets were masked in what it carries


ReadBlob = Callable[[str], bytes]


class Attempts:
    """The attempts of a run in the order in which they were last heard of, each a receipt once it is asked for.

    Each damaged one too. `trace_id` is the run's: what people decided was written without it. `labels`: of the calls,
    if not all rows are here.
    """

    def __init__(
        self,
        run_id: str,
        flow: str,
        rows: Sequence[Row],
        blob: ReadBlob | None = None,
        trace_id: str = "",
        flaws: Flaws = UNDAMAGED,
        labels: Labels | None = None,
    ) -> None:
        self._run_id, self._flow, self._blob, self._trace_id, self._flaws = run_id, flow, blob, trace_id, flaws
        names = labels.among(rows) if labels is not None else None
        quick = heard_quickly(rows) if names is None and not flaws else None
        self.heard: Sequence[AnyHeard] = quick.heard if quick is not None else attempts_of(rows, flaws, names)
        self.once_each = quick is not None and quick.once_each  # whether no step has more than one attempt
        self._label_of = labels.of_ref if labels is not None else _labels_by_ref(self.heard)

    def __iter__(self) -> Iterator[Receipt]:
        return map(self.receipt, self.heard)

    def broken(self) -> Iterator[Receipt]:
        """Those that are not what was stored, or whose content is not: content is looked at for that."""
        rows = [each.row for each in self.heard]
        names_one = [row.seq in self._flaws or (type(row.kept) is bytes and b'"blob":"' in row.kept) for row in rows]
        may_be = compress(self.heard, names_one)
        return (made for made in map(self.receipt, may_be) if made.broken)

    def receipt(self, heard: AnyHeard) -> Receipt:
        """All that is on record of an attempt."""
        run_id, blob = self._run_id, self._blob
        whole = heard.whole
        label, header, row, before = whole.label, whole.header, whole.row, whole.before
        payload = _payload(run_id, row)
        artifacts = tuple(payload.artifacts)
        if header.kind == TESTIMONY and not payload.blob and payload.facts:
            payload = msgspec.structs.replace(payload, result=msgspec.Raw(payload.facts["text"].encode()))
        result, broken = _result(payload, blob)
        facts, unread = ({}, "") if header.kind == TESTIMONY else facts_in(payload, blob)
        if before is not None and header.kind != TESTIMONY:
            payload, facts = _settled(header, payload, facts, _payload(run_id, before), blob)
        return Receipt(
            kind=header.kind,
            scope=header.scope,
            occurrence=header.occurrence,
            agent=header.agent,
            attempt=header.attempt,
            status=header.status,
            delivered=header.delivered,
            mark=header.mark,
            key=header.key,
            epoch=header.epoch,
            run_id=run_id,
            flow=self._flow,
            step=header.name,
            label=label,
            seq=row.seq,
            started_at=moment(header.started_at),
            ended_at=moment(header.ended_at) if header.ended_at else None,
            input_digest=header.seen_inputs or header.inputs,
            result=result,
            blob=payload.blob,
            error=payload.error,
            artifacts=artifacts,
            code_digest=header.code,
            trace_id=header.trace_id or self._trace_id,
            envelope=Envelope(payload.done or f"{label} {header.status}", payload.next, artifacts, _state(payload)),
            hash=row.hash.hex(),
            broken=self._flaws.get(row.seq, SOUND).why or broken or unread,
            facts=facts,
            call=id_of(whole.call),
            interrupt=_interrupt(None, payload),
            inputs=shown_inputs(payload, self._label_of, blob),
        )


def _labels_by_ref(known: Sequence[AnyHeard]) -> LabelOf:
    """Calls by the refs of them, made when the first one is asked for."""
    by_ref: dict[str, tuple[str, str]] = {}

    def label_of(ref: str) -> tuple[str, str]:
        if not by_ref:
            by_ref.update({(call := id_of(each.call))[:REF_LENGTH]: (call, each.label) for each in known})
        return by_ref.get(ref, (ref, ""))

    return label_of


def _settled(
    header: Header, payload: Payload, facts: dict[str, Any], first: Payload, blob: ReadBlob | None
) -> tuple[Payload, dict[str, Any]]:
    """A receipt of an attempt that was settled later, with what its first outcome said: how it failed, what it left."""
    facts = facts_in(first, blob)[0] | facts
    if first.inputs and not payload.inputs:
        payload = msgspec.structs.replace(payload, inputs=first.inputs)
    if first.error is None or payload.error is not None:
        return payload, facts
    if header.status in GOOD:
        return payload, facts | {"failed": first.error}
    return msgspec.structs.replace(payload, error=first.error), facts


def _payload(run_id: str, row: Row) -> Payload:
    try:
        raw = row.payload
        return decode_payload(raw) if raw else Payload()
    except msgspec.DecodeError as error:
        raise errors.IntegrityBroken(f"entry {run_id}/{row.seq}", str(error)) from error


def _state(payload: Payload) -> dict[str, Any]:
    """What the body and the step wrote since the entry before; names that were deleted are left out."""
    written = (payload.state or {}) | (payload.wrote or {})
    return {name: kept[0] for name, raw in written.items() if (kept := decode(bytes(raw)))}


def _result(payload: Payload, blob: ReadBlob | None) -> tuple[Any, str]:
    """The result, and why it cannot be shown if its blob is not what was stored."""
    if not payload.blob:
        return (None if payload.result is msgspec.UNSET else decode(bytes(payload.result))), ""
    try:
        return (decode(blob(payload.blob)) if blob else None), ""
    except errors.IntegrityBroken as error:
        return None, str(error.why)


def facts_in(payload: Payload, blob: ReadBlob | None) -> tuple[dict[str, Any], str]:
    """What was noted of the attempt, long facts read back; and why one of them cannot be."""
    noted = payload.facts if isinstance(payload.facts, dict) else {}
    found, broken = dict(noted), ""
    for name, value in noted.items():
        if blob is None or not isinstance(value, dict) or set(value) != {"blob", "bytes"}:
            continue
        try:
            found[name] = decode(blob(value["blob"]))
        except errors.IntegrityBroken as error:
            broken = f"{name}: {error.why}"
    return found, broken


def events_of(run_id: str, rows: Iterable[Row], trace_id: str = "") -> list[Event]:
    """Every entry of the journal as an event. `trace_id` is the run's, for entries that were written without it."""
    return [_event(run_id, row, decode_header(row.header), trace_id) for row in rows]


def _event(run_id: str, row: Row, header: Header, trace_id: str) -> Event:
    payload = _payload(run_id, row)
    called, said = header.kind in CALLS, header.kind == "emit"
    return Event(
        run_id=run_id,
        seq=row.seq,
        kind="progress" if said and header.mark == "progress" else "fact",
        name=_name(header),
        at=moment(header.ended_at or header.started_at),
        step=known_scope(header.scope) + header.name if called else header.agent if said else "",
        attempt=header.attempt,
        trace_id=header.trace_id or trace_id,
        body=payload.error if called else _told(header, payload),
        call=_call_of(header),
        interrupt=_interrupt(header, payload) if not said else "",
        child=str(payload.facts["child"]) if header.kind == "spawn" and isinstance(payload.facts, dict) else "",
        emitted=said and header.name != "phase",
        artifacts=tuple(payload.artifacts),
        masked=payload.masked,
    )


# Calls of a body that have events of their own, by what they are in the journal.
_OWN_NAMES = {"run.checkpoint": "checkpoint.recorded", "run.workspace.save": "artifact.saved"}


def _name(header: Header) -> str:
    match header.kind:
        case "emit":
            return header.name
        case "step" | "effect":
            return f"{header.kind}.{header.status}"
        case "spawn":
            return f"child.{header.status or 'started'}"
        case "value" if header.name in _OWN_NAMES:
            return _OWN_NAMES[header.name]
        case _:
            return f"{header.kind}.{header.name}"


def _call_of(header: Header) -> str:
    """The call that an entry is about: none for what the run itself or its body says."""
    if header.kind == "emit" or header.kind in NOTES:
        return header.key  # of the step that said it, or of what waits
    if header.kind == "run":
        return ""
    return id_of(call_of(header))


def _told(header: Header, payload: Payload) -> Any:
    """What an entry carries; of an answered wait also the answer."""
    if header.kind == "run":
        return _about_run(payload)
    if header.kind != "wait" or payload.result is msgspec.UNSET or not isinstance(payload.facts, dict):
        return payload.facts
    return payload.facts | {"answer": decode(bytes(payload.result))}


_PROOFS = ("row", "waits", "result", "standing")  # digests by which rows are compared with the chain: nobody reads them


def _about_run(payload: Payload) -> Any:
    """A fact about the run in its plain form: what it wrote to its state, and its result or where that is."""
    found = payload.facts
    if not isinstance(found, dict):
        return found
    plain = {name: value for name, value in found.items() if name not in _PROOFS}
    if "result" in found and payload.blob:
        plain["result_blob"] = payload.blob
    elif payload.result is not msgspec.UNSET:
        plain["result"] = decode(bytes(payload.result))
    state = found.get("state")
    if isinstance(state, dict) and all(isinstance(kept, list) for kept in state.values()):
        plain["state"] = {name: kept[0] for name, kept in state.items() if kept}
        if removed := [name for name, kept in state.items() if not kept]:
            plain["removed"] = removed
    return plain


def _interrupt(header: Header | None, payload: Payload) -> str:
    if not isinstance(payload.facts, dict):
        return ""
    found = payload.facts.get("id" if header is not None and header.kind == "interrupt" else "interrupt", "")
    return found if isinstance(found, str) else ""
