"""What 200 MB of output cost: a step of a flow file beside `tee`, and beside `tee` behind a `sed` that masks one word.

`python bench/output.py [MEGABYTES] [ROUNDS] [KIND...]`. Interleaved, so that a busy machine is busy for all; best of
the rounds, wall and CPU of all processes, and how often the CPU of `sed` and `tee` that is. Each kind of text is one
that a simple masking is slow at: words that name secrets in every line, URLs, colours, letters that are not ASCII, a
line that never ends.
"""

import os
import py_compile
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import outlast

STAMP = b"2026-11-16T21:04:39.%06dZ "
KINDS = {
    "log": STAMP + b"INFO worker-%d processed item %d in 0.%d s path=/var/lib/app/file_%d.json status=ok\n",
    "urls": STAMP + b"GET https://host-%d.example.com/items/%d?page=%d HTTP/1.1 200 ref=https://a.example/%d ok\n",
    "usage": b'{"ts": %d, "worker": %d, "usage": {"prompt_tokens": %d, "tokens": %d}, "key": "item-%d", "ok": true}\n',
    "colours": STAMP + b"\x1b[32mINFO\x1b[0m worker-%d processed item %d in 0.%d s \x1b[36mfile_%d.json\x1b[0m ok\n",
    "umlauts": "✓ %d Prüfung von worker-%d: Datei %d → geprüft in 0.%d s (über %d Zeilen), Größe passt\n".encode(),
    "no end": b"..%d..%d..%d..%d..%d....................................................................",
}
FLOW = "flow: much\nsecrets: [SESAME]\nsteps:\n  - {id: print, run: cat much.txt}\n"
WAYS = {
    "tee": "cat much.txt | tee kept.txt > shown.txt",
    "sed and tee": "cat much.txt | sed s/open-sesame/***/g | tee kept.txt > shown.txt",
    "outlast": f"{sys.executable} -m outlast --home $HOME_OF_ROUND run flow.yaml > shown.txt 2>&1",
}
Best = dict[str, tuple[float, float]]


def main(megabytes: int = 200, rounds: int = 3, *kinds: str) -> None:
    for file in Path(outlast.__file__).parent.rglob("*.py"):
        py_compile.compile(str(file))  # once and not by every run, where the environment keeps it from being kept
    for kind in kinds or KINDS:
        with tempfile.TemporaryDirectory(prefix="outlast-output-") as name:
            report(kind, measured(Path(name), kind, megabytes, rounds))


def measured(folder: Path, kind: str, megabytes: int, rounds: int) -> Best:
    """Wall and CPU seconds of each way: the best of all rounds."""
    write_much(folder / "much.txt", KINDS[kind], megabytes)
    (folder / "flow.yaml").write_text(FLOW)
    best: Best = {way: (float("inf"), float("inf")) for way in WAYS}
    for _ in range(rounds):
        for way, command in WAYS.items():
            best[way] = tuple(map(min, best[way], timed(command, folder)))  # type: ignore[assignment]
        shutil.rmtree(folder / "home")
    return best


def write_much(path: Path, line: bytes, megabytes: int) -> None:
    with path.open("wb") as file:
        for number in range(0, megabytes * 10**6 // 70, 10_000):
            each = range(number, number + 10_000)
            file.write(b"".join(line % (n % 10**6, n % 7, n, n % 100, n) for n in each))
        file.truncate(megabytes * 10**6)


def timed(command: str, folder: Path) -> tuple[float, float]:
    """Wall and CPU seconds of a command and all that it started."""
    env = os.environ | {"SESAME": "open-sesame", "HOME_OF_ROUND": str(folder / "home")}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(["sh", "-c", command], cwd=folder, env=env, check=True)
    took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def report(kind: str, best: Best) -> None:
    reference = best["sed and tee"][1]
    for way, (wall, cpu) in best.items():
        print(f"{kind:8} {way:12} {wall:7.2f} s   CPU {cpu:7.2f} s  {cpu / reference:5.1f} x", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]), *sys.argv[3:])
