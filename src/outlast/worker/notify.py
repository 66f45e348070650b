"""Telling people: what is to be told is read from the ledger itself, so that a crash loses nothing of it.

The journal is the outbox. Of each target the ledger keeps the number up to which it was told, written after the message
was taken: whoever dies between the two leaves it to be told again, under the same id. Of all processes on a ledger, on
whatever machine, one at a time tells a target: it holds that target in the ledger, until it is done or found dead. A
target that takes nothing is tried again, later and later, and what comes meanwhile waits behind.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from outlast import failpoints
from outlast.errors import EventAhead, OutlastError
from outlast.runs.holder import is_dead
from outlast.runs.waits.interrupt import is_for_people
from outlast.values.codec import decode, encode
from outlast.worker.targets import Notice, NotTaken, Target, Targets, answer_token, send

if TYPE_CHECKING:
    from pathlib import Path

    from outlast.python.outlast import Outlast
    from outlast.runs.events import HomeEvent, HomeEvents
    from outlast.store.contract import ToldRow, Writing

LOOK_SECONDS = 1.0
SEARCH_SECONDS = 15.0  # between two looks for what is in no journal
SPARED = 250  # and such a multiple of what the last one took
FIRST_SECONDS, LONGEST_SECONDS = 1.0, 300.0  # before a message is sent again
KEPT = 2000  # ids of what was told that has no number, besides those that are still so
SKIPPED = 5000  # entries of no interest, after which it is noted that they were passed
PAGE = 200
Tell = Callable[[str], None]


class Told(Struct):
    """How far a target was told."""

    upto: int = 0  # the number of the last event that it was told, or that is of no interest to it
    told: list[str] = []
    tries: int = 0
    next_at: float = 0.0
    error: str = ""


class TakenOver(Exception):
    """Another process tells this target now: this one was taken for dead."""


class Notifier:
    """Tells the targets of one tenant. Of several processes on one ledger one at a time tells each of them."""

    def __init__(self, outlast: Outlast, home: Path, tenant: str, *, tell: Tell = lambda line: None) -> None:
        self._outlast, self._tenant, self._tell = outlast, tenant, tell
        self._home = outlast._executor.home
        self.targets = Targets(home)
        self._passed: dict[str, int] = {}  # up to where nothing is of interest to a target
        self._search_at: dict[str, float] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, target: Target) -> None:
        """From now on it is told what comes; one that was told before goes on where it was."""
        if self._row(target) is None:
            state = encode(Told(self._outlast.all_events().upto)).decode()
            self._home.store.write(lambda tx: tx.add_told(target.name, state))

    def told(self, target: Target) -> Told:
        """How far a target was told."""
        row = self._row(target)
        return Told() if row is None else msgspec.convert(decode(row.state), Told)

    def _row(self, target: Target) -> ToldRow | None:
        return self._home.store.read(lambda look: look.told(target.name))

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
        """Tell every target what it was not told yet; how many messages were taken. None that another one tells."""
        at = time.time() if now is None else now
        return sum(self._send_to(target, at) for target in self.targets.all() if target.tenant == self._tenant)

    def _send_to(self, target: Target, now: float) -> int:
        self.begin(target)
        if self.told(target).next_at > now or not self._has_news(target, now):
            return 0
        sent: list[str] = []
        try:
            with self._held(target) as state:
                if state is not None:
                    self._send_news(target, state, now, sent)
        except TakenOver:
            self._tell(f"{target.name} is told by another process now")
        return len(sent)

    def _send_news(self, target: Target, state: Told, now: float, sent: list[str]) -> None:
        try:
            for message, upto in self._news(target, state, now):
                # its process lives, however long a target takes to take a message
                self._home.store.write_soon(lambda tx: tx.beat(self._home.beat()))
                send(target, message)
                failpoints.reached("notify.sent")
                sent.append(message.id)
                state.tries, state.next_at, state.error = 0, 0.0, ""
                state.upto = max(state.upto, upto)
                state.told += [message.id] if not upto else []
                self._keep(target, state)
        except NotTaken as error:
            state.tries += 1
            state.next_at = now + min(FIRST_SECONDS * 2 ** (state.tries - 1), LONGEST_SECONDS)
            state.error = str(error)
            self._keep(target, state)
            self._tell(f"{target.name} was not told (try {state.tries}): {error}")

    # -- what there is to tell -------------------------------------------------------------------

    def _has_news(self, target: Target, now: float) -> bool:
        """Whether to take the target up: nothing is written for what is of no interest to it."""
        if now >= self._search_at.get(target.name, 0.0):
            return True
        upto, more = self.told(target).upto, True
        passed = max(upto, self._passed.get(target.name, 0))
        while more:
            page = self._page(passed)
            if any(kind_of(event) in target.on for event in page.items):
                return True
            passed, more = page.upto, page.more
        self._passed[target.name] = passed
        return passed - upto > SKIPPED

    def _news(self, target: Target, state: Told, now: float) -> Iterator[tuple[Notice, int]]:
        """Each message, with the number of its event; 0 where it has none."""
        more = True
        while more and not self._stop.is_set():
            page = self._page(state.upto)
            for event in page.items:
                if (kind := kind_of(event)) in target.on:
                    yield of_event(target, event, kind), event.number
            state.upto, more = page.upto, page.more
        if now >= self._search_at.get(target.name, 0.0):
            yield from ((message, 0) for message in self._found(target, state, now))

    def _page(self, after: int) -> HomeEvents:
        try:
            return self._outlast.all_events(after=after, limit=PAGE)
        except EventAhead:  # the home is an older copy of itself, such as a backup: it goes on from what it knows
            return self._outlast.all_events()

    def _found(self, target: Target, state: Told, now: float) -> list[Notice]:
        """What is in no journal and was not told yet. It is told once, as long as it is so."""
        before = time.thread_time()
        standing = list(found(self._outlast, target, now))
        self._search_at[target.name] = now + max(SEARCH_SECONDS, (time.thread_time() - before) * SPARED)
        ids = {message.id for message in standing}
        over = [id for id in state.told if id not in ids]
        state.told = [*over[-KEPT:], *(id for id in state.told if id in ids)]
        return [message for message in standing if message.id not in state.told]

    # -- whose turn it is ------------------------------------------------------------------------

    @contextmanager
    def _held(self, target: Target) -> Iterator[Told | None]:
        """How far it was told, held until the block ends; None while somebody else tells it."""
        me = self._home.process.id
        told, mine = (me, target.name), object()
        if _TELLING.setdefault(told, mine) is not mine:
            yield None
            return
        try:
            row = self._home.store.write(lambda tx: self._take(tx, target.name, me))
            if row is None:
                yield None
                return
            failpoints.reached("notify.held")
            state = msgspec.convert(decode(row.state), Told)
            try:
                yield state
                self._keep(target, state)
            finally:
                self._home.store.write(lambda tx: tx.take_told(target.name, "", me))
        finally:
            del _TELLING[told]

    def _take(self, tx: Writing, name: str, me: str) -> ToldRow | None:
        tx.beat(self._home.beat())
        row = tx.told(name)
        if row is None or (row.holder not in ("", me) and not is_dead(self._home, tx, row.holder)):
            return None
        return row if tx.take_told(name, me, row.holder) else None

    def _keep(self, target: Target, state: Told) -> None:
        said, me = encode(state).decode(), self._home.process.id
        if not self._home.store.write(lambda tx: tx.keep_told(target.name, said, me)):
            raise TakenOver


_TELLING: dict[tuple[str, str], object] = {}  # what threads of this process are at: in the ledger they have one name


# -- what is told: an event of a journal, or something that is in none, as a message that a person reads


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
