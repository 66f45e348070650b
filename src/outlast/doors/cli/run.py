"""`outlast run` and `outlast resume`: going on, and how the run stands afterwards."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli.completion import run_argument
from outlast.doors.cli.door import Door, command, raw_option
from outlast.doors.cli.exits import REFUSED, USAGE, is_declined
from outlast.errors import OutlastError, RepeatsEffects, RunFinished, RunHeld

if TYPE_CHECKING:
    from outlast import Outcome, Outlast, RunRecord
    from outlast.doors.cli.until import Ended
    from outlast.python.shared import Options


until_done_option = click.option(
    "--until-done", is_flag=True, help="While the run waits for what time will end, wait here and go on with it."
)


@command("run")
@click.argument("flow", metavar="FLOW")
@click.argument("inputs", nargs=-1, metavar="[NAME=VALUE … | JSON | @FILE | -]")
@click.option("--task", metavar="TASK", help="What is worked on [the flow's name and a digest of its inputs].")
@click.option("--fresh", is_flag=True, help="Give the task's unfinished run up and start anew.")
@click.option("--again", is_flag=True, help="Let a named task that has happened happen once more.")
@click.option("--yes", is_flag=True, help="With --again or --fresh: effects that were done may happen again.")
@click.option("--effects", default="", metavar="NAME,…", help="The same for these effects only.")
@click.option(
    "--operation-id", metavar="ID", help="The same id again gives the run that it began, whatever became of it."
)
@click.option("--wait", is_flag=True, help="While somebody else runs it, wait for its end; if he dies, go on with it.")
@click.option("--dry-run", is_flag=True, help="Only say what would run: of a new run, or of the one to continue.")
@until_done_option
@raw_option
def run(
    door: Door,
    flow: str,
    inputs: Sequence[str],
    task: str | None,
    fresh: bool,
    again: bool,
    yes: bool,
    effects: str,
    operation_id: str | None,
    wait: bool,
    dry_run: bool,
    until_done: bool,
) -> int:
    """Run a flow; the same command after a crash continues the same run.

    With --task it happens once: after its success the same command gives the outcome.

    FLOW is `flow.yaml`, `module:name` or `file.py:name`; a file with one flow stands for it. Its inputs are words
    `name=value`, or one JSON object: as it is, from @FILE, or from standard input (-).

    \b
      outlast run build.yaml ticket=T-12
      outlast run report.py:daily_report topic=ai
      outlast run report.py:daily_report '{"topic": "ai"}'
    """
    from outlast.doors.cli.inputs import SeveralFlows, find_flow, inputs_of
    from outlast.python.shared import Options

    try:
        with turned_away(door.json):
            found = find_flow(flow, door.home)
    except SeveralFlows as error:
        return _say_flows(door, flow, error)
    given = inputs_of(found, inputs)
    named = tuple(name.strip() for name in effects.split(",") if name.strip())
    repeats = Options(task, fresh, again=again, yes=yes, effects=named)
    options = replace(repeats, operation_id=operation_id, wait=wait, returns=True)
    if dry_run:
        from outlast.doors.cli.dry_run import say_dry_run

        return say_dry_run(door, found, given, options, [flow, *inputs])
    with door.open(make=True) as outlast:
        return _start(door, outlast, found, given, options, until_done)


def _say_flows(door: Door, place: str, error: OutlastError) -> int:
    """The flows of a file that has several, each with its inputs and the command that runs it."""
    from outlast.doors.cli.inputs import flows_in, folders_of, inputs_line
    from outlast.doors.cli.render import emit, note, say

    if door.json:
        emit({"error": error.to_dict()})
        return USAGE
    note(f"error: {error.detail}; name one of them [{error.code}]")
    for name, flow in flows_in(place, *folders_of(door.home)).items():
        words = inputs_line(flow)
        say(f"  {door.command('run', f'{place}:{name}')}{f' {words}' if words else ''}")
        if about := (flow.__doc__ or "").strip().partition("\n")[0]:
            say(f"      {about}", "dim")
    return USAGE


def _start(door: Door, outlast: Outlast, flow: Any, given: dict[str, Any], options: Options, until_done: bool) -> int:
    """Run it. On a terminal a person is asked about effects that would be repeated, for as long as there are others."""
    from outlast.doors.cli.ask import can_ask, may_repeat

    while True:
        try:
            return _go(door, outlast, partial(outlast._run, options, flow, (), given), until_done)
        except RepeatsEffects as error:
            if not can_ask(door) or not may_repeat(error):
                raise
            options = agreed(options, error)


def agreed(options: Options, error: RepeatsEffects) -> Options:
    """The same, with what was shown agreed to. What a removed run did has no name."""
    names = tuple(effect["step"] for effect in error.effects)
    return replace(options, effects=(*options.effects, *names), yes=not all(names))


@command("resume")
@run_argument("[RUN]", required=False)
@click.option("--from", "start", metavar="STEP", help="Do STEP and all after it again: rewind to it, then go on.")
@click.option(
    "--partial",
    type=click.Choice(["keep", "restore"]),
    help="What an unfinished attempt left in its declared files: keep it, or put the files back [as the flow says].",
)
@click.option("--accept", multiple=True, metavar="CODE[:SUBJECT]", help="Take a contested reason upon you. Repeatable.")
@click.option(
    "--take", is_flag=True, help="Take it from whoever holds it, who can write nothing any more; needs --why."
)
@click.option("--why", default="", metavar="WHY", help="Why you accept it, take it, or go back; it is on the record.")
@click.option(
    "--flow",
    metavar="PATH",
    help="Go on with this flow, wherever its code lies: `flow.yaml`, `file.py` or `module:name`; at a server, a name.",
)
@click.option("--dry-run", is_flag=True, help="Only say what resuming would do, and how far to trust what is there.")
@until_done_option
@raw_option
def resume(
    door: Door,
    run_id: str | None,
    start: str | None,
    partial: str | None,
    accept: Sequence[str],
    take: bool,
    why: str,
    flow: str | None,
    dry_run: bool,
    until_done: bool,
) -> int:
    """Continue a run that was stopped, crashed, failed or waits.

    Without RUN: the one that can go on, or a list to choose from (exit 2). On a terminal it asks what to do where
    only a person can choose; in a script it prints the commands.
    """
    if accept and not why.strip():
        raise click.UsageError("--accept needs --why: say why you accept it; it is on the record")
    if take and not why.strip():
        raise click.UsageError("--take needs --why: say why you take it from who holds it; it is on the record")
    if take and not run_id:
        raise click.UsageError("--take needs a RUN: name the one that you take")
    if take and dry_run:
        raise click.UsageError("--take changes the run, --dry-run must not; give one of them")
    if flow is not None and dry_run:
        raise click.UsageError("--flow goes on with the run, --dry-run must not; give one of them")
    with door.open() as outlast:
        chosen = outlast.get(run_id).id if run_id else _choose(door, outlast)
        if not chosen:
            return USAGE
        if _was_declined(outlast, chosen):
            from outlast.doors.cli.outcomes import say_outcome

            return say_outcome(door, interrupted(outlast, chosen))
        if dry_run:
            from outlast.doors.cli.plans import say_plan

            plan = outlast.plan(chosen, from_step=start, accept=accept, partial=partial)
            asked = _words(start, accept, partial, why)
            return say_plan(door, outlast.get(chosen), plan, outlast.interrupts(chosen), asked)
        given = _flow_given(door, outlast, chosen, flow)
        if start is not None:
            outlast.rewind(chosen, start, why=why or f"resume --from {start}")
        elif partial is None and not take and (code := _asked_first(door, outlast, chosen)) is not None:
            return code
        how = {"accept": accept, "why": why, "partial": partial, "flow": given, "take": take}
        return resume_now(door, outlast, chosen, until_done, **how)


def _words(start: str | None, accept: Sequence[str], partial: str | None, why: str) -> list[str]:
    """The options of a resume that change what it does, as they were given."""
    given = [("--from", start), *(("--accept", code) for code in accept), ("--partial", partial), ("--why", why)]
    return [word for name, value in given if value for word in (name, value)]


def _asked_first(door: Door, outlast: Outlast, run_id: str) -> int | None:
    """On a terminal: what becomes of the steps that a process died in. The exit code, if the run does not go on now."""
    from outlast.doors.cli.ask import can_ask, decide_crashed
    from outlast.doors.cli.outcomes import say_outcome
    from outlast.doors.cli.plans import say_next

    if not can_ask(door) or outlast.get(run_id).status != "crashed":
        return None
    decided = decide_crashed(outlast, run_id)
    run = outlast.get(run_id)
    if run.finished:
        return say_outcome(door, interrupted(outlast, run_id))
    if decided:
        return None
    say_next(door, run, outlast.plan(run_id), tuple(outlast.interrupts(run_id)))
    return REFUSED


def _flow_given(door: Door, outlast: Outlast, run_id: str, name: str | None) -> Any:
    """The flow that `--flow` names; of a file of Python without a name, the one that the run is of."""
    from outlast.doors.cli.inputs import find_flow
    from outlast.python.shared import url_of

    if name is None or url_of(door.home):
        return name
    whole = f"{name}:{outlast.get(run_id).source.rpartition(':')[2]}" if name.endswith(".py") else name
    with turned_away(door.json):
        return find_flow(whole, door.home)


def _was_declined(outlast: Outlast, run_id: str) -> bool:
    run = outlast.get(run_id)
    return is_declined(run.status, run.error)


def resume_now(door: Door, outlast: Outlast, run_id: str, until_done: bool = False, **how: Any) -> int:
    """Go on with a run and render how it stands. On a terminal a person is asked what only a person can choose."""
    sys.path.insert(0, os.getcwd())  # where `run` found a module, `resume` from the same folder does too
    later = {name: value for name, value in how.items() if name != "take"}  # it is taken once
    return _go(door, outlast, lambda: outlast.resume(run_id, **how), until_done, run_id, later)


def _go(
    door: Door,
    outlast: Outlast,
    work: Callable[[], Outcome[Any]],
    until_done: bool,
    run_id: str = "",
    how: Mapping[str, Any] | None = None,
) -> int:
    """Do `work`, go on with the run for as long as it can, and say how it stands."""
    from outlast.doors.cli.outcomes import say_outcome
    from outlast.doors.cli.until import until_done as wait_here

    def resume(found: str) -> Ended:
        return _gone_on(outcome_of(door, outlast, found, lambda: outlast.resume(found, **(how or {}))), resume)

    outlast._receive_when("printed")
    begun = _gone_on(outcome_of(door, outlast, run_id, work), resume)
    ended = _asked_on(door, outlast, begun, resume)
    if until_done:
        ended = wait_here(outlast, ended, resume, quiet=door.json, door=door)
    code = say_outcome(door, *ended)
    sys.stdout.flush()
    outlast._receive(ended[0])
    return code


def _gone_on(ended: Ended, resume: Callable[[str], Ended]) -> Ended:
    """A run that waits for nothing any more goes on: others answered it while its branches were at work."""
    outcome, signal = ended
    if outcome.status == "waiting" and not (outcome.interrupts or signal):
        with suppress(RunHeld, RunFinished):  # whoever answered goes on with it
            return resume(outcome.run_id)
    return ended


def _asked_on(door: Door, outlast: Outlast, ended: Ended, resume: Callable[[str], Ended]) -> Ended:
    """On a terminal: for as long as the person there answers what the run waits for, go on with it."""
    from outlast.doors.cli.ask import can_ask, decide

    outcome, signal = ended
    left: set[str] = set()
    while not signal and can_ask(door) and decide(outlast, outcome, left):
        if outlast.get(outcome.run_id).finished:
            return interrupted(outlast, outcome.run_id), 0
        outcome, signal = resume(outcome.run_id)
    return outcome, signal


def outcome_of(door: Door, outlast: Outlast, run_id: str, work: Callable[[], Outcome[Any]]) -> Ended:
    """How a run stands after `work`, watched meanwhile; and the signal that asked it to stop, or 0."""
    from outlast.doors.cli.progress import watched

    with turned_away(door.json):
        outcome, run_id, signal = watched(outlast, run_id, work, quiet=door.json)
    if outcome is None:
        outcome = interrupted(outlast, run_id)
    if outcome.run_id and not outcome.replayed:
        mirror(outlast, outcome.run_id)
    return outcome, signal


def mirror(outlast: Outlast, run_id: str) -> None:
    """A run of Python code has its mirror when it stops; one of commands has had it all the time."""
    from outlast.doors.cli.render import note
    from outlast.errors import EmbeddedOnly, OutlastError
    from outlast.flows.loading import is_recipe

    try:
        if not is_recipe(outlast.get(run_id).flow):
            outlast.mirror(run_id)
    except EmbeddedOnly:
        return  # of a server it is where the server is
    except (OSError, OutlastError) as error:
        note(f"the mirror of run {run_id} could not be written: {error}; later: outlast export {run_id} --mirror")


def interrupted(outlast: Outlast, run_id: str) -> Outcome[Any]:
    """How a run stands that was ended from outside."""
    from outlast import Outcome

    found = outlast.get(run_id) if run_id else None
    return Outcome(run_id, found.status if found else "interrupted", error=found.error if found else None)


@contextmanager
def turned_away(wanted: bool) -> Iterator[None]:
    """With --json, what the flow and its processes print goes to stderr: stdout carries one object."""
    if not wanted:
        yield
        return
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def _choose(door: Door, outlast: Outlast) -> str:
    """The one run that can go on. Else says what there is, and gives nothing."""
    from outlast.doors.cli.ask import can_ask, pick
    from outlast.doors.cli.look import say_runs
    from outlast.doors.cli.render import emit, note

    found = candidates(outlast, door.scope)
    if len(found) == 1:
        return found[0].id
    if found and can_ask(door):
        return pick(found)
    held = [] if found else _held(outlast, door.scope)
    why = "choose one: outlast resume RUN" if found else "no run of this home can be resumed; see `outlast runs`"
    if held:
        why = f"nothing waits to be resumed, and {_who_holds(door, held[0])}"
    if door.json:
        from outlast.values.codec import jsonable

        detail = "several runs can be resumed" if found else "no run can be resumed"
        error = {"code": "choose_one", "detail": detail, "advice": why, "path": None}
        emit({"error": error, "runs": jsonable(found or held)})
        return ""
    say_runs(found or held)
    note(f"error: {why} [choose_one]")
    return ""


def _held(outlast: Outlast, scope: str | None) -> list[RunRecord]:
    """The runs that somebody holds, the one that was taken up last first."""
    found = outlast.runs(status="running", limit=10_000)
    own = [run for run in found if not run.parent and scope in (None, run.scope)]
    return sorted(own, key=lambda run: run.updated_at, reverse=True)


def _who_holds(door: Door, run: RunRecord) -> str:
    """Who holds a run, since when, and how to take it from them."""
    from outlast.doors.cli.render import at

    how = door.command("resume", run.id, "--take", "--why", "WHY")
    return f"{run.holder} has run {run.id} since {at(run.updated_at)}; wait for it, or take it: {how}"


def candidates(outlast: Outlast, scope: str | None) -> list[RunRecord]:
    """The runs that nobody finished and nobody holds here; a child goes on with its parent."""
    from outlast.runs.run import FINISHED, STATUSES

    unfinished = [status for status in STATUSES if status not in (*FINISHED, "running")]
    found = [run for status in unfinished for run in outlast.runs(status=status, limit=10_000)]
    own = [run for run in found if not (run.parent or run.seal) and scope in (None, run.scope)]
    return sorted(own, key=lambda run: run.updated_at, reverse=True)
