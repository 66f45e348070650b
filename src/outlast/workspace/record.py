"""Records: what was observed, decided, found as evidence or noted, in words, with refs to what it is about.

A record is made once and for good, alone or with many in one transaction; it is looked up, listed, and pinned. How one
is made by a run is runs/outputs/workspace.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from outlast.clock import micros
from outlast.errors import NameInvalid, NotFound, RecordNotFound, SecretFound, ValueRefused
from outlast.home.caller import Repeatable, once
from outlast.home.place import check_name
from outlast.secrets import find as secrets
from outlast.store.contract import Reading, Writing
from outlast.store.contract.workspace import NOTHING, RecordRow, WorkspaceKeys
from outlast.values.codec import decode, encode, value_of
from outlast.values.frozen import Compared, NamedTuple
from outlast.workspace import refs
from outlast.workspace.recall.search import keep_up
from outlast.workspace.refs import (
    RECORD,
    SUMMARY_LENGTH,
    ArtifactSource,
    check_refs,
    check_tags,
    check_text,
    new_row,
    newest_first,
    proof_of,
    without_secrets,
)

if TYPE_CHECKING:
    from outlast.home.home import Home

KINDS = ("observation", "decision", "evidence", "note")
TEXT_BYTES = 1 << 20
REFS = 100
AT_ONCE = 1_000
_FIELDS = ("kind", "text", "refs", "tags", "pinned", "task", "at", "source")
_FORM = '{"kind": …, "text": …}, and if you like "refs", "tags", "pinned", "task", "at", "source"'


class Record(Compared, frozen=True):
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
    replayed: bool = False  # nothing was written: it was there


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


class RecordDraft(NamedTuple):
    """A record that is to be made, checked, without its secrets. Its refs are as they were given."""

    scope: str
    kind: str
    text: str
    refs: tuple[str, ...]
    tags: tuple[str, ...]
    pinned: bool
    task: str
    at: int  # 0: when it is stored
    source: ArtifactSource
    masked: tuple[str, ...]


class RecordFields(NamedTuple):
    """What a caller gives."""

    kind: Any
    text: Any
    refs: Any = ()
    tags: Any = ()
    pinned: Any = False
    task: str | None = None
    at: datetime | None = None
    source: str | None = None
    redact: bool = False


def draft(home: Home, scope: str, said: RecordFields, actor: str) -> RecordDraft:
    """What was given, checked before anything is written. Raises ValueRefused, NameInvalid, SecretFound."""
    kind, text, tags = check_kind(said.kind), check_record_text(said.text), check_tags(said.tags)
    origin = check_text("source", "" if said.source is None else said.source, SUMMARY_LENGTH)
    named = check_refs(said.refs, REFS)
    secrets.check({"refs": list(named)}, "", home.secrets.rules)  # a masked ref would name nothing
    plain, masked = without_secrets(home, {"text": text, "tags": list(tags), "source": origin}, said.redact)
    task = "" if said.task is None else check_name("task", said.task)
    at = check_at(said.at)
    return RecordDraft(
        scope=scope,
        kind=kind,
        text=plain["text"],
        refs=named,
        tags=tuple(sorted(set(plain["tags"]))),
        pinned=check_pinned(said.pinned),
        task=task,
        at=micros(at) if at is not None else 0,
        source=ArtifactSource(actor, origin=plain["source"]),
        masked=masked,
    )


# -- recording ---------------------------------------------------------------------------------------


def record(home: Home, given: RecordDraft, operation_id: str | None) -> Record:
    """Make a record outside of a run, durable when this returns."""
    operation = Repeatable(operation_id, "record", list(given))

    def work(tx: Writing) -> tuple[RecordRow | str, str]:
        row = add(home, tx, given)
        return row, row.id

    done = once(home, operation, work, lambda answer: answer)
    keep_up(home, given.scope)
    return record_of(done) if isinstance(done, RecordRow) else get(home, done, replayed=True)


def add(home: Home, tx: Writing, given: RecordDraft, pending: int = 0, kept: WorkspaceKeys = NOTHING) -> RecordRow:
    named = refs.all_whole(tx, given.refs, given.scope, kept)
    at = home.clock.now()
    pin = {"pinned": int(given.pinned), "pinned_by": given.source.actor if given.pinned else ""}
    told = {"run_id": given.source.run_id, "at": given.at or at, "stored_at": at, "pending": pending}
    row = new_row(RecordRow, given, id=home.ids(), refs=named, **told, **pin)
    row = row._replace(proof=proof_of_row(row))
    return row._replace(key=tx.add_record(row, given.tags, named))


def proof_of_row(row: RecordRow) -> bytes:
    """What proves that a row says what it said when it was added. Whether it is seen or pinned is no part of that."""
    return proof_of("record", *row[1:13])


def pin(home: Home, asked: str, pinned: bool, actor: str, operation_id: str | None) -> Record:
    """Pin a record, or take the pin away. Raises RecordNotFound."""
    wanted = check_pinned(pinned)
    operation = Repeatable(operation_id, "record_pin", [asked, wanted, actor])

    def work(tx: Writing) -> tuple[Record, str]:
        row = found(tx, asked)
        if bool(row.pinned) == wanted:
            return record_of(row, replayed=True), row.id
        tx.pin_record(row.key, wanted, actor)
        return record_of(row._replace(pinned=int(wanted), pinned_by=actor)), row.id

    return once(home, operation, work, lambda answer: get(home, answer, replayed=True))


# -- looking -----------------------------------------------------------------------------------------


def get(home: Home, asked: str, kept: WorkspaceKeys = NOTHING, *, replayed: bool = False) -> Record:
    """A record by its ref or id, or a unique prefix of either. Raises RecordNotFound, AmbiguousPrefix."""
    return record_of(home.store.read(lambda look: found(look, asked, kept)), replayed=replayed)


def found(look: Reading, asked: Any, kept: WorkspaceKeys = NOTHING) -> RecordRow:
    """The same as a row."""
    if not isinstance(asked, str):
        raise ValueRefused("ref", f"{type(asked).__qualname__} is no text", "give the ref of a record")
    ref = asked if asked.startswith(RECORD) else f"{RECORD}{asked}"
    record_id = refs.whole(look, ref, "ref", "", kept).removeprefix(RECORD)
    return next(row for row in look.records_by_prefix(record_id) if row.id == record_id)


class RecordQuery(NamedTuple):
    """Which records a list shows."""

    kind: str | None = None
    task: str | None = None
    tag: str | None = None
    ref: str | None = None
    pinned: bool | None = None


def listed(home: Home, scope: str, wanted: RecordQuery, limit: int, before: str | None = None) -> list[Record]:
    """Records of a scope, the newest first, from the one after `before` on."""
    start = _place(home, scope, before) if before is not None else 0
    if wanted.ref is not None:
        asked = wanted.ref
        wanted = wanted._replace(ref=home.store.read(lambda look: refs.whole(look, asked, "ref", scope)))
    rows = newest_first(home, _selected(scope, wanted), start)
    fitting = (row for row in rows if _fits(row, scope, wanted))
    return [record_of(row) for row in islice(fitting, limit)]


def _place(home: Home, scope: str, ref: str) -> int:
    """Of a record in the lists of its scope. Raises RecordNotFound."""
    row = home.store.read(lambda look: found(look, ref))
    if row.scope != scope:
        raise RecordNotFound(ref)
    return row.key


Page = Callable[[Reading, int, int], list[RecordRow]]


def _selected(scope: str, wanted: RecordQuery) -> Page:
    """The narrowest of the lookups; the other conditions are looked at afterwards."""
    kind, task, tag, ref, pinned = wanted
    if ref is not None:
        return lambda look, before, most: look.records_of_ref(ref, before, most)
    if pinned:
        return lambda look, before, most: look.pinned_records(scope, before, most)
    if task is not None:
        return lambda look, before, most: look.records_of_task(scope, task, before, most)
    if tag is not None:
        return lambda look, before, most: look.records_of_tag(scope, tag, before, most)
    if kind is not None:
        return lambda look, before, most: look.records_of_kind(scope, kind, before, most)
    return lambda look, before, most: look.records_of_scope(scope, before, most)


def _fits(row: RecordRow, scope: str, wanted: RecordQuery) -> bool:
    return (
        row.scope == scope
        and wanted.kind in (None, row.kind)
        and wanted.task in (None, row.task)
        and wanted.pinned in (None, bool(row.pinned))
        and (wanted.tag is None or wanted.tag in decode(row.tags))
    )


def record_of(row: RecordRow, *, replayed: bool = False) -> Record:
    return value_of(Record, row, ref=f"{RECORD}{row.id}", replayed=replayed)


# -- many at once: all of them, or none -------------------------------------------------------------


def drafts(home: Home, scope: str, given: Any, actor: str, *, redact: bool) -> list[RecordDraft]:
    """Records to make at once, checked: an error names the place. Raises ValueRefused, NameInvalid, SecretFound."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Sequence):
        raise ValueRefused("records", f"{type(given).__qualname__} is no list", f"give a list of {_FORM}")
    if len(given) > AT_ONCE:
        raise ValueRefused("records", f"they are {len(given):,}; the limit is {AT_ONCE:,}", "record them in parts")
    return [_draft(home, scope, each, actor, redact, f"records[{place}]") for place, each in enumerate(given)]


def _draft(home: Home, scope: str, given: Any, actor: str, redact: bool, path: str) -> RecordDraft:
    if not isinstance(given, Mapping):
        raise ValueRefused(path, f"{type(given).__qualname__} is no record", f"give {_FORM}")
    for name in given:
        if name not in _FIELDS:
            raise ValueRefused(f"{path}[{name!r:.100}]", "a record has no such field", f"give {_FORM}")
    for name in _FIELDS[:2]:
        if name not in given:
            raise ValueRefused(f"{path}[{name!r}]", "it is missing", f"give {_FORM}")
    try:
        return draft(home, scope, RecordFields(**given, redact=redact), actor)
    except ValueRefused as error:
        raise ValueRefused(f"{path}.{error.path}", error.why, error.remedy) from error
    except SecretFound as error:
        raise SecretFound(f"{path}.{error.path}", error.kind) from error
    except NameInvalid as error:
        raise ValueRefused(f"{path}.task", str(error), "give a name such as `report`") from error


def record_many(home: Home, given: Sequence[RecordDraft], operation_id: str | None) -> list[Record]:
    """Make the records, durable when this returns, in the order in which they were given: all of them or none."""
    operation = Repeatable(operation_id, "record_many", [list(each) for each in given])

    def work(tx: Writing) -> tuple[list[RecordRow] | str, str]:
        rows = [_added(home, tx, each, place) for place, each in enumerate(given)]
        return rows, encode([row.id for row in rows]).decode()

    done = once(home, operation, work, lambda answer: answer)
    if isinstance(done, str):
        return home.store.read(lambda look: [record_of(found(look, each), replayed=True) for each in decode(done)])
    for scope in {each.scope for each in given}:
        keep_up(home, scope)
    return [record_of(row) for row in done]


def _added(home: Home, tx: Writing, given: RecordDraft, place: int) -> RecordRow:
    try:
        return add(home, tx, given)
    except ValueRefused as error:
        raise ValueRefused(f"records[{place}].{error.path}", error.why, error.remedy) from error
    except NotFound as error:  # what it names as a ref
        error.facts["path"] = f"records[{place}].refs"
        error.add_note(f"it is named by records[{place}].refs")
        raise
