"""The host bridge: open a task, pause, resume and complete it, record what happens.

It is the handoff machinery under `task:<task>`: pausing stores, resuming claims and recovers, completing settles. The
task's state moves in the same transaction (`handoffs/task_state.py`). Without a handoff a run that succeeded must show
that a task is completed, or a reason count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from outlast.clock import moment
from outlast.errors import (
    ClaimLost,
    Finished,
    HandoffInvalid,
    HandoffNotFound,
    Invalid,
    NotSettled,
    RunNotFound,
    TaskExists,
    TaskNotFound,
    TaskRefused,
    ValueRefused,
)
from outlast.handoffs import recover as recovering
from outlast.handoffs import settle as settling
from outlast.handoffs import store as storing
from outlast.handoffs import task_state as task_states
from outlast.handoffs.claim import Recovering
from outlast.handoffs.find import HandoffQuery
from outlast.handoffs.handoff import TaskRun, anchor_of
from outlast.handoffs.settle import Settling
from outlast.handoffs.store import Storing
from outlast.handoffs.task_state import FIRST, State, TaskEntry, command_of, refuse_completed, unfinished
from outlast.handoffs.task_state import of_scope as runs_of_tasks
from outlast.home import caller as operations
from outlast.home.caller import Caller, DoneBefore, Repeatable, check_id
from outlast.home.claimer import named
from outlast.home.home import Home
from outlast.runs import decisions
from outlast.runs.live import Executor
from outlast.runs.look import record_now
from outlast.runs.run import RunRecord
from outlast.secrets import find as secrets
from outlast.store.contract import Reading, RunRow, TaskEventRow, TaskRow, Writing
from outlast.tasks.task import Task, TaskCompleted, TaskEvent, TaskPaused, TaskResumed
from outlast.values.codec import decode, encode, pack_json, value_of

BODY_BYTES = 1 << 16
STORING = ("strict", "baseline", "redact", "bind", "expected_revision")
OURS = ("anchor", "tenant_id", "scope", "actor", "claim_id")
NOTHING = "nothing was handed over, and no run of it was stopped"


class Of(Struct, frozen=True):
    """Which task is meant, who acts, where its files are, and the claim that is shown."""

    scope: str
    task: str
    actor: str
    repo_root: str | None = None
    claim_id: str | None = None

    @property
    def anchor(self) -> str:
        return anchor_of(self.task)

    @property
    def asked(self) -> HandoffQuery:
        return HandoffQuery(self.scope, self.anchor, repo_root=self.repo_root)


# -- opening and looking -----------------------------------------------------------------------------


def open_(home: Home, of: Of, *, session: str, meta: str | None, reopen: bool, operation_id: str | None) -> Task:
    """The task, opened if it was not; a completed one is opened again only if that is said. Raises TaskExists."""
    check_id(operation_id)
    operation = Repeatable(operation_id, "task_open", [of.scope, of.task, of.actor, session, meta, reopen])

    def work(tx: Writing) -> tuple[TaskRow, str]:
        at, row = home.clock.now(), tx.task_of(of.scope, of.task)
        said = {"session": session} if session else {}
        if row is None:
            entry = TaskEntry("opened", of.actor, said)
            return task_states.made(tx, of.scope, of.task, entry, at, session, meta or "{}"), ""
        if meta is not None and decode(meta) != decode(row.meta):
            raise TaskExists(of.task, row.meta)
        again = reopen and row.state == "completed"
        if again or (session and session != row.session):
            entry = TaskEntry("reopened" if again else "opened", of.actor, said)
            row = task_states.write(tx, row, entry, at, session or row.session)
        return row, ""

    done = operations.once(home, operation, work, DoneBefore)
    return _task(done) if isinstance(done, TaskRow) else replace(get(home, of), replayed=True)


def get(home: Home, of: Of) -> Task:
    """How a task stands. One that nobody opened is active while it has runs or a handoff. Raises TaskNotFound."""
    return home.store.read(lambda look: _known(look, of))


def _known(look: Reading, of: Of) -> Task:
    row = look.task_of(of.scope, of.task)
    if row is not None:
        return _task(row)
    anchor = look.anchor_of(of.scope, of.anchor)
    if anchor is None and not look.runs_of_task(of.scope, of.task, 1):
        raise TaskNotFound(of.task, of.scope)
    state: State = "completed" if anchor is not None and anchor.status == "finished" else "active"
    return Task(of.task, of.scope, state, "", {}, "", None, None)


def listed(executor: Executor, scope: str, state: str | None, limit: int, before: str | None = None) -> list[Task]:
    """Tasks that nobody opened and whose run is unfinished, then those that somebody opened; after the one `before`.

    Those come first whose run began last, or that something happened to last.
    """

    def look_at(look: Reading) -> tuple[list[RunRow], list[TaskRow]]:
        runs = runs_of_tasks(look, scope)
        place = look.task_of(scope, before) if before is not None else None
        unopened = [row for row in runs if state in (None, FIRST) and look.task_of(scope, row.task) is None]
        if before is not None and place is None:
            last = next((row.key for row in look.runs_of_task(scope, before, 1)), None)
            if last is None:
                raise TaskNotFound(before, scope)
            unopened = [row for row in unopened if row.key < last]
        elif before is not None:
            unopened = []
        left = limit - len(unopened[:limit])
        opened = look.newest_tasks(scope, state, left, place) if left > 0 else []
        return [*unopened[:limit], *(row for row in runs if row.task in {each.task for each in opened})], opened

    rows, opened = executor.home.store.read(look_at)
    runs = {row.task: _run(executor, row) for row in rows}
    known = {row.task for row in opened}
    unopened = [_unopened(row, runs[row.task]) for row in rows if row.task not in known]
    return [*unopened, *(replace(_task(row), run=runs.get(row.task)) for row in opened)]


def _run(executor: Executor, row: RunRow) -> TaskRun:
    status = record_now(executor.caller, row).status
    return TaskRun(row.id, row.flow, status, command_of(executor, row, status))


def _unopened(row: RunRow, run: TaskRun) -> Task:
    return Task(row.task, row.scope, FIRST, "", {}, row.actor, None, moment(row.updated_at), run=run)


def events(home: Home, of: Of, after: int, limit: int) -> list[TaskEvent]:
    """What happened to a task, in order, from the event after `after` on. Raises TaskNotFound."""

    def look_at(look: Reading) -> list[TaskEventRow]:
        row = look.task_of(of.scope, of.task)
        if row is None:
            _known(look, of)
            return []
        return look.task_events_after(row.key, after, limit)

    return [value_of(TaskEvent, row, task=of.task) for row in home.store.read(look_at)]


# -- pausing and resuming ----------------------------------------------------------------------------


def pause(
    executor: Executor, of: Of, given: Mapping[str, Any], *, stop_run: bool, operation_id: str | None
) -> TaskPaused:
    """Store what whoever resumes the task needs, and give the claim back: one transaction.

    Raises TaskRefused, HandoffClaimed, ClaimLost, and what storing raises.
    """
    for name in OURS:
        if name in given:
            why = "a task is paused under its own name, by who opened it"
            raise HandoffInvalid(name, why, "leave it out, or say it when the task is opened")
    fields = {"anchor": of.anchor, "repo_root": of.repo_root, **given}
    options = {name: fields.pop(name) for name in STORING if name in fields}
    how = Storing(
        scope=of.scope, actor=of.actor, claim_id=of.claim_id, operation_id=operation_id, pause=True, **options
    )
    if operation_id is None:
        executor.home.store.read(lambda look: refuse_completed(look.task_of(of.scope, of.task), "pause"))
    handoff = storing.store(executor, fields, how)
    running = [record for record in unfinished_runs(executor.caller, of) if record.status == "running"]
    stopping = [record.id for record in running if stop_run and _asked_to_stop(executor.caller, record, operation_id)]
    return TaskPaused(of.task, handoff, tuple(stopping), _notes(running, stopping))


def unfinished_runs(caller: Caller, of: Of) -> list[RunRecord]:
    """The runs of a task that could go on here, as they stand now."""
    found = []
    for row in caller.home.store.read(lambda look: unfinished(look, of.scope, of.task)):
        with suppress(RunNotFound):  # removed since
            found.append(record_now(caller, row))
    return found


def _asked_to_stop(caller: Caller, run: RunRecord, operation_id: str | None) -> bool:
    try:
        decisions.pause(caller, run.id, f"{operation_id}:stop:{run.id}" if operation_id is not None else None)
    except (Invalid, RunNotFound):  # it has stopped by itself
        return False
    return True


def _notes(running: Sequence[RunRecord], stopping: Sequence[str]) -> tuple[str, ...]:
    stop = "stop it: stop_run=True (--stop-run), or `outlast pause {}`"
    return tuple(
        f"run {run.id} was asked to stop at its next step"
        if run.id in stopping
        else f"run {run.id} is still running ({run.holder}) and goes on; {stop.format(run.id)}"
        for run in running
    )


def resume(
    executor: Executor,
    of: Of,
    *,
    run_checks: bool,
    agree: str | None,
    accept: tuple[str, ...],
    why: str,
    take: bool,
    operation_id: str | None,
) -> TaskResumed:
    """Claim the task, and give what was handed over with its verdict. One of many gets it.

    Raises TaskRefused, HandoffClaimed (it says who holds it), HandoffContested, ClaimLost, HandoffInvalid,
    ForeignCommands.
    """
    how = Recovering(
        actor=of.actor,
        run_checks=run_checks,
        agree=agree,
        claim=True,
        take=take,
        accept=accept,
        why=why,
        operation_id=operation_id,
        task=True,
    )
    if operation_id is None:
        executor.home.store.read(lambda look: refuse_completed(look.task_of(of.scope, of.task), "resume"))
    try:
        got = recovering.recover(executor, of.asked, how)
    except (HandoffNotFound, Finished) as error:
        why = NOTHING if isinstance(error, HandoffNotFound) else f"{error.detail}, and nothing was handed over since"
        raise TaskRefused(of.task, "resume", why, "go on with it; pause_task(…) hands it over") from error
    if got.claim is None:
        raise recovering.refusal(got, how)
    return TaskResumed(of.task, got, got.claim, got.run.command if got.run else "")


def claims_run(home: Home, of: Of) -> bool:
    """Whether the claim that is shown holds a run of the task rather than its handoff."""
    runs = home.store.read(lambda look: [look.lease_of(row.id) for row in unfinished(look, of.scope, of.task)])
    return of.claim_id in [run.holder for run in runs if run]


# -- recording ---------------------------------------------------------------------------------------


def record(home: Home, of: Of, name: str, body: Any, operation_id: str | None) -> TaskEvent:
    """Append an event to a task, durable and in order. Secrets in it are masked, and counted. Raises TaskRefused."""
    raw = pack_json(body, "body")
    if len(raw) > BODY_BYTES:
        why = f"it is {len(raw):,} bytes of JSON; the limit is {BODY_BYTES:,}"
        raise ValueRefused("body", why, "keep it in a file, and a reference to it here")
    check_id(operation_id)
    operation = Repeatable(operation_id, "task_event", [of.scope, of.task, of.actor, name, body])
    kept, masked = secrets.counted(decode(raw), home.secrets.rules)
    entry = TaskEntry("event", of.actor, kept, name, masked)

    def work(tx: Writing) -> tuple[int | DoneBefore, str]:
        at, row = home.clock.now(), tx.task_of(of.scope, of.task)
        refuse_completed(row, "record an event of")
        row = row or task_states.made(tx, of.scope, of.task, TaskEntry("opened", of.actor, {}), at)
        row = task_states.write(tx, row, entry, at)
        return row.head, str(row.head)

    done = operations.once(home, operation, work, DoneBefore)
    seq = int(done.answer) if isinstance(done, DoneBefore) else done
    (event,) = events(home, of, seq - 1, 1)
    return replace(event, replayed=isinstance(done, DoneBefore))


# -- rows as values ----------------------------------------------------------------------------------


def _task(row: TaskRow) -> Task:
    return value_of(Task, row, events=row.head)


# -- completing --------------------------------------------------------------------------------------


RECENT_RUNS = 50


class _Stored(Exception):
    """A handoff was stored meanwhile: the task is completed by settling that."""


def complete(executor: Executor, of: Of, how: Settling) -> TaskCompleted:
    """Settle the task's handoff as completed; without one, a run that succeeded must show it, or a reason count.

    Raises NotSettled, TaskRefused, HandoffClaimed, ClaimLost, HandoffInvalid.
    """
    settling.check(executor.home, how)
    operation = Repeatable(how.operation_id, "task_complete", [of.scope, of.task, *_said(how)])
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


def _settles(home: Home, of: Of, operation: Repeatable) -> bool:
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


def _complete_alone(caller: Caller, of: Of, how: Settling, operation: Repeatable) -> TaskCompleted:
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
        told = {name: said for name, said in facts.items() if said}
        task_states.write(tx, row, TaskEntry("completed", of.actor, told), at)
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
