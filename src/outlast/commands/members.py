"""The living processes of a command: finding them, seeing their leader's end, ending them all.

They are the members of its session, in whatever process groups. Zombies do not count.
"""

from __future__ import annotations

import os
import select
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from outlast.values.frozen import NamedTuple

_HOPELESS_SECONDS = 3.0  # what KILL did not end by then is not ours to end


@dataclass(slots=True)
class Patience:
    """How long TERM is given before KILL. It goes on where it was when ending is interrupted."""

    seconds: float
    kill_at: float = 0.0  # 0: TERM is not being sent yet
    told: bool = False  # TERM was sent
    hangs_up: bool = False  # with TERM comes HUP: an interactive shell, at a terminal, takes only that

    def lose(self) -> None:
        """KILL next, if TERM was sent or is being sent."""
        self.kill_at = self.kill_at and time.monotonic()


class Member(NamedTuple):
    pid: int
    pgrp: int
    session: int
    started: int
    lives: bool


class Straggler(NamedTuple):
    """A process that a command left in the background, and that was ended."""

    pid: int
    command: str  # its words; what it is called when it has none


def named(member: Member) -> Straggler:
    """A process by its words, as far as they can be read."""
    try:
        words = Path(f"/proc/{member.pid}/cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ")
        words = words or b"[%s]" % Path(f"/proc/{member.pid}/comm").read_bytes().strip()
    except OSError:
        words = b"it is gone"
    return Straggler(member.pid, words.decode("utf-8", "replace"))


def member_of(pid: int) -> Member | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    fields = text.rpartition(b")")[2].split()
    lives = fields[0] not in (b"Z", b"X") or int(fields[17]) > 1  # the main thread may end before the others
    return Member(pid, int(fields[2]), int(fields[3]), int(fields[19]), lives)


def living(session: int) -> list[Member]:
    """Every living process of a session."""
    found = [
        member_of(int(name)) for name in os.listdir("/proc") if name.isdigit() and _session_of(int(name)) == session
    ]
    return [member for member in found if member and member.session == session and member.lives]


def _session_of(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return -1


def linger(session: int, grace: float) -> list[Member]:
    """What still lives when the grace is over."""
    until = time.monotonic() + grace
    while (members := living(session)) and time.monotonic() < until:
        time.sleep(0.005)
    return members


def end(session: int, patience: Patience) -> list[Member]:
    """TERM once, KILL when patience is over; gives what could not be ended."""
    while members := living(session):
        now = time.monotonic()
        if not patience.told:
            patience.kill_at = patience.kill_at or now + patience.seconds  # first: TERM may be answered by a Ctrl-C
            hangup = (signal.SIGHUP,) if patience.hangs_up else ()
            _signal(members, signal.SIGTERM, *hangup, signal.SIGCONT)  # what is stopped must wake to end
            patience.told = True
        elif now >= patience.kill_at + _HOPELESS_SECONDS:
            return members
        elif now >= patience.kill_at:
            _signal(members, signal.SIGKILL)
        time.sleep(0.005)
    return []


def _signal(members: list[Member], *numbers: signal.Signals) -> None:
    for pgrp in {member.pgrp for member in members}:
        for number in numbers:
            try:
                os.killpg(pgrp, number)
            except (ProcessLookupError, PermissionError):
                continue  # gone meanwhile, or another user's: the next look tells


class Watch:
    """Sees a child's end at once, without reaping it."""

    def __init__(self, pid: int) -> None:
        self._pid, self._poll = pid, select.poll()
        try:
            self._fd = os.pidfd_open(pid)
            self._poll.register(self._fd, select.POLLIN)
        except OSError:  # some containers forbid it: look often instead
            self._fd = -1

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def exited(self, seconds: float) -> bool:
        """Whether it has ended, after waiting so long for it."""
        if self._fd >= 0:
            return bool(self._poll.poll(max(0.0, seconds * 1000)))
        try:
            over = os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True
        if not over:
            time.sleep(max(0.0, min(seconds, 0.005)))
        return over
