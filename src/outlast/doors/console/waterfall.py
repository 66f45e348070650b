"""The time axis of a run: every attempt, wait, sleep and child as a bar, a window of them at a time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from outlast import TimelineItem

ROWS = 100  # of one window
ROW, WIDTH = 26, 1000
SHOWN = ("step", "effect", "wait", "sleep", "child", "decision", "run", "phase", "testimony")


class Bar(Struct, frozen=True):
    """One thing that happened, and where it lies on the axis."""

    item: TimelineItem
    x: float
    width: float
    seconds: float | None


class Waterfall(Struct, frozen=True):
    """A window of a run's time."""

    bars: tuple[Bar, ...]
    begins: int  # the place of the first bar among all
    total: int
    seconds: float  # from the first to the last of the window

    @property
    def height(self) -> int:
        return len(self.bars) * ROW

    @property
    def ticks(self) -> tuple[float, ...]:
        """The times under which its axis is divided, from its beginning on."""
        return tuple(self.seconds * part / 4 for part in range(5))

    @property
    def before(self) -> int | None:
        return max(self.begins - ROWS, 0) if self.begins else None

    @property
    def after(self) -> int | None:
        following = self.begins + len(self.bars)
        return following if following < self.total else None


def waterfall(items: Sequence[TimelineItem], begins: int, now: datetime | None = None) -> Waterfall:
    """The bars of so many items from a place on; of one that goes on until now."""
    window = items[begins : begins + ROWS]
    if not window:
        return Waterfall((), 0, len(items), 0.0)
    now = now or datetime.now(UTC)
    first = min(item.started_at for item in window)
    ends = [item.ended_at or (now if goes_on(item) else item.started_at) for item in window]
    whole = max((max(ends) - first).total_seconds(), 0.001)
    bars = []
    for item, end in zip(window, ends, strict=True):
        x = (item.started_at - first).total_seconds() / whole * WIDTH
        width = (end - item.started_at).total_seconds() / whole * WIDTH
        bars.append(Bar(item, round(x, 1), round(max(width, 3), 1), item.seconds))
    return Waterfall(tuple(bars), begins, len(items), whole)


def goes_on(item: TimelineItem) -> bool:
    """Whether it has not ended."""
    return item.ended_at is None and item.status in ("running", "started", "open", "waiting")
