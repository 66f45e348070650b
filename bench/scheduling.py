"""A short time slice from the scheduler, so that a noisy neighbour interrupts in small pieces."""

import ctypes
import os
import platform
import struct

SLICE_NANOSECONDS = 100_000
SYSCALLS = {"x86_64": (314, 315), "aarch64": (274, 275)}  # sched_setattr, sched_getattr
ATTR = struct.Struct("=IIQiIQQQ")  # size, policy, flags, nice, priority, runtime, deadline, period
OTHER = 0


def ask_for_short_slice() -> bool:
    """Whether this process, and each it starts, now runs in slices of 0.1 ms (Linux 6.12 on)."""
    numbers = SYSCALLS.get(platform.machine())
    if platform.system() != "Linux" or numbers is None:
        return False
    call = ctypes.CDLL(None, use_errno=True).syscall
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    wanted = ATTR.pack(ATTR.size, OTHER, 0, nice, 0, SLICE_NANOSECONDS, 0, 0)
    if call(numbers[0], 0, ctypes.c_char_p(wanted), 0) != 0:
        return False
    granted = ctypes.create_string_buffer(ATTR.size)
    if call(numbers[1], 0, granted, ATTR.size, 0) != 0:
        return False
    return bool(ATTR.unpack(granted.raw)[5] == SLICE_NANOSECONDS)
