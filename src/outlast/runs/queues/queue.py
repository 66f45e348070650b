"""Queues: a run waits in one until a worker takes it, in a fair order and within the limits of its flow.

One transaction decides and claims: limits hold over all workers, and what was taken by one that died is free with its
lease. Among the lanes of a queue (a flow, or a flow and a value) the turn goes round; a larger priority goes first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct

from outlast.clock import moment
from outlast.errors import EngineConflict, OptionInvalid, OutlastError, QueueNotFound, RunHeld
from outlast.flows.spec import LANE, FlowSpec, rate_of
from outlast.home import act
from outlast.home.caller import Caller, Repeatable, once
from outlast.home.place import check_name
from outlast.runs import claim as claims
from outlast.runs.claim import REFUSED_US, RunClaim
from outlast.runs.holder import holder_of
from outlast.runs.queues.workers import AtWork, reason_of
from outlast.runs.run import FINISHED, MOST_PRIORITY, OUTLAST, Options
from outlast.runs.stops import SHUTDOWN
from outlast.store.contract import NewRun, QueueEntry, QueueRow, Reading, RunRow, Writing
from outlast.values.codec import decode
from outlast.values.late import late
from outlast.values.text import duration

if TYPE_CHECKING:
    from outlast.home.home import Home
    from outlast.runs import decisions
else:
    decisions = late("outlast.runs.decisions")

BY = "its queue"  # who ends a run that nobody took in time, for the record
LAST = "\U0010ffff"  # sorts after every lane
Serves = Callable[[RunRow], bool]


class Queue(Struct, frozen=True):
    """A queue as it stands."""

    name: str
    ready: int  # that could be taken now, as far as limits let them
    delayed: int  # until their time comes
    running: int
    idle: int  # that wait for something else, failed, or were stopped
    paused: bool = False
    paused_by: str = ""
    paused_at: datetime | None = None
    engine: str = ""  # that takes runs out of it, where it is not ours
    oldest_at: datetime | None = None  # since when the one waits that waits longest to be taken


def place_of(spec: FlowSpec, new: NewRun, options: Options) -> QueueEntry | None:
    """The place that a new run would have in its queue; None when it goes through none. Raises NameInvalid."""
    limits, name = spec.limits, options.queue_of(spec.limits.queue)
    if not name:
        return None
    delay = _micros("delay", options.delay)
    rate, window = rate_of(limits.rate) or (0, 0)
    lane = limits.lane(new.identity, decode(new.inputs), new.tags)
    state, due = ("delayed", new.at + delay) if delay > 0 else ("ready", new.at)
    queue = check_name("queue", name)
    most = (limits.concurrency, rate, window)
    entry = QueueEntry(0, queue, lane, options.priority, due, *most, state, new.at)
    patience = _micros("queue_timeout", options.queue_timeout or limits.queue_timeout)
    return entry._replace(expires_at=due + patience) if patience else entry


def _micros(option: str, value: float | str) -> int:
    """A time that was given. Raises OptionInvalid."""
    seconds = duration(value)
    if seconds is None or seconds < 0:
        raise OptionInvalid(option, f"it is {value!r:.100}, which is no time", "seconds, or text such as 10m")
    return int(seconds * 1_000_000)


def note_end(tx: Writing, run_key: int, status: str, stopped_by: str) -> None:
    """A run ends, waits or was stopped: it holds no slot any more. What a shutdown stopped is taken again."""
    if status in FINISHED:
        tx.drop_entry(run_key)
    else:
        tx.set_entry(run_key, "ready" if status == "interrupted" and stopped_by == SHUTDOWN else "idle")


def make_ready(caller: Caller, run_id: str) -> bool:
    """Put a run that can go on back into its queue, if it has one, and say whether it has.

    One that somebody else has taken since it was seen is his: its slot stays taken.
    """

    def work(tx: Writing) -> bool:
        entry, lease = _entry(tx, run_id), tx.lease_of(run_id)
        is_free = lease is not None and not holder_of(caller, tx, run_id, lease)
        if entry is not None and entry.state in ("idle", "taken") and is_free:
            tx.set_entry(entry.run, "ready")
        return entry is not None

    entry = caller.home.store.read(lambda look: _entry(look, run_id))
    if entry is None or entry.state not in ("idle", "taken"):
        return entry is not None
    return caller.home.store.write(work)


def put_engine(tx: Writing, queue: str, engine: str | None) -> None:
    """The queue is there, with the engine that a call names for it. Raises EngineConflict where it has another."""
    wanted = "" if engine in (None, OUTLAST) else str(engine)
    found = tx.queue_of(queue)
    if found is not None and engine is not None and found.engine != wanted:
        raise EngineConflict(queue, found.engine or OUTLAST, engine)
    if found is None:
        tx.add_queue(queue, wanted)


def _entry(look: Reading, run_id: str) -> QueueEntry | None:
    row = look.run_by_id(run_id)
    return look.entry_of(row.key) if row is not None else None


# -- taking ------------------------------------------------------------------------------------------


def _has_some(look: Reading, now: int, wanted: Collection[str], serves: Serves) -> bool:
    """Whether a run may be taken out of one of these queues: nothing is written to find that out."""
    queues = _worked_on(look.queues(), wanted)
    free = any(True for queue in queues for _ in _in_turn(look, queue, now, serves))
    return free or look.is_delayed_over(now)


def claim_next(caller: Caller, wanted: Collection[str], serves: Serves) -> RunClaim | None:
    """Take the run whose turn it is, of these queues (all, without any), if limits let one be taken.

    `serves` says whether runs of its flow are worked on here.
    """
    now = caller.home.clock.now()
    late, has_some = caller.home.store.read(lambda look: (look.expired(now), _has_some(look, now, wanted, serves)))
    if late:
        expire(caller)
    if not has_some:
        return None

    def work(tx: Writing) -> RunClaim | None:
        now = caller.home.clock.now()
        tx.release_delayed(now)
        for queue in _worked_on(tx.queues(), wanted):
            for entry in _in_turn(tx, queue, now, serves):
                claimed = claim_entry(caller, tx, entry, now)
                if claimed is not None:
                    return claimed
        return None

    claimed = caller.home.store.write(work)
    if claimed is not None:
        claims.tell_taken(caller.home, claimed)
    return claimed


def claim_entry(caller: Caller, tx: Writing, entry: QueueEntry, now: int) -> RunClaim | None:
    """The run of an entry, claimed; None when it cannot be now: then it is left alone for a while."""
    row = tx.run_by_key(entry.run)
    reason = ""
    try:
        reason = reason_of(caller, tx, row.id) if row is not None else ""
        claimed = claims.claim_in(caller, tx, row.id) if row is not None else None
    except RunHeld:
        claimed = None
        if row is not None and row.status == "running":  # somebody executes it: its slot is his
            tx.set_entry(entry.run, "taken")
            return None
    except OutlastError:  # it is sealed or contested: others first
        claimed = None
    if claimed is None:
        tx.set_entry(entry.run, "delayed", now + REFUSED_US)
        return None
    tx.serve_lane(entry.queue, entry.lane)
    if entry.rate and claimed.found == "queued":
        tx.add_begun(entry.lane, now, now - entry.window_us)
    return claimed._replace(reason=reason) if reason else claimed


def _worked_on(queues: list[QueueRow], wanted: Collection[str]) -> list[QueueRow]:
    """Those that our own workers take from: another engine's are left to it."""
    ours = [queue for queue in queues if not (queue.paused or queue.engine)]
    return [queue for queue in ours if not wanted or queue.name in wanted]


def _in_turn(look: Reading, queue: QueueRow, now: int, serves: Serves) -> Iterator[QueueEntry]:
    """The first run of each lane that may begin one: the largest priority first, then from the lane served last on."""
    priority = look.top_priority(queue.name, MOST_PRIORITY)
    while priority is not None:
        for after, upto in ((queue.served, LAST), ("", queue.served)):
            yield from _of_lanes(look, queue.name, priority, after, upto, now, serves)
        priority = look.top_priority(queue.name, priority)


def _of_lanes(
    look: Reading, queue: str, priority: int, after: str, upto: str, now: int, serves: Serves
) -> Iterator[QueueEntry]:
    while (entry := look.next_ready(queue, priority, after, upto)) is not None:
        row = look.run_by_key(entry.run)
        if row is not None and not serves(row):
            after = entry.lane.partition(LANE)[0] + LANE + LAST  # past every lane of that flow
            continue
        after = entry.lane
        if may_begin(look, entry, now):
            yield entry


def may_begin(look: Reading, entry: QueueEntry, now: int) -> bool:
    """Whether the limits of its lane let another run go on."""
    if entry.most and look.taken_in(entry.lane) >= entry.most:
        return False
    last = look.begun_before(entry.lane, entry.rate) if entry.rate else None
    return last is None or last + entry.window_us <= now


# -- not taken in time --------------------------------------------------------------------------------


def overdue(caller: Caller, scope: str | None = None) -> list[str]:
    """The ids of queued runs that were not taken in time, and that nobody has ended yet. Nothing is written."""
    now = caller.home.clock.now()
    rows = caller.home.store.read(lambda look: [look.run_by_key(key) for key in look.expired(now)])
    return [row.id for row in rows if row is not None and _ends(row, scope)]


def expire(caller: Caller, scope: str | None = None) -> list[str]:
    """End queued runs that were not taken in time, of this scope or all: their ids. Who looks first does it, once."""
    now, store = caller.home.clock.now(), caller.home.store
    if not store.read(lambda look: look.expired(now)):
        return []
    return store.write(lambda tx: [row.id for key in tx.expired(now) for row in _expired(caller, tx, key, scope)])


def _expired(caller: Caller, tx: Writing, run_key: int, scope: str | None) -> Iterator[RunRow]:
    row, entry = tx.run_by_key(run_key), tx.entry_of(run_key)
    if row is None or entry is None or row.status != "queued":
        tx.keep_entry(run_key)  # it was taken, or cannot be read: no time-out is left
    elif _ends(row, scope):
        served = AtWork(caller, tx).has_one_for(row, entry.queue)
        seconds = (entry.expires_at - entry.added_at) / 1_000_000
        cause = "its turn did not come" if served else "no worker has its flow (no_worker): `outlast workers`"
        why = f"it was not taken out of the queue {entry.queue} within {seconds:g} s: {cause}"
        decisions.abort_in(caller, tx, row.id, why, "queue_timed_out", by=BY)
        yield row


def _ends(row: RunRow, scope: str | None) -> bool:
    return row.status == "queued" and scope in (None, row.scope)


# -- looking, pausing --------------------------------------------------------------------------------


def queues(home: Home) -> list[Queue]:
    """Every queue, by its name."""
    return home.store.read(lambda look: [_shown(look, row) for row in look.queues()])


def _shown(look: Reading, row: QueueRow) -> Queue:
    depth = look.queue_depth(row.name)
    ready, delayed, taken, idle = (depth.get(state, (0, 0))[0] for state in ("ready", "delayed", "taken", "idle"))
    paused = (bool(row.paused), row.paused_by, moment(row.paused_at) if row.paused else None)
    oldest = depth["ready"][1] if "ready" in depth else 0
    return Queue(row.name, ready, delayed, taken, idle, *paused, row.engine, moment(oldest) if oldest else None)


def pause(caller: Caller, name: str, operation_id: str | None, *, paused: bool) -> Queue:
    """Let no run out of a queue any more, or again. Raises QueueNotFound."""
    check_name("queue", name)

    def work(tx: Writing) -> tuple[Queue, str]:
        before = tx.is_paused(name)
        if not tx.pause_queue(name, paused, caller.actor, caller.home.clock.now()):
            raise QueueNotFound(name)
        if before != paused:
            act.note(caller, tx, "queue", name, "paused" if paused else "resumed")
        return queue_named(tx, name), name

    operation = Repeatable(operation_id, "queue_pause", [name, paused])
    return once(caller.home, operation, work, lambda _: caller.home.store.read(lambda look: queue_named(look, name)))


def queue_named(look: Reading, name: str) -> Queue:
    """A queue that is there, by its name."""
    (row,) = [row for row in look.queues() if row.name == name]
    return _shown(look, row)
