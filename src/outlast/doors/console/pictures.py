"""Pictures: the time axis of a run, and what a decision rests on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from outlast import TimelineItem
    from outlast.operations.answers import Why

# -- the time axis of a run: every attempt, wait, sleep and child as a bar, a window of them at a time ---------

ROWS = 100  # of one window
ROW, WIDTH = 26, 1000


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


# -- what a decision rests on: boxes in columns by how far they are away, and lines between them --------------


BOX, HIGH, GAP, ACROSS = 230, 54, 16, 110
MOST = 120  # boxes
TURNED = {  # a relation, said from its other end
    "supports": "supported by",
    "contradicts": "contradicted by",
    "derived_from": "source of",
    "supersedes": "superseded by",
    "produced_by": "produced",
    "refers_to": "referred to by",
}


class PictureBox(Struct, frozen=True):
    """One thing that has a ref."""

    ref: str
    kind: str
    says: str
    standing: str
    reasons: tuple[str, ...]
    x: int
    y: int
    cut: int = 0

    @property
    def short(self) -> str:
        return self.says if len(self.says) <= 28 else self.says[:27] + "…"


class PictureLine(Struct, frozen=True):
    """That one bears on another, and how."""

    relation: str
    x1: int
    y1: int
    x2: int
    y2: int


class Picture(Struct, frozen=True):
    """A picture of evidence."""

    boxes: tuple[PictureBox, ...]
    lines: tuple[PictureLine, ...]
    width: int
    height: int
    left_out: int = 0


def graph(why: Why) -> Picture:
    """The tree of what something rests on, laid out from left to right; what was met before is drawn once."""
    laid = _Layout()
    laid.add(why, 0)
    columns = max((box.x for box in laid.boxes.values()), default=0) + BOX
    lowest = max((box.y for box in laid.boxes.values()), default=0) + HIGH
    return Picture(tuple(laid.boxes.values()), tuple(laid.lines), columns + 4, lowest + 4, laid.left_out)


class _Layout:
    def __init__(self) -> None:
        self.boxes: dict[str, PictureBox] = {}
        self.lines: list[PictureLine] = []
        self.left_out = 0
        self._filled: dict[int, int] = {}  # of each column, how far down

    def add(self, why: Why, depth: int) -> PictureBox:
        known = self.boxes.get(why.ref)
        box = known or self._place(why, depth)
        if known is not None and why.seen:
            return box
        for branch in why.children:
            if len(self.boxes) >= MOST:
                self.left_out += 1
                continue
            other = self.add(branch.of, depth + 1)
            word = branch.relation if branch.direction == "out" else TURNED.get(branch.relation, branch.relation)
            self.lines.append(
                PictureLine(word.replace("_", " "), box.x + BOX, box.y + HIGH // 2, other.x, other.y + HIGH // 2)
            )
        return box

    def _place(self, why: Why, depth: int) -> PictureBox:
        top = max(self._filled.get(depth, 2), 2)
        self._filled[depth] = top + HIGH + GAP
        made = PictureBox(
            why.ref, why.kind, why.says, why.standing, why.reasons, depth * (BOX + ACROSS) + 2, top, why.cut
        )
        self.boxes[why.ref] = made
        return made
