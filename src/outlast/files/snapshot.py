"""Looking at files: what is there, with digests, and its content kept where that is small enough.

`look` and `look_and_keep` walk the files that a step declares; `sight` looks at one file of a root, by what a handoff
is bound to. Links are not followed but for those on the way that stay inside of the root, devices, pipes and sockets
are not opened, and nothing outside of the root is touched. A file that vanishes meanwhile is not there; one that cannot
be read is told as such.

`Bound` and `Binding` are what the files and the repository were when somebody looked, as a handoff is bound to them.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from outlast.files.changes import Mode, Patterns, SeenFile, never
from outlast.values.codec import digest
from outlast.values.frozen import NamedTuple
from outlast.values.late import late

if TYPE_CHECKING:
    import hashlib
    from concurrent.futures import Future, ThreadPoolExecutor

    from outlast.store.contract.blobs import Blobs
else:
    hashlib = late("hashlib")

BoundMode = Literal["file", "exec", "link", "absent", "special"]
Relation = Literal["none", "same", "ahead", "apart", "unknown"]  # of the commit now to the bound one


class Bound(Struct, frozen=True):
    """One file as it was found. Links are not followed: a link's content is the text of its target."""

    mode: BoundMode
    digest: str = ""  # SHA-256 of the bytes
    blob: str = ""  # git's blob id of the text with LF line ends, so that line ends do not lie; "" unless it is text
    size: int = 0
    kept: str = ""  # the blob that holds the content
    why: str = ""  # why there is none: too_large, over_budget, secret, unreadable, special
    leads: str = ""  # of a link: where it leads to in the end, and what is there

    def same(self, other: Bound) -> bool:
        """Whether both are the same file: the same kind, and the same content but for line ends."""
        if self.mode != other.mode or (self.why == "unreadable") != (other.why == "unreadable"):
            return False
        return self.digest == other.digest or (bool(self.blob) and self.blob == other.blob)

    @property
    def word(self) -> str:
        """The file in short, as reasons say it: `absent`, or its kind and digest."""
        if self.mode == "absent":
            return "absent"
        return f"{self.mode} {(self.blob or self.digest)[:12] or self.why}"


ABSENT = Bound("absent")


class Binding(Struct, frozen=True, kw_only=True):
    """What the files and the repository were when somebody looked."""

    root: str
    host: str
    files: dict[str, Bound] = field(default_factory=dict)  # by path from the root; of a folder all that git would add
    folders: tuple[str, ...] = ()  # the targets that are folders
    environment: dict[str, Bound] = field(default_factory=dict)
    musts: dict[str, Bound] = field(default_factory=dict)  # the files that musts are about; never their content
    commit: str = ""  # "" outside of git, or before the first commit
    branch: str = ""  # "" when detached
    dirty: str = ""  # digest of the other files that differ from the commit; "" when there are none
    dirty_files: tuple[str, ...] = ()  # their names, as many as are kept
    untracked: tuple[str, ...] = ()  # other files that git does not know, as many: they stay behind
    patch: str = ""  # the blob that holds the uncommitted changes
    patch_why: str = ""  # why there is none though something is uncommitted
    prefix: str = ""  # where the root is in its repository; "" at its top, and outside of git
    unkept: dict[str, str] = field(default_factory=dict)  # of musts to keep that did not hold, by key: what was wrong
    known_by: tuple[str, ...] = ()  # the first commits and the remotes of its repository: alike in every clone

    @property
    def stays_behind(self) -> str:
        """The new files that no clone will get from the handoff, and what to do about it; "" without any."""
        names = [path if path.isprintable() else repr(path) for path in self.untracked]
        more = [f"and {len(names) - 5} more"] if len(names) > 5 else []
        advice = "git does not know them: `git add` them, or name them as files"
        return f"{', '.join(names[:5] + more)} ({advice})" if names else ""

    @property
    def blobs(self) -> tuple[str, ...]:
        """Every blob that this refers to, each once."""
        kept = {bound.kept for bound in (*self.files.values(), *self.environment.values())}
        return tuple(sorted((kept | {self.patch}) - {""}))


UNBOUND = Binding(root="", host="")  # what stands for it where nobody looked

# -- looking -----------------------------------------------------------------------------------------

FILE_BYTES = 1 << 20
ALL_BYTES = 20 << 20
SMALL_BYTES = 64 << 10  # of a file whose content is committed with what refers to it, and takes no sync of its own
SMALL_IN_ALL = 1 << 20  # of such files in one commit
GONE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)  # there is no such file
_CHUNK_BYTES = 1 << 18
_TEXT_BYTES = 8_000  # git takes for text what has no NUL in so many
_TICK_NS = 20_000_000  # two writes within it may leave a file with equal times
_MANY = 4  # files from which threads pay
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
    """Makes contents durable, each once, up to a number of bytes in all.

    They become blobs, side by side where there are many. Content of at most `small_bytes` does not: it is handed over
    (`small`), to be committed together with what refers to it.
    """

    def __init__(self, blobs: Blobs, all_bytes: int = ALL_BYTES, *, small_bytes: int = 0) -> None:
        self.small: dict[str, bytes] = {}
        self._blobs, self._room = blobs, all_bytes
        self._small_bytes, self._small_room = small_bytes, SMALL_IN_ALL
        self._waiting: dict[str, bytes] = {}
        self._puts: dict[str, Future[str]] = {}
        self._threads: ThreadPoolExecutor | None = None

    def has_room(self, digest: str, size: int) -> bool:
        return self._knows(digest) or size <= self._room

    def _knows(self, digest: str) -> bool:
        return digest in self.small or digest in self._waiting or digest in self._puts

    def keep(self, digest: str, content: bytes) -> str:
        """The name of the content, which is durable when the keeper is left, unless it is small."""
        if self._knows(digest):
            return digest
        self._room -= len(content)
        if self._small_bytes and len(content) <= min(self._small_bytes, self._small_room):
            self._small_room -= len(content)
            self.small[digest] = content
            return digest
        self._waiting[digest] = content
        if self._threads or len(self._waiting) >= _MANY:
            self._put_beside()
        return digest

    def _put_beside(self) -> None:
        from concurrent.futures import ThreadPoolExecutor  # late: it loads logging, and most keep little

        self._threads = self._threads or ThreadPoolExecutor(_KEEPERS)
        self._puts |= {each: self._threads.submit(self._blobs.put, self._waiting[each]) for each in self._waiting}
        self._waiting = {}

    def __enter__(self) -> ContentKeeper:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._threads is not None:
            self._threads.shutdown()
        for put in self._puts.values():
            put.result()
        for content in self._waiting.values() if kind is None else ():
            self._blobs.put(content)


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
        if (found := stat_of(os.path.join(folder, name))) is not None:
            yield name, stat.S_ISDIR(found.st_mode)


def stat_of(path: str) -> os.stat_result | None:
    """What is there, None for nothing. A name that is too long for a file is nobody's."""
    try:
        return os.lstat(path)
    except OSError as error:
        if error.errno in GONE:
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
    handle = os.open(path, _FILE)
    try:
        found = os.fstat(handle)
        stamp = stamp_of(found) if time.time_ns() - found.st_ctime_ns > _TICK_NS else ""
        read = _read(handle, content_bytes)
        return Look(SeenFile(read.digest, read.size, _mode(found), bits=_bits(found), stamp=stamp), read.content)
    finally:
        os.close(handle)


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
        folder = _enter(root, parts[:-1])
        try:
            return _sight(folder, parts[-1] if parts else ".", most_bytes)
        finally:
            os.close(folder)
    except OSError as error:
        return Sight(ABSENT if error.errno in GONE else Bound("special", why="unreadable"))


def _real_parts(root: Path, path: str) -> list[str] | None:
    """The names that lead from the root to the file, all links on the way resolved; None when they leave it."""
    if not can_be_a_path(path) or path.startswith("/") or ".." in path.split("/"):
        return None
    above, _, name = path.rstrip("/").rpartition("/")
    last = [] if name in ("", ".") else [name]
    if not above:
        return last
    real = Path(os.path.realpath(root / above))
    return [*real.relative_to(root).parts, *last] if real.is_relative_to(root) else None


def can_be_a_path(path: str) -> bool:
    try:
        return bool(path) and b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


def _enter(root: Path, parts: Iterable[str]) -> int:
    """The folder at the end of the names, entered without following a link."""
    handle = os.open(root, _FOLDER & ~os.O_NOFOLLOW)
    for name in parts:
        try:
            inner = os.open(name, _FOLDER, dir_fd=handle)
        finally:
            os.close(handle)
        handle = inner
    return handle


def _sight(folder: int, name: str, most_bytes: int | None) -> Sight:
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISLNK(found.st_mode):
        target = os.fsencode(os.readlink(name, dir_fd=folder))
        return Sight(Bound("link", digest(target), size=len(target)), target)
    if not stat.S_ISREG(found.st_mode):
        return Sight(Bound("special", why="folder" if stat.S_ISDIR(found.st_mode) else "special"))
    if most_bytes is not None and found.st_size > most_bytes:
        return Sight(Bound(_plain_mode(found), size=found.st_size, why="too_large"))
    handle = os.open(name, _FILE, dir_fd=folder)
    try:
        if not stat.S_ISREG((found := os.fstat(handle)).st_mode):
            return Sight(Bound("special", why="special"))
        read = _read(handle, FILE_BYTES)
        return Sight(Bound(_plain_mode(found), read.digest, _blob_id(handle, read), read.size), read.content)
    finally:
        os.close(handle)


# -- content -----------------------------------------------------------------------------------------


class _Read(NamedTuple):
    """What was read of a file. The size is that of what was read: it may grow meanwhile."""

    digest: str
    size: int
    line_ends: int  # that are CR LF
    is_text: bool
    content: bytes | None  # unless it is more than was asked for


def _read(handle: int, content_bytes: int) -> _Read:
    """Hash chunk by chunk, in constant memory."""
    hashed, size, pairs, before, is_text = hashlib.sha256(), 0, 0, b"", True
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
    hashed = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    for chunk in _chunks(handle) if read.content is None else (read.content,):
        chunk = kept + chunk
        kept = chunk[-1:] if chunk.endswith(b"\r") else b""  # its LF may begin the next chunk
        text = chunk[: len(chunk) - len(kept)].replace(b"\r\n", b"\n")
        hashed.update(text)
        again += len(text)
    hashed.update(kept)
    return hashed.hexdigest() if again + len(kept) == size else ""
