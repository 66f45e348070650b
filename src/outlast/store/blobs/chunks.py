"""Chunks: the digests of a blob's parts, so that a part is proven without reading the rest.

Content is cut every MiB. Each chunk is stored as it is, or packed by itself, one behind the other in one blob. The list
of them (how many bytes each takes in the blob, and their digest) is a blob of its own: its name is in the row of the
artifact, so that nobody can put another list in its place.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from hashlib import sha256
from typing import TYPE_CHECKING, BinaryIO

from outlast.errors import IntegrityBroken
from outlast.values.codec import decode, encode
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.store.blobs.folder import Blobs

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
