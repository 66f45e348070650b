"""How a task stands here and now: its handoff with a verdict, its runs and waits, and what may be done with it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from outlast.errors import HandoffNotFound, IntegrityBroken, RunNotFound
from outlast.handoffs import anchor as anchors
from outlast.handoffs import recover as recovering
from outlast.handoffs import task_state as task_states
from outlast.handoffs.contract import rule_of
from outlast.handoffs.handoff import key_of
from outlast.handoffs.recover import Recovering
from outlast.handoffs.settle import musts_lacking
from outlast.handoffs.task_state import completed, unfinished
from outlast.handoffs.verdict import label_of
from outlast.ledger.verdict import Reason, unaccepted
from outlast.runs.look import interrupt_of
from outlast.store.contract import Reading
from outlast.tasks import bridge as tasks
from outlast.tasks.bridge import Of
from outlast.tasks.complete import shown_by
from outlast.tasks.task import AllowedAction, Task, TaskContext
from outlast.workspace import checkpoints, records

if TYPE_CHECKING:
    from outlast.handoffs.recovered import Recovered
    from outlast.home.home import Runtime
    from outlast.runs.run import RunRecord
    from outlast.runs.waits.interrupt import Interrupt

RUNS = 10
HISTORY = 20
CHECKPOINTS = 20
RECORDS = 20
REOPEN = "open it again: open(task, reopen=True) (--reopen)"


def inspect(runtime: Runtime, of: Of, history: int = HISTORY) -> TaskContext:
    """How a task stands, looked at here and now. Raises TaskNotFound."""
    task = tasks.get(runtime, of)
    handoff, trouble = _handoff(runtime, of)
    return TaskContext(
        task=of.task,
        scope=of.scope,
        state=task.state,
        handoff=handoff,
        runs=tuple(_runs(runtime, of)),
        waits=tuple(_waits(runtime, of)),
        checkpoints=tuple(checkpoints.of_task(runtime, of.scope, of.task, CHECKPOINTS)),
        history=tuple(tasks.events(runtime, of, max(task.events - history, 0), history)),
        allowed_actions=_allowed(runtime, of, task, handoff, trouble),
        events=task.events,
        session=task.session,
        meta=task.meta,
        actor=task.actor,
        opened_at=task.opened_at,
        updated_at=task.updated_at,
        trouble=trouble,
        records=tuple(records.listed(runtime, of.scope, records.Wanted(task=of.task), RECORDS)),
    )


def _handoff(runtime: Runtime, of: Of) -> tuple[Recovered | None, str]:
    """What whoever resumes would be given; or why that cannot be read."""
    try:
        how = Recovering(actor=of.actor, include_finished=True, task=True)
        return recovering.recover(runtime, of.asked, how), ""
    except HandoffNotFound:
        return None, ""
    except IntegrityBroken as error:
        return None, str(error)


def _runs(runtime: Runtime, of: Of) -> list[RunRecord]:
    """Unfinished runs first, then the newest others."""

    def look_at(look: Reading) -> dict[str, None]:
        rows = [*look.unfinished_of_task(of.scope, of.task), *look.runs_of_task(of.scope, of.task, RUNS)]
        return dict.fromkeys(row.id for row in rows)

    found = []
    for run_id in runtime.store.read(look_at):
        with suppress(RunNotFound):  # removed since
            found.append(runtime.record(runtime.row(run_id)))
    return found


def _waits(runtime: Runtime, of: Of) -> list[Interrupt]:
    def look_at(look: Reading) -> list[Interrupt]:
        rows = [wait for run in unfinished(look, of.scope, of.task) for wait in look.waits_of(run.key)]
        return [interrupt_of(row) for row in rows if row.status == "open"]

    return runtime.store.read(look_at)


# -- what may be done --------------------------------------------------------------------------------


def _allowed(
    runtime: Runtime, of: Of, task: Task, handoff: Recovered | None, trouble: str
) -> tuple[AllowedAction, ...]:
    if task.state == "completed":
        row = runtime.store.read(lambda look: look.task_of(of.scope, of.task))
        why = f"{completed(row) if row else 'its handoff was settled as completed'}; {REOPEN}"
        refused = [AllowedAction(name, False, why) for name in ("pause", "resume", "complete", "record_event")]
        return (*refused, AllowedAction("reopen", True))
    return (
        _said("pause", [trouble, _held(of, handoff)]),
        _said("resume", [trouble] if trouble else _against(handoff)),
        _complete(runtime, of, handoff, trouble),
        AllowedAction("record_event", True),
        AllowedAction("reopen", False, f"it is {task.state}; only a completed task is opened again"),
    )


def _said(name: str, against: list[str], needs: str = "") -> AllowedAction:
    why = "; ".join(each for each in against if each)
    return AllowedAction(name, not why, why or needs)


def _held(of: Of, handoff: Recovered | None) -> str:
    """Who else works on it, in words. A run that is executed keeps nobody from pausing the task."""
    if handoff is None or handoff.standing == "finished":
        return ""
    executed = handoff.run is not None and handoff.run.status == "running"
    held = [one for one in handoff.verdict.contesting if one.code == "claimed"]
    held = [one for one in held if one.subject == of.anchor or not executed]
    return f"claimed by {held[0].found}" if held else ""


def _against(handoff: Recovered | None) -> list[str]:
    """What keeps it from being resumed."""
    if handoff is None:
        return [tasks.NOTHING]
    if handoff.standing == "finished":
        return ["its handoff was settled as completed, and nothing was handed over since"]
    return [_words(one) for one in unaccepted(handoff.verdict, handoff.accepted)]


def _words(reason: Reason) -> str:
    if reason.code == "claimed":
        return f"claimed by {reason.found}"
    return f"contested by {reason.code} ({reason.subject}: {reason.found})"


def _complete(runtime: Runtime, of: Of, handoff: Recovered | None, trouble: str) -> AllowedAction:
    """Whether completing could do, and what it needs: it runs the checks itself."""
    if trouble:
        return AllowedAction("complete", False, trouble)
    found = runtime.store.read(lambda look: _open_handoff(look, of))
    if found is None:
        row = runtime.store.read(lambda look: look.task_of(of.scope, of.task))
        return _said("complete", [*runtime.store.read(lambda look: shown_by(runtime, look, of, row))[1]])
    running = runtime.store.read(lambda look: task_states.words_of(runtime, look, unfinished(look, of.scope, of.task)))
    root = Path(handoff.root) if handoff and handoff.root else None
    prose = [label_of(form) for _, form in found.handoff.musts if rule_of(form) is None]
    musts = musts_lacking(runtime, found.handoff, root, prose)
    against = [_held(of, handoff), *running, *_unlooked(found, root), *musts]
    checks = [f"check {label_of(form)!r} must pass" for form in found.handoff.acceptance_checks]
    return _said("complete", against, "; ".join([*checks, *(f"acknowledge {text!r}" for text in prose)]))


def _open_handoff(look: Reading, of: Of) -> anchors.Found | None:
    anchor = look.anchor_of(of.scope, of.anchor)
    revision = look.handoff_at(anchor.key, anchor.revision) if anchor and anchor.status == "open" else None
    return anchors.find(look, anchor, revision) if anchor and revision else None


def _unlooked(found: anchors.Found, root: Path | None) -> list[str]:
    """Checks that no runner has passed, where they cannot be run."""
    if root is not None:
        return []
    passed = {each.key for each in anchors.evidence_since(found) if each.runner == "runner" and each.passed}
    forms = [form for form in found.handoff.acceptance_checks if key_of(form) not in passed]
    return [f"check {label_of(form)!r} was not run by a runner, and the files are not here" for form in forms]
