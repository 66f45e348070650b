"""What a person decides about a run: retry, skip, rewind, abort, pause. One call each, and how to go on.

`outlast fork`: another run from a chosen step of one, with what is to be different in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli import late
from outlast.doors.cli.ask import can_ask, may_repeat
from outlast.doors.cli.invocation import Invocation, command
from outlast.doors.cli.options import (
    effects_option,
    names_in,
    pairs_of,
    resume_option,
    run_argument,
    step_argument,
)
from outlast.doors.cli.outcomes import say_kept
from outlast.doors.cli.render import say
from outlast.doors.cli.run import go_on_now
from outlast.doors.cli.waits import top_of
from outlast.errors import RepeatsEffects

if TYPE_CHECKING:
    from outlast import Outlast, RunRecord


@command("retry", of="run_retry", without=("effects",))
@run_argument()
@step_argument()
@resume_option
def retry(call: Invocation, run_id: str, step: str, resume: bool, **given: Any) -> int:
    """Let the next resume try STEP again, also an effect in doubt."""
    with call.open() as outlast:
        return decided(call, outlast, outlast.retry(run_id, step, **given), f"{step} will be tried again", resume)


@command("skip", of="run_skip")
@run_argument()
@step_argument()
@resume_option
def skip(call: Invocation, run_id: str, step: str, result: str | None, resume: bool, **given: Any) -> int:
    """Let the next resume take a result for STEP without running it."""
    taken = None if result is None else _json("--result", result)
    with call.open() as outlast:
        run = outlast.skip(run_id, step, result=taken, **given)
        return decided(call, outlast, run, f"{step} will not run: {result or 'null'} is taken", resume)


@command("rewind", of="run_rewind")
@run_argument()
@step_argument()
def rewind(call: Invocation, run_id: str, step: str, **given: Any) -> int:
    """Let the next resume do STEP and all after it again.

    Effects are kept: with equal inputs they are reused, not repeated. So are runs of other flows that are over.
    """
    with call.open() as outlast:
        run = outlast.rewind(run_id, step, **given)
        say_kept(outlast, run)
        return decided(call, outlast, run, f"{step} and all after it will be done again")


@command("abort", of="run_abort")
@run_argument()
def abort(call: Invocation, run_id: str, **given: Any) -> int:
    """Give a run up, now, whoever holds it. It cannot be resumed."""
    with call.open() as outlast:
        return decided(call, outlast, outlast.abort(run_id, **given), "given up; nothing of it can be resumed")


@command("pause", of="run_pause")
@run_argument()
def pause(call: Invocation, run_id: str, operation_id: str | None) -> int:
    """Ask a running run to stop at its next step; it ends interrupted."""
    with call.open() as outlast:
        run = outlast.pause(run_id, operation_id=operation_id)
        if call.json:
            return decided(call, outlast, run, "")
        say(f"run {run.id}: asked to stop at its next step")
        say(f"see it stop: {call.command('events', run.id, '--follow')}")
        say(f"then continue: {call.command('resume', run.id)}")
        return 0


def _json(what: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        hint = f"; for text write '\"{text}\"'" if text.isprintable() and '"' not in text else ""
        raise click.UsageError(f"{what} {text!r} is not JSON ({error}){hint}") from error


def decided(call: Invocation, outlast: Outlast, run: RunRecord, what: str, resume: bool = False) -> int:
    """Say what was decided and how to go on; with `resume`, go on, unless an engine does."""
    top = top_of(outlast, run) if resume and not run.finished else None
    if top is not None and not top.engine:
        return go_on_now(call, outlast, top.id)
    if call.json:
        call.tell(run)
        return 0
    say(f"run {run.id}: {what}")
    if not run.finished:
        say(how_it_goes_on(call, top_of(outlast, run)))
    return 0


def how_it_goes_on(call: Invocation, run: RunRecord) -> str:
    """What becomes of a run about which something was decided."""
    if run.status == "running":  # a resume would be refused
        holder = "the server" if late.shared.url_of(call.home) else run.holder
        return f"it is run by {holder}: it goes on there, or with the next tick"
    if run.engine:
        return f"{run.engine} goes on with it, where a worker of it is: {call.worker_for(run)}"
    return f"continue: {call.command('resume', run.id)}"


@command("fork", of="run_fork")
@run_argument()
@click.argument("inputs", nargs=-1, metavar="[NAME=VALUE …]")
@click.option("--state", multiple=True, metavar="NAME=VALUE", help="State at that step, as JSON or text. Repeatable.")
@effects_option
@resume_option
def fork(
    call: Invocation,
    run_id: str,
    from_step: str,
    inputs: Sequence[str],
    state: Sequence[str],
    effects: str,
    resume: bool,
    **given: Any,
) -> int:
    """Make another run that takes over what RUN did before STEP, and does the rest anew.

    RUN may have finished; it stays as it is. Inputs and state that are named are other ones from STEP on, and the code
    is the one that is there when the fork is resumed. Effects that it would do again are asked about.

    \b
      outlast fork RUN --from draft tone=stern --resume
    """
    named = names_in(effects)
    with call.open() as outlast:
        known = outlast.get(run_id)
        given["inputs"] = {
            name: _value(value, known.inputs.get(name)) for name, value in pairs_of("NAME=VALUE", inputs).items()
        }
        given["state"] = {name: _value(value) for name, value in pairs_of("--state", state).items()}
        made = _forked(call, outlast, known.id, from_step, given, named)
        what = f"forked as run {made.id} (task {made.task}) from {from_step}"
        return decided(call, outlast, made, f"{what} of run {known.id}", resume)


def _forked(
    call: Invocation, outlast: Outlast, run_id: str, step: str, given: Mapping[str, Any], named: Sequence[str]
) -> RunRecord:
    """On a terminal a person is asked about effects that would be repeated, for as long as there are others."""
    given, effects = dict(given), list(named)
    while True:
        try:
            return outlast.fork(run_id, step, effects=effects, **given)
        except RepeatsEffects as error:
            if not can_ask(call) or not may_repeat(error):
                raise
            found = [effect["step"] for effect in error.effects]
            effects, given["yes"] = [*effects, *found], not all(found)


def _value(text: str, before: Any = None) -> Any:
    """A value: text in place of text; else JSON, or text where it is none."""
    if isinstance(before, str):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
