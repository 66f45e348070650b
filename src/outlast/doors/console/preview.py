"""Previews: what of an artifact, of files that were left, or of an error a page shows by itself. And pictures: the time
axis of a run, and what a decision rests on.

Text is shown as text, pictures as pictures, all else is to be saved.

A picture is shown by an <img> whose source is the same file to save that every artifact is: its answer is sandboxed and
an attachment, so that nothing in it is ever a page. Only kinds that are nothing but pixels count as pictures.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from posixpath import basename, dirname
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from outlast.errors import OutlastError

if TYPE_CHECKING:
    from outlast import RunRecord, TimelineItem
    from outlast.doors.console.asked import PageRequest
    from outlast.operations.answers import Why

TEXT_BYTES = 64 << 10
PICTURE_BYTES = 16 << 20
PICTURES = {  # what a file of each kind begins with
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/webp": (b"RIFF",),
}
TEXTS = ("application/json", "application/yaml", "application/toml", "application/x-sh")
FRAME = re.compile(r'^([ |+]*File ")([^"\n]+)"', re.MULTILINE)  # of a trace
LIBRARY = re.compile(r"^.*/(?:site-packages|dist-packages|lib/python\d[.\d]*)/|^.*/src/(?=outlast/)")
REFS = 12  # of what one question shows so many are looked up


class Preview(Struct, frozen=True):
    """What a page shows of an artifact."""

    ref: str
    name: str
    media_type: str
    size: int
    summary: str
    is_picture: bool = False
    text: str | None = None
    is_cut: bool = False


def preview(found: Any) -> Preview:
    """What is shown of an artifact. One that cannot be read is shown by its name alone."""
    known = Preview(found.ref, found.name, found.media_type, found.size, found.summary)
    kind = found.media_type.partition(";")[0].strip().lower()
    try:
        if kind in PICTURES and found.size <= PICTURE_BYTES:
            head = found.read(0, min(16, found.size))
            return replace(known, is_picture=head.startswith(PICTURES[kind]))
        if kind.startswith("text/") or kind in TEXTS:
            raw = found.read(0, min(TEXT_BYTES, found.size))
            return replace(known, text=raw.decode(errors="replace"), is_cut=found.size > TEXT_BYTES)
    except OutlastError:
        pass
    return known


def shown_values(asked: PageRequest, payload: dict[str, Any]) -> list[tuple[str, Any, Preview | None]]:
    """What a question shows, each by its name; with a preview where it is the ref of an artifact."""
    shown, left = list[tuple[str, Any, Preview | None]](), REFS
    for name, value in payload.items():
        is_ref = isinstance(value, str) and value.startswith("artifact:") and len(value) < 500
        found = asked.maybe("workspace_get", ref=value) if is_ref and left else None
        left -= is_ref
        shown.append((name, value, preview(found) if found is not None else None))
    return shown


# -- partial work: the files that an unfinished attempt left, each with what is different from before it ------

FILES = 20  # of one attempt
WORK = {"none": "nothing", "partial": "partial work", "complete": "all its files, and did not say that it was done"}


def has_left(run: RunRecord) -> bool:
    """Whether it may have left anything: of commands, and not over."""
    return run.is_of_commands and not run.finished and run.status != "running"


def left_of(asked: PageRequest, run_id: str, step: str | None = None) -> list[dict[str, Any]]:
    """What a page shows of it; nothing where it cannot be looked at from here."""
    try:
        found = asked.outlast("run_get", run_id=run_id, state=False)._left(run_id)
    except (OutlastError, OSError):
        return []
    return [_attempt(one) for one in found if one.files and step in (None, one.step)]


def _attempt(one: Any) -> dict[str, Any]:
    return {
        "step": one.step,
        "attempt": one.attempt,
        "status": one.status,
        "says": WORK.get(one.judgement, one.judgement),
        "shared": one.shared,
        "files": one.files[:FILES],
        "more": max(len(one.files) - FILES, 0),
    }


# -- errors ------------------------------------------------------------------------------------------------


def error_shown(kept: dict[str, Any] | None) -> dict[str, str] | None:
    """An error with the frames of the user's own files first, each named from the folder of the flow's file on."""
    if not kept:
        return None
    trace = str(kept.get("trace", ""))
    own = [file for _, file in FRAME.findall(trace) if not LIBRARY.match(file)]
    folder = dirname(own[0]) if own else ""
    told = FRAME.sub(lambda found: f'{found[1]}{_nearby(found[2], folder)}"', trace)
    frames = [frame for frame in told.split("\n  File ")[1:] if not frame.startswith('"<')]
    return {
        "type": str(kept.get("type", "")).rpartition(":")[2],
        "message": str(kept.get("message", "")),
        "own": "\n".join(f"  File {frame}" for frame in frames[-3:]),
        "trace": told,
    }


def _nearby(file: str, folder: str) -> str:
    """A file without the folders of the machine that it is on."""
    if folder and file.startswith(f"{folder}/"):
        return file.removeprefix(f"{folder}/")
    if found := LIBRARY.match(file):
        return f"<{file[found.end() :]}>"
    return f"…/{basename(dirname(file))}/{basename(file)}" if file.startswith("/") else file


# -- the time axis of a run: every attempt, wait, sleep and child as a bar, a window of them at a time ---------

ROWS = 100  # of one window
ROW, WIDTH = 26, 1000


class Bar(Struct, frozen=True):
    """One thing that happened, and where it lies on the axis."""

    item: TimelineItem
    x: float
    width: float


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


def waterfall(items: Sequence[TimelineItem], begins: int) -> Waterfall:
    """The bars of so many items from a place on; of one that goes on until now."""
    window = items[begins : begins + ROWS]
    if not window:
        return Waterfall((), 0, len(items), 0.0)
    now = datetime.now(UTC)
    first = min(item.started_at for item in window)
    ends = [item.ended_at or (now if goes_on(item) else item.started_at) for item in window]
    whole = max((max(ends) - first).total_seconds(), 0.001)
    bars = []
    for item, end in zip(window, ends, strict=True):
        x = (item.started_at - first).total_seconds() / whole * WIDTH
        width = (end - item.started_at).total_seconds() / whole * WIDTH
        bars.append(Bar(item, round(x, 1), round(max(width, 3), 1)))
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
    """One thing that has a ref, and where it is drawn."""

    of: Why
    x: int
    y: int

    @property
    def short(self) -> str:
        return self.of.says if len(self.of.says) <= 28 else self.of.says[:27] + "…"


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
        self.boxes[why.ref] = PictureBox(why, depth * (BOX + ACROSS) + 2, top)
        return self.boxes[why.ref]
