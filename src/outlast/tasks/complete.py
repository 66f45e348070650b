"""Completing a task: its handoff is settled; without one, a run that succeeded must show it, or a reason count."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from outlast.clock import moment
from outlast.errors import ClaimLost, HandoffInvalid, NotSettled
from outlast.handoffs import settle as settling
from outlast.handoffs import task_state as task_states
from outlast.handoffs.settle import Settling
from outlast.handoffs.task_state import TaskEntry, refuse_completed, unfinished
from outlast.home import once as operations
from outlast.home.claimer import named
from outlast.home.once import Operation
from outlast.store.contract import Reading, TaskRow, Writing
from outlast.tasks.bridge import Of, unfinished_runs
from outlast.tasks.task import TaskCompleted
from outlast.values.codec import decode, encode, pack_json

if TYPE_CHECKING:
    from outlast.home.caller import Caller
    from outlast.home.home import Home
    from outlast.runs.live import Executor

RECENT_RUNS = 50


class _Stored(Exception):
    """A handoff was stored meanwhile: the task is completed by settling that."""


def complete(executor: Executor, of: Of, how: Settling) -> TaskCompleted:
    """Settle the task's handoff as completed; without one, a run that succeeded must show it, or a reason count.

    Raises NotSettled, TaskRefused, HandoffClaimed, ClaimLost, HandoffInvalid.
    """
    settling.check(executor.home, how)
    operation = Operation(how.operation_id, "task_complete", [of.scope, of.task, *_said(how)])
    while True:
        if not _settles(executor.home, of, operation):
            with suppress(_Stored):
                return _complete_alone(executor.caller, of, how, operation)
            continue
        if how.operation_id is None:
            executor.home.store.read(lambda look: refuse_completed(look.task_of(of.scope, of.task), "complete"))
        done = settling.settle(executor, of.asked, how)
        notes = _left_running(executor.caller, of)
        return TaskCompleted(of.task, done.by, done.at, done, "", done.override, notes, done.replayed)


def _settles(home: Home, of: Of, operation: Operation) -> bool:
    """Whether there is a handoff to settle; or was, for a write that is repeated."""

    def look_at(look: Reading) -> bool:
        before = look.operation(operation.id) if operation.id is not None else None
        if before is not None:
            return before[0] != operation.kind
        return _is_open(look, of)

    return home.store.read(look_at)


def _is_open(look: Reading, of: Of) -> bool:
    anchor = look.anchor_of(of.scope, of.anchor)
    return anchor is not None and anchor.status == "open"


def _said(how: Settling) -> list[Any]:
    said = [list(how.evidence), list(how.acknowledged), list(how.missing), how.override, how.note, how.run_checks]
    return [how.actor, *said]


def _complete_alone(caller: Caller, of: Of, how: Settling, operation: Operation) -> TaskCompleted:
    """Complete a task that nothing was handed over for."""
    body = {name: said for name, said in zip(_WORDS, _said(how)[1:], strict=False) if said}
    pack_json(body, "complete_task")
    disproved = _disproved(how)

    def work(tx: Writing) -> tuple[TaskCompleted, str]:
        if _is_open(tx, of):
            raise _Stored
        row, at = tx.task_of(of.scope, of.task), caller.home.clock.now()
        refuse_completed(row, "complete")
        if of.claim_id is not None:
            raise ClaimLost(named(of.claim_id), of.anchor, "nobody holds a claim on it now")
        shown, against = shown_by(caller, tx, of, row)
        lacking = (*disproved, *against)
        if lacking and not how.override.strip():
            raise NotSettled(of.anchor, "; ".join(lacking))
        row = row or task_states.made(tx, of.scope, of.task, TaskEntry("opened", of.actor, {}), at)
        override = how.override if lacking else ""
        task_states.give_back_runs(caller, tx, of.scope, of.task)
        facts = body | {"shown_by": shown, "override": override, "lacking": list(lacking)}
        task_states.write(
            tx, row, TaskEntry("completed", of.actor, {name: said for name, said in facts.items() if said}), at
        )
        done = TaskCompleted(of.task, of.actor, moment(at), None, shown, override)
        return done, encode([of.task, of.actor, at, shown, override]).decode()

    done = operations.once(caller.home, operation, work, _completed_again)
    return replace(done, notes=_left_running(caller, of))


_WORDS = ("evidence", "acknowledged", "missing", "override", "note")


def _disproved(how: Settling) -> list[str]:
    """What somebody says does not work. Raises HandoffInvalid for what is no report."""
    for number, each in enumerate(how.evidence):
        if not isinstance(each, Mapping) or not isinstance(each.get("passed"), bool):
            form = '{"check": "make test", "passed": true}'
            raise HandoffInvalid(f"evidence[{number}]", "it does not say whether a check passed", f"give {form}")
    return [f"check {each.get('check')!r} failed, says {how.actor}" for each in how.evidence if not each["passed"]]


def _completed_again(answer: str) -> TaskCompleted:
    task, by, at, shown, override = decode(answer)
    return TaskCompleted(task, by, moment(at), None, shown, override, replayed=True)


def shown_by(caller: Caller, look: Reading, of: Of, row: TaskRow | None) -> tuple[str, tuple[str, ...]]:
    """The run that shows that a task without a handoff is done, and what speaks against it."""
    since = row.opened_at if row else 0
    runs = look.runs_of_task(of.scope, of.task, RECENT_RUNS)
    done = [run.id for run in runs if run.status == "succeeded" and not run.seal and run.updated_at >= since]
    against = task_states.words_of(caller, look, unfinished(look, of.scope, of.task))
    if not done and not against:
        against = ("nothing shows it: no handoff with checks is open, and no run of it succeeded since it was opened",)
    return (done[0] if done else ""), against


def _left_running(caller: Caller, of: Of) -> tuple[str, ...]:
    runs = unfinished_runs(caller, of)
    return tuple(f"run {run.id} is left {run.status}; give it up: `outlast abort {run.id} --why WHY`" for run in runs)
