"""What all requests of one server share: its tenants, keys, flows, watchers and threads.

The server has a worker: it goes on with the runs that can go on by themselves, of every tenant, of the flows that it
serves, so many at a time. One that is refused is told in the log, and tried again after a while.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from msgspec import Struct, field

from outlast import Outlast
from outlast.doors.http.identity import Doorkeeper, Identity, KeyWatch, Places, forwarded_by
from outlast.doors.http.limits import Limits, StoredBytes, Threads, Turnstile
from outlast.doors.http.log import Metrics, RequestLog
from outlast.doors.http.streams import Watchers
from outlast.errors import NoThread, OutlastError, TenantNotFound, Unavailable
from outlast.operations.observed import NOBODY, FileObserver
from outlast.operations.operation import ApiKey, Keys
from outlast.python.door import came_by, show_claims
from outlast.python.project import Flows, FoundHome, check_tenant, has_tenant, look_up, tenants_of
from outlast.worker.notify import Notifier
from outlast.worker.targets import Targets
from outlast.worker.worker import Worker, WorkNote

if TYPE_CHECKING:
    from outlast import RunRecord
    from outlast.adapters.temporal import TemporalSettings, TemporalWorker
    from outlast.python.shared import Settings as RuntimeSettings


TENANT_SECONDS = 5.0  # between two looks for tenants that others made


class ForTenants:
    """What a server does besides answering: it takes up tenants until cancelled, and does the same for each."""

    doing, logs = "", ""  # what a thread is needed for, and by which word the log has what went wrong

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._started: dict[str, Notifier | TemporalWorker] = {}

    async def live(self) -> None:
        """Take up new tenants until cancelled."""
        while True:
            try:
                await self._state.threads.starting.do(self._look, self.doing)
            except Exception as error:  # of the disk, say: the next look may fare better
                self._state.log.failed(error, **{self.logs: "look"})
            await asyncio.sleep(TENANT_SECONDS)

    def _look(self) -> None:
        raise NotImplementedError

    def _opened(self, tenant: str) -> Outlast:
        return self._state.tenants.open(tenant, make=False)

    def stop(self) -> None:
        for each in self._started.values():
            each.stop()


class Workers(ForTenants):
    """The worker of the server: it goes on with runs of the flows that are served, in every tenant."""

    doing, logs = "working", "wake"

    def __init__(self, state: ServerState) -> None:
        super().__init__(state)
        settings = state.settings
        self._worker = Worker(concurrency=settings.work_runs, only_given=True, drain_seconds=0.0, tell=self._tell)
        self._serves = settings.works and bool(settings.flows)

    async def live(self) -> None:
        """The same. A server that has no flows, or was told not to, works on nothing."""
        if self._serves:
            self._worker.start()
            await super().live()

    def _look(self) -> None:
        for tenant in self._state.tenants.names():
            try:
                self.serve(self._opened(tenant))
            except OutlastError as error:  # one home that cannot be read keeps no other from going on
                self._state.log.line("warning", wake="look", tenant=tenant, error=f"{error.code}: {error}")

    def serve(self, outlast: Outlast) -> None:
        """Work on a tenant that was opened."""
        if self._serves and not self._state.ending.is_set():
            self._worker.serve(outlast._acting())

    def stop(self) -> None:
        """Take nothing any more. What is under way is asked to stop with all that this process runs."""
        self._worker.stop()

    def _tell(self, note: WorkNote) -> None:
        told = {"tenant": note.tenant, "run_id": note.run_id}
        if note.kind == "refused":
            self._state.log.line("warning", wake="refused", **told, error=note.error)
        elif note.kind == "took":
            self._state.log.line("info", wake="resumed", **told)


class Notifiers(ForTenants):
    """What tells people: one for each tenant that has somebody to be told."""

    doing, logs = "notifying", "notify"

    def _look(self) -> None:
        home = self._state.settings.found.path
        for tenant in {target.tenant for target in Targets(home).all()} - set(self._started):
            notifier = Notifier(self._opened(tenant)._acting(), home, tenant, tell=partial(self._tell, tenant))
            self._started[tenant] = notifier
            notifier.start()

    def _tell(self, tenant: str, line: str) -> None:
        self._state.log.line("warning", notify="refused", tenant=tenant, error=line)


class Relays(ForTenants):
    """What tells Temporal of runs that can go on, where that is the engine: one for each tenant. It runs nothing."""

    doing, logs = "telling Temporal", "engine"

    async def live(self) -> None:
        """The same, where Temporal is the engine."""
        if self._state.settings.temporal is not None:
            await super().live()

    def _look(self) -> None:
        from outlast.adapters.temporal import TemporalWorker

        for tenant in set(self._state.tenants.names()) - set(self._started):
            opened, engine = self._opened(tenant)._acting(), self._state.settings.temporal
            self._started[tenant] = TemporalWorker(opened, (), engine, executes=False, tell=self._tell).start()

    def _tell(self, note: WorkNote) -> None:
        self._state.log.line("warning", engine=note.kind, tenant=note.tenant, error=note.error)


T = TypeVar("T")


class ServerSettings(Struct, frozen=True, kw_only=True):
    """How a server is set up. Defaults fit nearly everyone; tests shorten the times."""

    home: Path | FoundHome
    tenant: str = "default"
    loopback: bool = True  # it can be reached from this machine only
    require_key: bool = False  # also on loopback, and while the home has no key
    allow_hosts: tuple[str, ...] = ()  # further names in the Host header
    public_url: str = ""  # its own origin, as others see it through a proxy
    allow_origins: tuple[str, ...] = ()  # whose pages may call it (CORS)
    flows: tuple[str, ...] = ()  # modules and files whose flows may be started
    body_bytes: int = 2 << 20
    artifact_bytes: int = 4 << 30  # of content that is sent as a stream
    body_seconds: float = 30.0  # for a whole body to arrive; for content, for the least of it that is waited for
    body_rate: int = 4 << 10  # bytes a second, at least, of content that is sent as a stream
    header_seconds: float = 10.0  # for the headers of a request to arrive
    idle_seconds: float = 30.0  # between two requests of a connection
    connections: int = 4096  # at once, if this process may open twice as many files
    key_requests: int = 32  # of one key at once; streams do not count among them
    key_streams: int = 128
    key_runs: int = 64  # of one key that execute at once
    key_bytes: int = 10 << 30  # that the holder of one key may store
    send_seconds: float = 30.0  # for a client to take a piece of a stream
    heartbeat_seconds: float = 15.0
    key_seconds: float = 2.0  # between two looks at the keys of what is open
    poll_seconds: float = 0.2  # between two looks at a run that is watched
    wait_seconds: float = 60.0  # the longest `?wait=`
    shutdown_seconds: float = 5.0  # for requests under way
    reading_threads: int = 2  # more of them only wait for each other; long looks are among them
    writing_threads: int = 16  # these wait for the disk, and share its syncs
    starting_threads: int = 1  # it begins runs, each of which then has a thread of its own
    keeping_threads: int = 4  # these pack and sync content that has arrived
    long_threads: int = 1  # it verifies, audits and recalls: others do not wait behind that
    long_waiting: int = 32  # long looks that may wait for their turn
    long_of_a_key: int = 4  # and those of one key
    log: Callable[[bytes], None] | None = None  # takes the lines of the log; None: standard error
    looks_here: bool = False  # of one's own home: flows are found, and files looked at, where they lie
    works: bool = True  # it goes on with runs of its flows that can go on by themselves
    work_runs: int = 8  # that go on so at once
    temporal: TemporalSettings | None = None  # the engine that runs are started with, where it is not ours
    runtime: RuntimeSettings | None = field(default=None)

    @property
    def found(self) -> FoundHome:
        """The home, and where its ledger is."""
        return self.home if isinstance(self.home, FoundHome) else look_up(self.home)


class ServerState:
    """Opened when the server starts, closed when it ends."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.keys = Keys(settings.found)
        self.door = Doorkeeper(
            self.keys, loopback=settings.loopback, tenant=settings.tenant, require_key=settings.require_key
        )
        self.places = Places(
            loopback=settings.loopback,
            hosts=settings.allow_hosts,
            public_url=settings.public_url,
            origins=settings.allow_origins,
        )
        self.flows = Flows(settings.flows, settings.found.path)
        self.tenants = Tenants(settings, self.flows)
        self.metrics = Metrics()
        self.watchers = Watchers(self)
        self.key_watch = KeyWatch(self)
        self.metrics.under_way.set_function(lambda: len(self.key_watch.under_way))
        self.workers = Workers(self)
        self.notifiers = Notifiers(self)
        self.relays = Relays(self)
        self.log = RequestLog(settings.log)
        self.limits = Limits(settings.key_requests, settings.key_streams, settings.key_runs)
        self.quota = StoredBytes(settings.key_bytes)
        self.ending = asyncio.Event()  # set once: streams say goodbye
        self._noting: set[str] = set()
        self.threads = Threads(settings)
        self.entry = Turnstile()

    async def in_thread(self, work: Callable[[], T], *, writes: bool = False, who: str = "") -> T:
        """Do what blocks in a worker thread. Those that write are others: when the disk is slow, reading goes on."""
        return await (self.threads.writing if writes else self.threads.reading).do(work, who)

    def enter(self, headers: Mapping[bytes, bytes]) -> Identity:
        """Who asks. That a key was used is noted beside, once a minute. Raises Unauthenticated."""
        given = headers.get(b"authorization")
        identity = self.door.who(None if given is None else given.decode("latin-1"), forwarded_by(headers))
        key = identity.key
        if key is not None and given is not None:
            self.entry.knows(given)
        if key is not None:
            self.note_use(key)
        return identity

    def note_use(self, key: ApiKey) -> None:
        """That a key was used now, itself or by a cookie that stands for it: noted beside, once a minute."""
        if key.id in self._noting or self.keys.is_noted(key):
            return
        self._noting.add(key.id)
        try:
            self.threads.writing.submit(partial(self._note, key))
        except NoThread:
            self._noting.discard(key.id)  # the next time

    def _note(self, key: ApiKey) -> None:
        try:
            with suppress(OutlastError):  # a home that cannot be written to says so where it matters
                self.keys.used(key)
        finally:
            self._noting.discard(key.id)

    def hold_for(
        self,
        identity: Identity,
        tenant: str | None,
        actor: str | None,
        scope: str | None,
        observer: FileObserver = NOBODY,
        claims: Iterable[str] = (),
        *,
        came_from: str,
        door: Literal["http", "mcp"] = "http",
    ) -> Outlast:
        """An Outlast that acts for who asks. With a key tenant and actor are the key's.

        Raises TenantNotFound, Forbidden for others.

        It knows of files what the request carries, uses the claims that are shown, and records where it came from.
        """
        home, who = identity.tenant_named(tenant), identity.actor_named(actor)
        base = self.tenants.open(home, make=identity.key is not None or tenant is None)
        bound, key_id = (identity.key.scopes, identity.key.id) if identity.key else ((), "")
        named = bound[0] if bound and scope is None else scope
        outlast = base._acting(actor=who, scope=named, observer=observer, key_id=key_id, scopes=bound)
        show_claims(outlast, claims)
        came_by(outlast, door, came_from)
        return outlast

    def refuse_unserved(self, outlast: Outlast, run: RunRecord, name: str | None = None) -> None:
        """Raises NoFlows for a run whose flow this server was not given. A console of one's own home takes any."""
        if not self.settings.looks_here:
            self.flows.refuse_unserved(outlast, run, name)

    def check_ready(self) -> None:
        """Whether the server's own tenant can be written to. Raises Unavailable."""
        self.tenants.open(self.settings.tenant, make=True).check_writable()

    def end_streams(self) -> None:
        """Let every open stream say goodbye."""
        self.ending.set()
        self.watchers.wake_all()

    def close(self) -> None:
        """Runs under way are asked to stop, and are `interrupted` when they did."""
        self.workers.stop()
        self.notifiers.stop()
        self.relays.stop()
        self.tenants.close()
        self.threads.close()
        self.keys.close()
        self.log.flush(ends=True)


class Tenants:
    """One Outlast for each tenant, opened when it is first asked for."""

    def __init__(self, settings: ServerSettings, flows: Flows) -> None:
        self._settings, self._flows = settings, flows
        self._open: dict[str, Outlast] = {}
        self._lock = threading.Lock()
        self._closed = False

    def names(self) -> list[str]:
        """Every tenant that the home has."""
        return tenants_of(self._settings.found)

    def stop(self, by: Literal["shutdown", "person"]) -> None:
        """Ask all runs to stop after their steps. It takes no lock: a signal's handler calls it."""
        for outlast in list(self._open.values()):
            outlast.stop(by=by)

    def open(self, tenant: str, *, make: bool) -> Outlast:
        """The tenant's home. Raises TenantNotFound rather than making one, unless told to; NameInvalid."""
        found = self._open.get(tenant)
        return found if found is not None else self._opened(tenant, make)

    def _opened(self, tenant: str, make: bool) -> Outlast:
        check_tenant(tenant)
        own = tenant == self._settings.tenant
        if not (make or own) and not has_tenant(self._settings.found, tenant):
            raise TenantNotFound(tenant)
        with self._lock:
            if self._closed:
                raise Unavailable(detail="the server is ending")
            if tenant not in self._open:
                opened = Outlast(self._settings.found, tenant=tenant, settings=self._settings.runtime)
                opened._serve(self._flows.all)
                self._open[tenant] = opened
            return self._open[tenant]

    def close(self) -> None:
        with self._lock:
            self._closed = True
            opened, self._open = list(self._open.values()), {}
        for outlast in opened:  # first all are asked, so that they stop at the same time
            outlast.stop()
        for outlast in opened:
            outlast.close()
