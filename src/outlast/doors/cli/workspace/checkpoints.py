"""`outlast workspace checkpoint`, `checkpoints` (a list, or one of them) and `diff`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli.completion import offer_runs
from outlast.doors.cli.door import Door, command
from outlast.doors.cli.render import ago, as_json, brief, emit_exactly, facts, note, say, table

if TYPE_CHECKING:
    from outlast.workspace.checkpoint import Change, Checkpoint


@command("checkpoint")
@click.argument("name", metavar="NAME")
@click.option("--task", metavar="TASK", required=True, help="The task it is a boundary of.")
@click.option("--summary", metavar="TEXT", default="", help="What has been reached.")
@click.option("--ref", "refs", metavar="REF", multiple=True, help="A ref of what belongs to it; may be repeated.")
@click.option("--operation-id", metavar="ID", help="The same one again pins nothing twice.")
@click.option("--actor", metavar="WHO", help="Who pins it [local].")
def checkpoint(door: Door, name: str, **given: Any) -> int:
    """Pin where TASK stands now, under NAME: the state and position of its newest run, and these refs."""
    from outlast.values.codec import jsonable

    with door.open() as outlast:
        pinned = outlast.workspace.checkpoint(name, **given)
    if door.json:
        emit_exactly(jsonable(pinned))
        return 0
    say(f"checkpoint {pinned.id} {'was pinned already' if pinned.replayed else 'pinned'}: {_where(pinned)}", "green")
    if not pinned.run_id:
        note(f"note: task {pinned.task} has no run yet, so there is no state and no position")
    return 0


@command("checkpoints")
@click.argument("checkpoint_id", metavar="[ID]", required=False)
@click.option("--task", metavar="TASK", help="Those of this task.")
@click.option("--run", metavar="RUN", shell_complete=offer_runs, help="Those of this run.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 10_000), help="How many at most.")
def checkpoints(door: Door, checkpoint_id: str | None, task: str | None, run: str | None, limit: int) -> int:
    """List checkpoints, the newest first. With ID: all that one has, also the state."""
    from outlast.values.codec import jsonable

    if sum(given is not None for given in (checkpoint_id, task, run)) > 1:
        raise click.UsageError("name ID, --task or --run, not both")
    with door.open() as outlast:
        one = outlast.workspace.get_checkpoint(checkpoint_id) if checkpoint_id is not None else None
        found = [one] if one else outlast.workspace.checkpoints(task=task, run=run, limit=limit)
    if door.json:
        emit_exactly({"checkpoints": jsonable(found)})
    elif one:
        _say_checkpoint(one)
    elif found:
        table(("ID", "TASK", "NAME", "AT", "REFS", "AGE", "SUMMARY"), [_row(each) for each in found])
    else:
        say("no checkpoints here; pin one: outlast workspace checkpoint NAME --task TASK")
    return 0


def _say_checkpoint(one: Checkpoint) -> None:
    when = f"{one.at:%Y-%m-%d %H:%M:%S} UTC"
    known = [("id", one.id), ("name", one.name), ("task", one.task), ("scope", one.scope), ("by", one.actor)]
    facts([*known, ("at", when), ("run", _at(one)), ("phase", one.phase), ("summary", one.summary)])
    for ref in one.refs:
        say(f"ref {ref}")
    for key, value in one.state.items():
        say(f"state[{key!r}] = {as_json(value)}")


@command("diff")
@click.argument("before", metavar="ID")
@click.argument("after", metavar="ID")
def diff(door: Door, before: str, after: str) -> int:
    """What is different at the second of two checkpoints: keys of the state, and refs."""
    from outlast.values.codec import jsonable

    with door.open() as outlast:
        found = outlast.workspace.diff(before, after)
    if door.json:
        emit_exactly({**jsonable(found), "same": found.same})
        return 0
    say(f"from {_where(found.before)}")
    say(f"to   {_where(found.after)}")
    for change in found.state:
        say(_told(change))
    for sign, refs in (("-", found.refs_removed), ("+", found.refs_added)):
        for ref in refs:
            say(f"{sign} {ref}")
    if found.same:
        say("state and refs are the same")
    return 0


def _told(change: Change) -> str:
    if change.kind == "added":
        return f"+ state[{change.key!r}] = {as_json(change.after)}"
    if change.kind == "removed":
        return f"- state[{change.key!r}] = {as_json(change.before)}"
    return f"  state[{change.key!r}]: {as_json(change.before)} -> {as_json(change.after)}"


def _where(one: Checkpoint) -> str:
    return f"{one.name} of task {one.task}" + (f", {_at(one)}" if one.run_id else "")


def _at(one: Checkpoint) -> str:
    return f"run {one.run_id} at {one.position}" if one.run_id else ""


def _row(one: Checkpoint) -> tuple[object, ...]:
    return one.id, brief(one.task, 40), one.name, _at(one), len(one.refs), ago(one.at), brief(one.summary, 60)
