"""Content as it is stored in blobs, whichever keep them: cut into chunks, packed or not, and read back with proof.

Content is cut every MiB. Each chunk is stored as it is, or packed by itself, one behind the other in one blob. The list
of them (how many bytes each takes in the blob, and their digest) is a blob of its own: its name is in the row of the
artifact, so that nobody can put another list in its place.

On its way in it is written beside the blobs, measured, packed if that helps, then named. Nothing is held in memory but
a piece. A process that dies leaves a temporary file, which `gc` finds by its name. A blob is named by the digest of
what is stored, so packed content has a name of its own; whoever refers to it knows both.
"""

from __future__ import annotations

import os
import threading
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Self

from outlast.errors import IntegrityBroken
from outlast.store.contract.blobs import Blobs, Known, Stored, TakenContent, nothing_known
from outlast.store.disk import translating
from outlast.values.codec import decode, encode
from outlast.values.frozen import NamedTuple, Protocol
from outlast.values.late import late
from outlast.values.private import make_folder, open_file

if TYPE_CHECKING:
    import concurrent.futures as futures
    import secrets
else:
    futures, secrets = late("concurrent.futures"), late("secrets")

RAW, ZLIB = "raw", "zlib"
CHUNK_BYTES = 1 << 20
LISTED_FROM = 4 << 20  # bytes of content: what is smaller is read as a whole in no time


class Chunk(NamedTuple):
    """A part of a blob: its bytes there, and their digest."""

    size: int
    digest: str


def chunk_of(stored: bytes) -> Chunk:
    return Chunk(len(stored), sha256(stored).hexdigest())


def chunks_in(file: BinaryIO) -> list[Chunk]:
    """The chunks of content that is stored as it is."""
    return [chunk_of(piece) for piece in iter(lambda: file.read(CHUNK_BYTES), b"")]


def written(chunks: list[Chunk]) -> bytes:
    """A list of chunks as it is stored."""
    return encode({"chunk_bytes": CHUNK_BYTES, "chunks": [list(chunk) for chunk in chunks]})


def listed(blobs: Blobs, name: str) -> list[Chunk]:
    """The list of that name. Raises IntegrityBroken when it is missing, or not what was stored."""
    return [Chunk(size, digest) for size, digest in decode(blobs.get(name))["chunks"]]


def read(file: BinaryIO, chunks: list[Chunk], first: int, last: int, *, packed: bool) -> Iterator[bytes]:
    """The content of the chunks from the first to the last, each proven before it is given. Raises IntegrityBroken."""
    file.seek(sum(chunk.size for chunk in chunks[:first]))
    for number in range(first, last + 1):
        stored = file.read(chunks[number].size)
        if chunk_of(stored) != chunks[number]:
            raise IntegrityBroken(f"chunk {number}", "its content was changed")
        yield zlib.decompress(stored, bufsize=CHUNK_BYTES) if packed else stored


# -- in ----------------------------------------------------------------------------------------------


def take_in(blobs: Blobs, pieces: Iterable[bytes], known: Known, *, pack: bool) -> TakenContent:
    """Store content durably, in constant memory, as `Intake` does. What the pieces themselves raise passes through."""
    with blobs.intake() as intake:
        for piece in pieces:
            intake.write(piece)
        return intake.settle(known, pack=pack)


# -- out ---------------------------------------------------------------------------------------------


def content(blobs: Blobs, taken: TakenContent, record: str) -> Iterator[bytes]:
    """The content as it was given, piece by piece. IntegrityBroken comes after the last piece, or before it."""
    if taken.codec == RAW and taken.blob == taken.digest:  # the blob's own check is the content's
        with _blamed(record):
            yield from blobs.pieces(taken.blob)
        return
    found = sha256()
    with _blamed(record):
        stored = blobs.pieces(taken.blob)
        for piece in _unpacked(stored) if taken.codec == ZLIB else stored:
            found.update(piece)
            yield piece
    if found.hexdigest() != taken.digest:
        raise IntegrityBroken(record, "its content was changed")


def content_between(blobs: Blobs, taken: TakenContent, record: str, start: int, end: int) -> Iterator[bytes]:
    """The content from one byte up to another, every byte proven before it is given. Raises IntegrityBroken.

    Of content with a list of chunks only those are read that have a part of it; other content is read as a whole.
    """
    if start >= end:
        return
    if not taken.chunks:
        yield b"".join(content(blobs, taken, record))[start:end]
        return
    first = start // CHUNK_BYTES
    at = first * CHUNK_BYTES
    for piece in _chunks(blobs, taken, record, first, (end - 1) // CHUNK_BYTES):
        yield piece[max(start - at, 0) : end - at]
        at += len(piece)


def check_content(blobs: Blobs, taken: TakenContent, record: str) -> None:
    """Read all of it: the content is what was saved, and so is every chunk by the list. Raises IntegrityBroken."""
    found, size = sha256(), 0
    pieces = _chunks(blobs, taken, record, 0, -1) if taken.chunks else content(blobs, taken, record)
    for piece in pieces:
        found.update(piece)
        size += len(piece)
    if (found.hexdigest(), size) != (taken.digest, taken.size):
        raise IntegrityBroken(record, "its content was changed")


def _chunks(blobs: Blobs, taken: TakenContent, record: str, first: int, last: int) -> Iterator[bytes]:
    with _blamed(record):
        parts = listed(blobs, taken.chunks)
        whole, last = last < 0, len(parts) - 1 if last < 0 else last
        if last >= len(parts):
            raise IntegrityBroken("list of chunks", "it is too short")
        with blobs.opened(taken.blob) as file:
            yield from read(file, parts, first, last, packed=taken.codec == ZLIB)
            if whole and file.read(1):
                raise IntegrityBroken(f"blob {taken.blob[:12]}", "its content was changed")


@contextmanager
def _blamed(record: str) -> Iterator[None]:
    """Whatever is wrong with a blob is told of the record that needs it."""
    try:
        yield
    except zlib.error as error:
        raise IntegrityBroken(record, f"its content was changed ({error})") from error
    except IntegrityBroken as error:
        raise IntegrityBroken(record, f"its content: {error.why} ({error.record})") from error


def _unpacked(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """What packed chunks hold, one behind the other."""
    loosen = zlib.decompressobj()
    for piece in pieces:
        left = piece
        while left or not loosen.eof:
            if loosen.eof:
                loosen = zlib.decompressobj()
            out = loosen.decompress(left, CHUNK_BYTES)
            left = loosen.unused_data if loosen.eof else loosen.unconsumed_tail
            if out:
                yield out
            elif not left and not loosen.eof:
                break  # it needs the next piece
    if not loosen.eof:
        raise zlib.error("it ends too early")


# -- on its way in -----------------------------------------------------------------------------------

SMALLEST = 4096  # what is smaller takes a block of the disk anyway
GIVE_UP_AFTER = 4 << 20  # of the content: if it has not become smaller by then, it will not
_LEVEL = 4


class Collecting(Protocol):
    """Blobs that have a folder of this machine, in which content is collected before it has its name."""

    folder: Path

    def put(self, content: bytes) -> str: ...
    def renew(self, name: str) -> bool: ...

    def move_in(self, file: Path, name: str, /) -> None:
        """Make the content of a file in the folder durable under its digest."""


class FolderIntake:
    """Content as it arrives, in a file beside the blobs. See contract.blobs.Intake."""

    def __init__(self, blobs: Collecting) -> None:
        self._blobs, self._found, self.size = blobs, sha256(), 0
        with translating(blobs.folder):
            self._path = _beside(blobs)
            self._file = open(self._path, "wb", opener=open_file)  # noqa: SIM115  # closed by `close`

    def write(self, piece: bytes) -> None:
        with translating(self._blobs.folder):
            self._file.write(piece)
        self._found.update(piece)
        self.size += len(piece)

    @property
    def digest(self) -> str:
        return self._found.hexdigest()

    def settle(self, known: Known = nothing_known, *, pack: bool = False) -> TakenContent:
        """Make what has arrived durable. What is there already is relied on, not written again.

        With `pack` it is packed where that saves a quarter or more. Raises DiskFull, StoreReadOnly, StoreFailed.
        """
        with translating(self._blobs.folder):
            self._file.close()
            digest = self.digest
            stored = self._there(known(digest)) or self._placed(pack)
        return TakenContent(digest, self.size, *stored)

    def _there(self, known: Stored | None) -> Stored | None:
        """How it is stored, if all of that is whole."""
        if known and self._blobs.renew(known.blob) and (not known.chunks or self._blobs.renew(known.chunks)):
            return known
        if self._blobs.renew(self.digest):
            return Stored(self.digest, RAW, self._listed())
        return None

    def _listed(self) -> str:
        """The list of the chunks of content that is stored as it is; nothing for what needs none."""
        if self.size < LISTED_FROM:
            return ""
        with open(self._path, "rb") as file:
            return self._blobs.put(written(chunks_in(file)))

    def _placed(self, pack: bool) -> Stored:
        if pack and self.size >= SMALLEST:
            with temporary(self._blobs) as packed:
                if stored := self._packed(packed):
                    return stored
        if self.size < LISTED_FROM:
            self._blobs.move_in(self._path, self.digest)
            return Stored(self.digest, RAW)
        with futures.ThreadPoolExecutor(1) as beside, open(self._path, "rb") as file:
            found = beside.submit(chunks_in, file)  # while the disk is busy
            self._blobs.move_in(self._path, self.digest)
            return Stored(self.digest, RAW, self._blobs.put(written(found.result())))

    def _packed(self, packed: Path) -> Stored | None:
        squeezed = _squeezed(self._path, packed, self.size)
        if squeezed is None:
            return None
        blob, parts = squeezed
        listed = self._blobs.put(written(parts)) if self.size >= LISTED_FROM else ""
        self._blobs.move_in(packed, blob)
        return Stored(blob, ZLIB, listed)

    def close(self) -> None:
        self._file.close()
        self._path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failed: object) -> None:
        self.close()


def _beside(blobs: Collecting) -> Path:
    """The path of a file beside the blobs that is no blob yet."""
    name = secrets.token_hex(32)
    path = blobs.folder / name[:2] / f".{name}.{os.getpid()}.{threading.get_ident()}"
    make_folder(path.parent)
    return path


@contextmanager
def temporary(blobs: Collecting) -> Iterator[Path]:
    """A file beside the blobs that goes away, unless it was given a name."""
    path = _beside(blobs)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def _squeezed(raw: Path, packed: Path, size: int) -> tuple[str, list[Chunk]] | None:
    """Pack a file, chunk by chunk: the digest of what came of it, and its chunks. None if that saves no quarter."""
    found, seen, made = sha256(), 0, 0
    parts: list[Chunk] = []
    with open(raw, "rb") as source, open(packed, "wb", opener=open_file) as file:
        while piece := source.read(CHUNK_BYTES):
            seen += len(piece)
            out = zlib.compress(piece, _LEVEL)
            made += len(out)
            if seen >= GIVE_UP_AFTER and made > seen * 0.9:
                return None
            file.write(out)
            found.update(out)
            if size >= LISTED_FROM:
                parts.append(chunk_of(out))
    return (found.hexdigest(), parts) if made * 4 <= size * 3 else None
