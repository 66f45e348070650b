"""Looking at handoffs: the list, one as it was stored, the history of an anchor."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeVar

import click

from outlast.doors.cli.completion import anchor_argument, offer_runs, offer_steps
from outlast.doors.cli.door import Door, command
from outlast.doors.cli.handoff.names import command_for, revision_of
from outlast.doors.cli.render import (
    ago,
    as_json,
    at,
    brief,
    content_out,
    counted,
    emit,
    emit_exactly,
    facts,
    say,
    say_all,
    table,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from outlast import Outlast
    from outlast.handoffs.compose import StepHandoff
    from outlast.handoffs.handoff import Handoff
    from outlast.handoffs.recovered import HandoffEvent, Listed

T = TypeVar("T", bound="Callable[..., Any]")
HEADS = ("ANCHOR", "STANDING", "REV", "SCORE", "OUTCOME", "HOLDER", "AGE", "NEXT ACTION")
UNSHOWN = ("claim", "files", "fingerprint")  # whoever has the whole id of a claim may use it


def _standing(name: str, text: str) -> Callable[[T], T]:
    return click.option(f"--{name}", "standing", flag_value=name, help=text)


@command("list")
@_standing("open", "Only those that nobody works on.")
@_standing("claimed", "Only those that somebody holds.")
@_standing("contested", "Only those that something contests here and now; this looks at the files.")
@_standing("finished", "Only those whose work was completed.")
@_standing("expired", "Only stale ones.")
@click.option("--look", is_flag=True, help="Judge each here and now.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 10_000), help="How many at most.")
def list_(door: Door, standing: Any, look: bool, limit: int) -> int:
    """List what unfinished runs left, then the newest handoffs."""
    with door.open() as outlast:
        found = outlast.handoff.list(standing, limit=limit, look=look)
    if door.json:
        emit({"handoffs": [_listed_json(door, one) for one in found]})
    elif found:
        _say_listed(door, found)
    elif standing:
        say(f"no {standing} handoffs; see `{door.command('handoff', 'list')}`")
    else:
        say("no handoffs yet; store one: outlast handoff store ANCHOR -m SUMMARY --next ACTION --file FILE --check CMD")
    return 0


def _listed_json(door: Door, one: Listed) -> dict[str, Any]:
    from outlast.values.codec import jsonable

    return {**jsonable(one), "verdict": door.advised(one.verdict)}


def _say_listed(door: Door, found: Sequence[Listed]) -> None:
    judged = any(one.verdict for one in found)
    heads = [*HEADS[:2], *["VERDICT"] * judged, *HEADS[2:]]
    table(heads, [_row(one, judged) for one in found])
    if sys.stdout.isatty():
        say(f"one of them: {door.command('handoff', 'recover', 'ANCHOR')}", "dim")


def _row(one: Listed, judged: bool) -> Sequence[object]:
    verdict = [one.verdict.word if one.verdict else ""] * judged
    told = (one.revision, one.score, one.outcome, brief(one.holder, 40), ago(one.stored_at))
    return brief(one.anchor, 60), one.standing, *verdict, *told, brief(one.next_action or one.summary, 60)


@command("show")
@anchor_argument("[ANCHOR[@N]]", required=False)
@click.option("--id", "handoff_id", metavar="ID", help="The handoff of this id, instead of ANCHOR.")
@click.option("--run", "run_id", metavar="RUN", shell_complete=offer_runs, help="What a step of this run hands over.")
@click.option("--step", metavar="STEP", shell_complete=offer_steps, help="That step.")
@click.option("--output", type=click.IntRange(1), metavar="N", help="All that its Nth check printed the last time.")
def show(
    door: Door, anchor: str | None, handoff_id: str | None, run_id: str | None, step: str | None, output: int | None
) -> int:
    """A revision exactly as it was stored, without looking at anything; or what a step of a run hands over."""
    if (run_id is None) != (step is None):
        raise click.UsageError("--run and --step go together")
    if sum(name is not None for name in (anchor, handoff_id, run_id)) != 1:
        raise click.UsageError("give one of ANCHOR, --id ID, and --run RUN --step STEP")
    if output is not None and run_id is not None:
        raise click.UsageError("--output is of a handoff's check; give ANCHOR or --id ID")
    with door.open() as outlast:
        if run_id is not None and step is not None:
            return _show_step(door, outlast.handoff.step(run_id, step))
        if anchor is not None:
            anchor, revision = revision_of(outlast, anchor)
            handoff = outlast.handoff.get(anchor=anchor, revision=revision)
        else:
            handoff = outlast.handoff.get(handoff_id)
        return _show(door, handoff) if output is None else _show_output(door, outlast, handoff, output)


def _show_output(door: Door, outlast: Outlast, handoff: Handoff, number: int) -> int:
    """All that a check of the revision printed when it was last run."""
    from outlast.doors.cli.handoff.checks import recorded_of
    from outlast.values.codec import jsonable

    checks = handoff.acceptance_checks
    if number > len(checks):
        raise click.UsageError(f"{handoff.anchor!r} has {counted(len(checks), 'check')}; --output names one of them")
    known = [each for each in (*handoff.baseline, *recorded_of(outlast, handoff)) if each.check == checks[number - 1]]
    ran = [each for each in known if each.runner != "self"]
    if not ran:
        way = command_for(door, "verify", handoff.anchor)
        raise click.UsageError(f"check {number} of {handoff.anchor!r} was not run here yet; run it: {way}")
    printed = outlast.handoff.output(ran[-1])
    if door.json:
        emit(jsonable(ran[-1]) | {"printed": printed.decode("utf-8", "replace")})
    elif sys.stdout.isatty():
        say_all(printed.decode("utf-8", "replace"))
    else:
        content_out().write(printed)
    return 0


def _show(door: Door, handoff: Handoff) -> int:
    from outlast.doors.cli.handoff.views import say_contract, say_entry, say_findings, say_record
    from outlast.handoffs.reading import handoff_in_order

    if door.json:
        emit_exactly(handoff_in_order(handoff))
        return 0
    say_entry(handoff)
    say_contract(handoff)
    say_record(handoff)
    say_findings(handoff.lint)
    say(f"with its verdict: {command_for(door, 'recover', handoff.anchor)}")
    return 0


def _show_step(door: Door, given: StepHandoff) -> int:
    from outlast.values.codec import jsonable

    value = jsonable(given)
    if door.json:
        emit(value)
        return 0
    texts = [(name, each) for name, each in value.items() if isinstance(each, str) and "\n" not in each]
    facts(texts)
    for name, each in value.items():
        if each in (None, "", (), [], {}) or (name, each) in texts:
            continue
        if isinstance(each, str):
            say(f"{name}:")
            say_all(each, "  ")
        else:
            say(f"{name}: {as_json(each)}")
    return 0


@command("history")
@anchor_argument()
def history(door: Door, anchor: str) -> int:
    """Everything that happened under an anchor, oldest first."""
    from outlast.values.codec import jsonable

    with door.open() as outlast:
        found = outlast.handoff.history(anchor)
    if door.json:
        emit({"anchor": anchor, "history": jsonable(found)})
    else:
        table(("SEQ", "WHEN", "EVENT", "BY", "WHAT"), [_event_row(event) for event in found])
    return 0


def _event_row(event: HandoffEvent) -> Sequence[object]:
    return event.seq, at(event.at), event.kind, _who(event), brief(_told(event), 100)


def _who(event: HandoffEvent) -> str:
    """Who did it, from which host, by which door."""
    return f"{event.by}@{event.host} ({event.door})" if event.door else event.by


def _told(event: HandoffEvent) -> str:
    """What an event carries, in words."""
    body = event.body
    if event.kind == "stored":
        return f"revision {body['revision']}, score {body['score']}: {body['summary']}"
    if event.kind == "checked":
        return "; ".join(_evidence(each) for each in body["evidence"])
    if event.kind == "settled":
        said = [*(f"lacked: {each}" for each in body["missing"]), *filter(None, (body["override"], body["note"]))]
        return "; ".join([body["outcome"], *said])
    kept = {name: value for name, value in body.items() if name not in UNSHOWN and value not in ("", None, [])}
    if "reasons" in kept:
        kept["reasons"] = ", ".join(_reason(each) for each in kept["reasons"])
    return ", ".join(f"{name}: {value}" for name, value in kept.items())


def _evidence(given: dict[str, Any]) -> str:
    from outlast.handoffs.verdict import label_of

    said = {"client": f", says client {given['by']}@{given['where']}", "self": f", says {given['by']}"}
    return f"{label_of(given['check'])} {'passed' if given['passed'] else 'failed'}{said.get(given['runner'], '')}"


def _reason(given: Any) -> str:
    return f"{given['code']}:{given['subject']}" if isinstance(given, dict) else str(given)
