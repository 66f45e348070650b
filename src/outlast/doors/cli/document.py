"""Values as people read them: a text of several lines as its lines, and what holds one as a list of names. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from outlast.doors.cli.render import as_json, clean, fit

ALL = 1_000  # lines that are shown to whoever decides now
SOME = 20  # of one thing in a list of many
WIDEST, WIDEST_OF_MANY = 4_000, 300  # columns of one line; --json has all of it


def document(name: str, value: Any, most: int = ALL, command: str = "") -> list[str]:
    """A named value in lines: one if it is short, else its name and the lines below it.

    Of more than `most` lines the rest is counted, and the `command` named that shows it.
    """
    if not has_lines(value):
        return [fit(f"{name}: {_inline(value)}", WIDEST if most >= ALL else WIDEST_OF_MANY)]
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
        yield f"{indent}{_inline(value)}"


def _entry(front: str, value: Any, indent: str) -> Iterator[str]:
    if not has_lines(value):
        yield f"{indent}{front} {_inline(value)}"
        return
    yield f"{indent}{front}"
    yield from _lines(value, f"{indent}  ")


def _inline(value: Any) -> str:
    return value if isinstance(value, str) else as_json(value)
