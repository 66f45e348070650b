"""Who takes a server from the others, in a process of its own: `starvers.py KIND PORT COUNT KEY…`.

It says `ready` once it is at it, goes on until its input ends, and then says what it was answered, as JSON.
"""

import asyncio
import json
import resource
import sys
from collections import Counter
from collections.abc import Awaitable, Callable

ANSWERS: Counter[str] = Counter()


async def opened(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", port)


def head(method: str, path: str, key: str, *more: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "host: 127.0.0.1", f"authorization: Bearer {key}", *more, "", ""]
    return "\r\n".join(lines).encode()


async def told(reader: asyncio.StreamReader) -> None:
    """Count the status of an answer, or that there was none."""
    first = await reader.readline()
    ANSWERS[first.split(b" ")[1].decode() if first.count(b" ") > 1 else "closed"] += 1


async def idle(port: int, number: int, keys: list[str]) -> None:
    """Connections that never ask, or never come to the end of their headers; soon a new one for each that is closed."""
    while True:
        try:
            reader, writer = await opened(port)
            if number % 2:
                writer.write(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n")
            await told(reader)
            writer.close()
        except OSError:
            ANSWERS["reset"] += 1
        await asyncio.sleep(5)


async def trickle(port: int, number: int, keys: list[str]) -> None:
    """An upload that comes a few bytes a second."""
    while True:
        try:
            reader, writer = await opened(port)
            at = f"/v1/workspace/artifacts?name=slow-{number}"
            writer.write(head("PUT", at, keys[number % len(keys)], "content-length: 1000000"))
            answer = asyncio.ensure_future(told(reader))
            while not answer.done():
                writer.write(b"x")
                await asyncio.wait([answer], timeout=0.5)
            writer.close()
        except OSError:
            ANSWERS["reset"] += 1


async def start(port: int, number: int, keys: list[str]) -> None:
    """A run, and another a second after that was answered: all of them at once, again and again."""
    turn = 0
    while True:
        turn += 1
        body = json.dumps({"flow": "doubling", "inputs": {"number": number}, "task": f"t-{number}-{turn}"}).encode()
        more = ("content-type: application/json", f"content-length: {len(body)}", "connection: close")
        await ask(port, head("POST", "/v1/runs?wait=5", keys[number % len(keys)], *more) + body)
        await asyncio.sleep(1)


async def verify(port: int, number: int, keys: list[str]) -> None:
    """What reads much: a check of a run, of everything, and one byte of large content."""
    key, run = keys[number % (len(keys) - 1) + 1], keys[0]
    paths = (f"/v1/verify?run_id={run}", "/v1/verify", "/v1/workspace/artifacts/content?ref=large")
    while True:
        for path in paths:
            await ask(port, head("GET", path, key, "range: bytes=9000000-9000000", "connection: close"))


async def ask(port: int, request: bytes) -> None:
    try:
        reader, writer = await opened(port)
        writer.write(request)
        await told(reader)
        await reader.read()
        writer.close()
    except OSError:
        ANSWERS["reset"] += 1


KINDS: dict[str, Callable[[int, int, list[str]], Awaitable[None]]] = {
    "idle": idle,
    "trickle": trickle,
    "start": start,
    "verify": verify,
}


async def main(kind: str, port: int, count: int, keys: list[str]) -> None:
    tasks = [asyncio.ensure_future(KINDS[kind](port, number, keys)) for number in range(count)]
    await asyncio.sleep(1)
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    for task in tasks:
        task.cancel()
    print(json.dumps(ANSWERS), flush=True)


if __name__ == "__main__":
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]))
