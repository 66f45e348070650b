"""The `outlast` command on a machine whose boot is told by `CHAOS_BOOT`: a reboot that no machine has to make."""

import os
import sys

from outlast.home import process

process._boot_id = lambda: os.environ["CHAOS_BOOT"]  # type: ignore[assignment]
process.machine_id = lambda: "the machine of the chaos tests"  # type: ignore[attr-defined]

if __name__ == "__main__":
    from outlast.doors.cli import main

    sys.exit(main())
