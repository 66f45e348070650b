"""What a backup of a home holds: which of its files, and which are made anew by themselves and stay out.

Databases are copied as they are at one moment (`store/sqlite/copying.py`), never as files: while somebody writes, a
file and its log are of two moments.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from outlast.home.place import MADE, check_tenant
from outlast.store.sqlite.keys import FILE as KEYS
from outlast.values.frozen import NamedTuple
from outlast.values.plain import kind_of

DATABASE = "outlast.db"
_DERIVED = re.compile(  # locks, and what is made of the rest when it is missed
    r"(?:[^/]+/)?(?:gc\.lock|[^/]*\.db-(?:wal|shm|journal))|\.made(?:/.*)?|\.hooks/(?:lock|briefings(?:/.*)?)"
    r"|[^/]+/(?:recall|recipes)(?:/.*)?|[^/]+/blobs/../\.[0-9a-f]{64}\..*|restored\.json"
)
_MIRROR = re.compile(r"(?:[^/]+/)?runs(?:/.*)?")
BLOB = re.compile(r"[^/]+/blobs/(?:..|trash)/([0-9a-f]{64})")


class Found(NamedTuple):
    """A file of a home."""

    name: str  # its path in the home
    path: Path
    size: int


def tenants_of(home: Path) -> list[str]:
    """Every tenant that has a database, or had one."""
    there = {path.parent.name for path in home.glob(f"*/{DATABASE}") if not path.parent.name.startswith(".")}
    made = {path.name for path in (home / MADE).glob("*")} - {KEYS}
    return sorted(check_tenant(name) for name in there | made)


def files_of(home: Path, *, mirror: bool, left_out: list[tuple[str, str]]) -> Iterator[Found]:
    """Every plain file but databases and what is derived; other things are named in `left_out`."""
    for at, folders, names in os.walk(home):
        below = os.path.relpath(at, home)
        prefix = "" if below == "." else f"{below}/"
        links = [name for name in folders if os.path.islink(os.path.join(at, name))]
        folders[:] = sorted(name for name in folders if _wanted(f"{prefix}{name}", mirror) and name not in links)
        for name in sorted([*names, *links]):
            yield from _found(home, f"{prefix}{name}", mirror, left_out)


def _found(home: Path, name: str, mirror: bool, left_out: list[tuple[str, str]]) -> Iterator[Found]:
    path = home / name
    if not _wanted(name, mirror) or name == KEYS or is_database(name):
        return
    if not _can_be_named(name):
        left_out.append((name.encode("utf-8", "backslashreplace").decode(), "its name is not UTF-8"))
        return
    if kind := kind_of(path):
        left_out.append((name, f"it is {kind}, no plain file"))
        return
    try:
        yield Found(name, path, path.lstat().st_size)
    except FileNotFoundError:  # a work folder that was cleared, a temporary file
        return


def _wanted(name: str, mirror: bool) -> bool:
    if name.startswith(".outlast-") and name.endswith(".tmp"):  # of a backup into the home itself
        return False
    return not _DERIVED.fullmatch(name) and (mirror or not _MIRROR.fullmatch(name))


def _can_be_named(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_database(name: str) -> bool:
    """Whether this is a tenant's database."""
    folder, _, file = name.rpartition("/")
    return file == DATABASE and bool(folder) and "/" not in folder
