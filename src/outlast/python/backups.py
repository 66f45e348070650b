"""Homes as a whole, without opening one: a backup taken, a home made of it, of a mirror, or begun anew.

What stands around a home and is not sound: who else may read it, and a repository that git is not asked about.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outlast.care import backup as backups
from outlast.care import move as moves
from outlast.care import restore as restores
from outlast.files.ask_git import why_refused
from outlast.files.repository import top_of
from outlast.home import place
from outlast.home.place import FOLDER, find_home, look_up, near
from outlast.home.settings import too_open

if TYPE_CHECKING:
    from outlast.care.backup import BackedUp as BackedUp
    from outlast.care.move import MovedHome as MovedHome
    from outlast.care.restore import Rebuilt as Rebuilt
    from outlast.care.restore import RestoredHome as RestoredHome
    from outlast.care.restore import SetAside as SetAside
    from outlast.home.place import Restoration
    from outlast.python.shared import Shared


Progress = Callable[[int, int], None]


def nobody(done: int, total: int) -> None:
    """Stands for who watches while nobody does."""


def folder_of(home: str | Path | None, tell: Callable[[str], None] | None = None) -> Path:
    """The folder of a home, there or not, also of one whose ledger is in a database. Raises HomeNotOurs, EmbeddedOnly.

    `tell` is told of one that is adopted.
    """
    return look_up(home, tell=tell).path


def backup(home: str | Path | None, path: str | Path, *, mirror: bool = False, progress: Progress = nobody) -> BackedUp:
    """Everything of a home in one new file; see `Outlast.backup`. Nothing of the home is run or changed."""
    return backups.make_backup(find_home(home), Path(path), mirror=mirror, progress=progress)


def restore(path: str | Path, home: str | Path | None = None, *, progress: Progress = nobody) -> RestoredHome:
    """A home made of a backup, exactly as it was, where nothing is yet; all of it or none.

    What happened after the backup is not known there: do not let the home that it was taken of go on as well. Raises
    ArchiveInvalid, HomeNotEmpty, DiskFull.
    """
    return restores.restore_backup(Path(path), place_for(home), progress=progress)


def restore_from_mirror(mirror: str | Path, home: str | Path | None = None, *, tenant: str = "default") -> Rebuilt:
    """A home made of the files of a mirror: sealed runs, testimony, never trusted. Raises HomeNotEmpty, Invalid."""
    return restores.restore_mirror(Path(mirror), place_for(home), tenant=tenant)


def move(home: str | Path | None, to: str | Path, *, progress: Callable[[str, int], None] | None = None) -> MovedHome:
    """A home taken elsewhere, to a folder or a database, and sealed where it was; see `outlast move`.

    Killed anywhere, it is repeated. Raises HomeNotFound, HomeNotEmpty, IntegrityBroken, Invalid.
    """
    return moves.move_home(look_up(home), look_up(to), progress=progress or moves.nobody)


def blobs_of(outlast: Shared) -> dict[str, str]:
    """Where the content of a home is (`place`), and what is found out of a bucket by trying it. Raises EmbeddedOnly."""
    blobs = outlast._home.blobs if outlast.home else None
    return {"place": blobs.place, **blobs.probe()} if blobs else {}


def begin_anew(home: str | Path | None, tenant: str, why: str) -> SetAside:
    """Set what is left of a lost database aside, on the record, so that the next command begins a new one."""
    return restores.begin_anew(find_home(home, must_exist=True), tenant, why)


def tenants_of(home: str | Path) -> list[str]:
    """Every tenant of a home that has a database, or had one."""
    return backups.tenants_of(Path(home))


def restoration_of(home: str | Path) -> Restoration | None:
    """Of which backup a home was made; None for one that was not."""
    return place.restoration_of(Path(home))


def set_aside(home: str | Path) -> list[dict[str, Any]]:
    """What was set aside in a home when a lost database was given up."""
    return restores.set_aside(Path(home))


def place_for(home: str | Path | None) -> Path:
    """Where a home is made: the one named or OUTLAST_HOME, else the repository's; outside of git `.outlast` here."""
    named = home or os.environ.get("OUTLAST_HOME")
    if named:
        return find_home(named)
    here = os.getcwd()
    return near() if top_of(here) is not None else find_home(Path(here) / FOLDER)


_NAMED = 5


def problems_around(home: Path) -> list[str]:
    """Each with what to do about it. Nothing is changed."""
    why = why_refused(Path(os.getcwd()))
    refused = [f"git is not asked about this repository: {why}"] if why else []
    return [*_open_to_others(home), *refused]


def _open_to_others(home: Path) -> list[str]:
    found = too_open(home)
    if not found:
        return []
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    named = ", ".join(found[:_NAMED])
    return [f"more people than should may read or change {named}{more}: let the owner run a command here, or chmod"]
