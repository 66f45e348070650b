"""How a task stands here and now: its handoff with a verdict, its runs and waits, and what may be done with it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from outlast.errors import Finished, HandoffNotFound, IntegrityBroken, RunNotFound
from outlast.handoffs import anchor as anchors
from outlast.handoffs import recover as recovering
from outlast.handoffs import task_state as task_states
from outlast.handoffs.anchor import believed, evidence_since
from outlast.handoffs.claim import Recovering
from outlast.handoffs.handoff import Recovered, key_of, label_of
from outlast.handoffs.musts import prose_in
from outlast.handoffs.settle import musts_lacking
from outlast.handoffs.task_state import completed, unfinished
from outlast.home.caller import Caller
from outlast.home.home import Home, run_row
from outlast.ledger.verdict import Reason
from outlast.runs.live import Executor
from outlast.runs.look import record_now
from outlast.runs.run import RunRecord
from outlast.runs.waits.interrupt import Interrupt
from outlast.runs.waits.stored import interrupt_of
from outlast.store.contract import Reading
from outlast.tasks import bridge as tasks
from outlast.tasks.bridge import Of, shown_by
from outlast.tasks.task import AllowedAction, Task, TaskContext
from outlast.workspace import checkpoint
from outlast.workspace import record as records

RUNS = 10
HISTORY = 20
CHECKPOINTS = 20
RECORDS = 20
REOPEN = "open it again: open(task, reopen=True) (--reopen)"


def inspect(executor: Executor, of: Of, history: int = HISTORY) -> TaskContext:
    """How a task stands, looked at here and now. Raises TaskNotFound."""
    task = tasks.get(executor.home, of)
    handoff, trouble = _handoff(executor, of)
    return TaskContext(
        task=of.task,
        scope=of.scope,
        state=task.state,
        handoff=handoff,
        runs=tuple(_runs(executor.caller, of)),
        waits=tuple(_waits(executor.home, of)),
        checkpoints=tuple(checkpoint.of_task(executor.home, of.scope, of.task, CHECKPOINTS)),
        history=tuple(tasks.events(executor.home, of, max(task.events - history, 0), history)),
        allowed_actions=_allowed(executor.caller, of, task, handoff, trouble),
        events=task.events,
        session=task.session,
        meta=task.meta,
        actor=task.actor,
        opened_at=task.opened_at,
        updated_at=task.updated_at,
        trouble=trouble,
        records=tuple(records.listed(executor.home, of.scope, records.RecordQuery(task=of.task), RECORDS)),
    )


def _handoff(executor: Executor, of: Of) -> tuple[Recovered | None, str]:
    """What whoever resumes would be given; or why that cannot be read."""
    try:
        how = Recovering(actor=of.actor, include_finished=True, task=True)
        return recovering.recover(executor, of.asked, how), ""
    except (HandoffNotFound, Finished):  # nothing was handed over; or it was completed without
        return None, ""
    except IntegrityBroken as error:
        return None, str(error)


def _runs(caller: Caller, of: Of) -> list[RunRecord]:
    """Unfinished runs first, then the newest others."""

    def look_at(look: Reading) -> dict[str, None]:
        rows = [*look.unfinished_of_task(of.scope, of.task), *look.runs_of_task(of.scope, of.task, RUNS)]
        return dict.fromkeys(row.id for row in rows)

    found = []
    for run_id in caller.home.store.read(look_at):
        with suppress(RunNotFound):  # removed since
            found.append(record_now(caller, run_row(caller.home, run_id)))
    return found


def _waits(home: Home, of: Of) -> list[Interrupt]:
    def look_at(look: Reading) -> list[Interrupt]:
        rows = [wait for run in unfinished(look, of.scope, of.task) for wait in look.waits_of(run.key)]
        return [interrupt_of(row) for row in rows if row.status == "open"]

    return home.store.read(look_at)


# -- what may be done --------------------------------------------------------------------------------


def _allowed(caller: Caller, of: Of, task: Task, handoff: Recovered | None, trouble: str) -> tuple[AllowedAction, ...]:
    if task.state == "completed":
        row = caller.home.store.read(lambda look: look.task_of(of.scope, of.task))
        why = f"{completed(row) if row else 'its handoff was settled as completed'}; {REOPEN}"
        refused = [AllowedAction(name, False, why) for name in ("pause", "resume", "complete", "record_event")]
        return (*refused, AllowedAction("reopen", True))
    return (
        _said("pause", [trouble, _held(of, handoff)]),
        _said("resume", [trouble] if trouble else _against(handoff)),
        _complete(caller, of, handoff, trouble),
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
    return [_words(one) for one in handoff.verdict.unaccepted(handoff.accepted)]


def _words(reason: Reason) -> str:
    if reason.code == "claimed":
        return f"claimed by {reason.found}"
    return f"contested by {reason.code} ({reason.subject}: {reason.found})"


def _complete(caller: Caller, of: Of, handoff: Recovered | None, trouble: str) -> AllowedAction:
    """Whether completing could do, and what it needs: it runs the checks itself."""
    if trouble:
        return AllowedAction("complete", False, trouble)
    read = caller.home.store.read
    found = read(lambda look: _open_handoff(look, of))
    if found is None:
        row = read(lambda look: look.task_of(of.scope, of.task))
        return _said("complete", [*read(lambda look: shown_by(caller, look, of, row))[1]])
    running = read(lambda look: task_states.words_of(caller, look, unfinished(look, of.scope, of.task)))
    root = Path(handoff.root) if handoff and handoff.root else None
    prose = prose_in(found.handoff, found.handoff.binding)
    musts = musts_lacking(caller, found.handoff, root, prose)
    against = [_held(of, handoff), *running, *_unlooked(caller.home, found, root), *musts]
    checks = [f"check {label_of(form)!r} must pass" for form in found.handoff.acceptance_checks]
    return _said("complete", against, "; ".join([*checks, *(f"acknowledge {text!r}" for text in prose)]))


def _open_handoff(look: Reading, of: Of) -> anchors.FoundHandoff | None:
    anchor = look.anchor_of(of.scope, of.anchor)
    revision = look.handoff_at(anchor.key, anchor.revision) if anchor and anchor.status == "open" else None
    return anchors.find(look, anchor, revision) if anchor and revision else None


def _unlooked(home: Home, found: anchors.FoundHandoff, root: Path | None) -> list[str]:
    """Checks that no runner has passed, where they cannot be run."""
    if root is not None:
        return []
    ran = [each for each in believed(home, evidence_since(found)) if each.runner != "self"]
    passed = {each.key for each in ran if each.passed}
    forms = [form for form in found.handoff.acceptance_checks if key_of(form) not in passed]
    return [f"check {label_of(form)!r} was not run by a runner, and the files are not here" for form in forms]
