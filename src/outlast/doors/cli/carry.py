"""Looking at handoffs, and carrying them: the list, one as it was stored, the history of an anchor; what changed, its
work brought into a clone, and one as a file.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, TypeVar

import click

from outlast.doors.cli import late
from outlast.doors.cli.entry import REFUSED
from outlast.doors.cli.handoff import command_for, say_contract, say_entry, say_findings, say_record
from outlast.doors.cli.invocation import Invocation, command
from outlast.doors.cli.options import (
    anchor_argument,
    file_argument,
    offer_runs,
    offer_steps,
    refuse_if,
    repo_option,
    revision_of,
)
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

    from outlast import Applied, BundleArrived, Bundled, Evidence, Handoff, HandoffEvent, Listed, Outlast, StepHandoff


T = TypeVar("T", bound="Callable[..., Any]")
HEADS = ("ANCHOR", "STANDING", "REV", "SCORE", "OUTCOME", "HOLDER", "AGE", "NEXT ACTION")
UNSHOWN = ("claim", "files", "fingerprint")  # whoever has the whole id of a claim may use it


def _standing(name: str, text: str) -> Callable[[T], T]:
    return click.option(f"--{name}", "standing", flag_value=name, help=text)


@command("list", of="handoff_list", without=("cursor",))
@_standing("open", "Only those that nobody works on.")
@_standing("claimed", "Only those that somebody holds.")
@_standing("contested", "Only those that something contests here and now; this looks at the files.")
@_standing("finished", "Only those whose work was completed.")
@_standing("expired", "Only stale ones.")
def list_(call: Invocation, standing: Any, look: bool, limit: int) -> None:
    """List what unfinished runs left, then the newest handoffs."""
    with call.open() as outlast:
        found = outlast.handoff.list(standing, limit=limit, look=look)
    if call.json:
        call.tell([call.advised(one) for one in found])
    elif found:
        _say_listed(call, found)
    elif standing:
        say(f"no {standing} handoffs; see `{call.command('handoff', 'list')}`")
    else:
        say("no handoffs yet; store one: outlast handoff store ANCHOR -m SUMMARY --next ACTION --file FILE --check CMD")


def _say_listed(call: Invocation, found: Sequence[Listed]) -> None:
    judged = any(one.verdict for one in found)
    heads = [*HEADS[:2], *["VERDICT"] * judged, *HEADS[2:]]
    table(heads, [_row(one, judged) for one in found])
    if sys.stdout.isatty():
        say(f"one of them: {call.command('handoff', 'recover', 'ANCHOR')}", "dim")


def _row(one: Listed, judged: bool) -> Sequence[object]:
    verdict = [one.verdict.word if one.verdict else ""] * judged
    told = (one.revision, one.score, one.outcome, brief(one.holder, 40), ago(one.stored_at))
    return brief(one.anchor, 60), one.standing, *verdict, *told, brief(one.next_action or one.summary, 60)


@command("show")
@anchor_argument(metavar="[ANCHOR[@N]]", required=False)
@click.option("--id", "handoff_id", metavar="ID", help="The handoff of this id, instead of ANCHOR.")
@click.option("--run", "run_id", metavar="RUN", shell_complete=offer_runs, help="What a step of this run hands over.")
@click.option("--step", metavar="STEP", shell_complete=offer_steps, help="That step.")
@click.option("--output", type=click.IntRange(1), metavar="N", help="All that its Nth check printed the last time.")
def show(call: Invocation, anchor: str | None, handoff_id: str | None, output: int | None, **of: str | None) -> int:
    """A revision exactly as it was stored, without looking at anything; or what a step of a run hands over."""
    run_id, step = of["run_id"], of["step"]
    refuse_if((run_id is None) != (step is None), "--run and --step go together")
    if sum(name is not None for name in (anchor, handoff_id, run_id)) != 1:
        raise click.UsageError("give one of ANCHOR, --id ID, and --run RUN --step STEP")
    refuse_if(output is not None and run_id is not None, "--output is of a handoff's check; give ANCHOR or --id ID")
    with call.open() as outlast:
        if run_id is not None and step is not None:
            return _show_step(call, outlast.handoff.step(run_id, step))
        if anchor is not None:
            anchor, revision = revision_of(outlast, anchor)
            handoff = outlast.handoff.get(anchor=anchor, revision=revision)
        else:
            handoff = outlast.handoff.get(handoff_id)
        return _show(call, handoff) if output is None else _show_output(call, outlast, handoff, output)


def _show_output(call: Invocation, outlast: Outlast, handoff: Handoff, number: int) -> int:
    """All that a check of the revision printed when it was last run."""
    checks = handoff.acceptance_checks
    if number > len(checks):
        raise click.UsageError(f"{handoff.anchor!r} has {counted(len(checks), 'check')}; --output names one of them")
    known = (*handoff.baseline, *outlast.handoff.evidence(handoff))
    ran = [each for each in known if each.check == checks[number - 1] and each.runner != "self"]
    if not ran:
        way = command_for(call, "verify", handoff.anchor)
        raise click.UsageError(f"check {number} of {handoff.anchor!r} was not run here yet; run it: {way}")
    printed = outlast.handoff.output(ran[-1])
    if call.json:
        emit(ran[-1], printed=printed.decode("utf-8", "replace"))
    elif sys.stdout.isatty():
        say_all(printed.decode("utf-8", "replace"))
    else:
        content_out().write(printed)
    return 0


def _show(call: Invocation, handoff: Handoff) -> int:
    if call.json:
        emit_exactly(handoff)
        return 0
    say_entry(handoff)
    say_contract(handoff)
    say_record(handoff)
    say_findings(handoff.lint)
    say(f"with its verdict: {command_for(call, 'recover', handoff.anchor)}")
    return 0


def _show_step(call: Invocation, given: StepHandoff) -> int:
    value = late.shown.shown(given)
    if call.json:
        emit(given)
        return 0
    facts(*((name, each) for name, each in value.items() if isinstance(each, str) and "\n" not in each))
    for name, each in value.items():
        if isinstance(each, str) and "\n" in each:
            say(f"{name}:")
            say_all(each, "  ")
        elif not isinstance(each, str) and each not in (None, (), [], {}):
            say(f"{name}: {as_json(each)}")
    return 0


@command("history", of="handoff_history")
@anchor_argument()
def history(call: Invocation, anchor: str) -> int:
    """Everything that happened under an anchor, oldest first."""
    with call.open() as outlast:
        found = outlast.handoff.history(anchor)
    heads = ("SEQ", "WHEN", "EVENT", "BY", "WHAT")
    return call.tell_or_say(found, lambda: table(heads, map(_event_row, found)), anchor=anchor)


def _event_row(event: HandoffEvent) -> Sequence[object]:
    who = f"{event.by}@{event.host} ({event.door})" if event.door else event.by
    return event.seq, at(event.at), event.kind, who, brief(_told(event), 100)


def _told(event: HandoffEvent) -> str:
    """What an event carries, in words."""
    body = event.body
    if event.kind == "stored":
        return f"revision {body['revision']}, score {body['score']}: {body['summary']}"
    if event.kind == "checked":
        return "; ".join(map(_evidence, event.evidence))
    if event.kind == "settled":
        said = [*(f"lacked: {each}" for each in body["missing"]), *filter(None, (body["override"], body["note"]))]
        return "; ".join([body["outcome"], *said])
    kept = {name: value for name, value in body.items() if name not in UNSHOWN and value not in ("", None, [])}
    if "reasons" in kept:
        kept["reasons"] = ", ".join(map(_reason, kept["reasons"]))
    return ", ".join(f"{name}: {value}" for name, value in kept.items())


def _evidence(given: Evidence) -> str:
    said = "" if given.runner == "runner" else f", says {given.who}"
    return f"{given.label} {'passed' if given.passed else 'failed'}{said}"


def _reason(given: Any) -> str:
    return f"{given['code']}:{given['subject']}" if isinstance(given, dict) else str(given)


COLOURS = (("+++", "bold"), ("---", "bold"), ("@@", "cyan"), ("+", "green"), ("-", "red"))
CHANGES = {
    "added": "came in",
    "continued": "went on from what was here",
    "same": "was here already",
    "older": "was here already, and has gone on since",
}


@command("diff")
@anchor_argument()
@click.argument("revisions", metavar="[N [M]]", nargs=-1, type=click.IntRange(1))
@repo_option
def diff(call: Invocation, anchor: str, revisions: tuple[int, ...], repo_root: str | None) -> None:
    """What changed in its files since a handoff was stored; with N and M between two of its revisions.

    With N alone: between that one and the newest.
    """
    with call.open() as outlast:
        pair = _pair(outlast, anchor, revisions)
        found = outlast.handoff.diff(anchor, revisions=pair, repo_root=repo_root and os.path.abspath(repo_root))
    if call.json:
        emit_exactly(found)
    else:
        _say_diff(found.as_text())


def _pair(outlast: Outlast, anchor: str, revisions: tuple[int, ...]) -> tuple[int, int] | None:
    refuse_if(len(revisions) > 2, "a diff is between two revisions at most")
    if not revisions:
        return None
    newest = revisions[1] if len(revisions) == 2 else outlast.handoff.get(anchor=anchor).revision
    return revisions[0], newest


def _say_diff(text: str) -> None:
    """A unified diff: coloured on a terminal, as it is in a pipe."""
    if not sys.stdout.isatty():
        sys.stdout.write(text)
        return
    for line in text.splitlines():
        say(line.replace("\t", "    "), next((style for start, style in COLOURS if line.startswith(start)), ""))


@command("apply")
@anchor_argument(metavar="ANCHOR[@N]")
@repo_option
@click.option("--dry-run", is_flag=True, help="Only say what would happen.")
@click.option("--force", is_flag=True, help="Put its files in place of what later commits have changed.")
@click.option("--leave-conflicts", is_flag=True, help="Write files that do not merge, with the conflicts in them.")
def apply(call: Invocation, anchor: str, repo_root: str | None, **how: Any) -> int:
    """Bring the work of a handoff into this clone: its files and the uncommitted patch, all of it or nothing.

    What was changed here too is merged line by line. Only the folder named by --repo is written to, else the
    repository that you are in, if it is known to be that of the handoff. Exits 4 when it is not, or something is in the
    way, also with --dry-run, and when conflicts are left to be solved.
    """
    with call.open() as outlast:
        name, revision = revision_of(outlast, anchor)
        place = repo_root and os.path.abspath(repo_root)
        done = outlast.handoff.apply(name, revision=revision, repo_root=place, **how)
    code = REFUSED if done.hindrances or done.conflicts_left else 0
    return call.tell_or_say(done, lambda: _say_applied(call, done), code=code)


def _say_applied(call: Invocation, done: Applied) -> None:
    for line in done.as_text().splitlines():
        say(line)
    if done.conflicts_left and done.done:
        say("solve the conflicts, then go on", "yellow")
    if done.done:
        say(f"go on: {command_for(call, 'recover', done.anchor)}")


@command("export")
@anchor_argument()
@file_argument
@click.option("--force", is_flag=True, help="Replace FILE, whatever it is.")
def export(call: Invocation, anchor: str, file: str, force: bool) -> int:
    """Write a handoff with its history, evidence, content and patch into one verified file.

    FILE may be a folder [here]; the name is then made of the anchor. It is a copy; the claim stays here.
    """
    with call.open() as outlast:
        done = outlast.handoff.export(anchor, file, force=force)
    return call.tell_or_say(done, lambda: _say_exported(call, done))


def _say_exported(call: Invocation, done: Bundled) -> None:
    say(f"{done.anchor}@{done.revision} copied to {done.path}", "green")
    parts = (counted(done.entries, "journal record"), counted(done.blobs, "blob"), f"{done.bytes:,} bytes")
    say(f"{', '.join(parts)}; sha256 {done.digest}")
    say(f"in another home: {Invocation(None, None, None, False).command('handoff', 'import', done.path)}")


@command("import")
@click.argument("path", metavar="FILE")
def import_(call: Invocation, path: str) -> int:
    """Bring in a handoff from a file that export wrote. A history that parted from the one here is refused."""
    with call.open(make=True) as outlast:
        done = outlast.handoff.import_(path)
    return call.tell_or_say(done, lambda: _say_imported(call, done))


def _say_imported(call: Invocation, done: BundleArrived) -> None:
    say(f"{done.anchor}@{done.revision} ({done.status}) {CHANGES[done.change]}", "green")
    say(f"{counted(done.added, 'new journal record')}, {counted(done.blobs, 'blob')}")
    there = call.within(done.scope)
    say(f"recover it: {command_for(there, 'recover', done.anchor)}")
