"""`outlast workspace record`, `records`, `pin`, `unpin`, `link`, `links` and `why`.

`outlast workspace record-many`: records from a file of JSON lines, all or none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli.completion import offer_tasks
from outlast.doors.cli.door import Door, command
from outlast.doors.cli.render import ago, brief, content_in, counted, emit_exactly, facts, note, say, say_all, table
from outlast.errors import OutlastError

if TYPE_CHECKING:
    from outlast.workspace.link import Link
    from outlast.workspace.record import Record


MOST = 64 << 20  # bytes of a file


@command("record-many")
@click.argument("file", metavar="FILE")
@click.option("--redact", is_flag=True, help="Mask secrets instead of refusing them.")
@click.option("--operation-id", metavar="ID", help="The same one again records nothing twice.")
@click.option("--actor", metavar="WHO", help="Who records them [local].")
def record_many(door: Door, file: str, **given: Any) -> int:
    """Record up to 1,000 things in one transaction: all of them, or none.

    FILE has a JSON object in each line: kind and text, and if you like refs,
    tags, pinned, task, at (as 2026-11-17T09:00:00Z) and source. `-` is standard
    input.
    """
    from outlast.values.codec import jsonable

    lines = {number: line for number, line in enumerate(_text(file).split("\n"), 1) if line.strip()}
    wanted = [_record(line, number) for number, line in lines.items()]
    with door.open(make=True) as outlast, _line_told([*lines]):
        made = outlast.workspace.record_many(wanted, **given)
    if door.json:
        emit_exactly({"records": jsonable(made)})
        return 0
    for one in made:
        say(one.ref)
    was = "were recorded already" if made and made[0].replayed else "recorded"
    note(f"{counted(len(made), 'record')} {was}")
    return 0


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
    if len(raw) > MOST:
        raise click.UsageError(f"FILE: it has more than {MOST:,} bytes; record it in parts")
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


@command("record")
@click.argument("kind", metavar="KIND", type=_KINDS)
@click.argument("text", metavar="TEXT")
@click.option("--ref", "refs", metavar="REF", multiple=True, help="What it is about; may be repeated.")
@click.option("--tag", "tags", metavar="TAG", multiple=True, help="What it is found by; may be repeated.")
@click.option("--pin", "pinned", is_flag=True, help="Let recall never leave it out.")
@click.option("--task", metavar="TASK", shell_complete=offer_tasks, help="The task it belongs to.")
@click.option("--source", metavar="TEXT", help="Where it came from, in your words.")
@click.option("--redact", is_flag=True, help="Mask secrets instead of refusing them.")
@click.option("--operation-id", metavar="ID", help="The same one again records nothing twice.")
@click.option("--actor", metavar="WHO", help="Who records it [local].")
def record(door: Door, kind: str, text: str, **given: Any) -> int:
    """Record an observation, a decision, evidence or a note, durable when this returns.

    TEXT is what it says; `-` reads it from standard input, @FILE from a file.
    """
    from outlast.values.codec import jsonable

    words = said(text)
    with door.open(make=True) as outlast:
        made = outlast.workspace.record(kind, words, **given)
    if door.json:
        emit_exactly(jsonable(made))
        return 0
    say(f"{made.ref} {'was recorded already' if made.replayed else 'recorded'}", "green")
    if made.masked:
        note(f"note: masked as secret: {', '.join(made.masked)}")
    return 0


def said(word: str, name: str = "TEXT") -> str:
    """A text as it is given: itself, `-` for standard input, @FILE for a file. No more than a record can hold."""
    raw = _given(word, name)
    if len(raw) > LONGEST:
        raise click.UsageError(f"{name}: it has more than {LONGEST:,} bytes; save it: outlast workspace save NAME FILE")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{name}: it is no UTF-8: {error.reason} at byte {error.start}") from error


def _given(word: str, name: str) -> bytes:
    """As it is given, but no more than shows that it is too long: a file may have no end."""
    if word == "-":
        return content_in().read(LONGEST + 1)
    if not word.startswith("@"):
        return word.encode("utf-8", "surrogateescape")
    try:
        with open(word[1:], "rb") as file:
            return file.read(LONGEST + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise click.UsageError(f"{name}: cannot read {word[1:]!r}: {why}") from error


@command("records")
@click.argument("ref", metavar="[REF]", required=False)
@click.option("--kind", metavar="KIND", type=_KINDS, help="Those of this kind.")
@click.option("--task", metavar="TASK", shell_complete=offer_tasks, help="Those of this task.")
@click.option("--tag", metavar="TAG", help="Those with this tag.")
@click.option("--pinned", is_flag=True, default=None, help="Those that are pinned.")
@click.option("--before", metavar="REF", help="Those older than this record.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 10_000), help="How many at most.")
def records(door: Door, ref: str | None, **wanted: Any) -> int:
    """List records, the newest first. With REF of a record: all that it says; of something else: those about it."""
    from outlast.values.codec import jsonable

    with door.open() as outlast:
        whole = [outlast.workspace.get_record(ref)] if ref is not None and ref.startswith("record:") else []
        found = whole or outlast.workspace.records(ref=ref, **wanted)
    if door.json:
        emit_exactly({"records": jsonable(found)})
    elif whole:
        _say_record(whole[0])
    elif found:
        table(("REF", "KIND", "TASK", "BY", "AGE", "TEXT"), [_row(one) for one in found])
    else:
        say("no records here; make one: outlast workspace record KIND TEXT")
    return 0


def _say_record(one: Record) -> None:
    say_all(one.text, "  ")
    say()
    known = [("ref", one.ref), ("kind", one.kind), ("task", one.task), ("by", _by(one)), ("from", one.source.origin)]
    known += [("at", f"{one.at:%Y-%m-%d %H:%M:%S} UTC"), ("tags", ", ".join(one.tags))]
    pin = f"by {one.pinned_by}" if one.pinned else ""
    facts([*known, ("pinned", pin), ("masked", ", ".join(one.masked)), ("about", ", ".join(one.refs))])


def _row(one: Record) -> tuple[object, ...]:
    pin = "* " if one.pinned else ""
    return one.ref, pin + one.kind, brief(one.task, 30), _by(one), ago(one.at), brief(one.text, 70)


def _by(one: Record) -> str:
    return " ".join(filter(None, (one.source.run_id, one.source.step))) or one.source.actor


@command("pin")
@click.argument("ref", metavar="REF")
@click.option("--operation-id", metavar="ID", help="The same one again does nothing twice.")
@click.option("--actor", metavar="WHO", help="Who pins it [local].")
def pin(door: Door, ref: str, **given: Any) -> int:
    """Pin the record REF: recall never leaves it out."""
    return _pin(door, ref, True, given)


@command("unpin")
@click.argument("ref", metavar="REF")
@click.option("--operation-id", metavar="ID", help="The same one again does nothing twice.")
@click.option("--actor", metavar="WHO", help="Who takes the pin away [local].")
def unpin(door: Door, ref: str, **given: Any) -> int:
    """Take the pin of the record REF away."""
    return _pin(door, ref, False, given)


def _pin(door: Door, ref: str, pinned: bool, given: dict[str, Any]) -> int:
    from outlast.values.codec import jsonable

    with door.open() as outlast:
        found = outlast.workspace.pin(ref, pinned=pinned, **given)
    if door.json:
        emit_exactly(jsonable(found))
    else:
        already = "was already " if found.replayed else ""
        say(f"{found.ref} {already}{'pinned' if found.pinned else 'not pinned'}: {brief(found.text, 60)}", "green")
    return 0


# -- links -------------------------------------------------------------------------------------------


@command("link")
@click.argument("source", metavar="SOURCE")
@click.argument("relation", metavar="RELATION", type=_RELATIONS)
@click.argument("target", metavar="TARGET")
@click.option("-m", "--note", metavar="TEXT", default="", help="Why, in a sentence.")
@click.option("--redact", is_flag=True, help="Mask secrets instead of refusing them.")
@click.option("--operation-id", metavar="ID", help="The same one again links nothing twice.")
@click.option("--actor", metavar="WHO", help="Who links them [local].")
def link(door: Door, source: str, relation: str, target: str, **given: Any) -> int:
    """Say how SOURCE bears on TARGET. Both are refs of what exists.

    RELATION is supports, contradicts, derived_from, supersedes or produced_by. The same link again is the first one.
    """
    from outlast.values.codec import jsonable

    with door.open() as outlast:
        made = outlast.workspace.link(source, relation, target, **given)
    if door.json:
        emit_exactly(jsonable(made))
        return 0
    say(f"{_told(made)}{' (was linked already)' if made.replayed else ''}", "green")
    if made.replayed and given["note"] and given["note"] != made.note:
        note("note: its note stays as it was first made")
    return 0


@command("links")
@click.argument("ref", metavar="REF")
def links(door: Door, ref: str) -> int:
    """List every link from or to REF, the oldest first."""
    from outlast.values.codec import jsonable

    with door.open() as outlast:
        found = outlast.workspace.links(ref)
    if door.json:
        emit_exactly({"links": jsonable(found)})
    elif found:
        table(("SOURCE", "RELATION", "TARGET", "BY", "AGE", "NOTE"), [_link_row(one) for one in found])
    else:
        say("no links here; make one: outlast workspace link SOURCE RELATION TARGET")
    return 0


def _told(one: Link) -> str:
    return f"{one.source} {one.relation} {one.target}"


def _link_row(one: Link) -> tuple[object, ...]:
    by = " ".join(filter(None, (one.by.run_id, one.by.step))) or one.by.actor
    return one.source, one.relation, one.target, by, ago(one.stored_at), brief(one.note, 60)


@command("why")
@click.argument("ref", metavar="REF")
@click.option("--depth", default=20, show_default=True, type=click.IntRange(0, 100), help="How far to follow it.")
def why(door: Door, ref: str, depth: int) -> int:
    """What REF rests on, what contradicts or supersedes any of that, and how each part stands."""
    from outlast.values.codec import jsonable

    with door.open() as outlast:
        found = outlast.workspace.why(ref, depth=depth)
    if door.json:
        emit_exactly({**jsonable(found), "left_out": found.left_out})
    else:
        say_all(str(found))
    return 0
