"""Whose turn it is: one of each key, and again from the beginning, however many of one key wait.

What a server can do at once is little: one loop, a few threads. Where more is asked for, what is asked by one key
queues behind that key only.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable


class Turns:
    """So many at once; the others wait, in a queue for each key. Everything happens in one loop."""

    def __init__(self, at_once: int) -> None:
        self._free = at_once
        self._queues: dict[Hashable, deque[asyncio.Future[None]]] = {}  # the first one's turn is next

    async def take(self, key: Hashable) -> None:
        """Wait for a turn, which must be given back."""
        if self._free > 0:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(key, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it came, and nobody is there to use it
                self.give()
            raise

    def give(self) -> None:
        """Give a turn back: the next one waiting has it."""
        while self._queues:
            key, queue = next(iter(self._queues.items()))
            turn = queue.popleft()
            del self._queues[key]
            if queue:
                self._queues[key] = queue  # behind the others
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


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
