"""`outlast handoff store` and `lint`: a contract for whoever continues, and what would make it better."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli.door import Door, command
from outlast.doors.cli.exits import REFUSED
from outlast.doors.cli.handoff.fields import GIVEN_TO_STORE, fields_of, fields_options, files_of
from outlast.doors.cli.handoff.names import command_for, revision_of
from outlast.doors.cli.render import emit, emit_exactly, facts, say
from outlast.errors import HomeNotFound

if TYPE_CHECKING:
    from outlast.handoffs.handoff import Handoff, Lint


@command("store")
@fields_options
@click.option("--expect", "expected_revision", type=click.IntRange(0), metavar="N", help="Only if N is the newest.")
@click.option("--baseline", is_flag=True, help="Run the checks now, and record what came of them.")
@click.option("--strict", is_flag=True, help="Refuse a weak handoff.")
@click.option("--redact", is_flag=True, help="Mask secrets instead of refusing them.")
@click.option("--no-bind", is_flag=True, help="Look at no file.")
@click.option("--claim-id", metavar="ID", help="Show the claim under which it is stored.")
@click.option("--operation-id", metavar="ID", help="The same one again stores nothing twice.")
@click.option("--actor", metavar="NAME", help="Who stores it [local].")
def store(door: Door, baseline: bool, strict: bool, redact: bool, no_bind: bool, **given: Any) -> int:
    """Store the next revision of a handoff under ANCHOR, durable when this returns.

    Files are named from the current folder. --file, --check and the musts may be repeated; of --check and the musts
    a JSON object is taken as the object form: '{"run": "make", "cwd": "ui"}', '{"file": "a.py", "contains": "x"}'.
    """
    from outlast.doors.cli.handoff.checks import checks_shown
    from outlast.handoffs.reading import handoff_in_order

    fields = _whole(fields_of(given))
    said = {name: given.get(name) for name in (*GIVEN_TO_STORE, "claim_id")} | {"scope": door.scope}
    fields |= {name: value for name, value in said.items() if value is not None}
    options: dict[str, Any] = {"strict": strict, "redact": redact, "bind": not no_bind, "baseline": baseline}
    with door.open(make=True) as outlast:
        fields |= files_of(outlast.handoff, given, fields.get("repo_root"))
        with checks_shown(door, outlast):
            stored = outlast.handoff.store(**fields, **options)
    if door.json:
        emit_exactly(handoff_in_order(stored))
    else:
        _say_stored(door, stored)
    return 0


def _whole(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields, if those are there that every handoff has."""
    if "anchor" not in fields:
        raise click.UsageError("ANCHOR is missing: the name that the handoff is recovered by")
    if "summary" not in fields:
        raise click.UsageError("-m TEXT is missing: what this is about, in a sentence")
    if "handoff_text" not in fields:
        ways = "--next TEXT, --text TEXT, --text @FILE, or --text - for standard input"
        raise click.UsageError(f"nothing says how to go on: {ways}")
    for name in ("operation_id", "tenant_id"):
        if not isinstance(fields.get(name), str | None):
            raise click.UsageError(f"--from: {name} is no text")
    return fields


def _say_stored(door: Door, stored: Handoff) -> None:
    from outlast.doors.cli.handoff.views import bound_to, outcome_of, say_lint
    from outlast.handoffs.difference import not_kept
    from outlast.handoffs.verdict import label_of

    what = "was stored already" if stored.replayed else "stored"
    say(f"{stored.anchor}@{stored.revision} {what}" + (", opened again" if stored.reopened else ""), "green")
    say_lint(stored.lint)
    bound = [("bound to", bound_to(stored.binding)), ("not kept", not_kept(stored.binding))]
    facts([("id", stored.id), *bound, ("masked", ", ".join(stored.masked))])
    for each in stored.baseline:
        say(f"check {label_of(each.check)}: {outcome_of(each)}")
    if stored.rival:
        say(f"{stored.rival} holds the claim: whoever recovers this is told that it rivals that work", "yellow")
    there = door if stored.scope == "default" else replace(door, scope=stored.scope)
    say(f"recover it: {command_for(there, 'recover', stored.anchor)}")


@command("lint")
@fields_options
def lint(door: Door, **given: Any) -> int:
    """What would make a handoff better, with better wordings. Nothing is stored.

    With ANCHOR alone: of the handoff stored there. Exits 4 when it is weak.
    """
    from outlast.doors.cli.handoff.views import say_lint
    from outlast.values.codec import jsonable

    found = _lint_stored(door, given["anchor"]) if _is_alone(given) else _lint_given(door, given)
    if door.json:
        emit(jsonable(found))
    else:
        say_lint(found)
    return REFUSED if found.weak else 0


def _is_alone(given: dict[str, Any]) -> bool:
    return given["anchor"] is not None and not any(value for name, value in given.items() if name != "anchor")


def _lint_stored(door: Door, word: str) -> Lint:
    with door.open() as outlast:
        anchor, revision = revision_of(outlast, word)
        return outlast.handoff.get(anchor=anchor, revision=revision).lint


def _lint_given(door: Door, given: dict[str, Any]) -> Lint:
    """Of fields, which need no home: without one, files are called as they are."""
    from outlast.handoffs.contract import draft_of
    from outlast.handoffs.lint import lint

    fields = fields_of(given)
    with _home(door) as outlast:
        fields |= files_of(outlast.handoff if outlast else None, given, fields.get("repo_root"))
    return lint(draft_of(**{name: value for name, value in fields.items() if name not in GIVEN_TO_STORE}))


def _home(door: Door) -> Any:
    try:
        return door.open()
    except HomeNotFound:
        return nullcontext()
