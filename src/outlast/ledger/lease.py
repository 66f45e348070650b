"""Leases: who may continue a run, and when somebody else may take over. Pure rules."""

from __future__ import annotations

from msgspec import Struct


class Process(Struct, frozen=True):
    """A worker process, known so well that its death can be told from its silence."""

    id: str
    host: str
    boot_id: str
    pid_namespace: str
    pid: int
    started: int  # start time as the kernel counts it: tells a reused pid apart

    def __str__(self) -> str:
        return f"pid {self.pid} on {self.host}"


class Beat(Struct, frozen=True):
    """A process's last sign of life."""

    process: Process
    boot_us: int
    wall_us: int
    lease_seconds: float


def can_be_probed(holder: Process, me: Process) -> bool:
    """Whether `me` can look the holder's pid up and believe the answer. A holder without a pid is nobody to look up."""
    here = (holder.boot_id, holder.pid_namespace) == (me.boot_id, me.pid_namespace)
    return here and bool(me.boot_id) and bool(me.pid_namespace) and holder.pid != 0


def is_over(beat: Beat, me: Process, *, alive: bool | None, boot_us: int, wall_us: int) -> bool:
    """Whether the holder's lease may be taken.

    At once when the holder is known to be dead (`alive` is False, and only means something where the pid can
    be probed); else when it has not been heard of for its lease time, by boot time on one boot.
    """
    if alive is False and can_be_probed(beat.process, me):
        return True
    if beat.process.boot_id and beat.process.boot_id == me.boot_id:
        silent_us = boot_us - beat.boot_us
    else:
        silent_us = wall_us - beat.wall_us
    return silent_us > beat.lease_seconds * 1_000_000
