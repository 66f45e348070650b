"""The threads of a server: several pools, so that what is short never waits behind what is long.

Reading and writing are short. Starts come by the hundred at times, and have threads of their own. So have long looks
(verify, audit, recall), with a queue that is bounded, in all and for each key. Content that arrives is written piece by
piece, and kept once it is there: no thread ever waits for a client.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from outlast.errors import NoThread, ServerBusy, Unavailable

if TYPE_CHECKING:
    from outlast.doors.http.identity import Identity
    from outlast.doors.http.state import ServerSettings

T = TypeVar("T")
PIECES = 4  # threads that write pieces of content, each for a moment


class Threads:
    """Pools by what is done in them."""

    def __init__(self, settings: ServerSettings) -> None:
        self._reading = _pool(settings.reading_threads, "reads")
        self._writing = _pool(settings.writing_threads, "writes")
        self._starting = _pool(settings.starting_threads, "starts")
        self._pieces = _pool(PIECES, "pieces")
        self._keeping = _pool(settings.keeping_threads, "keeps")
        self._looking = _pool(settings.long_threads, "looks")
        self._most, self._of_a_key = settings.long_threads + settings.long_waiting, settings.long_of_a_key
        self._looks: Counter[str] = Counter()  # under way or waiting, by key

    async def reads(self, work: Callable[[], T]) -> T:
        return await _in(self._reading, work)

    async def writes(self, work: Callable[[], T]) -> T:
        return await _in(self._writing, work)

    async def starts(self, work: Callable[[], T]) -> T:
        """Begin a run, or go on with one: many at once keep no other write waiting."""
        return await _in(self._starting, work)

    async def writes_piece(self, work: Callable[[], T]) -> T:
        """Write a piece of what arrives: not durable yet, so that it is a moment."""
        return await _in(self._pieces, work)

    async def keeps(self, work: Callable[[], T]) -> T:
        """Pack and sync what has arrived."""
        return await _in(self._keeping, work)

    async def looks(self, work: Callable[[], T], identity: Identity | None) -> T:
        """Take a long look. Raises ServerBusy when too many wait already, of this key or of all."""
        key = identity.key.id if identity and identity.key else ""
        most = self._of_a_key if key else self._most
        if self._looks[key] >= most or self._looks.total() >= self._most:
            raise ServerBusy(min(self._looks.total(), most))
        self._looks[key] += 1
        try:
            return await _in(self._looking, work)
        finally:
            self._looks[key] -= 1
            self._looks += Counter()  # forgets those that have none

    def submit(self, work: Callable[[], object]) -> None:
        """Have something written that nobody waits for."""
        self._writing.submit(work)

    def close(self) -> None:
        for pool in (self._reading, self._writing, self._starting, self._pieces, self._keeping, self._looking):
            pool.shutdown(wait=False, cancel_futures=True)


def _pool(count: int, name: str) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix=f"outlast-{name}")


async def _in(pool: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    """What the work gives, done by one of the threads. Raises NoThread; then it is not done later either."""
    refused = threading.Event()

    def unless_refused() -> T:
        if refused.is_set():
            raise Unavailable(detail="nobody waits for it any more")
        return work()

    try:
        future = asyncio.get_running_loop().run_in_executor(pool, unless_refused)
    except RuntimeError as error:
        refused.set()  # what could not begin stays in the queue
        raise NoThread("what was asked for", str(error)) from error
    return await future
