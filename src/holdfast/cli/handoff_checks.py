"""While checks run: on a terminal the one under way, and signals that end it with all it started."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from holdfast.cli.door import Door
from holdfast.cli.exits import TERMINATED
from holdfast.cli.render import clean
from holdfast.cli.screen import Screen

if TYPE_CHECKING:
    from holdfast import Holdfast


@contextmanager
def checks_shown(door: Door, hold: Holdfast) -> Iterator[None]:
    """Show which check runs. SIGTERM ends it as Ctrl-C does."""
    screen = Screen(quiet=door.json)
    hold.listen(None, lambda line: screen.status(clean(line)))
    heard = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if heard:
        signal.signal(signal.SIGTERM, _end)
    try:
        yield
    finally:
        if heard:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        hold.listen(None, None)
        screen.end()


def _end(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(TERMINATED)
