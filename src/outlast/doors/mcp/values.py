"""Values as plain JSON data, with the fields that every door gives them.

The URIs of resources: `handoff://{scope}/{anchor}`, `artifact://{ref}`, `run://{run_id}`. Pure.

Results that fit into a model's context. What is left out is said, by path, with where to read all of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import msgspec

from outlast.handoffs.reading import handoff_in_order, in_order
from outlast.values.codec import jsonable
from outlast.values.text import shorten

if TYPE_CHECKING:
    from outlast.handoffs.handoff import Handoff
    from outlast.handoffs.recovered import Listed, Recovered
    from outlast.ledger.verdict import Verdict
    from outlast.runs.run import Outcome
    from outlast.runs.waits.interrupt import Interrupt


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


def plain(value: Any) -> Any:
    """JSON that is kept as bytes inside of a value becomes data like the rest."""
    return msgspec.json.decode(msgspec.json.encode(value))


def recovered_value(got: Recovered) -> dict[str, Any]:
    found: dict[str, Any] = plain(in_order(got))
    return found


def handoff_value(handoff: Handoff) -> dict[str, Any]:
    found: dict[str, Any] = plain(handoff_in_order(handoff))
    return found


def listed_value(one: Listed) -> dict[str, Any]:
    return {
        "anchor": one.anchor,
        "scope": one.scope,
        "handoff_id": one.handoff_id,
        "verdict": verdict_value(one.verdict),
    }


def wait_value(wait: Interrupt) -> dict[str, Any]:
    return {**jsonable(wait), "says": wait.says, "choices": list(wait.choices), "digest": wait.digest}


def verdict_value(verdict: Verdict | None) -> dict[str, Any] | None:
    if verdict is None:
        return None
    return {"word": verdict.word, "reasons": [reason.to_dict() for reason in verdict.reasons]}


def outcome_value(outcome: Outcome[Any]) -> dict[str, Any]:
    return {
        "run_id": outcome.run_id,
        "status": outcome.status,
        "goes_on": False,
        "verdict": verdict_value(outcome.verdict),
        "result": jsonable(outcome.result),
        "error": jsonable(outcome.error),
        "interrupts": [wait_value(wait) for wait in outcome.interrupts],
        "replayed_steps": outcome.replayed_steps,
        "unasked": list(outcome.unasked),
        "replayed": outcome.replayed,
        "redelivered": outcome.redelivered,
        "holder": outcome.holder,
        "notes": list(outcome.notes),
        "stopped_by": outcome.stopped_by,
    }
