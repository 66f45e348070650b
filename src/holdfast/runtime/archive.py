"""The file that a run travels in: a zip that says what is in it and can be proven whole before anything of it is used.

Owns the format. `manifest.json` names every other member with its size and digest; members are stored and never
compressed, so that a file holds no more than its own length. What a run means here or there is `travel.py`.
"""

from __future__ import annotations

import os
import stat
import struct
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, TypeVar

import msgspec

from holdfast.domain.journal import Row
from holdfast.errors import ArchiveInvalid, IntegrityBroken
from holdfast.store.contract import InterruptRow, RunRow

T = TypeVar("T")
FORMAT = "holdfast run 1"
FAMILY = "holdfast run "
MANIFEST = "manifest.json"
PARTS = ("journal", "interrupts", "requests", "refs")
PIECE_BYTES = 1 << 20
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


class Member(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
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
    members: list[Member]


class Wait(NamedTuple):
    """An interrupt without the keys that only its home knows."""

    id: str
    type: str
    call: str
    step: str
    payload: str
    status: str
    answer: str | None
    answered_by: str
    opened_at: int
    due_at: int | None

    @classmethod
    def of(cls, row: InterruptRow) -> Wait:
        return cls(row.id, *row[3:12])

    def as_row(self, run_id: str) -> InterruptRow:
        return InterruptRow(0, self.id, 0, *self[1:], run_id)


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
        self.members: list[Member] = []

    def add(self, name: str, pieces: Iterable[bytes]) -> None:
        """One member. It is written as it comes and never held whole."""
        found, size = sha256(), 0
        info = zipfile.ZipInfo(name, _LONG_AGO)
        info.create_system, info.external_attr = 3, 0o100600 << 16
        with self._zip.open(info, "w", force_zip64=True) as member:
            for piece in pieces:
                found.update(piece)
                size += len(piece)
                member.write(piece)
        self.members.append(Member(name, size, found.hexdigest()))

    def seal(self, kind: Literal["move", "copy"], runs: list[Packed]) -> None:
        """The manifest. The run itself is the first of its family."""
        manifest = Manifest(FORMAT, kind, runs[0].id, runs, list(self.members))
        self.add(MANIFEST, [msgspec.json.encode(manifest)])

    def __enter__(self) -> Packer:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()


def line_of_row(row: Row) -> bytes:
    """A journal entry as a line. Its bytes are JSON, so as text they stay what they are."""
    payload = None if row.payload is None else row.payload.decode()
    return msgspec.json.encode((row.seq, row.header.decode(), row.hash.hex(), payload)) + b"\n"


def row_of_line(line: bytes) -> Row:
    seq, header, hash_, payload = msgspec.json.decode(line, type=tuple[int, str, str, str | None])
    return Row(seq, header.encode(), bytes.fromhex(hash_), None if payload is None else payload.encode())


def lines(values: Iterable[Any]) -> Iterator[bytes]:
    return (msgspec.json.encode(value) + b"\n" for value in values)


# -- reading -----------------------------------------------------------------------------------------


class Archive:
    """An archive that was opened and says of itself what it should. Its members are proven as they are read."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
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
        return ArchiveInvalid(str(self.path), member, why, *remedy)

    def _read_manifest(self) -> Manifest:
        if MANIFEST not in self._sizes:
            raise self.invalid(MANIFEST, "there is none: it is no export of a run", "name a file that export wrote")
        with self.reading(MANIFEST):
            raw = self._zip.read(MANIFEST)
            given = str(msgspec.json.decode(raw, type=dict[str, Any]).get("format"))
            if given == FORMAT:
                return msgspec.json.decode(raw, type=Manifest)
        if given.startswith(FAMILY):
            raise self.invalid(MANIFEST, f"its format is {given!r}, known is {FORMAT!r}", "upgrade holdfast")
        raise self.invalid(MANIFEST, f"its format is {given!r}", "name a file that `holdfast export` wrote")

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
            raise self.invalid(max(names, key=names.count), "it is there more than once")
        for info in self._infos:
            if stat.S_ISLNK(info.external_attr >> 16) or info.is_dir():
                raise self.invalid(info.filename, "it is no plain file")
            known = self._members.get(info.filename)
            if known is not None and known.size != info.file_size:
                raise self.invalid(info.filename, f"it has {info.file_size} bytes; {known.size} were written")

    @property
    def names(self) -> set[str]:
        return set(self._members)

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
def opened(path: Path) -> Iterator[Archive]:
    """An archive, opened. Raises ArchiveInvalid when there is none, or it is none."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe must not make anyone wait
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ArchiveInvalid(str(path), "the file", why, "name a file that `holdfast export` wrote") from error
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ArchiveInvalid(str(path), "the file", "it is no plain file", "name one that `holdfast export` wrote")
        yield Archive(path, file)
