"""Where a repository is: its git folder, and the one that its work trees share. Found without asking git, and checked.

What is asked of git afterwards is asked with these very folders, so that git and we never read different ones. A folder
of git's that leads out (a link, a pointer that is not pointed back at, an object store elsewhere) is somebody else's
word for where to read: `LeadsOut`, which `git.py` lets pass only where git's own `safe.directory` names the
repository. What leads into /proc, /dev or /sys, and pipes and devices, pass never. No file is waited for.

Where it is fetched from has one spelling, however a clone writes it, and without who may: `git@host:a/b.git`,
`ssh://git@host:22/a/b` and `https://me:token@host/A/b.git/` are one repository.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from outlast.values.late import late

if TYPE_CHECKING:
    from urllib import parse
else:
    parse = late("urllib.parse")  # a hook spells no remote

_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]*"


def spelled(url: str, top: str) -> str:
    """A remote in its one spelling: `host/path`, or a real path of this machine; "" for what is neither."""
    scheme, mark, rest = url.partition("://")
    if mark and re.fullmatch(_SCHEME, scheme):
        host, slash, path = rest.partition("?")[0].partition("#")[0].partition("/")
        path = parse.unquote(slash + path)
        return _local(path) if scheme.lower() == "file" else _remote(host, path)
    host, mark, path = url.partition("]:")
    host, mark, path = (f"{host}]", mark, path) if mark and "[" in host else url.partition(":")
    if mark and "/" not in host and not path.startswith(":"):
        return _remote(host, path)
    return "" if "::" in url or not url else _local(os.path.join(top, os.path.expanduser(url)))


def _remote(place: str, path: str) -> str:
    """Names of hosts have no case, and forges' repositories none either. Neither who fetches is kept nor the port."""
    host = place.rpartition("@")[2]
    host = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    names = [name for name in path.split("/") if name not in ("", ".")]
    return "/".join([host, *names]).lower().removesuffix(".git") if host and names else ""


def _local(path: str) -> str:
    try:
        real = os.path.realpath(path)
    except ValueError:  # a NUL
        return ""
    return real.removesuffix("/.git").removesuffix(".git")


_SYSTEM = ("/proc", "/sys")
_DEVICES, _MEMORY = "/dev", "/dev/shm"  # shared memory is a file system like any other
_LINE_BYTES = 4096
_ALTERNATES_BYTES = 1 << 16
_ENTRIES = 5000  # of refs that are looked at: git reads one as a commit's id, and nothing else of it
_HOPS = 40
_RUNS_NOT = "hooks"  # git is told that they are elsewhere
_PLAIN_INDEX = (b"\0\0\0\2", b"\0\0\0\3")  # forms of the index in which every name stands whole


class Repository(NamedTuple):
    """A work tree with its git folders, each by its real path."""

    top: str
    own: str  # the work tree's own git folder
    common: str  # that of all work trees

    def holds(self, path: str) -> bool:
        return any(is_below(path, folder) for folder in (self.top, self.own, self.common))


class LeadsOut(Exception):
    """Something of a repository leads out of it. `always`: where nothing may lead."""

    def __init__(self, path: str, where: str, *, always: bool = False) -> None:
        super().__init__(path, where, always)
        self.path, self.where, self.always = path, where, always

    def __str__(self) -> str:
        return f"{self.path!r} {self.where}"


def top_of(folder: str | os.PathLike[str]) -> str | None:
    """The top of the work tree that a folder is in; None outside of git. Looks for `.git` upward, as git does."""
    return top_above(os.path.realpath(folder))


def top_above(here: str) -> str | None:
    """The same of a folder by its real path."""
    while not _is_top(here):
        above = os.path.dirname(here)
        if above == here:
            return None
        here = above
    return here


def _is_top(folder: str) -> bool:
    inner = f"{folder.rstrip('/')}/.git"
    try:
        kind = os.stat(inner).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(kind) or (stat.S_ISDIR(kind) and os.path.lexists(f"{inner}/HEAD"))


def find(top: str) -> Repository:
    """The repository with this top, wherever its folders are. Raises LeadsOut for what never passes, OSError."""
    inner = os.path.join(top, ".git")
    own = followed(inner)
    if not os.path.isdir(own):
        said = line_of(inner)
        own = followed(os.path.join(top, said.removeprefix("gitdir: "))) if said.startswith("gitdir: ") else ""
    if not own or not os.path.isdir(own):
        raise LeadsOut(inner, "is no folder of git's, and leads to none", always=True)
    shared = line_of(os.path.join(own, "commondir"))
    return Repository(top, own, followed(os.path.join(own, shared)) if shared else own)


def check(repository: Repository) -> None:
    """Raises LeadsOut for the first thing that leads out of the repository."""
    check_folders(repository)
    for folder in dict.fromkeys((repository.own, repository.common)):
        folders = [folder, *(f"{folder}/{name}" for name in ("info", "objects", "objects/info", "objects/pack"))]
        found = [entry for entry in _scanned(folders) if entry.path != f"{folder}/{_RUNS_NOT}"]
        _check_entries(repository, found + _scanned([f"{folder}/refs"], _ENTRIES))
    objects = os.path.join(repository.common, "objects")
    alternates = os.path.join(objects, "info", "alternates")
    for line in _text(alternates, _ALTERNATES_BYTES).splitlines():
        where = followed(os.path.join(objects, line)) if line and line[0] != "#" else objects
        if not repository.holds(where):
            raise LeadsOut(alternates, f"leads out, to {where!r}")


def check_folders(repository: Repository) -> None:
    """Raises LeadsOut if its git folders do not know of the work tree."""
    top, own, common = repository
    if not is_below(own, top) and not _is_named_back(repository):
        raise LeadsOut(os.path.join(top, ".git"), f"leads to {own!r}, which does not know of this folder")
    if common != own and os.path.dirname(own) != os.path.join(common, "worktrees"):
        raise LeadsOut(os.path.join(own, "commondir"), f"leads to {common!r}, which has no such work tree")


def _is_named_back(repository: Repository) -> bool:
    """Whether the git folder knows this work tree: as a linked one, or as a submodule of the one around it."""
    top, own, common = repository
    back = line_of(os.path.join(own, "gitdir"))
    if common != own and back and followed(os.path.join(own, back)) == os.path.join(top, ".git"):
        return True
    around = top_of(os.path.dirname(top))
    return around is not None and _is_module(own, around)


def _is_module(own: str, around: str) -> bool:
    """Whether a git folder lies where the repository around keeps those of its submodules."""
    try:
        outer = find(around)
        check(outer)
    except (LeadsOut, OSError):
        return False
    return any(is_below(own, os.path.join(each, "modules")) for each in (outer.own, outer.common))


# -- the main work tree ------------------------------------------------------------------------------


def nearest(folder: str | os.PathLike[str], name: str) -> str:
    """The nearest folder of this name upward, else where it is to be made: one for all work trees of a repository.

    A linked work tree has that of the same folder of the main one. It is not looked for above the top, and made there;
    outside of git it is looked for up to `/`, and made right here.
    """
    here = os.path.realpath(folder)
    if (top := top_of(here)) is not None:
        first, last = _in_main(here, top)
    else:
        first, last = _above_bare(here)
    found = next((each for each in _upward(first, last) if os.path.isdir(os.path.join(each, name))), None)
    return os.path.join(found or (here if last == "/" else last), name)


def _upward(first: str, last: str) -> Iterator[str]:
    while first != last:
        yield first
        first = os.path.dirname(first)
    yield last


def _above_bare(here: str) -> tuple[str, str]:
    """The folder that the bare repository is in which this one is, or is in; else all of them up to `/`."""
    for each in _upward(here, "/"):
        if os.path.isfile(f"{each}/HEAD") and os.path.isdir(f"{each}/objects") and os.path.isdir(f"{each}/refs"):
            return os.path.dirname(each), os.path.dirname(each)
    return here, "/"


def _in_main(here: str, top: str) -> tuple[str, str]:
    """The folder of the main work tree that this one is in its own, and the top of the main one."""
    main = top
    with suppress(LeadsOut, OSError):
        found = find(top)
        if found.common != found.own and _is_believed(found):
            main = _main_of(found)
    return os.path.normpath(os.path.join(main, os.path.relpath(here, top))), main


def _is_believed(found: Repository) -> bool:
    try:
        check_folders(found)
    except LeadsOut as error:
        from outlast.files.ask_git import is_safe

        return not error.always and is_safe(found.top)
    return True


def _main_of(found: Repository) -> str:
    """The top of the main work tree; of a bare repository, which has none, the folder that it is in."""
    above, name = os.path.split(found.common)
    if name == ".git":
        return above
    for said in _said_trees(found.common):
        with suppress(LeadsOut, OSError):
            if find(tree := followed(os.path.join(found.common, said))).own == found.common:
                return tree
    return found.top if ".git" in above.split("/") else above  # nothing is made in a folder of git's


def _said_trees(common: str) -> list[str]:
    """Where the settings of a submodule's git folder say that its work tree is."""
    text = "".join(_text(os.path.join(common, name), _ALTERNATES_BYTES) for name in ("config", "config.worktree"))
    settings = (line.partition("=") for line in text.splitlines())
    return [value.strip().strip('"') for key, _, value in settings if key.strip().lower() == "worktree"]


# -- the index ---------------------------------------------------------------------------------------


def may_track(path: str) -> bool:
    """Whether the repository that a path is in may track it: False is certain, True is for git to confirm.

    A name stands in the index as it is, unless it is of a form that shortens names or keeps them in another file.
    """
    top = top_of(os.path.dirname(path))
    if top is None:
        return False
    try:
        with open(os.path.join(find(top).own, "index"), "rb", opener=_plainly) as file:
            index = file.read()
    except FileNotFoundError:
        return False
    except (LeadsOut, OSError):
        return True
    is_plain = index[:4] == b"DIRC" and index[4:8] in _PLAIN_INDEX and b"link\0" not in index
    return not is_plain or os.fsencode(os.path.basename(path)) in index


def _plainly(path: str, flags: int) -> int:
    """Opens a file without waiting for one that is a pipe. Raises OSError for whatever is no plain file."""
    handle = os.open(path, flags | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(0, "it is no plain file")
    return handle


# -- links -------------------------------------------------------------------------------------------


def _scanned(folders: list[str], deep: int = 0) -> list[os.DirEntry[str]]:
    """What is in the folders, and in those in them until it is so much; nothing for one that cannot be read."""
    found: list[os.DirEntry[str]] = []
    for folder in folders:  # more of them come
        if deep and len(found) >= deep:
            break
        before = len(found)
        with suppress(OSError), os.scandir(folder) as entries:
            found += entries
        if deep:
            folders += [entry.path for entry in found[before:] if entry.is_dir(follow_symlinks=False)]
    return found


def _check_entries(repository: Repository, entries: Iterable[os.DirEntry[str]]) -> None:
    for entry in entries:
        if entry.is_symlink():
            where = followed(entry.path)
            if not repository.holds(where):
                raise LeadsOut(entry.path, f"leads out, to {where!r}")
            _check_kind(entry.path, where)
        elif not entry.is_file(follow_symlinks=False) and not entry.is_dir(follow_symlinks=False):
            _check_kind(entry.path, entry.path)


def _check_kind(path: str, where: str) -> None:
    """Nothing that keeps who opens it waiting. A socket cannot be opened, and git itself makes one."""
    with suppress(FileNotFoundError):
        kind = os.lstat(where).st_mode
        if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind) or stat.S_ISSOCK(kind)):
            raise LeadsOut(path, "is a pipe or a device", always=True)


def followed(path: str) -> str:
    """Where a path leads in the end, link by link. Raises LeadsOut if one of them leads into the system's own files."""
    done, left, hops = "/", [*reversed(path.split("/"))], 0
    while left:
        name = left.pop()
        done, here = (os.path.dirname(done), "") if name == ".." else (done, name if name != "." else "")
        if not here:
            continue
        done = os.path.join(done, here)
        if _is_of_system(done) or hops > _HOPS:
            raise LeadsOut(path, f"leads to {done!r}", always=True)
        with suppress(OSError):  # no link, or nothing at all
            to = os.readlink(done)
            done, hops = "/" if to.startswith("/") else os.path.dirname(done), hops + 1
            left.extend(reversed(to.split("/")))
    return done


def _is_of_system(path: str) -> bool:
    return path in _SYSTEM or (os.path.dirname(path) == _DEVICES and path != _MEMORY)


def is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


# -- reading -----------------------------------------------------------------------------------------


def line_of(path: str) -> str:
    """The one line of a plain file of git's; "" for whatever is none, links among them."""
    return _text(path, _LINE_BYTES).strip("\n\r ")


def _text(path: str, limit: int) -> str:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return ""
    try:
        return os.fsdecode(os.read(handle, limit)) if stat.S_ISREG(os.fstat(handle).st_mode) else ""
    except OSError:
        return ""
    finally:
        os.close(handle)
