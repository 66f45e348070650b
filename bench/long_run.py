"""A long run: what looking at it and going on with it costs, in memory and in CPU time.

    python bench/long_run.py make HOME STEPS BYTES   a run of so many steps with results of so many bytes, killed
    python bench/long_run.py look HOME [COMMAND…]    peak of memory and CPU seconds of each command that reads it whole

The peak is the largest resident size of a process that does nothing else.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FLOW = """
import os
import outlast

@outlast.step
def write(n: int) -> str:
    return f"{n:09d}" + "x" * (int(os.environ["LONG_BYTES"]) - 9)

@outlast.flow(name="long")
def long(run: outlast.Run, steps: int) -> int:
    for n in range(steps):
        write(n)
    if os.environ.get("LONG_DIES"):
        os._exit(9)
    return steps
"""
LOOKS = {
    "runs": ["runs"],
    "show": ["show", "RUN"],
    "show --json": ["show", "RUN", "--json"],
    "show --timeline": ["show", "RUN", "--timeline"],
    "receipts": ["receipts", "RUN"],
    "receipts --json": ["receipts", "RUN", "--json"],
    "events": ["events", "RUN"],
    "verify": ["verify", "RUN"],
    "audit": ["audit", "RUN"],
    "export": ["export", "RUN", "FILE"],
    "resume": ["resume", "RUN"],
}


def make(home: Path, steps: int, size: int) -> None:
    """The run, without a sync for each step: what is measured is how it is read."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "long_flow.py").write_text(FLOW)
    (home / "begin.py").write_text(
        "import sys; sys.path.insert(0, '.')\n"
        "import outlast, long_flow\n"
        f"with outlast.Outlast('.outlast') as home:\n    home.run(long_flow.long, {steps})\n"
    )
    env = {**os.environ, "LONG_BYTES": str(size), "LONG_DIES": "1", "PYTHONDONTWRITEBYTECODE": "0"}
    subprocess.run([sys.executable, "begin.py"], cwd=home, env=env, check=False)


def look(home: Path, only: list[str]) -> None:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | {
        "LONG_BYTES": "1000"
    }
    run = subprocess.run([*OUTLAST, "runs", "--json"], cwd=home, env=env, capture_output=True, text=True, check=True)
    run_id = run.stdout.split('"id":"', 1)[1].split('"', 1)[0]
    for name, words in LOOKS.items():
        if only and name not in only:
            continue
        with tempfile.TemporaryDirectory(dir=home.parent) as folder:
            place = home
            if name == "resume":
                place = Path(folder) / "copy"
                shutil.copytree(home, place)
            told = [run_id if word == "RUN" else f"{folder}/out.outlast" if word == "FILE" else word for word in words]
            code, peak, cpu, wall = measured([*OUTLAST, *told], place, env)
        print(f"{name:16} {peak:8.1f} MB  {cpu:7.2f} s CPU  {wall:7.2f} s  (exit {code})", flush=True)


OUTLAST = [sys.executable, "-m", "outlast"]


def measured(words: list[str], place: Path, env: dict[str, str]) -> tuple[int, float, float, float]:
    """Exit code, peak MB, CPU seconds and seconds of one command."""
    began = time.monotonic()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
    process = subprocess.Popen(words, cwd=place, env=env, **quiet)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, used.ru_maxrss / 1024, used.ru_utime + used.ru_stime, time.monotonic() - began


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["make", home, steps, size]:
            make(Path(home), int(steps), int(size))
        case ["look", home, *only]:
            look(Path(home), only)
        case _:
            sys.exit(__doc__)
