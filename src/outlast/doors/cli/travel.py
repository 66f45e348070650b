"""`outlast export` and `outlast import`: runs that leave a home or come into one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from outlast.doors.cli.completion import run_argument
from outlast.doors.cli.door import Door, command
from outlast.doors.cli.render import counted, emit, note, say

if TYPE_CHECKING:
    from outlast.care.travel.export_run import Exported
    from outlast.care.travel.import_run import Imported

SHOWN = 20


@command("export")
@run_argument()
@click.argument("file", metavar="[FILE]", default=".")
@click.option("--move", is_flag=True, help="Take the run away: it cannot go on here any more.")
@click.option("--force", is_flag=True, help="Replace FILE, whatever it is.")
@click.option("--mirror", is_flag=True, help="Write its receipts and handoffs as files in the home instead.")
def export(door: Door, run_id: str, file: str, move: bool, force: bool, mirror: bool) -> int:
    """Write a run and its children into one file.

    A copy can be looked at elsewhere. With --move the file is the run itself: import it once, where it is to go on.
    FILE may be a folder [here]; the name is then made of the flow and the run.
    """
    from outlast.values.codec import jsonable

    if mirror:
        return _mirror(door, run_id, alone=file == "." and not (move or force))
    with door.open() as outlast:
        done = outlast.export(run_id, file, move=move, force=force)
    if door.json:
        emit(jsonable(done))
    else:
        _say_exported(door, done)
    return 0


def _mirror(door: Door, run_id: str, *, alone: bool) -> int:
    from outlast.errors import StoreReadOnly

    if not alone:
        raise click.UsageError("--mirror writes into the home; it takes no FILE, --move or --force")
    with door.open() as outlast:
        run = outlast.get(run_id)
        try:
            folder = outlast.mirror(run.id)
        except OSError as error:
            raise StoreReadOnly(str(error.filename or outlast.mirror(run.id, write=False)), str(error)) from error
    if door.json:
        emit({"run_id": run.id, "mirror": str(folder)})
    else:
        say(f"run {run.id}: its receipts and handoffs are in {folder}", "green")
    return 0


def _say_exported(door: Door, done: Exported) -> None:
    family = f" with {len(done.children)} of its children" if done.children else ""
    say(f"run {done.run_id}{family} {'moved' if done.moved else 'copied'} to {done.path}", "green")
    parts = (counted(done.entries, "journal record"), counted(done.blobs, "blob"), f"{done.bytes:,} bytes")
    say(f"{', '.join(parts)}; sha256 {done.digest}")
    if done.moved:
        say("it cannot go on here any more; import the file once, in the home where it is to go on")
        say(f"there, or here to bring it back: {door.command('import', done.path)}")


@command("import")
@click.argument("path", metavar="PATH")
@click.option("--flow", metavar="FLOW", help="Which flow of a folder that has several.")
def import_(door: Door, path: str, flow: str | None) -> int:
    """Bring in a run from a file that export wrote, or receipts that others wrote into a folder.

    A moved run goes on here; a copy is read-only. What a folder says is kept as testimony: it proves nothing.
    """
    from outlast.values.codec import jsonable

    with door.open(make=True) as outlast:
        done = outlast.import_(path, flow=flow)
    if door.json:
        emit(jsonable(done))
    else:
        _say_imported(door, done)
    return 0


def _say_imported(door: Door, done: Imported) -> None:
    what = {"": "", "copy": " as a read-only copy", "testimony": " as testimony: nothing of it is proven"}[done.seal]
    was = "was here already" if done.replayed else "imported"
    say(f"run {done.run_id} ({done.status}) {was}{what}", "green")
    say(f"{counted(done.entries, 'journal record')}, {counted(done.blobs, 'blob')}")
    for name, why in done.ignored[:SHOWN]:
        note(f"not taken: {name}: {why}")
    if len(done.ignored) > SHOWN:
        note(f"and {len(done.ignored) - SHOWN:,} more that were not taken; --json names all of them")
    resumable = not done.seal and done.status not in ("succeeded", "aborted")
    say(f"continue: {door.command('resume', done.run_id)}" if resumable else f"see {door.command('show', done.run_id)}")
