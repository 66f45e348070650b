"""Values as plain JSON data, with the fields that every door gives them.

The URIs of resources: `handoff://{scope}/{anchor}`, `artifact://{ref}`, `run://{run_id}`. Pure.

Results that fit into a model's context. What is left out is said, by path, with where to read all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import msgspec
from msgspec import Struct, field

from outlast.operations.shown import shown
from outlast.values.text import shorten

if TYPE_CHECKING:
    from outlast import Outcome


HANDOFF, ARTIFACT, RUN = "handoff://{scope}/{anchor}", "artifact://{ref}", "run://{run_id}"


def handoff_uri(scope: str, anchor: str) -> str:
    return f"handoff://{quote(scope, safe='')}/{quote(anchor, safe='')}"


def artifact_uri(ref: str) -> str:
    return f"artifact://{quote(ref, safe='')}"


def run_uri(run_id: str) -> str:
    return f"run://{quote(run_id, safe='')}"


def parsed(uri: str) -> tuple[str, tuple[str, ...]] | None:
    """The kind of a resource and its names; None when it is none of ours."""
    kind, _, rest = uri.partition("://")
    match kind.lower():
        case "handoff" if "/" in rest:
            scope, _, anchor = rest.partition("/")
            return ("handoff", (unquote(scope), unquote(anchor))) if scope and anchor else None
        case "artifact" if rest:
            return "artifact", (unquote(rest),)
        case "run" if rest:
            return "run", (unquote(rest),)
    return None


LARGEST = 60_000  # bytes of JSON in one result; clients cut or refuse what is much larger
_STEPS = ((8_000, 200), (2_000, 50), (500, 20), (100, 5), (20, 1))  # characters of a text, items of a list or object
_NAMED = 20  # what was left out is named so often, and counted after that


class Cut(Struct):
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
        if (left := len(text) - self.characters) > 0:
            self.found.append(f"{path}: {left:,} of {len(text):,} characters")
        return shorten(text, self.characters)

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


def plain(value: dict[str, Any]) -> dict[str, Any]:
    """JSON that is kept as bytes inside of a value becomes data like the rest."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(value))
    return found


def told(value: Any) -> dict[str, Any]:
    """An answer as every door shows it: of one value, or of several by their names."""
    found: dict[str, Any] = {name: shown(each) for name, each in value.items()} if type(value) is dict else shown(value)
    return plain(found)


def outcome_told(outcome: Outcome[Any], *, goes_on: bool = False) -> dict[str, Any]:
    """How a run stands, and whether it goes on meanwhile."""
    return told(outcome) | {"goes_on": goes_on}
