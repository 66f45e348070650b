"""What is told of what: an event of a journal, or something that is in none, as a message that a person reads."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from outlast.python.outlast import Outlast
from outlast.runs.home_events import HomeEvent
from outlast.runs.waits.interrupt import is_for_people
from outlast.worker.send import Notice
from outlast.worker.targets import Target, answer_token

NEAR_SECONDS = 3600.0
CRASHED = 100  # of the runs that died so many of the newest are looked at
DOUBTS = ("in_doubt", "crash_loop", "inputs_changed", "partial")


def kind_of(event: HomeEvent) -> str:
    """For what of `ON` an event stands; empty for none."""
    body = _body(event)
    match event.event.name:
        case "interrupt.opened" if body.get("type") in DOUBTS:
            return "doubt"
        case "interrupt.opened" if is_for_people(str(body.get("type"))):
            return "opened"
        case "run.failed":
            return "failed"
        case "run.succeeded" | "run.aborted":
            return "finished"
        case _:
            return ""


def of_event(target: Target, event: HomeEvent, kind: str) -> Notice:
    """An event of a journal. Its id is the place of its entry: the same, whoever tells it."""
    told, body = event.event, _body(event)
    known: dict[str, Any] = {"flow": event.flow, "task": event.task, "scope": event.scope, "at": told.at.isoformat()}
    number, name = f"{told.run_id}:{told.seq}", event.flow.rpartition(":")[2]
    if kind in ("opened", "doubt"):
        wait = str(body.get("id", ""))
        return _of_wait(target, number, kind, str(body.get("says") or told.name), told.run_id, wait, **known)
    error = body.get("error") if isinstance(body.get("error"), dict) else {}
    text = f"{name} {told.name.partition('.')[2]}" + (f": {error.get('message', '')}" if error else "")
    return _of_run(target, number, kind, text, told.run_id, **known)


def found(outlast: Outlast, target: Target, now: float) -> Iterator[Notice]:
    """What is in no journal: a deadline that comes near, a process that died, a handoff that something contests."""
    if "deadline" in target.on:
        yield from _deadlines(outlast, target, datetime.fromtimestamp(now, UTC))
    if "crashed" in target.on:
        for run in outlast.runs(status="crashed", limit=CRASHED):
            text = f"{run.flow.rpartition(':')[2]} stopped: the process that ran it died"
            known = {"flow": run.flow, "task": run.task, "scope": run.scope, "at": run.updated_at.isoformat()}
            yield _of_run(target, f"{run.id}:crashed:{run.epoch}", "crashed", text, run.id, **known)
    if "contested" in target.on:
        for one in outlast.inbox().newest_contested:
            text = f"handoff {one.anchor} is contested: {one.summary}"
            place = urlencode({"anchor": one.anchor, "scope": one.scope})
            link = f"{target.link}/handoff?{place}" if target.link else ""
            id = f"{one.handoff_id}:contested"
            yield Notice(id, "contested", one.stored_at.isoformat(), text, link, scope=one.scope)


def _deadlines(outlast: Outlast, target: Target, now: datetime) -> Iterator[Notice]:
    for wait in outlast.interrupts():
        if wait.due_at and wait.is_for_people and now < wait.due_at <= now + timedelta(seconds=NEAR_SECONDS):
            text = f"{wait.says} (until {wait.due_at:%H:%M} UTC)"
            at = {"at": wait.opened_at.isoformat()}
            yield _of_wait(target, f"{wait.id}:deadline", "deadline", text, wait.run_id, wait.id, **at)


def _of_wait(target: Target, id: str, kind: str, text: str, run_id: str, wait: str, at: str, **known: Any) -> Notice:
    answer = ""
    if target.answers and kind in ("opened", "deadline"):
        answer = f"{target.link}/answer/{answer_token(target, wait, int(time.time()))}"
    link = f"{target.link}/inbox/{wait}" if target.link else ""
    return Notice(id, kind, at, text, link, answer, run_id, interrupt=wait, **known)


def _of_run(target: Target, id: str, kind: str, text: str, run_id: str, at: str, **known: Any) -> Notice:
    link = f"{target.link}/runs/{run_id}" if target.link else ""
    return Notice(id, kind, at, text, link, "", run_id, **known)


def _body(event: HomeEvent) -> dict[str, Any]:
    return event.event.body if isinstance(event.event.body, dict) else {}


def trial(target: Target) -> Notice:
    """A message that only shows that it arrives."""
    now = datetime.now(UTC).isoformat()
    return Notice(f"test:{int(time.time())}", "opened", now, "This is a test of the notifications.", target.link)
