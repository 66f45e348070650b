"""Workers as others see them: what each runs, since when, of which flows. Those that died are not there any more."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from outlast.clock import moment
from outlast.runs.holder import is_dead
from outlast.store.contract import Reading, RunRow, WorkerRow, Writing
from outlast.values.codec import decode, encode
from outlast.values.frozen import NamedTuple
from outlast.values.late import late

if TYPE_CHECKING:
    from importlib import metadata

    from outlast.flows.spec import FlowSpec
    from outlast.home.caller import Caller
    from outlast.home.home import Home
    from outlast.runs import same_flow
    from outlast.runs.same_flow import FlowFacts
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
        own = sorted((row.since, row.id) for row in reading.workers_at_work() if _engine(row) == engine)
        rows = {row.id: row for row in reading.workers_at_work()}
        return next((id for _, id in own if _lives(home, reading, rows[id])), "")

    return home.store.read(look)


def _engine(row: WorkerRow) -> str:
    return str(decode(row.about).get("engine", ""))


def _lives(home: Home, look: Reading, row: WorkerRow) -> bool:
    return not is_dead(home, look, row.process)


def _shown(look: Reading, row: WorkerRow) -> WorkerRecord:
    about = decode(row.about)
    flows = None if about["flows"] is None else tuple(WorkerFlow(*each) for each in about["flows"])
    beat = look.beat_of(row.process)
    return WorkerRecord(
        row.id,
        str(beat.process) if beat is not None else "",
        moment(row.since),
        flows,
        tuple(about["queues"]),
        about["concurrency"],
        about["version"],
        tuple(look.runs_held_by(row.process)),
        about.get("engine", ""),
    )


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

    known: list[FlowFacts] | None  # None: every flow that is found where its run says
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
