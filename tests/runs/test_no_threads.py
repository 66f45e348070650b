"""A system that gives no thread: what was claimed for one is given back, and goes on as soon as there is one."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from outlast import AsyncOutlast, AsyncRun, Outlast, Run, flow, step
from outlast.errors import NoThread

HUGE = 1 << 46  # a stack that no system has room for: starting a thread fails as it does at its limit


@contextmanager
def no_threads() -> Iterator[None]:
    before = threading.stack_size(HUGE)
    try:
        yield
    finally:
        threading.stack_size(before)


@step
def double(number: int) -> int:
    return number * 2


@flow
def doubling(run: Run, number: int) -> int:
    return double(number)


@flow
async def doubling_soon(run: AsyncRun, number: int) -> int:
    return await run.step(double, number)


SCARCE = threading.Event()


def perhaps() -> AbstractContextManager[None]:
    return no_threads() if SCARCE.is_set() else nullcontext()


@flow
def parent(run: Run, number: int) -> int:
    with perhaps():
        child = run.spawn(doubling, number)
    return child.result()


@flow
def mapping(run: Run) -> list[int]:
    with perhaps():
        return run.map(double, [1, 2, 3], concurrency=3)


@step(timeout=30)
def send(word: str) -> str:
    return word


@flow
def sending(run: Run) -> str:
    with perhaps():
        return send("hello")


@pytest.fixture
def scarce() -> Iterator[None]:
    SCARCE.set()
    yield
    SCARCE.clear()


@pytest.fixture
def outlast(tmp_path: Path) -> Iterator[Outlast]:
    with Outlast(tmp_path / "home") as found:
        yield found


def is_free(outlast: Outlast, run_id: str) -> bool:
    """Whether another process may take it at once."""
    with Outlast(outlast.home) as another:
        return another.get(run_id).status == "interrupted" and another.resume(run_id).status == "succeeded"


STARTS: dict[str, Callable[[Outlast], Any]] = {
    "start": lambda outlast: outlast.start(doubling, 4),
    "run": lambda outlast: outlast.run(doubling, 4),
    "run of an async flow": lambda outlast: outlast.run(doubling_soon, 4),
}


@pytest.mark.parametrize("how", STARTS)
def test_a_run_whose_thread_cannot_start_is_given_back(outlast: Outlast, how: str) -> None:
    with no_threads(), pytest.raises(NoThread, match="can't start new thread"):
        STARTS[how](outlast)
    (run,) = outlast.runs()
    assert is_free(outlast, run.id)


@pytest.mark.parametrize("how", ["start", "resume"])
def test_the_same_once_the_heart_beats(outlast: Outlast, how: str) -> None:
    """The thread that renews leases is there; that of the run is not."""
    assert outlast.run(doubling, 1).result == 2
    with no_threads(), pytest.raises(NoThread):
        outlast.start(doubling, 4)
    run = outlast.runs(limit=1)[0]
    if how == "resume":
        with no_threads(), pytest.raises(NoThread):
            outlast._resume_soon(run.id, _nothing())
    assert is_free(outlast, run.id)


def _nothing() -> Any:
    from outlast.home.caller import NOTHING_ACCEPTED

    return NOTHING_ACCEPTED


def test_a_plain_flow_on_a_loop_is_given_back(tmp_path: Path) -> None:
    async def main() -> str:
        async with AsyncOutlast(tmp_path / "home") as outlast:
            with no_threads(), pytest.raises(NoThread):
                await outlast.run(doubling, 4)
            return (await outlast.runs())[0].id

    run_id = asyncio.run(main())
    with Outlast(tmp_path / "home") as outlast:
        assert outlast.resume(run_id).result == 8


def test_a_script_is_given_back(outlast: Outlast) -> None:
    with no_threads(), pytest.raises(NoThread), outlast.open("nightly"):
        raise AssertionError("it began")
    with outlast.open("nightly") as run:
        assert run.step(double, 2) == 4
    assert [each.status for each in outlast.runs()] == ["succeeded"]


def test_after_it_the_same_process_goes_on(outlast: Outlast) -> None:
    """Nothing is left half begun: neither the heart nor the thread that writes for event loops."""
    with no_threads(), pytest.raises(NoThread):
        outlast.run(doubling, 4)
    assert outlast.run(doubling, 4).result == 8

    async def main() -> None:
        async with AsyncOutlast(outlast.home) as soon:
            with no_threads(), pytest.raises(NoThread):
                await soon.run(doubling_soon, 5)
            assert (await soon.run(doubling_soon, 5)).result == 10

    asyncio.run(main())


def test_a_child_whose_thread_cannot_start_is_given_back_and_goes_on_with_its_parent(
    outlast: Outlast, scarce: None
) -> None:
    failed = outlast.run(parent, 4)
    assert failed.status == "failed"
    assert "can't start new thread" in str(failed.error)
    (child,) = [each for each in outlast.runs() if each.id != failed.run_id]
    assert child.status == "interrupted"
    SCARCE.clear()
    assert outlast.resume(failed.run_id).result == 8
    assert outlast.get(child.id).status == "succeeded"


def test_a_map_without_threads_fails_and_is_done_on_resume(outlast: Outlast, scarce: None) -> None:
    failed = outlast.run(mapping)
    assert failed.status == "failed"
    SCARCE.clear()
    assert outlast.resume(failed.run_id).result == [2, 4, 6]


def test_a_step_with_a_time_limit_fails_when_there_is_no_thread_for_it(outlast: Outlast, scarce: None) -> None:
    failed = outlast.run(sending)
    assert (failed.status, [each.status for each in outlast.receipts(failed.run_id)]) == ("failed", ["failed"])
    SCARCE.clear()
    assert outlast.resume(failed.run_id).result == "hello"
