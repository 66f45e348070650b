"""Parts of `verify`: whether sessions, tasks, and the workspace with its content, are what was stored, and whether the
rows of a handoff say the same as its journal.

Rows are read a page at a time: no read holds the store up for long.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from outlast.errors import OutlastError
from outlast.handoffs.anchor import lease_of
from outlast.handoffs.journal import AnchorRecord, name_of
from outlast.handoffs.task_state import FIRST, STATE_AFTER, event_header, genesis_of_task
from outlast.ledger.journal import Break
from outlast.sessions.session import Proof, broken, genesis_of_session, memo_header, message_header
from outlast.store.blobs.content import check_content
from outlast.store.contract import AnchorRow, MemoRow, MessageRow, Reading, SessionRow, TaskEventRow, TaskRow, every_row
from outlast.store.contract.blobs import TakenContent
from outlast.store.contract.runs import damage_of
from outlast.store.contract.workspace import ArtifactRow, CheckpointRow, LinkRow, RecordRow, ShownRow
from outlast.values.codec import decode
from outlast.values.frozen import NamedTuple
from outlast.workspace import artifact as artifacts
from outlast.workspace import checkpoint, link
from outlast.workspace import record as records

if TYPE_CHECKING:
    from outlast.home.home import Home


PAGE = 100
Worked = ArtifactRow | CheckpointRow | RecordRow | LinkRow
Keyed = TypeVar("Keyed", SessionRow, TaskRow, ArtifactRow, CheckpointRow, RecordRow, LinkRow)


def _paged(
    home: Home, page: Callable[[Reading, int], list[Keyed]], check: Callable[[Reading, Keyed], Iterable[Break]]
) -> Iterator[tuple[Keyed, list[Break]]]:
    """Each row and what is wrong with it, page by page."""

    def checked(look: Reading, after: int) -> list[tuple[Keyed, list[Break]]]:
        return [(row, list(check(look, row))) for row in page(look, after)]

    return every_row(lambda after: home.store.read(partial(checked, after=after)), lambda pair: pair[0].key)


def _checked(
    home: Home, page: Callable[[Reading, int], list[Keyed]], check: Callable[[Reading, Keyed], Iterable[Break]]
) -> tuple[int, list[Break]]:
    every: list[list[Break]] = [breaks for _, breaks in _paged(home, page, check)]
    return len(every), [*chain(*every)]


def check_sessions(home: Home) -> tuple[int, list[Break]]:
    """How many sessions there are, and what is broken: both chains of each, one session after the other."""
    gone = home.store.read(_without_session)
    number, wrong = _checked(home, lambda look, after: look.sessions_after(after, 1), _session_breaks)
    return number, [*gone, *wrong]


def _without_session(look: Reading) -> list[Break]:
    """What is left of sessions whose own rows are gone. No session is ever removed."""
    gone = [f"messages of session number {key}" for key in look.messages_without_session()]
    gone += [f"memos of session number {key}" for key in look.memos_without_session()]
    return [Break(record, "the session's row is missing") for record in gone]


def _session_breaks(look: Reading, session: SessionRow) -> list[Break]:
    if why := damage_of(session):
        return [Break(f"session {session.id}", why)]
    whose = session.id if session.scope == "default" else f"{session.id} in scope {session.scope}"
    starts = genesis_of_session(session.scope, session.id, session.meta, session.actor, session.created_at)
    messages = every_row(lambda after: look.messages_after(session.key, after, PAGE), lambda row: row.seq)
    memos = every_row(lambda after: look.memos_after(session.key, after, PAGE), lambda row: row.version)
    found = (
        broken(f"message {whose}", starts[0], map(_of_message, messages), session.head, session.hash),
        broken(f"memo {whose}", starts[1], map(_of_memo, memos), session.memos, session.memo_hash),
    )
    return [each for each in found if each is not None]


def _of_message(row: MessageRow) -> Proof:
    about = (row.seq, row.role, row.digest, row.meta, row.run_id, row.actor, row.at)
    return Proof(row.seq, b"" if damage_of(row) else message_header(*about), row.digest, row.content, row.hash)


def _of_memo(row: MemoRow) -> Proof:
    about = (row.version, row.upto, row.digest, row.actor, row.at)
    return Proof(row.version, b"" if damage_of(row) else memo_header(*about), row.digest, row.text, row.hash)


def check_tasks(home: Home) -> tuple[int, list[Break]]:
    """How many tasks there are, and what is broken: the events of each, one task after the other."""
    left = home.store.read(lambda look: look.events_without_task())  # no task is ever removed
    gone = [Break(f"events of task number {key}", "the task's row is missing") for key in left]
    number, wrong = _checked(home, lambda look, after: look.tasks_after(after, 1), _task_breaks)
    return number, [*gone, *wrong]


def _task_breaks(look: Reading, task: TaskRow) -> list[Break]:
    name = f"task {task.task}" if task.scope == "default" else f"task {task.task} in scope {task.scope}"
    if why := damage_of(task):
        return [Break(name, why)]
    start = genesis_of_task(task.scope, task.task)
    found = broken(f"event {name}", start, map(_proof, _events(look, task)), task.head, task.hash)
    if found is not None:
        return [found]
    state: str = FIRST
    for event in _events(look, task):
        if event.kind != "opened":  # one that is not the first changes nothing
            state = STATE_AFTER.get(event.kind, state)
    return [] if state == task.state else [Break(name, f"its row says {task.state}, its events {state}")]


def _events(look: Reading, task: TaskRow) -> Iterator[TaskEventRow]:
    return every_row(lambda after: look.task_events_after(task.key, after, PAGE), lambda row: row.seq)


def _proof(row: TaskEventRow) -> Proof:
    about = (row.seq, row.kind, row.name, row.digest, row.masked, row.actor, row.at)
    return Proof(row.seq, b"" if damage_of(row) else event_header(*about), row.digest, row.body, row.hash)


CHANGED = "what it says of itself was changed"
UNNUMBERED = "its number among what everybody sees is missing"


class CheckedWorkspace(NamedTuple):
    """What a look at the workspace found."""

    artifacts: int = 0
    checkpoints: int = 0
    records: int = 0
    links: int = 0
    blobs: int = 0
    breaks: list[Break] = []  # noqa: RUF012  # never added to


def check_workspace(home: Home) -> CheckedWorkspace:
    """Check every row, and the content of every artifact; content that several share is read once.

    A row that is gone is noticed too: everything that everybody sees is numbered, without holes.
    """
    lost = home.store.read(lambda look: look.refs_without_artifact())
    breaks = [Break(f"artifact number {key}", "its row is missing") for key in lost]
    count, read = 0, dict[TakenContent, str]()
    for row, wrong in _paged(home, lambda look, after: look.artifacts_after(after, PAGE), _of_artifact):
        count += 1
        taken = artifacts.taken_of(row)
        if taken not in read:
            read[taken] = _spoilt(home, taken, artifacts.ref_of(row))
        told = read[taken]
        breaks += wrong + ([Break(artifacts.ref_of(row), told)] if told else [])
    pinned, broken = _checked(home, lambda look, after: look.checkpoints_after(after, PAGE), _of_checkpoint)
    recorded, torn = _checked(home, lambda look, after: look.records_after(after, PAGE), _of_record)
    linked, cut = _checked(home, lambda look, after: look.links_after(after, PAGE), _of_link)
    breaks += [*broken, *torn, *cut, *_out_of_order(home, lost)]
    return CheckedWorkspace(count, pinned, recorded, linked, len({taken.blob for taken in read}), breaks)


def _of_artifact(look: Reading, row: ArtifactRow) -> Iterator[Break]:
    ref, tags = artifacts.ref_of(row), lambda: look.tags_of_artifact(row.key, row.scope)
    yield from _of_row(look, "artifact", ref, row, artifacts.proof_of_row(row), tags=tags)
    if look.blobs_of_artifact(row.key) != sorted({row.blob, row.chunks} - {""}):
        yield Break(ref, "the reference that keeps its content is missing or was changed")


def _spoilt(home: Home, taken: TakenContent, ref: str) -> str:
    """Why the content is not what was saved; nothing when it is."""
    try:
        check_content(home.blobs, taken, ref)
    except OutlastError as error:
        return str(error.facts.get("why", error))
    return ""


# -- rows without content ----------------------------------------------------------------------------


def _of_checkpoint(look: Reading, row: CheckpointRow) -> Iterator[Break]:
    return _of_row(look, "checkpoint", f"checkpoint {row.id} ({row.name})", row, checkpoint.proof_of_row(row))


def _of_record(look: Reading, row: RecordRow) -> Iterator[Break]:
    tags, refs = lambda: look.tags_of_record(row.key, row.scope), lambda: look.refs_of_record(row.key)
    return _of_row(look, "record", f"record:{row.id}", row, records.proof_of_row(row), tags=tags, refs=refs)


def _of_link(look: Reading, row: LinkRow) -> Iterator[Break]:
    name = f"link {row.id} ({row.source} {row.relation} {row.target})"
    return _of_row(look, "link", name, row, link.proof_of_row(row))


def _of_row(
    look: Reading, noun: str, name: str, row: Worked, proof: bytes, **indexed: Callable[[], list[str]]
) -> Iterator[Break]:
    """What is wrong with one of the workspace. `indexed`: what is found by these columns of it."""
    if why := damage_of(row):
        yield Break(name, why)
    if proof != row.proof:
        yield Break(name, CHANGED)
    elif wrong := next((each for each in indexed if sorted(decode(getattr(row, each))) != indexed[each]()), ""):
        yield Break(name, f"the index of its {wrong} was changed")
    if not getattr(row, "pending", 0) and not look.is_shown(noun, row.key):
        yield Break(name, UNNUMBERED)


# -- the order of what everybody sees ----------------------------------------------------------------


def _out_of_order(home: Home, told: Collection[int]) -> Iterator[Break]:
    """Numbers that are missing, and those whose row is; `told` are the keys of artifacts that are known to be gone."""
    before, found = 0, 0
    for shown, there in _order(home):
        yield from _missing(before, shown.number)
        before = found = shown.number
        if not there and not (shown.noun == "artifact" and shown.row in told):
            yield Break(f"{shown.noun} number {shown.row} of scope {shown.scope}", "its row is missing")
    yield from _missing(found, home.store.read(lambda look: look.highest_shown()) + 1)


def _missing(before: int, number: int) -> Iterator[Break]:
    if number > before + 1:
        which = f"entry {before + 1}" if number == before + 2 else f"entries {before + 1} to {number - 1}"
        yield Break(f"{which} of the workspace", "what was put there, and that it was, is missing")


def _order(home: Home) -> Iterator[tuple[ShownRow, bool]]:
    def page(look: Reading, after: int) -> list[tuple[ShownRow, bool]]:
        return [(shown, _is_there(look, shown)) for shown in look.shown_after(after, PAGE)]

    return every_row(lambda after: home.store.read(partial(page, after=after)), lambda pair: pair[0].number)


def _is_there(look: Reading, shown: ShownRow) -> bool:
    find: dict[str, Callable[[int], object]] = {
        "artifact": look.artifact_by_key,
        "checkpoint": look.checkpoint_by_key,
        "record": look.record_by_key,
        "link": look.link_by_key,
    }
    is_removed = shown.noun == "artifact" and look.removed_by_key(shown.row) is not None  # `gc` put a stone there
    return is_removed or find[shown.noun](shown.row) is not None


# -- handoffs ----------------------------------------------------------------------------------------


def handoff_differences(look: Reading, anchor: AnchorRow, record: AnchorRecord) -> Iterator[tuple[str, str]]:
    """Where the rows say something else than the journal: the record, and what is wrong with it."""
    yield from _revisions(look, anchor, record)
    newest = record.revisions[-1].row
    known = look.handoff_at(anchor.key, newest.revision)
    wanted = anchor._replace(
        status=record.status,
        outcome=record.outcome,
        revision=newest.revision,
        newest=known.key if known else anchor.newest,
        **{name: getattr(newest, name) for name in ("branch", "root", "symbol", "score", "stored_at", "expires_at")},
    )
    name = name_of(anchor.scope, anchor.anchor)
    for column, found, proven in zip(AnchorRow._fields, anchor, wanted, strict=True):
        if found != proven:
            yield name, f"its row says {column} {found!r}, its journal {proven!r}"
    if anchor.arrived > lease_of(look, anchor).head:
        yield name, f"its row says that entry {anchor.arrived} came by import, and there is no such entry"
    if look.files_of_anchor(anchor.key) != sorted(set(newest.files)):
        yield name, "the files that it is found by are not those of its newest revision"
    for _, blob in sorted(set(record.refs) ^ set(look.blob_refs_upto(anchor.key, (1 << 63) - 1))):
        yield name, f"the reference that keeps blob {blob[:12]} for it is missing, or is none"


def _revisions(look: Reading, anchor: AnchorRow, record: AnchorRecord) -> Iterator[tuple[str, str]]:
    listed = {row.revision: row for row in look.handoffs_of(anchor.key)}
    for seq, new in record.revisions:
        row, name = listed.pop(new.revision, None), name_of(anchor.scope, anchor.anchor, new.revision)
        if row is None:
            yield name, "its row is missing"
        elif (row.id, row.seq, row.supersedes) != (new.id, seq, new.supersedes):
            yield name, f"its row says {row.id}, entry {row.seq}; its journal {new.id}, entry {seq}"
    for revision in sorted(listed):
        yield name_of(anchor.scope, anchor.anchor, revision), "its entry is missing"
