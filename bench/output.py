"""What 200 MB of output cost: a step of a flow file beside `tee`, and beside `tee` behind a `sed` that masks one word.

`python bench/output.py [MEGABYTES] [ROUNDS]`. Interleaved, so that a busy machine is busy for all; best of the rounds,
wall and CPU of all processes, and the ratios.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LINE = (
    b"2026-11-16T21:04:39.%06dZ INFO worker-%d processed item %d in 0.%d s path=/var/lib/app/file_%d.json status=ok\n"
)
FLOW = "flow: much\nsecrets: [SESAME]\nsteps:\n  - {id: print, run: cat much.txt}\n"
WAYS = {
    "tee": "cat much.txt | tee kept.txt > shown.txt",
    "sed and tee": "cat much.txt | sed s/open-sesame/***/g | tee kept.txt > shown.txt",
    "outlast": f"{sys.executable} -m outlast --home $HOME_OF_ROUND run flow.yaml > shown.txt 2>&1",
}


def main(megabytes: int = 200, rounds: int = 3) -> None:
    with tempfile.TemporaryDirectory(prefix="outlast-output-") as name:
        folder = Path(name)
        write_much(folder / "much.txt", megabytes)
        (folder / "flow.yaml").write_text(FLOW)
        best = {way: (float("inf"), float("inf")) for way in WAYS}
        for number in range(rounds):
            for way, command in WAYS.items():
                best[way] = tuple(map(min, best[way], timed(command, folder, number)))  # type: ignore[assignment]
        report(best)


def write_much(path: Path, megabytes: int) -> None:
    with path.open("wb") as file:
        for number in range(0, megabytes * 10**6 // 110, 10_000):
            each = range(number, number + 10_000)
            file.write(b"".join(LINE % (n % 10**6, n % 7, n, n % 100, n) for n in each))
        file.truncate(megabytes * 10**6)


def timed(command: str, folder: Path, number: int) -> tuple[float, float]:
    """Wall and CPU seconds of a command and all that it started."""
    env = os.environ | {"SESAME": "open-sesame", "HOME_OF_ROUND": str(folder / f"home-{number}")}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(["sh", "-c", command], cwd=folder, env=env, check=True)
    took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def report(best: dict[str, tuple[float, float]]) -> None:
    wall, cpu = best["tee"]
    for way, (each_wall, each_cpu) in best.items():
        print(
            f"{way:12} {each_wall:7.2f} s  {each_wall / wall:5.1f} x   CPU {each_cpu:7.2f} s  {each_cpu / cpu:5.1f} x"
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
