"""Making room: what would go, the command that removes it, and what was left alone."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import click

from outlast.doors.cli.door import Door, command
from outlast.doors.cli.exits import FAILED, SUCCEEDED
from outlast.doors.cli.render import ago, brief, counted, emit, note, say, table

if TYPE_CHECKING:
    from outlast.care.gc.gc import Swept

SHOWN = 20
MOST = 1e9  # of any unit: more than there can be
_AGE = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?", re.IGNORECASE)
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


def seconds_of(text: str) -> float:
    """`45s`, `90m`, `12h`, `30d`, `8w` in seconds."""
    found = _AGE.fullmatch(text.strip())
    if not found or float(found[1]) > MOST:
        raise click.BadParameter(f"{brief(text)!r} is no age; use 45s, 90m, 12h, 30d or 8w", param_hint="--older-than")
    return float(found[1]) * _UNITS[found[2]]


def bytes_of(text: str) -> int:
    """`500K`, `200M`, `1.5GiB`, `1T` in bytes."""
    found = _SIZE.fullmatch(text.strip())
    if not found or float(found[1]) > MOST:
        raise click.BadParameter(f"{brief(text)!r} is no size; use 500K, 200M, 2G or 1T", param_hint="--max-size")
    return int(float(found[1]) * 1024 ** _POWERS[found[2].upper()])


@command("gc")
@click.option("--older-than", metavar="AGE", help="Runs that ended so long ago: 12h, 30d.")
@click.option("--keep", metavar="N", type=click.IntRange(0), help="All but the newest N of each flow.")
@click.option("--max-size", metavar="SIZE", help="The oldest, until the rest is smaller: 500M, 2G.")
@click.option("--artifacts", is_flag=True, help="Old versions of artifacts too, by age and count.")
@click.option("--yes", is_flag=True, help="Do it; without this, only say what would go.")
@click.option("--vacuum", is_flag=True, help="Shrink the database file too, if no run is being executed.")
def gc(
    door: Door,
    older_than: str | None,
    keep: int | None,
    max_size: str | None,
    artifacts: bool,
    yes: bool,
    vacuum: bool,
) -> int:
    """Remove finished runs and blobs that nobody needs; says what would go unless --yes is given.

    A run goes only if every rule given lets it go, and never while it, or a run it belongs to, is unfinished.
    Without a rule, only blobs and files that nobody needs go.
    """
    from outlast.values.codec import jsonable

    seconds = seconds_of(older_than) if older_than is not None else None
    size = bytes_of(max_size) if max_size is not None else None
    with door.open() as outlast:
        swept = outlast.gc(
            older_than=seconds,
            keep=keep,
            max_bytes=size,
            scope=door.scope,
            artifacts=artifacts,
            dry_run=not yes,
            vacuum=vacuum,
            progress=_progress,
        )
    if door.json:
        emit({**jsonable(swept), "nothing": swept.nothing})
    else:
        given = {"--older-than": older_than, "--keep": keep, "--max-size": max_size}
        words = [word for name, value in given.items() if value is not None for word in (name, str(value))]
        words += [name for name, given in (("--artifacts", artifacts), ("--vacuum", vacuum)) if given]
        _say_swept(door, swept, words)
    return FAILED if swept.troubles else SUCCEEDED


def _progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{done:,} of {counted(total, 'run')} removed" + ("\n" if done == total else ""))
        sys.stderr.flush()


def _say_swept(door: Door, swept: Swept, given: list[str]) -> None:
    would = "would be " if swept.dry_run else ""
    if swept.runs:
        _say_runs(swept, would)
    for line in _lines(swept, would):
        say(line)
    if swept.nothing:
        say("nothing to remove")
    for line in swept.proof:
        say(line, "green")
    for trouble in swept.troubles:
        note(f"problem: {trouble}")
    _say_room(swept)
    _say_next(door, swept, given)


def _say_runs(swept: Swept, would: str) -> None:
    total = sum(run.size_bytes for run in swept.runs)
    say(f"{counted(len(swept.runs), 'finished run')} {would}removed, about {sized(total)}:")
    rows = [
        (run.id, run.status, ago(run.ended_at), sized(run.size_bytes), brief(run.task), run.flow)
        for run in swept.runs[:SHOWN]
    ]
    table(("RUN", "STATUS", "ENDED", "SIZE", "TASK", "FLOW"), rows)
    if len(swept.runs) > SHOWN:
        say(f"… and {len(swept.runs) - SHOWN:,} more; --json lists all of them")


def _lines(swept: Swept, would: str) -> list[str]:
    """Everything else that goes, a line each."""
    old, size = len(swept.artifacts), sum(each.size_bytes for each in swept.artifacts)
    found = [
        (old, f"{counted(old, 'old version')} of artifacts ({sized(size)}) {would}removed"),
        (swept.blobs, f"{counted(swept.blobs, 'blob')} ({sized(swept.blob_bytes)}) {would}moved to the trash"),
        (swept.trash, f"{counted(swept.trash, 'blob')} ({sized(swept.trash_bytes)}) {would}gone from the trash"),
        (swept.restored, f"{counted(swept.restored, 'blob')} back from the trash: needed again"),
        (swept.files, f"{counted(swept.files, 'leftover file or folder')} {would}removed"),
        (swept.unswept, f"{counted(swept.unswept, 'removal')} of an earlier gc {would}finished"),
    ]
    return [line for number, line in found if number]


def _say_room(swept: Swept) -> None:
    if swept.dry_run:
        say(f"the home takes {sized(swept.size_before)}")
        return
    say(f"the home took {sized(swept.size_before)} and takes {sized(swept.size_after)}")
    if swept.blobs:
        say("blobs stay in the trash for an hour; the next gc after that gives their room back")
    if swept.free_bytes:
        say(f"{sized(swept.free_bytes)} of the database are free for new records; --vacuum gives them to the disk")


def _say_next(door: Door, swept: Swept, given: list[str]) -> None:
    """The exact command that does what was foreseen, or how to name what may go."""
    if swept.dry_run and not swept.nothing:
        say(f"nothing was removed yet; to do it: {door.command('gc', *given, '--yes')}")
    if "--artifacts" in given and not {"--older-than", "--keep"} & set(given):
        say("old versions of artifacts go by --older-than or --keep; without one of these, none does")
    if swept.kept.get("no_rule"):
        say(f"to remove finished runs give a rule, such as: {door.command('gc', '--older-than', '30d')}")


def sized(size: float) -> str:
    """Bytes in the largest unit that fits."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:,.0f} {unit}" if unit == "bytes" else f"{size:,.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} TiB"
