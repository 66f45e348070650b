"""Content in a bucket beside the bare client, the same in turn: wall time and CPU of this process, and memory.

    python bench/bucket.py s3://bucket/prefix        # with AWS_… in the environment

Medians of so many of each; of use as ratios.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import obstore
from obstore.store import S3Store

from outlast.store.blobs.bucket import AT_ONCE, PART_BYTES, Bucket
from outlast.store.blobs.chosen import place_of
from outlast.store.blobs.content import take_in
from outlast.store.blobs.s3 import S3Blobs
from outlast.store.contract.blobs import nothing_known

SMALL, LARGE, MIB = 200, 3, 1 << 20  # how often
Timed = tuple[Any, float, float]


def timed(call: Callable[[], Any]) -> Timed:
    wall, cpu = time.perf_counter(), time.process_time()
    given = call()
    return given, time.perf_counter() - wall, time.process_time() - cpu


def report(what: str, ours: list[Timed], bare: list[Timed]) -> None:
    wall, cpu, bare_wall, bare_cpu = (
        statistics.median(each[i] for each in of) * 1e3 for of in (ours, bare) for i in (1, 2)
    )
    print(
        f"{what:<24} {wall:9.2f} ms, bare {bare_wall:9.2f}: {wall / bare_wall:.2f}   CPU {cpu:.2f} : {bare_cpu:.2f} ms"
    )


def pieces_of(file: Path) -> Iterator[bytes]:
    with open(file, "rb") as opened:
        while piece := opened.read(MIB):
            yield piece


def bare_put(store: S3Store, file: Path) -> None:
    with open(file, "rb") as opened:
        obstore.put(store, "large", opened, use_multipart=True, chunk_size=PART_BYTES, max_concurrency=AT_ONCE)


def bare_read(store: S3Store) -> int:
    return sum(len(piece) for piece in obstore.get(store, "large").stream(min_chunk_size=MIB))


def small(blobs: S3Blobs, store: S3Store) -> None:
    put, again, get, bare, bare_get = ([] for _ in range(5))
    for number in range(SMALL):
        content = os.urandom(5000)
        put.append(timed(lambda content=content: blobs.put(content)))
        bare.append(timed(lambda n=number, content=content: obstore.put(store, f"{n}", content, use_multipart=False)))
        get.append(timed(lambda name=put[-1][0]: blobs.get(name)))
        bare_get.append(timed(lambda n=number: bytes(obstore.get(store, f"{n}").bytes())))
        again.append(timed(lambda content=content: blobs.put(content)))
    report("put 5 KB", put, bare)
    report("put 5 KB that is there", again, bare)
    report("get 5 KB", get, bare_get)


def large(blobs: S3Blobs, store: S3Store, file: Path) -> str:
    put, get, bare, bare_get = ([] for _ in range(4))
    for _ in range(LARGE):
        with open(file, "wb") as made:
            made.writelines(os.urandom(MIB) for _ in range(200))
        put.append(timed(lambda: take_in(blobs, pieces_of(file), nothing_known, pack=False)))
        bare.append(timed(lambda: bare_put(store, file)))
        get.append(timed(lambda name=put[-1][0].blob: sum(map(len, blobs.pieces(name)))))
        bare_get.append(timed(lambda: bare_read(store)))
    report("put 200 MB", put, bare)
    report("get 200 MB", get, bare_get)
    return str(put[-1][0].blob)


def most_memory() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024


def memory(url: str, file: Path, what: str, name: str) -> None:
    """What one thing takes, in a process of its own."""
    blobs, store = opened(url, file.parent)
    before = most_memory()
    match what:
        case "put":
            take_in(blobs, pieces_of(file), nothing_known, pack=False)
        case "get":
            sum(map(len, blobs.pieces(name)))
        case "bare put":
            bare_put(store, file)
        case _:
            bare_read(store)
    print(f"{what:<24} {most_memory() - before} MB above {before}")


def opened(url: str, folder: Path) -> tuple[S3Blobs, S3Store]:
    place = place_of(url)
    return S3Blobs(place, "ours", folder, "bench"), Bucket(place, "bare")._store


def main() -> None:
    url = sys.argv[1]
    if len(sys.argv) > 2:
        memory(url, Path(sys.argv[2]), *sys.argv[3:5])
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "large")
        blobs, store = opened(url, Path(folder))
        blobs.claim()
        small(blobs, store)
        name = large(blobs, store, file)
        for what in ("get", "bare get", "put", "bare put"):
            subprocess.run([sys.executable, __file__, f"{url}/{what[:4]}" if what == "put" else url, file, what, name])


if __name__ == "__main__":
    main()
