"""Who claims a handoff: the process that a claim is bound to, so that its death sets the claim free at once.

In a library that is this process (`runtime.process`). On the command line every command is a process of its own, so it
is the leader of the terminal's session: the shell that somebody sits at. Whoever has neither is bound to nobody, and
only time ends the claim. When a claim is over is decided in `ledger/lease.py`.
"""

from __future__ import annotations

import os
from pathlib import Path

from outlast.home.process import machine_id, started_at, this_place
from outlast.ledger.lease import Process

_TERMINAL = 4  # where a process's terminal stands in its stat, after the name


def terminal_leader() -> Process | None:
    """The process that leads this terminal's session, for as long as which a person is there.

    None without a terminal, when the leader is gone or in another PID namespace, and when it is this very process: a
    claim must outlive the command that made it.
    """
    leader = os.getsid(0) if _has_terminal() else 0
    started = started_at(leader) if leader not in (0, os.getpid()) else None
    return None if started is None else Process("", *this_place(), leader, started, machine_id())


def nobody() -> Process:
    """A holder at this place that cannot be looked up: only its silence ends what it holds."""
    return Process("", *this_place(), pid=0, started=0, machine_id=machine_id())


def same_claimer(a: Process, b: Process) -> bool:
    """Whether both are one process for certain. Nobody is not even itself, and nor is who is nowhere."""
    where_a, where_b = (a.boot_id, a.pid_namespace), (b.boot_id, b.pid_namespace)
    return all(where_a) and where_a == where_b and a.pid > 0 and (a.pid, a.started) == (b.pid, b.started)


def _has_terminal() -> bool:
    try:
        text = Path("/proc/self/stat").read_bytes()
    except OSError:
        return False
    return int(text.rpartition(b")")[2].split()[_TERMINAL]) != 0
