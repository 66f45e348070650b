"""Time, as one value that tests replace. Wall time is for people; boot time is for leases."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """What the runtime asks of time."""

    def now(self) -> int:
        """Wall time in microseconds since 1970, UTC. It may be set back."""

    def boot(self) -> int:
        """Microseconds since boot, sleep included. It never goes back on one boot."""

    def sleep(self, seconds: float) -> None:
        """Wait in place."""

    async def sleep_async(self, seconds: float) -> None:
        """Wait in place on an event loop."""


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> int:
        return time.time_ns() // 1000

    def boot(self) -> int:
        return time.clock_gettime_ns(_BOOTTIME) // 1000

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def sleep_async(self, seconds: float) -> None:
        import asyncio

        await asyncio.sleep(seconds)


class SharedClock(SystemClock):
    """The same with the wall time of somebody else, whom many machines ask: `ahead` says by how much that is ahead."""

    def __init__(self, ahead: Callable[[], int]) -> None:
        self._ahead = ahead

    def now(self) -> int:
        return super().now() + self._ahead()


class ManualClock:
    """A clock that moves only when told to. Sleeping advances it at once."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = micros(start)
        self._boot = 1_000_000

    def now(self) -> int:
        return self._now

    def boot(self) -> int:
        return self._boot

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    async def sleep_async(self, seconds: float) -> None:
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now += int(seconds * 1_000_000)
        self._boot += int(seconds * 1_000_000)

    def set_back(self, seconds: float) -> None:
        """Set the wall clock back, as an administrator would; boot time goes on."""
        self._now -= int(seconds * 1_000_000)


def moment(at: int) -> datetime:
    """An aware UTC datetime from microseconds."""
    return _EPOCH + timedelta(microseconds=at)


def micros(at: datetime) -> int:
    """Microseconds from an aware datetime."""
    return (at - _EPOCH) // timedelta(microseconds=1)
