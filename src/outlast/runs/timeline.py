"""The timeline of a run: every attempt, wait, decision, child, phase and stop of it in order, made from its journal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from outlast.clock import moment
from outlast.ledger.journal import CALLS, TESTIMONY, Header, Payload, Row, decode_header, decode_payload
from outlast.runs.call import Call, id_of, labels
from outlast.runs.waits.interrupt import Interrupt
from outlast.values.frozen import dataclass

SILENT = ("mark", "needs", "left", "reached")  # facts about a run that steer a resume and are nothing that happened
STOPS = ("waiting", "interrupted", "failed", "crashed")  # what a run goes on after
SHOWN_ELSEWHERE = ("timer", "child")  # waits that a sleep or a child run stands for


@dataclass(frozen=True, slots=True)
class TimelineItem:
    """One thing that happened in a run, and how long it took."""

    run_id: str
    seq: int  # of the entry that it was first heard of in; 0 for a wait that has no entry yet
    kind: str  # run, step, effect, wait, decision, sleep, child, phase, testimony
    name: str  # of a step its label, of a phase its word, of the run what became of it
    status: str
    attempt: int
    started_at: datetime
    ended_at: datetime | None  # None while it goes on, and when nobody knows
    epoch: int  # of the worker that wrote it: one more each time that the run was taken up
    note: str = ""  # the error, who answered, why
    call: str = ""
    interrupt: str = ""
    child: str = ""  # id of the child run, which has a timeline of its own

    @property
    def seconds(self) -> float | None:
        """How long it took; None when it has not ended, or nobody knows."""
        return None if self.ended_at is None else (self.ended_at - self.started_at).total_seconds()


def timeline_of(run_id: str, status: str, rows: Sequence[Row], waits: Sequence[Interrupt]) -> list[TimelineItem]:
    """Everything in the order in which it began. `status` is how the run stands, `waits` are all it ever had."""
    story = _Story(run_id, labels(rows), {wait.id: wait for wait in waits})
    for row in rows:
        story.add(row, decode_header(row.header), decode_payload(row.payload) if row.payload else Payload())
    story.end(status)
    return sorted(story.items, key=lambda item: (item.epoch, item.started_at, item.seq or len(rows) + 1))


class _Story:
    """The items so far, and where those stand that may still change."""

    def __init__(self, run_id: str, names: dict[Call, str], waits: dict[str, Interrupt]) -> None:
        self._run_id, self._names, self._waits = run_id, names, waits
        self.items: list[TimelineItem] = []
        self._places: dict[Any, int] = {}
        self._told: set[str] = set()  # waits that have an entry
        self._heard = 0  # when the last entry was written
        self._epoch = 1

    def add(self, row: Row, header: Header, payload: Payload) -> None:
        call = Call(header.scope, header.name, header.inputs, header.occurrence)
        facts = payload.facts if isinstance(payload.facts, dict) else {}
        match header.kind:
            case "run":
                self._run(row.seq, header, facts)
            case "step" | "effect" if header.mark not in ("decided", "reused"):
                self._attempt(row.seq, header, call, payload)
            case "decision" | "step" | "effect":
                self._decision(row.seq, header, call, facts)
            case "wait":
                self._wait(row.seq, header, call, facts)
            case "sleep" | "spawn":
                self._span(row.seq, header, call, payload, facts)
            case "emit" if _is_phase(header) and isinstance(payload.facts, str):
                self._put(self._made(row.seq, header, "phase", payload.facts))
            case "testimony":
                self._put(self._made(row.seq, header, TESTIMONY, header.name, status=header.status))
            case _:
                pass  # values that the body was told, and events, which `outlast events` shows
        self._heard, self._epoch = max(self._heard, header.ended_at, header.started_at), header.epoch or self._epoch

    # -- the run itself --------------------------------------------------------------------------

    def _run(self, seq: int, header: Header, facts: dict[str, Any]) -> None:
        if header.name in SILENT:
            return
        if header.name == "resumed":
            if facts.get("from") == "crashed":
                self._crash(seq)
            self._close_stop(header.started_at)
        made = self._made(seq, header, "run", header.name, status=header.name, note=_about_run(header.name, facts))
        if header.name in STOPS:
            self._places["stop"] = len(self.items)
            made = replace(made, ended_at=None)
        self._put(made)

    def _crash(self, seq: int) -> None:
        """Its owner died after the last entry that it wrote; when, nobody knows."""
        self._places["stop"] = len(self.items)
        at = moment(self._heard)
        note = "the last sign of life"
        self._put(TimelineItem(self._run_id, seq, "run", "crashed", "crashed", 0, at, None, self._epoch, note=note))

    def _close_stop(self, at: int) -> None:
        place = self._places.pop("stop", None)
        if place is not None:
            self.items[place] = replace(self.items[place], ended_at=moment(at))

    # -- calls -----------------------------------------------------------------------------------

    def _attempt(self, seq: int, header: Header, call: Call, payload: Payload) -> None:
        """A start makes an item, an outcome ends it; an effect that is settled later has two outcomes."""
        place = (call, header.attempt, header.started_at)
        known = self._places.get(place)
        began = self.items[known].seq if known is not None else seq
        made = self._made(began, header, header.kind, self._names[call], call=call, status=header.status)
        made = replace(made, note=_about_attempt(header, payload), attempt=header.attempt)
        if header.status == "started":
            made = replace(made, ended_at=None)
        self._put(made, place)

    def _decision(self, seq: int, header: Header, call: Call, facts: dict[str, Any]) -> None:
        wait = self._waits.get(facts.get("interrupt", ""))
        self._told.add(facts.get("interrupt", ""))
        at = moment(header.ended_at)
        status = "reuse" if header.mark == "reused" else "skip" if header.status == "skipped" else header.status
        name = self._names.get(call, call.path)
        made = self._made(seq, header, "decision", name, call=call, status=status, note=_by(facts))
        began = wait.opened_at if wait is not None else at
        self._put(replace(made, started_at=began, ended_at=at, interrupt=facts.get("interrupt", "")))

    def _wait(self, seq: int, header: Header, call: Call, facts: dict[str, Any]) -> None:
        self._told.add(facts.get("interrupt", ""))
        status = "answered" if header.status == "succeeded" else header.status
        note = ", ".join(part for part in (str(facts.get("type", "")), _by(facts)) if part)
        made = self._made(seq, header, "wait", call.path, call=call, status=status, note=note)
        self._put(replace(made, interrupt=facts.get("interrupt", "")))

    def _span(self, seq: int, header: Header, call: Call, payload: Payload, facts: dict[str, Any]) -> None:
        """A sleep or a child run: its first entry begins it, a later one ends it."""
        known = self._places.get(call)
        over = bool(facts.get("over")) or bool(header.status)
        child = str(facts.get("child", ""))
        kind, name = ("child", child) if header.kind == "spawn" else ("sleep", call.path)
        made = self._made(seq, header, kind, name, call=call, status=header.status or ("over" if over else "started"))
        if known is not None:
            made = replace(made, seq=self.items[known].seq, started_at=self.items[known].started_at)
        note = _error(payload.error) if payload.error else ""
        self._put(replace(made, ended_at=made.ended_at if over else None, child=child, note=note), call)

    # -- the end ---------------------------------------------------------------------------------

    def end(self, status: str) -> None:
        """What is open now: attempts under way or crashed, waits without an answer, a run that died."""
        newest = {item.call: place for place, item in enumerate(self.items) if item.kind in CALLS}
        for place, item in enumerate(self.items):
            if item.kind in CALLS and item.status == "started":
                lives = status == "running" and item.epoch == self._epoch and newest[item.call] == place
                self.items[place] = replace(item, status="running" if lives else "crashed")
        if status == "crashed" and "stop" not in self._places:
            self._crash(self.items[-1].seq if self.items else 0)
        for wait in self._waits.values():
            if wait.id not in self._told and wait.type not in SHOWN_ELSEWHERE:
                self._put(self._untold(wait))

    def _untold(self, wait: Interrupt) -> TimelineItem:
        status = "settled" if wait.status == "used" else wait.status
        made = TimelineItem(self._run_id, 0, "wait", wait.step, status, 0, wait.opened_at, None, self._epoch)
        return replace(made, note=wait.type, call=wait.call, interrupt=wait.id)

    def _made(
        self,
        seq: int,
        header: Header,
        kind: str,
        name: str,
        *,
        call: Call | None = None,
        status: str = "",
        note: str = "",
    ) -> TimelineItem:
        began, ended = moment(header.started_at), moment(header.ended_at or header.started_at)
        made = TimelineItem(self._run_id, seq, kind, name, status, 0, began, ended, header.epoch or self._epoch)
        return replace(made, note=note, call=id_of(call) if call else "")

    def _put(self, item: TimelineItem, place: Any = None) -> None:
        known = self._places.get(place) if place is not None else None
        if known is not None:
            self.items[known] = replace(item, epoch=self.items[known].epoch)
            return
        if place is not None:
            self._places[place] = len(self.items)
        self.items.append(item)


# -- in words ----------------------------------------------------------------------------------------


def _is_phase(header: Header) -> bool:
    """Whether an entry is the run's phase: set by the body, which has no key; a step may use the word."""
    return header.name == "phase" and header.mark == "fact" and not header.key


def _about_run(name: str, facts: dict[str, Any]) -> str:
    match name:
        case "started":
            return f"by {facts['actor']}" if "actor" in facts else ""
        case "resumed":
            return f"from {facts.get('from', '')}, {facts.get('verdict', '')}"
        case "failed" | "retrying" if isinstance(facts.get("error"), dict):
            again = f"try {facts['retry']} of {facts['of']} follows; " if name == "retrying" else ""
            return again + _error(facts["error"])
        case "again" | "fresh":
            repeated = ", ".join(str(effect.get("step") or "unknown") for effect in facts.get("effects", ()))
            return f"{_by(facts)}: after run {facts.get('of', '')}" + (f", repeats {repeated}" if repeated else "")
        case "forked":
            return f"from {facts.get('step', '')} of run {facts.get('of', '')}, {_by(facts)}"
        case "accepted":
            return f"{facts.get('code', '')} {facts.get('subject', '')}: {facts.get('why', '')}"
        case _:
            return _by(facts)


def _about_attempt(header: Header, payload: Payload) -> str:
    if payload.error:
        return _error(payload.error)
    return {"confirmed": "its probe found it", "not_done": "not done"}.get(header.mark, "")


def _by(facts: dict[str, Any]) -> str:
    by, why = str(facts.get("by", "") or ""), str(facts.get("why", "") or "")
    return ": ".join(part for part in (f"by {by}" if by else "", why) if part)


def _error(error: dict[str, Any]) -> str:
    kind = str(error.get("type", "")).rpartition(":")[2]
    return f"{kind}: {error.get('message', '')}"
