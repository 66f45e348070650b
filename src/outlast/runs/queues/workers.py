"""Workers as others see them: what each runs, since when, of which flows. Those that died are not there any more."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from outlast.clock import moment
from outlast.runs.holder import is_dead
from outlast.store.contract import Reading, RunRow, WorkerRow, Writing
from outlast.values.codec import decode, encode
from outlast.values.late import late

if TYPE_CHECKING:
    from importlib import metadata

    from outlast.flows.spec import FlowSpec
    from outlast.home.home import Home
else:
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


def new_worker(home: Home, flows: Iterable[FlowSpec] | None, queues: Iterable[str], concurrency: int) -> WorkerRow:
    """A worker of this process."""
    given = None if flows is None else [[flow.name, flow.identity, flow.source, flow.code] for flow in flows]
    about: dict[str, Any] = {"flows": given, "queues": sorted(queues), "concurrency": concurrency}
    about |= {"version": metadata.version("outlast")}
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
    )


class AtWork:
    """The workers of one moment, looked up when they are first asked for."""

    def __init__(self, home: Home, look: Reading) -> None:
        self._home, self._look = home, look
        self._found: list[Any] | None = None

    def has_one_for(self, run: RunRow, queue: str) -> bool:
        """Whether one of them takes runs of this flow out of this queue."""
        return any(_takes(about, run, queue) for about in self._all())

    def _all(self) -> list[Any]:
        if self._found is None:
            rows = [row for row in self._look.workers_at_work() if _lives(self._home, self._look, row)]
            self._found = [decode(row.about) for row in rows]
        return self._found


def _takes(about: Any, run: RunRow, queue: str) -> bool:
    flows = about["flows"]
    is_given = flows is None or any(identity == run.identity for _, identity, _, _ in flows)
    return is_given and (not about["queues"] or queue in about["queues"])
