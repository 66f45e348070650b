"""Records: say what was observed, decided or found, once and for good; look them up; pin them.

How a record belongs to a run is the same as for an artifact: runs/saves.py.

Many records at once, in one transaction: all of them, or none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from outlast.clock import micros, moment
from outlast.errors import NameInvalid, NotFound, RecordNotFound, SecretFound, ValueRefused
from outlast.home import once as operations
from outlast.home.find import run_row
from outlast.home.once import Operation
from outlast.home.place import check_name
from outlast.runs.saves import NOTHING, keep, kept_by, refuse_over, remember, source_in, told, write_in_step
from outlast.secrets import find as secrets
from outlast.store.contract import Reading, RunRow, Writing, below, every_row
from outlast.store.contract.workspace import RecordRow, WorkspaceKeys
from outlast.values.codec import decode, encode
from outlast.values.frozen import NamedTuple
from outlast.workspace import refs
from outlast.workspace.artifact import SUMMARY_LENGTH, ArtifactSource, check_tags, check_text, proof_of
from outlast.workspace.checkpoint import check_refs
from outlast.workspace.recall.search import keep_up
from outlast.workspace.record import PREFIX, REFS, Record, check_at, check_kind, check_pinned, check_record_text

if TYPE_CHECKING:
    from outlast.home.home import Home
    from outlast.runs.attempt import Attempt, Frame
    from outlast.runs.execution import Execution


RECORD = "run.workspace.record"
PAGE = 200


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


def without_secrets(home: Home, said: dict[str, Any], redact: bool) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What is said with its secrets masked, and where they were. Raises SecretFound by path unless asked to mask."""
    if not redact:
        secrets.check(said, "", home.secrets.rules)
        return said, ()
    plain, masked = secrets.masked(said, "", home.secrets.rules)
    return plain, tuple(masked)


# -- recording ---------------------------------------------------------------------------------------


def record(home: Home, given: RecordDraft, operation_id: str | None) -> Record:
    """Make a record outside of a run, durable when this returns."""
    operation = Operation(operation_id, "record", list(given))

    def work(tx: Writing) -> tuple[RecordRow | str, str]:
        row = add(home, tx, given)
        return row, row.id

    done = operations.once(home, operation, work, lambda answer: answer)
    keep_up(home, given.scope)
    return record_of(done) if isinstance(done, RecordRow) else get(home, done, replayed=True)


def record_from_run(execution: Execution, frame: Frame, said: RecordFields) -> Record:
    """The record that this call made. On replay it is the first one; in a step others see it with the receipt."""
    home = execution.executor.home
    run = run_row(home, execution.id)
    given = _of_run(home, run, said)
    if frame.attempt is not None:
        return _record_in_step(execution, frame.attempt, given)
    call, answer = told(execution, frame, RECORD, f"{given.kind} {given.text}")
    if answer is not None:
        return get(home, answer)
    given = given._replace(source=replace(given.source, run_id=run.id))
    home.store.read(lambda look: refs.all_whole(look, given.refs, given.scope))  # refused to the flow, not the run

    def work(tx: Writing) -> tuple[RecordRow, str]:
        row = add(home, tx, given)
        return row, row.id

    made = remember(execution, call, work)
    keep_up(home, given.scope)
    return record_of(made)


def _of_run(home: Home, run: RunRow, said: RecordFields) -> RecordDraft:
    return draft(home, run.scope, said._replace(task=run.task if said.task is None else said.task), run.actor)


def _record_in_step(execution: Execution, attempt: Attempt, given: RecordDraft) -> Record:
    what = f"a record: {refs.line(given.text)}"
    refuse_over(attempt, what)
    given = given._replace(source=source_in(execution, attempt, given.source))

    def work(tx: Writing) -> RecordRow:
        return add(execution.executor.home, tx, given, execution.hold.epoch, kept_by(attempt))

    row = write_in_step(execution, work)
    keep(execution, attempt, WorkspaceKeys(records=(row.key,)), what)
    keep_up(execution.executor.home, given.scope)  # with what the steps before recorded: of this one nobody sees it yet
    return record_of(row)


def add(home: Home, tx: Writing, given: RecordDraft, pending: int = 0, kept: WorkspaceKeys = NOTHING) -> RecordRow:
    named = refs.all_whole(tx, given.refs, given.scope, kept)
    at = home.clock.now()
    row = RecordRow(
        key=0,
        id=home.ids(),
        scope=given.scope,
        kind=given.kind,
        text=given.text,
        refs=encode(named).decode(),
        tags=encode(given.tags).decode(),
        source=encode(given.source).decode(),
        run_id=given.source.run_id,
        task=given.task,
        at=given.at or at,
        stored_at=at,
        masked=encode(given.masked).decode(),
        pending=pending,
        pinned=int(given.pinned),
        pinned_by=given.source.actor if given.pinned else "",
        proof=b"",
    )
    row = row._replace(proof=proof_of_row(row))
    return row._replace(key=tx.add_record(row, given.tags, named))


def proof_of_row(row: RecordRow) -> bytes:
    """What proves that a row says what it said when it was added. Whether it is seen or pinned is no part of that."""
    return proof_of("record", *row[1:13])


def pin(home: Home, asked: str, pinned: bool, actor: str, operation_id: str | None) -> Record:
    """Pin a record, or take the pin away. Raises RecordNotFound."""
    wanted = check_pinned(pinned)
    operation = Operation(operation_id, "record_pin", [asked, wanted, actor])

    def work(tx: Writing) -> tuple[Record, str]:
        row = found(tx, asked)
        if bool(row.pinned) == wanted:
            return record_of(row, replayed=True), row.id
        tx.pin_record(row.key, wanted, actor)
        return record_of(row._replace(pinned=int(wanted), pinned_by=actor)), row.id

    return operations.once(home, operation, work, lambda answer: get(home, answer, replayed=True))


# -- looking -----------------------------------------------------------------------------------------


def get(home: Home, asked: str, kept: WorkspaceKeys = NOTHING, *, replayed: bool = False) -> Record:
    """A record by its ref or id, or a unique prefix of either. Raises RecordNotFound, AmbiguousPrefix."""
    return record_of(home.store.read(lambda look: found(look, asked, kept)), replayed=replayed)


def found(look: Reading, asked: Any, kept: WorkspaceKeys = NOTHING) -> RecordRow:
    """The same as a row."""
    if not isinstance(asked, str):
        raise ValueRefused("ref", f"{type(asked).__qualname__} is no text", "give the ref of a record")
    ref = asked if asked.startswith(PREFIX) else f"{PREFIX}{asked}"
    record_id = refs.whole(look, ref, "ref", "", kept).removeprefix(PREFIX)
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
    start = home.store.read(lambda look: _place(look, scope, before)) if before is not None else 0
    if wanted.ref is not None:
        asked = wanted.ref
        wanted = wanted._replace(ref=home.store.read(lambda look: refs.whole(look, asked, "ref", scope)))
    kept: list[Record] = []
    for row in _pages(home, _selected(scope, wanted), start):
        if len(kept) >= limit:
            break
        if _fits(row, scope, wanted):
            kept.append(record_of(row))
    return kept


def _place(look: Reading, scope: str, ref: str) -> int:
    """Of a record in the lists of its scope. Raises RecordNotFound."""
    row = found(look, ref)
    if row.scope != scope:
        raise RecordNotFound(ref)
    return row.key


Page = Callable[[Reading, int], list[RecordRow]]


def _selected(scope: str, wanted: RecordQuery) -> Page:
    """The narrowest of the lookups; the other conditions are looked at afterwards."""
    kind, task, tag, ref, pinned = wanted
    if ref is not None:
        return lambda look, before: look.records_of_ref(ref, before, PAGE)
    if pinned:
        return lambda look, before: look.pinned_records(scope, before, PAGE)
    if task is not None:
        return lambda look, before: look.records_of_task(scope, task, before, PAGE)
    if tag is not None:
        return lambda look, before: look.records_of_tag(scope, tag, before, PAGE)
    if kind is not None:
        return lambda look, before: look.records_of_kind(scope, kind, before, PAGE)
    return lambda look, before: look.records_of_scope(scope, before, PAGE)


def _fits(row: RecordRow, scope: str, wanted: RecordQuery) -> bool:
    return (
        row.scope == scope
        and wanted.kind in (None, row.kind)
        and wanted.task in (None, row.task)
        and wanted.pinned in (None, bool(row.pinned))
        and (wanted.tag is None or wanted.tag in decode(row.tags))
    )


def _pages(home: Home, page: Page, before: int) -> Iterator[RecordRow]:
    read = home.store.read
    return every_row(lambda last: read(lambda look: page(look, last)), lambda row: below(row.key), before)


def record_of(row: RecordRow, *, replayed: bool = False) -> Record:
    return Record(
        ref=refs.record_ref(row.id),
        id=row.id,
        scope=row.scope,
        kind=row.kind,
        text=row.text,
        refs=tuple(decode(row.refs)),
        tags=tuple(decode(row.tags)),
        pinned=bool(row.pinned),
        source=msgspec.convert(decode(row.source), ArtifactSource),
        task=row.task,
        at=moment(row.at),
        stored_at=moment(row.stored_at),
        masked=tuple(decode(row.masked)),
        pinned_by=row.pinned_by,
        replayed=replayed,
    )


AT_ONCE = 1_000
_FIELDS = ("kind", "text", "refs", "tags", "pinned", "task", "at", "source")
_FORM = '{"kind": …, "text": …}, and if you like "refs", "tags", "pinned", "task", "at", "source"'


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
    operation = Operation(operation_id, "record_many", [list(each) for each in given])

    def work(tx: Writing) -> tuple[list[RecordRow] | str, str]:
        rows = [_added(home, tx, each, place) for place, each in enumerate(given)]
        return rows, encode([row.id for row in rows]).decode()

    done = operations.once(home, operation, work, lambda answer: answer)
    if isinstance(done, str):
        return home.store.read(lambda look: _again(look, decode(done)))
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


def _again(look: Reading, ids: list[str]) -> list[Record]:
    return [record_of(found(look, each), replayed=True) for each in ids]
