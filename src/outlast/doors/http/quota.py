"""How much the holder of a key may store: content, and what is sent in bodies. What `gc` removes is free again.

A quota refuses starts and saves. It refuses nothing that ends what was begun: receipts, outcomes of effects, settling.
Without a key there is none.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

from outlast.errors import Quota

if TYPE_CHECKING:
    from outlast import Outlast
    from outlast.doors.http.exchange import Exchange
    from outlast.doors.http.identity import Identity

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


class StoredBytes:
    """What each key has stored, as far as this server knows. Used by threads."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._used: dict[str, tuple[int, float]] = {}  # bytes, and when that was looked up
        self._bodies: Counter[str] = Counter()

    def room(self, identity: Identity | None, outlast: Outlast) -> Room:
        """What there is room for. Raises Quota when there is none."""
        if identity is None or identity.key is None:
            return Room("", 0, 0)
        room = Room(identity.key.id, self._known(identity.key.id, outlast), self._limit)
        room.refuse_over(1)
        return room

    def _known(self, key: str, outlast: Outlast) -> int:
        used, at = self._used.get(key, (0, 0.0))
        now = time.monotonic()
        if not at or now - at > LOOK_SECONDS:
            used = outlast._runtime.store.read(lambda look: look.stored_bytes_of(key)) + self._bodies[key]
            self._used[key] = used, now
        return used

    def admit(self, identity: Identity | None, outlast: Outlast, call: str, size: int) -> None:
        """Count the body of a call that keeps it. Raises Quota for what would be too much."""
        if identity is None or identity.key is None or call not in REFUSED:
            return
        self.room(identity, outlast).refuse_over(size)
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
            outlast._runtime.store.write(lambda tx: tx.add_stored(f"json:{key}", key, due))

    def note(self, identity: Identity | None, outlast: Outlast, blob: str, size: int) -> None:
        """Somebody stored a blob: who was first pays for it."""
        if identity is not None and identity.key is not None:
            key = identity.key.id
            outlast._runtime.store.write(lambda tx: tx.note_stored(blob, key, size))
            self.changed(identity)

    def changed(self, identity: Identity | None) -> None:
        """Look again before the next answer."""
        if identity is not None and identity.key is not None:
            self._used.pop(identity.key.id, None)


class Room:
    """What a key has stored, and may."""

    def __init__(self, key: str, used: int, limit: int) -> None:
        self._key, self._used, self._limit = key, used, limit

    def refuse_over(self, size: int) -> None:
        """Raises Quota for so many bytes more."""
        if self._key and self._used + size > self._limit:
            raise Quota(self._key, self._used, self._limit)


async def room_for(exchange: Exchange, outlast: Outlast) -> Room:
    """The room for a body of the size that the request says. Raises Quota before any of it is read."""
    room = await exchange.in_thread(exchange.state.quota.room, exchange.identity, outlast)
    room.refuse_over(exchange.length or 0)
    return room
