"""Sessions that began and have not ended: one small file each, in the home.

A session whose agent is gone and whose file is still there left no end. That is all these files are for; they are no
part of the ledger, and losing one loses nothing that was stored.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from outlast.doors.hooks.spool import CLIENTS, HookEvent
from outlast.values.private import make_folder, read_plain, write_file

FOLDER = ".hooks/sessions"
MOST = 1000  # files that are looked at
SILENT_SECONDS = 600  # after which a session is over whose process cannot be looked at
_SHELLS = {"sh", "bash", "dash", "zsh", "fish", "ksh", "ash", "busybox", "env", "timeout"}


class HookSession(NamedTuple):
    """A session as it was last heard of."""

    event: HookEvent
    anchor: str = ""
    top: str = ""
    stored: str = ""  # the signature of what was stored of it last
    began: int = 0  # microseconds

    @property
    def file(self) -> str:
        return file_of(self.event)


def file_of(event: HookEvent) -> str:
    """The name of a session's file: its id may be any text."""
    from zlib import crc32

    plain = "".join(each for each in event.session if each.isalnum() or each in "-_")[:80]
    return f"{event.client}-{plain}-{crc32(event.session.encode('utf-8', 'replace')):08x}.json"


def write(home: str, session: HookSession) -> None:
    """Remember it, whole or not at all. Raises OSError."""
    folder = os.path.join(home, FOLDER)
    make_folder(folder)
    path = os.path.join(folder, session.file)
    beside = f"{path}.{os.getpid()}"
    said: dict[str, Any] = {**session._asdict(), "event": session.event._asdict()}
    write_file(beside, json.dumps(said).encode())
    os.replace(beside, path)


def again(home: str, event: HookEvent, anchor: str, top: str) -> HookSession:
    """The session as it is from this event on."""
    before = known(home, event)
    if before is None or before.anchor != anchor:
        return HookSession(event, anchor, top, began=event.at)
    return before._replace(event=event, top=top)


def forget(home: str, event: HookEvent) -> None:
    """It has ended, or what it left is stored."""
    try:
        os.unlink(os.path.join(home, FOLDER, file_of(event)))
    except OSError:
        return


def known(home: str, event: HookEvent) -> HookSession | None:
    """What is remembered of the session of an event."""
    return _read(os.path.join(home, FOLDER, file_of(event)))


def of_anchor(home: str, anchor: str) -> Iterator[HookSession]:
    """The sessions under an anchor that have not ended."""
    return (each for each in all_of(home) if each.anchor == anchor)


def all_of(home: str) -> Iterator[HookSession]:
    """All sessions that have not ended."""
    try:
        names = sorted(os.listdir(os.path.join(home, FOLDER)))
    except OSError:
        return
    for name in names[:MOST]:
        found = _read(os.path.join(home, FOLDER, name)) if name.endswith(".json") else None
        if found is not None:
            yield found


def _read(path: str) -> HookSession | None:
    try:
        said = json.loads(read_plain(path, 1 << 16))
        event = HookEvent(**{**said["event"], "agent": tuple(said["event"].get("agent", ()))})
        found = HookSession(**{**said, "event": event})
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return found if event.client in CLIENTS else None


# -- who runs it -------------------------------------------------------------------------------------


def agent() -> tuple[str, ...]:
    """The process that called the hook: our first ancestor that is no shell, as host, boot, pid space, pid, start."""
    pid, seen = os.getppid(), _stat(os.getppid())
    while seen is not None and seen[0] in _SHELLS and seen[1] > 1:
        pid, seen = seen[1], _stat(seen[1])
    return (*_where(), str(pid), str(seen[2])) if seen is not None and pid > 1 else ()


def is_over(session: HookSession, now: int) -> bool:
    """Whether nobody runs it any more. Where its process cannot be looked at, silence decides."""
    who = session.event.agent
    if len(who) == 5 and who[:3] == _where() and who[3].isdigit():
        seen = _stat(int(who[3]))
        return seen is None or str(seen[2]) != who[4]
    return now - max(session.event.at, _touched(session.event.transcript)) > SILENT_SECONDS * 1_000_000


def _where() -> tuple[str, str, str]:
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read().strip()
        return os.uname().nodename, boot, os.readlink("/proc/self/ns/pid")
    except OSError:
        return os.uname().nodename, "", ""


def _stat(pid: int) -> tuple[str, int, int] | None:
    """A living process: its name, its parent, its start; None when it is gone or only waits to be reaped."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            before, _, after = os.fsdecode(file.read()).rpartition(")")
    except OSError:
        return None
    fields = after.split()
    return None if not fields or fields[0] in "ZX" else (before.partition("(")[2], int(fields[1]), int(fields[19]))


def _touched(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns // 1000
    except (OSError, ValueError):
        return 0
