"""Runs again, alone, the few tests that failed among thousands: `make again`, after a `make test` that failed.

The suite kills processes, races them and fills disks on a machine that others use as well. A test that fails beside
twelve thousand others and passes alone each of `TIMES` times is unsteady: it is named, and has to be mended, but it is
not what the change broke. More than `MOST` such tests, one that fails again, or a complaint of lint or types is a
failure as before.
"""

import json
import subprocess
import sys
from pathlib import Path

MOST, TIMES = 3, 5
ROOT = Path(__file__).parents[1]


def failed() -> list[str]:
    """The tests that failed last, by their ids."""
    noted = ROOT / ".pytest_cache/v/cache/lastfailed"
    return sorted(json.loads(noted.read_text())) if noted.exists() else []


def main() -> str | None:
    """What is wrong, None when every test that failed passes each time."""
    looked = ROOT / "build/look.txt"
    if not looked.exists():
        return "nothing to run again: `make test` did not get so far as to run here"
    if complaints := looked.read_text():
        return f"lint or types complain:\n{complaints}"
    tests = failed()
    if not 0 < len(tests) <= MOST:
        return f"{len(tests)} tests failed: only 1 to {MOST} are run again"
    for number in range(TIMES):
        print(f"alone, {number + 1} of {TIMES}: {' '.join(tests)}", flush=True)
        command = [sys.executable, "-m", "pytest", "--quiet", "-p", "no:cacheprovider", *tests]
        if subprocess.run(command, cwd=ROOT, check=False).returncode:
            return "failed again"
    print("UNSTEADY, to be mended: " + ", ".join(tests))
    return None


if __name__ == "__main__":
    sys.exit(main())
