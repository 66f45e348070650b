"""`outlast backup`: a whole home in one file, taken while it is at work.

Every tenant is taken as it is at one moment: its database first, then its blobs, which were durable before anything
referred to them; no gc removes one meanwhile. The file is made beside its place and gets its name when all of it is on
the disk. Its last line is the digest of all before it.

A folder of our own beside a place, in which something is made whole before it gets its name there.

A process that dies leaves the folder; whoever works beside the same place next removes it. A lock tells those that are
still at work.

What a backup of a home holds: which of its files, and which are made anew by themselves and stay out.

Databases are copied as they are at one moment by the store, never as files: while somebody writes, a
file and its log are of two moments.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from msgspec import Struct

from outlast import failpoints
from outlast.care.gc.gc import alone
from outlast.care.travel.archive import BACKUP, SUFFIX, Backup, Packer, refuse_to_replace, target
from outlast.clock import Clock, SystemClock
from outlast.errors import Conflict, HomeNotFound, HomeReadOnly, Invalid
from outlast.home.place import MADE, check_tenant, marker_of
from outlast.ids import Ids, random_id
from outlast.store import bucket_of, open_keys, url_of
from outlast.store import open as open_store
from outlast.store.contract import KEYS, Store
from outlast.store.disk import PIECE_BYTES, sync_file, sync_folder, translated
from outlast.values.frozen import NamedTuple
from outlast.values.private import NotPlain, kind_of, open_plain

if TYPE_CHECKING:
    from hashlib import _Hash


_BEGINS, _ENDS = ".outlast-", ".tmp"


@contextmanager
def staging(parent: Path) -> Iterator[Path]:
    """A new folder in `parent`, for us alone, gone afterwards. Raises DiskFull, StoreReadOnly, StoreFailed."""
    clear(parent)
    folder = parent / f"{_BEGINS}{random_id()}{_ENDS}"
    try:
        folder.mkdir(mode=0o700)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)
    except OSError as error:
        raise translated(error, str(parent)) from error


def clear(parent: Path) -> None:
    """Remove what those who died left beside this place. What cannot be removed stays."""
    for folder in parent.glob(f"{_BEGINS}*{_ENDS}"):
        with suppress(OSError):
            lock = os.open(folder / "lock", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def sync_tree(top: Path) -> None:
    """Make every file and every name below durable."""
    for at, _, names in os.walk(top, topdown=False):
        for name in names:
            sync_file(Path(at, name))
        sync_folder(Path(at))


DATABASE = "outlast.db"
_DERIVED = re.compile(  # locks, and what is made of the rest when it is missed
    r"(?:[^/]+/)?(?:gc\.lock|[^/]*\.db-(?:wal|shm|journal))|\.made(?:/.*)?|\.hooks/(?:lock|briefings(?:/.*)?)"
    r"|[^/]+/(?:recall|recipes|under-way)(?:/.*)?|[^/]+/blobs/../\.[0-9a-f]{64}\..*|restored\.json"
)
_MIRROR = re.compile(r"(?:[^/]+/)?runs(?:/.*)?")
BLOB = re.compile(r"[^/]+/blobs/(?:..|trash)/([0-9a-f]{64})")


class HomeFile(NamedTuple):
    """A file of a home."""

    name: str  # its path in the home
    path: Path
    size: int


def tenants_of(home: Path) -> list[str]:
    """Every tenant that has a database, or had one."""
    there = {path.parent.name for path in home.glob(f"*/{DATABASE}") if not path.parent.name.startswith(".")}
    made = {path.name for path in (home / MADE).glob("*")} - {KEYS}
    return sorted(check_tenant(name) for name in there | made)


def files_of(home: Path, *, mirror: bool, left_out: list[tuple[str, str]]) -> Iterator[HomeFile]:
    """Every plain file but databases and what is derived; other things are named in `left_out`."""
    for at, folders, names in os.walk(home):
        below = os.path.relpath(at, home)
        prefix = "" if below == "." else f"{below}/"
        links = [name for name in folders if os.path.islink(os.path.join(at, name))]
        folders[:] = sorted(name for name in folders if _wanted(f"{prefix}{name}", mirror) and name not in links)
        for name in sorted([*names, *links]):
            yield from _found(home, f"{prefix}{name}", mirror, left_out)


def _found(home: Path, name: str, mirror: bool, left_out: list[tuple[str, str]]) -> Iterator[HomeFile]:
    path, is_database = home / name, name.count("/") == 1 and name.endswith(f"/{DATABASE}")  # a tenant's
    if not _wanted(name, mirror) or name == KEYS or is_database:
        return
    try:
        name.encode()
    except UnicodeEncodeError:
        left_out.append((name.encode("utf-8", "backslashreplace").decode(), "its name is not UTF-8"))
        return
    if kind := kind_of(path):
        left_out.append((name, f"it is {kind}, no plain file"))
        return
    try:
        yield HomeFile(name, path, path.lstat().st_size)
    except FileNotFoundError:  # a work folder that was cleared, a temporary file
        return


def _wanted(name: str, mirror: bool) -> bool:
    if name.startswith(".outlast-") and name.endswith(".tmp"):  # of a backup into the home itself
        return False
    return not _DERIVED.fullmatch(name) and (mirror or not _MIRROR.fullmatch(name))


INSIDE = "home/"  # how the names of members begin
DIGEST_BYTES = 64

Progress = Callable[[int, int], None]  # bytes done, bytes in all as far as known


def nobody(done: int, total: int) -> None:
    """Stands for who watches while nobody does."""


class BackedUp(Struct, frozen=True):
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
                about = (id_, str(home), made_at, tenants, members, taking.damaged, taking.left_out)
                packer.seal(Backup(BACKUP.name, *about))
                packer.end_with(b"0" * DIGEST_BYTES)
            digest = _sign(file)
        failpoints.reached("backup.synced")
        _name(beside / "file", place)
    damaged, left_out = tuple(taking.damaged), tuple(taking.left_out)
    size = place.stat().st_size
    return BackedUp(str(place), id_, str(home), made_at, tuple(tenants), len(members), size, digest, damaged, left_out)


def _name_of(home: Path) -> str:
    """What a backup is called: after the folder that has the home, or the home's own name."""
    words = home.resolve().parent.name if home.name.startswith(".") else home.name
    return "".join(letter if letter.isalnum() or letter in "_-" else "_" for letter in words)[:40] or "home"


@contextmanager
def _opened(home: Path, tenant: str) -> Iterator[Store]:
    """A tenant's store, and no gc at work on it. A home that cannot be written has no gc of ours either."""
    with ExitStack() as held:
        folder = home / tenant
        store = open_store(url_of(folder / DATABASE), marker=marker_of(home, tenant)).store
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

    def fill(self, packer: Packer, stores: dict[str, Store]) -> None:
        """Databases first: what they refer to was on the disk before."""
        for tenant, store in stores.items():
            if bucket := bucket_of(store):
                self.left_out.append((f"{tenant}/blobs", f"its content is in {bucket}; back that up too"))
            copy = self._beside / DATABASE
            store.copy_to(copy)
            self._add_copy(packer, f"{tenant}/{DATABASE}", copy)
        keys, copy = open_keys(self._home), self._beside / KEYS
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
        failpoints.reached("backup.copied")
        self._total += copy.stat().st_size
        self._add(packer, HomeFile(name, copy, 0))
        copy.unlink()

    def _add(self, packer: Packer, found: HomeFile) -> None:
        try:
            file = open_plain(found.path)
        except FileNotFoundError:
            if BLOB.fullmatch(found.name):  # a work folder may be cleared meanwhile; a blob must not
                raise Conflict(detail=f"{found.path} went away while it was copied; take the backup again") from None
            return
        except NotPlain as error:
            self.left_out.append((found.name, str(error.strerror)))
            return
        with file:
            digest = packer.add(INSIDE + found.name, self._pieces(file))
        blob = BLOB.fullmatch(found.name)
        if blob and blob[1] != digest:
            self.damaged.append((found.name, "its content was changed"))
        failpoints.reached("backup.added")

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
    failpoints.reached("backup.named")
    sync_folder(place.parent)
