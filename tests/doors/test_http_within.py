"""What has a time to be done in: the clock is set only where somebody waits, and all else is as if there were none."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from outlast.doors.http.bodies import within
from outlast.doors.http.limits import Pool
from outlast.errors import NoThread

from .test_http_turns import on_loop, settled


def test_what_need_not_wait_sets_no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ready() -> str:
        return "there"

    async def work() -> None:
        monkeypatch.setattr(asyncio, "timeout", None)
        assert await within(1.0, ready()) == "there"

    asyncio.run(work())


def test_what_waits_gives_what_it_gives_in_time_and_raises_what_it_raises() -> None:
    async def waits(error: Exception | None) -> str:
        for _ in range(3):
            await asyncio.sleep(0)
        await asyncio.sleep(0.001)
        if error is not None:
            raise error
        return "there"

    async def work() -> None:
        assert await within(30.0, waits(None)) == "there"
        with pytest.raises(KeyError, match="x"):
            await within(30.0, waits(KeyError("x")))

    on_loop(work)


def test_what_waits_too_long_is_ended_where_it_waits() -> None:
    ended: list[str] = []

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("ended")

    async def work() -> None:
        with pytest.raises(TimeoutError):
            await within(0.01, waits())
        assert ended == ["ended"]
        task = asyncio.ensure_future(_whole(waits))
        await settled()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended == ["ended", "ended"]

    on_loop(work)


async def _whole(waits: Callable[[], Coroutine[Any, Any, None]]) -> None:
    await within(30.0, waits())


def test_as_many_threads_as_there_is_work_for_and_no_more_than_there_may_be() -> None:
    async def work() -> None:
        pool, may_end = Pool(2, "counted"), threading.Event()
        for _ in range(3):
            await pool.do(lambda: None, "ann")
        assert _count("outlast-counted") == 1
        asked = [asyncio.ensure_future(pool.do(lambda: may_end.wait(30), "ann")) for _ in range(5)]
        await settled()
        assert _count("outlast-counted") == 2
        may_end.set()
        assert await asyncio.gather(*asked) == [True] * 5
        pool.close()

    on_loop(work)


def _count(name: str) -> int:
    return sum(thread.name.startswith(name) for thread in threading.enumerate())


def test_at_the_end_of_a_server_what_is_being_done_is_done_and_what_waits_is_not() -> None:
    async def work() -> None:
        pool, began, may_end, done = Pool(1, "ending"), threading.Event(), threading.Event(), list[str]()

        def first() -> str:
            began.set()
            may_end.wait(30)
            return "done"

        under_way = asyncio.ensure_future(pool.do(first, "ann"))
        await asyncio.to_thread(began.wait, 30)
        pool.submit(lambda: done.append("beside"))
        pool.close()
        may_end.set()
        assert await under_way == "done"
        with pytest.raises(NoThread):
            await pool.do(lambda: done.append("after"), "ann")
        assert done == []

    on_loop(work)


def test_at_the_end_of_a_server_nobody_waits_for_the_turn_of_what_is_not_begun() -> None:
    async def work() -> None:
        pool, began, may_end = Pool(1, "ending"), threading.Event(), threading.Event()

        def beside() -> None:
            began.set()
            may_end.wait(30)

        pool.submit(beside)
        await asyncio.to_thread(began.wait, 30)
        not_begun = asyncio.ensure_future(pool.do(lambda: None, "ann"))
        await settled()
        waits = asyncio.ensure_future(pool.do(lambda: None, "bob"))
        await settled()
        pool.close()
        told, _ = await asyncio.wait([not_begun, waits], timeout=10)
        may_end.set()
        assert told == {not_begun, waits}
        assert not_begun.cancelled()
        assert isinstance(waits.exception(), NoThread)

    on_loop(work)
