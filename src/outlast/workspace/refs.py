"""Refs of every kind: that they name something, in whole, and what that is.

`artifact:SCOPE/NAME@VERSION`, `record:ID`, `checkpoint:ID`, `handoff:ID`, `run:ID`. An id may be given by a unique
prefix; it is kept whole.

And what every entry of the workspace shares: who made it, what can be said of it, which is checked here before anything
is written, and the proof of its row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from outlast.errors import (
    AmbiguousPrefix,
    ArtifactNotFound,
    CheckpointNotFound,
    HandoffNotFound,
    OutlastError,
    RecordNotFound,
    RunNotFound,
    RunRemoved,
    ValueRefused,
)
from outlast.home.home import run_row
from outlast.store.contract import Reading, below, every_row
from outlast.store.contract.workspace import NOTHING, ArtifactRow, CheckpointRow, LinkRow, RecordRow, WorkspaceKeys
from outlast.values.codec import decode, encode
from outlast.values.frozen import NamedTuple
from outlast.values.late import late

if TYPE_CHECKING:
    from outlast.home.home import Home
    from outlast.secrets import find as secrets
else:
    secrets = late("outlast.secrets.find")

FORMS = "artifact:SCOPE/NAME@1, record:ID, checkpoint:ID, handoff:ID or run:ID"
LINE = 200
RECORD = "record:"
PREFIX = "artifact:"
_VERSION = "[1-9][0-9]{0,17}"
_REF = re.compile(f"artifact:([^/]+)/(.+)@({_VERSION})", re.DOTALL)


class ArtifactPlace(NamedTuple):
    """Where an artifact is: its scope, its name and its version."""

    scope: str
    name: str
    version: int

    @property
    def ref(self) -> str:
        scope = self.scope.replace("%", "%25").replace("/", "%2F")
        return f"{PREFIX}{scope}/{self.name}@{self.version}"


def parse_ref(ref: str) -> ArtifactPlace | None:
    """What a ref names; None when it is no ref of an artifact."""
    found = _REF.fullmatch(ref)
    if found is None:
        return None
    return ArtifactPlace(found[1].replace("%2F", "/").replace("%25", "%"), found[2], int(found[3]))


def version_of(scope: str, asked: str) -> ArtifactPlace | None:
    """What `name@2` means; None when it ends in no version."""
    name, _, version = asked.rpartition("@")
    return ArtifactPlace(scope, name, int(version)) if name and re.fullmatch(_VERSION, version) else None


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
        place = parse_ref(ref)
        row = look.artifact_at(*place) if place else None
        if place is None or row is None or (row.pending and row.key not in kept.artifacts):
            raise ArtifactNotFound(ref, scope)
        return place.ref
    if kind not in ("record", "checkpoint", "handoff", "run") or not name:
        raise ValueRefused(path, f"{ref!r:.100} is no ref", f"give one such as {FORMS}")
    return f"{kind}:{_id(look, kind, name, kept)}"


def all_whole(look: Reading, refs: Sequence[str], scope: str, kept: WorkspaceKeys = NOTHING) -> tuple[str, ...]:
    """The same of a list of them, each once."""
    return tuple(dict.fromkeys(whole(look, ref, f"refs[{place}]", scope, kept) for place, ref in enumerate(refs)))


def _id(look: Reading, kind: str, name: str, kept: WorkspaceKeys) -> str:
    found, missing = _begun(look, kind, name, kept)
    if name in found:
        return name
    if not found:
        raise missing
    if len(found) > 1:
        raise AmbiguousPrefix(f"{kind}:{name}", ", ".join(found))
    return found[0]


def _begun(look: Reading, kind: str, name: str, kept: WorkspaceKeys) -> tuple[list[str], OutlastError]:
    """The ids that begin so, and the error for none."""
    match kind:
        case "record":
            rows = [row for row in look.records_by_prefix(name) if not row.pending or row.key in kept.records]
            return [row.id for row in rows], RecordNotFound(f"record:{name}")
        case "checkpoint":
            return [row.id for row in look.checkpoints_by_prefix(name)], CheckpointNotFound(name)
        case "handoff":
            return [row.id for row in look.handoffs_by_prefix(name)], HandoffNotFound(f"handoff:{name}")
        case _:  # a run that was removed stays a name for what it was: what it made refers to it, under its whole id
            gone = [stone.id for stone in look.tombstones_by_prefix(name) if stone.id == name]
            return [row.id for row in look.runs_by_prefix(name)] or gone, RunNotFound(name)


# -- what it is --------------------------------------------------------------------------------------


def named(look: Reading, ref: str) -> Named:
    """What a whole ref names. What is not here any more is said to be gone."""
    kind, _, name = ref.partition(":")
    return _named(look, kind, name) or Named(kind, "it is not here any more")


def _named(look: Reading, kind: str, name: str) -> Named | None:
    match kind:
        case "artifact":
            return _named_artifact(look, name)
        case "record":
            record = next((row for row in look.records_by_prefix(name) if row.id == name), None)
            return Named(record.kind, line(record.text), tuple(decode(record.refs))) if record else None
        case "checkpoint":
            pinned = next((row for row in look.checkpoints_by_prefix(name) if row.id == name), None)
            said = f": {pinned.summary}" if pinned and pinned.summary else ""
            told = f"{pinned.name} of task {pinned.task}{said}" if pinned else ""
            return Named(kind, line(told), tuple(decode(pinned.refs))) if pinned else None
        case "handoff":
            row = next((row for row in look.handoffs_by_prefix(name) if row.id == name), None)
            anchor = look.anchor_by_key(row.anchor) if row else None
            return Named(kind, line(f"{anchor.anchor}@{row.revision}, {anchor.status}")) if row and anchor else None
        case "run":
            return _named_run(look, name)
        case _:
            return None


def _named_artifact(look: Reading, name: str) -> Named | None:
    place = parse_ref(f"{PREFIX}{name}")
    row = look.artifact_at(*place) if place else None
    if row is None:
        return None
    source = decode(row.source)
    by = f"run {row.run_id}" + (f", step {source['step']}" if source.get("step") else "") if row.run_id else ""
    told = f"{row.summary or row.media_type}, saved by {by or source.get('actor', '')}"
    return Named("artifact", line(told))


def _named_run(look: Reading, name: str) -> Named | None:
    row = look.run_by_id(name)
    if row is not None:
        return Named("run", line(f"{row.flow} of task {row.task}, {row.status}"))
    stone = next((stone for stone in look.tombstones_by_prefix(name) if stone.id == name), None)
    return Named("run", line(f"{stone.flow} of task {stone.task}, {stone.status}, removed since")) if stone else None


def line(text: str) -> str:
    """A text in one line; a cut is marked."""
    flat = " ".join(text.split())
    return flat if len(flat) <= LINE else f"{flat[: LINE - 1]}…"


# -- what every entry shares -------------------------------------------------------------------------

SUMMARY_LENGTH = 10_000
TAGS, TAG_LENGTH = 100, 200
PAGE = 200

Row = TypeVar("Row", ArtifactRow, RecordRow, CheckpointRow, LinkRow)


class ArtifactSource(Struct, frozen=True):
    """Who saved an artifact, and where: outside of any run, in the body of one, or in a step."""

    actor: str
    run_id: str = ""
    step: str = ""
    attempt: int = 0
    origin: str = ""  # where the content came from, in the saver's words


def check_text(path: str, text: Any, limit: int) -> str:
    """A text that can be stored as it is."""
    if not isinstance(text, str):
        raise ValueRefused(path, f"{type(text).__qualname__} is no text", "give text")
    if len(text) > limit:
        why = f"it has {len(text):,} characters; the limit is {limit:,}"
        raise ValueRefused(path, why, "make it shorter, or save the long form as an artifact")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        why = f"it cannot be stored as UTF-8: {error.reason}"
        raise ValueRefused(path, why, "give text without surrogates") from error
    return text


def check_tags(tags: Any) -> tuple[str, ...]:
    """Tags: short printable texts, each once, in order."""
    if isinstance(tags, str) or not hasattr(tags, "__iter__"):
        raise ValueRefused("tags", f"{type(tags).__qualname__} is no list of texts", 'give a list: tags=["draft"]')
    found = tuple(tags)
    for place, tag in enumerate(found):
        if not isinstance(tag, str) or not tag.strip() or len(tag) > TAG_LENGTH or not tag.isprintable():
            remedy = f"give printable text of 1 to {TAG_LENGTH} characters"
            raise ValueRefused(f"tags[{place}]", f"{tag!r:.100} is no tag", remedy)
    if len(found) > TAGS:
        raise ValueRefused("tags", f"they are {len(found)}; the limit is {TAGS}", "give fewer")
    return tuple(sorted(set(found)))


def check_refs(refs: Any, limit: int) -> tuple[str, ...]:
    """Refs as they were given, each once. Raises ValueRefused for what is none."""
    if isinstance(refs, str) or not hasattr(refs, "__iter__"):
        raise ValueRefused("refs", f"{type(refs).__qualname__} is no list of refs", "give a list: refs=[draft.ref]")
    given = list(refs)
    for place, ref in enumerate(given):
        if not isinstance(ref, str):
            raise ValueRefused(f"refs[{place}]", f"{type(ref).__qualname__} is no ref", "give its .ref")
    found = tuple(dict.fromkeys(given))
    if len(found) > limit:
        why = f"they are {len(found):,}; the limit is {limit:,}"
        raise ValueRefused("refs", why, "save a list of them as an artifact")
    return found


def without_secrets(home: Home, said: dict[str, Any], redact: bool) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What is said with its secrets masked, and where they were. Raises SecretFound by path unless asked to mask."""
    if not redact:
        secrets.check(said, "", home.secrets.rules)
        return said, ()
    plain, masked = secrets.masked(said, "", home.secrets.rules)
    return plain, tuple(masked)


def run_id_of(home: Home, run: str) -> str:
    """A run's id by a prefix of it; a removed run is known by its whole id: what it made stays."""
    try:
        return run_row(home, run).id
    except RunRemoved:
        return run


def newest_first(home: Home, page: Callable[[Reading, int, int], list[Row]], before: int = 0) -> Iterator[Row]:
    """Every row of a list, read as it is used: `page` gives so many of those before a key."""
    read = home.store.read
    return every_row(lambda last: read(lambda look: page(look, last, PAGE)), lambda row: below(row.key), before)


def new_row(kind: type[Row], *said: Any, **more: Any) -> Row:
    """A row without its key and its proof: each column as these values say it, as JSON where that is no plain value."""
    known = {name: value for each in said for name, value in each._asdict().items()} | {"key": 0, "proof": b""} | more
    return kind(**{name: _column(known[name]) for name in kind._fields})


def _column(value: Any) -> Any:
    return value if isinstance(value, str | int | bytes) else encode(value).decode()


def proof_of(*facts: Any) -> bytes:
    """What proves a row: a hash of everything that it says."""
    return sha256(b"outlast workspace\n" + encode(list(facts))).digest()
