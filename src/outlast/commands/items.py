"""The items of a `foreach`: read from a file's lines, and named so that each is known again on resume."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from outlast.errors import ItemsUnreadable
from outlast.flows.yaml.inputs import unfit_for_a_variable
from outlast.flows.yaml.keys import MOST_ITEMS
from outlast.values.digest import identity
from outlast.values.plain import read_plain

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
