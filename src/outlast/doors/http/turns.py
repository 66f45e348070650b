"""Whose turn it is: of the keys that wait, the one whose last turn is longest ago, however many of one key wait.

What a server can do at once is little: one loop, a few threads. Where more is asked for, what is asked by one key
queues behind that key only; and who asks now and then comes before those who never cease to.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
from heapq import heappop, heappush
from itertools import count


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
        if self._free > 0:
            self._free -= 1
            self._remember(key)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if key not in self._queues:
            self._queues[key] = deque()
            self._queue(key)
        self._queues[key].append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it came, and nobody is there to use it
                self.give()
            raise

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


class Entry:
    """The way in: so many requests enter at each round of the loop, a key that is known at its own turn.

    Whoever shows no key, or one that was not let in before, queues with all others of these.
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

    async def pass_through(self, authorization: bytes | None) -> None:
        """Wait for a turn to enter; the next round of the loop has it again."""
        shown = hash(authorization)
        await self._turns.take(shown if shown in self._known else 0)
        asyncio.get_running_loop().call_soon(self._turns.give)
