"""`outlast restore`: a home from a backup, exactly as it was; or from a mirror, as testimony; or anew, on the record.

Whatever is made is made beside its place and proven there; then the home gets its name, in one step. Nothing that is
there already is ever replaced.

When there is no backup: what a mirror says, taken in as testimony; and beginning anew, on the record.

A mirror proves nothing. The runs made of it are sealed: they can be read, they are never trusted and never go on, and
whether an effect in them happened is in doubt.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
from msgspec import Struct

from outlast import failpoints
from outlast.care.backup import DATABASE, DIGEST_BYTES, INSIDE, digest_of, staging, sync_tree
from outlast.care.travel.archive import BACKUP, Archive, Backup, opened
from outlast.care.travel.import_folder import import_testimony, sources
from outlast.care.travel.import_run import Imported
from outlast.clock import Clock, SystemClock, moment
from outlast.errors import HomeNotEmpty, Invalid, NameInvalid, NothingLost, StoreForeign, StoreLost
from outlast.home.caller import Caller, usual_actor
from outlast.home.home import open_home
from outlast.home.place import Restoration, check_name, check_tenant, marker_of, tenant_folder, write_restoration
from outlast.store import inspect, open_keys, remember, url_of
from outlast.store import open as open_store
from outlast.store.contract import KEYS
from outlast.store.disk import refuse_network, sync_folder
from outlast.values.private import make_folder, open_plain, write_file

Progress = Callable[[int, int], None]


class RestoredHome(Struct, frozen=True):
    """A home that was made from a backup."""

    home: str
    backup: str  # the backup's id
    was: str  # the home it was taken of
    made_at: int
    tenants: tuple[str, ...]
    files: int
    bytes: int
    damaged: tuple[tuple[str, str], ...]  # as the backup says: they were so when it was taken


def restore_backup(path: Path, home: Path, *, progress: Progress = lambda done, total: None) -> RestoredHome:
    """Make a home of a backup, where nothing is yet: all of it, or none.

    Ids, epochs, chains and keys are as they were. Raises ArchiveInvalid when a byte of the file is not what was
    written, HomeNotEmpty, DiskFull; then nothing was made.
    """
    refuse_taken(home)
    with opened(path, BACKUP) as archive, staging(home.parent) as beside:
        made = beside / home.name
        size = _unpack(archive, made, progress)
        _prove_end(archive, path)
        manifest = archive.manifest
        _prove_databases(archive, made)
        about = (manifest.id, manifest.home, manifest.made_at)
        write_restoration(made, Restoration(*about, SystemClock().now()))
        put_in_place(made, home)
    tenants, damaged = tuple(manifest.tenants), tuple(manifest.damaged)
    return RestoredHome(str(home), *about, tenants, len(manifest.members), size, damaged)


def refuse_taken(home: Path) -> None:
    """Raises HomeNotEmpty, Invalid, NetworkFilesystem for a place where no home can be made."""
    try:
        taken = home.is_symlink() or (home.exists() and (not home.is_dir() or any(home.iterdir())))
    except (OSError, ValueError) as error:
        raise Invalid(detail=f"{str(home)!r} cannot be a home: {error}; name another folder") from error
    if taken:
        raise HomeNotEmpty(str(home))
    if not home.parent.is_dir():
        raise Invalid(detail=f"there is no folder {home.parent}; make it, or name another: --home DIR")
    refuse_network(home.parent)


def put_in_place(made: Path, home: Path) -> None:
    """Give a home that is whole its name. Raises HomeNotEmpty when somebody was first."""
    sync_tree(made)
    failpoints.reached("home.synced")
    try:
        os.rename(made, home)  # over nothing, or over an empty folder
    except (FileExistsError, NotADirectoryError):
        raise HomeNotEmpty(str(home)) from None
    except OSError as error:
        if home.is_dir() and any(home.iterdir()):
            raise HomeNotEmpty(str(home)) from error
        raise
    failpoints.reached("home.named")
    sync_folder(home.parent)


# -- proving ------------------------------------------------------------------------------------------


def _unpack(archive: Archive[Backup], made: Path, progress: Progress) -> int:
    """Every member in its place below `made`, each proven by its digest. How many bytes they are."""
    made.mkdir(mode=0o700)
    done, total = 0, sum(member.size for member in archive.manifest.members)
    for member in archive.manifest.members:
        place = made / _inside(archive, member.name)
        for each in reversed([place.parent, *place.parent.parents]):
            if each.is_relative_to(made) and not each.is_dir():
                each.mkdir(mode=0o700)
        try:
            handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        except FileExistsError:
            raise archive.invalid(member.name, "it is there more than once") from None
        with open(handle, "wb") as file:
            for piece in archive.pieces(member.name):
                file.write(piece)
                done += len(piece)
                progress(done, total)
        failpoints.reached("home.staged")
    return done


def _inside(archive: Archive[Backup], name: str) -> PurePosixPath:
    """A member's place in the home. Raises ArchiveInvalid for one that would leave it."""
    path = PurePosixPath(name.removeprefix(INSIDE))
    plain = name.startswith(INSIDE) and str(path) == name.removeprefix(INSIDE) and "\0" not in name
    if not plain or path.is_absolute() or not path.parts or {"..", "."} & set(path.parts):
        raise archive.invalid(name, "its name is not that of a file in a home")
    return path


def _prove_databases(archive: Archive[Backup], made: Path) -> None:
    """Each tenant has its database, and it is one of ours. Then the home remembers that it has it."""
    for tenant in archive.manifest.tenants:
        try:
            folder = made / check_tenant(tenant)
        except NameInvalid as error:
            raise archive.invalid("manifest.json", str(error)) from error
        if not (folder / DATABASE).is_file():
            raise archive.invalid(f"{INSIDE}{tenant}/{DATABASE}", "it is missing")
        inspect(folder / DATABASE, None)
        (folder / "blobs").mkdir(mode=0o700, exist_ok=True)
        remember(marker_of(made, tenant))
    if (made / KEYS).exists():
        remember(marker_of(made, KEYS))


def _prove_end(archive: Archive[Backup], path: Path) -> None:
    """The last line is the digest of all before it: no byte between the members was changed either."""
    with archive.reading("the file"), open_plain(path.resolve()) as file:
        end = file.seek(0, os.SEEK_END) - DIGEST_BYTES
        found = digest_of(file, end).hexdigest()
        if end < 0 or file.read(DIGEST_BYTES) != found.encode():
            raise ValueError("it is not what was written: the digest of all of it differs")


LOST = ".lost"  # in a home: what was set aside


class Rebuilt(Struct, frozen=True):
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
        caller = _caller(made, tenant, **settings)
        try:
            for name in found:
                try:
                    taken.append(import_testimony(caller, mirror, name))
                except Invalid as error:
                    ignored.append((name, error.detail))
        finally:
            caller.home.close()
        if not taken:
            raise Invalid(detail=f"nothing of {mirror} can be taken: {ignored[0][1]}")
        put_in_place(made, home)
    return Rebuilt(str(home), str(mirror), tuple(taken), tuple(ignored))


def _caller(home: Path, tenant: str, *, actor: str = "", scope: str = "default", **settings: Any) -> Caller:
    """Who takes runs into a home that is being made."""
    who = check_name("actor", actor or usual_actor())
    return Caller(open_home(home, tenant=tenant, **settings), who, check_name("scope", scope))


# -- beginning anew -----------------------------------------------------------------------------------


class SetAside(Struct, frozen=True):
    """What was left of a lost database, and where it is now. The next command begins anew."""

    home: str
    tenant: str
    lost: str  # what was wrong
    folder: str
    moved: tuple[str, ...]
    why: str
    at: int


def begin_anew(home: Path, tenant: str, why: str, *, actor: str | None = None, clock: Clock | None = None) -> SetAside:
    """Give a lost database up: what is left of it is set aside, with who did so and why; nothing is removed.

    Raises NothingLost when the database is there and one of ours.
    """
    check_name("why", why)
    lost, keys = _lost(home, tenant), open_keys(home).lost()
    if not lost and not keys:
        raise NothingLost(str(home / tenant))
    at = (clock or SystemClock()).now()
    aside = home / LOST / f"{moment(at):%Y%m%dT%H%M%S%f}-{tenant}"
    make_folder(aside)
    note = {
        "tenant": tenant,
        "lost": lost or keys,
        "why": why,
        "by": actor or usual_actor(),
        "at": moment(at).isoformat(),
    }
    write_file(aside / "why.json", msgspec.json.encode(note) + b"\n")
    of_tenant = [tenant, "runs"] if tenant == "default" else [tenant]
    names = [*(of_tenant if lost else ()), *([KEYS] if keys else ())]
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
            open_store(url_of(path), marker=marker_of(home, tenant)).store.close()
    except (StoreLost, StoreForeign) as error:
        return error.detail
    return ""


def set_aside(home: Path) -> list[dict[str, Any]]:
    """Everything that was set aside in a home, the oldest first."""
    found = []
    for path in sorted((home / LOST).glob("*/why.json")):
        try:
            found.append({**msgspec.json.decode(path.read_bytes(), type=dict[str, Any]), "folder": str(path.parent)})
        except (OSError, msgspec.MsgspecError):
            found.append({"folder": str(path.parent)})
    return found
