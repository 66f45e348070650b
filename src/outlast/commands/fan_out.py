"""The items of a `foreach`: read from a file's lines, and named so that each is known again on resume.

Branches of a flow file in threads of their own, at most so many at once; all of them end before the flow goes on.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from outlast.errors import ItemsUnreadable, NoThread, Paused, Severed, Stopped
from outlast.flows.yaml.flow import unfit_for_a_variable
from outlast.flows.yaml.keys import MOST_ITEMS
from outlast.runs.attempt import CURRENT
from outlast.values.ambient import begin
from outlast.values.codec import identity
from outlast.values.private import read_plain

LINES_BYTES = 64 * 1024 * 1024
RECORDED = 1000  # characters of an item
_PLAIN = re.compile(r"[\w.,:@+=%\-]{1,60}")
_UNFIT = re.compile(r"[^\w.,:@+=%\-]+")
_SHOWN, _DIGITS = 40, 12


def text_of(item: Any) -> str:
    """An item as a command is given it: a text as it is, any other value as JSON."""
    return item if isinstance(item, str) else json.dumps(item, sort_keys=True, ensure_ascii=False)


def shown_item(item: Any) -> str:
    """An item for the record of an attempt; what is very long is cut, and says so."""
    text = text_of(item)
    return text if len(text) <= RECORDED else f"{text[:RECORDED]}… ({len(text):,} characters)"


def labelled(items: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Each item with the name of its place: the same item has the same name in any list, wherever it stands there."""
    seen: dict[str, int] = {}
    for item in items:
        label = _label(text_of(item))
        count = seen[label] = seen.get(label, 0) + 1
        yield (label if count == 1 else f"{label}#{count}"), item


def _label(text: str) -> str:
    """A text that is short and plain enough, or what is plain of it and a digest. `#` stands in no plain one."""
    if _PLAIN.fullmatch(text):
        return text
    return f"{_UNFIT.sub('_', text)[:_SHOWN]}#{identity(text.encode())[:_DIGITS]}"


def read_lines(step: str, file: Path, name: str) -> list[str]:
    """The lines of a file that are not empty. Raises ItemsUnreadable, naming the line that cannot be an item."""
    try:
        raw = read_plain(os.path.realpath(file), LINES_BYTES + 1)
    except (OSError, ValueError) as error:
        raise ItemsUnreadable(step, name, getattr(error, "strerror", None) or str(error)) from error
    if len(raw) > LINES_BYTES:
        raise ItemsUnreadable(step, name, f"it has more than {LINES_BYTES:,} bytes")
    found: list[str] = []
    for number, line in enumerate(raw.split(b"\n"), 1):
        if line.strip():
            found.append(_line(step, name, number, line.removesuffix(b"\r")))
    if len(found) > MOST_ITEMS:
        raise ItemsUnreadable(step, name, f"it has {len(found):,} lines, and {MOST_ITEMS:,} items are the most")
    return found


def _line(step: str, name: str, number: int, raw: bytes) -> str:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise ItemsUnreadable(step, name, f"line {number} is not UTF-8") from None
    if fault := unfit_for_a_variable("OUTLAST_ITEM", text):
        raise ItemsUnreadable(step, name, f"line {number} {fault}")
    return text


_LOOK_SECONDS = 0.1

Work = Callable[[], None]


class _Shared:
    """Work that several threads take from, in order. What ends the run ends that; a failure or a wait does not."""

    def __init__(self, works: Sequence[Work]) -> None:
        self._works, self._next = works, 0
        self._lock = threading.Lock()
        self._over = False
        self.ended: dict[int, BaseException] = {}

    def work(self) -> None:
        while (at := self._take()) is not None:
            try:
                self._works[at]()
            except BaseException as error:
                self.ended[at] = error
                self._over = self._over or not isinstance(error, Exception | Paused)

    def _take(self) -> int | None:
        with self._lock:
            if self._over or self._next >= len(self._works):
                return None
            self._next += 1
            return self._next - 1


def side_by_side(works: Sequence[Work], limit: int = 0) -> list[BaseException]:
    """Do all of it, `limit` pieces at once (0: all). Gives what they raised, in their order. Raises NoThread."""
    shared, threads = _Shared(works), list[threading.Thread]()
    for _ in range(min(limit or len(works), len(works))):
        thread = threading.Thread(target=shared.work, daemon=True)
        try:
            begin(thread, "a branch")
        except NoThread:
            if not threads:  # else those that have begun do its work
                raise
            break
        threads.append(thread)
    for thread in threads:
        while thread.is_alive():  # in short waits: a signal must find the main thread awake
            thread.join(_LOOK_SECONDS)
    return [shared.ended[at] for at in sorted(shared.ended)]


def raise_first(what: str, errors: Sequence[BaseException]) -> None:
    """What becomes of a flow whose branches ended so: taken from it, failed, asked to stop, or waiting."""
    for kind in (Severed, Exception, Stopped, Paused, BaseException):
        found = [error for error in errors if isinstance(error, kind)]
        if found and kind is Exception and len(found) > 1:
            failures = [error for error in found if isinstance(error, Exception)]
            raise ExceptionGroup(f"{len(failures)} {what} failed", failures)
        if found:
            if isinstance(found[0], Paused):
                frame = CURRENT.get()
                if frame is not None:
                    frame.execution.paused = True
            raise found[0]
