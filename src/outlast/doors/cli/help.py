"""The help of every command, as wide as the terminal is: nothing in it is broken inside a word."""

from __future__ import annotations

import shutil
from collections.abc import Iterable

import click

from outlast.doors.cli.wrap import width, wrapped

WIDEST = 98
LEFT = 30  # columns of the names in a list; a longer one has its text below it
NARROW = 60  # columns of a terminal in which every name has its text below it


class Formatter(click.HelpFormatter):
    """Click's own, with our line breaks."""

    def __init__(self, indent_increment: int = 2, width: int | None = None, max_width: int | None = None) -> None:
        super().__init__(indent_increment, min(shutil.get_terminal_size().columns, WIDEST + 2) - 2, max_width)

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        lead = "Usage: " if prefix is None else prefix
        self._lines(f"{lead}{prog} {args}".rstrip(), then=" " * len(lead))

    def write_text(self, text: str) -> None:
        """Paragraphs; those that begin with a backspace keep their lines."""
        for number, paragraph in enumerate(text.split("\n\n")):
            if number:
                self.write("\n")
            kept = paragraph.lstrip("\n").startswith("\b")
            lines = paragraph.strip("\b\n").split("\n") if kept else [" ".join(paragraph.split())]
            for line in lines:
                self._lines(line.replace("\b", ""))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = LEFT, col_spacing: int = 2) -> None:
        """A list of names and what they mean."""
        rows = list(rows)
        if self.width < NARROW:
            for name, text in rows:
                self._lines(name.rstrip(), then=" " * (self.current_indent + 4))
                self._lines(f"    {text}")
            return
        left = min(max((width(name) for name, _ in rows), default=0), col_max) + col_spacing
        for name, text in rows:
            beside = width(name) <= left - col_spacing
            if not beside:
                self._lines(name)
            front = name.ljust(left) if beside else " " * left
            self._lines(f"{front}{text}" if text else name, then=" " * (self.current_indent + left))

    def _lines(self, text: str, then: str | None = None) -> None:
        front = " " * self.current_indent
        for line in wrapped(text, self.width, front, then):
            self.write(f"{line}\n")


class Context(click.Context):
    """A context whose help is written so."""

    formatter_class = Formatter
