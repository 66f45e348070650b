"""The verbs. `Runtime` ties them together: one home, one tenant, one process.

Doors and the SDK call this; nothing below knows of them. Each promise has a module of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from outlast.clock import Clock, SystemClock
from outlast.errors import AmbiguousPrefix, InterruptNotFound, OutlastError, RunNotFound, SyncInLoop
from outlast.handoffs.observer import HERE
from outlast.home.acceptance import NOTHING_ACCEPTED as NOTHING_ACCEPTED
from outlast.home.acceptance import Acceptance
from outlast.home.home_settings import settings_in
from outlast.home.place import FoundHome, check_name, look_up, make_folders, marker_of, project_of, tenant_folder
from outlast.home.process import this_process
from outlast.home.settings import Settings
from outlast.ids import Ids, random_id
from outlast.resources.resources import Resources
from outlast.runs.heartbeat import Heart, beat_of
from outlast.secrets.own import SecretRules, read_own
from outlast.store.blobs.folder import Blobs
from outlast.store.contract.damaged import damage_of
from outlast.store.sqlite.open import SqliteStore
from outlast.values.codec import decode

if TYPE_CHECKING:  # what runs and what looks is loaded when it is used: most commands need little of it
    from outlast.care.verify import Verification
    from outlast.commands.guard import Guard
    from outlast.flows.spec import FlowSpec
    from outlast.ledger.lease import Beat, Process
    from outlast.runs.claim import Claim
    from outlast.runs.execution import Execution
    from outlast.runs.plan import Plan
    from outlast.runs.receipt import Event, Receipt
    from outlast.runs.run import Outcome, RunRecord
    from outlast.runs.waits.interrupt import Interrupt
    from outlast.store.contract import InterruptRow, Reading, RunRow

Facade = Callable[["Execution", bool], Any]


def nobody(line: str) -> None:
    """Stands for who listens while nobody does."""


_PAGE = 200


class Runtime:
    """One process's hands on one tenant's ledger."""

    secret_rules = SecretRules()
    key_id = ""  # of the API key in whose name a server acts: what it stores counts among that key's
    received_when: Literal["returned", "printed", "never"] = "returned"  # when a caller has an outcome
    adopted = False  # the home was found, and not made here
    given: tuple[FlowSpec, ...] = ()  # flows that runs are looked for in first
    looks_here = True  # for a flow whose file is gone: in the folder that this process stands in

    def __init__(
        self,
        home: str | Path | FoundHome | None = None,
        *,
        facade: Facade,
        tenant: str = "default",
        scope: str = "default",
        actor: str = "local",
        clock: Clock | None = None,
        ids: Ids = random_id,
        settings: Settings | None = None,
        store_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.home, self.adopted = look_up(home)
        self.project = project_of(self.home)
        self.scope, self.actor = check_name("scope", scope), check_name("actor", actor)
        self.tenant, self.ids, self._facade = tenant, ids, facade
        self.clock, self.settings = clock or SystemClock(), settings or settings_in(self.home)
        self.own_secrets = read_own(self.home, self.settings)
        self.folder = folder = tenant_folder(self.home, tenant)
        self.blobs = Blobs(folder / "blobs")
        self.store = SqliteStore(
            folder / "outlast.db",
            marker=marker_of(self.home, tenant),
            make=lambda: make_folders(self.home, folder),
            **(store_options or {}),
        )
        self.process, self.resources = this_process(ids), Resources(self.warn)
        self.live: dict[str, Execution] = {}
        self.claimed: set[str] = set()  # by this process, and not live yet
        self.receiving: set[str] = set()  # runs whose outcome a caller in this process waits for
        self.tokens: set[str] = set()  # of the claims that this runtime may use
        self.claimer: Process | None = None  # in whose name it acts: that one's claims are its own too
        self._lock, self._idle = threading.Lock(), threading.Event()  # the second is set while nothing executes here
        self._idle.set()
        self.heart = Heart(self)
        self.eyes = HERE  # who looks at files: not a server, they are where its clients are
        self._closed = self._settled = False
        self.stops = 0  # how often the runs of this process were asked to stop
        self.sink: Callable[[str, bytes], None] | None = None  # is shown what commands print, with the step's name
        self.tell: Callable[[str], None] = nobody  # is told what people at a terminal should know
        self._guard: Any = None
        self.mirrors: Any = None  # keeps the mirrors of what executes here
        self.store.listen(lambda line: self.tell(line))

    @property
    def guard(self) -> Guard:
        """Ends the commands of this process should it die."""
        with self._lock:
            if self._guard is None:
                from outlast.commands.guard import Guard

                self._guard = Guard(self.settings.patience_seconds)
            found: Guard = self._guard
            return found

    def close(self, *, wait: bool = True) -> None:
        """Let go of the files. Runs that still execute here are asked to stop, and given time to do so.

        Without `wait` what has not stopped is left behind, for a process that ends now: it will be found crashed.
        """
        with self._lock:
            closed, self._closed = self._closed, True
        if closed:
            return
        try:
            if wait:
                self.settle()
            self.resources.close()
            self.heart.stop()
            if self.mirrors is not None and wait:
                self.mirrors.close()
            if self._guard is not None:
                self._guard.close()
            with suppress(OutlastError):  # a row that is left behind is forgotten by others, a day later
                self.store.write(lambda tx: tx.forget_process(self.process.id))
        finally:
            self.store.close()

    def settle(self) -> None:
        """Ask the runs of this process to stop, and give them time to do so, once."""
        with self._lock:
            settled, self._settled = self._settled, True
        if settled:
            return
        self.stop()
        if not self._idle.wait(self.settings.close_seconds):
            self.stop(now=True)  # commands are ended; Python code that does not stop is left behind
            self._idle.wait(self.settings.patience_seconds + 1)

    def warn(self, line: str) -> None:
        """Tell whoever listens; if nobody does, it is a warning of Python's."""
        if self.tell is not nobody:
            self.tell(line)
            return
        import warnings

        warnings.warn(line, RuntimeWarning, stacklevel=2)

    def enter(self, execution: Execution) -> None:
        """A run begins to execute in this process."""
        with self._lock:
            self.live[execution.id] = execution
            self.claimed.discard(execution.id)
            self.store.live = len(self.live)
            self._idle.clear()
        self.heart.start()
        if self.mirrors is not None:
            self.mirrors.follow(execution)

    def leave(self, execution: Execution) -> None:
        if self.mirrors is not None:
            self.mirrors.let_go(execution)
        with self._lock:
            self.live.pop(execution.id, None)
            self.store.live = len(self.live)
            if not self.live:
                self._idle.set()

    def stop(self, now: bool = False, by: str = "shutdown") -> bool:
        """Ask every run of this process to stop at its next step, or `now`: then commands under way are ended too.

        `by` a shutdown they go on by themselves later, by a person when somebody resumes them. Gives whether something
        of them can only be ended by an exception: a Python body that runs in the main thread.
        """
        self.stops += 1
        live = list(self.live.values())
        for execution in live:
            execution.ask_to_stop(by, now=now)
        return not live or any(execution.guarded is None for execution in live)

    def beat(self) -> Beat:
        return beat_of(self)

    # -- starting and going on -------------------------------------------------------------------

    def pack_inputs(self, spec: FlowSpec, inputs: Mapping[str, Any]) -> bytes:
        """Inputs as they will come back. Raises ValueRefused for one that would not."""
        from outlast.runs import start as going_on

        return going_on.pack_inputs(spec, inputs)

    def name_of(self, spec: FlowSpec) -> str:
        """The name under which this home records a flow."""
        from outlast.flows.loading import lasting

        return lasting(spec.source, self.project)

    def go_on(
        self, claimed: Claim, spec: FlowSpec | None = None, accept: Acceptance = NOTHING_ACCEPTED
    ) -> Outcome[Any]:
        """Run a claimed run's body until it ends or waits."""
        from outlast.runs import start as going_on

        return going_on.go_on(self, claimed, spec, accept)

    def go_on_here(
        self, claimed: Claim, spec: FlowSpec | None = None, accept: Acceptance = NOTHING_ACCEPTED
    ) -> Outcome[Any]:
        """The same for a caller who waits for it: signals that ask this process to end let the step finish first."""
        from outlast.runs import start as going_on

        return going_on.go_on_here(self, claimed, spec, accept)

    async def go_on_async(
        self, claimed: Claim, spec: FlowSpec | None = None, accept: Acceptance = NOTHING_ACCEPTED
    ) -> Outcome[Any]:
        """The same on the running event loop. A plain flow runs in a thread."""
        from outlast.runs import start as going_on

        return await going_on.go_on_async(self, claimed, spec, accept)

    def flow(self, run: RunRow) -> FlowSpec:
        """The flow of a run, wherever it is now. Raises FlowNotFound, FlowElsewhere."""
        from outlast.runs import start as going_on

        return going_on.flow(self, run)

    def continue_child(self, run_id: str, spec: FlowSpec) -> Outcome[Any]:
        """A child run as it ended, or run on to its end."""
        from outlast.runs import start as going_on

        return going_on.continue_child(self, run_id, spec)

    def claim(self, run_id: str, take: str = "") -> Claim:
        """Take a run over; `take` says why, of one that somebody holds. Raises RunFinished, RunHeld."""
        from outlast.runs import start as going_on

        return going_on.claim(self, run_id, take)

    # -- looking ---------------------------------------------------------------------------------

    def row(self, run_id: str) -> RunRow:
        """A run by its id or a unique prefix of it. Raises RunNotFound, RunRemoved, AmbiguousPrefix."""
        rows = self.store.read(lambda look: look.runs_by_prefix(run_id)) if run_id else []
        if run_id and not rows:
            from outlast.care.gc.runs import refuse_removed

            refuse_removed(self, run_id)
        found: RunRow = _only(rows, run_id, RunNotFound(run_id))
        return found

    def interrupt_row(self, look: Reading, interrupt_id: str) -> InterruptRow:
        rows = look.interrupts_by_prefix(interrupt_id) if interrupt_id else []
        found: InterruptRow = _only(rows, interrupt_id, InterruptNotFound(interrupt_id))
        return found

    def record(self, row: RunRow) -> RunRecord:
        """A run as it is now: status and holder are read at one moment, so that neither belies the other."""
        if damage_of(row):
            from outlast.runs.look import damaged

            return damaged(row, damage_of(row))
        return self.store.read(lambda look: self.record_in(look, row.id))

    def record_in(self, look: Reading, run_id: str) -> RunRecord:
        """The same inside a transaction."""
        row, lease = look.run_by_id(run_id), look.lease_of(run_id)
        if row is None or lease is None:
            raise RunNotFound(run_id)
        from outlast.runs import claim as claims
        from outlast.runs.look import origin_of, run_record

        holder = claims.holder_of(self, look, run_id, lease)
        return run_record(row, lease, holder, self.result_of(row), origin_of(look, row))

    def outcome(self, row: RunRow) -> Outcome[Any]:
        """How a run stands, without running anything."""
        from outlast.runs.look import who_stopped
        from outlast.runs.run import Outcome

        record = self.record(row)
        waits = tuple(self.waits(row.key)) if record.status == "waiting" else ()
        holder = record.holder if record.status == "running" else ""
        by = who_stopped(self, row.id) if record.status == "interrupted" else ""
        return Outcome(row.id, record.status, record.result, waits, record.error, holder=holder, stopped_by=by)

    def result_of(self, row: RunRow) -> Any:
        kept = decode(row.result) if row.result else {}
        return decode(self.blobs.get(kept["blob"])) if "blob" in kept else kept.get("value")

    def runs(self, status: str | None, limit: int, before: str | None = None) -> list[RunRecord]:
        """The newest runs of a status, or of all. Whether a running one has crashed shows only in its record."""
        from heapq import merge

        start = 0 if before is None else self.row(before).key
        stored = ("running", "crashed") if status == "crashed" else (status,)
        page = max(1, min(limit, _PAGE))
        found: dict[str, RunRecord] = {}  # by id: one that changes between two pages is met twice
        lists = [self._records(each, page, start) for each in stored] if limit > 0 else []
        for _, record in merge(*lists, key=lambda pair: -pair[0]):
            if record is not None and status in (None, record.status):
                found[record.id] = record
            if len(found) >= limit:  # before the next one, which may need another page
                break
        return list(found.values())

    def _records(self, status: str | None, page: int, before: int) -> Iterator[tuple[int, RunRecord | None]]:
        """The same as `rows`, as records with their keys: a page is read at one moment."""
        from outlast.runs.look import listed, rows_with_leases
        from outlast.store.contract.pages import below

        while found := self.store.read(lambda look: rows_with_leases(self, look, status, page, before)):  # noqa: B023
            yield from ((held.row.key, listed(self, held)) for held in found)
            before = below(found[-1].row.key)

    def rows(self, status: str | None = None, page: int = _PAGE, before: int = 0) -> Iterator[RunRow]:
        """Every run of a recorded status, or every run, the newest first, read page by page."""
        from outlast.store.contract.pages import below

        def look(reading: Reading) -> list[RunRow]:
            return reading.newest_runs(status, page, before)

        while found := self.store.read(look):
            yield from found
            before = below(found[-1].key)

    def receipts(self, run_id: str) -> list[Receipt]:
        from outlast.runs.receipt import receipts_in

        return receipts_in(self.store, self.row(run_id), self.blobs.get)

    def events(self, run_id: str, after: int, limit: int) -> list[Event]:
        from outlast.runs.events import read

        return read(self, self.row(run_id), after, limit)

    def waits(self, run_key: int) -> list[Interrupt]:
        from outlast.runs.look import interrupt_of

        rows = self.store.read(lambda look: look.waits_of(run_key))
        return [interrupt_of(row) for row in rows if row.status == "open"]

    def interrupts(self, run_id: str | None) -> list[Interrupt]:
        if run_id is not None:
            return self.waits(self.row(run_id).key)
        from outlast.runs.look import interrupt_of

        return [interrupt_of(row) for row in self.store.read(lambda look: look.open_waits(0, -1))]

    def plan(self, run_id: str) -> Plan:
        """What resuming would do, from the ledger alone."""
        from outlast.runs.planning import plan

        return plan(self, self.row(run_id))

    def facts(self) -> dict[str, Any]:
        """What this home stands on, how many runs of each recorded status it has, how many handoffs and artifacts."""
        runs, handoffs = self.store.read(lambda look: (look.count_runs(), look.count_anchors()))
        saved, pinned = self.store.read(lambda look: (look.count_artifacts(), look.count_checkpoints()))
        counted = {"runs": runs, "handoffs": {"open": 0, "finished": 0} | handoffs}
        counted |= {"artifacts": {"saved": saved.artifacts - saved.pending, "pending": saved.pending}}
        known = {"home": str(self.home), "tenant": self.tenant, **self.store.facts(), **counted}
        recorded = self.store.read(lambda look: look.count_records())
        return known | {"checkpoints": pinned, **recorded._asdict()}

    def verify(self, run_id: str | None = None) -> Verification:
        """Check every record of a run, or of the whole store."""
        from outlast.care.verify import verify

        return verify(self, run_id)


def refuse_loop(what: str) -> None:
    """Raises SyncInLoop when an event loop is running in this thread."""
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise SyncInLoop(what)


def _only(rows: list[Any], prefix: str, missing: Exception) -> Any:
    exact = [row for row in rows if row.id == prefix]
    if exact:
        return exact[0]
    if not rows:
        raise missing
    if len(rows) > 1:
        raise AmbiguousPrefix(prefix, ", ".join(row.id for row in rows))
    return rows[0]
