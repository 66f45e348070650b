"""The file that a run or a handoff travels in: a zip that can be proven whole before anything of it is used.

Owns the formats. `manifest.json` names every other member with its size and digest; members are stored and never
compressed, so that a file holds no more than its own length. What a run means here or there is `export_run.py`, what a
handoff does is `handoff.py`.
"""

from __future__ import annotations

import os
import shlex
import stat
import struct
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Generic, Literal, TypeVar

import msgspec

from outlast.errors import ArchiveInvalid, Conflict, IntegrityBroken, Invalid, StoreReadOnly
from outlast.ids import random_id
from outlast.ledger.journal import Row
from outlast.store.contract import InterruptRow, Reading, RunRow
from outlast.store.disk import PIECE_BYTES, sync_folder, translated
from outlast.values.frozen import NamedTuple
from outlast.values.private import own_file

if TYPE_CHECKING:
    from outlast.home.home import Home


T = TypeVar("T")
SUFFIX = ".outlast.zip"


class Written(NamedTuple):
    """A file as it lies on the disk."""

    size: int
    digest: str  # SHA-256


def target(path: Path, name: str) -> Path:
    """The file: the one named, or one of this name in the folder that was named. Raises Invalid."""
    try:
        return path.absolute() / name if path.is_dir() else path.absolute()
    except (OSError, ValueError) as error:
        raise Invalid(detail=f"{str(path)!r} cannot be a file's name: {error}; choose another") from error


def file_name(words: str, id_: str, otherwise: str) -> str:
    """`<words>-<id>.outlast.zip`, safe on every file system."""
    kept = "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in words)[:60]
    return f"{kept.lstrip('.') or otherwise}-{id_}{SUFFIX}"


def refuse_to_replace(path: Path, force: bool, is_ours: Callable[[Path], bool]) -> None:
    """Only what is ours is replaced unasked. Raises Conflict, Invalid, StoreReadOnly."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        if path.parent.is_dir():
            return
        raise Invalid(detail=f"there is no folder {path.parent}; make it, or name another") from None
    except (OSError, ValueError) as error:
        raise StoreReadOnly(str(path), getattr(error, "strerror", None) or str(error)) from error
    if not stat.S_ISREG(found.st_mode):
        raise Conflict(detail=f"{path} is there and no plain file; name another one")
    if not (force or is_ours(path)):
        raise Conflict(detail=f"{path} is there already; name another file, or replace it with force=True (--force)")


def write_whole(path: Path, fill: Callable[[BinaryIO], T]) -> tuple[T, Written]:
    """Write a file under another name and give it its own once it is durable. What `fill` gave, and the file."""
    temporary = path.with_name(f".{random_id()}.tmp")
    try:
        with open(temporary, "xb", opener=own_file) as file:
            given = fill(file)
            file.flush()
            os.fsync(file.fileno())
        written = _measured(temporary)
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        raise translated(error, str(path.parent)) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
    return given, written


def _measured(path: Path) -> Written:
    digest, size = sha256(), 0
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            digest.update(piece)
            size += len(piece)
    return Written(size, digest.hexdigest())


# -- the archive -------------------------------------------------------------------------------------


MANIFEST = "manifest.json"
BLOBS = "blobs/"  # each is named by its digest
PARTS = ("journal", "interrupts", "requests", "refs", "operations")
PAGE = 128  # entries: at most 4 MiB of results
_LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the same content makes the same file
_NOT_A_ZIP = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    msgspec.MsgspecError,
    EOFError,
    KeyError,
    NotImplementedError,  # a compression or a version that nobody knows
    OverflowError,
    RuntimeError,  # an encrypted member
    UnicodeError,
    ValueError,
    struct.error,
)

Request = tuple[str, str, str, int]  # what the run has been asked: kind, body, actor, when
Ref = tuple[int, str]  # an entry and a blob that it refers to
# A wait without the keys that only its home knows: from its id to its reason, as the columns of its row are.
Waited = tuple[str, str, str, str, str, str, str | None, str, int, int | None, str, str]
Started = tuple[str, str, int]  # the operation_id of a call that started it, a print of what was asked, when


class ArchiveMember(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file in the archive."""

    name: str
    size: int
    sha256: str


class Packed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A run as the manifest has it: its row, and where its chain ends."""

    row: dict[str, Any]
    epoch: int
    head: int
    hash: str

    @property
    def id(self) -> str:
        return str(self.row.get("id", ""))

    def as_row(self) -> RunRow:
        """Its row, with no key yet. Raises ValueError for a field that is missing, unknown or of another type."""
        wanted = RunRow._fields[1:]
        if set(self.row) != set(wanted):
            raise ValueError(f"its fields are not those of a run: {sorted(set(self.row) ^ set(wanted))}")
        return msgspec.convert([0, *(self.row[name] for name in wanted)], RunRow)


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the archive says of itself."""

    format: str
    kind: Literal["move", "copy"]
    run_id: str
    runs: list[Packed]
    members: list[ArchiveMember]


class PackedAnchor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An anchor as the manifest has it: what its chain begins with, and where it ends. The rest is in its journal."""

    id: str
    scope: str
    anchor: str
    epoch: int
    head: int
    hash: str


class Bundle(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the archive of a handoff says of itself."""

    format: str
    handoff: PackedAnchor
    members: list[ArchiveMember]


class Backup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a backup of a home says of itself."""

    format: str
    id: str
    home: str  # where it was
    made_at: int
    tenants: list[str]
    members: list[ArchiveMember]
    damaged: list[tuple[str, str]]  # what was not what it should be, and is in here as it was
    left_out: list[tuple[str, str]]  # what could not be taken, and why


M = TypeVar("M", bound=Manifest | Bundle | Backup)


class Format(NamedTuple, Generic[M]):
    """One kind of archive, and the commands that write and read it."""

    name: str
    holds: str  # what is in it, in a word
    manifest: type[M]
    writer: str
    reader: str
    again: str = ""  # what to do about one that is not whole

    @property
    def family(self) -> str:
        """How the names of all its versions begin."""
        return self.name.rstrip("0123456789")


RUN = Format("outlast run 1", "run", Manifest, "outlast export", "outlast import")
HANDOFF = Format("outlast handoff 1", "handoff", Bundle, "outlast handoff export", "outlast handoff import")
BACKUP = Format(
    "outlast backup 1",
    "home",
    Backup,
    "outlast backup",
    "outlast restore",
    "take another backup, or copy the file again",
)
FORMATS: tuple[Format[Manifest] | Format[Bundle] | Format[Backup], ...] = (RUN, HANDOFF, BACKUP)


def archived_wait(row: InterruptRow) -> Waited:
    return (row.id, *row[3:14])


def row_of_wait(wait: Waited, run_id: str) -> InterruptRow:
    return InterruptRow(0, wait[0], 0, *wait[1:], run_id)


def part(run_id: str, name: str) -> str:
    """Where a part of a run is in the archive."""
    return f"runs/{run_id}/{name}.jsonl"


def packed(run: RunRow, epoch: int, head: int, hash_: bytes) -> Packed:
    row = run._asdict()
    del row["key"]
    return Packed(row, epoch, head, hash_.hex())


# -- writing -----------------------------------------------------------------------------------------


class Packer:
    """Writes an archive, member by member; the manifest comes last."""

    def __init__(self, file: BinaryIO) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED)
        self._members: list[ArchiveMember] = []

    def add(self, name: str, pieces: Iterable[bytes]) -> str:
        """One member, and the digest of it. It is written as it comes and never held whole."""
        found, size = sha256(), 0
        info = zipfile.ZipInfo(name, _LONG_AGO)
        info.create_system, info.external_attr = 3, 0o100600 << 16
        with self._zip.open(info, "w", force_zip64=True) as member:
            for piece in pieces:
                found.update(piece)
                size += len(piece)
                member.write(piece)
        self._members.append(ArchiveMember(name, size, found.hexdigest()))
        return found.hexdigest()

    def listed(self) -> list[ArchiveMember]:
        """The members so far, for the manifest."""
        return list(self._members)

    def seal(self, manifest: Manifest | Bundle | Backup) -> None:
        self.add(MANIFEST, [msgspec.json.encode(manifest)])

    def end_with(self, line: bytes) -> None:
        """The very last bytes of the file."""
        self._zip.comment = line

    def __enter__(self) -> Packer:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()


def pages(home: Home, key: int, head: int) -> Iterator[Row]:
    """The journal under a key up to its head, a page at a time: no read holds the store up."""
    after = 0

    def look(reading: Reading) -> list[Row]:
        return reading.journal_of(key, after, min(PAGE, head - after))

    while after < head and (page := home.store.read(look)):
        yield from page
        after = page[-1].seq


def line_of_row(row: Row) -> bytes:
    """A journal entry as a line. Its bytes are JSON, so as text they stay what they are."""
    payload = None if row.payload is None else row.payload.decode()
    return msgspec.json.encode((row.seq, row.header.decode(), row.hash.hex(), payload)) + b"\n"


def row_of_line(line: bytes) -> Row:
    seq, header, hash_, payload = msgspec.json.decode(line, type=tuple[int, str, str, str | None])
    return Row(seq, header.encode(), bytes.fromhex(hash_), None if payload is None else payload.encode())


LARGEST = 1 << 62


def refuse_odd_numbers(*numbers: int) -> None:
    """Raises ValueError for a number that no store wrote."""
    for number in numbers:
        if not 0 <= number < LARGEST:
            raise ValueError(f"{number} is no number that a store has")


def refuse_odd_ref(seq: int, name: str, head: int, first: int) -> None:
    """Raises ValueError for what is no reference of an entry from the first one to the head."""
    if not first <= seq <= head or len(bytes.fromhex(name)) != 32 or name != name.lower():
        raise ValueError(f"{name!r} of entry {seq} is no reference to a blob")


def lines(values: Iterable[Any]) -> Iterator[bytes]:
    return (msgspec.json.encode(value) + b"\n" for value in values)


# -- reading -----------------------------------------------------------------------------------------


class Archive(Generic[M]):
    """An archive that was opened and says of itself what it should. Its members are proven as they are read."""

    def __init__(self, path: Path, file: BinaryIO, wanted: Format[M]) -> None:
        self.path, self._wanted = path, wanted
        with self.reading("the file"):
            self._zip = zipfile.ZipFile(file)
        self._infos = self._zip.infolist()
        self._sizes = {info.filename: info.file_size for info in self._infos}
        self._refuse_to_unfold(file.seek(0, 2))
        self.manifest = self._read_manifest()
        self._members = {member.name: member for member in self.manifest.members}
        self._refuse_other_members()

    @contextmanager
    def reading(self, member: str) -> Iterator[None]:
        """What goes wrong inside is said of this member."""
        try:
            yield
        except _NOT_A_ZIP as error:
            raise self.invalid(member, str(error) or type(error).__name__) from error
        except IntegrityBroken as error:
            raise self.invalid(member, f"{error.record}: {error.why}") from error
        except OSError as error:
            raise self.invalid(member, f"it cannot be read: {error.strerror or error}") from error

    def invalid(self, member: str, why: str, *remedy: str) -> ArchiveInvalid:
        again = self._wanted.again or f"export the {self._wanted.holds} again, or copy the file again"
        return ArchiveInvalid(str(self.path), member, why, *(remedy or (again,)))

    def _read_manifest(self) -> M:
        wanted = self._wanted
        named = f"name a file that `{wanted.writer}` wrote"
        if MANIFEST not in self._sizes:
            raise self.invalid(MANIFEST, f"there is none: it is no export of a {wanted.holds}", named)
        with self.reading(MANIFEST):
            raw = self._zip.read(MANIFEST)
            given = str(msgspec.json.decode(raw, type=dict[str, Any]).get("format"))
            if given == wanted.name:
                return msgspec.json.decode(raw, type=wanted.manifest)
        if given.startswith(wanted.family):
            raise self.invalid(MANIFEST, f"its format is {given!r}, known is {wanted.name!r}", "upgrade outlast")
        for other in FORMATS:
            if given.startswith(other.family):
                right = f"import it with `{other.reader} {shlex.quote(str(self.path))}`"
                raise self.invalid(MANIFEST, f"a {other.holds} is in it, not a {wanted.holds}", right)
        raise self.invalid(MANIFEST, f"its format is {given!r}", named)

    def _refuse_to_unfold(self, length: int) -> None:
        """Before anything is read: there is no more in it than the file is long."""
        for info in self._infos:
            if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
                raise self.invalid(info.filename, "it is compressed, which no export does")
        if sum(info.file_size for info in self._infos) > length:
            raise self.invalid("the file", "its members are larger than it is")

    def _refuse_other_members(self) -> None:
        """Names exactly those of the manifest, each once, and plain files."""
        names = [info.filename for info in self._infos]
        for name in sorted({*names} ^ {MANIFEST, *self._members}):
            raise self.invalid(name, "it is not in the manifest" if name in self._sizes else "it is missing")
        if len(names) != len(set(names)) or len(self._members) != len(self.manifest.members):
            raise self.invalid(Counter(names).most_common(1)[0][0], "it is there more than once")
        for info in self._infos:
            if stat.S_ISLNK(info.external_attr >> 16) or info.is_dir():
                raise self.invalid(info.filename, "it is no plain file")
            known = self._members.get(info.filename)
            if known is not None and known.size != info.file_size:
                raise self.invalid(info.filename, f"it has {info.file_size} bytes; {known.size} were written")
        for name, member in self._members.items():
            if name.startswith(BLOBS) and name != BLOBS + member.sha256:
                raise self.invalid(name, f"its digest is said to be {member.sha256[:64]!r}, not its name")

    @property
    def names(self) -> set[str]:
        return set(self._members)

    def refuse_others(self, parts: Iterable[str]) -> None:
        """Raises ArchiveInvalid for a member that is none of these, or one of these that is not there."""
        for name in sorted(self.names ^ {*parts}):
            raise self.invalid(name, "nothing in it refers to it" if name in self._members else "it is missing")

    def refuse_missing(self, parts: Iterable[str]) -> None:
        """Raises ArchiveInvalid for the first of these that is not there."""
        for name in parts:
            if name not in self._members:
                raise self.invalid(name, "it is missing")

    def pieces(self, name: str) -> Iterator[bytes]:
        """A member piece by piece. Raises ArchiveInvalid after the last one if it is not what was written."""
        yield from self._proven(name, lambda file: iter(lambda: file.read(PIECE_BYTES), b""))

    def lines(self, name: str, decode: Callable[[bytes], T]) -> Iterator[T]:
        """A member's lines, decoded. Raises ArchiveInvalid for one that is none, or after the last."""
        for line in self._proven(name, iter):
            with self.reading(name):
                value = decode(line)
            yield value

    def _proven(self, name: str, read: Callable[[Any], Iterator[bytes]]) -> Iterator[bytes]:
        """Errors of whoever takes the pieces are not the file's, so only reading them is guarded."""
        found = sha256()
        with self.reading(name):
            file = self._zip.open(name)
        with file:
            pieces = read(file)
            while True:
                with self.reading(name):
                    piece = next(pieces, None)
                if piece is None:
                    break
                found.update(piece)
                yield piece
        if found.hexdigest() != self._members[name].sha256:
            raise self.invalid(name, "it is not what was written: its digest differs")


@contextmanager
def opened(path: Path, wanted: Format[M]) -> Iterator[Archive[M]]:
    """An archive, opened. Raises ArchiveInvalid when there is none, or it is none of this kind."""
    named = f"name a file that `{wanted.writer}` wrote"
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe must not make anyone wait
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ArchiveInvalid(str(path), "the file", why, named) from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise ArchiveInvalid(str(path), "the file", "it is no plain file", named)
    with os.fdopen(handle, "rb") as file:
        yield Archive(path, file, wanted)
