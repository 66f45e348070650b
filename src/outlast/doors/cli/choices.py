"""What a person decides about a run: retry, skip, rewind, abort, pause. One call each, and how to go on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli.completion import run_argument, step_argument
from outlast.doors.cli.door import Door, command
from outlast.doors.cli.render import emit, say

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
