"""Homes as a whole, without opening one: a backup taken, a home made of it, of a mirror, or begun anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outlast.home.place import find_home

if TYPE_CHECKING:
    from outlast.care.backup.backup import BackedUp as BackedUp
    from outlast.care.backup.rebuild import Rebuilt as Rebuilt
    from outlast.care.backup.rebuild import SetAside as SetAside
    from outlast.care.backup.restore import Restored as Restored
    from outlast.home.restored import Restoration

Progress = Callable[[int, int], None]


def nobody(done: int, total: int) -> None:
    """Stands for who watches while nobody does."""


def backup(home: str | Path | None, path: str | Path, *, mirror: bool = False, progress: Progress = nobody) -> BackedUp:
    """Everything of a home in one new file; see `Outlast.backup`. Nothing of the home is run or changed."""
    from outlast.care.backup.backup import make_backup

    return make_backup(find_home(home), Path(path), mirror=mirror, progress=progress)


def restore(path: str | Path, home: str | Path | None = None, *, progress: Progress = nobody) -> Restored:
    """A home made of a backup, exactly as it was, where nothing is yet; all of it or none.

    What happened after the backup is not known there: do not let the home that it was taken of go on as well. Raises
    ArchiveInvalid, HomeNotEmpty, DiskFull.
    """
    from outlast.care.backup.restore import restore_backup

    return restore_backup(Path(path), place_for(home), progress=progress)


def restore_from_mirror(mirror: str | Path, home: str | Path | None = None, *, tenant: str = "default") -> Rebuilt:
    """A home made of the files of a mirror: sealed runs, testimony, never trusted. Raises HomeNotEmpty, Invalid."""
    from outlast.care.backup.rebuild import restore_mirror

    return restore_mirror(Path(mirror), place_for(home), tenant=tenant)


def begin_anew(home: str | Path | None, tenant: str, why: str) -> SetAside:
    """Set what is left of a lost database aside, on the record, so that the next command begins a new one."""
    from outlast.care.backup.rebuild import begin_anew

    return begin_anew(find_home(home, must_exist=True), tenant, why)


def tenants_of(home: str | Path) -> list[str]:
    """Every tenant of a home that has a database, or had one."""
    from outlast.care.backup.content import tenants_of

    return tenants_of(Path(home))


def restoration_of(home: str | Path) -> Restoration | None:
    """Of which backup a home was made; None for one that was not."""
    from outlast.home.restored import restoration_of

    return restoration_of(Path(home))


def set_aside(home: str | Path) -> list[dict[str, Any]]:
    """What was set aside in a home when a lost database was given up."""
    from outlast.care.backup.rebuild import set_aside

    return set_aside(Path(home))


def place_for(home: str | Path | None) -> Path:
    """Where a home is made: the one named or OUTLAST_HOME, else `.outlast` here, whatever lies above."""
    import os

    from outlast.home.place import FOLDER

    named = home or os.environ.get("OUTLAST_HOME")
    return find_home(named) if named else find_home(Path(os.getcwd()) / FOLDER)
