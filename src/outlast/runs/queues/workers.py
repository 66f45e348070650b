"""Workers as others see them: what each runs, since when, of which flows. Those that died are not there any more.

And why a run can go on by itself: its process is gone, a shutdown stopped it, or what it waited for is over. All of it
is read at one moment, by who looks for such runs, who takes one, and who says what keeps one: how a run stands beside
its status, by its queue, the times that count for it, and whether any worker has its flow.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from outlast.clock import moment
from outlast.runs.holder import holder_of, is_dead
from outlast.runs.run import FINISHED
from outlast.runs.stops import SHUTDOWN, who_stopped
from outlast.store.contract import InterruptRow, QueueEntry, Reading, RunRow, WorkerRow, Writing
from outlast.values.codec import decode, encode
from outlast.values.frozen import NamedTuple
from outlast.values.late import late

if TYPE_CHECKING:
    from importlib import metadata

    from outlast.flows.spec import FlowSpec
    from outlast.home.caller import Caller
    from outlast.home.home import Home
    from outlast.runs import same_flow
else:
    same_flow = late("outlast.runs.same_flow")
    metadata = late("importlib.metadata")


class WorkerFlow(Struct, frozen=True):
    """A flow that a worker was given, and a digest of its code; empty where there is no source."""

    name: str
    identity: str
    source: str
    code: str


class WorkerRecord(Struct, frozen=True):
    """A worker at work."""

    id: str
    process: str  # pid and host
    since: datetime
    flows: tuple[WorkerFlow, ...] | None  # None: every flow that is found where its run says
    queues: tuple[str, ...]  # none: all of them
    concurrency: int
    version: str  # of Outlast
    runs: tuple[str, ...]  # that go on in its process, by their ids
    engine: str = ""  # that gives it its runs, where it is not ours


def new_worker(
    home: Home, flows: Iterable[FlowSpec] | None, queues: Iterable[str], concurrency: int, engine: str = ""
) -> WorkerRow:
    """A worker of this process; of another engine than ours by its name."""
    specs = None if flows is None else list(flows)
    given = None if specs is None else [[flow.name, flow.identity, flow.source, flow.code] for flow in specs]
    about: dict[str, Any] = {"flows": given, "queues": sorted(queues), "concurrency": concurrency, "engine": engine}
    about |= {"version": metadata.version("outlast"), "known": [same_flow.known(home, flow) for flow in specs or ()]}
    return WorkerRow(home.ids(), home.process.id, encode(about).decode(), home.clock.now())


def enlist(home: Home, worker: WorkerRow) -> None:
    """It is at work. Those that died are forgotten."""

    def work(tx: Writing) -> None:
        tx.beat(home.beat())
        for other in tx.workers_at_work():
            if is_dead(home, tx, other.process):
                tx.drop_worker(other.id)
        tx.put_worker(worker)

    home.store.write(work)


def sign(home: Home) -> None:
    """Its process lives, although nothing runs in it. No disk is waited for."""
    home.store.write_soon(lambda tx: tx.beat(home.beat()))


def leave(home: Home, worker: WorkerRow) -> None:
    """It works no more."""
    home.store.write(lambda tx: tx.drop_worker(worker.id))


def workers(home: Home) -> list[WorkerRecord]:
    """Every worker that lives, the one that began first at the beginning."""
    return home.store.read(lambda look: [_shown(look, row) for row in look.workers() if _lives(home, look, row)])


def first_of(home: Home, engine: str) -> str:
    """The worker of an engine that lives and began before all others, by its id; empty when there is none."""

    def look(reading: Reading) -> str:
        own = [row for row in reading.workers_at_work() if decode(row.about).get("engine", "") == engine]
        in_order = sorted(own, key=lambda row: (row.since, row.id))
        return next((row.id for row in in_order if _lives(home, reading, row)), "")

    return home.store.read(look)


def _lives(home: Home, look: Reading, row: WorkerRow) -> bool:
    return not is_dead(home, look, row.process)


def _shown(look: Reading, row: WorkerRow) -> WorkerRecord:
    about = decode(row.about)
    flows = None if about["flows"] is None else tuple(WorkerFlow(*each) for each in about["flows"])
    beat = look.beat_of(row.process)
    process, runs = str(beat.process) if beat is not None else "", tuple(look.runs_held_by(row.process))
    told = (about["concurrency"], about["version"], runs, about.get("engine", ""))
    return WorkerRecord(row.id, process, moment(row.since), flows, tuple(about["queues"]), *told)


class AtWork:
    """The workers of one moment, looked up when they are first asked for."""

    def __init__(self, caller: Caller, look: Reading) -> None:
        self.caller, self._look = caller, look
        self._found: list[WorkerOffer] | None = None

    @property
    def is_any(self) -> bool:
        return bool(self._all())

    def has_one_for(self, run: RunRow, queue: str) -> bool:
        """Whether one of them takes runs of this flow out of this queue; of none, without a queue."""
        row = self._look.queue_of(queue) if queue else None
        offers = [each for each in self._all() if each.takes_from(queue, row.engine if row is not None else "")]
        return any(each.has(self.caller.home.project, run) for each in offers)

    def has_flow(self, source: str) -> bool:
        """Whether one of them has the flow that a schedule names."""
        project = self.caller.home.project
        return any(each.has_source(project, source) for each in self._all())

    def _all(self) -> list[WorkerOffer]:
        if self._found is None:
            home, look = self.caller.home, self._look
            self._found = [_offer(row) for row in look.workers_at_work() if _lives(home, look, row)]
        return self._found


class WorkerOffer(NamedTuple):
    """What a worker takes."""

    known: list[same_flow.FlowFacts] | None  # None: every flow that is found where its run says
    queues: list[str]  # none: all of them
    engine: str = ""  # that gives it its runs, where it is not ours

    def takes_from(self, queue: str, engine: str = "") -> bool:
        """Out of its queues, where its engine has them; what is in none, whatever they are."""
        return self.engine == engine and (not self.queues or not queue or queue in self.queues)

    def has(self, project: Path | None, run: RunRow) -> bool:
        """Whether the flow of a run is one of its own."""
        return self.known is None or any(same_flow.compared(project, run, flow) == "same" for flow in self.known)

    def has_source(self, project: Path | None, source: str) -> bool:
        """The same of a flow of which only that is known."""
        return self.known is None or any(same_flow.is_same_source(project, source, flow.source) for flow in self.known)


def _offer(row: WorkerRow) -> WorkerOffer:
    about = decode(row.about)
    known = None if about["flows"] is None else [same_flow.FlowFacts(*each) for each in about["known"]]
    return WorkerOffer(known, about["queues"], about.get("engine", ""))


# -- why a run can go on -----------------------------------------------------------------------------


def is_of_its_own(row: RunRow) -> bool:
    """Whether a run could go on by itself: a child goes on with its parent, a script's run in its script."""
    return not (row.parent or row.seal or row.flow.startswith("script:"))


def reason_of(caller: Caller, look: Reading, run_id: str) -> str:
    """Why a run can go on now: crashed, stopped, answered, asked, over; empty when it cannot."""
    row, lease = look.run_by_id(run_id), look.lease_of(run_id)
    if row is None or lease is None or holder_of(caller, look, run_id, lease):
        return ""
    if row.status == "waiting":
        return _over(caller, look, row)
    if any(kind == "pause" for _, kind, _, _ in look.untaken(row.key)):
        return ""  # a person stopped it, and its owner was gone before it heard
    if row.status in ("running", "crashed"):
        return "crashed"
    return "stopped" if row.status == "interrupted" and who_stopped(look, row, lease) == SHUTDOWN else ""


def _over(caller: Caller, look: Reading, row: RunRow) -> str:
    """Which of a waiting run's waits is over."""
    if any(kind != "pause" for _, kind, _, _ in look.untaken(row.key)):
        return "asked"
    for wait in look.waits_of(row.key):
        if wait.status == "answered":
            return "answered"
        if wait.due_at is not None and wait.due_at <= caller.home.clock.now():
            return "over"
        if wait.type == "child" and _child_is_over(caller, look, wait):
            return "over"
    return ""


def _child_is_over(caller: Caller, look: Reading, wait: InterruptRow) -> bool:
    """Whether a child that is waited for has finished, or could itself go on."""
    child = look.run_by_id(str(decode(wait.payload).get("child", "")))
    return child is not None and (child.status in FINISHED or bool(reason_of(caller, look, child.id)))


# -- how a run stands --------------------------------------------------------------------------------

NO_WORKER, PAUSED, DELAYED = "no_worker", "queue_paused", "delayed"


class RunPlace(NamedTuple):
    """What is read beside the row of an unfinished run."""

    queue: str = ""
    engine: str = ""  # of that queue, where it is not ours
    priority: int = 0
    not_before: datetime | None = None  # it is not taken out of its queue before
    take_by: datetime | None = None  # it ends unless it was taken by then
    deadline_at: datetime | None = None
    held_up: str = ""  # what keeps it: no_worker, queue_paused, delayed, limit:NAME; empty: nothing that is known


NOWHERE = RunPlace()


def place_of_run(look: Reading, row: RunRow, at_work: AtWork) -> RunPlace:
    """Where a run stands. A finished one stands nowhere."""
    if row.status in FINISHED:
        return NOWHERE
    entry, deadline = look.entry_of(row.key), look.deadline_of(row.key)
    if entry is None:
        return RunPlace(deadline_at=_moment(deadline), held_up=_limits(look, row) or _unserved(look, row, at_work))
    if entry.state in ("ready", "delayed"):
        held_up = _held_up(look, row, entry, at_work)
    else:
        held_up = _limits(look, row) or _unserved(look, row, at_work, entry.queue)
    not_before = entry.due_at if entry.state == "delayed" else None
    first, last, done = (_moment(at) for at in (not_before, entry.expires_at, deadline))
    queue = look.queue_of(entry.queue)
    engine = queue.engine if queue is not None else ""
    return RunPlace(entry.queue, engine, entry.priority, first, last, done, held_up)


def _moment(at: int | None) -> datetime | None:
    return moment(at) if at else None


def _limits(look: Reading, row: RunRow) -> str:
    """The limit that its steps wait for, of a run that is executed."""
    slots = look.slots_of_run(row.id) if row.status == "running" else []
    return next((f"limit:{slot.name}" for slot in slots if slot.state == "waiting"), "")


def _held_up(look: Reading, row: RunRow, entry: QueueEntry, at_work: AtWork) -> str:
    """Why a run is still in its queue; empty when its turn will come."""
    if not at_work.has_one_for(row, entry.queue):
        return NO_WORKER
    if look.is_paused(entry.queue):
        return PAUSED
    return DELAYED if entry.state == "delayed" else ""


def _unserved(look: Reading, row: RunRow, at_work: AtWork, queue: str = "") -> str:
    """That a run could go on by itself, and no worker has its flow.

    One that is in no queue goes on by hand as well: where nobody works at all, nothing is said of it.
    """
    if not is_of_its_own(row) or not (queue or at_work.is_any) or at_work.has_one_for(row, queue):
        return ""
    return NO_WORKER if reason_of(at_work.caller, look, row.id) else ""
