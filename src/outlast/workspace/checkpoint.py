"""Checkpoints: named stable boundaries of a task, and what changed between two of them."""

from __future__ import annotations

from dataclasses import field
from datetime import datetime
from typing import Any

from outlast.errors import ValueRefused
from outlast.values.frozen import dataclass

REFS = 1_000


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A boundary as it was pinned: the run's state then, what it refers to, and where in the journal it is."""

    id: str
    scope: str
    task: str
    run_id: str  # empty when the task had no run
    name: str
    summary: str
    refs: tuple[str, ...]
    state: dict[str, Any]
    phase: str
    position: int  # seq in the run's journal: what came before belongs to it
    actor: str
    at: datetime
    replayed: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Change:
    """A key of the state that is not what it was: absent on the side where it is not."""

    key: str
    before: Any = None
    after: Any = None
    kind: str = "changed"  # added, removed, changed


@dataclass(frozen=True, slots=True)
class CheckpointDiff:
    """What is different at the second of two checkpoints."""

    before: Checkpoint
    after: Checkpoint
    state: tuple[Change, ...]
    refs_added: tuple[str, ...]
    refs_removed: tuple[str, ...]

    @property
    def same(self) -> bool:
        return not (self.state or self.refs_added or self.refs_removed)


def diff(before: Checkpoint, after: Checkpoint) -> CheckpointDiff:
    """Compare two checkpoints, of one task or of two."""
    keys = sorted({*before.state, *after.state})
    changes = (_change(key, before.state, after.state) for key in keys)
    return CheckpointDiff(
        before,
        after,
        tuple(change for change in changes if change is not None),
        tuple(ref for ref in after.refs if ref not in before.refs),
        tuple(ref for ref in before.refs if ref not in after.refs),
    )


def _change(key: str, before: dict[str, Any], after: dict[str, Any]) -> Change | None:
    if key not in before:
        return Change(key, after=after[key], kind="added")
    if key not in after:
        return Change(key, before=before[key], kind="removed")
    return None if before[key] == after[key] else Change(key, before[key], after[key])


def check_refs(refs: Any, limit: int = REFS) -> tuple[str, ...]:
    """Refs as they were given, each once. Raises ValueRefused for what is none."""
    if isinstance(refs, str) or not hasattr(refs, "__iter__"):
        raise ValueRefused("refs", f"{type(refs).__qualname__} is no list of refs", "give a list: refs=[draft.ref]")
    given = list(refs)
    for place, ref in enumerate(given):
        if not isinstance(ref, str):
            raise ValueRefused(f"refs[{place}]", f"{type(ref).__qualname__} is no ref", "give its .ref")
    found = tuple(dict.fromkeys(given))
    if len(found) > limit:
        raise ValueRefused(
            "refs", f"they are {len(found):,}; the limit is {limit:,}", "save a list of them as an artifact"
        )
    return found
