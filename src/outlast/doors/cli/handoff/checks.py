"""Checks: on a terminal the one under way, and signals that end it with all it started; what came of them."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from outlast.doors.cli.door import Door
from outlast.doors.cli.exits import TERMINATED
from outlast.doors.cli.render import clean
from outlast.doors.cli.screen import Screen

if TYPE_CHECKING:
    from outlast import Outlast
    from outlast.handoffs.handoff import Evidence, Handoff
    from outlast.handoffs.recovered import Recovered


class Results(NamedTuple):
    """What is shown of checks."""

    recorded: tuple[Evidence, ...]  # since the revision was stored, oldest first
    printed: dict[str, list[str]]  # by the key of a check that failed just now: its last lines


def results_of(outlast: Outlast, got: Recovered) -> Results:
    """What came of checks before, and what those that failed just now printed last."""
    from outlast.handoffs.reading import failed_of, last_lines

    printed = {each.key: last_lines(outlast.handoff.output(each)) for each in failed_of(got.evidence)}
    broken = any(reason.code == "integrity_broken" for reason in got.reasons)
    return Results(() if broken or not got.handoff.revision else recorded_of(outlast, got.handoff), printed)


def recorded_of(outlast: Outlast, handoff: Handoff) -> tuple[Evidence, ...]:
    """What came of a revision's checks since it was stored, oldest first."""
    import msgspec

    from outlast.handoffs.handoff import Evidence

    events = outlast.handoff.history(handoff.anchor, scope=handoff.scope)
    stored = [at for at, event in enumerate(events) if event.kind == "stored"]
    begin = next((at for at in stored if events[at].body["id"] == handoff.id), len(events))
    end = next((at for at in stored if at > begin), len(events))
    given = [each for event in events[begin:end] for each in event.body.get("evidence", ())]
    return tuple(msgspec.convert(each, Evidence) for each in given)


@contextmanager
def checks_shown(door: Door, outlast: Outlast) -> Iterator[None]:
    """Show which check runs. SIGTERM ends it as Ctrl-C does."""
    screen = Screen(quiet=door.json)
    outlast.listen(None, lambda line: screen.status(clean(line)))
    heard = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if heard:
        signal.signal(signal.SIGTERM, _end)
    try:
        yield
    finally:
        if heard:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        outlast.listen(None, None)
        screen.end()


def _end(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(TERMINATED)
