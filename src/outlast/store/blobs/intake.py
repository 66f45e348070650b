"""Content on its way into the blob folder: written beside it, measured, packed if that helps, then named.

Nothing is held in memory but a piece. A process that dies leaves a temporary file, which `gc` finds by its name. A blob
is named by the digest of what is stored, so packed content has a name of its own; whoever refers to it knows both.
"""

from __future__ import annotations

import os
import secrets
import threading
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Protocol, Self

from outlast.errors import HomeReadOnly
from outlast.store.blobs.content import CHUNK_BYTES, LISTED_FROM, RAW, ZLIB, Chunk, chunk_of, chunks_in, written
from outlast.store.contract.blobs import Known, Stored, TakenContent, nothing_known
from outlast.store.disk import translated
from outlast.values.private import make_folder, open_file

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
    """Content as it arrives, in a file beside the blobs."""

    def __init__(self, blobs: Collecting) -> None:
        self._blobs, self._found, self.size = blobs, sha256(), 0
        try:
            self._path = _beside(blobs)
            self._file = open(self._path, "wb", opener=open_file)  # noqa: SIM115  # closed by `close`
        except OSError as error:
            raise translated(error, str(blobs.folder), HomeReadOnly) from error

    def write(self, piece: bytes) -> None:
        """Take the next piece. Raises DiskFull, StoreFailed."""
        try:
            self._file.write(piece)
        except OSError as error:
            raise translated(error, str(self._blobs.folder), HomeReadOnly) from error
        self._found.update(piece)
        self.size += len(piece)

    @property
    def digest(self) -> str:
        return self._found.hexdigest()

    def settle(self, known: Known = nothing_known, *, pack: bool = False) -> TakenContent:
        """Make what has arrived durable. What is there already is relied on, not written again.

        With `pack` it is packed where that saves a quarter or more. Raises DiskFull, StoreReadOnly, StoreFailed.
        """
        try:
            self._file.close()
            digest = self.digest
            stored = self._there(known(digest)) or self._placed(pack)
        except OSError as error:
            raise translated(error, str(self._blobs.folder), HomeReadOnly) from error
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
        with ThreadPoolExecutor(1) as beside, open(self._path, "rb") as file:
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
        """Let go of the file; what was not settled is gone."""
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
