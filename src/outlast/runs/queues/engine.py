"""Queues of another engine than our own workers: it says when and where, the ledger says whether.

A run in such a queue is taken by one who names it, under the same limits and with the same claim as any other. What is
ready in the queue is what the engine has to be told of: it stays so until somebody has claimed it, so whoever tells may
die at any time.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from msgspec import Struct

from outlast.errors import QueueNotFound
from outlast.flows.spec import NO_LIMITS
from outlast.home import act
from outlast.home.caller import Caller, Repeatable, once
from outlast.home.home import Home
from outlast.home.place import check_name
from outlast.ids import random_id
from outlast.runs import claim as claims
from outlast.runs.claim import RunClaim
from outlast.runs.holder import holder_of
from outlast.runs.look import PAGE, each_run
from outlast.runs.queues.queue import Queue, Serves, claim_entry, make_ready, may_begin, queue_named
from outlast.runs.queues.workers import reason_of
from outlast.runs.run import FINISHED, OUTLAST
from outlast.store.contract import InterruptRow, LeaseRow, QueueEntry, Reading, RunRow, Writing, every_row
from outlast.values.codec import decode

HELD_SECONDS, LIMITED_SECONDS, PAUSED_SECONDS, UNSERVED_SECONDS = 1.0, 0.5, 2.0, 5.0
MOVED, UNKNOWN = "moved", "unknown"
STATES = ("delayed", "idle", "ready", "taken")
ADOPTED = ("waiting", "interrupted", "running")  # a run that executes is taken once it waits or its owner died


class Ended(Struct, frozen=True):
    """The engine has nothing more to do for it: how it stands."""

    status: str  # succeeded, aborted, failed; moved: another engine has it; unknown: the ledger does not know it


class Waits(Struct, frozen=True):
    """It waits: for so many seconds, or until something is told of it (None)."""

    seconds: float | None = None


class Busy(Struct, frozen=True):
    """It can go on, and not now, or not here: why, and after how long to ask again."""

    why: str
    seconds: float


class EngineRun(Struct, frozen=True):
    """An unfinished run of an engine's queue."""

    id: str
    scope: str
    task: str
    flow: str
    status: str
    queue: str
    epoch: int
    tags: tuple[str, ...] = ()


Standing = Ended | Waits | Busy


# -- taking ------------------------------------------------------------------------------------------


def take(caller: Caller, run_id: str, engine: str, serves: Serves) -> RunClaim | Standing:
    """Claim a run that can go on, within the limits of its queue; or say how it stands.

    One transaction looks and claims: however many ask for it, one has it. `serves`: whether its flow is worked on here.
    """
    look = lambda reading: _found(caller, reading, run_id, engine, serves)  # noqa: E731
    found = caller.home.store.read(look)
    if not isinstance(found, QueueEntry):
        return found

    def work(tx: Writing) -> RunClaim | Standing:
        entry = _found(caller, tx, run_id, engine, serves)
        if not isinstance(entry, QueueEntry):
            return entry
        claimed = claim_entry(caller, tx, entry, caller.home.clock.now())
        return claimed if claimed is not None else Waits(claims.REFUSED_US / 1_000_000)

    taken = caller.home.store.write(work)
    if isinstance(taken, RunClaim):
        claims.tell_taken(caller.home, taken)
    return taken


def stand(caller: Caller, run_id: str, engine: str, serves: Serves) -> Standing | None:
    """How a run stands for an engine; None when it can go on."""
    found = caller.home.store.read(lambda look: _found(caller, look, run_id, engine, serves))
    return None if isinstance(found, QueueEntry) else found


def _found(caller: Caller, look: Reading, run_id: str, engine: str, serves: Serves) -> QueueEntry | Standing:
    """Its entry, if it can go on now."""
    row, lease = look.run_by_id(run_id), look.lease_of(run_id)
    if row is None or lease is None:
        return Ended(UNKNOWN)
    if row.status in FINISHED:
        return Ended(row.status)
    entry = look.entry_of(row.key)
    queue = look.queue_of(entry.queue) if entry is not None else None
    if row.seal or entry is None or queue is None or queue.engine != engine:
        return Ended(MOVED)
    holder = holder_of(caller, look, run_id, lease)
    if holder:
        return Busy(f"it is executed by {holder}", HELD_SECONDS)
    if queue.paused and _reason(caller, look, row, lease, entry):
        return Busy("its queue is paused", PAUSED_SECONDS)
    return _turn(caller, look, row, lease, entry, serves)


def _turn(
    caller: Caller, look: Reading, row: RunRow, lease: LeaseRow, entry: QueueEntry, serves: Serves
) -> QueueEntry | Standing:
    now = caller.home.clock.now()
    if entry.state == "delayed" and entry.due_at > now:
        return Waits((entry.due_at - now) / 1_000_000)
    if not _reason(caller, look, row, lease, entry):
        return Ended("failed") if row.status == "failed" else Waits(_seconds_left(look, row, now))
    if not serves(row):
        return Busy("no flow of this worker is its flow", UNSERVED_SECONDS)
    if entry.state != "taken" and not may_begin(look, entry, now):
        return Busy("a limit of its flow is reached", LIMITED_SECONDS)
    return entry


def _reason(caller: Caller, look: Reading, row: RunRow, lease: LeaseRow, entry: QueueEntry) -> str:
    """Why it can go on; empty when it cannot."""
    if row.status == "queued":
        return "queued"
    if is_asked(look, row):
        return "asked"
    return reason_of(caller, look, row.id)


def is_asked(look: Reading, row: RunRow) -> bool:
    """Whether somebody asked for something, such as another try of a step, of a run that failed or was stopped."""
    return row.status in ("failed", "interrupted") and any(kind != "pause" for _, kind, _, _ in look.untaken(row.key))


def _seconds_left(look: Reading, row: RunRow, now: int) -> float | None:
    """Until something that it waits for is due by itself."""
    times = [at for wait in look.waits_of(row.key) for at in _times(look, wait, now)]
    return max(min(times) - now, 0) / 1_000_000 if times else None


def _times(look: Reading, wait: InterruptRow, now: int) -> Iterator[int]:
    if wait.status != "open":
        return
    if wait.due_at is not None:
        yield wait.due_at
    child = look.run_by_id(str(decode(wait.payload).get("child", ""))) if wait.type == "child" else None
    left = _seconds_left(look, child, now) if child is not None else None
    if left is not None:
        yield now + int(left * 1_000_000)


# -- what an engine has to be told of ----------------------------------------------------------------


def mark_of(home: Home, engine: str) -> str:
    """What tells this ledger's queues from others of the same names at an engine: given once, and kept."""
    name = f"engine\n{engine}"  # a name that no target of notifications can have
    found = home.store.read(lambda look: look.told(name))
    while found is None:
        home.store.write(lambda tx: tx.add_told(name, random_id()))
        found = home.store.read(lambda look: look.told(name))
    return found.state


def queues_of(home: Home, engine: str) -> list[str]:
    """The queues whose runs it takes."""
    return home.store.read(lambda look: [row.name for row in look.queues() if row.engine == engine])


def wake_asked(caller: Caller) -> None:
    """Put runs that failed or were stopped, and for which somebody asked for something since, back into their queue."""
    store = caller.home.store
    for row in every_row(lambda after: store.read(lambda look: look.runs_asked(after, PAGE)), lambda row: row.key):
        if store.read(partial(is_asked, row=row)):
            make_ready(caller, row.id)


def runs_in(home: Home, queue: str, *states: str) -> Iterator[EngineRun]:
    """The unfinished runs of a queue whose entries are in one of these states; all of them without any."""
    for state in states or STATES:
        page = partial(_page, home, queue, state)
        yield from (run for _, run in every_row(page, lambda found: found[0]) if run is not None)


def _page(home: Home, queue: str, state: str, after: int) -> list[tuple[int, EngineRun | None]]:
    def look(reading: Reading) -> list[tuple[int, EngineRun | None]]:
        return [(entry.run, _run(reading, entry)) for entry in reading.entries_in(queue, state, after, PAGE)]

    return home.store.read(look)


def _run(look: Reading, entry: QueueEntry) -> EngineRun | None:
    row = look.run_by_key(entry.run)
    lease = look.lease_of(row.id) if row is not None else None
    if row is None or lease is None or row.seal:
        return None
    named = (row.id, row.scope, row.task, row.flow, row.status, entry.queue)
    return EngineRun(*named, lease.epoch, tuple(look.tags_of(row.key)))


# -- from one engine to another ----------------------------------------------------------------------


def move(caller: Caller, queue: str, engine: str, operation_id: str | None, *, adopt: bool = False) -> Queue:
    """Let another engine take the runs of a queue, all at once. Those that execute do so to their next wait.

    `adopt`: what is in no queue, waits and is nobody's is put into this one. Raises QueueNotFound.
    """
    check_name("queue", queue)
    stored = "" if engine == OUTLAST else engine

    def work(tx: Writing) -> tuple[Queue, str]:
        before = tx.queue_of(queue)
        if before is None and not adopt:
            raise QueueNotFound(queue)
        tx.add_queue(queue, stored)
        tx.set_engine(queue, stored)
        was = (before.engine or OUTLAST) if before is not None else None
        if was != engine or adopt:
            act.note(caller, tx, "queue", queue, "moved", {"engine": was}, {"engine": engine})
        return queue_named(tx, queue), queue

    moved = Repeatable(operation_id, "queue_move", [queue, engine, adopt])
    found = once(caller.home, moved, work, lambda _: caller.home.store.read(lambda look: queue_named(look, queue)))
    for status in ADOPTED if adopt else ():
        for row in each_run(caller.home, status):
            caller.home.store.write(partial(_adopted, caller.home, row.id, queue))
    return caller.home.store.read(lambda look: queue_named(look, queue)) if adopt else found


def _adopted(home: Home, run_id: str, queue: str, tx: Writing) -> None:
    """Put a run into a queue if it is in none. A child goes on with its parent, a script's run with the script."""
    row = tx.run_by_id(run_id)
    if row is None or row.parent or row.seal or row.flow.startswith("script:") or row.status not in ADOPTED:
        return
    if tx.entry_of(row.key) is None:
        now, lane = home.clock.now(), NO_LIMITS.lane(row.identity, {}, ())
        tx.add_entry(QueueEntry(row.key, queue, lane, 0, now, 0, 0, 0, "idle", now))
