"""Content as it is given and as it is read: bytes, text, files, streams; and what kind of content it is."""

from __future__ import annotations

import io
import mimetypes
import os
import stat
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from outlast.errors import ValueRefused
from outlast.store.blobs.content import content, content_between
from outlast.store.contract.blobs import Intake, TakenContent
from outlast.store.disk import PIECE_BYTES

if TYPE_CHECKING:
    from outlast.store.contract.blobs import Blobs

Given = bytes | bytearray | memoryview | str | os.PathLike[str] | IO[bytes] | Iterable[bytes] | Intake

_MORE_TYPES = {
    ".md": "text/markdown",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".toml": "application/toml",
    ".jsonl": "application/jsonl",
    ".log": "text/plain",
    ".parquet": "application/vnd.apache.parquet",
    ".patch": "text/x-diff",
    ".diff": "text/x-diff",
}
_PACKINGS = {"gzip": "application/gzip", "bzip2": "application/x-bzip2", "xz": "application/x-xz"}
_PACKED_TYPES = (
    *("image/", "video/", "audio/", "font/woff", "application/zip", "application/gzip", "application/x-bzip2"),
    *("application/x-xz", "application/zstd", "application/x-7z-compressed", "application/vnd.rar"),
    *("application/vnd.openxmlformats", "application/vnd.apache.parquet"),
    *("application/epub", "application/java-archive"),
)
_LOOSE_IMAGES = ("image/svg", "image/bmp", "image/x-ms-bmp", "audio/x-wav", "audio/wav", "image/tiff")
TEXT, BYTES = "text/plain", "application/octet-stream"


# -- given -------------------------------------------------------------------------------------------


def pieces_of(given: Given) -> Iterator[bytes]:
    """What was given, piece by piece. Raises ValueRefused for what is no content, or cannot be read."""
    if isinstance(given, str):
        try:
            return _cut(given.encode())
        except UnicodeEncodeError as error:
            why = f"the text is no UTF-8: {error.reason}"
            raise ValueRefused("content", why, "encode it yourself, give bytes") from error
    if isinstance(given, bytes | bytearray | memoryview):
        return _cut(given)
    if isinstance(given, os.PathLike):
        return _of_file(Path(given))
    if hasattr(given, "read"):
        return _bytes_only(_of_stream(given))
    if isinstance(given, Iterable) and not isinstance(given, dict | list):
        return _bytes_only(iter(given))
    remedy = "give bytes, text, a pathlib.Path, a file opened in binary mode, or an iterator of bytes"
    raise ValueRefused("content", f"{type(given).__qualname__} is no content", remedy)


def _cut(content: bytes | bytearray | memoryview) -> Iterator[bytes]:
    view = memoryview(content).cast("B")
    for at in range(0, len(view), PIECE_BYTES):
        yield bytes(view[at : at + PIECE_BYTES])


def _of_file(path: Path) -> Iterator[bytes]:
    """A file's content. Devices and pipes are refused: they may never end."""
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ValueRefused(str(path), "it is no plain file", "give a file, or open it and give the stream")
            while piece := file.read(PIECE_BYTES):
                yield piece
    except OSError as error:
        raise _unreadable(str(path), error) from error


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # a pipe that nobody writes to would keep us waiting


def _of_stream(stream: Any) -> Iterator[Any]:
    try:
        while piece := stream.read(PIECE_BYTES):
            yield piece
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable("content", error) from error


def _bytes_only(pieces: Iterator[Any]) -> Iterator[bytes]:
    for piece in pieces:
        if not isinstance(piece, bytes | bytearray | memoryview):
            remedy = "open the file in binary mode, or give pieces of bytes"
            raise ValueRefused("content", f"it gives {type(piece).__qualname__}, not bytes", remedy)
        yield from _cut(piece)


def _unreadable(path: str, error: Exception) -> ValueRefused:
    why = getattr(error, "strerror", None) or str(error)
    return ValueRefused(path, f"it cannot be read: {why}", "give content that can be read")


# -- kinds -------------------------------------------------------------------------------------------


def media_type_of(name: str, given: Given) -> str:
    """The media type by the name's ending; else text is text, and anything else bytes."""
    ending = os.path.splitext(name)[1].lower()
    if ending in _MORE_TYPES:
        return _MORE_TYPES[ending]
    found, packing = _types().guess_type(name, strict=False)
    if packing is not None:
        return _PACKINGS.get(packing, BYTES)
    return found or (TEXT if isinstance(given, str) else BYTES)


@cache
def _types() -> mimetypes.MimeTypes:
    return mimetypes.MimeTypes()  # without the files of this machine: the same name is the same type everywhere


def check_media_type(given: Any) -> str:
    """A media type as it was given: `type/subtype`, and parameters if you like."""
    kind = given if isinstance(given, str) else ""
    main, _, sub = kind.partition("/")
    if not main or not sub or len(kind) > 200 or not kind.isascii() or not kind.isprintable() or " " in main + sub[:1]:
        remedy = "give one like text/markdown, or leave it out"
        raise ValueRefused("media_type", f"{given!r:.100} is no media type", remedy)
    return kind


def may_shrink(media_type: str) -> bool:
    """Whether packing may help: not for what is packed already."""
    return media_type.startswith(_LOOSE_IMAGES) or not media_type.startswith(_PACKED_TYPES)


# -- read --------------------------------------------------------------------------------------------


class StoredContent:
    """The way to an artifact's content."""

    def __init__(self, blobs: Blobs, taken: TakenContent, ref: str) -> None:
        self._blobs, self._taken, self._ref = blobs, taken, ref

    def pieces(self) -> Iterator[bytes]:
        return content(self._blobs, self._taken, self._ref)

    def between(self, start: int, end: int) -> Iterator[bytes]:
        return content_between(self._blobs, self._taken, self._ref, start, end)

    def open(self) -> io.BufferedReader:
        return stream_of(self.pieces())


def stream_of(pieces: Iterator[bytes]) -> io.BufferedReader:
    """Pieces as a file that is read from front to back."""
    return io.BufferedReader(_Stream(pieces), PIECE_BYTES)


class _Stream(io.RawIOBase):
    """Pieces as a file that is read from front to back."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._left = pieces, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._left = memoryview(piece)
        room = memoryview(buffer).cast("B")
        count = min(len(room), len(self._left))
        room[:count], self._left = self._left[:count], self._left[count:]
        return count

    def close(self) -> None:
        if isinstance(self._pieces, Iterator) and hasattr(self._pieces, "close"):
            self._pieces.close()  # lets go of the file
        super().close()
