"""Commands: started so that nothing runs before it is on record, and over only when everything they started is.

A command is a session of its own. Whatever it starts belongs to it, also in process groups that its tools open
(`timeout` does); only what leaves the session by `setsid` is on its own. `guard.py` ends a command whose runtime
died, `transcript.py` keeps what it prints.

The living processes of a command: finding them, seeing their leader's end, ending them all.

They are the members of its session, in whatever process groups. Zombies do not count.
"""

from __future__ import annotations

import _socket
import errno
import os
import select
import signal
import subprocess
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

from msgspec import Struct

from outlast import errors
from outlast.errors import Invalid
from outlast.home.process import machine_id, started_at, this_place
from outlast.ledger.lease import Process
from outlast.values.frozen import NamedTuple

_HOPELESS_SECONDS = 3.0  # what KILL did not end by then is not ours to end


class KillPatience(Struct):
    """How long TERM is given before KILL. It goes on where it was when ending is interrupted."""

    seconds: float
    kill_at: float = 0.0  # 0: TERM is not being sent yet
    told: bool = False  # TERM was sent
    hangs_up: bool = False  # with TERM comes HUP: an interactive shell, at a terminal, takes only that

    def lose(self) -> None:
        """KILL next, if TERM was sent or is being sent."""
        self.kill_at = self.kill_at and time.monotonic()


class GroupMember(NamedTuple):
    pid: int
    pgrp: int
    session: int
    started: int
    lives: bool


class Straggler(NamedTuple):
    """A process that a command left in the background, and that was ended."""

    pid: int
    command: str  # its words; what it is called when it has none


def named(member: GroupMember) -> Straggler:
    """A process by its words, as far as they can be read."""
    try:
        words = Path(f"/proc/{member.pid}/cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ")
        words = words or b"[%s]" % Path(f"/proc/{member.pid}/comm").read_bytes().strip()
    except OSError:
        words = b"it is gone"
    return Straggler(member.pid, words.decode("utf-8", "replace"))


def member_of(pid: int) -> GroupMember | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    fields = text.rpartition(b")")[2].split()
    lives = fields[0] not in (b"Z", b"X") or int(fields[17]) > 1  # the main thread may end before the others
    return GroupMember(pid, int(fields[2]), int(fields[3]), int(fields[19]), lives)


def living(session: int) -> list[GroupMember]:
    """Every living process of a session."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    found = [member_of(pid) for pid in pids if _session_of(pid) == session]
    return [member for member in found if member and member.session == session and member.lives]


def _session_of(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return -1


def linger(session: int, grace: float) -> list[GroupMember]:
    """What still lives when the grace is over."""
    until = time.monotonic() + grace
    while (members := living(session)) and time.monotonic() < until:
        time.sleep(0.005)
    return members


def end(session: int, patience: KillPatience) -> list[GroupMember]:
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


def _signal(members: list[GroupMember], *numbers: signal.Signals) -> None:
    for pgrp in {member.pgrp for member in members}:
        for number in numbers:
            try:
                os.killpg(pgrp, number)
            except (ProcessLookupError, PermissionError):
                continue  # gone meanwhile, or another user's: the next look tells


class ChildWatch:
    """Sees a child's end at once, without reaping it."""

    def __init__(self, pid: int) -> None:
        self._pid, self._poll = pid, select.poll()
        try:
            self._fd = os.pidfd_open(pid)
            self._poll.register(self._fd, select.POLLIN)
        except OSError:  # some containers forbid it: look often instead
            self._fd = -1

    def __enter__(self) -> ChildWatch:
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


SHELL = "/bin/sh"
MARKER = "OUTLAST_RUN"  # the variable that every process of a command has inherited
PATIENCE_SECONDS = 5.0  # between TERM and KILL
GRACE_SECONDS = 0.2  # for what a command leaves in the background
_LOOK_SECONDS = 0.03

# The word comes over stdin, which the command then has as /dev/null: it inherits nothing of ours.
_HELD = 'read -r word && [ "$word" = go ] || exit 125; exec "$@" </dev/null'
# A terminal that the leader of a session opens is the session's: Ctrl-C, hangup and size reach whoever runs on it.
_HELD_ON_TERMINAL = 'read -r word && [ "$word" = go ] || exit 125; at=$1; shift; exec "$@" <>"$at" >&0 2>&1'


class Group(NamedTuple):
    """A command's processes, known so well that they are found again after a crash and never mistaken."""

    host: str
    boot_id: str
    pid_namespace: str
    pgid: int  # also the session's id and the leader's pid
    started: int  # the leader's start time as the kernel counts it
    marker: str = ""  # `NAME=value` in the environment of its processes
    machine_id: str = ""  # the same over reboots; a host name proves nothing

    def to_facts(self) -> dict[str, Any]:
        return self._asdict()

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Group:
        """The group that `to_facts` wrote down. Raises Invalid for anything else."""
        found = dict(facts)
        words = [found.get(name) for name in ("host", "boot_id", "pid_namespace", "marker", "machine_id")]
        numbers = [found.get(name) for name in ("pgid", "started")]
        fits = all(type(word) is str for word in words) and all(type(number) is int for number in numbers)
        if set(found) != set(cls._fields) or not fits or found["pgid"] < 2:
            raise Invalid(detail=f"this is no process group: {found!r}")
        return cls(**found)


class CommandEnd(NamedTuple):
    """How a command ended."""

    how: Literal["exited", "timed_out", "stopped"]
    exit: int | None  # the shell's; 128+n for a signal; None when somebody else took it or it could not be ended
    seconds: float
    stragglers: tuple[Straggler, ...] = ()  # background processes that were ended because their command had exited
    left: int = 0  # processes that could not be ended (they belong to another user)


class _Ending(Struct):
    """What a wait knows so far; it is gone on with after a Ctrl-C."""

    deadline: float
    patience: KillPatience
    how: Literal["exited", "timed_out", "stopped"] | None = None
    over_at: float = 0.0
    stragglers: tuple[Straggler, ...] = ()
    asked: bool = False  # a Ctrl-C came
    raised: BaseException | None = None  # what else ended the wait


class HeldCommand:
    """A command that waits for `go`. Nothing of it runs before; if this process dies before, nothing ever does."""

    def __init__(
        self, command: str, process: subprocess.Popen[bytes], word: ProcessLine, group: Group, on_terminal: bool = False
    ) -> None:
        self.group, self._on_terminal = group, on_terminal
        self._command, self._process, self._word = command, process, word
        self._began: float | None = None
        self._exit: int | None = None
        self._ended: CommandEnd | None = None

    def go(self) -> None:
        """Let the command run. Raises CommandNotStarted when it was dropped or killed before."""
        try:
            self._word.send(b"go\n", _socket.MSG_NOSIGNAL)
        except OSError as error:
            raise errors.CommandNotStarted(_shown(self._command), "it was ended before it began") from error
        self._began = time.monotonic()
        self._word.close()

    def drop(self) -> None:
        """Never let it run. Does nothing once it runs, or was dropped."""
        if self._began is None and self._process.returncode is None:
            self._word.close()
            self._process.kill()
            self._process.wait()

    def wait(
        self,
        timeout: float | None = None,
        stop: Callable[[], bool] | None = None,
        *,
        patience: float = PATIENCE_SECONDS,
        grace: float = GRACE_SECONDS,
    ) -> CommandEnd:
        """Wait until the command and all it started is over; end it after `timeout` seconds or when `stop()` is true.

        A KeyboardInterrupt in this thread counts as stop, the next one as the end of patience. Whatever else is
        raised meanwhile ends the command first.
        """
        if self._began is None:
            raise errors.CommandNotStarted(_shown(self._command), "it was never let go")
        deadline = self._began + timeout if timeout is not None else float("inf")
        ending = _Ending(deadline, KillPatience(patience, hangs_up=self._on_terminal))
        while self._ended is None:
            try:
                self._ended = self._see_through(ending, stop, grace)
            except KeyboardInterrupt:  # the first one asks to stop, a further one ends the patience
                ending.asked = True
                ending.patience.lose()
            except BaseException as error:
                if ending.raised is not None:
                    raise
                ending.how, ending.raised = "stopped", error
        if ending.raised is not None:
            raise ending.raised
        return self._ended

    def _see_through(self, ending: _Ending, stop: Callable[[], bool] | None, grace: float) -> CommandEnd:
        if ending.how is None:
            ending.how = self._until_over(ending, stop)
            ending.over_at = time.monotonic()
        if ending.how == "exited" and not ending.patience.kill_at:
            ending.stragglers = tuple(map(named, linger(self.group.pgid, 0 if ending.asked else grace)))
        left = end(self.group.pgid, ending.patience)
        seconds = (ending.over_at if ending.how == "exited" else time.monotonic()) - (self._began or 0)
        return CommandEnd(ending.how, self._reap(), seconds, ending.stragglers, len(left))

    def _until_over(
        self, ending: _Ending, stop: Callable[[], bool] | None
    ) -> Literal["exited", "timed_out", "stopped"]:
        with ChildWatch(self.group.pgid) as watch:
            while not watch.exited(min(_LOOK_SECONDS, ending.deadline - time.monotonic())):
                if ending.asked or (stop is not None and stop()):
                    return "stopped"
                if time.monotonic() >= ending.deadline:
                    return "timed_out"
        return "exited"

    def _reap(self) -> int | None:
        """The exit code. The leader is reaped last: until then nobody else can get its pid, and so its group's id."""
        if self._process.returncode is None:
            try:
                pid, status = os.waitpid(self.group.pgid, os.WNOHANG)
            except ChildProcessError:
                self._process.returncode = 0  # for the Popen object only: there is nothing left to reap
                return None
            if pid:
                code = os.waitstatus_to_exitcode(status)
                self._exit = self._process.returncode = code if code >= 0 else 128 - code
        return self._exit


def hold(
    command: str,
    *,
    cwd: Path,
    env: Mapping[str, str],
    output: int | None,
    shell: Sequence[str] = (SHELL,),
    terminal: str = "",
) -> HeldCommand:
    """Prepare a shell command that waits for `go`, in a session of its own, with this environment and no other.

    `shell` are the words it is given to. stdout and stderr go to the file descriptor `output` (None: nowhere), stdin
    is /dev/null; or all three are the `terminal` with this path. Raises CommandNotStarted.
    """
    if "\0" in command:
        raise errors.CommandNotStarted(_shown(command), "its text has a NUL character")
    try:
        script = (_HELD_ON_TERMINAL, "sh", terminal) if terminal else (_HELD, "sh")
        process, word = _spawn([SHELL, "-c", *script, *shell, "-c", "--", command, "sh"], cwd, env, output)
    except (OSError, ValueError) as error:
        raise errors.CommandNotStarted(_shown(command), _why(error, cwd)) from error
    marker = f"{MARKER}={env[MARKER]}" if MARKER in env else ""
    started = started_at(process.pid) or 0
    group = Group(*this_place(), pgid=process.pid, started=started, marker=marker, machine_id=machine_id())
    return HeldCommand(command, process, word, group, bool(terminal))


def alive(group: Group, me: Process) -> bool | None:
    """Whether any process of the group lives; None when that cannot be known from here."""
    if not (group.boot_id and me.boot_id):
        return None
    if group.boot_id != me.boot_id:
        return False if group.machine_id and group.machine_id == me.machine_id else None
    if group.pid_namespace != me.pid_namespace or not me.pid_namespace:
        return None
    return bool(members) if (members := _ours(group)) is not None else None


def end_group(group: Group, me: Process, patience: float = PATIENCE_SECONDS) -> bool:
    """End a group that an earlier runtime left: TERM, KILL after `patience` seconds. True when it is surely gone."""
    there = alive(group, me)
    if not there or group.pgid == os.getsid(0):  # a command may look at its own run, and must not end itself
        return there is False
    return not end(group.pgid, KillPatience(patience))


# -- what is started ---------------------------------------------------------------------------------


class ProcessLine(_socket.socket):
    """One end of a line to a process. `socket` has it too, with all that a network needs, which takes long to load."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_ours_alone: weakref.WeakSet[ProcessLine] = weakref.WeakSet()


def line() -> tuple[ProcessLine, ProcessLine]:
    """Both ends of a line: ours, and that of a process.

    Ours is closed in processes that are forked from here: our death must be seen though they live on.
    """
    ours, theirs = (ProcessLine(fileno=end.detach()) for end in _socket.socketpair())
    _ours_alone.add(ours)
    return ours, theirs


def _after_fork() -> None:
    for end in list(_ours_alone):
        end.close()


os.register_at_fork(after_in_child=_after_fork)


def _spawn(
    argv: list[str], cwd: Path, env: Mapping[str, str], output: int | None
) -> tuple[subprocess.Popen[bytes], ProcessLine]:
    """The process, and the end of the line that its stdin is the other end of."""
    ours, theirs = line()
    try:
        with theirs:
            process = subprocess.Popen(
                argv,
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL if output is None else output,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env=env,
                start_new_session=True,
            )
    except BaseException:
        ours.close()
        raise
    return process, ours


def _why(error: OSError | ValueError, cwd: Path) -> str:
    if not isinstance(error, OSError):
        return f"its environment or folder cannot be passed on ({error})"
    folders = {
        errno.ENOENT: f"its folder {cwd} does not exist",
        errno.ENOTDIR: f"its folder {cwd} is not a folder",
        errno.EACCES: f"its folder {cwd} may not be entered",
    }
    reasons = (folders if error.filename == cwd else {}) | {
        errno.E2BIG: "it or its environment is too long for the system (128 KiB for one value, about 2 MiB in all)",
        errno.EAGAIN: "the system allows no more processes now",
        errno.ENOMEM: "the system has no memory for it now",
    }
    return reasons.get(error.errno or 0, str(error))


def _shown(command: str) -> str:
    return command if len(command) <= 200 else f"{command[:200]}… ({len(command)} characters)"


# -- what is found again -----------------------------------------------------------------------------


def _ours(group: Group) -> list[GroupMember] | None:
    """The living members of that very group, not of a later one with its id; None when that cannot be told."""
    leader, members = member_of(group.pgid), living(group.pgid)
    if leader is not None:
        return members if leader.started == group.started else []
    # A session keeps its id as long as one member lives: if one of them is ours, all are.
    marks = [_has_marker(member.pid, group.marker) for member in members]
    if any(marks):
        return members
    return None if None in marks else []


def _has_marker(pid: int, marker: str) -> bool | None:
    """Whether a process inherited the marker; None when it may not be asked."""
    try:
        return bool(marker) and os.fsencode(marker) in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except PermissionError:
        return None
    except OSError:
        return False
