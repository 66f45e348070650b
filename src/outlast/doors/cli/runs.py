"""`outlast runs`: the list. It loads next to nothing."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli import late
from outlast.doors.cli.invocation import Invocation, command
from outlast.doors.cli.options import limit_option, offer_tasks
from outlast.doors.cli.render import ago, emit, say, table
from outlast.values.text import meant

if TYPE_CHECKING:
    from outlast import RunRecord


UNPROVEN = "testimony (unproven)"
SEALS = {"moved": "moved", "copy": "{status}, copy (read-only)", "testimony": UNPROVEN}
RUN_HEADS = ("RUN", "STATUS", "UPDATED", "TASK", "FLOW")


@command("runs")
@click.option(
    "--status",
    metavar="STATUS",
    help="Only these: running, waiting, failed, interrupted, crashed, succeeded or aborted.",
)
@click.option("--flow", metavar="FLOW", help="Of this flow, by its name or where it is found.")
@click.option("--task", metavar="TASK", shell_complete=offer_tasks, help="Of this task.")
@click.option("--tag", metavar="TAG", help="With this tag, as it was given at the start.")
@click.option("--session", metavar="SESSION", help="Started for this session.")
@click.option("--trace-id", "trace", metavar="ID", help="Of this trace.")
@click.option("--actor", metavar="NAME", help="Started by NAME.")
@click.option("--since", metavar="TIME", help="Begun since then: 90m, 7d, or 2026-11-17T09:00.")
@click.option("--until", metavar="TIME", help="Begun before then.")
@click.option("--text", metavar="TEXT", help="With this in its id, flow, task, phase, tags, inputs, meta or error.")
@limit_option(20)
@click.option("--cursor", metavar="RUN", help="Those after this one: the last one of the page before.")
def runs(call: Invocation, status: Any, limit: int, **asked: Any) -> int:
    """List the newest runs first, of those that are all that is asked for."""
    if status is not None and status not in late.outlast.STATUSES:
        known = f"{status!r} is none of {', '.join(late.outlast.STATUSES)}"
        raise click.BadParameter(f"{known}; {meant(status, late.outlast.STATUSES)}".rstrip("; "), param_hint="--status")
    with call.open() as outlast:
        page = outlast.runs(status=status, limit=limit, **asked)
    found = [run for run in page if call.scope in (None, run.scope)]
    after = page[-1].id if len(page) == limit else None
    if call.json:
        emit({"runs": found, "cursor": after})
    elif found:
        say_runs(found)
        _say_more(call, after)
    elif after is None and not any(asked.values()):
        say(f"no {status} runs; see `outlast runs`" if status else "no runs yet; start one: outlast run FLOW")
    else:
        say("no such runs; see `outlast runs`")
    return 0


def _say_more(call: Invocation, after: str | None) -> None:
    if sys.stdout.isatty():
        say(f"one of them: {call.command('show', 'RUN')}", "dim")
        if after:
            say(f"those before: the same with --cursor {after}", "dim")


def say_runs(found: Sequence[RunRecord]) -> None:
    if found:
        table(RUN_HEADS, map(run_row, found))


def run_row(run: RunRecord) -> Sequence[object]:
    return run.id, standing(run), ago(run.updated_at), run.task, run.flow


def standing(run: RunRecord) -> str:
    """The status in a word; of a run that only stands for one elsewhere, that it does."""
    return SEALS[run.seal].format(status=run.status) if run.seal else run.status
