"""Looking at declared files: what is there, with digests, and its content kept where that is small enough.

Links are not followed, devices, pipes and sockets are not opened, and nothing outside of the root is touched. A file
that vanishes meanwhile is not there; one that cannot be read is listed as such.

One file of a root, looked at without ever leaving the root: what a handoff is bound to.

Links on the way are followed as long as they stay inside, and the folders they lead to are then entered one by one
without following anything, so that a link put there meanwhile opens nothing. The last name is never followed. Devices,
pipes and sockets are not opened. Nothing here raises for what it finds.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha1, sha256
from pathlib import Path
from typing import TYPE_CHECKING

from outlast.files.changes import Mode as DeclaredMode
from outlast.files.changes import SeenFile
from outlast.files.patterns import Patterns, never
from outlast.handoffs.handoff import ABSENT, Bound, Mode
from outlast.values.digest import digest
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.store.contract.blobs import Blobs


FILE_BYTES = 1 << 20
ALL_BYTES = 20 << 20
GONE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)  # there is no such file
_CHUNK_BYTES = 1 << 18
_TICK_NS = 20_000_000  # two writes within it may leave a file with equal times
_KEEPERS = 8  # threads: syncing many small files one after the other would take seconds


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
    contents: dict[str, bytes] = {}
    room = all_bytes
    for path in sorted(_paths(root, Patterns.of(patterns))):
        if not (here := look_at(f"{root}/{path}", file_bytes)):
            continue
        name = here.seen.digest
        need = 0 if name in contents else here.seen.size
        why = _why_not(here, secrets, fits=need <= room)
        found[path] = replace(here.seen, kept="" if why else name, why=why)
        if not why and name not in contents:
            room -= need
            contents[name] = here.content or b""
    _keep(blobs, list(contents.values()))
    return found


def _keep(blobs: Blobs, contents: Sequence[bytes]) -> None:
    """Many are synced side by side; for a few threads would cost more than they save."""
    if len(contents) < _KEEPERS // 2:
        for content in contents:
            blobs.put(content)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_KEEPERS) as keepers:
        for put in [keepers.submit(blobs.put, content) for content in contents]:
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
        unknown = SeenFile("", found.st_size, _declared_mode(found), why="unreadable", bits=_bits(found))
        return None if error.errno in GONE else Look(unknown, None)


def _look_at(path: str, found: os.stat_result, content_bytes: int) -> Look:
    if stat.S_ISLNK(found.st_mode):
        target = os.fsencode(os.readlink(path))
        return Look(
            SeenFile(digest(target), len(target), "link", bits=0), target if len(target) <= content_bytes else None
        )
    if stat.S_ISDIR(found.st_mode):
        return Look(SeenFile("", 0, "folder", why="unreadable", bits=_bits(found)), None)
    if not stat.S_ISREG(found.st_mode):
        return Look(SeenFile("", 0, "special", why="special", bits=_bits(found)), None)
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)  # it may be another by now
    try:
        return _read_kept(handle, os.fstat(handle), content_bytes)
    finally:
        os.close(handle)


def _read_kept(handle: int, found: os.stat_result, content_bytes: int) -> Look:
    """Hash chunk by chunk. The size is that of what was read: a file may grow while it is looked at."""
    stamp = stamp_of(found) if time.time_ns() - found.st_ctime_ns > _TICK_NS else ""
    hashed, size, parts = sha256(), 0, []
    while chunk := os.read(handle, _CHUNK_BYTES):
        hashed.update(chunk)
        size += len(chunk)
        if size <= content_bytes:
            parts.append(chunk)
        else:
            parts.clear()
    seen = SeenFile(hashed.hexdigest(), size, _declared_mode(found), bits=_bits(found), stamp=stamp)
    return Look(seen, b"".join(parts) if size <= content_bytes else None)


def stamp_of(found: os.stat_result) -> str:
    """Which file it is, and when it was last written or touched in any other way."""
    return f"{found.st_dev}:{found.st_ino}:{found.st_mtime_ns}:{found.st_ctime_ns}"


def _declared_mode(found: os.stat_result) -> DeclaredMode:
    if stat.S_ISLNK(found.st_mode):
        return "link"
    if not stat.S_ISREG(found.st_mode):
        return "special"
    return "exec" if found.st_mode & 0o100 else "file"


def _bits(found: os.stat_result) -> int:
    return 0 if stat.S_ISLNK(found.st_mode) else stat.S_IMODE(found.st_mode) & 0o777


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
