"""What a person decides about a run: retry, skip, rewind, answer, abort. One call each, and how to go on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.door import Door, command
from holdfast.cli.render import emit, say

if TYPE_CHECKING:
    from holdfast import RunRecord

WHY_HELP = "Why; it is on the record."


@command("retry")
@click.argument("run_id", metavar="RUN")
@click.argument("step", metavar="STEP")
@click.option("--why", default="", metavar="WHY", help=WHY_HELP)
def retry(door: Door, run_id: str, step: str, why: str) -> int:
    """Let the next resume try STEP again, also an effect in doubt."""
    with door.open() as hold:
        return _decided(door, hold.retry(run_id, step, why=why), f"{step} will be tried again")


@command("skip")
@click.argument("run_id", metavar="RUN")
@click.argument("step", metavar="STEP")
@click.option("--result", required=True, metavar="JSON", help="What the step is taken to have returned (null is one).")
@click.option("--why", required=True, metavar="WHY", help=WHY_HELP)
def skip(door: Door, run_id: str, step: str, result: str, why: str) -> int:
    """Let the next resume take a result for STEP without running it."""
    taken = _json("--result", result)
    with door.open() as hold:
        return _decided(door, hold.skip(run_id, step, result=taken, why=why), f"{step} will not run: {result} is taken")


@command("rewind")
@click.argument("run_id", metavar="RUN")
@click.argument("step", metavar="STEP")
@click.option("--why", default="", metavar="WHY", help=WHY_HELP)
def rewind(door: Door, run_id: str, step: str, why: str) -> int:
    """Let the next resume do STEP and all after it again.

    Effects are kept: with equal inputs they are reused, not repeated.
    """
    with door.open() as hold:
        return _decided(door, hold.rewind(run_id, step, why=why), f"{step} and all after it will be done again")


@command("answer")
@click.argument("interrupt_id", metavar="ID")
@click.argument("given", metavar="JSON")
def answer(door: Door, interrupt_id: str, given: str) -> int:
    """Answer the wait ID. `holdfast show RUN` names the waits of a run."""
    parsed = _json("JSON", given)
    with door.open() as hold:
        wait = hold.answer(interrupt_id, parsed)
        return _decided(door, hold.get(wait.run_id), f"wait {wait.id} is answered")


@command("abort")
@click.argument("run_id", metavar="RUN")
@click.option("--why", required=True, metavar="WHY", help=WHY_HELP)
def abort(door: Door, run_id: str, why: str) -> int:
    """Give a run up, now, whoever holds it. It cannot be resumed."""
    with door.open() as hold:
        return _decided(door, hold.abort(run_id, why=why), "given up; nothing of it can be resumed")


def _json(what: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        hint = f"; for text write '\"{text}\"'" if text.isprintable() and '"' not in text else ""
        raise click.UsageError(f"{what} {text!r} is not JSON ({error}){hint}") from error


def _decided(door: Door, run: RunRecord, what: str) -> int:
    if door.json:
        from holdfast.domain.codec import jsonable

        emit(jsonable(run))
        return 0
    say(f"run {run.id}: {what}")
    if not run.finished:
        say(f"continue: {door.command('resume', run.id)}")
    return 0
