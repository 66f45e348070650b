"""Power cuts and disk faults for SQLite: two VFS layers over the system's own files.

`PowerVFS` keeps, beside every real file, what a disk would hold if the power failed now: the bytes of the
last successful sync, and the writes and truncations since. `cut()` builds the surviving files in a fresh
folder; open the database there with the default VFS and judge it. `FaultVFS` fails chosen writes and syncs;
put it over a `PowerVFS` to ask what a later cut leaves of a commit whose sync failed.

Modelled: unsynced writes lost, in any subset (a later one may survive an earlier one) and torn at 512-byte
sectors; files created or deleted count as such only once their folder is synced, which the unix VFS does at
the first sync of a journal or WAL it opened, and in a delete that asks for it. Shared memory (-shm) dies with
the machine.

Not modelled: writers outside this VFS object (other processes, blobs written without SQLite); renames (SQLite
makes none); the folder's own creation; damage outside the bytes written (SQLite assumes powersafe overwrite);
bit rot; disks that lie about a sync; kernels that forget a write after its sync failed; growth by
SQLITE_FCNTL_CHUNK_SIZE. Temporary files are not tracked.

One thing is not as in life: apsw raises what a VFS raised even where SQLite passes over the failure. A fault
in the checkpoint after a COMMIT comes out of that COMMIT, though it stands, and a fault while closing comes
out of close().
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Literal, assert_never

import apsw

SECTOR_BYTES = 512

Name = str | apsw.URIFilename | None
Kind = Literal["write", "truncate", "sync", "delete"]

_DATABASE = apsw.SQLITE_OPEN_MAIN_DB
_LOG = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL | apsw.SQLITE_OPEN_WAL


# What a disk is told, and what reaches it


@dataclass(frozen=True, slots=True)
class Write:
    offset: int
    data: bytes

    def apply(self, image: bytearray) -> None:
        image.extend(bytes(max(0, self.offset - len(image))))
        image[self.offset : self.offset + len(self.data)] = self.data

    def part(self, start: int, end: int) -> "Write":
        return Write(self.offset + start, self.data[start:end])

    def sectors(self) -> Iterator["Write"]:
        """The write cut where the disk's sectors meet."""
        start = 0
        while start < len(self.data):
            end = start + SECTOR_BYTES - (self.offset + start) % SECTOR_BYTES
            yield self.part(start, end)
            start = end


@dataclass(frozen=True, slots=True)
class Truncate:
    size_bytes: int

    def apply(self, image: bytearray) -> None:
        image.extend(bytes(max(0, self.size_bytes - len(image))))
        del image[self.size_bytes :]


Change = Write | Truncate


@dataclass(frozen=True, slots=True)
class DropAll:
    """Only what was synced survives."""


@dataclass(frozen=True, slots=True)
class DropSome:
    """A seeded choice of the unsynced changes survives, some of the writes torn."""

    seed: int
    torn: bool = True


@dataclass(frozen=True, slots=True)
class KeepAll:
    """Everything written survives, as when only the process is killed."""


Loss = DropAll | DropSome | KeepAll
Link = tuple[Path, "Inode | None"]


class Survival:
    """Decides, for one cut, which unsynced changes reached the disk."""

    def __init__(self, loss: Loss) -> None:
        self._torn = isinstance(loss, DropSome) and loss.torn
        self._dice = Random(loss.seed if isinstance(loss, DropSome) else 0)
        match loss:
            case DropAll():
                self._odds = 0.0
            case DropSome():
                self._odds = self._dice.random()
            case KeepAll():
                self._odds = 1.0
            case _:
                assert_never(loss)

    def links(self, links: Iterable[Link]) -> list[Link]:
        return [link for link in links if self._kept()]

    def changes(self, changes: Iterable[Change]) -> Iterator[Change]:
        for change in changes:
            if self._torn and isinstance(change, Write) and self._dice.random() < 0.25:
                yield from self._shreds(change)
            elif self._kept():
                yield change

    def _kept(self) -> bool:
        return self._dice.random() < self._odds

    def _shreds(self, write: Write) -> Iterator[Write]:
        for sector in write.sectors():
            middle = self._dice.randint(0, len(sector.data))
            head, tail = sector.part(0, middle), sector.part(middle, len(sector.data))
            yield from self._dice.choice(([sector], [head], [tail], []))


@dataclass(eq=False, slots=True)
class Inode:
    """A file's synced bytes and the changes the disk does not yet owe anyone."""

    synced: bytearray = field(default_factory=bytearray)
    pending: list[Change] = field(default_factory=list)

    def sync(self) -> None:
        for change in self.pending:
            change.apply(self.synced)
        self.pending.clear()

    def after(self, survival: Survival) -> bytearray:
        image = bytearray(self.synced)
        for change in survival.changes(self.pending):
            change.apply(image)
        return image


class Folder:
    """Which name leads to which inode: now, and after a power cut."""

    def __init__(self) -> None:
        self._synced: dict[Path, Inode] = {}
        self._pending: list[Link] = []

    def live(self) -> dict[Path, Inode]:
        return _relinked(self._synced, self._pending)

    def adopt(self, path: Path) -> None:
        """Count a file that was there before us as synced."""
        if path not in self.live() and path.exists():
            self._synced[path] = Inode(bytearray(path.read_bytes()))

    def open(self, path: Path) -> Inode:
        """The inode of a path; a new one is lost in a cut until its folder is synced."""
        inode = self.live().get(path)
        if inode is None:
            inode = Inode()
            self._pending.append((path, inode))
        return inode

    def delete(self, path: Path) -> None:
        self._pending.append((path, None))

    def sync(self, folder: Path) -> None:
        done = [link for link in self._pending if link[0].parent == folder]
        self._pending = [link for link in self._pending if link[0].parent != folder]
        self._synced = _relinked(self._synced, done)

    def after(self, survival: Survival) -> dict[Path, bytearray]:
        names = _relinked(self._synced, survival.links(self._pending))
        return {path: inode.after(survival) for path, inode in names.items()}


def _relinked(names: dict[Path, Inode], links: Iterable[Link]) -> dict[Path, Inode]:
    result = dict(names)
    for path, inode in links:
        if inode is None:
            result.pop(path, None)
        else:
            result[path] = inode
    return result


# The power


@dataclass(frozen=True, slots=True)
class Operation:
    """One call that changes the disk or orders it; numbers start at 1."""

    number: int
    kind: Kind
    path: Path


class PowerVFS(apsw.VFS):
    """A VFS that knows what a power cut would leave. Syncs cost nothing: the model takes the place of fsync.

    `before` is called ahead of every operation, outside the lock, and may call `cut`. Where other threads
    commit meanwhile, read what was acknowledged, then cut.
    """

    def __init__(self, name: str, base: str = "", before: Callable[[Operation], None] | None = None) -> None:
        super().__init__(name, base)
        self.name, self.base, self.before = name, base, before
        self.operations = 0
        self.off = False
        self.lock = threading.RLock()
        self.folder = Folder()

    def cut(self, target: Path, loss: Loss) -> list[Path]:
        """Build in `target`, which must not exist, the files as the cut leaves them; the originals run on.

        Files keep their base name, so two files of one name are refused. Callable from any thread.
        """
        with self.lock:
            images = self.folder.after(Survival(loss))
        target.mkdir(parents=True)
        for path, image in images.items():
            with (target / path.name).open("xb") as copy:
                copy.write(image)
        return [target / path.name for path in images]

    def cut_at(self, number: int, target: Path, loss: Loss) -> None:
        """Cut just before the operation of that number, and switch off: it and all later ones fail."""

        def cut_once(operation: Operation) -> None:
            if operation.number == number:
                self.off = True
                self.cut(target, loss)

        self.before = cut_once

    @contextmanager
    def operation(self, kind: Kind, path: Path) -> Iterator[None]:
        """Count an operation, show it to `before` and hold the lock while it is made.

        Raises apsw.IOError once the power is off; asked under the lock, so that nothing lands after a cut.
        """
        with self.lock:
            self.operations += 1
            operation = Operation(self.operations, kind, path)
        if self.before is not None:
            self.before(operation)
        with self.lock:
            if self.off:
                raise _error(apsw.SQLITE_IOERR)
            yield

    def xOpen(self, name: Name, flags: list[int]) -> apsw.VFSFile:
        if name is None or not flags[0] & (_DATABASE | _LOG):
            return apsw.VFSFile(self.base, name, flags)
        return PowerFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        path = Path(filename)
        with self.operation("delete", path):
            self.folder.adopt(path)
            super().xDelete(filename, False)
            self.folder.delete(path)
            if syncdir:
                self.folder.sync(path.parent)


class PowerFile(apsw.VFSFile):
    """A database, journal or WAL whose unsynced changes are remembered."""

    def __init__(self, vfs: PowerVFS, name: str | apsw.URIFilename, flags: list[int]) -> None:
        self._vfs, self._path = vfs, _path(name)
        self._syncs_folder = bool(flags[0] & _LOG and flags[0] & apsw.SQLITE_OPEN_CREATE)
        with vfs.lock:
            for suffix in ("", "-journal", "-wal") if flags[0] & _DATABASE else ("",):
                vfs.folder.adopt(Path(f"{self._path}{suffix}"))
            super().__init__(vfs.base, name, flags)
            self._inode = vfs.folder.open(self._path)

    def xWrite(self, data: bytes, offset: int) -> None:
        with self._vfs.operation("write", self._path):
            super().xWrite(data, offset)
            self._inode.pending.append(Write(offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:
        with self._vfs.operation("truncate", self._path):
            super().xTruncate(newsize)
            self._inode.pending.append(Truncate(newsize))

    def xSync(self, flags: int) -> None:
        with self._vfs.operation("sync", self._path):
            self._inode.sync()
            if self._syncs_folder:
                self._vfs.folder.sync(self._path.parent)
                self._syncs_folder = False

    def xDeviceCharacteristics(self) -> int:
        """The base's, without batch atomic writes: those would pass the model by."""
        return super().xDeviceCharacteristics() & ~apsw.SQLITE_IOCAP_BATCH_ATOMIC


def _path(name: str | apsw.URIFilename) -> Path:
    return Path(name.filename() if isinstance(name, apsw.URIFilename) else name)


def _error(code: int) -> Exception:
    error = apsw.exception_for(code)
    error.args = ("database or disk is full" if code == apsw.SQLITE_FULL else "disk I/O error",)
    return error


# The faults


@dataclass(slots=True)
class Fault:
    """Fails `count` matching calls from number `nth` on, counted from its arming; None never stops.

    With `reached` the data gets to the disk all the same, and the caller is told that it did not.
    """

    kind: Literal["write", "sync"]
    code: int
    suffix: str = "-wal"
    nth: int = 1
    count: int | None = 1
    reached: bool = False
    seen: int = 0
    fired: int = 0

    def strikes(self, kind: Kind, path: Path) -> bool:
        """Count the call if it matches, and say whether it fails."""
        if kind != self.kind or not path.name.endswith(self.suffix):
            return False
        self.seen += 1
        struck = self.seen >= self.nth and (self.count is None or self.seen < self.nth + self.count)
        self.fired += struck
        return struck


def failed_sync(suffix: str = "-wal", nth: int = 1, count: int | None = 1, reached: bool = False) -> Fault:
    """An fsync that reports EIO; `reached` makes the outcome of its commit unknown."""
    return Fault("sync", apsw.SQLITE_IOERR_FSYNC, suffix, nth, count, reached)


def failed_write(suffix: str = "-wal", nth: int = 1, count: int | None = 1, reached: bool = False) -> Fault:
    """A write that reports EIO."""
    return Fault("write", apsw.SQLITE_IOERR_WRITE, suffix, nth, count, reached)


def disk_full(suffix: str = "-wal", nth: int = 1, count: int | None = 1, reached: bool = False) -> Fault:
    """A write that reports ENOSPC."""
    return Fault("write", apsw.SQLITE_FULL, suffix, nth, count, reached)


class FaultVFS(apsw.VFS):
    """A VFS whose writes and syncs fail where an armed fault says so. Its `base` may be a PowerVFS's name."""

    def __init__(self, name: str, base: str = "") -> None:
        super().__init__(name, base)
        self.name, self.base = name, base
        self._faults: list[Fault] = []
        self._lock = threading.Lock()

    def arm(self, fault: Fault) -> Fault:
        with self._lock:
            self._faults.append(fault)
        return fault

    def disarm(self) -> None:
        with self._lock:
            self._faults.clear()

    def run(self, kind: Kind, path: Path, call: Callable[[], None]) -> None:
        """Make the call, or raise the code of the first armed fault that strikes it."""
        with self._lock:
            struck = [fault for fault in self._faults if fault.strikes(kind, path)]
        if not struck or struck[0].reached:
            call()
        if struck:
            raise _error(struck[0].code)

    def xOpen(self, name: Name, flags: list[int]) -> apsw.VFSFile:
        return apsw.VFSFile(self.base, name, flags) if name is None else FaultFile(self, name, flags)


class FaultFile(apsw.VFSFile):
    """A file that asks its VFS before every write and sync."""

    def __init__(self, vfs: FaultVFS, name: str | apsw.URIFilename, flags: list[int]) -> None:
        self._vfs, self._path = vfs, _path(name)
        super().__init__(vfs.base, name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        write = super().xWrite
        self._vfs.run("write", self._path, lambda: write(data, offset))

    def xSync(self, flags: int) -> None:
        sync = super().xSync
        self._vfs.run("sync", self._path, lambda: sync(flags))
