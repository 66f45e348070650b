"""When there is no backup: what a mirror says, taken in as testimony; and beginning anew, on the record.

A mirror proves nothing. The runs made of it are sealed: they can be read, they are never trusted and never go on, and
whether an effect in them happened is in doubt.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from outlast.care.backup.content import DATABASE
from outlast.care.backup.restore import put_in_place, refuse_taken
from outlast.care.backup.staging import staging
from outlast.care.travel.import_folder import import_testimony, sources
from outlast.care.travel.import_run import Imported
from outlast.clock import Clock, SystemClock, moment
from outlast.errors import Invalid, NothingLost, StoreForeign, StoreLost
from outlast.home.home import Runtime
from outlast.home.place import check_name, marker_of, tenant_folder
from outlast.store.blobs.folder import sync_folder
from outlast.store.sqlite.keys import FILE as KEYS
from outlast.store.sqlite.keys import KeyFile
from outlast.store.sqlite.open import SqliteStore
from outlast.store.sqlite.presence import inspect
from outlast.values.frozen import dataclass
from outlast.values.private import make_folder, write_file

LOST = ".lost"  # in a home: what was set aside


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A home that was made of a mirror."""

    home: str
    mirror: str
    runs: tuple[Imported, ...]
    ignored: tuple[tuple[str, str], ...]  # flows of which nothing could be taken, and why


def restore_mirror(mirror: Path, home: Path, *, tenant: str = "default", **settings: Any) -> Rebuilt:
    """Make a home of the folder of a mirror: each run sealed, as testimony. Raises HomeNotEmpty, Invalid."""
    refuse_taken(home)
    found = [source.name for source in sources(mirror)] if mirror.is_dir() else []
    if not found:
        raise Invalid(detail=f"{mirror} is no mirror: expected is <run>/<flow>/receipts/<step>-<agent>.json")
    taken, ignored = [], []
    with staging(home.parent) as beside:
        made = beside / home.name
        runtime = Runtime(made, facade=_no_flow, tenant=tenant, **settings)
        try:
            for name in found:
                try:
                    taken.append(import_testimony(runtime, mirror, name))
                except Invalid as error:
                    ignored.append((name, error.detail))
        finally:
            runtime.close()
        if not taken:
            raise Invalid(detail=f"nothing of {mirror} can be taken: {ignored[0][1]}")
        put_in_place(made, home)
    return Rebuilt(str(home), str(mirror), tuple(taken), tuple(ignored))


def _no_flow(*_: object) -> None:
    raise AssertionError("nothing runs while a home is made")


# -- beginning anew -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SetAside:
    """What was left of a lost database, and where it is now. The next command begins anew."""

    home: str
    tenant: str
    lost: str  # what was wrong
    folder: str
    moved: tuple[str, ...]
    why: str
    at: int


def begin_anew(home: Path, tenant: str, why: str, *, actor: str = "local", clock: Clock | None = None) -> SetAside:
    """Give a lost database up: what is left of it is set aside, with who did so and why; nothing is removed.

    Raises NothingLost when the database is there and one of ours.
    """
    check_name("why", why)
    lost, keys = _lost(home, tenant), KeyFile(home).lost()
    if not lost and not keys:
        raise NothingLost(str(home / tenant))
    at = (clock or SystemClock()).now()
    aside = home / LOST / f"{moment(at):%Y%m%dT%H%M%S%f}-{tenant}"
    make_folder(aside)
    note = {"tenant": tenant, "lost": lost or keys, "why": why, "by": actor, "at": moment(at).isoformat()}
    write_file(aside / "why.json", msgspec.json.encode(note) + b"\n")
    names = [*(_of_tenant(tenant) if lost else ()), *([KEYS] if keys else ())]
    moved = [name for name in names if os.path.lexists(home / name)]
    for name in moved:
        os.rename(home / name, aside / name)
    for name in (tenant, KEYS)[not lost : 2 if keys else 1]:  # last: until here the home refuses to begin anew
        marker_of(home, name).unlink(missing_ok=True)
    for folder in (aside, home):
        sync_folder(folder)
    return SetAside(str(home), tenant, lost or keys, str(aside), tuple(moved), why, at)


def _lost(home: Path, tenant: str) -> str:
    """What is wrong with a tenant's database; "" when it opens."""
    path = tenant_folder(home, tenant) / DATABASE
    try:
        inspect(path, marker_of(home, tenant))
        if path.exists():
            SqliteStore(path, marker=marker_of(home, tenant)).close()
    except (StoreLost, StoreForeign) as error:
        return error.detail
    return ""


def _of_tenant(tenant: str) -> list[str]:
    return [tenant, "runs"] if tenant == "default" else [tenant]


def set_aside(home: Path) -> list[dict[str, Any]]:
    """Everything that was set aside in a home, the oldest first."""
    found = []
    for path in sorted((home / LOST).glob("*/why.json")):
        try:
            found.append({**msgspec.json.decode(path.read_bytes(), type=dict[str, Any]), "folder": str(path.parent)})
        except (OSError, msgspec.MsgspecError):
            found.append({"folder": str(path.parent)})
    return found
