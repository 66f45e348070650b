"""`outlast backup` and `outlast restore`: a whole home in one file, and back."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from outlast.clock import moment
from outlast.doors.cli.door import Door, command
from outlast.doors.cli.exits import FAILED, SUCCEEDED
from outlast.doors.cli.render import counted, emit, note, say

if TYPE_CHECKING:
    from outlast.python.backups import BackedUp, Rebuilt, Restored, SetAside

SHOWN = 20


@command("backup")
@click.argument("file", metavar="[FILE]", default=".")
@click.option("--mirror", is_flag=True, help="The mirror too: receipts and handoffs as files.")
def backup(door: Door, file: str, mirror: bool) -> int:
    """Write the whole home into one new file, while it is at work: all tenants, their blobs, keys and settings.

    FILE may be a folder [here]; the name is then made of the home. A file that is there is never replaced.
    """
    from outlast.python.backups import backup as make
    from outlast.values.codec import jsonable

    done = make(door.home, file, mirror=mirror, progress=_progress)
    if door.json:
        emit(jsonable(done))
    else:
        _say_backup(door, done)
    return FAILED if done.damaged else SUCCEEDED


def _say_backup(door: Door, done: BackedUp) -> None:
    say(f"backup {done.id} of {done.home} is {done.path}", "green")
    say(f"{counted(len(done.tenants), 'tenant')}, {counted(done.files, 'file')}, {done.bytes:,} bytes")
    say(f"sha256 {done.digest}")
    _note_all("left out", done.left_out)
    _note_all("broken already, and in the backup as it is", done.damaged)
    say(f"restore it: outlast restore {done.path} --home DIR")


@command("restore")
@click.argument("backup", metavar="[BACKUP]", required=False)
@click.option("--from-mirror", metavar="DIR", help="Of the files of a mirror: sealed runs that prove nothing.")
@click.option("--anew", is_flag=True, help="Set what is left of a lost database aside, and begin anew.")
@click.option("--why", metavar="WHY", default="", help="With --anew: why; it is on the record.")
def restore(door: Door, backup: str | None, from_mirror: str | None, anew: bool, why: str) -> int:
    """Make a home of a backup, exactly as it was, where nothing is yet; all of it or none.

    What happened after the backup is not known there. Let only one of the two homes go on.
    """
    if sum((backup is not None, from_mirror is not None, anew)) != 1:
        raise click.UsageError("name one: BACKUP, --from-mirror DIR, or --anew --why WHY")
    if anew and not why.strip():
        raise click.UsageError("--anew needs --why: say why the database is given up; it is on the record")
    from outlast.python import backups
    from outlast.values.codec import jsonable

    tenant = door.tenant or "default"
    if anew:
        gone = backups.begin_anew(door.home, tenant, why)
        emit(jsonable(gone)) if door.json else _say_anew(gone)
    elif from_mirror is not None:
        built = backups.restore_from_mirror(from_mirror, door.home, tenant=tenant)
        emit(jsonable(built)) if door.json else _say_rebuilt(built)
    else:
        done = backups.restore(str(backup), door.home, progress=_progress)
        emit(jsonable(done)) if door.json else _say_restored(door, done)
    return SUCCEEDED


def _say_restored(door: Door, done: Restored) -> None:
    say(
        f"{done.home} is as {done.was} was at {moment(done.made_at):%Y-%m-%d %H:%M:%S} UTC (backup {done.backup})",
        "green",
    )
    say(f"{counted(len(done.tenants), 'tenant')}, {counted(done.files, 'file')}, {done.bytes:,} bytes, all proven")
    _note_all("broken when the backup was taken", done.damaged)
    say("what happened after the backup is not known here; let only one of the two homes go on")
    say(f"look at it: outlast doctor --home {done.home}")


def _say_rebuilt(built: Rebuilt) -> None:
    say(f"{built.home} has {counted(len(built.runs), 'run')} of {built.mirror}, as testimony", "green")
    say("they are sealed: nothing of them is proven, and whether an effect in them happened is in doubt")
    _note_all("not taken", built.ignored)


def _say_anew(gone: SetAside) -> None:
    say(f"what was left is in {gone.folder}; the next command begins anew", "green")
    say(f"it was: {gone.lost}")


def _note_all(what: str, found: tuple[tuple[str, str], ...]) -> None:
    for name, why in found[:SHOWN]:
        note(f"{what}: {name}: {why}")
    if len(found) > SHOWN:
        note(f"and {len(found) - SHOWN:,} more; --json names all of them")


def _progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{done >> 20:,} of {total >> 20:,} MiB" + ("\n" if done >= total else ""))
        sys.stderr.flush()
