"""Content as it is stored in blobs, whichever keep them: cut into chunks, packed or not, and read back with proof.

Content is cut every MiB. Each chunk is stored as it is, or packed by itself, one behind the other in one blob. The list
of them (how many bytes each takes in the blob, and their digest) is a blob of its own: its name is in the row of the
artifact, so that nobody can put another list in its place.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import BinaryIO

from outlast.errors import IntegrityBroken
from outlast.store.contract.blobs import Blobs, Known, TakenContent
from outlast.values.codec import decode, encode
from outlast.values.frozen import NamedTuple

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
