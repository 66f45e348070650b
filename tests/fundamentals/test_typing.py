"""What a user's own mypy, in strict mode, is told of results."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import asyncio
from typing import assert_type

from outlast import AsyncOutlast, AsyncRun, Outlast, Outcome, Run, effect, flow, step


@step
def plain(number: int) -> str:
    return str(number)


@step(retries=2)
async def slow(number: int) -> str:
    return str(number)


@effect
def send(text: str) -> bytes:
    return text.encode()


def bare(number: int) -> str:
    return str(number)


async def bare_async(number: int) -> str:
    return str(number)


@flow
def plain_flow(run: Run, size: int) -> list[str]:
    assert_type(plain(size), str)
    assert_type(run.step(plain, size), str)
    assert_type(run.step(slow, size), str)
    assert_type(run.effect(send, "a"), bytes)
    assert_type(run.effect(bare, size, confirm=bare), str)
    assert_type(run.effect(bare_async, size), str)
    assert_type(run.map(slow, [1]), list[str])
    assert_type(run.spawn(async_flow, size).result(), int)
    return run.map(plain, [1])


@flow
async def async_flow(run: AsyncRun, size: int) -> int:
    assert_type(await slow(size), str)
    assert_type(await run.step(plain, size), str)
    assert_type(await run.step(slow, size), str)
    assert_type(await run.effect(send, "a"), bytes)
    assert_type(await run.effect(bare_async, size, confirm=bare), str)
    assert_type(await run.map(bare, [1]), list[str])
    assert_type(await run.map(slow, [1]), list[str])
    assert_type(await run.spawn(plain_flow, size), list[str])
    task = asyncio.create_task(run.step(slow, size))
    assert_type(await task, str)
    return size


@flow(name="named")
async def named_async(run: AsyncRun, size: int) -> int:
    return size


@flow(name="named-too")
def named_plain(run: Run, size: int) -> int:
    return size


def blocking(outlast: Outlast) -> None:
    assert_type(outlast.run(plain_flow, 1), Outcome[list[str]])
    assert_type(outlast.run(async_flow, 1), Outcome[int])
    assert_type(outlast.run(named_async, 1), Outcome[int])
    assert_type(outlast.run(named_plain, 1).unwrap(), int)
    assert_type(outlast.start(named_async, 1).outcome(), Outcome[int])


async def awaited(outlast: AsyncOutlast) -> None:
    assert_type(await outlast.run(named_async, 1), Outcome[int])
    started = await outlast.start(plain_flow, 1)
    assert_type(await started, Outcome[list[str]])
"""


def test_a_strict_user_is_told_the_types_of_results(tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text(PROGRAM)
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={tmp_path / 'cache'}", "user.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
