"""A run around existing code: run the script again to continue it."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from outlast import AsyncOutlast
from outlast.errors import FlowNotFound

from ..kit.place import Place

SCRIPT = """
import os, signal, sys
from outlast import Outlast, NOT_DONE, UNKNOWN, Happened

def note(text):
    with open("ran.log", "a") as log:
        log.write(text + "\\n")

def fetch(url):
    note(f"fetch {url}")
    return [1, 2, 3]

def publish(rows):
    note(f"publish {rows}")
    if os.path.exists("die-while-publishing"):
        os.kill(os.getpid(), signal.SIGKILL)
    return "published"

outlast = Outlast(".outlast")
with outlast.open("nightly") as run:
    rows = run.step(fetch, "https://example.org")
    if os.path.exists("die"):
        os.kill(os.getpid(), signal.SIGKILL)
    if os.path.exists("fail"):
        raise ValueError("the script itself")
    print(run.effect(publish, rows))
"""


def script(place: Place) -> subprocess.CompletedProcess[str]:
    place.close()
    path = place.script("nightly.py", SCRIPT)
    return subprocess.run([sys.executable, path.name], cwd=place.folder, capture_output=True, text=True, timeout=60)


def flag(place: Place, name: str, *, up: bool) -> None:
    path = Path(place.folder / name)
    path.touch() if up else path.unlink()


def test_a_script_that_was_killed_goes_on_when_it_is_run_again(place: Place) -> None:
    flag(place, "die", up=True)
    assert script(place).returncode == -9
    flag(place, "die", up=False)
    again = script(place)
    assert (again.returncode, again.stdout) == (0, "published\n")
    assert place.ran == ["fetch https://example.org", "publish [1, 2, 3]"]
    assert [run.status for run in place.outlast.runs()] == ["succeeded"]


def test_a_script_that_waits_says_what_for_and_exits_3(place: Place) -> None:
    flag(place, "die-while-publishing", up=True)
    assert script(place).returncode == -9
    flag(place, "die-while-publishing", up=False)
    for _ in range(2):
        waiting = script(place)
        assert waiting.returncode == 3
        assert "publish" in waiting.stderr
        assert place.run_id in waiting.stderr
    place.outlast.skip(place.run_id, "publish", result="by hand", why="seen")
    assert script(place).stdout == "by hand\n"
    assert place.count("publish [1, 2, 3]") == 1


def test_a_script_that_failed_fails_as_it_would_and_goes_on_at_the_failure(place: Place) -> None:
    flag(place, "fail", up=True)
    failed = script(place)
    assert failed.returncode == 1
    assert "the script itself" in failed.stderr
    assert place.outlast.get(place.run_id).status == "failed"
    flag(place, "fail", up=False)
    assert script(place).returncode == 0
    assert place.count("fetch https://example.org") == 1


def test_a_script_that_succeeded_starts_a_new_run_next_time(place: Place) -> None:
    assert (script(place).returncode, script(place).returncode) == (0, 0)
    assert len(place.outlast.runs()) == 2


def test_only_the_script_itself_can_continue_such_a_run(place: Place) -> None:
    flag(place, "fail", up=True)
    script(place)
    with pytest.raises(FlowNotFound, match="script"):
        place.outlast.resume(place.run_id)
    assert place.outlast.get(place.run_id).status == "failed"


def add_one(number: int) -> int:
    return number + 1


async def add_one_async(number: int) -> int:
    return number + 1


def test_a_block_is_a_body_like_any_other(place: Place) -> None:
    with place.outlast.open("block", task="t", meta={"a": 1}) as run:
        assert run.step(add_one, 1) == 2
        assert run.map(add_one, [1, 2]) == [2, 3]
        run.state["x"] = 1
        run.phase = "done"
    record = place.outlast.get(place.run_id)
    assert (record.status, record.task, record.phase, record.meta) == ("succeeded", "t", "done", {"a": 1})


def test_an_async_block_is_too(place: Place) -> None:
    async def work() -> int:
        async with AsyncOutlast(place.home) as outlast, outlast.open("block") as run:
            first = await run.step(add_one, 1)
            return int(await run.step(add_one_async, first))

    assert asyncio.run(work()) == 3
    assert place.outlast.get(place.run_id).status == "succeeded"
    assert [receipt.result for receipt in place.receipts()] == [2, 3]


def test_an_exception_leaves_the_block_and_fails_the_run(place: Place) -> None:
    def block() -> None:
        with place.outlast.open("block") as run:
            run.step(add_one, 1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        block()
    assert place.outlast.get(place.run_id).status == "failed"
