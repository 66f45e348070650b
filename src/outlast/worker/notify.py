"""Telling people: what is to be told is read from the ledger itself, so that a crash loses nothing of it.

The journal is the outbox. Of each target only the number is kept up to which it was told, and it is written after the
message was taken: whoever dies between the two tells it again, under the same id. A target that takes nothing is tried
again, later and later, and what comes meanwhile waits behind. What is in no journal (a deadline that comes near, a
process that died, a handoff that something contests) is looked for, and told once.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from outlast.errors import OutlastError
from outlast.python.outlast import Outlast
from outlast.runs.home_events import HomeEvent
from outlast.runs.waits.interrupt import is_for_people
from outlast.values.codec import decode, encode
from outlast.worker.send import Notice, NotTaken, send
from outlast.worker.targets import Target, Targets, answer_token, write_private

LOOK_SECONDS = 1.0
SEARCH_SECONDS = 15.0  # between two looks for what is in no journal
NEAR_SECONDS = 3600.0
FIRST_SECONDS, LONGEST_SECONDS = 1.0, 300.0  # before a message is sent again
KEPT = 2000  # ids of what was told that has no number
DOUBTS = ("in_doubt", "crash_loop", "inputs_changed", "partial")
Tell = Callable[[str], None]


class Told(Struct):
    """How far a target was told."""

    upto: int | None = None  # None: it is new, and is told what comes from now on
    told: list[str] = []
    tries: int = 0
    next_at: float = 0.0
    error: str = ""


class Notifier:
    """Tells the targets of one tenant. Of several processes on one home one does it."""

    def __init__(self, outlast: Outlast, home: Path, tenant: str, *, tell: Tell = lambda line: None) -> None:
        self._outlast, self._tenant, self._tell = outlast, tenant, tell
        self.targets = Targets(home)
        self._place = home / "notify" / tenant
        self._searched = 0.0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, target: Target) -> None:
        """From now on it is told what comes; one that was told before goes on where it was."""
        state = self.told(target.name)
        if state.upto is None:
            state.upto = self._outlast.all_events().upto
            self._place.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._keep(target, state)

    # -- as a thread -----------------------------------------------------------------------------

    def start(self) -> None:
        self._thread = threading.Thread(target=self._live, name="outlast-notify", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(15)

    def _live(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            try:
                if self.targets.path.exists():
                    self.send_all()
            except (OutlastError, OSError, RuntimeError) as error:  # the next look may fare better
                self._tell(f"notifications: {error}")

    # -- one round -------------------------------------------------------------------------------

    def send_all(self, now: float | None = None) -> int:
        """Tell every target what it was not told yet; how many messages were taken. Nothing while another one does."""
        self._place.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(self._place / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            mine = [each for each in self.targets.all() if each.tenant == self._tenant]
            return sum(self._send_to(target, time.time() if now is None else now) for target in mine)
        except BlockingIOError:
            return 0
        finally:
            os.close(handle)

    def _send_to(self, target: Target, now: float) -> int:
        state, sent = self.told(target.name), 0
        if state.next_at > now:
            return 0
        if state.upto is None:
            state.upto = self._outlast.all_events().upto
            self._keep(target, state)
        try:
            sent += self._send_events(target, state)
            if now - self._searched >= SEARCH_SECONDS or not self._searched:
                sent += self._send_found(target, state)
        except NotTaken as error:
            state.tries += 1
            state.next_at = now + min(FIRST_SECONDS * 2 ** (state.tries - 1), LONGEST_SECONDS)
            state.error = str(error)
            self._keep(target, state)
            self._tell(f"{target.name} was not told (try {state.tries}): {error}")
        return sent

    def _send_events(self, target: Target, state: Told) -> int:
        sent, more = 0, True
        while more and not self._stop.is_set():
            page = self._outlast.all_events(after=state.upto, limit=200)
            for event in page.items:
                sent += self._send_event(target, state, event)
            moved, state.upto, more = state.upto != page.upto, page.upto, page.more
            if moved:
                self._keep(target, state)
        return sent

    def _send_event(self, target: Target, state: Told, event: HomeEvent) -> int:
        kind = kind_of(event)
        if kind not in target.on:
            return 0
        send(target, _of_event(target, event, kind))
        state.upto, state.tries, state.next_at, state.error = event.number, 0, 0.0, ""
        self._keep(target, state)
        return 1

    def _send_found(self, target: Target, state: Told) -> int:
        self._searched, sent = time.time(), 0
        for message in self._found(target):
            if message.id not in state.told:
                send(target, message)
                state.told, state.tries, state.error = [*state.told, message.id][-KEPT:], 0, ""
                self._keep(target, state)
                sent += 1
        return sent

    def _found(self, target: Target) -> Iterator[Notice]:
        """What is in no journal."""
        now = datetime.now(UTC)
        if "deadline" in target.on:
            for wait in self._outlast.interrupts():
                if wait.due_at and wait.is_for_people and now < wait.due_at <= now + timedelta(seconds=NEAR_SECONDS):
                    text = f"{wait.says} (until {wait.due_at:%H:%M} UTC)"
                    yield _of_wait(target, f"{wait.id}:deadline", "deadline", text, wait.run_id, wait.id)
        if "crashed" in target.on:
            for run in self._outlast.runs(status="crashed", limit=100):
                text = f"{run.flow.rpartition(':')[2]} stopped: the process that ran it died"
                yield _message(target, f"{run.id}:crashed:{run.epoch}", "crashed", text, run.id, flow=run.flow)
        if "contested" in target.on:
            for one in self._outlast.inbox().contested:
                text = f"handoff {one.anchor} is contested: {one.summary}"
                yield Notice(f"{one.handoff_id}:contested", "contested", _now(), text, f"{target.link}/handoffs")

    # -- how far each was told -------------------------------------------------------------------

    def told(self, name: str) -> Told:
        """How far a target was told."""
        try:
            return msgspec.convert(decode((self._place / f"{_file(name)}.json").read_bytes()), Told)
        except (OSError, ValueError, TypeError, msgspec.ValidationError):
            return Told()

    def _keep(self, target: Target, state: Told) -> None:
        write_private(self._place / f"{_file(target.name)}.json", encode(state))


def _file(name: str) -> str:
    return name.encode().hex()


def kind_of(event: HomeEvent) -> str:
    """For what of `ON` an event stands; empty for none."""
    body = event.event.body if isinstance(event.event.body, dict) else {}
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


def _of_event(target: Target, event: HomeEvent, kind: str) -> Notice:
    told, body = event.event, event.event.body if isinstance(event.event.body, dict) else {}
    known: dict[str, Any] = {"flow": event.flow, "task": event.task, "scope": event.scope}
    number, name = f"{told.run_id}:{told.seq}", event.flow.rpartition(":")[2]
    if kind in ("opened", "doubt"):
        wait = str(body.get("id", ""))
        return _of_wait(target, number, kind, str(body.get("says") or told.name), told.run_id, wait, **known)
    error = body.get("error") if isinstance(body.get("error"), dict) else {}
    text = f"{name} {told.name.partition('.')[2]}" + (f": {error.get('message', '')}" if error else "")
    return _message(target, number, kind, text, told.run_id, at=told.at.isoformat(), **known)


def _of_wait(target: Target, id: str, kind: str, text: str, run_id: str, wait: str, **known: Any) -> Notice:
    answer = ""
    if target.answers and kind in ("opened", "deadline"):
        answer = f"{target.link}/answer/{answer_token(target, wait, int(time.time()))}"
    link = f"{target.link}/inbox/{wait}" if target.link else ""
    return Notice(id, kind, _now(), text, link, answer, run_id, interrupt=wait, **known)


def _message(target: Target, id: str, kind: str, text: str, run_id: str, at: str = "", **known: Any) -> Notice:
    link = f"{target.link}/runs/{run_id}" if target.link else ""
    return Notice(id, kind, at or _now(), text, link, "", run_id, **known)


def _now() -> str:
    return datetime.now(UTC).isoformat()


def trial(target: Target) -> Notice:
    """A message that only shows that it arrives."""
    return Notice(f"test:{int(time.time())}", "opened", _now(), "This is a test of the notifications.", target.link)
