"""The tools about tasks: pause, resume, complete."""

from __future__ import annotations

from typing import Any

from outlast.doors.mcp import outputs
from outlast.doors.mcp.arguments import Arguments, TaskComplete, TaskPause, TaskResume
from outlast.doors.mcp.desk import Desk, Tool, ToolAnswer, uri_of
from outlast.doors.mcp.handoffs import settled_text
from outlast.doors.mcp.texts import called, claim_line, in_scope, inline, lines, recovered_text, stored_text
from outlast.doors.mcp.values import handoff_uri, handoff_value, recovered_value
from outlast.values.codec import jsonable

WHO = ("scope", "claim_id", "repo_root")


def _who(desk: Desk, asked: Arguments, *names: str) -> dict[str, Any]:
    return {name: value for name, value in desk.given(asked).items() if name in names}


def pause(desk: Desk, asked: TaskPause) -> ToolAnswer:
    """Store what whoever resumes the task needs, and give the claim back."""
    session = desk.session(asked.task, opened=True, **_who(desk, asked, "scope", "claim_id"))
    paused = session.pause_task(**desk.given(asked, "task", "scope", "claim_id"))
    whole = handoff_uri(paused.handoff.scope, paused.handoff.anchor)
    text = lines(
        f"Task {inline(paused.task)} paused; nobody holds it.",
        stored_text(paused.handoff, whole),
        (f"Run {run} was asked to stop." for run in paused.stopping),
        (inline(note) for note in paused.notes),
        f"Whoever goes on: {called('task_resume', task=paused.task, scope=in_scope(paused.handoff.scope))}.",
    )
    value = {"task": paused.task, "handoff": handoff_value(paused.handoff), "stopping": list(paused.stopping)}
    return ToolAnswer(text, value | {"notes": list(paused.notes), "replayed": paused.replayed}, whole)


def resume(desk: Desk, asked: TaskResume) -> ToolAnswer:
    """Claim the task and recover what was handed over."""
    session = desk.session(asked.task, **_who(desk, asked, *WHO))
    got = session.resume_task(**asked.given("task", "tokens", *WHO))
    whole = uri_of(got.recovered)
    scope = in_scope(got.recovered.handoff.scope)
    text = lines(
        recovered_text(got.recovered, whole, asked.given().get("tokens"), desk.reach),
        "",
        claim_line(got.claim) if got.recovered.claim is None else "",
        f"- Done: {called('task_complete', task=got.task, scope=scope, claim_id=got.claim.id)}. "
        f"Stopping before: task_pause with the same task, scope and claim_id",
    )
    value = {
        "task": got.task,
        "recovered": recovered_value(got.recovered),
        "claim": jsonable(got.claim),
        "command": got.command,
        "replayed": got.replayed,
    }
    return ToolAnswer(text, value, whole)


def complete(desk: Desk, asked: TaskComplete) -> ToolAnswer:
    """Settle the task as completed."""
    session = desk.session(asked.task, **_who(desk, asked, *WHO))
    done = session.complete_task(**asked.given("task", *WHO))
    was = "was completed already" if done.replayed else "completed"
    text = lines(
        f"Task {inline(done.task)} {was} by {inline(done.by)}.",
        settled_text(done.settlement) if done.settlement else "",
        f"Shown by run {done.shown_by}." if done.shown_by else "",
        f"Overridden: {inline(done.override)}" if done.override else "",
        (inline(note) for note in done.notes),
    )
    return ToolAnswer(
        text, {**jsonable(done), "replayed": done.replayed}, handoff_uri(session.scope, f"task:{done.task}")
    )


TOOLS = (
    Tool(
        "task_pause",
        "Pause a task",
        "write",
        """Pause a task: store a handoff under `task:<task>` for whoever resumes it, and give your claim back.

Use it instead of handoff_store when the host has tasks, when you stop before a task is done. A task that is new
is opened. Takes every field of handoff_store but the anchor.

Returns the stored handoff with its score and better wordings.
Errors: as of handoff_store; task_refused: the task is completed, tell the user; handoff_claimed: somebody else
resumed it.""",
        TaskPause,
        pause,
        outputs.PAUSED,
        runs="checks",
    ),
    Tool(
        "task_resume",
        "Resume a task",
        "write",
        """Resume a task: claim it for you, and get what was handed over with its verdict.

Use it when you begin to work on a task that somebody paused or that stopped. Of many workers one gets it. Read
the result as that of handoff_recover: the verdict first.

Returns the recovered handoff, and your claim: give its id as claim_id to task_pause and task_complete. When the
task has a run that stopped, run_resume continues it.
Errors: handoff_claimed: it says who has it; wait, or take=true with why if the user says so. handoff_contested:
mend what is named, or ask the user and give accept and why. task_not_found: check the id. task_refused: there
is nothing to resume, or it is completed. foreign_commands: as of handoff_recover.""",
        TaskResume,
        resume,
        outputs.RESUMED,
        runs="checks",
    ),
    Tool(
        "task_complete",
        "Complete a task",
        "write",
        """Say that a task is done: its checks are run and must pass, and no run of it may be unfinished.

Use it when the work is done and you checked it. Name every must in prose that you kept in acknowledged, word
for word.

Returns how its handoff was settled, with what came of each check.
Errors: not_settled: mend what is named, then complete again; override with a reason only if the user says so.
handoff_claimed or claim_lost: you do not hold it. task_refused: it says why. task_not_found: check the id.
foreign_commands: as of handoff_settle.""",
        TaskComplete,
        complete,
        outputs.COMPLETED,
        runs="checks",
    ),
)
