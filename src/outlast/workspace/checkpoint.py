"""Checkpoints: named stable boundaries of a task, and what changed between two of them.

Checkpoints: pin a boundary, from a run's own body or from outside; list them; compare two.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn

from outlast.clock import moment
from outlast.errors import AmbiguousPrefix, CheckpointNotFound, Refused, RunRemoved, ValueRefused
from outlast.home import once as operations
from outlast.home.find import run_row
from outlast.home.once import Operation
from outlast.home.place import check_name
from outlast.runs.plan import state_of
from outlast.runs.saves import remember, told
from outlast.secrets import find as secrets
from outlast.store.contract import Reading, Writing
from outlast.store.contract.workspace import CheckpointRow
from outlast.values.codec import decode, encode
from outlast.values.frozen import NamedTuple, dataclass
from outlast.workspace import refs as refs_of
from outlast.workspace.artifact import SUMMARY_LENGTH, check_text, proof_of
from outlast.workspace.recall.search import keep_up

if TYPE_CHECKING:
    from outlast.home.home import Home
    from outlast.runs.attempt import Frame
    from outlast.runs.execution import Execution


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
class StateChange:
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
    state: tuple[StateChange, ...]
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


def _change(key: str, before: dict[str, Any], after: dict[str, Any]) -> StateChange | None:
    if key not in before:
        return StateChange(key, after=after[key], kind="added")
    if key not in after:
        return StateChange(key, before=before[key], kind="removed")
    return None if before[key] == after[key] else StateChange(key, before[key], after[key])


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


CHECKPOINT = "run.checkpoint"


class CheckpointDraft(NamedTuple):
    """A checkpoint to pin, checked."""

    scope: str
    task: str
    name: str
    summary: str
    refs: tuple[str, ...]
    actor: str


class _At(NamedTuple):
    """Where a task stands."""

    run_id: str = ""
    state: str = "{}"
    phase: str = ""
    position: int = 0


def asked(scope: str, task: str, name: str, summary: Any, refs: Any, actor: str) -> CheckpointDraft:
    """What was given, checked. Raises NameInvalid, ValueRefused."""
    told = check_text("summary", summary, SUMMARY_LENGTH)
    return CheckpointDraft(
        scope, check_name("task", task), check_name("checkpoint", name), told, check_refs(refs), actor
    )


# -- pinning -----------------------------------------------------------------------------------------


def pin(home: Home, given: CheckpointDraft, operation_id: str | None) -> Checkpoint:
    """Pin a boundary from outside: where the task's newest run stands now, if it has one."""
    _refuse_secrets(home, given)
    operation = Operation(operation_id, "checkpoint", list(given))
    whole, stands = home.store.read(lambda look: (_whole(look, given), _standing(look, given)))

    def work(tx: Writing) -> tuple[CheckpointRow | str, str]:
        row = _row(home, whole, stands)
        tx.add_checkpoint(row)
        return row, row.id

    done = operations.once(home, operation, work, lambda answer: answer)
    keep_up(home, given.scope)
    return checkpoint_of(done) if isinstance(done, CheckpointRow) else get(home, done, replayed=True)


def pin_from_run(execution: Execution, frame: Frame, name: str, summary: Any, refs: Any) -> Checkpoint:
    """Pin the boundary at which a body is. On replay it is the one that was pinned first."""
    if frame.attempt is not None:
        raise Refused(detail="a checkpoint is pinned by the flow's body, not by a step; pin it after the step")
    home = execution.executor.home
    run = run_row(home, execution.id)
    given = asked(run.scope, run.task, name, summary, refs, run.actor)
    call, answer = told(execution, frame, CHECKPOINT, given.name)
    if answer is not None:
        return get(home, answer["id"])
    _refuse_secrets(home, given)
    given = home.store.read(lambda look: _whole(look, given))
    state = encode(dict(execution.state)).decode()

    def work(tx: Writing) -> tuple[CheckpointRow, dict[str, Any]]:
        position = execution.hold.head + 1  # of the entry that remembers it
        row = _row(home, given, _At(run.id, state, execution.phase, position))
        tx.add_checkpoint(row)
        return row, {"id": row.id, "name": row.name, "summary": row.summary, "refs": list(given.refs)}

    return checkpoint_of(remember(execution, call, work))


def _refuse_secrets(home: Home, given: CheckpointDraft) -> None:
    """Raises SecretFound for what must not be shown to everybody who comes later."""
    secrets.check({"name": given.name, "summary": given.summary}, "", home.secrets.rules)


def _whole(look: Reading, given: CheckpointDraft) -> CheckpointDraft:
    """With refs that each name something. Raises ValueRefused, NotFound."""
    return given._replace(refs=refs_of.all_whole(look, given.refs, given.scope))


def _standing(look: Reading, given: CheckpointDraft) -> _At:
    """Where the task stands."""
    run = next(iter(look.runs_of_task(given.scope, given.task, 1)), None)
    if run is None:
        return _At()
    rows = look.journal_of(run.key)
    return _At(run.id, encode(state_of(rows)).decode(), run.phase, rows[-1].seq if rows else 0)


def _row(home: Home, given: CheckpointDraft, at: _At) -> CheckpointRow:
    row = CheckpointRow(
        key=0,
        id=home.ids(),
        scope=given.scope,
        task=given.task,
        run_id=at.run_id,
        name=given.name,
        summary=given.summary,
        refs=encode(given.refs).decode(),
        state=at.state,
        phase=at.phase,
        position=at.position,
        actor=given.actor,
        at=home.clock.now(),
        proof=b"",
    )
    return row._replace(proof=proof_of_row(row))


def proof_of_row(row: CheckpointRow) -> bytes:
    """What proves that a row says what it said when it was added."""
    return proof_of(*row[1:13])


# -- looking -----------------------------------------------------------------------------------------


def get(home: Home, asked: str, *, replayed: bool = False) -> Checkpoint:
    """A checkpoint by its ref or id, or a unique prefix. Raises CheckpointNotFound, AmbiguousPrefix, ValueRefused."""
    if not isinstance(asked, str):
        raise ValueRefused("id", f"{type(asked).__qualname__} is no text", "give the id of a checkpoint")
    checkpoint_id = asked.removeprefix("checkpoint:")
    rows = home.store.read(lambda look: look.checkpoints_by_prefix(checkpoint_id)) if checkpoint_id else []
    exact = [row for row in rows if row.id == checkpoint_id] or rows
    if not exact:
        raise CheckpointNotFound(checkpoint_id)
    if len(exact) > 1:
        raise AmbiguousPrefix(checkpoint_id, ", ".join(row.id for row in exact))
    return checkpoint_of(exact[0], replayed=replayed)


def of_task(home: Home, scope: str, task: str, limit: int, before: str | None = None) -> list[Checkpoint]:
    """The checkpoints of a task, the newest first; older than `before`."""
    key = _key(home, before, scope)
    return _all(home.store.read(lambda look: look.checkpoints_of_task(scope, task, key, limit)))


def of_run(home: Home, run: str, limit: int, before: str | None = None) -> list[Checkpoint]:
    """The checkpoints of a run, the newest first. Those of a removed run stay, under its whole id."""
    key = _key(home, before)
    try:
        run_id = run_row(home, run).id
    except RunRemoved:
        run_id = run
    return _all(home.store.read(lambda look: look.checkpoints_of_run(run_id, key, limit)))


def newest(home: Home, scope: str, limit: int, before: str | None = None) -> list[Checkpoint]:
    """The newest checkpoints of a scope, whichever their tasks."""
    key = _key(home, before, scope)
    return _all(home.store.read(lambda look: look.checkpoints_of_scope(scope, key, limit)))


def _key(home: Home, checkpoint_id: str | None, scope: str | None = None) -> int:
    """The place of a checkpoint in a list, of one scope or of all; 0 at its beginning. Raises CheckpointNotFound."""
    if checkpoint_id is None:
        return 0
    rows = home.store.read(lambda look: look.checkpoints_by_prefix(checkpoint_id))
    found = (row.key for row in rows if row.id == checkpoint_id and scope in (None, row.scope))
    return next(found, 0) or _refuse(checkpoint_id)


def _refuse(checkpoint_id: str) -> NoReturn:
    raise CheckpointNotFound(checkpoint_id)


def _all(rows: Iterable[CheckpointRow]) -> list[Checkpoint]:
    return [checkpoint_of(row) for row in rows]


def checkpoint_of(row: CheckpointRow, *, replayed: bool = False) -> Checkpoint:
    return Checkpoint(
        id=row.id,
        scope=row.scope,
        task=row.task,
        run_id=row.run_id,
        name=row.name,
        summary=row.summary,
        refs=tuple(decode(row.refs)),
        state=decode(row.state),
        phase=row.phase,
        position=row.position,
        actor=row.actor,
        at=moment(row.at),
        replayed=replayed,
    )
