"""`outlast backup`: a whole home in one file, taken while it is at work.

Every tenant is taken as it is at one moment: its database first, then its blobs, which were durable before anything
referred to them; no gc removes one meanwhile. The file is made beside its place and gets its name when all of it is on
the disk. Its last line is the digest of all before it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from outlast import failpoints
from outlast.care.backup.content import BLOB, DATABASE, Found, files_of, tenants_of
from outlast.care.backup.staging import staging
from outlast.care.gc.alone import alone
from outlast.care.travel.archive import BACKUP, PIECE_BYTES, Backup, Packer
from outlast.care.travel.outgoing import SUFFIX, refuse_to_replace, target
from outlast.clock import Clock, SystemClock
from outlast.errors import Conflict, HomeNotFound, HomeReadOnly, Invalid
from outlast.home.place import marker_of
from outlast.ids import Ids, random_id
from outlast.store.blobs.folder import sync_folder
from outlast.store.sqlite.keys import FILE as KEYS
from outlast.store.sqlite.keys import KeyFile
from outlast.store.sqlite.open import SqliteStore
from outlast.values.frozen import dataclass
from outlast.values.plain import NotPlain, open_plain

if TYPE_CHECKING:
    from hashlib import _Hash

INSIDE = "home/"  # how the names of members begin
DIGEST_BYTES = 64

Progress = Callable[[int, int], None]  # bytes done, bytes in all as far as known


def nobody(done: int, total: int) -> None:
    """Stands for who watches while nobody does."""


@dataclass(frozen=True, slots=True)
class BackedUp:
    """A backup that was written."""

    path: str
    id: str
    home: str
    made_at: int  # microseconds; nothing later than this is in it
    tenants: tuple[str, ...]
    files: int
    bytes: int
    digest: str  # SHA-256 of the file
    damaged: tuple[tuple[str, str], ...]  # files that are in it as they were, and are not what they should be
    left_out: tuple[tuple[str, str], ...]  # pipes, links, devices: what no backup takes


def make_backup(
    home: Path,
    path: Path,
    *,
    mirror: bool = False,
    progress: Progress = nobody,
    clock: Clock | None = None,
    ids: Ids = random_id,
) -> BackedUp:
    """Write everything of a home into one new file: all tenants, keys and settings; the mirror if asked.

    It is there whole or not at all. Raises HomeNotFound, StoreLost and what else opening a tenant raises, GcRunning,
    Conflict when the file is there, DiskFull.
    """
    tenants = tenants_of(home) if home.is_dir() else []
    if not tenants:
        raise HomeNotFound(str(home))
    id_ = ids()
    place = target(path, f"{_name_of(home)}-{id_}{SUFFIX}")
    if place.resolve().is_relative_to(home.resolve()):
        raise Invalid(detail=f"{place} is inside of the home, and would be in every later backup; name a place outside")
    refuse_to_replace(place, False, lambda _: False)
    with ExitStack() as held, staging(place.parent) as beside:
        stores = {tenant: held.enter_context(_opened(home, tenant)) for tenant in tenants}
        made_at = (clock or SystemClock()).now()
        taking = _Taking(home, beside, mirror, progress)
        with open(os.open(beside / "file", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "r+b") as file:
            with Packer(file) as packer:
                taking.fill(packer, stores)
                members = packer.listed()
                packer.seal(
                    Backup(BACKUP.name, id_, str(home), made_at, tenants, members, taking.damaged, taking.left_out)
                )
                packer.end_with(b"0" * DIGEST_BYTES)
            digest = _sign(file)
        _reached("backup.synced")
        _name(beside / "file", place)
    damaged, left_out = tuple(taking.damaged), tuple(taking.left_out)
    size = place.stat().st_size
    return BackedUp(str(place), id_, str(home), made_at, tuple(tenants), len(members), size, digest, damaged, left_out)


def _name_of(home: Path) -> str:
    """What a backup is called: after the folder that has the home, or the home's own name."""
    words = home.resolve().parent.name if home.name.startswith(".") else home.name
    return "".join(letter if letter.isalnum() or letter in "_-" else "_" for letter in words)[:40] or "home"


@contextmanager
def _opened(home: Path, tenant: str) -> Iterator[SqliteStore]:
    """A tenant's store, and no gc at work on it. A home that cannot be written has no gc of ours either."""
    with ExitStack() as held:
        folder = home / tenant
        store = SqliteStore(folder / DATABASE, marker=marker_of(home, tenant))
        held.callback(store.close)
        with suppress(HomeReadOnly):
            held.enter_context(alone(folder))
        yield store


class _Taking:
    """One backup while it is filled."""

    def __init__(self, home: Path, beside: Path, mirror: bool, progress: Progress) -> None:
        self._home, self._beside, self._mirror, self._progress = home, beside, mirror, progress
        self.damaged: list[tuple[str, str]] = []
        self.left_out: list[tuple[str, str]] = []
        self._done = self._total = 0

    def fill(self, packer: Packer, stores: dict[str, SqliteStore]) -> None:
        """Databases first: what they refer to was on the disk before."""
        for tenant, store in stores.items():
            copy = self._beside / DATABASE
            store.copy_to(copy)
            self._add_copy(packer, f"{tenant}/{DATABASE}", copy)
        keys, copy = KeyFile(self._home), self._beside / KEYS
        try:
            if keys.copy_to(copy):
                self._add_copy(packer, KEYS, copy)
        finally:
            keys.close()
        found = [*files_of(self._home, mirror=self._mirror, left_out=self.left_out)]
        self._total += sum(each.size for each in found)
        for each in found:
            self._add(packer, each)

    def _add_copy(self, packer: Packer, name: str, copy: Path) -> None:
        _reached("backup.copied")
        self._total += copy.stat().st_size
        self._add(packer, Found(name, copy, 0))
        copy.unlink()

    def _add(self, packer: Packer, found: Found) -> None:
        try:
            file = open_plain(found.path)
        except FileNotFoundError:
            self._refuse_vanished(found)
            return
        except NotPlain as error:
            self.left_out.append((found.name, str(error.strerror)))
            return
        with file:
            digest = packer.add(INSIDE + found.name, self._pieces(file))
        blob = BLOB.fullmatch(found.name)
        if blob and blob[1] != digest:
            self.damaged.append((found.name, "its content was changed"))
        _reached("backup.added")

    def _refuse_vanished(self, found: Found) -> None:
        """A work folder may be cleared meanwhile; a blob must not."""
        if BLOB.fullmatch(found.name):
            raise Conflict(detail=f"{found.path} went away while it was copied; take the backup again")

    def _pieces(self, file: BinaryIO) -> Iterator[bytes]:
        while piece := file.read(PIECE_BYTES):
            yield piece
            self._done += len(piece)
            self._progress(self._done, max(self._done, self._total))


def _sign(file: BinaryIO) -> str:
    """Put the digest of all before it at the end, make the file durable, and give the digest of all of it."""
    end = file.seek(-DIGEST_BYTES, os.SEEK_END)
    found = digest_of(file, end)
    file.seek(end)
    file.write(found.hexdigest().encode())
    file.flush()
    os.fsync(file.fileno())
    found.update(found.hexdigest().encode())
    return found.hexdigest()


def digest_of(file: BinaryIO, end: int) -> _Hash:
    """The digest of a file's first bytes."""
    found = sha256()
    file.seek(0)
    while end > 0 and (piece := file.read(min(end, PIECE_BYTES))):
        found.update(piece)
        end -= len(piece)
    return found


def _name(file: Path, place: Path) -> None:
    """Give a file its name, unless somebody has taken that meanwhile."""
    try:
        os.link(file, place)
    except FileExistsError:
        raise Conflict(detail=f"{place} is there already; name another file") from None
    except OSError:  # a file system without links
        refuse_to_replace(place, False, lambda _: False)
        os.replace(file, place)
    _reached("backup.named")
    sync_folder(place.parent)


def _reached(point: str) -> None:
    if failpoints.armed:
        failpoints.armed(point)
