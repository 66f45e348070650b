"""What a run puts into the workspace: once, however often its body is replayed; in a step with its receipt, or never.

In the body the row and the entry that remembers the answer are one transaction. In a step the row is added at once, so
that its ref is known; but nobody sees it before the transaction that writes the attempt's receipt. What an attempt that
does not succeed made is dropped with its receipt; what a killed one made is dropped by the next write of the run to the
workspace, or by `gc`.

A step's command saves from a process of its own (`outlast workspace save`). It is told where it stands
(`OUTLAST_SAVES`), and notes what it saved in a file of the attempt, which takes that as its own when it is over.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec.structs import replace

from outlast import errors
from outlast.errors import Invalid, Refused, Unavailable
from outlast.home.home import run_row
from outlast.ledger.journal import Row, decode_header, decode_payload
from outlast.runs.attempt import Answered, Attempt, Frame
from outlast.runs.call import Call
from outlast.runs.holder import refuse_lost
from outlast.runs.outputs.place import FILE, SAVES, CommandPlace
from outlast.store.contract import RunRow, Writing
from outlast.store.contract.workspace import NOTHING, ArtifactRow, WorkspaceKeys
from outlast.values.codec import identity
from outlast.values.frozen import NamedTuple
from outlast.values.late import late
from outlast.values.private import open_file

if TYPE_CHECKING:
    from outlast.home.caller import Caller, Repeatable
    from outlast.runs.execution import Execution
    from outlast.runs.replay import execution as replay_execution
    from outlast.store.contract.blobs import TakenContent
    from outlast.workspace import artifact as artifacts
    from outlast.workspace import refs
    from outlast.workspace.artifact import AddedArtifact, Artifact, ArtifactDraft
    from outlast.workspace.content import Given
    from outlast.workspace.recall import search
else:
    artifacts = late("outlast.workspace.artifact")
    refs = late("outlast.workspace.refs")
    search = late("outlast.workspace.recall.search")
    replay_execution = late("outlast.runs.replay.execution")


T = TypeVar("T")


class SavedCall(NamedTuple):
    """A call of the body that is answered once, and its first answer if it was made before."""

    call: Call
    answer: Any


def told(execution: Execution, frame: Frame, what: str, name: str) -> SavedCall:
    """Which call of the body this is: it is known by its place, by what it does, and by the name that it gives."""
    execution.gate()
    call = execution.numbered(frame, what, identity(name.encode()))
    past = execution.ledger.calls.get(call)
    if past is not None and past.payload:
        past.asked = True
        execution.come_to(past)
        return SavedCall(call, decode_payload(past.payload).facts)
    if execution.on_receipts_only:
        assert isinstance(execution, replay_execution.Replaying)
        execution.end_at(call, "value")
    execution.come_to_new()
    return SavedCall(call, None)


def remember(execution: Execution, call: Call, work: Callable[[Writing], tuple[T, Any]]) -> T:
    """Do `work` and remember its answer as the call's, in one transaction that only the run's owner can make."""
    writer = execution.writer

    def both(tx: Writing) -> T:
        value, answer = work(tx)
        tx.append(execution.hold, [writer.fact("value", call.step, answer, call)])
        return value

    done: T = writer.commit_work(both)
    return done


# -- in a step ---------------------------------------------------------------------------------------


def kept_by(attempt: Attempt | None) -> WorkspaceKeys:
    """What an attempt made so far: it sees it, others do not."""
    return NOTHING if attempt is None or attempt.kept is None else attempt.kept


def source_in(execution: Execution, attempt: Attempt, source: refs.ArtifactSource) -> refs.ArtifactSource:
    """Who it is from, with the run, the step and the attempt."""
    call = attempt.asked.call
    return refs.ArtifactSource(source.actor, execution.id, call.path, attempt.number, source.origin)


def write_in_step(execution: Execution, work: Callable[[Writing], T]) -> T:
    """Do `work` as the run's owner; what attempts under owners before left is dropped on the way."""

    def owned(tx: Writing) -> T:
        refuse_lost(tx, execution.hold)
        tx.drop(tx.pending_of(execution.id, execution.hold.epoch))
        return work(tx)

    try:
        return execution.executor.home.store.write(owned)
    except (errors.LeaseLost, Unavailable) as error:
        execution.writer.sever(error)


def keep(execution: Execution, attempt: Attempt, added: WorkspaceKeys, what: str, refs: tuple[str, ...] = ()) -> None:
    """Let what was added be the attempt's, whose receipt will decide about it and names these refs.

    Raises Refused, and drops it, if that receipt is written already.
    """
    with execution.writer.lock:
        if not attempt.closed:
            before = kept_by(attempt)
            attempt.kept = WorkspaceKeys(*((*old, *new) for old, new in zip(before, added, strict=True)))
            fresh = tuple(ref for ref in refs if ref not in attempt.artifacts)
            attempt.artifacts = (*attempt.artifacts, *fresh)
            return
    if any(added):
        execution.executor.home.store.write(lambda tx: tx.drop(added))
    refuse_over(attempt, what)


def refuse_over(attempt: Attempt, what: str) -> None:
    """Raises Refused for a body that works on although its attempt has ended: nothing of it counts any more."""
    if attempt.closed:
        raise Refused(detail=f"an attempt that is over cannot save {what}")


def fate_of(attempt: Attempt, status: str, *, delivered: bool, mark: str) -> Callable[[Writing], None] | None:
    """What becomes of what an attempt made, to be done with its receipt. None: nothing yet, or nothing was made."""
    kept = kept_by(attempt)
    if not any(kept) and not attempt.operations:
        return None
    if status == "succeeded":
        return lambda tx: _let_be_known(tx, attempt, kept)
    if attempt.asked.spec.is_effect and not delivered and mark != "not_done":
        return None  # in doubt: its probe may yet say that it happened
    return lambda tx: tx.drop(kept)


def _let_be_known(tx: Writing, attempt: Attempt, kept: WorkspaceKeys) -> None:
    tx.show(kept)
    for done in attempt.operations:
        if tx.operation(done.id) is None:  # else an attempt beside it was first
            tx.add_operation(*done)


SAVE = "run.workspace.save"


def save_from_run(
    execution: Execution, frame: Frame, given: Callable[[RunRow], ArtifactDraft], content: Given
) -> Artifact:
    """The artifact that this call saved. On replay its content is not even looked at."""
    caller = execution.executor.caller
    run = run_row(caller.home, execution.id)
    draft = given(run)
    if frame.attempt is not None:
        return _save_in_step(execution, frame.attempt, draft, content)
    call, answer = told(execution, frame, SAVE, draft.name)
    if answer is not None:
        return _first_answer(execution, run.scope, answer)
    draft = draft._replace(source=replace(draft.source, run_id=run.id))
    taken = _staged(execution, draft, content)

    def work(tx: Writing) -> tuple[AddedArtifact, dict[str, Any]]:
        added = artifacts.add(caller, tx, draft, taken)
        return added, about(added.row)

    added = remember(execution, call, work)
    search.keep_up(caller.home, run.scope)
    return artifacts.artifact_of(caller.home, added.row, replayed=not added.is_new)


def about(row: ArtifactRow) -> dict[str, Any]:
    """What the journal says of an artifact that was saved."""
    told = {"name": row.name, "summary": row.summary, "digest": row.digest}
    return {"ref": artifacts.ref_of(row), **told, "media_type": row.media_type, "size": row.size}


def _first_answer(execution: Execution, scope: str, answer: dict[str, Any]) -> Artifact:
    """What a save gave the first time. Another content under its ref was saved by somebody else, in another home."""
    ref, digest = answer["ref"], answer["digest"]
    found = artifacts.get(execution.executor.home, scope, ref)
    if found.digest != digest:
        why = "this home has other content under that ref; what the run saved did not travel with it"
        raise errors.IntegrityBroken(f"{ref} of run {execution.id}", why)
    return found


def refs_saved(rows: Iterable[Row]) -> list[str]:
    """The refs of all that a run saved, by its journal: also of versions that were there already."""
    found: list[str] = []
    for row in rows:
        if row.payload is None or (b'"artifacts"' not in row.payload and b'"artifact:' not in row.payload):
            continue
        payload = decode_payload(row.payload)
        found += [ref for ref in payload.artifacts if ref.startswith(refs.PREFIX)]  # a flow file's step may name files
        if decode_header(row.header).name == SAVE and payload.facts:
            found.append(payload.facts["ref"])
    return list(dict.fromkeys(found))


def _staged(execution: Execution, draft: ArtifactDraft, content: Given) -> TakenContent:
    """Content that cannot be kept because the disk fails ends the run here; it is not the flow that failed."""
    try:
        return artifacts.stage(execution.executor.home, draft, content)
    except Unavailable as error:
        execution.writer.sever(error)


def _save_in_step(execution: Execution, attempt: Attempt, draft: ArtifactDraft, content: Given) -> Artifact:
    caller, what = execution.executor.caller, repr(draft.name)
    refuse_over(attempt, what)
    draft = draft._replace(source=source_in(execution, attempt, draft.source))
    taken = _staged(execution, draft, content)

    def work(tx: Writing) -> AddedArtifact:
        return artifacts.add(caller, tx, draft, taken, execution.hold.epoch, own=kept_by(attempt).artifacts)

    added = write_in_step(execution, work)
    fresh = WorkspaceKeys(artifacts=(added.row.key,)) if added.is_new else NOTHING
    keep(execution, attempt, fresh, what, refs=(artifacts.ref_of(added.row),))
    attempt.saved = (*attempt.saved, about(added.row))
    return artifacts.artifact_of(caller.home, added.row, replayed=not added.is_new)


class SaveNote(msgspec.Struct, frozen=True):
    """One save, as it is noted."""

    key: int
    is_new: bool
    operation: str = ""  # the id that it was asked for by
    print: str = ""


def save_from_command(
    caller: Caller, told: str, given: Callable[[RunRow], ArtifactDraft], content: Given, operation_id: str | None = None
) -> Artifact | None:
    """The artifact that a step's command saved; None when it is of another home, and so no part of that step.

    An operation id is known to others when the step succeeds, and to the attempt itself at once. Raises Refused when
    its attempt is over, LeaseLost when its run was taken by somebody else, OperationConflict.
    """
    try:
        place = msgspec.json.decode(told, type=CommandPlace)
    except msgspec.DecodeError as error:
        raise Invalid(detail=f"{SAVES} is not what a step tells its command: {error}") from error
    if place.home != str(caller.home.folder):
        return None
    draft = given(run_row(caller.home, place.run))
    _refuse_over(place, draft.name)
    taken = artifacts.stage(caller.home, draft, content)
    operation = artifacts.operation_of(draft, taken, operation_id)
    source = refs.ArtifactSource(draft.source.actor, place.run, place.step, place.attempt, draft.source.origin)
    own = [*_noted(Path(place.file))]

    def work(tx: Writing) -> AddedArtifact:
        lease = tx.lease_of(place.run)
        if lease is None or lease.epoch != place.epoch:
            raise errors.LeaseLost(place.run, place.epoch)
        before = _answered(own, operation) or operation.answered(tx)
        if before is not None:
            return artifacts.AddedArtifact(artifacts.row_again(tx, int(before)), is_new=False)
        keys = [saved.key for saved in own]
        return artifacts.add(caller, tx, draft._replace(source=source), taken, place.epoch, own=keys)

    added = caller.home.store.write(work)
    _note(place, draft.name, SaveNote(added.row.key, added.is_new, operation.id or "", operation.print))
    return artifacts.artifact_of(caller.home, added.row, replayed=not added.is_new)


def _answered(own: Iterable[SaveNote], operation: Repeatable) -> str | None:
    """What the attempt itself was answered to this operation. Raises OperationConflict when it was another one."""
    before = next((saved for saved in own if operation.id and saved.operation == operation.id), None)
    if before is None:
        return None
    if before.print != operation.print:
        raise errors.OperationConflict(str(operation.id), operation.kind)
    return str(before.key)


def _refuse_over(place: CommandPlace, name: str) -> None:
    if not os.path.isdir(os.path.dirname(place.file)):
        raise Refused(detail=f"an attempt that is over cannot save {name!r}")


def _note(place: CommandPlace, name: str, saved: SaveNote) -> None:
    try:
        file = open_file(Path(place.file), os.O_WRONLY | os.O_APPEND)
    except FileNotFoundError:
        _refuse_over(place, name)
        raise
    try:
        os.write(file, msgspec.json.encode(saved) + b"\n")
    finally:
        os.close(file)


def _noted(file: Path) -> Iterator[SaveNote]:
    try:
        lines = file.read_bytes().splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        yield msgspec.json.decode(line, type=SaveNote)


def take(execution: Execution, attempt: Attempt, folder: Path) -> None:
    """Let what the command of an attempt saved be the attempt's, whose receipt decides about it."""
    for saved in _noted(folder / FILE):
        row = execution.executor.home.store.read(methodcaller("artifact_by_key", saved.key))
        if row is not None and (not saved.is_new or (row.run_id, row.pending) == (execution.id, execution.hold.epoch)):
            fresh = WorkspaceKeys(artifacts=(row.key,)) if saved.is_new else NOTHING
            keep(execution, attempt, fresh, repr(row.name), refs=(artifacts.ref_of(row),))
            attempt.saved = (*attempt.saved, about(row))
            if saved.operation:
                now = execution.executor.home.clock.now()
                done = Answered(saved.operation, artifacts.OPERATION, saved.print, str(saved.key), now)
                attempt.operations = (*attempt.operations, done)
