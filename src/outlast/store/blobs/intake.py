"""Content on its way into the blob folder: written beside it, measured, packed if that helps, then named.

Nothing is held in memory but a piece. A process that dies leaves a temporary file, which `gc` finds by its name. A blob
is named by the digest of what is stored, so packed content has a name of its own; whoever refers to it knows both.
"""

from __future__ import annotations

import os
import secrets
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from outlast.errors import HomeReadOnly, IntegrityBroken
from outlast.store.blobs.folder import PIECE_BYTES, Blobs, translated
from outlast.values.frozen import NamedTuple

RAW, ZLIB = "raw", "zlib"
SMALLEST = 4096  # what is smaller takes a block of the disk anyway
GIVE_UP_AFTER = 4 << 20  # of the content: if it has not become smaller by then, it will not
_LEVEL = 4


class Taken(NamedTuple):
    """Content that is durable in the folder: what it is, and under which name and how it is stored."""

    digest: str
    size: int
    blob: str
    codec: str


Known = Callable[[str], tuple[str, str] | None]  # the blob and codec that hold content of this digest already


def take_in(blobs: Blobs, pieces: Iterable[bytes], known: Known, *, pack: bool) -> Taken:
    """Store content durably, in constant memory. What is there already is relied on, not written again.

    With `pack` it is packed where that saves a quarter or more. Raises DiskFull, StoreReadOnly, StoreFailed; what the
    pieces themselves raise passes through. Nothing is left behind then.
    """
    try:
        with _temporary(blobs) as raw:
            digest, size = _fill(raw, pieces)
            for blob, codec in (known(digest) or (digest, RAW), (digest, RAW)):
                if blobs.renew(blob):
                    return Taken(digest, size, blob, codec)
            return Taken(digest, size, *_placed(blobs, raw, digest, size if pack else 0))
    except OSError as error:
        raise translated(error, str(blobs.folder), HomeReadOnly) from error


def _placed(blobs: Blobs, raw: Path, digest: str, size: int) -> tuple[str, str]:
    if size >= SMALLEST:
        with _temporary(blobs) as packed:
            blob = _squeezed(raw, packed, size)
            if blob:
                blobs.place(packed, blob)
                return blob, ZLIB
    blobs.place(raw, digest)
    return digest, RAW


@contextmanager
def _temporary(blobs: Blobs) -> Iterator[Path]:
    """A file beside the blobs that goes away, unless it was given a name."""
    name = secrets.token_hex(32)
    path = blobs.folder / name[:2] / f".{name}.{os.getpid()}.{threading.get_ident()}"
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def _fill(path: Path, pieces: Iterable[bytes]) -> tuple[str, int]:
    found, size = sha256(), 0
    with open(path, "wb") as file:
        for piece in pieces:
            file.write(piece)
            found.update(piece)
            size += len(piece)
    return found.hexdigest(), size


def _squeezed(raw: Path, packed: Path, size: int) -> str:
    """Pack a file. The digest of what came of it, or nothing when that does not save a quarter."""
    found, seen, made = sha256(), 0, 0
    squeeze = zlib.compressobj(_LEVEL)
    with open(raw, "rb") as source, open(packed, "wb") as file:
        while piece := source.read(PIECE_BYTES):
            seen += len(piece)
            out = squeeze.compress(piece)
            made += len(out)
            if seen >= GIVE_UP_AFTER and made > seen * 0.9:
                return ""
            file.write(out)
            found.update(out)
        last = squeeze.flush()
        file.write(last)
        found.update(last)
    return found.hexdigest() if (made + len(last)) * 4 <= size * 3 else ""


def content(blobs: Blobs, taken: Taken, record: str) -> Iterator[bytes]:
    """The content as it was given, piece by piece. IntegrityBroken comes after the last piece, or before it."""
    found = sha256()
    try:
        stored = blobs.pieces(taken.blob)
        for piece in _unpacked(stored) if taken.codec == ZLIB else stored:
            found.update(piece)
            yield piece
    except zlib.error as error:
        raise IntegrityBroken(record, f"its content was changed ({error})") from error
    except IntegrityBroken as error:
        raise IntegrityBroken(record, f"its content: {error.why} ({error.record})") from error
    if found.hexdigest() != taken.digest:
        raise IntegrityBroken(record, "its content was changed")


def _unpacked(pieces: Iterable[bytes]) -> Iterator[bytes]:
    loosen = zlib.decompressobj()
    for piece in pieces:
        out = loosen.decompress(piece, PIECE_BYTES)
        while out:
            yield out
            out = loosen.decompress(loosen.unconsumed_tail, PIECE_BYTES)
    if rest := loosen.flush():
        yield rest
