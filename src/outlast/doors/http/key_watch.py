"""What a key keeps open ends with the key: streams, downloads and uploads of one that was revoked or has expired.

A request is let in once. What lasts longer is looked at every few seconds, one look for each key that has something
open, and none while there is nothing.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from outlast.errors import OutlastError, Unauthenticated

if TYPE_CHECKING:
    from outlast.doors.http.exchange import Exchange
    from outlast.doors.http.state import State


class KeyWatch:
    """The exchanges under way, and whether their keys still open the door."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.under_way: set[Exchange] = set()

    async def live(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(self._state.settings.key_seconds)
            try:
                await self.look()
            except Exception as error:  # for want of a thread, say: the next look may fare better
                self._state.log.failed(error, keys="look")

    async def look(self) -> None:
        """End what is kept open by keys that are over."""
        for key_id in {found for exchange in self.under_way if (found := key_of(exchange))}:
            error = await self._state.in_thread(partial(self._over, key_id))
            if error is not None:
                self._end_all(key_id, error)

    def _over(self, key_id: str) -> OutlastError | None:
        try:
            self._state.keys.check_usable(key_id)
        except Unauthenticated as error:
            return error
        except OutlastError:  # the keys cannot be read now: whoever is in stays until they can
            return None
        return None

    def _end_all(self, key_id: str, error: OutlastError) -> None:
        for exchange in list(self.under_way):
            if key_of(exchange) == key_id:
                exchange.end_for(error)


def key_of(exchange: Exchange) -> str:
    """The id of the key that keeps something open; nothing when it has none, or was told to end."""
    who = exchange.identity
    return who.key.id if who is not None and who.key is not None and exchange.ended is None else ""
