"""One file of a root, looked at without ever leaving the root: what a handoff is bound to.

Links on the way are followed as long as they stay inside, and the folders they lead to are then entered one by one
without following anything, so that a link put there meanwhile opens nothing. The last name is never followed. Devices,
pipes and sockets are not opened. Nothing here raises for what it finds.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha1, sha256
from pathlib import Path

from outlast.files.patterns import never
from outlast.files.snapshot import FILE_BYTES, GONE
from outlast.handoffs.handoff import ABSENT, Bound, Mode
from outlast.values.digest import digest
from outlast.values.frozen import NamedTuple

_CHUNK_BYTES = 1 << 18
_TEXT_BYTES = 8_000  # git takes for text what has no NUL in so many
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # it may be a pipe by the time it is opened


class Sight(NamedTuple):
    """A file as it was found and, if that is at most 1 MiB, its content."""

    bound: Bound
    content: bytes | None = None


def sight(root: Path, path: str, most_bytes: int | None = None) -> Sight:
    """A file by its path from the root. One larger than `most_bytes` is not read: it has a size and no digest.

    What is no file is `special`, and `why` says what it is instead: `outside` (a link on the way leaves the root),
    `hidden` (inside `.git` or `.outlast`), `folder`, `special` (a device, pipe or socket), `unreadable`.
    """
    try:
        parts = _real_parts(root, path)
        if parts is None or any(map(never, parts)):
            return Sight(Bound("special", why="outside" if parts is None else "hidden"))
        with _entered(root, parts[:-1]) as folder:
            return _sight(folder, parts[-1] if parts else ".", most_bytes)
    except OSError as error:
        return Sight(ABSENT if error.errno in GONE else Bound("special", why="unreadable"))


def _real_parts(root: Path, path: str) -> list[str] | None:
    """The names that lead from the root to the file, all links on the way resolved; None when they leave it."""
    if not can_be_a_path(path) or path.startswith("/") or ".." in path.split("/"):
        return None
    above, _, name = path.rstrip("/").rpartition("/")
    real = Path(os.path.realpath(root / above))
    if not real.is_relative_to(root):
        return None
    return [*real.relative_to(root).parts, *([] if name in ("", ".") else [name])]


def can_be_a_path(path: str) -> bool:
    try:
        return bool(path) and b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


@contextmanager
def _entered(root: Path, parts: Iterable[str]) -> Iterator[int]:
    """The folder at the end of the names, entered without following a link."""
    handle = os.open(root, _FOLDER & ~os.O_NOFOLLOW)
    try:
        for name in parts:
            inner = os.open(name, _FOLDER, dir_fd=handle)
            os.close(handle)
            handle = inner
        yield handle
    finally:
        os.close(handle)


def _sight(folder: int, name: str, most_bytes: int | None) -> Sight:
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISLNK(found.st_mode):
        target = os.fsencode(os.readlink(name, dir_fd=folder))
        return Sight(Bound("link", digest(target), size=len(target)), target)
    if stat.S_ISDIR(found.st_mode):
        return Sight(Bound("special", why="folder"))
    if not stat.S_ISREG(found.st_mode):
        return Sight(Bound("special", why="special"))
    if most_bytes is not None and found.st_size > most_bytes:
        return Sight(Bound(_mode(found), size=found.st_size, why="too_large"))
    handle = os.open(name, _FILE, dir_fd=folder)
    try:
        return _read(handle, os.fstat(handle))
    finally:
        os.close(handle)


def _mode(found: os.stat_result) -> Mode:
    return "exec" if found.st_mode & 0o100 else "file"


# -- content -----------------------------------------------------------------------------------------


def _read(handle: int, found: os.stat_result) -> Sight:
    """Hash chunk by chunk, in constant memory. The size is that of what was read: a file may grow meanwhile."""
    if not stat.S_ISREG(found.st_mode):
        return Sight(Bound("special", why="special"))
    hashed, size, pairs, before, is_text = sha256(), 0, 0, b"", True
    parts: list[bytes] = []
    for chunk in _chunks(handle):
        is_text = is_text and (size >= _TEXT_BYTES or b"\0" not in chunk[: _TEXT_BYTES - size])
        hashed.update(chunk)
        size += len(chunk)
        pairs += (before + chunk).count(b"\r\n")
        before = chunk[-1:]
        parts = [*parts, chunk] if size <= FILE_BYTES else []
    whole = size <= FILE_BYTES
    blob = _blob_id(parts if whole else _again(handle), size - pairs) if is_text else ""
    return Sight(Bound(_mode(found), hashed.hexdigest(), blob, size), b"".join(parts) if whole else None)


def _chunks(handle: int) -> Iterator[bytes]:
    return iter(lambda: os.read(handle, _CHUNK_BYTES), b"")


def _again(handle: int) -> Iterator[bytes]:
    os.lseek(handle, 0, os.SEEK_SET)
    yield from _chunks(handle)


def _blob_id(chunks: Iterable[bytes], size: int) -> str:
    """What `git hash-object` gives for the text with LF line ends; "" if it is not of that size any more."""
    hashed, read, kept = sha1(b"blob %d\0" % size, usedforsecurity=False), 0, b""
    for chunk in chunks:
        chunk = kept + chunk
        kept = chunk[-1:] if chunk.endswith(b"\r") else b""  # its LF may begin the next chunk
        text = chunk[: len(chunk) - len(kept)].replace(b"\r\n", b"\n")
        hashed.update(text)
        read += len(text)
    hashed.update(kept)
    return hashed.hexdigest() if read + len(kept) == size else ""
