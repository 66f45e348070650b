"""This process, and whether another one is still alive."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from outlast.ids import Ids
from outlast.ledger.lease import Process, can_be_probed


def this_process(ids: Ids) -> Process:
    """Ourselves, known by boot, PID namespace, pid and start time."""
    pid = os.getpid()
    return Process(ids(), *this_place(), pid, started_at(pid) or 0, machine_id())


def this_place() -> tuple[str, str, str]:
    """Where a pid of ours means something: host, boot and PID namespace."""
    return os.uname().nodename, _boot_id(), _namespace()


@cache
def machine_id() -> str:
    """Of this machine, or of this container: it stays when it is rebooted. Empty where it has none."""
    return _text("/etc/machine-id") or _text("/var/lib/dbus/machine-id")


@cache
def _boot_id() -> str:
    """Of the running kernel: the same for as long as there is a process to ask."""
    return _text("/proc/sys/kernel/random/boot_id")


def is_alive(holder: Process, me: Process) -> bool | None:
    """Whether the holder lives; None when it cannot be known from here."""
    if not can_be_probed(holder, me):
        return None
    return started_at(holder.pid) == holder.started


def started_at(pid: int) -> int | None:
    """When the kernel started that pid; None when it is gone, or only waits to be reaped.

    A process that is killed ends thread by thread, and its first one may be gone while another is still in the middle
    of a write: until the last of them has ended it lives.
    """
    fields = _stat(pid)
    if not fields or (fields[0] in ("Z", "X") and int(fields[17]) <= 1):
        return None
    return int(fields[19])


def is_stopped(holder: Process, me: Process) -> bool:
    """Whether the holder is stopped (by SIGSTOP, or Ctrl-Z): it lives, and does nothing until it is let go on."""
    fields = _stat(holder.pid) if can_be_probed(holder, me) else []
    return bool(fields) and fields[0] == "T"


def _stat(pid: int) -> list[str]:
    """What the kernel says of a pid, from its state on; nothing when it is gone."""
    return _text(f"/proc/{pid}/stat").rpartition(")")[2].split()


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _text(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace").strip()  # a process may have any bytes as its name
    except OSError:
        return ""
