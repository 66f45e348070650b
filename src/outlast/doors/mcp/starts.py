"""The tool that starts a flow: one of those that whoever set this up named, and no other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from outlast.doors.mcp import outputs
from outlast.doors.mcp.arguments import RunStart
from outlast.doors.mcp.desk import Desk, Tool, ToolAnswer
from outlast.doors.mcp.runs import going_on
from outlast.doors.mcp.texts import lines, outcome_text
from outlast.doors.mcp.values import outcome_value, run_uri
from outlast.errors import NoFlows, RunHeld
from outlast.python.homes import GATES
from outlast.python.outlast import Options
from outlast.python.project import inputs_of

if TYPE_CHECKING:
    from outlast import Outcome


def start(desk: Desk, asked: RunStart) -> ToolAnswer:
    """Run a flow until it ends or waits, or the time is over; one that somebody else runs is waited for."""
    said = asked.given("wait_seconds")
    flows = desk.outlast._flows
    if flows is None:
        raise NoFlows(said["flow"], "no flows")
    flow = flows.named(said.pop("flow"))
    inputs = inputs_of(flow, said.pop("inputs", {}))
    try:
        started = desk.outlast._start(Options(**said), flow, (), inputs)
    except RunHeld as held:
        return _held(desk, held, asked.wait_seconds)
    try:
        return _told(started.outcome(asked.wait_seconds))
    except TimeoutError:
        return going_on(desk.outlast.get(started.run_id), asked.wait_seconds)


def _held(desk: Desk, held: RunHeld, seconds: float) -> ToolAnswer:
    """How a run stands that somebody else runs. Raises RunHeld for one that is only claimed."""
    run = desk.outlast.get(held.run_id)
    if run.holder and run.status != "running":
        raise held
    try:
        return _told(desk.outlast.wait(run.id, timeout=seconds))
    except TimeoutError:
        return going_on(desk.outlast.get(run.id), seconds, held.holder)


def _told(outcome: Outcome[Any]) -> ToolAnswer:
    again = "It has happened before, and nothing was done now: this is how it ended." if outcome.replayed else ""
    return ToolAnswer(lines(outcome_text(outcome), again), outcome_value(outcome), run_uri(outcome.run_id))


TOOLS = (
    Tool(
        "run_start",
        "Start a run",
        "write",
        """Run a flow by its name, with inputs; the same call after a crash continues the same run.

Use it when the user wants a flow to run. A task that you name happens once: after its success the same call gives
its outcome. With an operation_id the same call gives the run that it began, whatever became of it. It returns when
the run ends or comes to wait, or after wait_seconds, saying that the run goes on; then call run_show later. While
somebody else runs it already, that run is waited for, and `holder` says who that is.

Returns status succeeded with the result; waiting with what is asked (answer with interrupt_answer); failed with the
error (mend its cause, then call run_resume).

Errors: no_flows: this server was not given that flow; its detail says which it has. inputs_invalid: mend the inputs.
inputs_conflict: the task has a run with other inputs. operation_conflict: the id was used for another call; take a
new one. run_held: somebody claimed it; do not try again at once. task_aborted, task_declined: it was given up; ask
the user. repeats_effects: with again these effects would happen once more; name them in effects if the user agrees.""",
        RunStart,
        start,
        outputs.OUTCOME,
        gates=(*GATES, "effects"),
        runs="flows",
    ),
)
