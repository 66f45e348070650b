"""Looking at declared files: what is there, with digests, and its content kept where that is small enough.

Links are not followed, devices, pipes and sockets are not opened, and nothing outside of the root is touched. A file
that vanishes meanwhile is not there; one that cannot be read is listed as such.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from outlast.files.changes import Mode, Seen
from outlast.files.patterns import Patterns
from outlast.store.blobs.folder import Blobs
from outlast.values.digest import digest
from outlast.values.frozen import NamedTuple

FILE_BYTES = 1 << 20
ALL_BYTES = 20 << 20
GONE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)  # there is no such file
_CHUNK_BYTES = 1 << 18
_TICK_NS = 20_000_000  # two writes within it may leave a file with equal times
_KEEPERS = 8  # threads: syncing many small files one after the other would take seconds


class Look(NamedTuple):
    """A file as it was found, and its content if it is not larger than was asked for."""

    seen: Seen
    content: bytes | None


def look(root: Path, patterns: Sequence[str]) -> dict[str, Seen]:
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
) -> dict[str, Seen]:
    """The same, and the content of each file is durable as a blob (`kept`), or `why` says why it is not.

    Not kept are files larger than `file_bytes`, those that would make it more than `all_bytes` in all (the same content
    counts once), and every file that contains one of the secrets.
    """
    found: dict[str, Seen] = {}
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
        return None if error.errno in GONE else Look(Seen("", 0, "special", why="unreadable", bits=0), None)
    try:
        return _look_at(path, found, content_bytes)
    except OSError as error:
        unknown = Seen("", found.st_size, _mode(found), why="unreadable", bits=_bits(found))
        return None if error.errno in GONE else Look(unknown, None)


def _look_at(path: str, found: os.stat_result, content_bytes: int) -> Look:
    if stat.S_ISLNK(found.st_mode):
        target = os.fsencode(os.readlink(path))
        return Look(Seen(digest(target), len(target), "link", bits=0), target if len(target) <= content_bytes else None)
    if stat.S_ISDIR(found.st_mode):
        return Look(Seen("", 0, "folder", why="unreadable", bits=_bits(found)), None)
    if not stat.S_ISREG(found.st_mode):
        return Look(Seen("", 0, "special", why="special", bits=_bits(found)), None)
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)  # it may be another by now
    try:
        return _read(handle, os.fstat(handle), content_bytes)
    finally:
        os.close(handle)


def _read(handle: int, found: os.stat_result, content_bytes: int) -> Look:
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
    seen = Seen(hashed.hexdigest(), size, _mode(found), bits=_bits(found), stamp=stamp)
    return Look(seen, b"".join(parts) if size <= content_bytes else None)


def stamp_of(found: os.stat_result) -> str:
    """Which file it is, and when it was last written or touched in any other way."""
    return f"{found.st_dev}:{found.st_ino}:{found.st_mtime_ns}:{found.st_ctime_ns}"


def _mode(found: os.stat_result) -> Mode:
    if stat.S_ISLNK(found.st_mode):
        return "link"
    if not stat.S_ISREG(found.st_mode):
        return "special"
    return "exec" if found.st_mode & 0o100 else "file"


def _bits(found: os.stat_result) -> int:
    return 0 if stat.S_ISLNK(found.st_mode) else stat.S_IMODE(found.st_mode) & 0o777
