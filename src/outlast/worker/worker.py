"""The worker: one thread that looks, and the runs that it has taken, each in a thread of its own or on a loop.

It takes what can go on by itself: crashed runs, those that a shutdown stopped, and waiting ones whose wait is over. To
stop it is a shutdown: it takes nothing any more, its runs end their steps within a limit, and whoever works next goes
on with them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct

from outlast.errors import OutlastError, ValueRefused
from outlast.python.awaited import Started, to_its_end
from outlast.runs.find import Due
from outlast.runs.start import claim_run, given_back, go_on, go_on_async
from outlast.runs.stops import SHUTDOWN
from outlast.values.ambient import begin
from outlast.worker.notify import Notifier
from outlast.worker.place import WorkPlace, told_of

if TYPE_CHECKING:
    import asyncio

    from outlast.python.outlast import Outlast
    from outlast.runs.claim import RunClaim
    from outlast.runs.live import Live

CONCURRENCY = 8
LOOK_SECONDS = 0.05  # between two looks at whether another process has written
TOLD_SECONDS = 1.0  # the same, where the store tells it: only what was missed is found then


class WorkNote(Struct, frozen=True):
    """What a worker tells of a run: `took`, `ended`, or `refused`, which is tried again after a while."""

    kind: str
    tenant: str
    run_id: str
    reason: str = ""  # why it could go on
    status: str = ""  # how it stands, once it has ended
    error: str = ""


class Bell:
    """Wakes the thread that waits for it. To wait is one call of the kernel, unlike an Event, which makes a lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def ring(self) -> None:
        """Whoever waits, or does so next, wakes. It may have been rung already."""
        with suppress(RuntimeError):
            self._lock.release()

    def wait(self, seconds: float) -> bool:
        """Whether it was rung within this time."""
        return self._lock.acquire(timeout=seconds)


Tell = Callable[[WorkNote], None]


def nobody(note: WorkNote) -> None:
    """Stands for who is told while nobody listens."""


class Worker:
    """Goes on with what can go on by itself, so many runs at once, from `start` (or `with`) to `stop`."""

    def __init__(
        self,
        outlasts: Iterable[Outlast] = (),
        *,
        concurrency: int = CONCURRENCY,
        only_given: bool = False,
        queues: Iterable[str] = (),
        drain_seconds: float | None = None,
        tell: Tell = nobody,
        loop: asyncio.AbstractEventLoop | None = None,
        notifies: bool = False,
    ) -> None:
        """`only_given`: leave runs of flows alone that no home was given; `queues`: and other queues than these.

        `notifies`: also tell whoever is to be told of what happens there. On a `loop` async flows run there.
        """
        if type(concurrency) is not int or concurrency < 1:
            raise ValueRefused(
                "concurrency", f"{concurrency!r:.100} is no number of runs", "give a whole number from 1 on"
            )
        self._concurrency, self._only_given, self._drain_seconds = concurrency, only_given, drain_seconds
        self._tell, self._loop, self._queues = tell, loop, frozenset(queues)
        self._notifies, self._notifiers = notifies, list[Notifier]()
        self._bell, self._lock = Bell(), threading.Condition()
        self._under_way: dict[tuple[str, str], WorkPlace] = {}
        self._ending = False
        self._thread: threading.Thread | None = None
        self._places: dict[str, WorkPlace] = {}
        for outlast in outlasts:
            self.serve(outlast)

    # -- its life --------------------------------------------------------------------------------

    def serve(self, outlast: Outlast) -> None:
        """Work on this home too."""
        home = outlast._executor.home
        place = str(home.folder)
        if place not in self._places:
            new = WorkPlace(outlast, self._bell.ring, only_given=self._only_given, queues=self._queues)
            new.declare()
            if self._thread is not None:
                new.enlist(self._concurrency)
            self._places = self._places | {place: new}
            self._bell.ring()

    def start(self) -> Self:
        """Begin to work, in the background. Raises NoThread."""
        if self._thread is None:
            self._ending = False
            for place in self._places.values():
                place.enlist(self._concurrency)
            thread = threading.Thread(target=self._live, name="outlast-worker", daemon=True)
            self._thread = begin(thread, "a worker")
            self._notifiers = [self._notifier(place) for place in self._places.values() if self._notifies]
            for notifier in self._notifiers:
                notifier.start()
        return self

    def _notifier(self, place: WorkPlace) -> Notifier:
        home = place.executor.home
        return Notifier(
            place.outlast, home.path, home.tenant, tell=lambda line: self._say("refused", place, "", error=line)
        )

    def stop(self) -> None:
        """Take nothing any more; runs under way end their steps, and go on where somebody works next."""
        self._ending = True
        self._bell.ring()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()
        for notifier in self._notifiers:
            notifier.stop()
        for place in self._places.values():
            place.unhook()
            place.leave()
        self._drain()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await to_its_end(self.stop)

    # -- looking ---------------------------------------------------------------------------------

    def _live(self) -> None:
        while not self._ending:
            places = list(self._places.values())
            for place in places:
                # whatever the store says, the worker lives: the next look may fare better
                try:
                    place.sign()
                    if self._has_room():
                        self._take_all(place)
                except Exception as error:  # of the disk, say: other homes do not wait for it
                    place.failed()
                    self._say("refused", place, "", error=told_of(error))
            if not self._ending:
                self._rest(places)

    def _rest(self, places: list[WorkPlace]) -> None:
        """Until something rings, another process has written, or a time has come.

        A worker that has nothing to do is here nearly always: what a glance touches is all that it costs.
        """
        if not self._has_room():  # there is nothing to look for: an end rings
            self._bell.wait(LOOK_SECONDS)
            return
        over = time.monotonic() + min((place.seconds_left() for place in places), default=LOOK_SECONDS)
        while (left := over - time.monotonic()) > 0 and not self._bell.wait(min(left, self._look_seconds())):
            if any(self._has_news(place) for place in places):
                return

    def _has_news(self, place: WorkPlace) -> bool:
        """Where it cannot be asked the next look says why."""
        try:
            return place.has_news()
        except OutlastError:
            return False

    def _look_seconds(self) -> float:
        """How long until it asks whether others have written: seldom, where all its stores tell that by themselves."""
        told = all(place.executor.home.store.wakes() for place in self._places.values())
        return TOLD_SECONDS if told and self._places else LOOK_SECONDS

    def _has_room(self) -> bool:
        return len(self._under_way) < self._concurrency

    def _take_all(self, place: WorkPlace) -> None:
        for one in place.due():
            if self._ending or not self._has_room():
                place.rung()  # the rest, once there is room
                return
            self._take(place, one)
        while self._has_room() and not self._ending and (claimed := place.next_queued()) is not None:
            self._go_on(place, Due(claimed.run.id, claimed.reason), claimed)

    # -- taking ----------------------------------------------------------------------------------

    def _take(self, place: WorkPlace, one: Due) -> None:
        if (place.executor.home.tenant, one.run_id) in self._under_way:
            return
        try:
            place.check_served(one.run_id)
            claimed = claim_run(place.executor.caller, one.run_id)
        except Exception as error:
            self._over(place, one, error)
            return
        self._go_on(place, one, claimed)

    def _go_on(self, place: WorkPlace, one: Due, claimed: RunClaim) -> None:
        self._under_way[place.executor.home.tenant, one.run_id] = place
        try:
            going = self._going(place, claimed)
        except Exception as error:
            self._over(place, one, error)
            return
        self._say("took", place, one.run_id, reason=one.reason)
        going.when_done(partial(self._ended, place, one, going))

    def _going(self, place: WorkPlace, claimed: RunClaim) -> Started[Any]:
        """Raises NoThread, giving it back."""
        run_id = claimed.run.id
        started: Started[Any] = Started(run_id)
        if self._loop is not None:
            from asyncio import run_coroutine_threadsafe

            future = run_coroutine_threadsafe(go_on_async(place.executor, claimed), self._loop)
            future.add_done_callback(lambda done: started._work(done.result))
            return started
        work = partial(started._work, partial(go_on, place.executor, claimed))
        with given_back(place.executor.home, claimed):
            begin(threading.Thread(target=work, name=f"outlast-{run_id}", daemon=True), f"run {run_id}")
        return started

    def _ended(self, place: WorkPlace, one: Due, going: Started[Any]) -> None:
        try:
            outcome = going.outcome(0)
        except BaseException as error:
            self._over(place, one, error)
            return
        place.went_on(one.run_id)
        self._forget(place, one.run_id)
        self._say("ended", place, one.run_id, reason=one.reason, status=outcome.status)

    def _over(self, place: WorkPlace, one: Due, error: BaseException) -> None:
        told = place.refuse(one.run_id, error)
        self._forget(place, one.run_id)
        if told:
            self._say("refused", place, one.run_id, reason=one.reason, error=told_of(error))

    def _forget(self, place: WorkPlace, run_id: str) -> None:
        with self._lock:
            self._under_way.pop((place.executor.home.tenant, run_id), None)
            self._lock.notify_all()
        self._bell.ring()

    def _say(self, kind: str, place: WorkPlace, run_id: str, **more: str) -> None:
        self._tell(WorkNote(kind, place.executor.home.tenant, run_id, **more))

    # -- ending ----------------------------------------------------------------------------------

    @property
    def under_way(self) -> list[str]:
        """The ids of the runs that it has taken, and that go on."""
        return [run_id for _, run_id in list(self._under_way)]

    def _drain(self) -> None:
        """Ask its runs to stop after their steps, then at once; what heeds neither is left behind."""
        settings = [place.executor.home.settings for place in self._places.values()]
        limit = max((each.grace_seconds for each in settings), default=0.0)
        limit = limit if self._drain_seconds is None else self._drain_seconds
        if not self._ask(limit, now=False):
            self._ask(max((each.patience_seconds for each in settings), default=0.0) + 1, now=True)

    def _ask(self, seconds: float, *, now: bool) -> bool:
        """Whether all have stopped within this time. One that began a moment ago hears it at the next look."""
        until = time.monotonic() + seconds
        while self._under_way and time.monotonic() < until:
            for (_, run_id), place in list(self._under_way.items()):
                ask_to_stop(place.executor.live, run_id, now)
            with self._lock:
                if self._under_way:
                    self._lock.wait(LOOK_SECONDS)
        return not self._under_way


def ask_to_stop(live: Live, run_id: str, now: bool) -> None:
    """Ask a run that goes on here to stop, with those that it has spawned."""
    execution = live.executions.get(run_id)
    if execution is not None:
        execution.ask_to_stop(SHUTDOWN, now=now)
        for child in list(execution.children):
            ask_to_stop(live, child.run_id, now)
