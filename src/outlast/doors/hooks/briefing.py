"""A briefing: what the next session will be told, prepared when something was stored, so that its start is quick.

It is used only while everything that its verdict rests on is byte for byte as it was: the ledger's files, what git says
of the work tree, the content of every file that was looked at, and the time. Whatever differs, is doubtful or cannot be
seen at a glance makes the start look everything up anew; a briefing never decides anything itself.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator
from typing import Any

from outlast import __version__
from outlast.doors.hooks import sessions, spool
from outlast.doors.hooks.events import HookEvent
from outlast.doors.hooks.place import Place, is_found
from outlast.values.plain import open_plain

FOLDER = ".hooks/briefings"
MOST_BYTES = 20 << 20  # of content that is read at a start
MOST_FILES = 300
GIT_SECONDS = 2.0

_DATABASE = "default/outlast.db"
# As `files/git.py` asks: no lock is taken, and nothing runs that the repository's own settings name.
_QUIET = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "safe.bareRepository=explicit",
    "diff.autoRefreshIndex=false",
)
_STATUS = (
    *("status", "--porcelain=v2", "--branch", "-z", "--untracked-files=normal", "--no-renames", "--no-ahead-behind"),
    *("--ignored=no", "--ignore-submodules=dirty"),
)
_ASKING = {
    "LC_ALL": "C",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
}
_STAYS = ("GIT_EXEC_PATH", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")


def ready(event: HookEvent, place: Place, anchor: str) -> str | None:
    """What the session is told, "" when nothing was ever stored; None when it has to be looked up."""
    home = place.home
    if spool.waiting(home) or any(_others(home, event, anchor)):
        return None
    if not os.path.exists(os.path.join(home, _DATABASE)):
        return ""
    return holding(place, anchor)


def holding(place: Place, anchor: str) -> str | None:
    """What was prepared, if everything is still as it was then."""
    kept = _read(place.home, anchor, place.top)
    if kept is None or time.time_ns() // 1000 >= kept["until"]:
        return None
    text: str = kept["text"]
    return text if _are_facts(place, kept["looked"], *kept["facts"]) else None


def _others(home: str, event: HookEvent, anchor: str) -> Iterator[bool]:
    """Every session that the answer would speak of, or that left something to be stored."""
    for each in sessions.of_anchor(home, anchor):
        yield each.event.session != event.session or each.event.agent != event.agent


def _read(home: str, anchor: str, top: str) -> dict[str, Any] | None:
    try:
        with open_plain(path_of(home, anchor, top)) as file:
            kept = json.loads(file.read())
    except (OSError, ValueError, RecursionError):
        return None
    fits = isinstance(kept, dict) and [kept.get(each) for each in ("version", "anchor", "top")] == [
        __version__,
        anchor,
        top,
    ]
    return kept if fits else None


def write(place: Place, anchor: str, kept: dict[str, Any]) -> None:
    """Keep a briefing. Raises OSError."""
    os.makedirs(os.path.join(place.home, FOLDER), 0o700, exist_ok=True)
    path = path_of(place.home, anchor, place.top)
    beside = f"{path}.{os.getpid()}"
    with open(beside, "wb") as file:
        file.write(json.dumps({"version": __version__, "anchor": anchor, "top": place.top, **kept}).encode())
    os.replace(beside, path)


def path_of(home: str, anchor: str, top: str) -> str:
    from zlib import crc32

    names = [each.encode("utf-8", "surrogateescape") for each in (anchor, top)]
    return os.path.join(home, FOLDER, f"{crc32(names[0]):08x}{crc32(names[1]):08x}.json")


# -- what it rests on --------------------------------------------------------------------------------


def facts(place: Place, looked: Iterable[str]) -> list[Any] | None:
    """Everything that a verdict on these files rests on, as JSON has it; None when that cannot be seen at a glance."""
    ledger, status = ledger_of(place.home), _status(place)
    if status is None:
        return None
    contents = _contents(looked)
    return None if contents is None else [ledger, status, contents, is_found(place)]


def _are_facts(place: Place, looked: Iterable[str], ledger: Any, status: Any, contents: Any, found: Any) -> bool:
    """Whether they still hold. Git is asked last, as that takes longest."""
    is_same = [ledger_of(place.home), is_found(place)] == [ledger, found] and [_contents(looked)] == [contents]
    return is_same and [_status(place)] == [status]


def ledger_of(home: str) -> list[list[int]]:
    """The ledger's files, as far as every write changes them. An empty log is none: whoever opens it makes one."""
    found = []
    for name in (_DATABASE, f"{_DATABASE}-wal"):
        try:
            seen = os.stat(os.path.join(home, name))
        except OSError:
            continue
        if seen.st_size:
            found.append([seen.st_ino, seen.st_size, seen.st_mtime_ns])
    return found


def _contents(paths: Iterable[str]) -> list[str] | None:
    left, found = MOST_BYTES, []
    for path in paths:
        word, size = _content(path)
        left -= size
        if word is None or left < 0:
            return None
        found.append(word)
    return found


def _content(path: str) -> tuple[str | None, int]:
    """A file in a word, and its size."""
    import stat
    from hashlib import sha256

    try:
        seen = os.lstat(path)
        if stat.S_ISLNK(seen.st_mode):
            return f"link {os.readlink(path)}", 0
        if not stat.S_ISREG(seen.st_mode) or seen.st_size > MOST_BYTES:
            return None, 0
        with open_plain(path) as file:
            content = file.read(MOST_BYTES)
    except FileNotFoundError:
        return "absent", 0
    except OSError:
        return None, 0
    return f"{seen.st_mode & 0o100} {sha256(content).hexdigest()}", len(content)


def _status(place: Place) -> str | None:
    """What git says of the work tree; None when it cannot tell, or would run what the repository's settings name."""
    if not place.git:
        return ""
    program = next((path for path in _programs() if os.access(path, os.X_OK)), None)
    if program is None or _may_filter(place):
        return None
    words = [program, "--no-pager", "-C", place.top, *(word for each in _QUIET for word in ("-c", each)), *_STATUS]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name in _STAYS}
    return _said(words, kept | _ASKING | {"GIT_CEILING_DIRECTORIES": os.path.dirname(place.top)})


def _programs() -> Iterator[str]:
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        if os.path.isabs(folder):  # a PATH with `.` in it must not find one in the repository
            yield os.path.join(folder, "git")


def _may_filter(place: Place) -> bool:
    """Whether the repository's own settings leave room for a filter. Those that cannot be read do."""
    from outlast.doors.hooks.place import shared_git

    for path in (os.path.join(shared_git(place.git), "config"), os.path.join(place.git, "config.worktree")):
        try:
            with open(path, "rb") as file:
                text = file.read(1 << 20).lower()
        except FileNotFoundError:
            continue
        except OSError:
            return True
        if b"filter" in text or b"include" in text or len(text) >= 1 << 20:
            return True
    return False


def _said(words: list[str], environment: dict[str, str]) -> str | None:
    """A digest of what a program prints; None when it fails or takes too long."""
    from hashlib import sha256

    ours, theirs = os.pipe()
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, theirs, 1),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ]
    try:
        child = os.posix_spawn(words[0], words, environment, file_actions=actions)
    except OSError:
        os.close(ours)
        return None
    finally:
        os.close(theirs)
    said = _until_closed(ours)
    if said is None:
        os.kill(child, 9)
    return sha256(said).hexdigest() if os.waitpid(child, 0)[1] == 0 and said is not None else None


def _until_closed(handle: int) -> bytes | None:
    from select import select

    deadline = time.monotonic() + GIT_SECONDS
    parts: list[bytes] = []
    try:
        while select([handle], [], [], max(0.0, deadline - time.monotonic()))[0]:
            part = os.read(handle, 1 << 16)
            if not part:
                return b"".join(parts)
            parts.append(part)
        return None
    finally:
        os.close(handle)
