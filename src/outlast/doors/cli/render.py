"""Putting words on a terminal (rich) or into a pipe (plain lines). Nothing written here can steer a terminal."""

from __future__ import annotations

import errno
import functools
import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, BinaryIO

from outlast.values.visible import visible

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
    "damaged": "red",
    "waiting": "yellow",
    "interrupted": "yellow",
    "candidate": "yellow",
    "running": "cyan",
    "aborted": "dim",
}
COMPACT = (",", ":")
RAW = "outlast.raw"  # where the context of a command remembers that --raw was given
CLOSED: set[str] = set()  # the standard streams that the caller closed: what stands there now leads nowhere
SHORT = 20  # a column of a table that is no wider is never broken; the wider ones give way


def clean(text: object) -> str:
    """One line that only prints: control and direction characters become visible escapes."""
    return visible(text)


def say(text: str = "", style: str = "", *, prose: bool = False) -> None:
    """A line of output. Prose is broken between words to fit a terminal; a command to copy must not be."""
    if sys.stdout.isatty():
        from rich.text import Text

        console().print(Text(clean(text), style=style), soft_wrap=not prose)
    else:
        sys.stdout.write(clean(text) + "\n")


def say_all(text: str, indent: str = "") -> None:
    """A text of several lines."""
    for line in text.splitlines() or [""]:
        say(indent + line.replace("\t", "    "))


def is_raw() -> bool:
    """Whether what commands print is shown as it is: the command has --raw, and it was given."""
    import click

    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(RAW))


def note(text: str) -> None:
    """A line beside the output: progress, errors."""
    print(clean(text), file=sys.stderr, flush=True)


def note_all(text: str) -> None:
    """A note of several lines. All but the first are indented: no text of others looks like a line of ours."""
    first, *others = text.splitlines() or [""]
    note(first)
    for line in others:
        note(line if line.startswith(" ") else f"  {line}")


def paragraph(text: str, first: str = "", then: str = "") -> None:
    """A note of one or several lines, broken between words to fit the terminal."""
    import shutil
    import textwrap

    columns = shutil.get_terminal_size().columns
    for line in textwrap.wrap(clean(text), columns, initial_indent=first, subsequent_indent=then):
        note(line)


def emit(value: Any) -> None:
    """The one JSON object of a command."""
    sys.stdout.write(json.dumps(value, separators=COMPACT) + "\n")


def emit_exactly(value: Any) -> None:
    """The same in UTF-8, whatever the locale: JSON that is part of the value as it came stays byte for byte."""
    import msgspec

    sys.stdout.flush()
    sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")
    sys.stdout.buffer.flush()


def content_in() -> BinaryIO:
    """Standard input, to be read as content. Raises UsageError where it was closed: that is not empty content."""
    if "stdin" in CLOSED:
        import click

        raise click.UsageError("standard input is closed; there is nothing to read")
    return sys.stdin.buffer


def content_out() -> BinaryIO:
    """Standard output, for content. Raises OSError where the caller closed it."""
    if "stdout" in CLOSED:
        raise OSError(errno.EBADF, "standard output is closed")
    sys.stdout.flush()
    return sys.stdout.buffer


def table(heads: Sequence[str], rows: Iterable[Sequence[object]], *, beside: bool = False) -> None:
    """Rows in columns, or `beside` the output. In a terminal what is long wraps inside its column."""
    cells = [[clean(cell) for cell in row] for row in rows]
    stream = sys.stderr if beside else sys.stdout
    if stream.isatty():
        _rich_table(heads, cells, beside)
    else:
        stream.writelines(line + "\n" for line in _plain_table(heads, cells))


def facts(pairs: Iterable[tuple[str, object]]) -> None:
    """Names and values, one pair a line; empty values are left out."""
    shown = [(name, value) for name, value in pairs if value not in ("", None)]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        say(f"{name:<{width}}  {value}", STYLES.get(str(value), ""))


def _plain_table(heads: Sequence[str], cells: list[list[str]]) -> list[str]:
    rows = [list(heads), *cells]
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(_padded, row, widths)).rstrip() for row in rows]


def _padded(cell: str, wanted: int) -> str:
    return cell + " " * (wanted - width(cell))


def width(text: str) -> int:
    """The columns a text takes: two for each character of East Asia and for most emoji."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _rich_table(heads: Sequence[str], cells: list[list[str]], beside: bool) -> None:
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for head, column in zip(heads, zip(*cells, strict=True), strict=True):
        made.add_column(head, no_wrap=max(map(width, column)) <= SHORT, overflow="fold")
    for row in cells:
        made.add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in row))
    console(beside).print(made)


@functools.cache
def console(beside: bool = False) -> Console:
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False, stderr=beside)


# -- small values --------------------------------------------------------------------------------------


def as_json(value: Any) -> str:
    """A value as JSON on one line, readable: letters of every language stay letters."""
    from outlast.values.codec import jsonable

    return json.dumps(jsonable(value), ensure_ascii=False)


def brief(text: str, limit: int = 48) -> str:
    """A text that fits in a column; what is left out is marked."""
    return fit(" ".join(text.split()), limit)


def fit(line: str, columns: int) -> str:
    """A line cut to that many columns; the cut is marked."""
    if width(line) <= columns:
        return line
    kept = line[: columns - 1]
    while width(kept) >= columns:
        kept = kept[:-1]
    return kept + "…"


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
