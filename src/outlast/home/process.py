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
    host, boot_id, pid_namespace = this_place()
    return Process(
        id=ids(),
        host=host,
        boot_id=boot_id,
        pid_namespace=pid_namespace,
        pid=pid,
        started=started_at(pid) or 0,
    )


def this_place() -> tuple[str, str, str]:
    """Where a pid of ours means something: host, boot and PID namespace."""
    return os.uname().nodename, _boot_id(), _namespace()


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
    """When the kernel started that pid; None when it is gone or only waits to be reaped."""
    text = _text(f"/proc/{pid}/stat")
    if not text:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in ("Z", "X") else int(fields[19])


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
