"""What one key may take at once, so that others get their share: requests, runs, and room.

There are no limits without a key: on this machine everybody is the owner. Counts are this server's own, and are made in
its loop and in its threads alike.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING

from outlast.errors import TooManyRequests, TooManyRuns

if TYPE_CHECKING:
    from collections.abc import Callable

    from outlast.doors.http.identity import Identity


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
        if identity.key is None:
            return _nothing
        counts, most = (self._streams, self._most_streams) if stream else (self._requests, self._most_requests)
        if not self._take(counts, identity.key.id, most):
            raise TooManyRequests(identity.key.id, most)
        return self._ending(counts, identity.key.id)

    def begin_run(self, identity: Identity) -> Callable[[], None]:
        """Count a run that is to execute; what it gives ends it, and may be called again. Raises TooManyRuns."""
        if identity.key is None:
            return _nothing
        if not self._take(self._runs, identity.key.id, self._most_runs):
            raise TooManyRuns(identity.key.id, self._most_runs)
        return self._ending(self._runs, identity.key.id)

    def _take(self, counts: Counter[str], key: str, most: int) -> bool:
        with self._lock:
            if counts[key] >= most:
                return False
            counts[key] += 1
            return True

    def _ending(self, counts: Counter[str], key: str) -> Callable[[], None]:
        left = [key]

        def end() -> None:
            with self._lock:
                if left:
                    counts[left.pop()] -= 1
                    if not counts[key]:
                        del counts[key]

        return end


def _nothing() -> None:
    """There is nothing to end."""
