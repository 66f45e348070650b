"""Looking at tasks: how one stands and what may be done with it, and the list."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli.completion import task_argument
from outlast.doors.cli.door import Door, command
from outlast.doors.cli.handoff.recover import claim_id_option, repo_option
from outlast.doors.cli.render import STYLES, ago, as_json, at, brief, emit_exactly, facts, say, table

if TYPE_CHECKING:
    from outlast.tasks.task import Task, TaskContext, TaskEvent

STATES = ("active", "paused", "resumed", "completed")


@command("inspect")
@task_argument()
@repo_option
@claim_id_option
@click.option("--history", metavar="N", default=20, show_default=True, type=click.IntRange(0), help="How many events.")
def inspect(door: Door, task_id: str, repo_root: str | None, claim_id: str | None, history: int) -> int:
    """How a task stands here and now: its handoff with a verdict, its runs, waits and events, and what may be done.

    Nothing is opened or claimed by looking.
    """
    root = os.path.abspath(repo_root) if repo_root else None
    with door.open() as outlast:
        session = outlast.tasks.session(task_id, repo_root=root, claim_id=claim_id)
        found = session.inspect_task_context(history=history)
    if door.json:
        from outlast.python.shown import context_json

        emit_exactly(context_json(found))
    else:
        _say_context(door, found)
    return 0


def _say_context(door: Door, found: TaskContext) -> None:
    facts(
        [
            ("task", found.task),
            ("scope", found.scope if found.scope != "default" else ""),
            ("state", found.state),
            ("opened", at(found.opened_at) if found.opened_at else "never; it only has runs or a handoff"),
            ("moved by", found.actor),
            ("session", found.session),
            ("meta", as_json(found.meta) if found.meta else ""),
        ]
    )
    _say_handoff(door, found)
    for run in found.runs:
        say(f"run {run.id}: {run.status}, {run.flow}, {ago(run.updated_at)}", STYLES.get(run.status, ""))
    for wait in found.waits:
        say(f"waits: {wait.says} (run {wait.run_id}); outlast answer {wait.id} JSON")
    say("what may be done:")
    rows = [(each.name, "yes" if each.allowed else "no", each.why) for each in found.allowed_actions]
    table(("ACTION", "ALLOWED", "WHY NOT, OR WHAT IT NEEDS"), rows)
    if found.history:
        table(("SEQ", "WHEN", "EVENT", "BY", "WHAT"), [_event_row(event) for event in found.history])
    if len(found.history) < found.events:
        say(f"[{len(found.history)} of {found.events} events shown; --history N shows more]")


def _say_handoff(door: Door, found: TaskContext) -> None:
    from outlast.handoffs.reading import headline

    if found.trouble:
        say(f"handoff: {found.trouble}", "red")
    elif found.handoff is None:
        say("handoff: none")
    else:
        say(f"handoff: {headline(found.handoff)}", STYLES.get(str(found.handoff.verdict), ""))
        say(f"  all of it: {door.command('handoff', 'recover', found.handoff.anchor, '--include-finished')}")


def _event_row(event: TaskEvent) -> tuple[object, ...]:
    body = as_json(event.body) if event.body not in (None, {}) else ""
    masked = f" ({event.masked} masked)" if event.masked else ""
    return event.seq, at(event.at), event.name or event.kind, event.actor, brief(body, 80) + masked


@command("list")
@click.option("--state", type=click.Choice(STATES), help="Only those in this state.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 10_000), help="How many at most.")
def list_(door: Door, state: Any, limit: int) -> int:
    """List the tasks that were opened, those that something happened to last first."""
    from outlast.values.codec import jsonable

    with door.open() as outlast:
        found = outlast.tasks.list(state, limit=limit)
    if door.json:
        emit_exactly({"tasks": jsonable(found)})
    elif found:
        table(("TASK", "STATE", "EVENTS", "BY", "AGE"), [_row(one) for one in found])
    else:
        say("no such tasks; open one: outlast task open TASK")
    return 0


def _row(one: Task) -> tuple[object, ...]:
    return brief(one.task, 60), one.state, one.events, one.actor, ago(one.updated_at) if one.updated_at else ""
