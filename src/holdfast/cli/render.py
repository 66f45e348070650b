"""Putting words on a terminal (rich) or into a pipe (plain lines). Nothing written here can steer a terminal."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

STYLES = {
    "succeeded": "green",
    "trusted": "green",
    "ok": "green",
    "failed": "red",
    "crashed": "red",
    "contested": "red",
    "broken": "red",
    "waiting": "yellow",
    "interrupted": "yellow",
    "candidate": "yellow",
    "running": "cyan",
    "aborted": "dim",
}
COMPACT = (",", ":")


def clean(text: object) -> str:
    """One line that only prints: control and direction characters become visible escapes."""
    shown = str(text)
    if shown.isprintable():
        return shown
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)


def say(text: str = "", style: str = "") -> None:
    """A line of output."""
    if sys.stdout.isatty():
        from rich.text import Text

        console().print(Text(clean(text), style=style), soft_wrap=True)
    else:
        sys.stdout.write(clean(text) + "\n")


def say_all(text: str, indent: str = "") -> None:
    """A text of several lines."""
    for line in text.splitlines() or [""]:
        say(indent + line.replace("\t", "    "))


def note(text: str) -> None:
    """A line beside the output: progress, errors."""
    print(clean(text), file=sys.stderr, flush=True)


def emit(value: Any) -> None:
    """The one JSON object of a command."""
    sys.stdout.write(json.dumps(value, separators=COMPACT) + "\n")


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Rows in columns. The last column may be long; in a terminal it wraps."""
    cells = [[clean(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        _rich_table(heads, cells)
    else:
        _plain_table(heads, cells)


def facts(pairs: Iterable[tuple[str, object]]) -> None:
    """Names and values, one pair a line; empty values are left out."""
    shown = [(name, value) for name, value in pairs if value not in ("", None)]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        say(f"{name:<{width}}  {value}", STYLES.get(str(value), ""))


def _plain_table(heads: Sequence[str], cells: list[list[str]]) -> None:
    widths = [max(len(row[place]) for row in [list(heads), *cells]) for place in range(len(heads))]
    for row in [list(heads), *cells]:
        line = "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        sys.stdout.write(line.rstrip() + "\n")


def _rich_table(heads: Sequence[str], cells: list[list[str]]) -> None:
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for place, head in enumerate(heads):
        made.add_column(head, no_wrap=place == 0, overflow="fold")
    for row in cells:
        made.add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in row))
    console().print(made)


@functools.cache
def console() -> Console:
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)


# -- small values --------------------------------------------------------------------------------------


def as_json(value: Any) -> str:
    """A value as JSON on one line, readable: letters of every language stay letters."""
    from holdfast.domain.codec import jsonable

    return json.dumps(jsonable(value), ensure_ascii=False)


def brief(text: str, limit: int = 48) -> str:
    """A text that fits in a column; what is left out is marked."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def took(started: datetime, ended: datetime | None) -> str:
    """How long something took."""
    return "" if ended is None else span(ended - started)


def span(length: timedelta) -> str:
    seconds = max(length.total_seconds(), 0.0)
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    for name, size, limit in (("min", 60, 3600), ("h", 3600, 86400)):
        if seconds < limit:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds / 86400:.0f} d"


def ago(moment: datetime) -> str:
    """How long ago, in one word and a unit."""
    passed = (datetime.now(UTC) - moment) // timedelta(seconds=1)
    return f"{passed} s ago" if 0 < passed < 60 else f"{span(timedelta(seconds=passed))} ago" if passed > 0 else "now"


def at(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")


def counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
