"""Checkpoints: named stable boundaries of a task; looked up, listed, and what changed between two of them.

Where a task stands when one is pinned is for its runs to say: runs/outputs/workspace.py.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from outlast.errors import AmbiguousPrefix, CheckpointNotFound, ValueRefused
from outlast.home.place import check_name
from outlast.secrets import find as secrets
from outlast.store.contract import Reading, Writing
from outlast.store.contract.workspace import CheckpointRow
from outlast.values.codec import value_of
from outlast.values.frozen import Compared, NamedTuple
from outlast.workspace.refs import SUMMARY_LENGTH, all_whole, check_refs, check_text, new_row, proof_of, run_id_of

if TYPE_CHECKING:
    from outlast.home.home import Home

REFS = 1_000


class Checkpoint(Compared, frozen=True):
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
    replayed: bool = False


class StateChange(Struct, frozen=True):
    """A key of the state that is not what it was: absent on the side where it is not."""

    key: str
    before: Any = None
    after: Any = None
    kind: str = "changed"  # added, removed, changed


class CheckpointDiff(Struct, frozen=True):
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
    old, new = before.state, after.state
    changes: list[StateChange] = []
    for key in sorted({*old, *new}):
        kind = "added" if key not in old else "removed" if key not in new else "changed"
        if kind != "changed" or old[key] != new[key]:
            changes.append(StateChange(key, old.get(key), new.get(key), kind))
    added = tuple(ref for ref in after.refs if ref not in before.refs)
    removed = tuple(ref for ref in before.refs if ref not in after.refs)
    return CheckpointDiff(before, after, tuple(changes), added, removed)


class CheckpointDraft(NamedTuple):
    """A checkpoint to pin, checked."""

    scope: str
    task: str
    name: str
    summary: str
    refs: tuple[str, ...]
    actor: str


class TaskPlace(NamedTuple):
    """Where a task stands."""

    run_id: str = ""
    state: str = "{}"
    phase: str = ""
    position: int = 0


def draft(scope: str, task: str, name: str, summary: Any, refs: Any, actor: str) -> CheckpointDraft:
    """What was given, checked. Raises NameInvalid, ValueRefused."""
    told = check_text("summary", summary, SUMMARY_LENGTH)
    names = (check_name("task", task), check_name("checkpoint", name))
    return CheckpointDraft(scope, *names, told, check_refs(refs, REFS), actor)


# -- adding ------------------------------------------------------------------------------------------


def refuse_secrets(home: Home, given: CheckpointDraft) -> None:
    """Raises SecretFound for what must not be shown to everybody who comes later."""
    secrets.check({"name": given.name, "summary": given.summary}, "", home.secrets.rules)


def whole(look: Reading, given: CheckpointDraft) -> CheckpointDraft:
    """With refs that each name something. Raises ValueRefused, NotFound."""
    return given._replace(refs=all_whole(look, given.refs, given.scope))


def add(home: Home, tx: Writing, given: CheckpointDraft, at: TaskPlace) -> CheckpointRow:
    row = new_row(CheckpointRow, given, at, id=home.ids(), at=home.clock.now())
    row = row._replace(proof=proof_of_row(row))
    tx.add_checkpoint(row)
    return row


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
    return [*map(checkpoint_of, home.store.read(lambda look: look.checkpoints_of_task(scope, task, key, limit)))]


def of_run(home: Home, run: str, limit: int, before: str | None = None) -> list[Checkpoint]:
    """The checkpoints of a run, the newest first. Those of a removed run stay, under its whole id."""
    key = _key(home, before)
    run_id = run_id_of(home, run)
    return [*map(checkpoint_of, home.store.read(lambda look: look.checkpoints_of_run(run_id, key, limit)))]


def newest(home: Home, scope: str, limit: int, before: str | None = None) -> list[Checkpoint]:
    """The newest checkpoints of a scope, whichever their tasks."""
    key = _key(home, before, scope)
    return [*map(checkpoint_of, home.store.read(lambda look: look.checkpoints_of_scope(scope, key, limit)))]


def _key(home: Home, checkpoint_id: str | None, scope: str | None = None) -> int:
    """The place of a checkpoint in a list, of one scope or of all; 0 at its beginning. Raises CheckpointNotFound."""
    if checkpoint_id is None:
        return 0
    rows = home.store.read(lambda look: look.checkpoints_by_prefix(checkpoint_id))
    found = (row.key for row in rows if row.id == checkpoint_id and scope in (None, row.scope))
    if key := next(found, 0):
        return key
    raise CheckpointNotFound(checkpoint_id)


def checkpoint_of(row: CheckpointRow, *, replayed: bool = False) -> Checkpoint:
    return value_of(Checkpoint, row, replayed=replayed)
