"""Letting go of a home: once, whatever the store says to it, and never in place of the user's own trouble."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import AsyncHoldfast, Holdfast, Run, flow
from holdfast.errors import DiskFull, HoldfastError

from ..kit.place import Place


@flow
def nothing(run: Run) -> str:
    return "done"


def full(work: Callable[..., Any]) -> Any:
    raise DiskFull("the disk")


def test_closing_twice_is_harmless(place: Place) -> None:
    hold = Holdfast(place.home)
    hold.run(nothing)
    hold.close()
    hold.close()
    with pytest.raises(HoldfastError):
        hold.run(nothing)


def test_closing_an_async_home_twice_is_harmless(place: Place) -> None:
    async def twice() -> None:
        async with AsyncHoldfast(place.home) as hold:
            await hold.close()
        with pytest.raises(HoldfastError):
            await hold.run(nothing)

    asyncio.run(twice())


def test_threads_that_close_together_close_once(place: Place) -> None:
    hold = Holdfast(place.home)
    raised: list[BaseException] = []
    ready = threading.Barrier(4)

    def close() -> None:
        ready.wait(10)
        try:
            hold.close()
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
    hold = Holdfast(place.home)
    monkeypatch.setattr(hold._runtime.store, "write", full)
    hold.close()
    with pytest.raises(HoldfastError, match="closed"):
        hold._runtime.store.read(lambda look: look.count_runs())
    assert place.run(nothing).result == "done"


def test_the_user_s_exception_is_not_hidden_by_one_of_the_store(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        with Holdfast(place.home) as hold:
            monkeypatch.setattr(hold._runtime.store, "write", full)
            raise ValueError("the user's own")

    with pytest.raises(ValueError, match="the user's"):
        fail()
