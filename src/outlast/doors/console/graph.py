"""What a decision rests on, as a picture: boxes in columns by how far they are away, and lines between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from outlast.operations.answers import Why

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
