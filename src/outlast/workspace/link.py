"""Links: typed edges between whatever has a ref."""

from __future__ import annotations

from dataclasses import field
from datetime import datetime
from typing import Any

from outlast.errors import ValueRefused
from outlast.values.frozen import dataclass
from outlast.workspace.artifact import Source

RELATIONS = ("supports", "contradicts", "derived_from", "supersedes", "produced_by")
NOTE_LENGTH = 10_000


@dataclass(frozen=True, slots=True)
class Link:
    """A link as it was made first: `source` relation `target`. The same one again is this one."""

    id: str
    scope: str
    source: str  # a ref
    relation: str  # supports, contradicts, derived_from, supersedes, produced_by
    target: str  # a ref
    note: str
    by: Source
    stored_at: datetime
    masked: tuple[str, ...] = ()
    replayed: bool = field(default=False, compare=False)


def check_relation(relation: Any) -> str:
    """One of the five relations."""
    if relation not in RELATIONS:
        why = f"{relation!r:.100} is no relation"
        raise ValueRefused("relation", why, f"give one of {', '.join(RELATIONS)}")
    return str(relation)


def check_ends(source: str, target: str) -> None:
    """Two ends: nothing supports, contradicts or replaces itself."""
    if source == target:
        raise ValueRefused("target", f"both ends are {source}", "link it with something else")
