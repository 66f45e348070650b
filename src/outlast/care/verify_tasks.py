"""Whether tasks are what was stored: the part of `verify` that is about them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from outlast.ledger.journal import Break
from outlast.sessions.session import Proof, broken
from outlast.store.contract import Reading, TaskEventRow, TaskRow
from outlast.store.contract.damaged import damage_of
from outlast.tasks.task import FIRST, STATE_AFTER, event_header, genesis_of_task
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.home.home import Runtime

PAGE = 100


class Checked(NamedTuple):
    """What a look at all tasks found."""

    tasks: int
    breaks: list[Break]


def check_tasks(runtime: Runtime) -> Checked:
    """Walk the events of every task, one task after the other: no read holds the store up for long."""
    breaks, count, after = runtime.store.read(_without_task), 0, 0

    def following(look: Reading) -> list[tuple[int, list[Break]]]:
        return [(task.key, _breaks(look, task)) for task in look.tasks_after(after, 1)]

    while found := runtime.store.read(following):
        ((after, wrong),) = found
        breaks, count = breaks + wrong, count + 1
    return Checked(count, breaks)


def _without_task(look: Reading) -> list[Break]:
    """What is left of tasks whose own rows are gone. No task is ever removed."""
    return [Break(f"events of task number {key}", "the task's row is missing") for key in look.events_without_task()]


def _breaks(look: Reading, task: TaskRow) -> list[Break]:
    name = f"task {task.task}" if task.scope == "default" else f"task {task.task} in scope {task.scope}"
    if why := damage_of(task):
        return [Break(name, why)]
    start = genesis_of_task(task.scope, task.task)
    found = broken(f"event {name}", start, map(_proof, _events(look, task)), task.head, task.hash)
    if found is not None:
        return [found]
    state = _state(look, task)
    return [] if state == task.state else [Break(name, f"its row says {task.state}, its events {state}")]


def _state(look: Reading, task: TaskRow) -> str:
    """The state that follows from the events. An opening that is not the first changes nothing."""
    state: str = FIRST
    for event in _events(look, task):
        if event.kind != "opened":
            state = STATE_AFTER.get(event.kind, state)
    return state


def _events(look: Reading, task: TaskRow) -> Iterator[TaskEventRow]:
    after = 0
    while page := look.task_events_after(task.key, after, PAGE):
        yield from page
        after = page[-1].seq


def _proof(row: TaskEventRow) -> Proof:
    if damage_of(row):
        return Proof(row.seq, b"", row.digest, row.body, row.hash)
    header = event_header(row.seq, row.kind, row.name, row.digest, row.masked, row.actor, row.at)
    return Proof(row.seq, header, row.digest, row.body, row.hash)
