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
    machine_id: str = ""  # the same over reboots; empty where there is none. A host name proves nothing

    def __str__(self) -> str:
        return f"pid {self.pid} on {self.host}"


SILENT_LEASES = 4  # of a process that is seen to live: it may be starved, and is not dead


class Beat(Struct, frozen=True):
    """A process's last sign of life."""

    process: Process
    boot_us: int
    wall_us: int
    lease_seconds: float
    shared: bool = False  # it died, and was at work on several runs


def can_be_probed(holder: Process, me: Process) -> bool:
    """Whether `me` can look the holder's pid up and believe the answer. A holder without a pid is nobody to look up."""
    here = (holder.boot_id, holder.pid_namespace) == (me.boot_id, me.pid_namespace)
    return here and bool(me.boot_id) and bool(me.pid_namespace) and holder.pid != 0


def was_rebooted(holder: Process, me: Process) -> bool:
    """Whether the holder's machine is mine and was started anew since: nobody outlives a boot."""
    boots, machines = (holder.boot_id, me.boot_id), (holder.machine_id, me.machine_id)
    return all(boots) and boots[0] != boots[1] and all(machines) and machines[0] == machines[1]


def is_over(
    beat: Beat,
    me: Process,
    *,
    alive: bool | None,
    boot_us: int,
    wall_us: int,
    stopped: bool = False,
    leases: float = SILENT_LEASES,
) -> bool:
    """Whether the holder's lease may be taken.

    At once when the holder is known to be dead: its pid is gone or another's (`alive` is False, and only means
    something where the pid can be probed), or its machine was rebooted. Of one that is seen to live: past its lease
    when it is `stopped`, else after `leases` of them without a sign of life. Elsewhere when it has not been heard of
    for its lease time, by boot time on one boot.
    """
    if was_rebooted(beat.process, me):
        return True
    looked = can_be_probed(beat.process, me)
    if looked and alive is False:
        return True
    patience = leases if looked and alive and not stopped else 1
    return silent_us(beat, me, boot_us=boot_us, wall_us=wall_us) > patience * beat.lease_seconds * 1_000_000


def silent_us(beat: Beat, me: Process, *, boot_us: int, wall_us: int) -> int:
    """How long a process has not been heard of: by boot time on one boot, else by the wall clock."""
    on_my_boot = bool(me.boot_id) and beat.process.boot_id == me.boot_id
    return boot_us - beat.boot_us if on_my_boot else wall_us - beat.wall_us
