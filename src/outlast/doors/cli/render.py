"""Putting words on a terminal (rich) or into a pipe (plain lines). Nothing written here can steer a terminal.

Lines for people, broken between words and nowhere else: one mechanism for all that a terminal is shown. Pure.

A command to copy stays in one piece where it fits; else it goes on after a backslash, as a shell reads it. A word that
is wider than the terminal stays whole: only the terminal can break it.

Values as people read them: a text of several lines as its lines, and what holds one as a list of names. Pure.
"""

from __future__ import annotations

import errno
import functools
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from outlast.doors.cli import late
from outlast.values.text import counted as counted
from outlast.values.text import visible

if TYPE_CHECKING:
    from rich.console import Console

NARROWEST = 20  # columns that a text is given at least, whatever stands in front of it
CONTINUED = " \\"
_NARROW = "…–—█░"  # signs of ours that need no table of widths
_COMMAND = r"(?:(?<=: )|(?<=`)|(?<=  )|\A)outlast [a-z][^`]*"
_WORDS = r"""(?:[^\s'"]|'[^']*'|"[^"]*")+"""  # of a shell: quoted blanks belong to their word
STYLES = {
    **dict.fromkeys(("succeeded", "trusted", "ok"), "green"),
    **dict.fromkeys(("failed", "crashed", "contested", "broken", "damaged"), "red"),
    **dict.fromkeys(("waiting", "queued", "interrupted", "candidate"), "yellow"),
    **{"running": "cyan", "aborted": "dim"},
}
COMPACT = (",", ":")
clean = visible  # one line that only prints: control and direction characters become visible escapes
RAW = "outlast.raw"  # where the context of a command remembers that --raw was given
CLOSED: set[str] = set()  # the standard streams that the caller closed: what stands there now leads nowhere
GAP = 2  # blanks between the columns of a table
MOST_INDENT = 16  # of the lines after the first of a value
ALL = 1_000  # lines that are shown to whoever decides now
SOME = 20  # of one thing in a list of many
WIDEST, WIDEST_OF_MANY = 4_000, 300  # columns of one line; --json has all of it


def width(text: str) -> int:
    """The columns a text takes: two for each character of East Asia and for most emoji."""
    if text.isascii() or all(char < "\u0300" or char in _NARROW for char in text):
        return len(text)
    return late.cells.cell_len(text)


def wrapped(text: str, columns: int, first: str = "", then: str | None = None) -> list[str]:
    """The text in lines of at most so many columns. What it is indented by, its next lines are too: also a bar."""
    body = text.lstrip(" ")
    bar = "| " if body.startswith("| ") else ""
    first += text[: len(text) - len(body)] + bar
    body, then = body.removeprefix(bar), first if then is None else then + bar
    if width(first + body) <= columns:
        return [(first + body).rstrip()]
    lines = _Lines(columns, first, then)
    for part, is_command in _parts(body):
        lines.add_command(part) if is_command else lines.add(part.split(" "))
    return lines.all()


class Cells:
    """The cells of a table, to be walked more than once, each row kept as one text.

    Of a table with very many rows a text for each cell takes much more memory.
    """

    def __init__(self, rows: Iterable[Sequence[object]]) -> None:
        self._rows = ["\0".join(map(clean, row)) for row in rows]  # what is clean has no such character

    def __iter__(self) -> Iterator[list[str]]:
        return (row.split("\0") for row in self._rows)


def widest(heads: Sequence[str], rows: Iterable[Sequence[str]], of: Callable[[str], int]) -> list[int]:
    """The largest number of each column."""
    found = list(map(of, heads))
    for row in rows:
        found = list(map(max, found, map(of, row)))
    return found


def columns_of(heads: Sequence[str], rows: Iterable[Sequence[str]], columns: int, gap: int) -> list[int] | None:
    """How wide the columns of a table are, so that no word in it is broken; None when there is no such way."""
    wanted = widest(heads, rows, width)
    words = widest(heads, rows, lambda cell: max(map(width, cell.split(" "))))
    least = [max(word, min(each, NARROWEST)) for word, each in zip(words, wanted, strict=True)]
    room = columns - gap * (len(wanted) - 1)
    if sum(wanted) <= room:
        return wanted
    if sum(least) > room:
        return None
    found = list(least)
    while (left := room - sum(found)) > 0 and (short := [n for n, each in enumerate(found) if each < wanted[n]]):
        for number in short[:left]:
            found[number] += 1
    return found


def _parts(text: str) -> list[tuple[str, bool]]:
    """A text in pieces: those that are commands to copy, and what is between them."""
    found, at = list[tuple[str, bool]](), 0
    for match in re.finditer(_COMMAND, text):
        found += [(text[at : match.start()], False), (match[0], True)]
        at = match.end()
    return [(part, is_command) for part, is_command in [*found, (text[at:], False)] if part]


class _Lines:
    """Lines that are filled word by word."""

    def __init__(self, columns: int, first: str, then: str) -> None:
        self._columns, self._then = max(columns, NARROWEST), then
        self._line, self._empty = first, True
        self._done: list[str] = []

    def add(self, words: Sequence[str]) -> None:
        """Words of a text; the first one belongs to what was before. An empty one is a blank more."""
        self._line += words[0]
        self._empty = self._empty and not words[0]
        for word in words[1:]:
            if not self._empty and width(self._line) + 1 + width(word) > self._columns:
                self._end()
            if word or not self._empty:
                self._line += word if self._empty else f" {word}"
                self._empty = self._empty and not word

    def add_command(self, text: str) -> None:
        """A command: on one line if that is possible."""
        room = self._columns - width(self._line)
        if not self._empty and width(text) > room:
            self._end(self._line.rpartition(" ")[2])
        words = re.findall(_WORDS, text)
        words = words if " ".join(words) == text else text.split(" ")  # prose after all
        for number, word in enumerate(words):
            needs = width(word) + (0 if number == len(words) - 1 else len(CONTINUED))
            if not self._empty and number and width(self._line) + 1 + needs > self._columns:
                self._done.append(self._line + CONTINUED)
                self._line, self._empty = f"{self._then}    ", True
            self._line += word if self._empty or not number else f" {word}"
            self._empty = False

    def _end(self, carried: str = "") -> None:
        """The next line begins, with what was to stand right before its first word."""
        line = self._line[: len(self._line) - len(carried)] if carried else self._line
        self._done.append(line.rstrip())
        self._line, self._empty = self._then + carried, True

    def all(self) -> list[str]:
        return [*self._done, self._line.rstrip()] if not self._empty or not self._done else self._done


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
    return late.shutil.get_terminal_size().columns


def _show(line: str, style: str, *, beside: bool = False) -> None:
    if not style:
        (sys.stderr if beside else sys.stdout).write(line + "\n")
        return
    console(beside).print(late.text.Text(line, style=style), soft_wrap=True)


def is_raw() -> bool:
    """Whether what commands print is shown as it is: the command has --raw, and it was given."""
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


def emit(value: Any, **more: Any) -> None:
    """The one JSON object of a command: a value of ours by its fields, and more of them.

    A part that comes one by one stands last: each is written when it is there, and let go of.
    """
    given = {**value, **more} if isinstance(value, dict) else more
    streams = {name: part for name, part in given.items() if isinstance(part, Iterator)}
    more = {name: part for name, part in more.items() if name not in streams}
    if isinstance(value, dict):
        value = {name: part for name, part in value.items() if name not in streams}
    text = json.dumps(_told(value, more), separators=COMPACT)
    sys.stdout.write(text[:-1] if streams else text)
    for number, (name, part) in enumerate(streams.items()):
        sys.stdout.write("," * (len(text) > 2 or number > 0) + f"{json.dumps(name)}:[")
        for place, item in enumerate(part):
            sys.stdout.write("," * (place > 0) + json.dumps(late.shown.shown(item), separators=COMPACT))
        sys.stdout.write("]")
    sys.stdout.write("}\n" if streams else "\n")


def emit_exactly(value: Any, **more: Any) -> None:
    """The same in UTF-8, whatever the locale: JSON that is part of the value as it came stays byte for byte."""
    sys.stdout.flush()
    sys.stdout.buffer.write(late.codec.encode(_told(value, more)) + b"\n")
    sys.stdout.buffer.flush()


def _told(value: Any, more: dict[str, Any]) -> dict[str, Any]:
    """As every door shows it; what has no name of its own comes by names."""
    shown = late.shown.shown
    own = value if type(value) is dict else shown(value)
    return {name: shown(each) for name, each in (own | more).items()} if own is value else own | _told(more, {})


def content_in() -> BinaryIO:
    """Standard input, to be read as content. Raises UsageError where it was closed: that is not empty content."""
    if "stdin" in CLOSED:
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
    cells = Cells(rows)
    stream = sys.stderr if beside else sys.stdout
    if stream.isatty():
        # columns that a terminal has no room for follow each row, with their heads
        count, widths = len(heads), columns_of(heads, cells, terminal_columns(), GAP)
        while widths is None and count > 1:
            count -= 1
            widths = columns_of(heads[:count], [row[:count] for row in cells], terminal_columns(), GAP)
        widths = widths or [terminal_columns()]
        _show_row(heads[:count], widths, "dim", beside)
        for row in cells:
            _show_row(row[:count], widths, "", beside)
            _show_rest(heads[count:], row[count:], beside)
    else:
        widths = widest(heads, cells, width)
        stream.writelines("  ".join(map(_padded, row, widths)).rstrip() + "\n" for row in chain([heads], cells))


def facts(*pairs: tuple[str, object]) -> None:
    """Names and values, one pair a line; empty values are left out."""
    shown = [(name, value) for name, value in pairs if value not in ("", None)]
    longest = max((width(name) for name, _ in shown), default=0)
    for name, value in shown:
        indent = " " * min(longest + 2, 2 + MOST_INDENT)
        say(f"{_padded(name, longest)}  {value}", STYLES.get(str(value), ""), then=indent)


def _padded(cell: str, wanted: int) -> str:
    return cell + " " * (wanted - width(cell))


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
    line = late.text.Text(" " * GAP).join(
        late.text.Text(text, style=each) for text, each in zip(texts, styles, strict=True)
    )
    line.rstrip()
    console(beside).print(line, soft_wrap=True)


@functools.cache
def console(beside: bool = False) -> Console:
    return late.console.Console(highlight=False, markup=False, emoji=False, stderr=beside)


def as_json(value: Any) -> str:
    """A value as JSON on one line, readable: letters of every language stay letters."""
    return json.dumps(late.codec.jsonable(value), ensure_ascii=False)


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


def document(name: str, value: Any, most: int = ALL, command: str = "") -> list[str]:
    """A named value in lines: one if it is short, else its name and the lines below it.

    Of more than `most` lines the rest is counted, and the `command` named that shows it.
    """
    if not has_lines(value):
        return [fit(f"{name}: {inline(value)}", WIDEST if most >= ALL else WIDEST_OF_MANY)]
    lines = list(_lines(value, ""))
    left = len(lines) - most
    more = [f"  [… {left:,} more lines{f'; all of it: {command}' if command else ''}]"] if left > 0 else []
    return [f"{name}:", *(fit(f"  {line}", WIDEST) for line in lines[:most]), *more]


def has_lines(value: Any) -> bool:
    """Whether there is a text of several lines in a value."""
    if isinstance(value, dict):
        return any(map(has_lines, value.values()))
    if isinstance(value, list | tuple):
        return any(map(has_lines, value))
    return isinstance(value, str) and "\n" in value.rstrip("\n")


def _lines(value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, str):
        yield from (f"{indent}| {line.expandtabs(4)}".rstrip() for line in value.rstrip("\n").split("\n"))
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from _entry(f"{clean(name)}:", each, indent)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _entry("-", each, indent)
    else:
        yield f"{indent}{inline(value)}"


def _entry(front: str, value: Any, indent: str) -> Iterator[str]:
    if not has_lines(value):
        yield f"{indent}{front} {inline(value)}"
        return
    yield f"{indent}{front}"
    yield from _lines(value, f"{indent}  ")


def inline(value: Any) -> str:
    """A text as it is, anything else as JSON."""
    return value if isinstance(value, str) else as_json(value)


@contextmanager
def turned_away(wanted: bool) -> Iterator[None]:
    """With --json, what the flow and its processes print goes to stderr: stdout carries one object."""
    if not wanted:
        yield
        return
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def sized(size: float) -> str:
    """Bytes in the largest unit that fits."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:,.0f} {unit}" if unit == "bytes" else f"{size:,.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} TiB"
