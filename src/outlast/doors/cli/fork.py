"""`outlast fork`: another run from a chosen step of one, with what is to be different in it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli.choices import WHY_HELP, decided, go_on
from outlast.doors.cli.completion import run_argument
from outlast.doors.cli.door import Door, command
from outlast.errors import RepeatsEffects

if TYPE_CHECKING:
    from outlast import Outlast, RunRecord


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
    from outlast.doors.cli.asking import can_ask, may_repeat

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
