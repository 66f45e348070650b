"""A file that was removed or replaced while it was open: what is written goes nowhere, and nobody is told otherwise."""

import asyncio
import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from outlast import AsyncOutlast, AsyncRun, Outlast, Run, flow
from outlast.errors import StoreFailed
from outlast.store.sqlite.open import SqliteStore

KNOBS: dict[str, Any] = {}
RUNS = 40


def place_of(outlast: Outlast | AsyncOutlast) -> str:
    home = outlast.blocking._home if isinstance(outlast, AsyncOutlast) else outlast._home
    return str(home.store.place)  # type: ignore[attr-defined]


@flow
def removes(run: Run) -> str:
    os.rename(KNOBS["place"], f"{KNOBS['place']}.gone")
    return "done"


@flow
def replaces(run: Run) -> str:
    shutil.copy(KNOBS["place"], f"{KNOBS['place']}.copy")
    os.replace(f"{KNOBS['place']}.copy", KNOBS["place"])
    return "done"


@flow
async def removes_async(run: AsyncRun) -> str:
    os.rename(KNOBS["place"], f"{KNOBS['place']}.gone")
    return "done"


@flow
async def gives(run: AsyncRun, number: int) -> int:
    return number


@pytest.mark.parametrize("of", [removes, replaces])
def test_a_run_whose_file_is_gone_when_it_ends_has_not_succeeded(tmp_path: Path, of: Any) -> None:
    with Outlast(tmp_path / "home") as outlast:
        KNOBS["place"] = place_of(outlast)
        with pytest.raises(StoreFailed, match="removed or replaced"):
            outlast.run(of)


def test_nor_has_one_on_an_event_loop_and_no_further_one_begins(tmp_path: Path) -> None:
    async def runs() -> None:
        async with AsyncOutlast(tmp_path / "home") as outlast:
            KNOBS["place"] = place_of(outlast)
            with pytest.raises(StoreFailed, match="removed or replaced"):
                await outlast.run(removes_async)
            found = await asyncio.gather(*(outlast.run(gives, n) for n in range(RUNS)), return_exceptions=True)
            assert {type(each) for each in found} == {StoreFailed}

    asyncio.run(runs())


def test_no_run_begins_in_a_file_that_is_gone(tmp_path: Path) -> None:
    with Outlast(tmp_path / "home") as outlast:
        os.rename(place_of(outlast), tmp_path / "gone")
        with pytest.raises(StoreFailed, match="removed or replaced"):
            outlast.run(removes)


def test_one_look_does_for_all_that_was_in_a_commit(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    looks, stat = Counter[str](), os.stat

    def counted(path: Any, **given: Any) -> os.stat_result:
        looks[str(path)] += 1
        return stat(path, **given)

    def commit() -> None:
        tickets = [store.put_work(lambda tx: None) for _ in range(RUNS)]
        for ticket in tickets:
            store.finish(ticket)
            store.still_there(after_commit=True)

    monkeypatch.setattr(os, "stat", counted)
    commit()
    assert looks[store.place] == 1
    commit()
    store.still_there()
    assert looks[store.place] == 3
