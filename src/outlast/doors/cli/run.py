"""`outlast run` and `outlast resume`: going on, and how the run stands afterwards."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli import late
from outlast.doors.cli.ask import can_ask, decide, decide_crashed, pick, repeating
from outlast.doors.cli.entry import REFUSED, USAGE, WAITING, is_declined
from outlast.doors.cli.invocation import Invocation, command
from outlast.doors.cli.options import content, effects_option, names_in, parsed, raw_option, refuse_if, run_argument
from outlast.doors.cli.outcomes import say_dry_run, say_kept, say_next, say_outcome, say_plan
from outlast.doors.cli.progress import until_done as wait_here
from outlast.doors.cli.progress import watched
from outlast.doors.cli.render import at, emit, note, say, turned_away
from outlast.doors.cli.runs import say_runs
from outlast.doors.cli.waits import interrupted, mirror
from outlast.errors import OutlastError, RunFinished, RunHeld

if TYPE_CHECKING:
    from outlast import Outcome, Outlast, RunRecord
    from outlast.doors.cli.progress import Ended


until_done_option = click.option(
    "--until-done", is_flag=True, help="While the run waits for what time will end, wait here and go on with it."
)


@command("run", of="run_start")
@click.argument("flow", metavar="FLOW")
@click.argument("inputs", nargs=-1, metavar="[NAME=VALUE … | JSON | @FILE | -]")
@effects_option
@click.option("--queue", metavar="NAME", help="Leave it in this queue to a worker, and do not wait for it.")
@click.option(
    "--engine", type=click.Choice(["outlast", "temporal"]), help="Who takes it out of its queue [as the queue says]."
)
@click.option("--priority", default=0, help="In its queue, the larger goes first [0].")
@click.option("--delay", default="0", metavar="TIME", help="How long it stays in its queue at least, such as 10m.")
@click.option("--queue-timeout", default="0", metavar="TIME", help="It ends unless a worker took it within this time.")
@click.option("--wait", is_flag=True, help="While somebody else runs it, wait for its end; if he dies, go on with it.")
@click.option("--dry-run", is_flag=True, help="Only say what would run: of a new run, or of the one to continue.")
@until_done_option
@raw_option
def run(call: Invocation, flow: str, inputs: Sequence[str], dry_run: bool, until_done: bool, **asked: Any) -> int:
    """Run a flow; the same command after a crash continues the same run.

    With --task it happens once: after its success the same command gives the outcome.

    FLOW is `flow.yaml`, `module:name` or `file.py:name`; a file with one flow stands for it. Its inputs are words
    `name=value`, or one JSON object: as it is, from @FILE, or from standard input (-).

    \b
      outlast run build.yaml ticket=T-12
      outlast run report.py:daily_report topic=ai
      outlast run report.py:daily_report '{"topic": "ai"}'
    """
    try:
        with turned_away(call.json):
            found = late.named_flows.find_flow(flow, call.home, note)
    except late.named_flows.SeveralFlows as error:
        return _say_flows(call, flow, error)
    given = late.named_flows.inputs_of(found, inputs)
    if asked["meta"] is not None:
        asked["meta"] = parsed(content(asked["meta"], "--meta"), "--meta is not JSON")
    asked["effects"] = names_in(asked["effects"])
    times = {name: float(text) if (text := asked[name]).isdigit() else text for name in ("delay", "queue_timeout")}
    asked |= late.shared.check_options({"priority": asked["priority"], **times})
    begins_here = asked["queue"] is None and asked["engine"] in (None, "outlast")  # else it is left to a worker
    options = late.shared.Options(returns=begins_here, **asked)
    if dry_run:
        return say_dry_run(call, found, given, options, [flow, *inputs])
    with call.open(make=True) as outlast:
        if not options.returns:
            started = outlast._start(late.shared.FlowCall(found, (), given, options))
            if outlast.get(started.run_id).status == "queued":
                return _queue(call, outlast.get(started.run_id))
            return _go(call, outlast, started.outcome, until_done)

        def begin(effects: Sequence[str], yes: bool) -> int:
            agreed = late.structs.replace(options, effects=tuple(effects), yes=yes)
            return _go(call, outlast, partial(outlast._run, late.shared.FlowCall(found, (), given, agreed)), until_done)

        return repeating(call, begin, options.effects, options.yes)


def _queue(call: Invocation, run: RunRecord) -> int:
    """Say that a run waits in a queue, and whether nobody will take it."""
    if call.json:
        call.tell(late.outlast.Outcome(run.id, "queued"), queue=run.queue, held_up=run.held_up)
        return WAITING
    say(f"run {run.id} waits in the queue {run.queue}; see: {call.command('show', run.id)}")
    if run.held_up == "no_worker":
        say(f"no worker has its flow; start one: {call.worker_for(run)}", "yellow")
    return WAITING


def _say_flows(call: Invocation, place: str, error: OutlastError) -> int:
    """The flows of a file that has several, each with its inputs and the command that runs it."""
    if call.json:
        emit({"error": error.to_dict()})
        return USAGE
    note(f"error: {error.detail}; name one of them [{error.code}]")
    for name, flow in late.named_flows.flows_in(place, *late.named_flows.folders_of(call.home, note)).items():
        words = late.named_flows.inputs_line(flow)
        say(f"  {call.command('run', f'{place}:{name}')}{f' {words}' if words else ''}")
        if about := (flow.__doc__ or "").strip().partition("\n")[0]:
            say(f"      {about}", "dim")
    return USAGE


@command("resume", of="run_resume", without=("wait",))
@run_argument(metavar="[RUN]", required=False)
@click.option("--from", "start", metavar="STEP", help="Do STEP and all after it again: rewind to it, then go on.")
@click.option("--dry-run", is_flag=True, help="Only say what resuming would do, and how far to trust what is there.")
@until_done_option
@raw_option
def resume(call: Invocation, run_id: str | None, start: str | None, dry_run: bool, until_done: bool, **how: Any) -> int:
    """Continue a run that was stopped, crashed, failed or waits.

    Without RUN: the one that can go on, or a list to choose from (exit 2). On a terminal it asks what to do where
    only a person can choose; in a script it prints the commands.
    """
    accept, partial, take, why = how["accept"], how["partial"], how["take"], how["why"]
    is_silent = not why.strip()
    refuse_if(accept and is_silent, "--accept needs --why: say why you accept it; it is on the record")
    refuse_if(take and is_silent, "--take needs --why: say why you take it from who holds it; it is on the record")
    refuse_if(take and not run_id, "--take needs a RUN: name the one that you take")
    refuse_if(take and dry_run, "--take changes the run, --dry-run must not; give one of them")
    refuse_if(how["flow"] is not None and dry_run, "--flow goes on with the run, --dry-run must not; give one of them")
    with call.open() as outlast:
        chosen = outlast.get(run_id, state=False).id if run_id else _choose(call, outlast)
        if not chosen:
            return USAGE
        run = outlast.get(chosen, state=False)
        if is_declined(run.status, run.error):
            return say_outcome(call, interrupted(outlast, chosen))
        if dry_run:
            plan = outlast.plan(chosen, from_step=start, accept=accept, partial=partial)
            asked = _words(start, accept, partial, why)
            return say_plan(call, outlast.get(chosen), plan, outlast.interrupts(chosen), asked)
        how["flow"] = _flow_given(call, outlast, chosen, how["flow"])
        if start is not None:
            say_kept(outlast, outlast.rewind(chosen, start, why=why or f"resume --from {start}"))
        elif partial is None and not take and (code := _asked_first(call, outlast, chosen)) is not None:
            return code
        return resume_now(call, outlast, chosen, until_done, **how)


def _words(start: str | None, accept: Sequence[str], partial: str | None, why: str) -> list[str]:
    """The options of a resume that change what it does, as they were given."""
    given = [("--from", start), *(("--accept", code) for code in accept), ("--partial", partial), ("--why", why)]
    return [word for name, value in given if value for word in (name, value)]


def _asked_first(call: Invocation, outlast: Outlast, run_id: str) -> int | None:
    """On a terminal: what becomes of the steps that a process died in. The exit code, if the run does not go on now."""
    if not can_ask(call) or outlast.get(run_id, state=False).status != "crashed":
        return None
    decided = decide_crashed(outlast, run_id)
    run = outlast.get(run_id)
    if run.finished:
        return say_outcome(call, interrupted(outlast, run_id))
    if decided:
        return None
    say_next(call, run, outlast.plan(run_id), tuple(outlast.interrupts(run_id)))
    return REFUSED


def _flow_given(call: Invocation, outlast: Outlast, run_id: str, name: str | None) -> Any:
    """The flow that `--flow` names; of a file of Python without a name, the one that the run is of."""
    if name is None or late.shared.url_of(call.home):
        return name
    whole = f"{name}:{outlast.get(run_id, state=False).source.rpartition(':')[2]}" if name.endswith(".py") else name
    with turned_away(call.json):
        return late.named_flows.find_flow(whole, call.home, note)


def resume_now(call: Invocation, outlast: Outlast, run_id: str, until_done: bool = False, **how: Any) -> int:
    """Go on with a run and render how it stands. On a terminal a person is asked what only a person can choose."""
    sys.path.insert(0, os.getcwd())  # where `run` found a module, `resume` from the same folder does too
    later = {name: value for name, value in how.items() if name != "take"}  # it is taken once
    return _go(call, outlast, lambda: outlast.resume(run_id, **how), until_done, run_id, later)


def go_on_now(call: Invocation, outlast: Outlast, run_id: str) -> int:
    """The same of a run about which something was just decided: its server may have been quicker."""
    sys.path.insert(0, os.getcwd())
    return _go(call, outlast, lambda: resumed_or_awaited(outlast, run_id), False, run_id)


def resumed_or_awaited(outlast: Outlast, run_id: str) -> Outcome[Any]:
    """What a resume comes to; of a server that went on with it by itself, what came of that. Raises RunHeld."""
    try:
        return outlast.resume(run_id)
    except (RunHeld, RunFinished):
        if late.door.found_home(outlast) is not None:
            raise
    return outlast.wait(run_id)


def _go(
    call: Invocation,
    outlast: Outlast,
    work: Callable[[], Outcome[Any]],
    until_done: bool,
    run_id: str = "",
    how: Mapping[str, Any] | None = None,
) -> int:
    """Do `work`, go on with the run for as long as it can, and say how it stands."""

    def resume(found: str) -> Ended:
        return _gone_on(outcome_of(call, outlast, found, lambda: outlast.resume(found, **(how or {}))), resume)

    outlast._receive_when("printed")
    begun = _gone_on(outcome_of(call, outlast, run_id, work), resume)
    ended = _asked_on(call, outlast, begun, resume)
    if until_done:
        ended = wait_here(outlast, ended, resume, quiet=call.json, call=call)
    code = say_outcome(call, *ended)
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


def _asked_on(call: Invocation, outlast: Outlast, ended: Ended, resume: Callable[[str], Ended]) -> Ended:
    """On a terminal: for as long as the person there answers what the run waits for, go on with it."""
    outcome, signal = ended
    left: set[str] = set()
    while not signal and can_ask(call) and decide(outlast, outcome, left):
        if outlast.get(outcome.run_id, state=False).finished:
            return interrupted(outlast, outcome.run_id), 0
        outcome, signal = resume(outcome.run_id)
    return outcome, signal


def outcome_of(call: Invocation, outlast: Outlast, run_id: str, work: Callable[[], Outcome[Any]]) -> Ended:
    """How a run stands after `work`, watched meanwhile; and the signal that asked it to stop, or 0."""
    with turned_away(call.json):
        outcome, run_id, signal = watched(outlast, run_id, work, quiet=call.json)
    if outcome is None:
        outcome = interrupted(outlast, run_id)
    if outcome.run_id and not outcome.replayed:
        mirror(outlast, outcome.run_id)
    return outcome, signal


def _choose(call: Invocation, outlast: Outlast) -> str:
    """The one run that can go on. Else says what there is, and gives nothing."""
    found = [run for run in outlast.resumable() if call.scope in (None, run.scope)]
    if len(found) == 1:
        return found[0].id
    if found and can_ask(call):
        return pick(found)
    held = [] if found else _held(outlast, call.scope)
    why = "choose one: outlast resume RUN" if found else "no run of this home can be resumed; see `outlast runs`"
    if held:
        why = f"nothing waits to be resumed, and {_who_holds(call, held[0])}"
    if call.json:
        detail = "several runs can be resumed" if found else "no run can be resumed"
        error = {"code": "choose_one", "detail": detail, "advice": why, "path": None}
        emit({"error": error, "runs": found or held})
        return ""
    say_runs(found or held)
    note(f"error: {why} [choose_one]")
    return ""


def _held(outlast: Outlast, scope: str | None) -> list[RunRecord]:
    """The runs that somebody holds, the one that was taken up last first."""
    found = outlast.runs(status="running", limit=10_000)
    own = [run for run in found if not run.parent and scope in (None, run.scope)]
    return sorted(own, key=lambda run: run.updated_at, reverse=True)


def _who_holds(call: Invocation, run: RunRecord) -> str:
    """Who holds a run, since when, and how to take it from them."""
    how = call.command("resume", run.id, "--take", "--why", "WHY")
    return f"{run.holder} has run {run.id} since {at(run.updated_at)}; wait for it, or take it: {how}"
