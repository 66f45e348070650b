"""A process that can open no more files: what fails in it is recorded, or its run ends; it never waits for nothing."""

import subprocess
import sys
from pathlib import Path

SCRIPT = """\
import os, resource, sys
from outlast import Outlast, Run, flow, step

home, loaded, again = sys.argv[1], sys.argv[2], sys.argv[3:]
if loaded:
    __import__(loaded)
held = []

def take_all():
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    while True:
        held.append(os.open(os.devnull, os.O_RDONLY))

@step
def leaks() -> int:
    return 1 if again else take_all()

@flow
def work(run: Run) -> str:
    try:
        leaks()
    except Exception as error:
        said = f"{type(error).__name__} {getattr(error, 'errno', '')}"
    else:
        said = "done"
    while held:
        os.close(held.pop())
    return said

with Outlast(home) as outlast:
    try:
        outcome = outlast.run(work)
    except Exception as error:
        outcome = None
    while held:
        os.close(held.pop())
    receipts = outlast.receipts(outlast.runs()[0].id)
    print(outcome.result if outcome else "ended", *(receipt.status for receipt in receipts))
"""


ON_A_LOOP = """\
import asyncio, os, resource, sys
from outlast import AsyncOutlast, AsyncRun, flow, effect

held = []

@effect
async def refused() -> object:
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    try:
        while True:
            held.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return object()  # that is told by a kind of error that is not loaded yet

@flow
async def work(run: AsyncRun) -> str:
    try:
        await refused()
    except Exception as error:
        return "it went on"
    finally:
        while held:
            os.close(held.pop())

async def main():
    async with AsyncOutlast(sys.argv[1]) as outlast:
        try:
            outcome = await outlast.run(work)
        except Exception:
            print("ended", *(receipt.status for receipt in await outlast.receipts((await outlast.runs())[0].id)))
        else:
            print(outcome.result)

asyncio.run(main())
"""


def said(folder: Path, *words: str, script: str = SCRIPT) -> str:
    (folder / "flow.py").write_text(script)
    command = [sys.executable, str(folder / "flow.py"), str(folder / "home"), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


def test_a_step_that_fails_so_has_failed(tmp_path: Path) -> None:
    assert said(tmp_path, "traceback") == "OSError 24 failed"


def test_where_that_cannot_be_recorded_the_run_ends_and_goes_on_when_it_is_called_again(tmp_path: Path) -> None:
    assert said(tmp_path, "") == "ended"
    assert said(tmp_path, "", "again") == "done succeeded"


def test_on_a_loop_too_a_flow_does_not_go_on_with_what_is_not_on_record(tmp_path: Path) -> None:
    assert said(tmp_path, script=ON_A_LOOP) == "ended started"
