"""`outlast handoff diff`, `apply`, `export` and `import`: the work itself, seen and carried."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import click

from outlast.doors.cli.completion import anchor_argument
from outlast.doors.cli.door import Door, command
from outlast.doors.cli.exits import REFUSED
from outlast.doors.cli.handoff.names import command_for, revision_of
from outlast.doors.cli.handoff.recover import repo_option
from outlast.doors.cli.render import counted, emit, say

if TYPE_CHECKING:
    from outlast import Outlast
    from outlast.care.travel.handoff import BundleArrived, Bundled
    from outlast.handoffs.difference import Applied, Difference

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
def diff(door: Door, anchor: str, revisions: tuple[int, ...], repo_root: str | None) -> int:
    """What changed in its files since a handoff was stored; with N and M between two of its revisions.

    With N alone: between that one and the newest.
    """
    with door.open() as outlast:
        pair = _pair(outlast, anchor, revisions)
        found = outlast.handoff.diff(anchor, revisions=pair, repo_root=repo_root and os.path.abspath(repo_root))
    if door.json:
        _emit_diff(found)
    else:
        _say_diff(found.as_text())
    return 0


def _pair(outlast: Outlast, anchor: str, revisions: tuple[int, ...]) -> tuple[int, int] | None:
    if len(revisions) > 2:
        raise click.UsageError("a diff is between two revisions at most")
    if not revisions:
        return None
    newest = revisions[1] if len(revisions) == 2 else outlast.handoff.get(anchor=anchor).revision
    return revisions[0], newest


def _emit_diff(found: Difference) -> None:
    import msgspec

    from outlast.doors.cli.render import emit_exactly
    from outlast.values.codec import encode

    emit_exactly({"same": found.same, **msgspec.json.decode(encode(found))})


def _say_diff(text: str) -> None:
    """A unified diff: coloured on a terminal, as it is in a pipe."""
    if not sys.stdout.isatty():
        sys.stdout.write(text)
        return
    for line in text.splitlines():
        say(line.replace("\t", "    "), next((style for start, style in COLOURS if line.startswith(start)), ""))


@command("apply")
@anchor_argument("ANCHOR[@N]")
@repo_option
@click.option("--dry-run", is_flag=True, help="Only say what would happen.")
@click.option("--force", is_flag=True, help="Put its files in place of what later commits have changed.")
@click.option("--leave-conflicts", is_flag=True, help="Write files that do not merge, with the conflicts in them.")
def apply(door: Door, anchor: str, repo_root: str | None, dry_run: bool, force: bool, leave_conflicts: bool) -> int:
    """Bring the work of a handoff into this clone: its files and the uncommitted patch, all of it or nothing.

    What was changed here too is merged line by line. Only the folder named by --repo is written to, else the
    repository that you are in, if it is known to be that of the handoff. Exits 4 when it is not, or something is in the
    way, also with --dry-run, and when conflicts are left to be solved.
    """
    from outlast.values.codec import jsonable

    with door.open() as outlast:
        name, revision = revision_of(outlast, anchor)
        place = repo_root and os.path.abspath(repo_root)
        apply_here = partial(outlast.handoff.apply, name, revision=revision, repo_root=place)
        done = apply_here(dry_run=dry_run, force=force, leave_conflicts=leave_conflicts)
    if door.json:
        emit(jsonable(done))
    else:
        _say_applied(door, done)
    return REFUSED if done.hindrances or done.conflicts_left else 0


def _say_applied(door: Door, done: Applied) -> None:
    for line in done.as_text().splitlines():
        say(line)
    if done.conflicts_left and done.done:
        say("solve the conflicts, then go on", "yellow")
    if done.done:
        say(f"go on: {command_for(door, 'recover', done.anchor)}")


@command("export")
@anchor_argument()
@click.argument("file", metavar="[FILE]", default=".")
@click.option("--force", is_flag=True, help="Replace FILE, whatever it is.")
def export(door: Door, anchor: str, file: str, force: bool) -> int:
    """Write a handoff with its history, evidence, content and patch into one verified file.

    FILE may be a folder [here]; the name is then made of the anchor. It is a copy; the claim stays here.
    """
    from outlast.values.codec import jsonable

    with door.open() as outlast:
        done = outlast.handoff.export(anchor, file, force=force)
    if door.json:
        emit(jsonable(done))
    else:
        _say_exported(door, done)
    return 0


def _say_exported(door: Door, done: Bundled) -> None:
    say(f"{done.anchor}@{done.revision} copied to {done.path}", "green")
    parts = (counted(done.entries, "journal record"), counted(done.blobs, "blob"), f"{done.bytes:,} bytes")
    say(f"{', '.join(parts)}; sha256 {done.digest}")
    say(f"in another home: {Door(None, None, None, False).command('handoff', 'import', done.path)}")


@command("import")
@click.argument("path", metavar="FILE")
def import_(door: Door, path: str) -> int:
    """Bring in a handoff from a file that export wrote. A history that parted from the one here is refused."""
    from outlast.values.codec import jsonable

    with door.open(make=True) as outlast:
        done = outlast.handoff.import_(path)
    if door.json:
        emit({**jsonable(done), "replayed": done.replayed})
    else:
        _say_imported(door, done)
    return 0


def _say_imported(door: Door, done: BundleArrived) -> None:
    say(f"{done.anchor}@{done.revision} ({done.status}) {CHANGES[done.change]}", "green")
    say(f"{counted(done.added, 'new journal record')}, {counted(done.blobs, 'blob')}")
    there = door if done.scope == "default" else replace(door, scope=done.scope)
    say(f"recover it: {command_for(there, 'recover', done.anchor)}")
