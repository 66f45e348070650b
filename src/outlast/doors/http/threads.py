"""The threads of a server: several pools, so that what is short never waits behind what is long.

In each, the keys take turns: who asks for much waits behind himself (limits.py).
Reading and writing are short. Starts come by the hundred at times, and have a thread of their own. So have long looks
(verify, audit, recall), with a queue that is bounded, in all and for each key; while one is taken there is one read
less at the same time. The threads are few: those that compute wait for each other at every statement, and everybody
waits for all of them. Content that arrives is written piece by piece, and kept once it is there: no thread ever waits
for a client.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from outlast.doors.http.limits import Turns
from outlast.errors import NoThread, ServerBusy, Unavailable

if TYPE_CHECKING:
    from outlast.doors.http.state import ServerSettings

T = TypeVar("T")
PIECES = 4  # threads that write pieces of content, each for a moment


class Threads:
    """Pools by what is done in them. `who` is the key it is done for; work of the server itself has none."""

    def __init__(self, settings: ServerSettings) -> None:
        self._reading = Pool(settings.reading_threads, "reads")
        self._writing = Pool(settings.writing_threads, "writes")
        self._starting = Pool(settings.starting_threads, "starts")
        self._pieces = Pool(PIECES, "pieces")
        self._keeping = Pool(settings.keeping_threads, "keeps")
        beside = self._reading if settings.reading_threads > settings.long_threads else None
        self._looking = Pool(settings.long_threads, "looks", beside)
        self._most, self._of_a_key = settings.long_threads + settings.long_waiting, settings.long_of_a_key
        self._looks: Counter[str] = Counter()  # under way or waiting, by key

    async def reads(self, work: Callable[[], T], who: str = "") -> T:
        return await self._reading.do(work, who)

    async def writes(self, work: Callable[[], T], who: str = "") -> T:
        return await self._writing.do(work, who)

    async def starts(self, work: Callable[[], T], who: str) -> T:
        """Begin a run, or go on with one: many at once keep no other write waiting."""
        return await self._starting.do(work, who)

    async def writes_piece(self, work: Callable[[], T], who: str) -> T:
        """Write a piece of what arrives: not durable yet, so that it is a moment."""
        return await self._pieces.do(work, who)

    async def keeps(self, work: Callable[[], T], who: str) -> T:
        """Pack and sync what has arrived."""
        return await self._keeping.do(work, who)

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

    def submit(self, work: Callable[[], object]) -> None:
        """Have something written that nobody waits for."""
        self._writing.submit(work)

    def close(self) -> None:
        for pool in (self._reading, self._writing, self._starting, self._pieces, self._keeping, self._looking):
            pool.close()


class Pool:
    """Some threads, for which keys take turns; a turn beside another pool is one of that pool's too."""

    def __init__(self, count: int, name: str, beside: Pool | None = None) -> None:
        self._threads = ThreadPoolExecutor(count, thread_name_prefix=f"outlast-{name}")
        self._turns = Turns(count)
        self._beside = beside

    async def do(self, work: Callable[[], T], who: str) -> T:
        """What the work gives, done by one of the threads. Raises NoThread; then it is not done later either."""
        await self._take(who)
        try:
            doing = self._begun(work)
        except BaseException:
            self._give()
            raise
        try:
            return await asyncio.wrap_future(doing)
        finally:
            self._free_after(doing)

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

    def _begun(self, work: Callable[[], T]) -> Future[T]:
        refused = threading.Event()

        def unless_refused() -> T:
            if refused.is_set():
                raise Unavailable(detail="nobody waits for it any more")
            return work()

        try:
            return self._threads.submit(unless_refused)
        except RuntimeError as error:
            refused.set()  # what could not begin stays in the queue
            raise NoThread("what was asked for", str(error)) from error

    def _free_after(self, doing: Future[Any]) -> None:
        """The turn is over when the thread is free, also if nobody waits for it any more."""
        if doing.done():
            self._give()
            return
        loop = asyncio.get_running_loop()

        def give(_: object) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._give)

        doing.add_done_callback(give)

    def submit(self, work: Callable[[], object]) -> None:
        self._threads.submit(work)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
