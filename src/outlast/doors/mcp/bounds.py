"""Results that fit into a model's context. What is left out is said, by path, with where to read all of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

LARGEST = 60_000  # bytes of JSON in one result; clients cut or refuse what is much larger
_STEPS = ((8_000, 200), (2_000, 50), (500, 20), (100, 5), (20, 1))  # characters of a text, items of a list or object
_NAMED = 20  # what was left out is named so often, and counted after that


@dataclass
class Cut:
    """One pass over a value with the same limits everywhere."""

    characters: int
    items: int
    found: list[str] = field(default_factory=list)

    def of(self, value: Any, path: str) -> Any:
        if isinstance(value, str):
            return self._text(value, path)
        if isinstance(value, list):
            return self._list(value, path)
        return self._object(value, path) if isinstance(value, dict) else value

    def _text(self, text: str, path: str) -> str:
        left = len(text) - self.characters
        if left <= 0:
            return text
        self.found.append(f"{path}: {left:,} of {len(text):,} characters")
        return f"{text[: self.characters]}… ({left:,} more characters)"

    def _list(self, items: list[Any], path: str) -> list[Any]:
        if (left := len(items) - self.items) > 0:
            self.found.append(f"{path}: the last {left:,} of {len(items):,} items")
        return [self.of(each, f"{path}[{place}]") for place, each in enumerate(items[: self.items])]

    def _object(self, fields: dict[str, Any], path: str) -> dict[str, Any]:
        kept = fields if path == "" else dict(list(fields.items())[: self.items])
        if len(kept) < len(fields):
            self.found.append(f"{path}: the last {len(fields) - len(kept):,} of {len(fields):,} fields")
        return {name: self.of(each, f"{path}.{name}" if path else name) for name, each in kept.items()}


def bounded(value: dict[str, Any], whole: str) -> dict[str, Any]:
    """The value if it is small enough; else cut, with `cut`: what is left out, and where all of it is."""
    if _size(value) <= LARGEST:
        return value
    for characters, items in _STEPS:
        cut = Cut(characters, max(items, 1))
        kept = cut.of(value, "")
        if _size(kept) <= LARGEST:
            return _told(kept, cut.found, whole)
    bare = {name: _emptied(each) for name, each in kept.items()}
    gone = [f"{name}: all of it" for name, each in kept.items() if each != bare[name]]
    return _told(bare, gone, whole)


def _emptied(value: Any) -> Any:
    """Nothing of a list or an object, whose parts may go on for ever."""
    return type(value)() if isinstance(value, list | dict) else value


def _told(kept: dict[str, Any], found: list[str], whole: str) -> dict[str, Any]:
    more = [f"and {len(found) - _NAMED:,} more"] if len(found) > _NAMED else []
    return kept | {"cut": {"left_out": [*found[:_NAMED], *more], "whole": whole}}


def _size(value: Any) -> int:
    return len(msgspec.json.encode(value))
