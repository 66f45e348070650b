"""What a run saves: content, with the row that gives it a ref. How it belongs to the run is saves.py.

In a step the content is kept and its number taken at once, however long the step goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from outlast.errors import IntegrityBroken, Unavailable
from outlast.ledger.journal import Row, decode_header, decode_payload
from outlast.runs.saves import keep, kept_by, refuse_over, remember, source_in, told, write_in_step
from outlast.store.contract import RunRow, Writing
from outlast.store.contract.artifacts import ArtifactRow
from outlast.store.contract.records import Kept
from outlast.workspace import artifacts
from outlast.workspace.artifact import PREFIX, Artifact
from outlast.workspace.artifacts import Added, Draft
from outlast.workspace.content import Given

if TYPE_CHECKING:
    from outlast.runs.attempt import Attempt
    from outlast.runs.context import Frame
    from outlast.runs.execution import Execution
    from outlast.store.blobs.intake import Taken

SAVE = "run.workspace.save"


def save_from_run(execution: Execution, frame: Frame, given: Callable[[RunRow], Draft], content: Given) -> Artifact:
    """The artifact that this call saved. On replay its content is not even looked at."""
    runtime = execution.runtime
    run = runtime.row(execution.id)
    draft = given(run)
    if frame.attempt is not None:
        return _save_in_step(execution, frame.attempt, draft, content)
    call, answer = told(execution, frame, SAVE, draft.name)
    if answer is not None:
        return _first_answer(execution, run.scope, answer)
    draft = draft._replace(source=replace(draft.source, run_id=run.id))
    taken = _staged(execution, draft, content)

    def work(tx: Writing) -> tuple[Added, dict[str, Any]]:
        added = artifacts.add(runtime, tx, draft, taken)
        return added, about(added.row)

    added = remember(execution, call, work)
    return artifacts.artifact_of(runtime, added.row, replayed=not added.is_new)


def about(row: ArtifactRow) -> dict[str, Any]:
    """What the journal says of an artifact that was saved."""
    told = {"name": row.name, "summary": row.summary, "digest": row.digest}
    return {"ref": artifacts.ref_of(row), **told, "media_type": row.media_type, "size": row.size}


def _first_answer(execution: Execution, scope: str, answer: dict[str, Any]) -> Artifact:
    """What a save gave the first time. Another content under its ref was saved by somebody else, in another home."""
    ref, digest = answer["ref"], answer["digest"]
    found = artifacts.get(execution.runtime, scope, ref)
    if found.digest != digest:
        why = "this home has other content under that ref; what the run saved did not travel with it"
        raise IntegrityBroken(f"{ref} of run {execution.id}", why)
    return found


def refs_saved(rows: Iterable[Row]) -> list[str]:
    """The refs of all that a run saved, by its journal: also of versions that were there already."""
    found: list[str] = []
    for row in rows:
        if row.payload is None or (b'"artifacts"' not in row.payload and b'"artifact:' not in row.payload):
            continue
        payload = decode_payload(row.payload)
        found += [ref for ref in payload.artifacts if ref.startswith(PREFIX)]  # a flow file's step may name files
        if decode_header(row.header).name == SAVE and payload.facts:
            found.append(payload.facts["ref"])
    return list(dict.fromkeys(found))


def _staged(execution: Execution, draft: Draft, content: Given) -> Taken:
    """Content that cannot be kept because the disk fails ends the run here; it is not the flow that failed."""
    try:
        return artifacts.stage(execution.runtime, draft, content)
    except Unavailable as error:
        execution.pen.sever(error)


def _save_in_step(execution: Execution, attempt: Attempt, draft: Draft, content: Given) -> Artifact:
    runtime, what = execution.runtime, repr(draft.name)
    refuse_over(attempt, what)
    draft = draft._replace(source=source_in(execution, attempt, draft.source))
    taken = _staged(execution, draft, content)

    def work(tx: Writing) -> Added:
        return artifacts.add(runtime, tx, draft, taken, execution.hold.epoch, own=kept_by(attempt).artifacts)

    added = write_in_step(execution, work)
    fresh = Kept(artifacts=(added.row.key,)) if added.is_new else Kept()
    keep(execution, attempt, fresh, what, refs=(artifacts.ref_of(added.row),))
    attempt.saved = (*attempt.saved, about(added.row))
    return artifacts.artifact_of(runtime, added.row, replayed=not added.is_new)
