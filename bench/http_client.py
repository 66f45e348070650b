"""Clients of a server, in a process of their own: a request a line on stdin, what it took on stdout.

Plain sockets and as little work as possible: with two cores, what the clients do is taken from the server.
"""

import asyncio
import json
import sys
import time
from typing import Any

FIELDS = {
    "scope": "bench",
    "summary": "Pause after diagnosis",
    "handoff_text": "Resume in export.py and patch the serializer mismatch.",
    "target_files": ["export.py"],
    "next_action": "Patch the export serializer and rerun the relevant checks.",
    "acceptance_checks": ["pytest -q tests/export"],
}


def asked(verb: str, anchor: str) -> bytes:
    body = {"scope": "bench", "anchor": "task:there"} if verb == "recover" else FIELDS | {"anchor": anchor}
    raw = json.dumps(body).encode()
    head = f"POST /v1/handoff/{verb} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(raw)}\r\n\r\n".encode() + raw


async def client(port: int, requests: list[bytes], took: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for request in requests:
        began = time.perf_counter()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]))
        took.append(time.perf_counter() - began)
        if b" 200 " not in head[:16]:
            raise SystemExit(head.decode())
    writer.close()


async def all_of(port: int, verb: str, clients: int, each: int, pid: int, anchor: str | None = None) -> dict[str, Any]:
    mark = time.time_ns()
    requests = [
        [asked(verb, anchor or f"task:{mark}-{number}-{turn}") for turn in range(each)] for number in range(clients)
    ]
    took: list[float] = []
    cpu, wall = cpu_of(pid), time.perf_counter()
    await asyncio.gather(*(client(port, some, took) for some in requests))
    spent, count = time.perf_counter() - wall, len(took)
    took.sort()
    return {
        "wall": took[count // 2],
        "p99": took[min(count - 1, int(count * 0.99))],
        "cpu": (cpu_of(pid) - cpu) / count,
        "rate": count / spent,
    }


def cpu_of(pid: int) -> float:
    """Seconds of processor that a process has used, all of its threads."""
    from pathlib import Path

    return sum(int(file.read_text().split()[0]) for file in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(asyncio.run(all_of(**json.loads(line)))), flush=True)
