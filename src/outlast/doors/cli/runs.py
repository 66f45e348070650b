"""`outlast runs`: the list. It loads next to nothing."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from outlast.doors.cli.invocation import Invocation, command
from outlast.doors.cli.options import limit_option
from outlast.doors.cli.render import ago, say, table

if TYPE_CHECKING:
    from outlast import RunRecord


UNPROVEN = "testimony (unproven)"
SEALS = {"moved": "moved", "copy": "{status}, copy (read-only)", "testimony": UNPROVEN}
RUN_HEADS = ("RUN", "STATUS", "UPDATED", "TASK", "FLOW")


@command("runs", of="run_list")
@limit_option(20)
def runs(call: Invocation, started_by: str | None, limit: int, cursor: str, **asked: Any) -> None:
    """List the newest runs first, of those that are all that is asked for."""
    with call.open() as outlast:
        found = outlast.runs(actor=started_by, limit=limit, cursor=cursor or None, scope=call.scope, **asked)
    after = found[-1].id if len(found) == limit else None
    if call.json:
        call.tell(found, cursor=after)
    elif found:
        say_runs(found)
        if sys.stdout.isatty():
            say(f"one of them: {call.command('show', 'RUN')}", "dim")
            if after:
                say(f"those before: the same with --cursor {after}", "dim")
    elif after is None and not any((started_by, cursor, *asked.values())):
        say("no runs yet; start one: outlast run FLOW")
    elif after is None and asked == {**dict.fromkeys(asked), "status": asked["status"]}:
        say(f"no {asked['status']} runs; see `outlast runs`")
    else:
        say("no such runs; see `outlast runs`")


def say_runs(found: Sequence[RunRecord]) -> None:
    if found:
        table(RUN_HEADS, map(run_row, found))


def run_row(run: RunRecord) -> Sequence[object]:
    return run.id, standing(run), ago(run.updated_at), run.task, run.flow


def standing(run: RunRecord) -> str:
    """The status in a word; of a run that only stands for one elsewhere, that it does."""
    if run.seal:
        return SEALS[run.seal].format(status=run.status)
    return f"{run.status} ({run.held_up})" if run.held_up else run.status
