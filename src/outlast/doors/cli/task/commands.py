"""`outlast task open`, `pause`, `resume`, `complete` and `event`.

Looking at tasks: how one stands and what may be done with it, and the list.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli.completion import task_argument
from outlast.doors.cli.door import CLAIM, Door, command
from outlast.doors.cli.handoff.checks import checks_shown
from outlast.doors.cli.handoff.recover import (
    accept_option,
    actor_option,
    agree_option,
    claim_id_option,
    operation_option,
    repo_option,
    take_option,
    why_option,
)
from outlast.doors.cli.handoff.store import OPTIONS, fields_of, files_of, objects
from outlast.doors.cli.render import STYLES, ago, as_json, at, brief, emit_exactly, facts, say, table

if TYPE_CHECKING:
    from outlast import Outlast
    from outlast.python.tasks import TaskSession
    from outlast.tasks.task import Task, TaskCompleted, TaskContext, TaskEvent, TaskPaused, TaskResumed


STATES = ("active", "paused", "resumed", "completed")


@command("inspect")
@task_argument()
@repo_option
@claim_id_option
@click.option("--history", metavar="N", default=20, show_default=True, type=click.IntRange(0), help="How many events.")
def inspect(door: Door, task_id: str, repo_root: str | None, claim_id: str | None, history: int) -> int:
    """How a task stands here and now: its handoff with a verdict, its runs, waits and events, and what may be done.

    Nothing is opened or claimed by looking.
    """
    root = os.path.abspath(repo_root) if repo_root else None
    with door.open() as outlast:
        session = outlast.tasks.session(task_id, repo_root=root, claim_id=claim_id)
        found = session.inspect_task_context(history=history)
    if door.json:
        from outlast.python.shown import context_json

        emit_exactly(context_json(found, door.reach(whole=True)))
    else:
        _say_context(door, found)
    return 0


def _say_context(door: Door, found: TaskContext) -> None:
    facts(
        [
            ("task", found.task),
            ("scope", found.scope if found.scope != "default" else ""),
            ("state", found.state),
            ("opened", at(found.opened_at) if found.opened_at else "never; it only has runs or a handoff"),
            ("moved by", found.actor),
            ("session", found.session),
            ("meta", as_json(found.meta) if found.meta else ""),
        ]
    )
    _say_handoff(door, found)
    for run in found.runs:
        say(f"run {run.id}: {run.status}, {run.flow}, {ago(run.updated_at)}", STYLES.get(run.status, ""))
    for wait in found.waits:
        say(f"waits: {wait.says} (run {wait.run_id}); {door.command('answer', wait.id, 'JSON')}")
    say("what may be done:")
    rows = [(each.name, "yes" if each.allowed else "no", each.why) for each in found.allowed_actions]
    table(("ACTION", "ALLOWED", "WHY NOT, OR WHAT IT NEEDS"), rows)
    if found.history:
        table(("SEQ", "WHEN", "EVENT", "BY", "WHAT"), [_event_row(event) for event in found.history])
    if len(found.history) < found.events:
        say(f"[{len(found.history)} of {found.events} events shown; --history N shows more]")


def _say_handoff(door: Door, found: TaskContext) -> None:
    from outlast.handoffs.reading import headline

    if found.trouble:
        say(f"handoff: {found.trouble}", "red")
    elif found.handoff is None:
        say("handoff: none")
    else:
        say(f"handoff: {headline(found.handoff)}", STYLES.get(str(found.handoff.verdict), ""))
        say(f"  all of it: {door.about(('handoff', 'recover'), found.handoff.anchor, '--include-finished')}")


def _event_row(event: TaskEvent) -> tuple[object, ...]:
    body = as_json(event.body) if event.body not in (None, {}) else ""
    masked = f" ({event.masked} masked)" if event.masked else ""
    return event.seq, at(event.at), event.name or event.kind, event.actor, brief(body, 80) + masked


@command("list")
@click.option("--state", type=click.Choice(STATES), help="Only those in this state.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 10_000), help="How many at most.")
def list_(door: Door, state: Any, limit: int) -> int:
    """List the tasks that were opened, those that something happened to last first; before them those that nobody
    opened and whose run is unfinished."""
    from outlast.values.codec import jsonable

    with door.open() as outlast:
        found = outlast.tasks.list(state, limit=limit)
    if door.json:
        emit_exactly({"tasks": jsonable(found)})
    elif found:
        table(("TASK", "STATE", "RUN", "EVENTS", "BY", "AGE"), [_row(one) for one in found])
    else:
        say("no such tasks; open one: outlast task open TASK")
    return 0


def _row(one: Task) -> tuple[object, ...]:
    run = f"{one.run.run_id} {one.run.status}" if one.run else ""
    return brief(one.task, 60), one.state, run, one.events, one.actor, ago(one.updated_at) if one.updated_at else ""


WHO = ("actor", "claim_id", "repo_root")


def _session(outlast: Outlast, task_id: str, given: dict[str, Any]) -> TaskSession:
    """The session of who does this; what says so is taken out of what was given."""
    who = {name: given.pop(name, None) for name in WHO}
    who["repo_root"] = os.path.abspath(who["repo_root"]) if who["repo_root"] else None
    return outlast.tasks.session(task_id, **who)


@command("open")
@task_argument()
@click.option("--session", default="", metavar="SESSION", help="The session that it is opened for.")
@click.option("--meta", metavar="JSON", help="An object to keep beside it, or @FILE.")
@click.option("--reopen", is_flag=True, help="Open it again if it was completed.")
@operation_option
@actor_option
def open_(door: Door, task_id: str, meta: str | None, **given: Any) -> int:
    """Open TASK, durable when this returns. One that is open already stays as it is."""
    from outlast.values.codec import jsonable

    (beside,) = objects((meta,), "--meta") if meta is not None else (None,)
    with door.open(make=True) as outlast:
        outlast.tasks.open(task_id, meta=beside, **given)
        found = outlast.tasks.get(task_id)
    if door.json:
        emit_exactly(jsonable(found))
    else:
        _say_opened(door, found)
    return 0


def _say_opened(door: Door, found: Task) -> None:
    say(f"task {found.task} is {found.state}", "yellow" if found.state == "completed" else "green")
    if found.state == "completed":
        say(f"open it again: {door.about(('task', 'open'), found.task, '--reopen')}")
    else:
        say(f"what may be done with it: {door.about(('task', 'inspect'), found.task)}")


def _handoff_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Every field of a handoff but its anchor, which is the task's."""
    for option in reversed(OPTIONS[1:]):
        function = option(function)
    return function


@command("pause")
@task_argument()
@_handoff_options
@click.option("--expect", "expected_revision", type=click.IntRange(0), metavar="N", help="Only if N is the newest.")
@click.option("--baseline", is_flag=True, help="Run the checks now, and record what came of them.")
@click.option("--strict", is_flag=True, help="Refuse a weak handoff.")
@click.option("--redact", is_flag=True, help="Mask secrets instead of refusing them.")
@click.option("--no-bind", is_flag=True, help="Look at no file.")
@click.option("--stop-run", is_flag=True, help="Ask a running run of the task to stop, too.")
@claim_id_option
@operation_option
@actor_option
def pause(door: Door, task_id: str, no_bind: bool, stop_run: bool, operation_id: str | None, **given: Any) -> int:
    """Store what whoever resumes TASK needs, as `handoff store` does, and give the claim back.

    Files are named from the current folder. --file, --check and the musts may be repeated.
    """
    options = {name: given.pop(name) for name in ("baseline", "strict", "redact")} | {"bind": not no_bind}
    fields = _fields(task_id, given)
    operation_id = operation_id or fields.pop("operation_id", None)
    with door.open(make=True) as outlast:
        fields |= files_of(outlast.handoff, given, fields.get("repo_root"))
        who = {name: given[name] for name in ("actor", "claim_id")}
        with checks_shown(door, outlast):
            session = outlast.tasks.open(task_id, **who)
            paused = session.pause_task(**fields, **options, stop_run=stop_run, operation_id=operation_id)
    if door.json:
        from outlast.python.shown import paused_json

        emit_exactly(paused_json(paused))
    else:
        _say_paused(door, paused)
    return 0


def _fields(task_id: str, given: dict[str, Any]) -> dict[str, Any]:
    fields = fields_of(given | {"anchor": f"task:{task_id}"})
    del fields["anchor"]
    if "summary" not in fields:
        raise click.UsageError("-m TEXT is missing: where the work stopped, in a sentence")
    if "handoff_text" not in fields:
        ways = "--next TEXT, --text TEXT, --text @FILE, or --text - for standard input"
        raise click.UsageError(f"nothing says how to go on: {ways}")
    if given["expected_revision"] is not None:
        fields["expected_revision"] = given["expected_revision"]
    return fields


def _say_paused(door: Door, paused: TaskPaused) -> None:
    from outlast.doors.cli.handoff.views import bound_to, say_lint

    handoff = paused.handoff
    what = "was paused already" if paused.replayed else "paused"
    say(f"task {paused.task} {what}: {handoff.anchor}@{handoff.revision}", "green")
    say_lint(handoff.lint)
    say(f"bound to {bound_to(handoff.binding)}")
    for note in paused.notes:
        say(note, "yellow")
    say(f"resume it: {door.about(('task', 'resume'), paused.task)}")


@command("resume")
@task_argument()
@click.option("--run-checks", is_flag=True, help="Run its checks, and record what came of them.")
@agree_option
@take_option
@accept_option
@why_option
@repo_option
@claim_id_option
@operation_option
@actor_option
def resume(door: Door, task_id: str, **given: Any) -> int:
    """Claim TASK, and show what was handed over with its verdict. Of many workers one gets it.

    Exits 4 and says who has it when somebody else resumed it, or what contests it.
    """
    with door.open() as outlast, checks_shown(door, outlast):
        got = _session(outlast, task_id, given).resume_task(**given)
    if door.json:
        from outlast.python.shown import resumed_json

        emit_exactly(resumed_json(got, door.reach(whole=True)))
    else:
        _say_resumed(door, got)
    return 0


def _say_resumed(door: Door, got: TaskResumed) -> None:
    from outlast.doors.cli.handoff.views import say_contract, say_entry, shown_claim
    from outlast.doors.cli.render import STYLES

    word = str(got.recovered.verdict)
    say(f"task {got.task} resumed; verdict: {word}", STYLES.get(word, ""))
    for reason in got.recovered.reasons:
        taken = ", accepted" if reason.fingerprint in got.recovered.accepted else ""
        say(f"  {reason.code} ({reason.subject}): {reason.found}{taken}")
    shown = shown_claim(got.claim)
    handoff = got.recovered.handoff_with(lambda text: door.pasted(text, shown))
    say_entry(handoff)
    say_contract(handoff, got.recovered.evidence)
    say(f"claimed: {got.claim.id}, until {at(got.claim.expires_at)}; every use renews it", "green")
    say(f"in another terminal or a script show it: export {CLAIM}={got.claim.id}")
    if got.command:
        say(f"continue: {door.pasted(got.command, shown)}")
    say(f"when it is done: {door.about(('task', 'complete'), got.task, *(('--claim-id', shown) if shown else ()))}")


@command("complete")
@task_argument()
@click.option("--ack", "acknowledged", multiple=True, metavar="TEXT", help="A must in prose, word for word; repeat.")
@click.option("--missing", multiple=True, metavar="TEXT", help="What the handoff lacked; repeat.")
@click.option("--evidence", multiple=True, metavar="JSON", help="What came of a check, or @FILE; repeat.")
@click.option("--override", default="", metavar="WHY", help="Why it counts as completed all the same.")
@click.option("-m", "--note", default="", metavar="TEXT", help="What else there is to say.")
@click.option("--no-checks", is_flag=True, help="Run no checks; those on record must do.")
@agree_option
@repo_option
@claim_id_option
@operation_option
@actor_option
def complete(door: Door, task_id: str, evidence: tuple[str, ...], no_checks: bool, **given: Any) -> int:
    """Say that TASK is done: its checks are run and must pass, and no run of it may be unfinished.

    Without a handoff a run of it must have succeeded since it was opened. --override says why it counts all the same.
    """
    from outlast.values.codec import jsonable

    said = objects(evidence, "--evidence")
    with door.open() as outlast, checks_shown(door, outlast):
        session = _session(outlast, task_id, given)
        done = session.complete_task(said, run_checks=not no_checks, **given)
    if door.json:
        emit_exactly(jsonable(done))
    else:
        _say_completed(door, done)
    return 0


def _say_completed(door: Door, done: TaskCompleted) -> None:
    from outlast.doors.cli.handoff.views import outcome_of
    from outlast.handoffs.verdict import label_of

    say(f"task {done.task} {'was completed already' if done.replayed else 'completed'} by {done.by}", "green")
    for each in done.settlement.evidence if done.settlement else ():
        say(f"  {label_of(each.check)}: {outcome_of(each)}")
    if done.shown_by:
        say(f"shown by run {done.shown_by}")
    if done.override:
        say(f"overridden: {done.override}", "yellow")
    for note in done.notes:
        say(note, "yellow")


@command("event")
@task_argument()
@click.argument("name", metavar="NAME")
@click.argument("body", metavar="[JSON]", required=False)
@operation_option
@actor_option
def event(door: Door, task_id: str, name: str, body: str | None, operation_id: str | None, actor: str | None) -> int:
    """Record that NAME happened to TASK, with a JSON value or @FILE: durable, in order, never edited."""
    from outlast.values.codec import jsonable

    value = _value(body) if body is not None else None
    with door.open() as outlast:
        recorded = outlast.tasks.session(task_id, actor=actor).record_event(name, value, operation_id=operation_id)
    if door.json:
        emit_exactly(jsonable(recorded))
    else:
        what = "was recorded already" if recorded.replayed else "recorded"
        masked = f", {recorded.masked} masked" if recorded.masked else ""
        say(f"event {recorded.task}/{recorded.seq} {what}{masked}", "green")
    return 0


def _value(text: str) -> Any:
    """One JSON value, from the command line or a file."""
    import json

    from outlast.doors.cli.handoff.store import content

    try:
        return json.loads(content(text, "JSON"))
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"JSON: it is no JSON: {error}") from error
