"""What one key may take at once, so that others get their share: requests, runs, room, and threads.

There are no limits without a key: on this machine everybody is the owner. Counts are this server's own, and are made in
its loop and in its threads alike.

Whose turn it is: of the keys that wait, the one whose last turn is longest ago, however many of one key wait.

What a server can do at once is little: one loop, a few threads. Where more is asked for, what is asked by one key
queues behind that key only; and who asks now and then comes before those who never cease to.

How much the holder of a key may store: content, and what is sent in bodies. What `gc` removes is free again.

A quota refuses starts and saves. It refuses nothing that ends what was begun: receipts, outcomes of effects, settling.
Without a key there is none.

The threads are in several pools, so that what is short never waits behind what is long; in each, keys take turns.
Reading and writing are short. Starts come by the hundred at times, and have a thread of their own. So have long looks
(verify, audit, recall), with a queue that is bounded, in all and for each key; while one is taken there is one read
less at the same time. The threads are few: those that compute wait for each other at every statement, and everybody
waits for all of them. Content that arrives is written piece by piece, and kept once it is there: no thread ever waits
for a client.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from contextvars import Context
from heapq import heappop, heappush
from itertools import count
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar, cast

from msgspec import Struct

from outlast.errors import NoThread, Quota, ServerBusy, TooManyRequests, TooManyRuns
from outlast.python import door
from outlast.values.ambient import begin

if TYPE_CHECKING:
    from outlast import Outlast
    from outlast.doors.http.exchange import Exchange
    from outlast.doors.http.identity import Identity
    from outlast.doors.http.state import ServerSettings
    from outlast.python.awaited import Started


_AUTHORIZATION = re.compile(rb"\nauthorization:[ \t]*([^\r\n]*)", re.IGNORECASE)


class Turns:
    """So many at once; the others wait, in a queue for each key. Everything happens in one loop."""

    REMEMBERED = 10_000  # keys whose last turn is known

    def __init__(self, at_once: int) -> None:
        self._free = at_once
        self._queues: dict[Hashable, deque[asyncio.Future[None]]] = {}
        self._order: list[tuple[int, int, Hashable]] = []  # a heap of those keys: last turn, since when it waits
        self._last: dict[Hashable, int] = {}  # the number of a key's last turn
        self._numbers = count(1)

    async def take(self, key: Hashable) -> None:
        """Wait for a turn, which must be given back."""
        turn = self.ask(key)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it came, and nobody is there to use it
                self.give()
            raise

    def take_free(self, key: Hashable) -> bool:
        """Take a turn, which must be given back, if one is free."""
        if self._free <= 0:
            return False
        self._free -= 1
        self._remember(key)
        return True

    def ask(self, key: Hashable) -> asyncio.Future[None]:
        """A turn, which must be given back; it is done when it has come."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.take_free(key):
            turn.set_result(None)
            return turn
        if key not in self._queues:
            self._queues[key] = deque()
            self._queue(key)
        self._queues[key].append(turn)
        return turn

    def give(self) -> None:
        """Give a turn back: the next one waiting has it."""
        while self._order:
            key = heappop(self._order)[2]
            turn = self._queues[key].popleft()
            if not turn.done():
                self._remember(key)
            if self._queues[key]:
                self._queue(key)
            else:
                del self._queues[key]
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def _queue(self, key: Hashable) -> None:
        heappush(self._order, (self._last.get(key, 0), next(self._numbers), key))

    def _remember(self, key: Hashable) -> None:
        if len(self._last) >= self.REMEMBERED:
            self._last.clear()
        self._last[key] = next(self._numbers)


class Turnstile:
    """The way in: so many requests enter at each round of the loop, a key that is known at its own turn.

    Whoever shows no key, or one that was not let in before, queues with all others of these. What a request shows is
    read off its bytes before they are taken apart, which costs ten times as much: it says whose turn is used, no more.
    """

    AT_ONCE, KNOWN = 2, 10_000

    def __init__(self) -> None:
        self._turns = Turns(self.AT_ONCE)
        self._known: set[int] = set()  # prints of headers that were let in

    def knows(self, authorization: bytes) -> None:
        """This one was let in."""
        if len(self._known) >= self.KNOWN:
            self._known.clear()
        self._known.add(hash(authorization))

    def lets_in(self, head: bytes) -> bool:
        """Whether a request that begins so enters at once; if not, it waits for its turn."""
        if not self._turns.take_free(self._key_of(head)):
            return False
        asyncio.get_running_loop().call_soon(self._turns.give)
        return True

    def turn_of(self, head: bytes) -> asyncio.Future[None]:
        """The turn of a request that begins so; the round of the loop after it has it again."""
        turn = self._turns.ask(self._key_of(head))
        turn.add_done_callback(self._give_back)
        return turn

    def _key_of(self, head: bytes) -> int:
        found = _AUTHORIZATION.search(head)
        shown = hash(found[1]) if found else 0
        return shown if shown in self._known else 0

    def _give_back(self, turn: asyncio.Future[None]) -> None:
        turn.get_loop().call_soon(self._turns.give)


COUNTED = frozenset(  # calls whose bodies are kept
    {
        "handoff_store",
        "workspace_record",
        "workspace_checkpoint",
        "session_append",
        "session_append_many",
        "session_set_memo",
        "task_record",
    }
)
REFUSED = COUNTED | {"workspace_save", "run_start", "run_fork"}  # content is counted where it is saved
NOTED_BYTES = 1 << 20  # of bodies that were counted and not yet written down
LOOK_SECONDS = 5.0  # between two looks at what a key has stored
RefuseOver = Callable[[int], None]


class StoredBytes:
    """What each key has stored, as far as this server knows. Used by threads."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._used: dict[str, tuple[int, float]] = {}  # bytes, and when that was looked up
        self._bodies: Counter[str] = Counter()

    def room(self, identity: Identity | None, outlast: Outlast) -> RefuseOver:
        """What refuses so many bytes more than there is room for. Raises Quota when there is none."""
        if identity is None or identity.key is None:
            return lambda size: None
        key, used = identity.key.id, self._known(identity.key.id, outlast)

        def refuse_over(size: int) -> None:
            if used + size > self._limit:
                raise Quota(key, used, self._limit)

        refuse_over(1)
        return refuse_over

    def _known(self, key: str, outlast: Outlast) -> int:
        used, at = self._used.get(key, (0, 0.0))
        now = time.monotonic()
        if not at or now - at > LOOK_SECONDS:
            used = door.stored_bytes_of(outlast, key) + self._bodies[key]
            self._used[key] = used, now
        return used

    def admit(self, identity: Identity | None, outlast: Outlast, call: str, size: int) -> None:
        """Count the body of a call that keeps it. Raises Quota for what would be too much."""
        if identity is None or identity.key is None or call not in REFUSED:
            return
        self.room(identity, outlast)(size)
        if call in COUNTED:
            self._add(identity.key.id, outlast, size)

    def _add(self, key: str, outlast: Outlast, size: int) -> None:
        with self._lock:
            used, at = self._used[key]
            self._used[key] = used + size, at
            self._bodies[key] += size
            due = self._bodies[key] if self._bodies[key] >= NOTED_BYTES else 0
            self._bodies[key] -= due
        if due:
            door.add_stored(outlast, key, due)

    def note(self, identity: Identity | None, outlast: Outlast, blob: str, size: int) -> None:
        """Somebody stored a blob: who was first pays for it."""
        if identity is not None and identity.key is not None:
            door.note_stored(outlast, identity.key.id, blob, size)
            self.changed(identity)

    def changed(self, identity: Identity | None) -> None:
        """Look again before the next answer."""
        if identity is not None and identity.key is not None:
            self._used.pop(identity.key.id, None)


async def room_for(exchange: Exchange, outlast: Outlast) -> RefuseOver:
    """The room for a body of the size that the request says. Raises Quota before any of it is read."""
    refuse_over = await exchange.in_thread(exchange.state.quota.room, exchange.identity, outlast)
    refuse_over(exchange.length or 0)
    return refuse_over


class Limits:
    """How many requests and runs of each key are under way."""

    def __init__(self, requests: int, streams: int, runs: int) -> None:
        self._most_requests, self._most_streams, self._most_runs = requests, streams, runs
        self._requests: Counter[str] = Counter()
        self._streams: Counter[str] = Counter()
        self._runs: Counter[str] = Counter()
        self._lock = threading.Lock()

    def begin_request(self, identity: Identity, *, stream: bool = False) -> Callable[[], None]:
        """Count a request or a stream; what it gives ends it, and may be called again. Raises TooManyRequests."""
        counts, most = (self._streams, self._most_streams) if stream else (self._requests, self._most_requests)
        return self._begun(identity, counts, most, TooManyRequests)

    def begin_run(self, identity: Identity) -> Callable[[], None]:
        """Count a run that is to execute; what it gives ends it, and may be called again. Raises TooManyRuns."""
        return self._begun(identity, self._runs, self._most_runs, TooManyRuns)

    def counted(self, identity: Identity, begin: Callable[[], Started[Any]]) -> Started[Any]:
        """A run that is begun so, counted for as long as it executes. Raises TooManyRuns."""
        end = self.begin_run(identity)
        try:
            started = begin()
        except BaseException:
            end()
            raise
        started.when_done(end)
        return started

    def _begun(
        self, identity: Identity, counts: Counter[str], most: int, refused: type[TooManyRequests | TooManyRuns]
    ) -> Callable[[], None]:
        if identity.key is None:
            return _nothing
        key, left = identity.key.id, [identity.key.id]
        with self._lock:
            if counts[key] >= most:
                raise refused(key, most)
            counts[key] += 1

        def end() -> None:
            with self._lock:
                if left:
                    counts[left.pop()] -= 1
                    if not counts[key]:
                        del counts[key]

        return end


def _nothing() -> None:
    """There is nothing to end."""


# -- threads -----------------------------------------------------------------------------------------

T = TypeVar("T")
PIECES = 4  # threads that write pieces of content, each for a moment


class Threads:
    """Pools by what is done in them. `who` is the key it is done for; work of the server itself has none."""

    def __init__(self, settings: ServerSettings) -> None:
        self.reading = Pool(settings.reading_threads, "reads")
        self.writing = Pool(settings.writing_threads, "writes")
        self.starting = Pool(settings.starting_threads, "starts")  # of runs: many keep no other write waiting
        self.pieces = Pool(PIECES, "pieces")  # of what arrives: not durable yet, so that each is a moment
        self.keeping = Pool(settings.keeping_threads, "keeps")  # packs and syncs what has arrived
        beside = self.reading if settings.reading_threads > settings.long_threads else None
        self._looking = Pool(settings.long_threads, "looks", beside)
        self._most, self._of_a_key = settings.long_threads + settings.long_waiting, settings.long_of_a_key
        self._looks: Counter[str] = Counter()  # under way or waiting, by key

    async def looks(self, work: Callable[[], T], who: str) -> T:
        """Take a long look. Raises ServerBusy when too many wait already, of this key or of all."""
        most = self._of_a_key if who else self._most
        if self._looks[who] >= most or self._looks.total() >= self._most:
            raise ServerBusy(min(self._looks.total(), most))
        self._looks[who] += 1
        try:
            return await self._looking.do(work, who)
        finally:
            self._looks[who] -= 1
            self._looks += Counter()  # forgets those that have none

    def close(self) -> None:
        for pool in (self.reading, self.writing, self.starting, self.pieces, self.keeping, self._looking):
            pool.close()


class _Told(asyncio.Future[Any]):
    """What comes of something done in a thread. Who awaits it goes on in that round of the loop in which it is told.

    Any other future is heard in the round after, between which and this one the loop asks the system what has come.
    """

    _who: tuple[Callable[[Any], object], Context] | None = None  # the one task that awaits it

    def add_done_callback(self, fn: Callable[[Any], object], *, context: Context | None = None) -> None:
        if self.done() or self._who is not None or context is None:
            super().add_done_callback(fn, context=context)
        else:
            self._who = fn, context

    def cancel(self, msg: Any | None = None) -> bool:
        is_first = super().cancel(msg)
        if is_first and self._who is not None:
            super().add_done_callback(self._who[0], context=self._who[1])
        return is_first

    def go_on(self) -> None:
        """Let who awaits it have what was set."""
        if self._who is not None:
            go_on, context = self._who
            context.run(go_on, self)


class _Job(Struct, eq=False):
    """Something to do in a thread, and who waits for it: nobody, if there is no future."""

    work: Callable[[], Any]
    told: _Told | None = None
    result: Any = None
    error: BaseException | None = None

    def do(self) -> None:
        try:
            self.result = self.work()
        except BaseException as error:
            self.error = error

    def tell(self) -> None:
        """Let who waits have what came of it, in his loop; he may have left."""
        if self.told is None or self.told.done():
            return
        if self.error is not None:
            self.told.set_exception(self.error)
        else:
            self.told.set_result(self.result)
        self.told.go_on()


class Pool:
    """Some threads, for which keys take turns; a turn beside another pool is one of that pool's too.

    A thread is started when there is work and none is free. Between a request and its thread stand a queue and a call
    of the loop, no more: every request goes through here.
    """

    def __init__(self, count: int, name: str, beside: Pool | None = None) -> None:
        self._count, self._name = count, name
        self._turns = Turns(count)
        self._beside = beside
        self._queue: SimpleQueue[_Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._started = self._free = 0  # threads; less than none is free while work waits
        self._closed = False

    async def do(self, work: Callable[[], T], who: str) -> T:
        """What the work gives, done by one of the threads. Raises NoThread; then it is not done later either."""
        if self._beside is not None or not self._turns.take_free(who):
            await self._take(who)
        told = _Told(loop=asyncio.get_running_loop())
        try:
            self._put(_Job(work, told))
        except BaseException:
            self._give()
            raise
        return cast(T, await told)

    async def _take(self, who: str) -> None:
        await self._turns.take(who)
        if self._beside is not None:
            try:
                await self._beside._take(who)
            except BaseException:
                self._turns.give()
                raise

    def _give(self) -> None:
        self._turns.give()
        if self._beside is not None:
            self._beside._give()

    def submit(self, work: Callable[[], object]) -> None:
        """Have it done beside all turns. Raises NoThread."""
        self._put(_Job(work))

    def _put(self, job: _Job) -> None:
        with self._lock:
            if self._closed:
                raise NoThread("what was asked for", "the server has ended")
            if self._free <= 0 and self._started < self._count:
                self._start()
            self._free -= 1
            self._queue.put(job)

    def _start(self) -> None:
        name = f"outlast-{self._name}_{self._started}"
        begin(threading.Thread(target=self._serve, name=name, daemon=True), "what was asked for")
        self._started += 1
        self._free += 1

    def _serve(self) -> None:
        while (job := self._queue.get()) is not None:
            job.do()
            with self._lock:
                self._free += 1
            if job.told is not None:
                with suppress(RuntimeError):  # the loop has ended
                    job.told.get_loop().call_soon_threadsafe(self._done, job)
            del job  # what it holds is not kept until the next one comes

    def _done(self, job: _Job) -> None:
        """The turn is over when the thread is free, also if nobody waits for it any more."""
        self._give()
        job.tell()

    def _refuse(self, told: asyncio.Future[Any]) -> None:
        """It is not begun any more; who waits for its turn is refused in turn."""
        self._give()
        told.cancel()

    def close(self) -> None:
        """What is being done is finished; what waits is not begun, and who waits for it is told so."""
        with self._lock:
            self._closed = True
            while not self._queue.empty():
                job = self._queue.get()
                if job is not None and job.told is not None:
                    with suppress(RuntimeError):  # the loop has ended
                        job.told.get_loop().call_soon_threadsafe(self._refuse, job.told)
            for _ in range(self._started):
                self._queue.put(None)
