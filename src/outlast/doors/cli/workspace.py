"""`outlast workspace`: its commands, and those about records, links and recall; the rest: `artifacts.py`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli.group import CommandGroup, Sections
from outlast.doors.cli.invocation import Invocation, command
from outlast.doors.cli.options import refuse_if, text_of
from outlast.doors.cli.render import ago, at, brief, content_in, counted, facts, note, say, say_all, table
from outlast.errors import OutlastError

if TYPE_CHECKING:
    from outlast import ContextPack, LeftOut, Link, Record


SECTIONS: Sections = {
    "Artifacts": {
        "save": ("artifacts:save", "Save a file under a name, as its next version."),
        "get": ("artifacts:get", "The content of an artifact, checked."),
        "list": ("artifacts:list_", "The artifacts, those saved last first."),
        "versions": ("artifacts:versions", "Every version of a name."),
    },
    "Checkpoints": {
        "checkpoint": ("artifacts:checkpoint", "Pin where a task stands, under a name."),
        "checkpoints": ("artifacts:checkpoints", "What was pinned, the newest first; or one of them."),
        "diff": ("artifacts:diff", "What changed between two checkpoints."),
    },
    "Records": {
        "record": ("workspace:record", "Record an observation, a decision, evidence or a note."),
        "record-many": ("workspace:record_many", "Record what the lines of a file say, all or none."),
        "records": ("workspace:records", "What was recorded, the newest first."),
        "pin": ("workspace:pin", "Let recall never leave a record out."),
        "unpin": ("workspace:unpin", "Take a pin away."),
    },
    "Recall": {"recall": ("workspace:recall", "What matters for a goal, within a number of tokens.")},
    "Evidence": {
        "link": ("workspace:link", "Say how two things with refs bear on each other."),
        "links": ("workspace:links", "The links from and to a ref."),
        "why": ("workspace:why", "What a ref rests on, and how that stands."),
    },
}


@click.group("workspace", cls=CommandGroup, sections=SECTIONS)
def workspace() -> None:
    """Content that outlives a run, named boundaries of tasks, records and links.

    REF is what saving gave: artifact:SCOPE/NAME@VERSION; or a name, for its
    newest version; or NAME@2. A name is only a name, never a path. What is
    read is checked, and refused if it is not what was saved. Records and links
    take refs of every kind: also record:ID, checkpoint:ID, handoff:ID, run:ID.
    """


MOST = 64 << 20  # bytes of a file


@command("record-many", of="workspace_record_many", without=("records",))
@click.argument("file", metavar="FILE")
def record_many(call: Invocation, file: str, **given: Any) -> None:
    """Record up to 1,000 things in one transaction: all of them, or none.

    FILE has a JSON object in each line: kind and text, and if you like refs,
    tags, pinned, task, at (as 2026-11-17T09:00:00Z) and source. `-` is standard
    input.
    """
    lines = {number: line for number, line in enumerate(_text(file).split("\n"), 1) if line.strip()}
    wanted = [_record(line, number) for number, line in lines.items()]
    with call.open(make=True) as outlast, _line_told([*lines]):
        made = outlast.workspace.record_many(wanted, **given)
    if call.json:
        call.tell(made)
        return
    for one in made:
        say(one.ref)
    was = "were recorded already" if made and made[0].replayed else "recorded"
    note(f"{counted(len(made), 'record')} {was}")


@contextmanager
def _line_told(numbers: Sequence[int]) -> Iterator[None]:
    """An error about one of the records also says in which line of the file that is."""
    try:
        yield
    except OutlastError as error:
        if place := re.match(r"records\[(\d+)\]", str(error.facts.get("path", ""))):
            error.add_note(f"{place[0]} is line {numbers[int(place[1])]} of FILE")
        raise


def _text(file: str) -> str:
    try:
        with content_in() if file == "-" else open(file, "rb") as opened:
            raw = opened.read(MOST + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise click.UsageError(f"FILE: cannot read {file!r}: {why}") from error
    refuse_if(len(raw) > MOST, f"FILE: it has more than {MOST:,} bytes; record it in parts")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise click.UsageError(f"FILE: it is no UTF-8: {error.reason} at byte {error.start}, line {line}") from error


def _record(line: str, number: int) -> Any:
    """What a line says; the moment of `at` as one."""
    try:
        found = json.loads(line)
        if isinstance(found, dict) and isinstance(found.get("at"), str):
            found["at"] = datetime.fromisoformat(found["at"])
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"FILE: line {number}: {error}") from error
    return found


_KINDS = click.Choice(["observation", "decision", "evidence", "note"])  # as workspace/record.py has them
LONGEST = 1 << 20  # bytes of a text, as workspace/record.py has it
_RELATIONS = click.Choice(["supports", "contradicts", "derived_from", "supersedes", "produced_by"])


@command("record", of="workspace_record")
@click.argument("kind", metavar="KIND", type=_KINDS)
@click.argument("text", metavar="TEXT")
def record(call: Invocation, kind: str, text: str, **given: Any) -> None:
    """Record an observation, a decision, evidence or a note, durable when this returns.

    TEXT is what it says; `-` reads it from standard input, @FILE from a file.
    """
    words = _said(text, "TEXT")
    with call.open(make=True) as outlast:
        made = outlast.workspace.record(kind, words, **given)
    call.tell_line(made, f"{made.ref} {'was recorded already' if made.replayed else 'recorded'}", "green")
    if made.masked and not call.json:
        note(f"note: masked as secret: {', '.join(made.masked)}")


def _said(word: str, name: str) -> str:
    """A text as it is given, in a file or on standard input. No more than a record can hold: a file may have no end."""
    return text_of(word, name, longest=LONGEST, instead="save it: outlast workspace save NAME FILE")


@command("records", of="workspace_records", without=("cursor",))
@click.argument("ref", metavar="[REF]", required=False)
@click.option("--before", metavar="REF", help="Only those older than this record.")
def records(call: Invocation, ref: str | None, **wanted: Any) -> int:
    """List records, the newest first. With REF of a record: all that it says; of something else: those about it."""
    with call.open() as outlast:
        whole = [outlast.workspace.get_record(ref)] if ref is not None and ref.startswith("record:") else []
        found = whole or outlast.workspace.records(ref=ref, **wanted)
    if whole:
        return call.tell_or_say(whole, lambda: _say_record(whole[0]))
    instead = "no records here; make one: outlast workspace record KIND TEXT"
    return call.tell_list(found, ("REF", "KIND", "TASK", "BY", "AGE", "TEXT"), _row, instead)


def _say_record(one: Record) -> None:
    say_all(one.text, "  ")
    say()
    known = [("ref", one.ref), ("kind", one.kind), ("task", one.task), ("by", _by(one)), ("from", one.source.origin)]
    known += [("at", at(one.at)), ("tags", ", ".join(one.tags))]
    pin = f"by {one.pinned_by}" if one.pinned else ""
    facts(*known, ("pinned", pin), ("masked", ", ".join(one.masked)), ("about", ", ".join(one.refs)))


def _row(one: Record) -> tuple[object, ...]:
    pin = "* " if one.pinned else ""
    return one.ref, pin + one.kind, brief(one.task, 30), _by(one), ago(one.at), brief(one.text, 70)


def _by(one: Record) -> str:
    return " ".join(filter(None, (one.source.run_id, one.source.step))) or one.source.actor


@command("pin", of="workspace_pin", without=("pinned",))
@click.argument("ref", metavar="REF")
def pin(call: Invocation, ref: str, **given: Any) -> int:
    """Pin the record REF: recall never leaves it out."""
    return _pin(call, ref, True, given)


@command("unpin", of="workspace_pin", without=("pinned",))
@click.argument("ref", metavar="REF")
def unpin(call: Invocation, ref: str, **given: Any) -> int:
    """Take the pin of the record REF away."""
    return _pin(call, ref, False, given)


def _pin(call: Invocation, ref: str, pinned: bool, given: dict[str, Any]) -> int:
    with call.open() as outlast:
        found = outlast.workspace.pin(ref, pinned=pinned, **given)
    now = f"{'was already ' if found.replayed else ''}{'pinned' if found.pinned else 'not pinned'}"
    return call.tell_line(found, f"{found.ref} {now}: {brief(found.text, 60)}", "green")


@command("link", of="workspace_link")
@click.argument("source", metavar="SOURCE")
@click.argument("relation", metavar="RELATION", type=_RELATIONS)
@click.argument("target", metavar="TARGET")
def link(call: Invocation, source: str, relation: str, target: str, **given: Any) -> None:
    """Say how SOURCE bears on TARGET. Both are refs of what exists.

    RELATION is supports, contradicts, derived_from, supersedes or produced_by. The same link again is the first one.
    """
    with call.open() as outlast:
        made = outlast.workspace.link(source, relation, target, **given)
    was = " (was linked already)" if made.replayed else ""
    call.tell_line(made, f"{made.source} {made.relation} {made.target}{was}", "green")
    if made.replayed and given["note"] and given["note"] != made.note and not call.json:
        note("note: its note stays as it was first made")


@command("links", of="workspace_links")
@click.argument("ref", metavar="REF")
def links(call: Invocation, ref: str) -> int:
    """List every link from or to REF, the oldest first."""
    with call.open() as outlast:
        found = outlast.workspace.links(ref)
    instead = "no links here; make one: outlast workspace link SOURCE RELATION TARGET"
    return call.tell_list(found, ("SOURCE", "RELATION", "TARGET", "BY", "AGE", "NOTE"), _link_row, instead)


def _link_row(one: Link) -> tuple[object, ...]:
    by = " ".join(filter(None, (one.by.run_id, one.by.step))) or one.by.actor
    return one.source, one.relation, one.target, by, ago(one.stored_at), brief(one.note, 60)


@command("why", of="workspace_why")
@click.argument("ref", metavar="REF")
def why(call: Invocation, ref: str, depth: int) -> int:
    """What REF rests on, what contradicts or supersedes any of that, and how each part stands."""
    with call.open() as outlast:
        found = outlast.workspace.why(ref, depth=depth)
    return call.tell_or_say(found, lambda: say_all(str(found)))


_RECALLED = click.Choice(["observation", "decision", "evidence", "note", "artifact", "checkpoint"])
SHOWN = 5  # refs of what was left out
_REASONS = {  # of what is left out, in words
    "no_match": "do not match",
    "over_budget": "did not fit",
    "duplicate": "say what is there already",
    "low_rank": "came after the last one asked for",
}


@command("recall", of="workspace_recall")
@click.argument("goal", metavar="GOAL")
@click.option(
    "--kind", "kinds", metavar="KIND", multiple=True, type=_RECALLED, help="Only of this kind; may be repeated."
)
@click.option("--tokenizer", metavar="MODULE:FUNCTION", help="Count tokens by it [OUTLAST_TOKENIZER, else estimated].")
@click.option("--explain", is_flag=True, help="Why each was chosen, as a table.")
@click.option("--prompt", is_flag=True, help="As a text for a model, and nothing else.")
def recall(call: Invocation, goal: str, tokenizer: str | None, explain: bool, prompt: bool, **asked: Any) -> None:
    """Recall what matters for GOAL: records, artifacts and checkpoints of the scope, the best first.

    `-` reads the goal from standard input, @FILE from a file. Pinned records are always there.
    """
    refuse_if(explain and prompt, "--explain and --prompt do not go together")
    words = _said(goal, "GOAL")
    with call.open() as outlast:
        asked["kinds"] = asked["kinds"] or None
        pack = outlast.workspace.recall(words, tokens_of=tokenizer, **asked)
    if call.json:
        call.tell(pack)
    elif prompt:
        say_all(pack.prompt())
    elif explain:
        _explain(pack)
    else:
        _say_pack(call, pack)


def _say_pack(call: Invocation, pack: ContextPack) -> None:
    for entry in pack.entries:
        marks = [entry.kind, entry.actor, f"{entry.at:%Y-%m-%d}", "" if entry.standing == "stands" else entry.standing]
        say(f"{entry.ref}  {', '.join(filter(None, marks))}")
        say_all(entry.excerpt, "    ")
    _summary(pack)
    if pack.entries:
        again = call.command("workspace", "recall", "--explain", "--", pack.goal)
        say(f"why each: {again}" if len(again) <= 300 else "why each: the same with --explain")


def _explain(pack: ContextPack) -> None:
    rows = [
        (f"{entry.score:.3f}", entry.tokens, entry.ref, "; ".join(entry.why), brief(entry.excerpt, 40))
        for entry in pack.entries
    ]
    if rows:
        table(("SCORE", "TOKENS", "REF", "WHY", "EXCERPT"), rows)
    _summary(pack)


def _summary(pack: ContextPack) -> None:
    if not pack.matched:
        say("nothing recorded matches this goal" if pack.considered else "nothing is recorded in this scope yet")
    if pack.entries:
        say(f"{counted(len(pack.entries), 'item')}, {pack.tokens:,} of {pack.budget:,} tokens")
    for left in pack.left_out:
        say(f"left out: {left.count:,} that {_REASONS.get(left.reason, left.reason)}{_named(left)}")


def _named(left: LeftOut) -> str:
    """The first of them; of what does not match none, since that may be anything."""
    if left.reason == "no_match":
        return ""
    more = f" and {left.count - SHOWN:,} more" if left.count > SHOWN else ""
    return f": {', '.join(left.refs[:SHOWN])}{more}"
