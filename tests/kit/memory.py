"""Where the files of tests may be in memory."""

import os
import shutil
from pathlib import Path

MEMORY, ENOUGH = Path("/dev/shm"), 4 << 30


def has_room() -> bool:
    """Whether files may be in memory. No test needs a disk: a killed process leaves its writes to the kernel anyway."""
    return os.access(MEMORY, os.W_OK | os.X_OK) and shutil.disk_usage(MEMORY).free >= ENOUGH
