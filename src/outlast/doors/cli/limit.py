"""`outlast limit`: what steps of all runs share; and `outlast workers`: who is at work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli.group import CommandGroup, Sections
from outlast.doors.cli.invocation import Invocation, command
from outlast.doors.cli.render import ago, at, counted

if TYPE_CHECKING:
    from outlast.python.shared import Limit, WorkerRecord

SECTIONS: Sections = {
    "Limits": {
        "set": ("limit:set_", "How many steps that name a limit run at once, and how many begin in a while."),
        "list": ("limit:list_", "Every limit, with the steps that hold it and those that wait."),
        "remove": ("limit:remove", "Forget one: steps that name it are refused from then on."),
    },
}


@click.group("limit", cls=CommandGroup, sections=SECTIONS)
def limit() -> None:
    """Limits that steps share over all runs, such as what an API allows (`@step(limit="openai")`)."""


@command("set", of="limit_set")
@click.argument("limit", metavar="LIMIT")
def set_(call: Invocation, limit: str, **given: Any) -> int:
    """Say how many steps that name LIMIT run at once, and how many begin in a while.

    It holds over all runs and workers, from the next step on. What is not given is not limited.
    """
    with call.open(make=True) as outlast:
        return _said(call, outlast.set_limit(limit, **given))


@command("list", of="limit_list")
def list_(call: Invocation) -> int:
    """Every limit: its numbers, how many steps hold it, and how many wait for it."""
    with call.open() as outlast:
        found = outlast.limits()
    instead = "no limits; set one: outlast limit set NAME --concurrency N --rate 30/m"
    return call.tell_list(found, ("LIMIT", "AT ONCE", "RATE", "HELD", "WAITING", "SET"), _row, instead)


@command("remove", of="limit_remove")
@click.argument("limit", metavar="LIMIT")
def remove(call: Invocation, limit: str, **given: Any) -> int:
    """Forget a limit. Steps that name it are refused from then on; those under way go on."""
    with call.open() as outlast:
        return call.tell_line(outlast.remove_limit(limit, **given), f"limit {limit} is removed")


def _said(call: Invocation, found: Limit) -> int:
    most = f"at most {counted(found.concurrency, 'step')} at once" if found.concurrency else "however many at once"
    rate = found.rate or "at any rate"
    return call.tell_line(found, f"limit {found.name}: {most}, {rate}; see: {call.command('limit', 'list')}")


def _row(each: Limit) -> tuple[str, ...]:
    first = f" (run {each.held[0].run_id}, {ago(each.held[0].since)})" if each.held else ""
    made = f"by {each.set_by}, {at(each.set_at)}"
    return each.name, str(each.concurrency or ""), each.rate, f"{len(each.held)}{first}", str(len(each.waiting)), made


@command("workers", of="worker_list")
def workers(call: Invocation) -> int:
    """The workers that are at work: what each runs, since when, of which flows and code."""
    with call.open() as outlast:
        found = outlast.workers()
    columns = ("WORKER", "PROCESS", "SINCE", "QUEUES", "RUNS", "FLOWS")
    return call.tell_list(found, columns, _worker, "no workers; start one: outlast work FLOWS")


def _worker(each: WorkerRecord) -> tuple[str, ...]:
    named = [f"{flow.name} ({flow.code[:8]})" if flow.code else flow.name for flow in each.flows or ()]
    flows = ", ".join(named) if each.flows is not None else "every flow that is found"
    runs = f"{len(each.runs)} of {each.concurrency}" + (f": {', '.join(each.runs)}" if each.runs else "")
    return each.id, each.process, ago(each.since), ", ".join(each.queues) or "all", runs, flows
