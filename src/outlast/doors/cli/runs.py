"""`outlast runs`: the list. It loads next to nothing."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from outlast.doors.cli import late
from outlast.doors.cli.invocation import Invocation, command
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
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 10_000), help="How many at most.")
def runs(call: Invocation, status: str | None, limit: int) -> int:
    """List the newest runs first."""
    if status is not None and status not in late.outlast.STATUSES:
        known = f"{status!r} is none of {', '.join(late.outlast.STATUSES)}"
        raise click.BadParameter(f"{known}; {meant(status, late.outlast.STATUSES)}".rstrip("; "), param_hint="--status")
    with call.open() as outlast:
        found = [run for run in outlast.runs(status=status, limit=limit) if call.scope in (None, run.scope)]
    if call.json:
        emit({"runs": found})
    elif found:
        say_runs(found)
        if sys.stdout.isatty():
            say(f"one of them: {call.command('show', 'RUN')}", "dim")
    else:
        say(f"no {status} runs; see `outlast runs`" if status else "no runs yet; start one: outlast run FLOW")
    return 0


def say_runs(found: Sequence[RunRecord]) -> None:
    if found:
        table(RUN_HEADS, map(run_row, found))


def run_row(run: RunRecord) -> Sequence[object]:
    return run.id, standing(run), ago(run.updated_at), run.task, run.flow


def standing(run: RunRecord) -> str:
    """The status in a word; of a run that only stands for one elsewhere, that it does."""
    return SEALS[run.seal].format(status=run.status) if run.seal else run.status
