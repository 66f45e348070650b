"""`outlast events`: the journal of a run, a line for each event, also while it grows."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli.completion import run_argument
from outlast.doors.cli.door import Door, command
from outlast.doors.cli.exits import SUCCEEDED, exit_code
from outlast.doors.cli.render import COMPACT, as_json, clean, emit, fit, note, say
from outlast.errors import OutlastError

if TYPE_CHECKING:
    from outlast import Event, Outlast

PAGE = 1000
LONGEST = 240  # of a line that goes into a pipe
INDENT = " " * 7  # of the lines after the first of an event


@command("events")
@run_argument()
@click.option("-f", "--follow", is_flag=True, help="Go on until the run ends or waits; with --json an object a line.")
@click.option("--after", default=0, metavar="SEQ", type=click.IntRange(min=0), help="Only those after this one.")
def events(door: Door, run_id: str, follow: bool, after: int) -> int:
    """Everything that happened in a run, the oldest first; --json has it in full.

    A line is the event's number, its time (UTC), its name, its step and what it carries, shortened to fit.
    """
    with door.open() as outlast:
        run = outlast.get(run_id)
        if follow:
            _follow(door, outlast, run.id, after)
        elif door.json:
            return _emit_all(run.id, _read(outlast, run.id, after))
        elif not _say_all(_read(outlast, run.id, after)):
            say(f"no event of run {run.id} after {after}; its last is {run.head}")
    return 0


def _read(outlast: Outlast, run_id: str, after: int) -> Iterator[Event]:
    """The events there are now, read page by page."""
    while page := outlast.events(run_id, after=after, limit=PAGE):
        yield from page
        after = page[-1].seq


def _say_all(found: Iterator[Event]) -> int:
    count = 0
    for count, event in enumerate(found, 1):  # noqa: B007
        say(_line(event), then=INDENT)
    return count


def _emit_all(run_id: str, found: Iterator[Event]) -> int:
    """One object, written as it is read: a long run need not fit in memory. What ends it early is its `error`."""
    import json

    write, end, code = sys.stdout.write, "]}\n", SUCCEEDED
    write(f'{{"run_id":{json.dumps(run_id)},"events":[')
    try:
        for separator, event in zip(chain([""], repeat(",")), found, strict=False):
            write(separator + json.dumps(_plain(event), separators=COMPACT))
    except OutlastError as error:
        end, code = f'],"error":{json.dumps(error.to_dict(), separators=COMPACT)}}}\n', exit_code(error)
    write(end)
    return code


def _follow(door: Door, outlast: Outlast, run_id: str, after: int) -> None:
    """Print events as they come, until a run that nobody runs any more has no further ones."""
    for event in outlast.follow_events(run_id, after=after):
        emit(_plain(event)) if door.json else say(_line(event), then=INDENT)
        sys.stdout.flush()
    if not door.json:
        note(f"run {run_id} is {outlast.get(run_id).status}; see `{door.command('show', run_id)}`")


def _plain(event: Event) -> dict[str, Any]:
    from outlast.values.codec import jsonable

    plain: dict[str, Any] = jsonable(event)
    return plain


def _line(event: Event) -> str:
    step = f"{event.step} (attempt {event.attempt})" if event.attempt > 1 else event.step
    masked = f"({event.masked} masked)" if event.masked else ""
    carries = "  ".join(part for part in (clean(step), masked, clean(_body(event.body))) if part)
    line = f"{event.seq:>5}  {event.at:%Y-%m-%d %H:%M:%S}  {clean(event.name):<16}  {carries}".rstrip()
    return fit(line, LONGEST)


def _body(body: Any) -> str:
    """An error in words, anything else as JSON."""
    if not body:
        return ""
    error = body.get("error", body) if isinstance(body, dict) else None
    if isinstance(error, dict) and "type" in error and "message" in error:
        return f"{str(error['type']).rpartition(':')[2]}: {error['message']}"
    return as_json(body)
