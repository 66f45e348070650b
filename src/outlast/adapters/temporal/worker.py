"""A worker of Temporal's: it polls task queues, advances runs on the ledger, and tells Temporal of others."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, assert_never

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.worker import Worker

from outlast.adapters.temporal.relay import Relay, Workflows, attributes_of, connect
from outlast.adapters.temporal.settings import TemporalSettings, check_place, task_queue_of
from outlast.adapters.temporal.workflow import ADVANCE, ENDED, WAITS, RunRef, RunWorkflow, Standing
from outlast.python.awaited import to_its_end
from outlast.runs.claim import RunClaim
from outlast.runs.queues.engine import UNKNOWN, Busy, Ended, Waits, mark_of, stand, take
from outlast.runs.run import TEMPORAL
from outlast.runs.start import go_on
from outlast.values.ambient import begin
from outlast.worker.notify import Notifier
from outlast.worker.place import WorkPlace, told_of
from outlast.worker.worker import CONCURRENCY, Bell, Tell, WorkNote, ask_to_stop, nobody

if TYPE_CHECKING:
    from temporalio.client import Client

    from outlast.python.decorators import Flow, FlowFile
    from outlast.python.outlast import Outlast

T = TypeVar("T")
LOOK_SECONDS, TOLD_SECONDS = 0.05, 1.0  # between two looks at whether others have written; where the store tells it
STICKY = timedelta(seconds=1)  # that a dead worker's own queue keeps a workflow from others
UNKNOWN_SECONDS, UNKNOWN_TRIES = 5.0, 60  # another worker's ledger may know it
AWAY_SECONDS, ENDING_SECONDS = 1.0, 10.0
BENIGN = ApplicationErrorCategory.BENIGN  # it is no failure to be asked too early


class TemporalWorker:
    """Goes on with the runs that Temporal gives it, from `start` (or `with`) to `stop`.

    Any number may work on one home, on as many machines as reach its database.
    """

    def __init__(
        self,
        outlast: Outlast,
        flows: Sequence[Flow[..., Any] | FlowFile] = (),
        settings: TemporalSettings | None = None,
        *,
        concurrency: int = CONCURRENCY,
        drain_seconds: float | None = None,
        executes: bool = True,
        notifies: bool = False,
        tell: Tell = nobody,
    ) -> None:
        """Without `flows`, of every flow that is found. `executes=False`: only tell Temporal, and run nothing.

        `notifies`: also tell whoever is to be told of what happens there.

        Raises EngineRefused.
        """
        self._settings = settings or TemporalSettings()
        home = outlast._executor.home
        check_place(home.database, self._settings)
        if flows:
            outlast._serve(flows)
        self._concurrency, self._drain_seconds = (concurrency if executes else 0), drain_seconds
        self._bell, self._is_ending, self._tell = Bell(), False, tell
        given = {"only_given": bool(flows) or not executes, "queues": self._settings.task_queues}
        self._place = WorkPlace(outlast, self._bell.ring, **given, engine=TEMPORAL)  # type: ignore[arg-type]
        self._place.declare()
        self._advancer = Advancer(self._place, tell)
        self._notifier = Notifier(outlast, home.path, home.tenant, tell=self._refuse) if notifies else None
        self._workers: dict[str, asyncio.Task[None]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._threads: list[threading.Thread] = []
        self._client: Client | None = None
        self._mark = ""

    # -- its life --------------------------------------------------------------------------------

    @property
    def under_way(self) -> list[str]:
        """The ids of the runs that it has taken, and that go on."""
        return list(self._advancer.under_way)

    def start(self) -> Self:
        """Connect, and begin to work in the background. Raises EngineUnreachable, ValueRefused, NoThread."""
        self._loop = asyncio.new_event_loop()
        self._begin(self._loop.run_forever, "temporal")
        try:
            self._client = self._do(connect(self._settings))
        except BaseException:
            self._end_loop()
            raise
        self._mark = mark_of(self._place.executor.home, TEMPORAL)
        self._place.enlist(self._concurrency)
        self._begin(self._live, "relay")
        if self._notifier is not None:
            self._notifier.start()
        return self

    def _begin(self, work: Any, name: str) -> None:
        thread = threading.Thread(target=work, name=f"outlast-{name}", daemon=True)
        self._threads.append(begin(thread, "a worker"))

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def stop(self) -> None:
        """Take nothing any more; runs under way end their steps, and go on where somebody works next."""
        if self._loop is None:
            return
        self._is_ending = self._advancer.is_ending = True
        self._bell.ring()
        self._place.unhook()
        if self._notifier is not None:
            self._notifier.stop()
        self._ask_to_stop(now=False)
        self._do(self._end_workers())
        self._place.leave()
        self._end_loop()

    def _end_loop(self) -> None:
        """The relay first: what it says to Temporal is said on the loop."""
        loop, polls, *relays = (self._loop, *self._threads)
        assert loop is not None
        for relay in relays:
            relay.join(ENDING_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        polls.join(ENDING_SECONDS)
        if not loop.is_running():
            loop.close()
        self._loop = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return await to_its_end(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await to_its_end(self.stop)

    # -- telling Temporal ------------------------------------------------------------------------

    def _live(self) -> None:
        assert self._client is not None
        known, tenant = self._do(attributes_of(self._client)), self._place.executor.home.tenant
        workflows = Workflows(self._client, tenant, self._mark, self._settings, known)
        relay = Relay(self._place, workflows, self._do)
        while not self._is_ending:
            try:
                self._place.sign()
                relay.look()
                self._serve(relay.queues)
                self._rest()
            except Exception as error:  # Temporal or the database is away: the next look may fare better
                self._refuse(told_of(error))
                self._bell.wait(AWAY_SECONDS)

    def _refuse(self, why: str) -> None:
        self._tell(WorkNote("refused", self._place.executor.home.tenant, "", error=why))

    def _rest(self) -> None:
        """Until something rings, another process has written, or a time has come."""
        store = self._place.executor.home.store
        over = time.monotonic() + self._place.seconds_left()
        look = TOLD_SECONDS if store.wakes() else LOOK_SECONDS
        while (left := over - time.monotonic()) > 0 and not self._bell.wait(min(left, look)):
            if self._place.has_news():
                return

    # -- what Temporal gives ---------------------------------------------------------------------

    def _serve(self, queues: Iterable[str]) -> None:
        """Poll the task queues of these queues, or those that were named."""
        wanted = set(self._settings.task_queues or queues) - set(self._workers) if self._concurrency else set()
        for queue in wanted:
            self._workers[queue] = self._do(self._begun(queue))

    async def _begun(self, queue: str) -> asyncio.Task[None]:
        return asyncio.ensure_future(self._poll(queue))

    async def _poll(self, queue: str) -> None:
        """One that cannot poll any more is replaced: a server that was away comes back."""
        while not self._is_ending:
            try:
                async with self._worker(queue):
                    while not self._is_ending:
                        await asyncio.sleep(LOOK_SECONDS)
            except Exception as error:
                self._refuse(told_of(error))
                await asyncio.sleep(AWAY_SECONDS)

    def _worker(self, queue: str) -> Worker:
        assert self._client is not None
        return Worker(
            self._client,
            task_queue=task_queue_of(queue, self._mark),
            workflows=[RunWorkflow],
            activities=[self._advance],
            max_concurrent_activities=self._concurrency,
            sticky_queue_schedule_to_start_timeout=STICKY,
            graceful_shutdown_timeout=timedelta(seconds=self._drain()),
        )

    @activity.defn(name=ADVANCE)
    async def _advance(self, of: RunRef) -> Standing:
        """Go on with a run, in a thread of its own, and say all the while that it lives."""
        found, loop = asyncio.get_running_loop().create_future(), asyncio.get_running_loop()

        def work() -> None:
            try:
                _settle(loop, found.set_result, self._advancer.advance(of.run_id))
            except BaseException as error:
                _settle(loop, found.set_exception, error)

        begin(threading.Thread(target=work, name=f"outlast-{of.run_id}", daemon=True), f"run {of.run_id}")
        while not found.done():
            activity.heartbeat()
            await asyncio.wait({found}, timeout=of.heartbeat_seconds / 4)
        return _told(found.result())

    # -- ending ----------------------------------------------------------------------------------

    def _drain(self) -> float:
        settings = self._place.executor.home.settings
        return settings.grace_seconds if self._drain_seconds is None else self._drain_seconds

    def _ask_to_stop(self, *, now: bool) -> None:
        for run_id in self.under_way:
            ask_to_stop(self._place.executor.live, run_id, now)

    async def _end_workers(self) -> None:
        """Let steps end within the limit, then ask at once; what heeds neither is left behind."""
        ending = asyncio.gather(*self._workers.values(), return_exceptions=True)
        over = time.monotonic() + self._drain()
        patience = self._place.executor.home.settings.patience_seconds + ENDING_SECONDS
        while not ending.done() and time.monotonic() < over + patience:
            self._ask_to_stop(now=time.monotonic() >= over)
            await asyncio.wait({ending}, timeout=0.1)


def _settle(loop: asyncio.AbstractEventLoop, settle: Callable[[Any], None], value: object) -> None:
    """From another thread; a loop that is closed wants to hear nothing any more."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(settle, value)


def _told(found: Ended | Waits | Busy) -> Standing:
    """What the workflow is told. Raises ApplicationError, to be asked again without a trace in its history."""
    match found:
        case Ended(status=status) if status == UNKNOWN and activity.info().attempt < UNKNOWN_TRIES:
            raise _later("the ledger of this worker does not know it", UNKNOWN_SECONDS)
        case Ended(status=status):
            return Standing(ENDED, status)
        case Waits(seconds=seconds):
            return Standing(WAITS, seconds=seconds)
        case Busy(why=why, seconds=seconds):
            raise _later(why, seconds)
        case _:
            assert_never(found)


def _later(why: str, seconds: float) -> ApplicationError:
    return ApplicationError(why, type="later", next_retry_delay=timedelta(seconds=seconds), category=BENIGN)


# -- what an activity does: go on with one run on the ledger -------------------------------------------


REFUSED_SECONDS = 5.0
REASONS = {"interrupted": "asked", "failed": "asked"}  # where the run itself says none


class Advancer:
    """Goes on with runs of one home, for whoever asks, until it is stopped.

    The ledger decides. An activity may come twice, late, or while another one lives: only who claims the run executes
    it, and only under its epoch anything is committed.
    """

    def __init__(self, place: WorkPlace, tell: Tell) -> None:
        self.place, self._tell = place, tell
        self.is_ending = False
        self.under_way: set[str] = set()

    def advance(self, run_id: str) -> Ended | Waits | Busy:
        """Go on with a run as far as it goes. How it stands then."""
        while True:
            if self.is_ending:
                return Busy("this worker stops", 0.1)
            taken = take(self.place.executor.caller, run_id, TEMPORAL, self.place.serves)
            if not isinstance(taken, RunClaim):
                return taken
            self.under_way.add(run_id)
            try:
                self._go_on(taken)
            except Exception as error:  # it was given back: whoever comes next may fare better
                self._say("refused", run_id, error=told_of(error))
                return self._stand(run_id)
            finally:
                self.under_way.discard(run_id)

    def _go_on(self, taken: RunClaim) -> None:
        reason = taken.reason or REASONS.get(taken.found, taken.found)
        self._say("took", taken.run.id, reason=reason)
        outcome = go_on(self.place.executor, taken)
        self._say("ended", taken.run.id, reason=reason, status=outcome.status)

    def _stand(self, run_id: str) -> Ended | Waits | Busy:
        found = stand(self.place.executor.caller, run_id, TEMPORAL, self.place.serves)
        return found if found is not None else Busy("it was refused", REFUSED_SECONDS)

    def _say(self, kind: str, run_id: str, **more: str) -> None:
        self._tell(WorkNote(kind, self.place.executor.home.tenant, run_id, **more))
