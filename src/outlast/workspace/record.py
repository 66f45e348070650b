"""Records: what was observed, decided, found as evidence or noted, in words, with refs to what it is about."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from outlast.errors import ValueRefused
from outlast.workspace.artifact import ArtifactSource, check_text

PREFIX = "record:"
KINDS = ("observation", "decision", "evidence", "note")
TEXT_BYTES = 1 << 20
REFS = 100


@dataclass(frozen=True, slots=True)
class Record:
    """A record as it was stored. Nothing of it ever changes, but for the pin."""

    ref: str
    id: str
    scope: str
    kind: str  # observation, decision, evidence, note
    text: str
    refs: tuple[str, ...]  # what it is about
    tags: tuple[str, ...]
    pinned: bool  # recall never leaves it out
    source: ArtifactSource
    task: str
    at: datetime  # when it was so: as told, else when it was stored
    stored_at: datetime
    masked: tuple[str, ...] = ()  # paths of what was masked as a secret
    pinned_by: str = ""  # who pinned it last, or took the pin away
    replayed: bool = field(default=False, compare=False)  # nothing was written: it was there


def check_kind(kind: Any) -> str:
    """One of the four kinds."""
    if kind not in KINDS:
        raise ValueRefused("kind", f"{kind!r:.100} is no kind of record", f"give one of {', '.join(KINDS)}")
    return str(kind)


def check_record_text(text: Any) -> str:
    """What a record says: text that is not blank, of up to 1 MiB."""
    said = check_text("text", text, TEXT_BYTES)
    if not said.strip():
        raise ValueRefused("text", "it is empty", "say what was observed, decided or found")
    size = len(said.encode())
    if size > TEXT_BYTES:
        why = f"it has {size:,} bytes; the limit is {TEXT_BYTES:,}"
        raise ValueRefused("text", why, "save the long form as an artifact, and record its ref")
    return said


def check_at(at: Any) -> datetime | None:
    """When it was so: a moment with its time zone, or nothing."""
    if at is None:
        return None
    if not isinstance(at, datetime):
        raise ValueRefused("at", f"{type(at).__qualname__} is no datetime", "give a datetime with its time zone")
    if at.tzinfo is None:
        raise ValueRefused("at", "it has no time zone", "give one: datetime.now(timezone.utc)")
    try:
        return at.astimezone(UTC)
    except OverflowError as error:
        raise ValueRefused("at", "it is outside of the years 1 to 9999", "give the moment when it was so") from error


def check_pinned(pinned: Any) -> bool:
    if not isinstance(pinned, bool):
        raise ValueRefused("pinned", f"{pinned!r:.100} is neither True nor False", "give one of them")
    return pinned
