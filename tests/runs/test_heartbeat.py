"""What the heart hears while a long step runs: that the run was given up, and that it is to pause."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from outlast import AsyncOutlast, AsyncRun, Outlast, flow, flow_file, step
from outlast.home.settings import Settings

LONG = """
flow: long
steps:
  - {id: first, run: "touch began; sleep 600"}
  - {id: second, run: "touch second"}
"""


def started(folder: Path) -> tuple[Outlast, Any]:
    """A run whose first command works on for long."""
    (folder / "flow.yaml").write_text(LONG)
    outlast = Outlast(folder / ".outlast")
    run = outlast.start(flow_file(folder / "flow.yaml"))
    wait_until((folder / "began").exists)
    return outlast, run


def wait_until(holds: Any) -> None:
    passed = threading.Event()
    for _ in range(600):
        if holds():
            return
        passed.wait(0.05)
    raise AssertionError("it took longer than 30 s")


def test_a_command_ends_when_somebody_gives_its_run_up(tmp_path: Path) -> None:
    outlast, run = started(tmp_path)
    with Outlast(tmp_path / ".outlast") as other:
        other.abort(run.run_id, why="not needed any more")
    outcome = run.outcome(timeout=30)
    assert (outcome.status, outcome.error["message"]) == ("aborted", "not needed any more")
    assert not (tmp_path / "second").exists()
    outlast.close()


def test_a_command_may_finish_when_its_run_is_asked_to_pause(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(LONG.replace("sleep 600", "until test -f go; do sleep 0.05; done"))
    outlast = Outlast(tmp_path / ".outlast")
    run = outlast.start(flow_file(tmp_path / "flow.yaml"))
    wait_until((tmp_path / "began").exists)
    with Outlast(tmp_path / ".outlast") as other:
        other.pause(run.run_id)
    wait_until(lambda: outlast._executor.live.executions[run.run_id].stopping)
    (tmp_path / "go").touch()
    assert run.outcome(timeout=30).status == "interrupted"
    assert [(one.step, one.status) for one in outlast.receipts(run.run_id)] == [("first", "succeeded")]
    assert not (tmp_path / "second").exists()
    outlast.close()


def test_closing_ends_a_command_that_does_not_stop_in_time(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(LONG.replace("touch began", "echo $$ > began"))
    outlast = Outlast(tmp_path / ".outlast", settings=Settings(close_seconds=0.1))
    run = outlast.start(flow_file(tmp_path / "flow.yaml"))
    wait_until(lambda: (tmp_path / "began").exists() and (tmp_path / "began").read_text().strip())
    pid = int((tmp_path / "began").read_text())
    outlast.close()
    assert run.outcome(timeout=30).status == "interrupted"
    wait_until(lambda: not Path(f"/proc/{pid}").exists())


# -- many runs that only wait --------------------------------------------------------------------------

MEET: dict[str, asyncio.Event] = {}


@step
async def waits(number: int) -> int:
    await MEET["go"].wait()
    return number


@flow
async def waiting(run: AsyncRun, number: int) -> int:
    return await waits(number)


def test_runs_that_only_wait_are_looked_at_once_for_all_and_only_after_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> list[str]:
        MEET["go"] = asyncio.Event()
        async with AsyncOutlast(tmp_path / ".outlast") as outlast:
            runs = [await outlast.start(waiting, number) for number in range(20)]
            live, store = outlast._executor.live, outlast._caller.home.store
            while sum(len(each.open) for each in live.executions.values()) < len(runs):
                await asyncio.sleep(0.01)
            live.heartbeat.stop()
            for _ in range(3):
                live.heartbeat.tick()  # their starts are written, and heard of
            looks = set[Any]()  # a question of a file is a look of it too: the same one
            for way in ("read", "ask"):
                given = getattr(store, way)
                monkeypatch.setattr(store, way, lambda look, given=given: (looks.add(look), given(look))[1])
            live.heartbeat.tick()
            assert len(looks) == 0
            store.write(lambda tx: tx.set_run_phase(live.executions[runs[3].run_id].hold.run_key, "far"))
            live.heartbeat.tick()
            assert len(looks) == 1
            await outlast.pause(runs[5].run_id)
            await outlast.abort(runs[6].run_id, why="not needed")
            live.heartbeat.tick()
            assert [number for number, run in enumerate(runs) if live.executions[run.run_id].stopping] == [5, 6]
            MEET["go"].set()
            return [(await run).status for run in runs]

    statuses = asyncio.run(main())
    assert (statuses[6], statuses.count("succeeded")) == ("aborted", 19)
