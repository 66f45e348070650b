"""The spool: events that are noted durably and not stored yet, in the home.

A hook adds its event and starts a process of its own that takes all of them in, one such process at a time. Should
that one die, the next does it, or the next start.

`hooks.log` in the home: what a hook could not do, a line each. It stays small, and says nothing of the session.

Sessions that began and have not ended are one small file each, in the home. A session whose agent is gone and whose
file is still there left no end. That is all these files are for; they are no part of the ledger, and losing one loses
nothing that was stored.

What a client says on stdin when it calls a hook is one value here, and what it may be answered. The three clients say
nearly the same things under different names; only the fields that are needed are taken.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Literal, NamedTuple

from outlast.values.private import make_folder, open_file, open_plain, read_plain, write_file

# -- what a client says --------------------------------------------------------------------------------


Client = Literal["claude", "codex", "cursor"]
Kind = Literal["start", "stop", "compact", "end"]
CLIENTS: tuple[Client, ...] = ("claude", "codex", "cursor")
KINDS: tuple[Kind, ...] = ("start", "stop", "compact", "end")
CLIENT_NAMES: dict[Client, str] = {"claude": "Claude Code", "codex": "Codex", "cursor": "Cursor"}
LONGEST = 4096  # of a text that is taken over: ids, paths and single words

# The clients' own names of the events that are used. Any other event is none of ours.
_CLAUDE: dict[str, Kind] = {"SessionStart": "start", "Stop": "stop", "PreCompact": "compact", "SessionEnd": "end"}
NAMES: dict[Client, dict[str, Kind]] = {
    "claude": _CLAUDE,
    "codex": _CLAUDE | {"agent-turn-complete": "stop"},  # what the older `notify` program is given
    "cursor": {"sessionStart": "start", "stop": "stop", "preCompact": "compact", "sessionEnd": "end"},
}


class HookEvent(NamedTuple):
    """Something that happened to a session."""

    client: Client
    kind: Kind
    session: str = ""
    cwd: str = ""
    transcript: str = ""
    why: str = ""  # the start's source, the compaction's trigger, the end's reason
    task: str = ""  # of OUTLAST_TASK
    at: int = 0  # microseconds
    agent: tuple[str, ...] = ()  # the agent's process, as `agent` finds it

    @property
    def name(self) -> str:
        """The session, in short."""
        return f"{self.client} {self.session[:13]}".strip()

    def anchor_on(self, branch: str) -> str:
        """The name under which the work is handed over: the task's, else the branch's; "" when there is neither."""
        if self.task:
            return f"task:{self.task}"
        return f"branch:{branch}" if branch else ""


class NotAnEvent(ValueError):
    """What came on stdin is nothing that a client says."""


def parse(client: Client, kind: Kind, raw: bytes) -> HookEvent | None:
    """The event that a client tells of; None for one that is none of ours. Raises NotAnEvent.

    The event's own name wins over the word of the command line: a line in a settings file may be in the wrong place.
    """
    said = _object(raw)
    named = said.get("hook_event_name", said.get("type"))
    if named is not None:
        known = NAMES[client].get(named) if isinstance(named, str) else None
        if known is None:
            return None
        kind = known
    roots = said.get("workspace_roots")
    return HookEvent(
        client,
        kind,
        session=_text(said, "session_id", "conversation_id", "thread-id"),
        cwd=_text(said, "cwd") or next(filter(_usable, roots if isinstance(roots, list) else ()), ""),
        transcript=_text(said, "transcript_path"),
        why=_text(said, "source", "trigger", "reason", "status"),
    )


def _object(raw: bytes) -> dict[str, Any]:
    if not raw.strip():
        return {}
    try:
        said = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise NotAnEvent(f"what came on stdin is no JSON ({len(raw)} bytes)") from error
    if not isinstance(said, dict):
        raise NotAnEvent(f"what came on stdin is a {type(said).__name__}, and no object")
    return said


def _text(said: dict[str, Any], *names: str) -> str:
    """The first of these fields that is a usable text."""
    return next((said[name] for name in names if _usable(said.get(name))), "")


def _usable(value: Any) -> bool:
    try:
        return isinstance(value, str) and 0 < len(value) <= LONGEST and "\0" not in value and bool(value.encode())
    except UnicodeEncodeError:  # half of a surrogate pair
        return False


def answer(client: Client, kind: Kind, text: str = "") -> bytes:
    """What the client is to read on stdout: context for a session that starts, else nothing that means anything."""
    if client == "cursor":
        return _line({"additional_context": text} if kind == "start" and text else {})
    if kind != "start" or not text:
        return b""
    return _line({"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": text}})


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode() + b"\n"


# -- as the spool keeps it ---------------------------------------------------------------------------


def _event_of(said: dict[str, Any]) -> HookEvent:
    return HookEvent(**{**said, "agent": tuple(said.get("agent", ()))})


def pack(event: HookEvent) -> bytes:
    return json.dumps(event._asdict()).encode()


def unpack(raw: bytes) -> HookEvent:
    """Raises NotAnEvent for what no hook wrote."""
    try:
        event = _event_of(_object(raw))
    except TypeError as error:
        raise NotAnEvent("it has other fields than an event") from error
    if event.client not in CLIENTS or event.kind not in KINDS or not isinstance(event.at, int):
        raise NotAnEvent("it is of no client or kind")
    return event


# -- the spool ---------------------------------------------------------------------------------------

FOLDER = ".hooks/spool"
LOCK = ".hooks/lock"
MOST = 1000  # events that wait; more are refused, since something is wrong then
ATTEMPTS = 3


class SpoolFull(NotAnEvent):
    """More events wait than anybody takes in."""


def add(home: str, event: HookEvent) -> str:
    """Note an event: on disk when this returns. Gives its name. Raises OSError, SpoolFull."""
    folder = os.path.join(home, FOLDER)
    make_folder(folder)
    if len(os.listdir(folder)) >= MOST:
        raise SpoolFull(f"{MOST} events wait in {folder} and nobody takes them in; try `outlast hook drain`")
    name = f"{time.time_ns():020d}-{os.getpid()}"
    path = os.path.join(folder, name)
    handle = open_file(path, os.O_WRONLY | os.O_EXCL)
    try:
        os.write(handle, pack(event))
        os.fsync(handle)
    finally:
        os.close(handle)
    os.rename(path, f"{path}.0.json")
    _sync(folder)
    return f"{name}.0.json"


def _sync(folder: str) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def waiting(home: str) -> list[str]:
    """The names of the events that wait, oldest first."""
    try:
        return sorted(name for name in os.listdir(os.path.join(home, FOLDER)) if name.endswith(".json"))
    except OSError:
        return []


def read(home: str, name: str) -> HookEvent:
    """Raises OSError, NotAnEvent."""
    return unpack(read_plain(os.path.join(home, FOLDER, name), 1 << 16))


def done(home: str, name: str) -> None:
    """It is stored, or there was nothing to store."""
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(home, FOLDER, name))


def failed(home: str, name: str) -> bool:
    """It could not be stored now. Whether it is given up: it was tried often enough. Raises OSError."""
    stem, _, rest = name.partition(".")
    tried = int(rest.partition(".")[0]) + 1 if rest[:1].isdigit() else ATTEMPTS
    if tried >= ATTEMPTS:
        done(home, name)
        return True
    folder = os.path.join(home, FOLDER)
    os.rename(os.path.join(folder, name), os.path.join(folder, f"{stem}.{tried}.json"))
    return False


@contextmanager
def alone(home: str, seconds: float) -> Iterator[bool]:
    """Be the only one who takes events in. Gives whether that was granted in time. Raises OSError."""
    make_folder(os.path.join(home, os.path.dirname(LOCK)))
    handle = open_file(os.path.join(home, LOCK), os.O_RDWR)
    try:
        yield _locked(handle, time.monotonic() + seconds)
    finally:
        os.close(handle)  # and with it the lock


def _locked(handle: int, deadline: float) -> bool:
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.01)


def start_storing(home: str) -> None:
    """Start the process that takes the events in. It is in a session of its own and outlives the agent.

    Raises OSError.
    """
    # nothing is imported from where the agent works
    words = [sys.executable, "-P", "-m", "outlast.doors.hooks.leave", home]
    nothing = os.devnull
    os.posix_spawn(
        sys.executable,
        words,
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, nothing, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, nothing, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, nothing, os.O_WRONLY, 0),
        ],
        setsid=True,
    )


LOG = "hooks.log"
MOST_BYTES = 64 << 10


def note(home: str, words: str) -> None:
    """Add a line. Where that cannot be done there is nobody to tell."""
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    line = f"{at} {' '.join(words.split())[:500]}\n".encode("utf-8", "backslashreplace")
    path = os.path.join(home, LOG)
    try:
        _make_room(path)
        handle = open_file(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            os.write(handle, line)
        finally:
            os.close(handle)
    except OSError:
        return


def _make_room(path: str) -> None:
    """Keep the newer half of a log that is full."""
    if not os.path.isfile(path) or os.path.getsize(path) < MOST_BYTES:
        return
    with open_plain(path) as file:
        file.seek(-MOST_BYTES // 2, os.SEEK_END)
        kept = file.read().partition(b"\n")[2]
    beside = f"{path}.{os.getpid()}"
    write_file(beside, kept)
    os.replace(beside, path)


def words_of(error: BaseException) -> str:
    """An error as the log has it. What others' errors quote is left out: it may be a line of the session."""
    code = getattr(error, "code", None)
    if isinstance(code, str):
        return f"{code}: {getattr(error, 'detail', '')}"
    if isinstance(error, OSError):
        return f"{type(error).__name__}: {error.strerror or error.errno}"
    own = type(error).__module__.startswith("outlast.")
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f" at {os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}" if trace else ""
    return f"{type(error).__name__}: {error}" if own else f"{type(error).__name__}{where}"


# -- sessions that have not ended ----------------------------------------------------------------------

SESSIONS = ".hooks/sessions"
MOST_SESSIONS = 1000  # files that are looked at
SILENT_SECONDS = 600  # after which a session is over whose process cannot be looked at
_SHELLS = {"sh", "bash", "dash", "zsh", "fish", "ksh", "ash", "busybox", "env", "timeout"}


class HookSession(NamedTuple):
    """A session as it was last heard of."""

    event: HookEvent
    anchor: str = ""
    top: str = ""
    stored: str = ""  # the signature of what was stored of it last
    began: int = 0  # microseconds


def file_of(event: HookEvent) -> str:
    """The name of a session's file: its id may be any text."""
    from zlib import crc32

    plain = "".join(each for each in event.session if each.isalnum() or each in "-_")[:80]
    return f"{event.client}-{plain}-{crc32(event.session.encode('utf-8', 'replace')):08x}.json"


def write_session(home: str, session: HookSession) -> None:
    """Remember it, whole or not at all. Raises OSError."""
    folder = os.path.join(home, SESSIONS)
    make_folder(folder)
    path = os.path.join(folder, file_of(session.event))
    beside = f"{path}.{os.getpid()}"
    said: dict[str, Any] = {**session._asdict(), "event": session.event._asdict()}
    write_file(beside, json.dumps(said).encode())
    os.replace(beside, path)


def session_again(home: str, event: HookEvent, anchor: str, top: str) -> HookSession:
    """The session as it is from this event on."""
    before = known_session(home, event)
    if before is None or before.anchor != anchor:
        return HookSession(event, anchor, top, began=event.at)
    return before._replace(event=event, top=top)


def forget_session(home: str, event: HookEvent) -> None:
    """It has ended, or what it left is stored."""
    with suppress(OSError):
        os.unlink(os.path.join(home, SESSIONS, file_of(event)))


def known_session(home: str, event: HookEvent) -> HookSession | None:
    """What is remembered of the session of an event."""
    return _read_session(os.path.join(home, SESSIONS, file_of(event)))


def sessions_of(home: str, anchor: str) -> Iterator[HookSession]:
    """The sessions under an anchor that have not ended."""
    return (each for each in all_sessions(home) if each.anchor == anchor)


def all_sessions(home: str) -> Iterator[HookSession]:
    """All sessions that have not ended."""
    try:
        names = sorted(os.listdir(os.path.join(home, SESSIONS)))
    except OSError:
        return
    for name in names[:MOST_SESSIONS]:
        found = _read_session(os.path.join(home, SESSIONS, name)) if name.endswith(".json") else None
        if found is not None:
            yield found


def _read_session(path: str) -> HookSession | None:
    try:
        said = json.loads(read_plain(path, 1 << 16))
        event = _event_of(said["event"])
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
