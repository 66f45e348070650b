"""What all requests of one server share: its tenants, keys, flows, watchers and threads.

The server goes on with the runs that can go on by themselves: when it starts, and every so often.

Crashed ones, those that a shutdown stopped, answered ones and those whose time has come: of every tenant, of the flows
that it serves, so many at a time. One that is refused is told in the log, and tried again after a while.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from outlast.doors.http.identity import Doorkeeper, Identity, KeyWatch, Places, forwarded_by
from outlast.doors.http.limits import Limits, StoredBytes, Turnstile
from outlast.doors.http.log import RequestLog
from outlast.doors.http.metrics import Metrics
from outlast.doors.http.streams import Watchers
from outlast.doors.http.threads import Threads
from outlast.errors import NoFlows, OutlastError, RunFinished, RunHeld, TenantNotFound, Unavailable
from outlast.handoffs.given_observer import NOBODY
from outlast.handoffs.observer import Eyes
from outlast.home.keys import ApiKey, Keys
from outlast.home.place import check_tenant
from outlast.python.project import Flows
from outlast.values.codec import encode

if TYPE_CHECKING:
    from outlast import Outlast
    from outlast.home.settings import Settings as RuntimeSettings
    from outlast.python.awaited import Started


REFUSED_SECONDS = 600.0  # before a run that was refused is tried again


class Waker:
    """Looks for what is due, and goes on with it in the background of the server."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._awake: set[tuple[str, str]] = set()  # tenant and run, of those that go on
        self._refused: dict[tuple[str, str], float] = {}  # and of those that were refused: until when

    async def live(self) -> None:
        """Look until cancelled. A server without flows wakes nothing, and nor does one that was told not to."""
        settings = self._state.settings
        while settings.wake_seconds and settings.flows:
            try:
                await self._state.threads.starts(self.look, "waking")
            except Exception as error:  # of the disk, say: the next look may fare better
                self._state.log.failed(error, wake="look")
            await asyncio.sleep(settings.wake_seconds)

    def look(self) -> None:
        """Wake what is due in every tenant."""
        for tenant in self._state.tenants.names():
            try:
                outlast = self._state.tenants.open(tenant, make=False)
                self._wake_due(tenant, outlast)
            except OutlastError as error:  # one home that cannot be read keeps no other from going on
                self._state.log.line("warning", wake="look", tenant=tenant, error=f"{error.code}: {error}")

    def _wake_due(self, tenant: str, outlast: Outlast) -> None:
        for one in outlast.due():
            if len(self._awake) >= self._state.settings.wake_runs or self._state.ending.is_set():
                return
            if self._may_wake(tenant, one.run_id):
                self._wake(tenant, one.run_id, outlast)

    def _may_wake(self, tenant: str, run_id: str) -> bool:
        self._refused = {each: until for each, until in self._refused.items() if until > time.monotonic()}
        return (tenant, run_id) not in self._refused and (tenant, run_id) not in self._awake

    def _wake(self, tenant: str, run_id: str, outlast: Outlast) -> None:
        self._awake.add((tenant, run_id))
        try:
            self._state.flows.refuse_unserved(outlast, outlast.get(run_id))
            started = outlast._acting()._resume_soon(run_id)
        except OutlastError as error:
            self._over(tenant, run_id, error)
            return
        self._state.log.line("info", wake="resumed", tenant=tenant, run_id=run_id)
        started.when_done(partial(self._ended, tenant, run_id, started))

    def _ended(self, tenant: str, run_id: str, started: Started[object]) -> None:
        try:
            started.outcome(0)
        except BaseException as error:
            self._over(tenant, run_id, error)
        else:
            self._awake.discard((tenant, run_id))

    def _over(self, tenant: str, run_id: str, error: BaseException) -> None:
        """It did not go on: that somebody else has it, or serves its flow, is no trouble, everything else is told."""
        self._awake.discard((tenant, run_id))
        if isinstance(error, RunHeld | RunFinished | NoFlows):
            return
        self._refused[tenant, run_id] = time.monotonic() + REFUSED_SECONDS
        why = f"{error.code}: {error}" if isinstance(error, OutlastError) else f"{type(error).__name__}: {error}"
        self._state.log.line("warning", wake="refused", tenant=tenant, run_id=run_id, error=why)


T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """How a server is set up. Defaults fit nearly everyone; tests shorten the times."""

    home: Path
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
    wake_seconds: float = 30.0  # between two looks at what can go on by itself; 0: that is not looked at
    wake_runs: int = 8  # that were woken so and go on at once
    runtime: RuntimeSettings | None = field(default=None)


class ServerState:
    """Opened when the server starts, closed when it ends."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.keys = Keys(settings.home)
        self.door = Doorkeeper(
            self.keys, loopback=settings.loopback, tenant=settings.tenant, require_key=settings.require_key
        )
        self.places = Places(
            loopback=settings.loopback,
            hosts=settings.allow_hosts,
            public_url=settings.public_url,
            origins=settings.allow_origins,
        )
        self.flows = Flows(settings.flows, settings.home)
        self.tenants = Tenants(settings, self.flows)
        self.metrics = Metrics()
        self.watchers = Watchers(self)
        self.key_watch = KeyWatch(self)
        self.waking = Waker(self)
        self.log = RequestLog(settings.log)
        self.limits = Limits(settings.key_requests, settings.key_streams, settings.key_runs)
        self.quota = StoredBytes(settings.key_bytes)
        self.ending = asyncio.Event()  # set once: streams say goodbye
        self._noting: set[str] = set()
        self._described: dict[str, Any] | None = None
        self.threads = Threads(settings)
        self.entry = Turnstile()

    async def in_thread(self, work: Callable[[], T], *, writes: bool = False, who: str = "") -> T:
        """Do what blocks in a worker thread. Those that write are others: when the disk is slow, reading goes on."""
        return await self.threads.writes(work, who) if writes else await self.threads.reads(work, who)

    def enter(self, headers: Mapping[bytes, bytes]) -> Identity:
        """Who asks. That a key was used is noted beside, once a minute. Raises Unauthenticated."""
        given = headers.get(b"authorization")
        identity = self.door.who(None if given is None else given.decode("latin-1"), forwarded_by(headers))
        key = identity.key
        if key is not None and given is not None:
            self.entry.knows(given)
        if key is not None and key.id not in self._noting and not self.keys.is_noted(key):
            self._noting.add(key.id)
            with suppress(RuntimeError):  # there is no thread for it: the next time
                self.threads.submit(partial(self._note, key))
        return identity

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
        eyes: Eyes = NOBODY,
        claims: Iterable[str] = (),
        *,
        came_from: str,
        door: Literal["http", "mcp"] = "http",
    ) -> Outlast:
        """An Outlast that acts for who asks. With a key tenant and actor are the key's. Raises Forbidden.

        It knows of files what the request carries, uses the claims that are shown, and records where it came from.
        """
        home, who = identity.tenant_named(tenant), identity.actor_named(actor)
        base = self.tenants.open(home, make=identity.key is not None or tenant is None)
        bound = identity.key.scopes if identity.key else ()
        named = bound[0] if bound and scope is None else scope
        outlast = base._acting(actor=who, scope=named, eyes=eyes, scopes=bound)
        outlast._executor.caller.tokens.update(claims)
        outlast._executor.caller.came_from, outlast._executor.caller.door = came_from, door
        outlast._executor.caller.key_id = identity.key.id if identity.key else ""
        return outlast

    def check_ready(self) -> None:
        """Whether the server's own tenant can be written to. Raises Unavailable."""
        self.tenants.open(self.settings.tenant, make=True).check_writable()

    def end_streams(self) -> None:
        """Let every open stream say goodbye."""
        self.ending.set()
        self.watchers.wake_all()

    def openapi(self) -> dict[str, Any]:
        from outlast.doors.http.openapi import described

        if self._described is None:
            self._described = described()
        return self._described

    def openapi_json(self) -> bytes:
        return encode(self.openapi())

    def close(self) -> None:
        """Runs under way are asked to stop, and are `interrupted` when they did."""
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
        found = []
        for path in sorted(self._settings.home.glob("*/outlast.db")):
            with suppress(OutlastError):  # a folder that is none of a tenant
                found.append(check_tenant(path.parent.name))
        return found

    def stop(self, by: str) -> None:
        """Ask all runs to stop after their steps. It takes no lock: a signal's handler calls it."""
        for outlast in list(self._open.values()):
            outlast._executor.live.stop(by=by)

    def open(self, tenant: str, *, make: bool) -> Outlast:
        """The tenant's home. Raises TenantNotFound rather than making one, unless told to; NameInvalid."""
        found = self._open.get(tenant)
        return found if found is not None else self._opened(tenant, make)

    def _opened(self, tenant: str, make: bool) -> Outlast:
        from outlast import Outlast

        check_tenant(tenant)
        own = tenant == self._settings.tenant
        if not (make or own) and not (self._settings.home / tenant / "outlast.db").is_file():
            raise TenantNotFound(tenant)
        with self._lock:
            if self._closed:
                raise Unavailable(detail="the server is ending")
            if tenant not in self._open:
                opened = Outlast(self._settings.home, tenant=tenant, settings=self._settings.runtime)
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
