"""Letting go of a home: once, whatever the store says to it, and never in place of the user's own trouble."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from outlast import AsyncOutlast, Outlast, Run, flow
from outlast.errors import DiskFull, OutlastError

from ..kit.place import Place


@flow
def nothing(run: Run) -> str:
    return "done"


def full(work: Callable[..., Any]) -> Any:
    raise DiskFull("the disk")


def test_closing_twice_is_harmless(place: Place) -> None:
    outlast = Outlast(place.home)
    outlast.run(nothing)
    outlast.close()
    outlast.close()
    with pytest.raises(OutlastError):
        outlast.run(nothing)


def test_closing_an_async_home_twice_is_harmless(place: Place) -> None:
    async def twice() -> None:
        async with AsyncOutlast(place.home) as outlast:
            await outlast.close()
        with pytest.raises(OutlastError):
            await outlast.run(nothing)

    asyncio.run(twice())


def test_threads_that_close_together_close_once(place: Place) -> None:
    outlast = Outlast(place.home)
    raised: list[BaseException] = []
    ready = threading.Barrier(4)

    def close() -> None:
        ready.wait(10)
        try:
            outlast.close()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=close) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert raised == []


def test_a_store_that_refuses_the_last_word_is_closed_all_the_same(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    outlast = Outlast(place.home)
    monkeypatch.setattr(outlast._executor.home.store, "write", full)
    outlast.close()
    with pytest.raises(OutlastError, match="closed"):
        outlast._executor.home.store.read(lambda look: look.count_runs())
    assert place.run(nothing).result == "done"


def test_the_user_s_exception_is_not_hidden_by_one_of_the_store(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        with Outlast(place.home) as outlast:
            monkeypatch.setattr(outlast._executor.home.store, "write", full)
            raise ValueError("the user's own")

    with pytest.raises(ValueError, match="the user's"):
        fail()
