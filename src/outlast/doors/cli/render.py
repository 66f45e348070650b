"""Putting words on a terminal (rich) or into a pipe (plain lines). Nothing written here can steer a terminal."""

from __future__ import annotations

import errno
import functools
import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, BinaryIO

from outlast.doors.cli.wrap import columns_of, wrapped
from outlast.doors.cli.wrap import width as width
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
GAP = 2  # blanks between the columns of a table
MOST_INDENT = 16  # of the lines after the first of a value


def clean(text: object) -> str:
    """One line that only prints: control and direction characters become visible escapes."""
    return visible(text)


def say(text: str = "", style: str = "", *, then: str | None = None) -> None:
    """A line of output. On a terminal it is broken between words, its next lines begin with `then`."""
    if not sys.stdout.isatty():
        sys.stdout.write(clean(text) + "\n")
        return
    for line in wrapped(clean(text), terminal_columns(), then=then):
        _show(line, style)


def say_all(text: str, indent: str = "") -> None:
    """A text of several lines."""
    for line in text.splitlines() or [""]:
        say(indent + line.replace("\t", "    "))


def terminal_columns() -> int:
    """How wide the terminal is."""
    import shutil

    return shutil.get_terminal_size().columns


def _show(line: str, style: str, *, beside: bool = False) -> None:
    if not style:
        (sys.stderr if beside else sys.stdout).write(line + "\n")
        return
    from rich.text import Text

    console(beside).print(Text(line, style=style), soft_wrap=True)


def is_raw() -> bool:
    """Whether what commands print is shown as it is: the command has --raw, and it was given."""
    import click

    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(RAW))


def note(text: str) -> None:
    """A line beside the output: progress, errors. On a terminal it is broken between words."""
    lines = wrapped(clean(text), terminal_columns()) if sys.stderr.isatty() else [clean(text)]
    print("\n".join(lines), file=sys.stderr, flush=True)


def note_all(text: str) -> None:
    """A note of several lines. All but the first are indented: no text of others looks like a line of ours."""
    first, *others = text.splitlines() or [""]
    note(first)
    for line in others:
        note(line if line.startswith(" ") else f"  {line}")


def paragraph(text: str, first: str = "", then: str | None = None) -> None:
    """A note of one or several lines, broken between words wherever it goes."""
    print("\n".join(wrapped(clean(text), terminal_columns(), first, then)), file=sys.stderr, flush=True)


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
    """Rows in columns, or `beside` the output. In a terminal what is long is broken between words."""
    cells = [[clean(cell) for cell in row] for row in rows]
    stream = sys.stderr if beside else sys.stdout
    if stream.isatty():
        _shown_table(heads, cells, beside)
    else:
        stream.writelines(line + "\n" for line in _plain_table(heads, cells))


def facts(pairs: Iterable[tuple[str, object]]) -> None:
    """Names and values, one pair a line; empty values are left out."""
    shown = [(name, value) for name, value in pairs if value not in ("", None)]
    widest = max((width(name) for name, _ in shown), default=0)
    for name, value in shown:
        indent = " " * min(widest + 2, 2 + MOST_INDENT)
        say(f"{_padded(name, widest)}  {value}", STYLES.get(str(value), ""), then=indent)


def _plain_table(heads: Sequence[str], cells: list[list[str]]) -> list[str]:
    rows = [list(heads), *cells]
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(_padded, row, widths)).rstrip() for row in rows]


def _padded(cell: str, wanted: int) -> str:
    return cell + " " * (wanted - width(cell))


def _shown_table(heads: Sequence[str], cells: list[list[str]], beside: bool) -> None:
    """A table for a terminal. Columns that it has no room for follow each row, with their heads."""
    count, widths = len(heads), columns_of(heads, cells, terminal_columns(), GAP)
    while widths is None and count > 1:
        count -= 1
        widths = columns_of(heads[:count], [row[:count] for row in cells], terminal_columns(), GAP)
    widths = widths or [terminal_columns()]
    _show_row(heads[:count], widths, "dim", beside)
    for row in cells:
        _show_row(row[:count], widths, "", beside)
        _show_rest(heads[count:], row[count:], beside)


def _show_row(row: Sequence[str], widths: Sequence[int], style: str, beside: bool) -> None:
    columns = [wrapped(cell, wide, then="") for cell, wide in zip(row, widths, strict=True)]
    for parts in zip_longest(*columns, fillvalue=""):
        _show_cells(list(zip(parts, widths, row, strict=True)), style, beside)


def _show_rest(heads: Sequence[str], row: Sequence[str], beside: bool) -> None:
    widest = max(map(width, heads), default=0)
    for head, cell in zip(heads, row, strict=True):
        for line in wrapped(f"    {_padded(head, widest)}  {cell}", terminal_columns(), then=" " * 6) if cell else ():
            _show(line, STYLES.get(cell, ""), beside=beside)


def _show_cells(parts: Sequence[tuple[str, int, str]], style: str, beside: bool) -> None:
    styles = [style or STYLES.get(cell, "") for _, _, cell in parts]
    texts = [_padded(part, wide) for part, wide, _ in parts]
    if not any(styles):
        _show((" " * GAP).join(texts).rstrip(), "", beside=beside)
        return
    from rich.text import Text

    line = Text(" " * GAP).join(Text(text, style=each) for text, each in zip(texts, styles, strict=True))
    line.rstrip()
    console(beside).print(line, soft_wrap=True)


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
