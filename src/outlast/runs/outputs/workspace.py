"""What a run says in the workspace: its records, links and checkpoints, once, however often its body is replayed.

In a step others see it with the step's receipt, or never. What a run saves as content, and how all of it belongs to the
run, is `saves.py`; what each noun is and how it is added is workspace/.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from outlast.errors import Refused
from outlast.home import caller as operations
from outlast.home.caller import Repeatable
from outlast.home.home import Home, run_row
from outlast.runs.outputs.saves import keep, kept_by, refuse_over, remember, source_in, told, write_in_step
from outlast.runs.plan import state_of
from outlast.store.contract import Reading, Writing
from outlast.store.contract.workspace import NOTHING, CheckpointRow, RecordRow, WorkspaceKeys
from outlast.values.codec import encode
from outlast.workspace import checkpoint as checkpoints
from outlast.workspace import link as links
from outlast.workspace import record as records
from outlast.workspace import refs
from outlast.workspace.checkpoint import Checkpoint, CheckpointDraft, TaskPlace
from outlast.workspace.link import AddedLink, Link, LinkDraft, LinkFields
from outlast.workspace.recall import search
from outlast.workspace.record import Record, RecordDraft, RecordFields

if TYPE_CHECKING:
    from outlast.runs.attempt import Attempt, Frame
    from outlast.runs.execution import Execution

RECORD, LINK, CHECKPOINT = "run.workspace.record", "run.workspace.link", "run.checkpoint"


# -- records -----------------------------------------------------------------------------------------


def record_from_run(execution: Execution, frame: Frame, said: RecordFields) -> Record:
    """The record that this call made. On replay it is the first one; in a step others see it with the receipt."""
    home = execution.executor.home
    run = run_row(home, execution.id)
    said = said._replace(task=run.task if said.task is None else said.task)
    given = records.draft(home, run.scope, said, run.actor)
    if frame.attempt is not None:
        return _record_in_step(execution, frame.attempt, given)
    call, answer = told(execution, frame, RECORD, f"{given.kind} {given.text}")
    if answer is not None:
        return records.get(home, answer)
    given = given._replace(source=replace(given.source, run_id=run.id))
    home.store.read(lambda look: refs.all_whole(look, given.refs, given.scope))  # refused to the flow, not the run

    def work(tx: Writing) -> tuple[RecordRow, str]:
        row = records.add(home, tx, given)
        return row, row.id

    made = remember(execution, call, work)
    search.keep_up(home, given.scope)
    return records.record_of(made)


def _record_in_step(execution: Execution, attempt: Attempt, given: RecordDraft) -> Record:
    what = f"a record: {refs.line(given.text)}"
    refuse_over(attempt, what)
    given = given._replace(source=source_in(execution, attempt, given.source))

    def work(tx: Writing) -> RecordRow:
        return records.add(execution.executor.home, tx, given, execution.hold.epoch, kept_by(attempt))

    row = write_in_step(execution, work)
    keep(execution, attempt, WorkspaceKeys(records=(row.key,)), what)
    home = execution.executor.home
    search.keep_up(home, given.scope)  # with what the steps before recorded: of this one nobody sees it yet
    return records.record_of(row)


# -- links -------------------------------------------------------------------------------------------


def link_from_run(execution: Execution, frame: Frame, said: LinkFields) -> Link:
    """The link that this call made. On replay it is the first one; in a step others see it with the receipt."""
    home, attempt = execution.executor.home, frame.attempt
    run = run_row(home, execution.id)
    given = links.draft(home, run.scope, said, run.actor)
    kept = kept_by(attempt)
    if attempt is not None:
        refuse_over(attempt, "a link")
        return _link_in_step(execution, attempt, home.store.read(lambda look: links.whole(look, given, kept)))
    call, answer = told(execution, frame, LINK, f"{given.source} {given.relation} {given.target}")
    if answer is not None:
        return links.get(home, answer)
    whole = home.store.read(lambda look: links.whole(look, given))
    whole = whole._replace(by=replace(whole.by, run_id=execution.id))

    def work(tx: Writing) -> tuple[AddedLink, str]:
        added = links.add(home, tx, whole)
        return added, added.row.id

    added = remember(execution, call, work)
    return links.link_of(added.row, replayed=not added.is_new)


def _link_in_step(execution: Execution, attempt: Attempt, given: LinkDraft) -> Link:
    given = given._replace(by=source_in(execution, attempt, given.by))

    def work(tx: Writing) -> AddedLink:
        return links.add(execution.executor.home, tx, given, execution.hold.epoch, kept_by(attempt))

    added = write_in_step(execution, work)
    keep(execution, attempt, WorkspaceKeys(links=(added.row.key,)) if added.is_new else NOTHING, "a link")
    return links.link_of(added.row, replayed=not added.is_new)


# -- checkpoints -------------------------------------------------------------------------------------


def pin(home: Home, given: CheckpointDraft, operation_id: str | None) -> Checkpoint:
    """Pin a boundary from outside: where the task's newest run stands now, if it has one."""
    checkpoints.refuse_secrets(home, given)
    operation = Repeatable(operation_id, "checkpoint", list(given))
    whole, place = home.store.read(lambda look: (checkpoints.whole(look, given), _place_of_task(look, given)))

    def work(tx: Writing) -> tuple[CheckpointRow | str, str]:
        row = checkpoints.add(home, tx, whole, place)
        return row, row.id

    done = operations.once(home, operation, work, lambda answer: answer)
    search.keep_up(home, given.scope)
    if isinstance(done, CheckpointRow):
        return checkpoints.checkpoint_of(done)
    return checkpoints.get(home, done, replayed=True)


def _place_of_task(look: Reading, given: CheckpointDraft) -> TaskPlace:
    run = next(iter(look.runs_of_task(given.scope, given.task, 1)), None)
    if run is None:
        return TaskPlace()
    rows = look.journal_of(run.key)
    return TaskPlace(run.id, encode(state_of(rows)).decode(), run.phase, rows[-1].seq if rows else 0)


def pin_from_run(execution: Execution, frame: Frame, name: str, summary: Any, refs: Any) -> Checkpoint:
    """Pin the boundary at which a body is. On replay it is the one that was pinned first."""
    if frame.attempt is not None:
        raise Refused(detail="a checkpoint is pinned by the flow's body, not by a step; pin it after the step")
    home = execution.executor.home
    run = run_row(home, execution.id)
    given = checkpoints.draft(run.scope, run.task, name, summary, refs, run.actor)
    call, answer = told(execution, frame, CHECKPOINT, given.name)
    if answer is not None:
        return checkpoints.get(home, answer["id"])
    checkpoints.refuse_secrets(home, given)
    given = home.store.read(lambda look: checkpoints.whole(look, given))
    state = encode(dict(execution.state)).decode()

    def work(tx: Writing) -> tuple[CheckpointRow, dict[str, Any]]:
        position = execution.hold.head + 1  # of the entry that remembers it
        row = checkpoints.add(home, tx, given, TaskPlace(run.id, state, execution.phase, position))
        return row, {"id": row.id, "name": row.name, "summary": row.summary, "refs": list(given.refs)}

    return checkpoints.checkpoint_of(remember(execution, call, work))
