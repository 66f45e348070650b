"""The tools about handoffs and tasks: store, recover, settle; pause, resume, complete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from outlast.doors.mcp.client import McpClient, Tool, ToolAnswer, handoff_uri, made_from, uri_of
from outlast.doors.mcp.texts import (
    called,
    claim_line,
    evidence_lines,
    in_scope,
    inline,
    lines,
    recovered_text,
    stored_text,
)
from outlast.operations.operation import Declared

if TYPE_CHECKING:
    from outlast.operations.handoffs import Settlement

WHO = ("scope", "claim_id", "repo_root")


class TextLength(Declared):
    """How much of it is told as text."""

    tokens: Annotated[int, Meta(ge=1, le=1_000_000, description="How long the contract in the text may be.")] | None = (
        None
    )


def store(client: McpClient, tool: Tool, asked: Any) -> ToolAnswer:
    """Store the next revision under an anchor."""
    handoff = client.perform(tool, asked)
    whole = handoff_uri(handoff.scope, handoff.anchor)
    return ToolAnswer(stored_text(handoff, whole), handoff, whole)


def recover(client: McpClient, tool: Tool, asked: Any) -> ToolAnswer:
    """Recover a handoff with its verdict, and claim it if asked to."""
    got = client.perform(tool, asked)
    whole = uri_of(got)
    return ToolAnswer(recovered_text(got, whole, asked.tokens, client.reach), got, whole)


def settle(client: McpClient, tool: Tool, asked: Any) -> ToolAnswer:
    """Say how the work ended."""
    done = client.perform(tool, asked)
    scope = in_scope(asked.scope or "")
    whole = called("handoff_recover", anchor=done.anchor, scope=scope, include_finished=True)
    return ToolAnswer(settled_text(done), done, whole)


def settled_text(done: Settlement) -> str:
    """How it was settled, and on what grounds."""
    was = "was settled already as" if done.replayed else "settled as"
    then = "It is open for whoever recovers it." if done.outcome != "completed" else ""
    return lines(
        f"{inline(done.anchor)} revision {done.revision} {was} {done.outcome} by {inline(done.by)}.",
        evidence_lines(done.evidence),
        f"Overridden: {inline(done.override)}" if done.override else "",
        (f"It lacked: {inline(text)}" for text in done.missing),
        then,
    )


# -- tasks ---------------------------------------------------------------------------------------------


def _at(client: McpClient, asked: Any, *names: str, opened: bool = False) -> Any:
    who = {name: value for name, value in client.given(asked).items() if name in names}
    return client.session(asked.task_id, opened, **who)


def pause(client: McpClient, tool: Tool, asked: Any) -> ToolAnswer:
    """Store what whoever resumes the task needs, and give the claim back."""
    session = _at(client, asked, "scope", "claim_id", opened=True)
    paused = session.pause_task(**client.given(asked, "task_id", "scope", "claim_id"))
    whole = handoff_uri(paused.handoff.scope, paused.handoff.anchor)
    text = lines(
        f"Task {inline(paused.task)} paused; nobody holds it.",
        stored_text(paused.handoff, whole),
        (f"Run {run} was asked to stop." for run in paused.stopping),
        (inline(note) for note in paused.notes),
        f"Whoever goes on: {called('task_resume', task_id=paused.task, scope=in_scope(paused.handoff.scope))}.",
    )
    return ToolAnswer(text, paused, whole)


def resume(client: McpClient, tool: Tool, asked: Any) -> ToolAnswer:
    """Claim the task and recover what was handed over."""
    got = _at(client, asked, *WHO).resume_task(**client.given(asked, "task_id", "tokens", *WHO))
    whole = uri_of(got.recovered)
    scope = in_scope(got.recovered.handoff.scope)
    text = lines(
        recovered_text(got.recovered, whole, asked.tokens, client.reach),
        "",
        claim_line(got.claim) if got.recovered.claim is None else "",
        f"- Done: {called('task_complete', task_id=got.task, scope=scope, claim_id=got.claim.id)}. "
        f"Stopping before: task_pause with the same task_id, scope and claim_id",
    )
    return ToolAnswer(text, got, whole)


def complete(client: McpClient, tool: Tool, asked: Any) -> ToolAnswer:
    """Settle the task as completed."""
    session = _at(client, asked, *WHO)
    done = session.complete_task(**client.given(asked, "task_id", *WHO))
    was = "was completed already" if done.replayed else "completed"
    text = lines(
        f"Task {inline(done.task)} {was} by {inline(done.by)}.",
        settled_text(done.settlement) if done.settlement else "",
        f"Shown by run {done.shown_by}." if done.shown_by else "",
        f"Overridden: {inline(done.override)}" if done.override else "",
        (inline(note) for note in done.notes),
    )
    return ToolAnswer(text, done, handoff_uri(session.scope, f"task:{done.task}"))


TOOLS = (
    made_from(
        "handoff_store",
        "Store a handoff",
        """Store a contract for whoever continues this work: another session, agent or person, or you without your
context. Use it when you stop before the work is done, or before your context is compacted. Write instructions, not a
diary: files, next action, checks. The same anchor again makes the next revision. Gives its id, a score of 100, and a
better wording for each weakness.
Errors: secret_found: take it out, or redact=true. revision_conflict: recover first. claim_lost: stop.""",
        store,
        runs="checks",
    ),
    made_from(
        "handoff_recover",
        "Recover a handoff",
        """Get what was handed over, with a verdict: how far to trust it here and now. Use it FIRST on existing work,
or when the user says `continue` or names an anchor; without arguments: the newest open one of this git branch.
trusted: go on. candidate: go on with its reasons in mind. contested: STOP until each contesting reason is mended, or
the user accepts it (accept, why). claim=true before you change files.
Errors: finished: include_finished=true reads it. handoff_claimed: wait, or take=true with why if the user says so.
runs_on_host: call without run_checks. foreign_commands: show the user the commands; go on without run_checks.""",
        recover,
        more=TextLength,
        runs="checks",
    ),
    made_from(
        "handoff_settle",
        "Settle a handoff",
        """Say how the work under a handoff ended, and give your claim back. Use it when it is done (its checks are run
and must pass), did not work, or you stop; after progress store a new revision first.
Errors: not_settled: mend what is named, acknowledge musts in prose word for word; override only if the user says so.
claim_lost: you do not hold it. foreign_commands: show the user the commands.""",
        settle,
        runs="checks",
    ),
    made_from(
        "task_pause",
        "Pause a task",
        """Store a handoff under `task:<task_id>` for whoever resumes it, and give your claim back; a new task is
opened. Use it instead of handoff_store when the host has tasks.
Errors: as of handoff_store. task_refused: it is completed. handoff_claimed: somebody else resumed it.""",
        pause,
        runs="checks",
    ),
    made_from(
        "task_resume",
        "Resume a task",
        """Claim a task, and get what was handed over with its verdict, read as that of handoff_recover. Use it when you
begin to work on a task that was paused or stopped.
Errors: handoff_claimed: wait, or take=true with why if the user says so. handoff_contested: mend what is named, or
accept and why if the user agrees. task_refused: there is nothing to resume.""",
        resume,
        more=TextLength,
        runs="checks",
    ),
    made_from(
        "task_complete",
        "Complete a task",
        """Say that a task is done: its checks are run and must pass, and no run of it be unfinished. Use it when you
checked the work; acknowledge every must in prose word for word.
Errors: not_settled: mend what is named; override only if the user says so. claim_lost: you do not hold it.""",
        complete,
        runs="checks",
    ),
)
