"""What a check prints: read as it comes, its beginning and its end kept, in bounded memory and without the disk.

`transcript.py` keeps all that a step prints; a check may be run often and print anything, so it is kept in short.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from outlast.commands.pipe import Pipe
from outlast.commands.transcript import MASK
from outlast.secrets.stream import spans_in
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.secrets.rules import Rule

FIRST_BYTES = 256 * 1024  # kept of what is printed, when it is more than both together
LAST_BYTES = 768 * 1024
_LINE_BYTES = 1024  # how far from a cut the end of a line is looked for
_NEAR_BYTES = 16 * 1024  # what lies across a cut is seen whole when it reaches no further


class Content(NamedTuple):
    """What is kept, and what was done to it."""

    kept: bytes
    size: int  # of all that was printed, in bytes
    left_out: int
    masked: int  # secrets
    left_open: bool  # something outside the check's session may still print

    def notes(self) -> Iterator[str]:
        """What a reader has to know, in words."""
        if self.left_out:
            yield f"its output was cut: {self.left_out} of {self.size} bytes were left out"
        if self.masked:
            yield f"masked {self.masked} secret{'s' if self.masked > 1 else ''} in its output"
        if self.left_open:
            yield "something that it started still has its output open"


class Printed:
    """What one check prints. Hand `writer` to it, then `begin()`; when it is over, `close()` and see `content()`."""

    def __init__(self, rules: tuple[Rule, ...] | None = None) -> None:
        self._rules = rules
        self._pipe = Pipe(self._keep)
        self._first, self._last, self._size = bytearray(), bytearray(), 0

    @property
    def writer(self) -> int:
        return self._pipe.writer

    def begin(self) -> None:
        """Read from now on. Only the check has the writing end then."""
        self._pipe.begin("check-output", "reading what a check prints")

    def close(self, timeout: float = 1.0) -> None:
        """Read to the end. A pipe that something outside the check's session holds open is given up."""
        self._pipe.finish(timeout)

    def _keep(self, chunk: bytes) -> None:
        self._first += chunk[: max(0, FIRST_BYTES + _NEAR_BYTES - self._size)]
        self._last += chunk[max(0, FIRST_BYTES - self._size) :]
        self._size += len(chunk)
        if len(self._last) > 2 * (LAST_BYTES + _NEAR_BYTES):
            del self._last[: -LAST_BYTES - _NEAR_BYTES]

    def content(self) -> Content:
        """What is kept of it, with secrets masked."""
        first, last = bytes(self._first), bytes(self._last[-LAST_BYTES - _NEAR_BYTES :])
        if self._size <= FIRST_BYTES + LAST_BYTES:
            whole = _cut(first[:FIRST_BYTES] + last, 0, self._size, self._rules)
            return Content(whole.kept, self._size, 0, whole.masked, self._pipe.left_open)
        begin = _cut(first, 0, _line_end(first, FIRST_BYTES), self._rules)
        end = _cut(last, _line_begin(last, len(last) - LAST_BYTES), len(last), self._rules)
        left_out = self._size - begin.taken - end.taken
        between = b"%s[%d bytes were left out here]\n" % (b"" if begin.kept.endswith(b"\n") else b"\n", left_out)
        masked = begin.masked + end.masked
        return Content(begin.kept + between + end.kept, self._size, left_out, masked, self._pipe.left_open)


class _Cut(NamedTuple):
    kept: bytes
    taken: int  # how many bytes that was before anything was masked
    masked: int


def _cut(data: bytes, begin: int, end: int, rules: tuple[Rule, ...] | None) -> _Cut:
    """That part of the data, with secrets masked. A secret that lies across an edge is left out whole."""
    spans = list(spans_in(data, rules))
    begin = max([begin, *(stop for start, stop in spans if start < begin < stop)])
    end = max(begin, min([end, *(start for start, stop in spans if start < end < stop)]))
    spans = [(start, stop) for start, stop in spans if begin <= start and stop <= end]
    edges = [begin, *(edge for span in spans for edge in span), end]
    parts = [data[start:stop] for start, stop in zip(edges[::2], edges[1::2], strict=True)]
    return _Cut(MASK.encode().join(parts), end - begin, len(spans))


def _line_end(data: bytes, limit: int) -> int:
    """The end of the last whole line up to there; just there when no line ends near it."""
    return data.rfind(b"\n", limit - _LINE_BYTES, limit) + 1 or limit


def _line_begin(data: bytes, limit: int) -> int:
    """The begin of the first whole line from there on; just there when no line begins near it."""
    return data.find(b"\n", limit - 1, limit + _LINE_BYTES) + 1 or limit
