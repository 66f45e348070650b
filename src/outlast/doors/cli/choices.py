"""What a person decides about a run: retry, skip, rewind, abort, pause. One call each, and how to go on.

`outlast fork`: another run from a chosen step of one, with what is to be different in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli.completion import run_argument, step_argument
from outlast.doors.cli.door import Door, command
from outlast.doors.cli.render import emit, say
from outlast.errors import RepeatsEffects

if TYPE_CHECKING:
    from outlast import Outlast, RunRecord


WHY_HELP = "Why; it is on the record."

go_on = click.option("--resume", is_flag=True, help="Go on with the run at once.")


@command("retry")
@run_argument()
@step_argument()
@click.option("--why", default="", metavar="WHY", help=WHY_HELP)
@go_on
def retry(door: Door, run_id: str, step: str, why: str, resume: bool) -> int:
    """Let the next resume try STEP again, also an effect in doubt."""
    with door.open() as outlast:
        return decided(door, outlast, outlast.retry(run_id, step, why=why), f"{step} will be tried again", resume)


@command("skip")
@run_argument()
@step_argument()
@click.option("--result", required=True, metavar="JSON", help="What the step is taken to have returned (null is one).")
@click.option("--why", required=True, metavar="WHY", help=WHY_HELP)
@go_on
def skip(door: Door, run_id: str, step: str, result: str, why: str, resume: bool) -> int:
    """Let the next resume take a result for STEP without running it."""
    taken = _json("--result", result)
    with door.open() as outlast:
        run = outlast.skip(run_id, step, result=taken, why=why)
        return decided(door, outlast, run, f"{step} will not run: {result} is taken", resume)


@command("rewind")
@run_argument()
@step_argument()
@click.option("--why", default="", metavar="WHY", help=WHY_HELP)
def rewind(door: Door, run_id: str, step: str, why: str) -> int:
    """Let the next resume do STEP and all after it again.

    Effects are kept: with equal inputs they are reused, not repeated.
    """
    with door.open() as outlast:
        run = outlast.rewind(run_id, step, why=why)
        return decided(door, outlast, run, f"{step} and all after it will be done again")


@command("abort")
@run_argument()
@click.option("--why", required=True, metavar="WHY", help=WHY_HELP)
def abort(door: Door, run_id: str, why: str) -> int:
    """Give a run up, now, whoever holds it. It cannot be resumed."""
    with door.open() as outlast:
        return decided(door, outlast, outlast.abort(run_id, why=why), "given up; nothing of it can be resumed")


@command("pause")
@run_argument()
def pause(door: Door, run_id: str) -> int:
    """Ask a running run to stop at its next step; it ends interrupted."""
    with door.open() as outlast:
        run = outlast.pause(run_id)
        if door.json:
            return decided(door, outlast, run, "")
        say(f"run {run.id}: asked to stop at its next step")
        say(f"see it stop: {door.command('events', run.id, '--follow')}")
        say(f"then continue: {door.command('resume', run.id)}")
        return 0


def _json(what: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        hint = f"; for text write '\"{text}\"'" if text.isprintable() and '"' not in text else ""
        raise click.UsageError(f"{what} {text!r} is not JSON ({error}){hint}") from error


def decided(door: Door, outlast: Outlast, run: RunRecord, what: str, resume: bool = False) -> int:
    """Say what was decided and how to go on; with `resume`, go on."""
    if resume and not run.finished:
        from outlast.doors.cli.run import resume_now

        return resume_now(door, outlast, top_of(outlast, run).id)
    if door.json:
        from outlast.values.codec import jsonable

        emit(jsonable(run))
        return 0
    say(f"run {run.id}: {what}")
    if not run.finished:
        say(how_it_goes_on(door, top_of(outlast, run)))
    return 0


def how_it_goes_on(door: Door, run: RunRecord) -> str:
    """What becomes of a run about which something was decided."""
    if run.status == "running":  # a resume would be refused
        return f"it is run by {run.holder}: it goes on there, or with the next tick"
    return f"continue: {door.command('resume', run.id)}"


def top_of(outlast: Outlast, run: RunRecord) -> RunRecord:
    """The run itself, or the one above that it goes on with."""
    while run.parent:
        run = outlast.get(run.parent)
    return run


@command("fork")
@run_argument()
@click.option("--from", "step", required=True, metavar="STEP", help="The step from which on it goes its own way.")
@click.argument("inputs", nargs=-1, metavar="[NAME=VALUE …]")
@click.option("--state", multiple=True, metavar="NAME=VALUE", help="State at that step, as JSON or text. Repeatable.")
@click.option("--reuse-effects", is_flag=True, help="Keep the results of effects at that step and after it.")
@click.option("--yes", is_flag=True, help="Effects that were done there may happen again.")
@click.option("--effects", default="", metavar="NAME,…", help="The same for these effects only.")
@click.option("--why", default="", metavar="WHY", help=WHY_HELP)
@click.option("--operation-id", metavar="ID", help="The same id again gives the fork that it made.")
@go_on
def fork(
    door: Door,
    run_id: str,
    step: str,
    inputs: Sequence[str],
    state: Sequence[str],
    reuse_effects: bool,
    yes: bool,
    effects: str,
    why: str,
    operation_id: str | None,
    resume: bool,
) -> int:
    """Make another run that takes over what RUN did before STEP, and does the rest anew.

    RUN may have finished; it stays as it is. Inputs and state that are named are other ones from STEP on, and the code
    is the one that is there when the fork is resumed. Effects that it would do again are asked about.

    \b
      outlast fork RUN --from draft tone=stern --resume
    """
    named = [name.strip() for name in effects.split(",") if name.strip()]
    with door.open() as outlast:
        known = outlast.get(run_id)
        given: dict[str, Any] = {
            "inputs": {name: _value(value, known.inputs.get(name)) for name, value in _pairs("NAME=VALUE", inputs)},
            "state": {name: _value(value) for name, value in _pairs("--state", state)},
            **{"reuse_effects": reuse_effects, "yes": yes, "why": why, "operation_id": operation_id},
        }
        made = _forked(door, outlast, known.id, step, given, named)
        what = f"forked as run {made.id} (task {made.task}) from {step}"
        return decided(door, outlast, made, f"{what} of run {known.id}", resume)


def _forked(
    door: Door, outlast: Outlast, run_id: str, step: str, given: Mapping[str, Any], named: Sequence[str]
) -> RunRecord:
    """On a terminal a person is asked about effects that would be repeated, for as long as there are others."""
    from outlast.doors.cli.ask import can_ask, may_repeat

    given, effects = dict(given), list(named)
    while True:
        try:
            return outlast.fork(run_id, step, effects=effects, **given)
        except RepeatsEffects as error:
            if not can_ask(door) or not may_repeat(error):
                raise
            found = [effect["step"] for effect in error.effects]
            effects, given["yes"] = [*effects, *found], not all(found)


def _pairs(what: str, words: Sequence[str]) -> list[tuple[str, str]]:
    found: dict[str, str] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or not name:
            raise click.UsageError(f"{what}: {word!r} is not name=value")
        if name in found:
            raise click.UsageError(f"{what}: {name} is given twice")
        found[name] = value
    return list(found.items())


def _value(text: str, before: Any = None) -> Any:
    """A value: text in place of text; else JSON, or text where it is none."""
    if isinstance(before, str):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
