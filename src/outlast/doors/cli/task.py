"""`outlast task`: the host bridge. What is worked on over many runs, by one worker at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli.group import CommandGroup, Sections
from outlast.doors.cli.handoff import bound_to, checks_shown, outcome_of, say_contract, say_entry, say_lint, shown_claim
from outlast.doors.cli.invocation import CLAIM, Invocation, command
from outlast.doors.cli.options import absolute, agree_option, content, objects, parsed, task_argument
from outlast.doors.cli.render import STYLES, ago, as_json, at, brief, facts, say, table
from outlast.doors.cli.store import HOW, document_option, fields_of, files_of, refuse_silence

if TYPE_CHECKING:
    from outlast import Outlast, Task, TaskCompleted, TaskContext, TaskEvent, TaskPaused, TaskResumed
    from outlast.python.tasks import TaskSession


@command("inspect", of="task_inspect_seen")
@task_argument
def inspect(call: Invocation, task_id: str, history: int, **given: Any) -> None:
    """How a task stands here and now: its handoff with a verdict, its runs, waits and events, and what may be done.

    Nothing is opened or claimed by looking.
    """
    with call.open() as outlast:
        found = _session(outlast, task_id, given).inspect_task_context(history=history)
    if call.json:
        call.tell(call.ready(found))
    else:
        _say_context(call, found)


def _say_context(call: Invocation, found: TaskContext) -> None:
    facts(
        ("task", found.task),
        ("scope", found.scope if found.scope != "default" else ""),
        ("state", found.state),
        ("opened", at(found.opened_at) if found.opened_at else "never; it only has runs or a handoff"),
        ("moved by", found.actor),
        ("session", found.session),
        ("meta", as_json(found.meta) if found.meta else ""),
    )
    _say_handoff(call, found)
    for run in found.runs:
        say(f"run {run.id}: {run.status}, {run.flow}, {ago(run.updated_at)}", STYLES.get(run.status, ""))
    for wait in found.waits:
        say(f"waits: {wait.says} (run {wait.run_id}); {call.command('answer', wait.id, 'JSON')}")
    say("what may be done:")
    rows = [(each.name, "yes" if each.allowed else "no", each.why) for each in found.allowed_actions]
    table(("ACTION", "ALLOWED", "WHY NOT, OR WHAT IT NEEDS"), rows)
    if found.history:
        table(("SEQ", "WHEN", "EVENT", "BY", "WHAT"), [_event_row(event) for event in found.history])
    if len(found.history) < found.events:
        say(f"[{len(found.history)} of {found.events} events shown; --history N shows more]")


def _say_handoff(call: Invocation, found: TaskContext) -> None:
    if found.trouble:
        say(f"handoff: {found.trouble}", "red")
    elif found.handoff is None:
        say("handoff: none")
    else:
        say(f"handoff: {found.handoff.headline}", STYLES.get(str(found.handoff.verdict), ""))
        say(f"  all of it: {call.about(('handoff', 'recover'), found.handoff.anchor, '--include-finished')}")


def _event_row(event: TaskEvent) -> tuple[object, ...]:
    body = as_json(event.body) if event.body not in (None, {}) else ""
    masked = f" ({event.masked} masked)" if event.masked else ""
    return event.seq, at(event.at), event.name or event.kind, event.actor, brief(body, 80) + masked


@command("list", of="task_list", without=("cursor",))
def list_(call: Invocation, state: Any, limit: int) -> int:
    """List the tasks that were opened, those that something happened to last first; before them those that nobody
    opened and whose run is unfinished."""
    with call.open() as outlast:
        found = outlast.tasks.list(state, limit=limit)
    columns = ("TASK", "STATE", "RUN", "EVENTS", "BY", "AGE")
    return call.tell_list(found, columns, _row, "no such tasks; open one: outlast task open TASK")


def _row(one: Task) -> tuple[object, ...]:
    run = f"{one.run.run_id} {one.run.status}" if one.run else ""
    return brief(one.task, 60), one.state, run, one.events, one.actor, ago(one.updated_at) if one.updated_at else ""


WHO = ("claim_id", "repo_root")


def _session(outlast: Outlast, task_id: str, given: dict[str, Any]) -> TaskSession:
    """The session of who does this; what says so is taken out of what was given."""
    return outlast.tasks.session(task_id, **absolute({name: given.pop(name, None) for name in WHO}))


@command("open", of="task_open")
@task_argument
def open_(call: Invocation, task_id: str, meta: str | None, **given: Any) -> int:
    """Open TASK, durable when this returns. One that is open already stays as it is."""
    (beside,) = objects((meta,), "--meta") if meta is not None else (None,)
    with call.open(make=True) as outlast:
        outlast.tasks.open(task_id, meta=beside, **absolute(given))
        found = outlast.tasks.get(task_id)
    return call.tell_or_say(found, lambda: _say_opened(call, found))


def _say_opened(call: Invocation, found: Task) -> None:
    say(f"task {found.task} is {found.state}", "yellow" if found.state == "completed" else "green")
    if found.state == "completed":
        say(f"open it again: {call.about(('task', 'open'), found.task, '--reopen')}")
    else:
        say(f"what may be done with it: {call.about(('task', 'inspect'), found.task)}")


@command("pause", of="task_pause", as_given=True)
@task_argument
@document_option
def pause(call: Invocation, task_id: str, operation_id: str | None, **given: Any) -> int:
    """Store what whoever resumes TASK needs, as `handoff store` does, and give the claim back.

    Files are named from the current folder. --file, --check and the musts may be repeated.
    """
    options = {name: given.pop(name) for name in (*HOW, "stop_run")}
    fields = _fields(task_id, given)
    operation_id = operation_id or fields.pop("operation_id", None)
    with call.open(make=True) as outlast:
        fields |= files_of(outlast.handoff, given, fields.get("repo_root"))
        with checks_shown(call, outlast):
            session = outlast.tasks.open(task_id, claim_id=given["claim_id"])
            paused = session.pause_task(**fields, **options, operation_id=operation_id)
    return call.tell_or_say(paused, lambda: _say_paused(call, paused))


def _fields(task_id: str, given: dict[str, Any]) -> dict[str, Any]:
    fields = fields_of(given | {"anchor": f"task:{task_id}"})
    del fields["anchor"]
    refuse_silence(fields, "where the work stopped")
    if given["expected_revision"] is not None:
        fields["expected_revision"] = given["expected_revision"]
    return fields


def _say_paused(call: Invocation, paused: TaskPaused) -> None:
    handoff = paused.handoff
    what = "was paused already" if paused.replayed else "paused"
    say(f"task {paused.task} {what}: {handoff.anchor}@{handoff.revision}", "green")
    say_lint(handoff.lint)
    say(f"bound to {bound_to(handoff.binding)}")
    for note in paused.notes:
        say(note, "yellow")
    say(f"resume it: {call.about(('task', 'resume'), paused.task)}")


@command("resume", of="task_resume")
@task_argument
@agree_option
def resume(call: Invocation, task_id: str, **given: Any) -> None:
    """Claim TASK, and show what was handed over with its verdict. Of many workers one gets it.

    Exits 4 and says who has it when somebody else resumed it, or what contests it.
    """
    with call.open() as outlast, checks_shown(call, outlast):
        got = _session(outlast, task_id, given).resume_task(**given)
    if call.json:
        call.tell(call.ready(got))
    else:
        _say_resumed(call, got)


def _say_resumed(call: Invocation, got: TaskResumed) -> None:
    word = str(got.recovered.verdict)
    say(f"task {got.task} resumed; verdict: {word}", STYLES.get(word, ""))
    for reason in got.recovered.reasons:
        taken = ", accepted" if reason.fingerprint in got.recovered.accepted else ""
        say(f"  {reason.code} ({reason.subject}): {reason.found}{taken}")
    shown = shown_claim(got.claim)
    handoff = got.recovered.handoff_with(lambda text: call.pasted(text, shown))
    say_entry(handoff)
    say_contract(handoff, got.recovered.evidence)
    say(f"claimed: {got.claim.id}, until {at(got.claim.expires_at)}; every use renews it", "green")
    say(f"in another terminal or a script show it: export {CLAIM}={got.claim.id}")
    if got.command:
        say(f"continue: {call.pasted(got.command, shown)}")
    say(f"when it is done: {call.about(('task', 'complete'), got.task, *(('--claim-id', shown) if shown else ()))}")


@command("complete", of="task_complete")
@task_argument
@agree_option
def complete(call: Invocation, task_id: str, evidence: tuple[str, ...], **given: Any) -> int:
    """Say that TASK is done: its checks are run and must pass, and no run of it may be unfinished.

    Without a handoff a run of it must have succeeded since it was opened. --override says why it counts all the same.
    """
    said = objects(evidence, "--evidence")
    with call.open() as outlast, checks_shown(call, outlast):
        session = _session(outlast, task_id, given)
        done = session.complete_task(said, **given)
    return call.tell_or_say(done, lambda: _say_completed(call, done))


def _say_completed(call: Invocation, done: TaskCompleted) -> None:
    say(f"task {done.task} {'was completed already' if done.replayed else 'completed'} by {done.by}", "green")
    for each in done.settlement.evidence if done.settlement else ():
        say(f"  {each.label}: {outcome_of(each)}")
    if done.shown_by:
        say(f"shown by run {done.shown_by}")
    if done.override:
        say(f"overridden: {done.override}", "yellow")
    for note in done.notes:
        say(note, "yellow")


@command("event", of="task_record")
@task_argument
@click.argument("name", metavar="NAME")
@click.argument("body", metavar="[JSON]", required=False)
def event(call: Invocation, task_id: str, name: str, body: str | None, operation_id: str | None) -> int:
    """Record that NAME happened to TASK, with a JSON value or @FILE: durable, in order, never edited."""
    value = parsed(content(body, "JSON"), "JSON: it is no JSON") if body is not None else None
    with call.open() as outlast:
        recorded = outlast.tasks.session(task_id).record_event(name, value, operation_id=operation_id)
    what = "was recorded already" if recorded.replayed else "recorded"
    masked = f", {recorded.masked} masked" if recorded.masked else ""
    return call.tell_line(recorded, f"event {recorded.task}/{recorded.seq} {what}{masked}", "green")


SECTIONS: Sections = {
    "Work": {
        "open": ("task:open_", "Open a task, or a completed one again."),
        "pause": ("task:pause", "Hand it over, and give the claim back."),
        "resume": ("task:resume", "Claim it, with what was handed over and a verdict."),
        "complete": ("task:complete", "Run its checks and say that it is done."),
        "event": ("task:event", "Record something that happened to it."),
    },
    "Look": {
        "inspect": ("task:inspect", "How it stands, and what may be done with it now."),
        "list": ("task:list_", "The tasks that were opened."),
    },
}


@click.group("task", cls=CommandGroup, sections=SECTIONS)
def task() -> None:
    """What is worked on over many runs, by one worker at a time. A task is
    active, paused, resumed or completed. Pausing stores a handoff under
    task:TASK, resuming claims and recovers it, completing settles it.

    Claims belong to the terminal that made them; elsewhere a claim is shown
    by --claim-id ID or OUTLAST_CLAIM=ID.
    """
