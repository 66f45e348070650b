"""The tool that makes another run from a chosen step of one: a person decides that."""

from __future__ import annotations

from outlast.doors.mcp import outputs
from outlast.doors.mcp.arguments import RunFork
from outlast.doors.mcp.desk import Desk, Tool, ToolAnswer
from outlast.doors.mcp.texts import inline, lines
from outlast.doors.mcp.values import run_uri
from outlast.values.codec import jsonable


def fork(desk: Desk, asked: RunFork) -> ToolAnswer:
    """Another run, from a step of one."""
    made = desk.deciding().fork(asked.run_id, asked.from_step, **asked.given("run_id", "from_step"))
    text = lines(
        f"Run {made.id} was made: it takes over what run {made.origin} did before {inline(made.origin_step)}.",
        f"Next: run_resume with run_id={inline(made.id)} does the rest.",
    )
    return ToolAnswer(text, jsonable(made), run_uri(made.id))


TOOLS = (
    Tool(
        "run_fork",
        "Fork a run",
        "approve",
        """Make another run that takes over what a run did before a step, and does the rest anew.

Use it only to pass on what a person decided, such as to try other inputs from a step on. Where the user can be asked,
they are. The run itself, which may have finished, stays as it is. Nothing runs before run_resume of the new one.

Returns the new run; `origin` and `origin_step` say where it comes from.
Errors: forbidden: the user did not agree, or this key may not approve. repeats_effects: it would do effects again; let
the user say which (`effects`), or keep their results (`reuse_effects`). step_not_found, step_ambiguous: see run_show.
inputs_invalid: mend the inputs. no_flows: this server was not given the flow, which other inputs need.""",
        RunFork,
        fork,
        outputs.DECIDED,
    ),
)
