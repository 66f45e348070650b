"""`outlast steps`: what a flow consists of, before anything of it runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from outlast.doors.cli.door import Door, command
from outlast.doors.cli.render import brief, emit, say, table

if TYPE_CHECKING:
    from outlast.python.steps import FlowStep, FlowSteps

DOES, BOUNDS = 30, 28  # columns


@command("steps")
@click.argument("flow", metavar="FLOW")
def steps(door: Door, flow: str) -> int:
    """List the steps of a flow, with what they do, when, and within which limits.

    FLOW is `flow.yaml`, `module:name` or `file.py:name`. A flow file is checked whole, with the flow files that it
    runs; of Python the steps are those that its code shows. Nothing of it is run.
    """
    from outlast.doors.cli.inputs import find_flow
    from outlast.doors.cli.run import turned_away
    from outlast.values.codec import jsonable

    with turned_away(door.json):
        found = find_flow(flow, door.home).steps()
    if door.json:
        emit(jsonable(found))
        return 0
    say(f"flow {found.flow}, inputs: {found.inputs}")
    say_steps(found.steps)
    say_rest(found)
    return 0


def say_steps(found: Iterable[FlowStep]) -> None:
    """A row for each; what is inside another stands further to the right."""
    rows = [(f"{'· ' * len(each.inside)}{each.id}", each.kind, brief(each.does, DOES), _bounds(each)) for each in found]
    if rows:
        table(("STEP", "KIND", "DOES", "WITHIN"), rows)


def say_rest(found: FlowSteps) -> None:
    """What is no step, and is needed or not known."""
    if found.secrets:
        say(f"needs these variables: {', '.join(found.secrets)}")
    if not found.complete:
        say("these are the steps that its code shows; the body decides which of them are called, and how often")


def _bounds(each: FlowStep) -> str:
    """When it is done, and what bounds it."""
    told = [f"if {each.when}"] if each.when else []
    told += [f"{name} {_shown(value)}" for name, value in each.limits.items()]
    told += ["confirmed"] if each.confirmed else []
    return brief("; ".join(told), BOUNDS)


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}s"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
