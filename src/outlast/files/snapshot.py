"""Looking at files: what is there, with digests, and its content kept where that is small enough.

`look` and `look_and_keep` walk the files that a step declares; `sight` looks at one file of a root, by what a handoff
is bound to. Links are not followed but for those on the way that stay inside of the root, devices, pipes and sockets
are not opened, and nothing outside of the root is touched. A file that vanishes meanwhile is not there; one that cannot
be read is told as such.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha1, sha256
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from outlast.files.binding import ABSENT, Bound
from outlast.files.changes import Mode, SeenFile
from outlast.files.patterns import Patterns, never
from outlast.values.codec import digest
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.store.contract.blobs import Blobs

FILE_BYTES = 1 << 20
ALL_BYTES = 20 << 20
GONE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)  # there is no such file
_CHUNK_BYTES = 1 << 18
_TEXT_BYTES = 8_000  # git takes for text what has no NUL in so many
_TICK_NS = 20_000_000  # two writes within it may leave a file with equal times
_KEEPERS = 8  # threads: syncing many small files one after the other would take seconds
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # it may be a pipe by the time it is opened


class Look(NamedTuple):
    """A file as it was found, and its content if it is not larger than was asked for."""

    seen: SeenFile
    content: bytes | None


def look(root: Path, patterns: Sequence[str]) -> dict[str, SeenFile]:
    """The declared files that are there, by path. Raises NameInvalid for a pattern that cannot be used."""
    looks = ((path, look_at(f"{root}/{path}", 0)) for path in sorted(_paths(root, Patterns.of(patterns))))
    return {path: found.seen for path, found in looks if found}


def look_and_keep(
    root: Path,
    patterns: Sequence[str],
    blobs: Blobs,
    *,
    secrets: Collection[str] = (),
    file_bytes: int = FILE_BYTES,
    all_bytes: int = ALL_BYTES,
) -> dict[str, SeenFile]:
    """The same, and the content of each file is durable as a blob (`kept`), or `why` says why it is not.

    Not kept are files larger than `file_bytes`, those that would make it more than `all_bytes` in all (the same content
    counts once), and every file that contains one of the secrets.
    """
    found: dict[str, SeenFile] = {}
    with ContentKeeper(blobs, all_bytes) as keeper:
        for path in sorted(_paths(root, Patterns.of(patterns))):
            if here := look_at(f"{root}/{path}", file_bytes):
                why = _why_not(here, secrets, fits=keeper.has_room(here.seen.digest, here.seen.size))
                kept = "" if why else keeper.keep(here.seen.digest, here.content or b"")
                found[path] = replace(here.seen, kept=kept, why=why)
    return found


class ContentKeeper:
    """Makes contents durable as blobs, each once and side by side, up to a number of bytes in all."""

    def __init__(self, blobs: Blobs, all_bytes: int = ALL_BYTES) -> None:
        from concurrent.futures import Future, ThreadPoolExecutor  # late: it loads logging, and most keep nothing

        self._blobs, self._room = blobs, all_bytes
        self._puts: dict[str, Future[str]] = {}
        self._threads = ThreadPoolExecutor(_KEEPERS)

    def has_room(self, digest: str, size: int) -> bool:
        return digest in self._puts or size <= self._room

    def keep(self, digest: str, content: bytes) -> str:
        """The name of the blob, which is durable when the keeper is left."""
        if digest not in self._puts:
            self._room -= len(content)
            self._puts[digest] = self._threads.submit(self._blobs.put, content)
        return digest

    def __enter__(self) -> ContentKeeper:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown()
        for put in self._puts.values():
            put.result()


def _why_not(here: Look, secrets: Collection[str], *, fits: bool) -> str:
    if here.seen.why:
        return here.seen.why
    if here.content is None:
        return "too_large"
    if holds_secret(here.content, secrets):
        return "secret"
    return "" if fits else "over_budget"


def holds_secret(content: bytes, secrets: Collection[str]) -> bool:
    return any(secret and secret.encode("utf-8", "surrogateescape") in content for secret in secrets)


# -- the walk ----------------------------------------------------------------------------------------


def _paths(root: Path, patterns: Patterns) -> Iterator[str]:
    """Every path that is meant, relative to the root; a folder only if it should be read and cannot be."""
    folders = [("", patterns.start)]
    while folders:
        folder, place = folders.pop()
        try:
            entries = list(_entries(f"{root}/{folder}", patterns.names(place)))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            yield folder.rstrip("/") or "."
            continue
        for name, is_folder in entries:
            after = patterns.step(place, name)
            if is_folder and patterns.goes_on(after):
                folders.append((f"{folder}{name}/", after))
            elif not is_folder and patterns.accepts(after):
                yield folder + name


def _entries(folder: str, names: set[str] | None) -> Iterator[tuple[str, bool]]:
    """The entries and whether each is a folder; when only some names can matter the folder is not read."""
    if names is None:
        with os.scandir(folder) as entries:
            yield from ((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
        return
    for name in names:
        if (found := _stat(os.path.join(folder, name))) is not None:
            yield name, stat.S_ISDIR(found.st_mode)


def _stat(path: str) -> os.stat_result | None:
    """What is there, None for nothing. A name that is too long for a file is nobody's."""
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return None
        raise


# -- one file ----------------------------------------------------------------------------------------


def look_at(path: str, content_bytes: int) -> Look | None:
    """One file, with its content if that is at most so many bytes; None when it is not there."""
    try:
        found = os.lstat(path)
    except OSError as error:
        return None if error.errno in GONE else Look(SeenFile("", 0, "special", why="unreadable", bits=0), None)
    try:
        return _look_at(path, found, content_bytes)
    except OSError as error:
        unknown = SeenFile("", found.st_size, _mode(found), why="unreadable", bits=_bits(found))
        return None if error.errno in GONE else Look(unknown, None)


def _look_at(path: str, found: os.stat_result, content_bytes: int) -> Look:
    if stat.S_ISLNK(found.st_mode):
        target = os.fsencode(os.readlink(path))
        seen = SeenFile(digest(target), len(target), "link", bits=0)
        return Look(seen, target if len(target) <= content_bytes else None)
    if stat.S_ISDIR(found.st_mode):
        return Look(SeenFile("", 0, "folder", why="unreadable", bits=_bits(found)), None)
    if not stat.S_ISREG(found.st_mode):
        return Look(SeenFile("", 0, "special", why="special", bits=_bits(found)), None)
    with _opened(path) as handle:
        found = os.fstat(handle)
        stamp = stamp_of(found) if time.time_ns() - found.st_ctime_ns > _TICK_NS else ""
        read = _read(handle, content_bytes)
        return Look(SeenFile(read.digest, read.size, _mode(found), bits=_bits(found), stamp=stamp), read.content)


def stamp_of(found: os.stat_result) -> str:
    """Which file it is, and when it was last written or touched in any other way."""
    return f"{found.st_dev}:{found.st_ino}:{found.st_mtime_ns}:{found.st_ctime_ns}"


def _mode(found: os.stat_result) -> Mode:
    if stat.S_ISLNK(found.st_mode):
        return "link"
    return _plain_mode(found) if stat.S_ISREG(found.st_mode) else "special"


def _plain_mode(found: os.stat_result) -> Literal["file", "exec"]:
    return "exec" if found.st_mode & 0o100 else "file"


def _bits(found: os.stat_result) -> int:
    return 0 if stat.S_ISLNK(found.st_mode) else stat.S_IMODE(found.st_mode) & 0o777


# -- one file of a root ------------------------------------------------------------------------------


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
    if not stat.S_ISREG(found.st_mode):
        return Sight(Bound("special", why="folder" if stat.S_ISDIR(found.st_mode) else "special"))
    if most_bytes is not None and found.st_size > most_bytes:
        return Sight(Bound(_plain_mode(found), size=found.st_size, why="too_large"))
    with _opened(name, folder) as handle:
        if not stat.S_ISREG((found := os.fstat(handle)).st_mode):
            return Sight(Bound("special", why="special"))
        read = _read(handle, FILE_BYTES)
        return Sight(Bound(_plain_mode(found), read.digest, _blob_id(handle, read), read.size), read.content)


# -- content -----------------------------------------------------------------------------------------


class _Read(NamedTuple):
    """What was read of a file. The size is that of what was read: it may grow meanwhile."""

    digest: str
    size: int
    line_ends: int  # that are CR LF
    is_text: bool
    content: bytes | None  # unless it is more than was asked for


@contextmanager
def _opened(name: str, folder: int | None = None) -> Iterator[int]:
    handle = os.open(name, _FILE, dir_fd=folder)
    try:
        yield handle
    finally:
        os.close(handle)


def _read(handle: int, content_bytes: int) -> _Read:
    """Hash chunk by chunk, in constant memory."""
    hashed, size, pairs, before, is_text = sha256(), 0, 0, b"", True
    parts: list[bytes] = []
    for chunk in _chunks(handle):
        is_text = is_text and (size >= _TEXT_BYTES or b"\0" not in chunk[: _TEXT_BYTES - size])
        hashed.update(chunk)
        size += len(chunk)
        pairs += (before + chunk).count(b"\r\n")
        before = chunk[-1:]
        parts = [*parts, chunk] if size <= content_bytes else []
    content = b"".join(parts) if size <= content_bytes else None
    return _Read(hashed.hexdigest(), size, pairs, is_text, content)


def _chunks(handle: int) -> Iterator[bytes]:
    os.lseek(handle, 0, os.SEEK_SET)
    return iter(lambda: os.read(handle, _CHUNK_BYTES), b"")


def _blob_id(handle: int, read: _Read) -> str:
    """What `git hash-object` gives for the text with LF line ends; "" for no text, or one that changed meanwhile."""
    if not read.is_text:
        return ""
    size, again, kept = read.size - read.line_ends, 0, b""
    hashed = sha1(b"blob %d\0" % size, usedforsecurity=False)
    for chunk in _chunks(handle) if read.content is None else (read.content,):
        chunk = kept + chunk
        kept = chunk[-1:] if chunk.endswith(b"\r") else b""  # its LF may begin the next chunk
        text = chunk[: len(chunk) - len(kept)].replace(b"\r\n", b"\n")
        hashed.update(text)
        again += len(text)
    hashed.update(kept)
    return hashed.hexdigest() if again + len(kept) == size else ""
