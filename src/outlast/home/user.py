"""The user's own folder: what he agreed to, whom he trusts, which homes he made. It is never part of a home.

Plain text, one fact a line, only ever added to. A line that is not of the form that is looked for says nothing, and a
file that somebody else could have written is not read. Hooks read it at every event, so little is imported.
"""

from __future__ import annotations

import os
import stat

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
    """The content of a file of ours, empty where there is none to believe."""
    try:
        handle = os.open(os.path.join(folder(), name), _QUIETLY)
    except (OSError, ValueError):
        return b""
    try:
        return _content(handle)
    except OSError:
        return b""
    finally:
        os.close(handle)


def _content(handle: int) -> bytes:
    found = os.fstat(handle)
    is_ours = found.st_uid in own_uids() | {0} and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
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
