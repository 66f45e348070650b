"""`outlast show RUN --timeline`: when everything in a run began, how long it took, and how that lies in time."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from outlast.doors.cli.render import STYLES, at, clean, emit, say, span, terminal_columns

if TYPE_CHECKING:
    from outlast import RunRecord, TimelineItem

BAR = 16  # columns
LEAST = 60  # columns of a terminal that has room for it
FINE = ("succeeded", "over", "answered", "")  # what is not worth a word
IDLE = ("wait", "decision", "sleep", "run")  # kinds in which nothing was worked on


def say_timeline(run: RunRecord, items: Sequence[TimelineItem]) -> None:
    """A line for each item: after which time it began, how long it took, a bar, what it was."""
    if not items:
        say(f"nothing happened in run {run.id} yet")
        return
    start = min(item.started_at for item in items)
    end = max([item.ended_at or item.started_at for item in items])
    end = datetime.now(UTC) if run.status == "running" and run.holder else end
    say(f"run {run.id} of {run.flow} {run.status}; began {at(start)}, {span(end - start)} in all")
    drawn = not sys.stdout.isatty() or terminal_columns() >= LEAST
    for item in items:
        say(_line(item, start, end - start, drawn=drawn), STYLES.get(item.status, ""), then=" " * 19)


def timeline_json(run: RunRecord, items: Sequence[TimelineItem]) -> dict[str, Any]:
    from outlast.values.codec import jsonable

    shown = [{**jsonable(item), "seconds": item.seconds} for item in items]
    return {"run_id": run.id, "status": run.status, "timeline": shown}


def emit_timeline(run: RunRecord, items: Sequence[TimelineItem]) -> None:
    emit(timeline_json(run, items))


def _line(item: TimelineItem, start: datetime, whole: timedelta, *, drawn: bool) -> str:
    began = f"+{span(item.started_at - start)}"
    length = span(item.ended_at - item.started_at) if item.ended_at and item.ended_at != item.started_at else ""
    bar = f"{_bar(item, start, whole)}  " if drawn else ""
    return f"{began:>8}  {length:>7}  {bar}{_words(item)}".rstrip()


def _bar(item: TimelineItem, start: datetime, whole: timedelta) -> str:
    """Where it lies: `=` work, `.` waiting, `|` a moment, `?` an end that nobody knows, `>` one that is to come."""
    first = _column(item.started_at - start, whole)
    if item.ended_at is None:
        goes_on = item.status in ("running", "started", "open", "waiting", "interrupted", "failed", "answered")
        drawn = ("." if item.kind in IDLE else "=") * (BAR - first - 1) + ">" if goes_on else "?"
    elif item.ended_at == item.started_at:
        drawn = "|"
    else:
        last = _column(item.ended_at - start, whole)
        drawn = ("." if item.kind in IDLE else "=") * (last - first + 1)
    return f"{' ' * first}{drawn}"[:BAR].ljust(BAR)


def _column(passed: timedelta, whole: timedelta) -> int:
    return min(int(passed / whole * BAR), BAR - 1) if whole else 0


def _words(item: TimelineItem) -> str:
    named = item.name if item.kind in ("step", "effect") else f"{item.kind} {item.name}"
    again = f" (attempt {item.attempt})" if item.attempt > 1 else ""
    status = f" {item.status}" if item.status not in (*FINE, item.name) else ""
    note = f"{' ' if item.note.startswith('by ') else ': '}{item.note}" if item.note else ""
    where = f" [{item.interrupt}]" if item.status == "open" else ""
    return clean(f"{named}{again}{status}{note}{where}")
