"""Refs of every kind: that they name something, in whole, and what that is.

`artifact:SCOPE/NAME@VERSION`, `record:ID`, `checkpoint:ID`, `handoff:ID`, `run:ID`. An id may be given by a unique
prefix; it is kept whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from outlast.errors import (
    AmbiguousPrefix,
    ArtifactNotFound,
    CheckpointNotFound,
    HandoffNotFound,
    OutlastError,
    RecordNotFound,
    RunNotFound,
    ValueRefused,
)
from outlast.store.contract import Reading
from outlast.store.contract.workspace import NOTHING, RecordRow, WorkspaceKeys
from outlast.values.codec import decode
from outlast.values.frozen import NamedTuple
from outlast.workspace import artifact

FORMS = "artifact:SCOPE/NAME@1, record:ID, checkpoint:ID, handoff:ID or run:ID"
LINE = 200
RECORD = "record:"


class Named(NamedTuple):
    """What a ref names: what it is, what it says in a line, and the refs that it names itself."""

    kind: str
    says: str
    refs: tuple[str, ...] = ()


def whole(look: Reading, ref: Any, path: str, scope: str, kept: WorkspaceKeys = NOTHING) -> str:
    """The ref with its whole id, of what everybody sees or this attempt made. Raises ValueRefused, NotFound."""
    if not isinstance(ref, str):
        raise ValueRefused(path, f"{type(ref).__qualname__} is no ref", "give its .ref")
    kind, _, name = ref.partition(":")
    if kind == "artifact":
        return _artifact(look, ref, scope, kept)
    if kind not in _BY_ID or not name:
        raise ValueRefused(path, f"{ref!r:.100} is no ref", f"give one such as {FORMS}")
    return f"{kind}:{_id(look, kind, name, kept)}"


def all_whole(look: Reading, refs: Sequence[str], scope: str, kept: WorkspaceKeys = NOTHING) -> tuple[str, ...]:
    """The same of a list of them, each once."""
    return tuple(dict.fromkeys(whole(look, ref, f"refs[{place}]", scope, kept) for place, ref in enumerate(refs)))


def _artifact(look: Reading, ref: str, scope: str, kept: WorkspaceKeys) -> str:
    place = artifact.parse_ref(ref)
    row = look.artifact_at(*place) if place else None
    if place is None or row is None or (row.pending and row.key not in kept.artifacts):
        raise ArtifactNotFound(ref, scope)
    return place.ref


def _id(look: Reading, kind: str, name: str, kept: WorkspaceKeys) -> str:
    found, missing = _BY_ID[kind](look, name, kept)
    if name in found:
        return name
    if not found:
        raise missing
    if len(found) > 1:
        raise AmbiguousPrefix(f"{kind}:{name}", ", ".join(found))
    return found[0]


_Found = tuple[list[str], OutlastError]


def _records(look: Reading, name: str, kept: WorkspaceKeys) -> _Found:
    rows = [row for row in look.records_by_prefix(name) if not row.pending or row.key in kept.records]
    return [row.id for row in rows], RecordNotFound(f"record:{name}")


def _checkpoints(look: Reading, name: str, kept: WorkspaceKeys) -> _Found:
    return [row.id for row in look.checkpoints_by_prefix(name)], CheckpointNotFound(name)


def _handoffs(look: Reading, name: str, kept: WorkspaceKeys) -> _Found:
    return [row.id for row in look.handoffs_by_prefix(name)], HandoffNotFound(f"handoff:{name}")


def _runs(look: Reading, name: str, kept: WorkspaceKeys) -> _Found:
    """A run that was removed stays a name for what it was: what it made refers to it, under its whole id."""
    gone = [stone.id for stone in look.tombstones_by_prefix(name) if stone.id == name]
    return [row.id for row in look.runs_by_prefix(name)] or gone, RunNotFound(name)


_BY_ID: dict[str, Callable[[Reading, str, WorkspaceKeys], _Found]] = {
    "record": _records,
    "checkpoint": _checkpoints,
    "handoff": _handoffs,
    "run": _runs,
}


# -- what it is --------------------------------------------------------------------------------------


def named(look: Reading, ref: str) -> Named:
    """What a whole ref names. What is not here any more is said to be gone."""
    kind, _, name = ref.partition(":")
    find = _NAMED.get(kind)
    return (find(look, name) if find else None) or Named(kind, "it is not here any more")


def _named_artifact(look: Reading, name: str) -> Named | None:
    place = artifact.parse_ref(f"{artifact.PREFIX}{name}")
    row = look.artifact_at(*place) if place else None
    if row is None:
        return None
    source = decode(row.source)
    by = f"run {row.run_id}" + (f", step {source['step']}" if source.get("step") else "") if row.run_id else ""
    told = f"{row.summary or row.media_type}, saved by {by or source.get('actor', '')}"
    return Named("artifact", line(told))


def _named_record(look: Reading, name: str) -> Named | None:
    row: RecordRow | None = next((row for row in look.records_by_prefix(name) if row.id == name), None)
    return Named(row.kind, line(row.text), tuple(decode(row.refs))) if row else None


def _named_checkpoint(look: Reading, name: str) -> Named | None:
    row = next((row for row in look.checkpoints_by_prefix(name) if row.id == name), None)
    if row is None:
        return None
    said = f"{row.name} of task {row.task}" + (f": {row.summary}" if row.summary else "")
    return Named("checkpoint", line(said), tuple(decode(row.refs)))


def _named_handoff(look: Reading, name: str) -> Named | None:
    row = next((row for row in look.handoffs_by_prefix(name) if row.id == name), None)
    anchor = look.anchor_by_key(row.anchor) if row else None
    if row is None or anchor is None:
        return None
    return Named("handoff", line(f"{anchor.anchor}@{row.revision}, {anchor.status}"))


def _named_run(look: Reading, name: str) -> Named | None:
    row = look.run_by_id(name)
    if row is not None:
        return Named("run", line(f"{row.flow} of task {row.task}, {row.status}"))
    stone = next((stone for stone in look.tombstones_by_prefix(name) if stone.id == name), None)
    return Named("run", line(f"{stone.flow} of task {stone.task}, {stone.status}, removed since")) if stone else None


_NAMED: dict[str, Callable[[Reading, str], Named | None]] = {
    "artifact": _named_artifact,
    "record": _named_record,
    "checkpoint": _named_checkpoint,
    "handoff": _named_handoff,
    "run": _named_run,
}


def line(text: str) -> str:
    """A text in one line; a cut is marked."""
    flat = " ".join(text.split())
    return flat if len(flat) <= LINE else f"{flat[: LINE - 1]}…"


def record_ref(record_id: str) -> str:
    return f"{RECORD}{record_id}"
