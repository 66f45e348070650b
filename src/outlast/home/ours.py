"""Whose home is it: one that was named is ours by that word; one that was found must show it.

Found upward from where somebody works, a home may be a stranger's: part of a clone, a link, another user's. It is ours
if it belongs to us, is no link, git does not track it, and this user made it or has used it before, at that very place;
the user's own folder remembers that. One that is not known yet is adopted by a command, never by a hook.
What was stored in an adopted home before is not ours by that (`handoffs/foreign.py`).

The user's own folder: what he agreed to, whom he trusts, which homes he made. It is never part of a home.

Plain text, one fact a line, only ever added to. A line that is not of the form that is looked for says nothing, and a
file that somebody else could have written is not read. Hooks read it at every event, so little is imported.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable

from outlast.files import repository
from outlast.values.private import open_file

HOMES = "homes"  # `made ID PATH` or `adopted ID PATH`
AGREED = "agreed"  # the digest of commands that may run here
STORED = "stored"  # the digest of commands that this user handed over himself, from this machine
CONFIG = "config.yaml"  # written by hand: `trust: [actor, actor@https://server]`
_MOST_BYTES, _MOST_LINES = 4 << 20, 10_000  # of one file; a line of a usual home has a hundred bytes
_QUIETLY = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0)  # a pipe of that name holds nobody up


def folder() -> str:
    """XDG_CONFIG_HOME/outlast, else ~/.config/outlast; "" when there is neither. Only whole paths count."""
    above = os.environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(above):
        above = os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(above, "outlast") if os.path.isabs(above) else ""


def own_uids() -> frozenset[int]:
    """Whose files are ours: our own and, as root, those of who called sudo."""
    own = os.geteuid()
    caller = os.environ.get("SUDO_UID", "")
    return frozenset({own, int(caller)} if own == 0 and caller.isascii() and caller.isdigit() else {own})


def lines(name: str) -> list[bytes]:
    """The lines of a file of ours; none when there is no such file, or somebody else could have written it."""
    return read(name).split(b"\n")


def read(name: str) -> bytes:
    """The content of a file in the user's own folder, empty where there is none to believe."""
    return content_of(os.path.join(folder(), name), own_uids())


def content_of(path: str, owners: frozenset[int]) -> bytes:
    """The content of a file, empty where there is none, or somebody else than these, or root, could have written it."""
    try:
        handle = os.open(path, _QUIETLY)
    except (OSError, ValueError):
        return b""
    try:
        return _content(handle, owners)
    except OSError:
        return b""
    finally:
        os.close(handle)


def _content(handle: int, owners: frozenset[int]) -> bytes:
    found = os.fstat(handle)
    is_ours = found.st_uid in owners | {0} and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if not stat.S_ISREG(found.st_mode) or not is_ours or found.st_size > _MOST_BYTES:
        return b""
    return os.read(handle, _MOST_BYTES)


def add(name: str, line: bytes) -> str:
    """Add a line, once; "" or why it cannot be kept. Nobody else can read or write the file."""
    known = lines(name)
    if line in known:
        return ""
    place = folder()
    if not place:
        return "there is no folder for it: neither HOME nor XDG_CONFIG_HOME is set"
    try:
        os.makedirs(place, 0o700, exist_ok=True)
        if len(known) > _MOST_LINES:
            _make_room(os.path.join(place, name), known)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0)
        _append(place, os.open(os.path.join(place, name), flags, 0o600), line)
    except OSError as error:
        return f"{place} cannot be written ({error.strerror})"
    return "" if line in lines(name) else f"{os.path.join(place, name)} is not yours, or others may write it"


def _make_room(path: str, known: list[bytes]) -> None:
    """Keep the newer half of a file that is full; of homes, first of all those that are still there."""
    there = [line for line in known if not line.count(b" ") or os.path.lexists(path_in(line))]
    kept = there if len(there) < len(known) // 2 else there[len(there) // 2 :]
    beside = f"{path}.{os.getpid()}"
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(handle, b"\n".join(filter(None, kept)) + b"\n")
    finally:
        os.close(handle)
    os.replace(beside, path)


def path_in(line: bytes) -> bytes:
    """The place that a line about a home names."""
    return line.split(b" ", 2)[-1].replace(b"%0A", b"\n").replace(b"%25", b"%")


def _append(place: str, handle: int, line: bytes) -> None:
    try:
        found, above = os.fstat(handle), os.stat(place)
        if os.geteuid() == 0 and found.st_uid != above.st_uid:  # by sudo: it stays the user's
            os.fchown(handle, above.st_uid, above.st_gid)
        os.write(handle, b"\n" + line + b"\n")  # whatever stands before it: a line of its own, in one write
    finally:
        os.close(handle)


def trusted() -> frozenset[str]:
    """The actors that the user trusts, by `trust:` in his config. Raises TrustInvalid for one that says it wrongly."""
    raw = read(CONFIG)
    if not raw.strip():
        return frozenset()
    import yaml

    from outlast.errors import TrustInvalid

    path = os.path.join(folder(), CONFIG)
    try:
        said = yaml.safe_load(raw)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise TrustInvalid(path, f"it is no YAML ({type(error).__name__})") from error
    names = said.get("trust", []) if isinstance(said, dict) else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise TrustInvalid(path, "`trust` is no list of actors")
    return frozenset(names)


ID = ".id"
_ID = rb"[0-9a-f]{32}"
_LEFT_BY_MAKING = {ID, ".gitignore"}


def wrong_with(home: str) -> str:
    """Why a folder cannot be a home of ours, as far as that shows at a glance; "" when nothing speaks against it."""
    try:
        found = os.lstat(home)
    except OSError:
        return ""  # there is none yet
    if stat.S_ISLNK(found.st_mode):
        return "it is a link"
    if found.st_uid not in own_uids():
        return f"it belongs to another user ({_name_of(found.st_uid)})"
    return ""


def known_as(home: str) -> str:
    """How this user knows the home that is at this place: `made`, `adopted`, or "" when it does not."""
    marked = id_of(home)
    if not marked:
        return ""
    known = lines(HOMES)
    return next((how for how in ("made", "adopted") if _line(how, marked, home) in known), "")


def why_not(home: str) -> str:
    """Why a hook uses nothing of a home that it found; "" when it is ours. Nothing is adopted."""
    if wrong := wrong_with(home):
        return wrong
    if known_as(home):  # a pull puts tracked files over its own without a word, since git ignores what is in it
        return _tracked(home) if repository.may_track(home) else ""
    return "this user has not used it before (`outlast runs` there makes it known)"


def check_found(home: str, tell: Callable[[str], None] | None) -> bool:
    """Whether a home that was found was not made here, though it is ours now. Raises HomeNotOurs.

    One that is not known yet is adopted, and whoever listens is told so; if nobody does, it is refused.
    """
    from outlast.errors import HomeNotOurs

    if wrong := wrong_with(home):
        raise HomeNotOurs(home, wrong)
    if not os.path.isdir(home):
        return False
    is_known = bool(known_as(home))
    wrong = why_not(home) if is_known or tell is None else _tracked(home)
    if wrong:
        raise HomeNotOurs(home, wrong)
    return known_as(home) == "adopted" if is_known or tell is None else _adopt(home, tell)


def _adopt(home: str, tell: Callable[[str], None]) -> bool:
    """Whether it holds anything that somebody else may have recorded."""
    if _is_new(home):
        remember(home, "made")
        return False
    if known_as(home) == "made":  # by another process, just now
        return False
    why = remember(home, "adopted")
    kept = f"that cannot be remembered: {why}" if why else "that is remembered"
    tell(f"the home {home} was not made here, and is used from now on; {kept}")
    return True


def remember(home: str, how: str) -> str:
    """Note in the user's own folder that a home is ours, and how; "" or why that cannot be kept."""
    try:
        marked = id_of(home) or _mark(home)
    except OSError as error:
        return f"its id cannot be written ({error.strerror})"
    return add(HOMES, _line(how, marked, home))


def id_of(home: str) -> bytes:
    """What a home is known by; empty when it has no id."""
    try:
        handle = os.open(os.path.join(home, ID), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        found = os.read(handle, 64).strip() if stat.S_ISREG(os.fstat(handle).st_mode) else b""
    except OSError:
        found = b""
    finally:
        os.close(handle)
    return found if re.fullmatch(_ID, found) else b""


def _mark(home: str) -> bytes:
    """Give a home its id; of several who do so at the same time the first one wins. Raises OSError."""
    marked = os.urandom(16).hex().encode()
    beside = os.path.join(home, f"{ID}.{marked[:8].decode()}")
    handle = open_file(beside, os.O_WRONLY | os.O_EXCL)
    try:
        os.write(handle, marked + b"\n")
    finally:
        os.close(handle)
    try:
        os.link(beside, os.path.join(home, ID))
    except FileExistsError:
        marked = id_of(home)
    finally:
        os.unlink(beside)
    if not marked:
        raise OSError(0, "what is there is no id")
    return marked


def _line(how: str, marked: bytes, home: str) -> bytes:
    place = os.path.join(os.path.realpath(os.path.dirname(home)), os.path.basename(home))
    return b" ".join((how.encode(), marked, os.fsencode(place).replace(b"%", b"%25").replace(b"\n", b"%0A")))


def _is_new(home: str) -> bool:
    """Whether nothing is in it that anybody could have recorded."""
    try:
        return set(os.listdir(home)) <= _LEFT_BY_MAKING
    except OSError:
        return False


def _tracked(home: str) -> str:
    """Why git speaks against a home; "" when it is outside of git, or git does not know it."""
    from outlast.files import git

    if os.path.lexists(os.path.join(home, ".git")):
        return "it is a repository of its own"
    tracks = git.tracks(home)
    if tracks is None:
        return "it is in a git repository, and git cannot say whether it came with that"
    return "git tracks it: it came with the repository" if tracks else ""


def _name_of(uid: int) -> str:
    try:
        import pwd

        return pwd.getpwuid(uid).pw_name
    except (ImportError, KeyError):
        return f"uid {uid}"
