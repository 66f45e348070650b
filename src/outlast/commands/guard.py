"""The guard: a small shell process that ends this runtime's commands when the runtime dies, however it dies.

It reads a line per command from a socket whose other end only this process has. When that end is gone, it sends
TERM to every command it knows, KILL a few seconds later, and leaves a file `ended` in the folder of each attempt
as soon as nothing of its command lives.

And processes that a dead runtime left behind: ended, or for an effect waited for, before anything else goes on.
"""

from __future__ import annotations

import _socket
import contextlib
import os
import signal
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outlast import errors
from outlast.commands.leftovers import ENDED, facts_of
from outlast.commands.process import PATIENCE_SECONDS, SHELL, Group, ProcessLine, alive, end_group, line
from outlast.ledger.journal import CALLS
from outlast.runs.call import Ledger, Past
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.home.home import Home
    from outlast.runs.execution import Execution


_SCRIPT = r"""
trap '' HUP INT QUIT TERM PIPE
groups=

forget() {
    kept=
    for each in $groups; do [ "$each" = "$1" ] || kept="$kept $each"; done
    groups=$kept
}

# living: SESSION:GROUP of every living process of ours. A process may have a newline in its name.
look() {
    living=' '
    for stat in /proc/[0-9]*/stat; do
        last=
        while read -r line; do last=$line; done <"$stat"
        set -- ${last##*)}
        [ $# -ge 20 ] || continue
        case "$groups " in *" $4 "*) ;; *) continue ;; esac
        case $1 in Z | X) [ "${18}" -gt 1 ] || continue ;; esac
        case $living in *" $4:$3 "*) ;; *) living="$living$4:$3 " ;; esac
    done
}

send() {
    for pair in $living; do kill -s "$1" -- "-${pair#*:}"; done
}

mark_the_gone() {
    for group in $groups; do
        case $living in *" $group:"*) continue ;; esac
        eval "folder=\$folder_$group"
        folder=$(printf '%b.' "$folder")
        true >"${folder%.}/$name"
        forget "$group"
    done
}

patience=$1
name=$2
while read -r word group folder; do
    case $word in
        +) forget "$group"; groups="$groups $group"; eval "folder_$group=\$folder" ;;
        -) forget "$group"; unset "folder_$group" ;;
    esac
done

tenths=0
look
send TERM
send CONT
mark_the_gone
while [ -n "$groups" ] && [ "$tenths" -lt $((patience + 100)) ]; do
    sleep 0.1 || sleep 1
    tenths=$((tenths + 1))
    look
    [ "$tenths" -lt "$patience" ] || send KILL
    mark_the_gone
done
"""


class Guard:
    """The guard of one process's commands; it starts with the first of them, and again should somebody kill it."""

    def __init__(self, patience: float = PATIENCE_SECONDS) -> None:
        self._patience = patience
        self._live: dict[int, bytes] = {}
        self._forget()

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._line: ProcessLine | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._live.clear()

    @property
    def pid(self) -> int | None:
        """The guard process, once there is one."""
        return self._process.pid if self._process else None

    def watch(self, pgid: int, folder: Path) -> None:
        """End that command if this process dies, and say so in the folder. Raises CommandNotStarted.

        From the moment this returns the guard knows, whatever happens to us.
        """
        self._leave_parents_guard()
        said = b"+ %d %s\n" % (pgid, _encoded(folder))
        with self._lock:
            self._live[pgid] = said
            try:
                if not self._tell(said):
                    self._start()
            except OSError as error:
                del self._live[pgid]
                raise errors.CommandNotStarted("the guard of commands", str(error)) from error

    def release(self, pgid: int) -> None:
        """That command is over."""
        self._leave_parents_guard()
        with self._lock:
            if self._live.pop(pgid, None) and not self._tell(b"- %d\n" % pgid) and self._live:
                with contextlib.suppress(OSError):  # the next watch tries again, and says so
                    self._start()

    def close(self) -> None:
        """Send the guard away. What still runs is ended by it, as if we had died: nobody else knows of it."""
        self._leave_parents_guard()
        with self._lock:
            if self._live and self._line is not None:
                self._line.close()
                self._process = self._line = None
            self._live.clear()
            self._end()

    def _tell(self, said: bytes) -> bool:
        """Whether the guard has it. One that is gone or does not read has not."""
        if self._line is None:
            return False
        try:
            return self._line.send(said, _socket.MSG_NOSIGNAL | _socket.MSG_DONTWAIT) == len(said)
        except OSError:
            return False

    def _start(self) -> None:
        """A new guard that knows of everything live."""
        self._end()
        ours, theirs = line()
        self._line = ours
        with theirs:
            self._process = _spawn(theirs, self._patience)
        ours.sendall(b"".join(self._live.values()), _socket.MSG_NOSIGNAL)

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()  # before its line is cut: it must not take that for our death
            self._process.wait()
        if self._line is not None:
            self._line.close()
        self._process = self._line = None

    def _leave_parents_guard(self) -> None:
        """In a forked process: the guard is our parent's, and so are the commands and the lock."""
        if self._owner != os.getpid():
            if self._process is not None:
                self._process.returncode = 0  # it is not our child: nothing to wait for
            if self._line is not None:
                self._line.close()
            self._forget()


def _spawn(end: ProcessLine, patience: float) -> subprocess.Popen[bytes]:
    """The guard process. It holds nothing of ours open and stays in nobody's way: no folder, no terminal.

    It inherits a mask that blocks what ends others, so that there is no moment in which it could be ended so.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    try:
        return subprocess.Popen(
            [SHELL, "-c", _SCRIPT, "outlast-guard", str(round(patience * 10)), ENDED],
            stdin=end.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={"PATH": f"{os.environ.get('PATH', '')}:{os.defpath}", "LC_ALL": "C"},
            start_new_session=True,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_AS_IT_IS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-")


def _encoded(folder: Path) -> bytes:
    """An absolute path as one word for `printf %b`, whatever is in it."""
    path = os.fsencode(os.path.abspath(folder))
    return b"".join(b"%c" % each if each in _AS_IT_IS else b"\\0%03o" % each for each in path)


_LOOK_SECONDS = 0.1


class Orphan(NamedTuple):
    """An attempt that nobody finished, and its process group."""

    past: Past
    group: Group

    @property
    def label(self) -> str:
        return self.past.call.path


def orphans_of(home: Home, ledger: Ledger) -> list[Orphan]:
    """The groups of unfinished attempts that are still alive here."""
    found: list[Orphan] = []
    for past in ledger.calls.values():
        if past.status == "started" and past.kind in CALLS and past.told and b'"group"' in past.told:
            facts: dict[str, Any] | None = facts_of(home, past.told).get("group")
            group = Group.from_facts(facts) if facts is not None else None
            if group is not None and alive(group, home.process):
                found.append(Orphan(past, group))
    return found


def settle(execution: Execution) -> None:
    """See that nothing of an earlier attempt works on: a step's processes are ended, an effect's are waited for."""
    home = execution.executor.home
    for orphan in orphans_of(home, execution.ledger):
        if orphan.past.kind == "effect":
            # an effect that is under way is not disturbed: what it does is known when it has ended
            told = {"step": orphan.label, "pgid": orphan.group.pgid}
            execution.writer.note(execution.writer.fact("run", "still_running", told))
            home.tell(f"waiting for {orphan.label}, which an earlier process left running ({orphan.group.pgid})")
            while alive(orphan.group, execution.executor.home.process):
                execution.gate()
                execution.clock.sleep(_LOOK_SECONDS)
        elif not end_group(orphan.group, home.process, execution.settings.patience_seconds):
            raise errors.OrphanAlive(orphan.label, orphan.group.pgid)
