"""What is met on the way and concerns whoever asked: said below, told by the door."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_noticed: ContextVar[dict[str, None] | None] = ContextVar("noticed", default=None)


@contextmanager
def noticing() -> Iterator[dict[str, None]]:
    """What is met here while this is entered, a line for each, in order."""
    lines: dict[str, None] = {}
    before = _noticed.set(lines)
    try:
        yield lines
    finally:
        _noticed.reset(before)


def notice(line: str) -> None:
    """Tell whoever notices what is met here."""
    lines = _noticed.get()
    if lines is not None:
        lines[line] = None
