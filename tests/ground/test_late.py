"""Modules loaded when they are first asked for: no search for garbage meanwhile, and nothing else is changed."""

import gc
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from outlast.values.late import load

LARGE = "made = [[each] for each in range(20_000)]"


class Cycle:
    """Garbage as soon as nobody has it, and found by a search alone."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def searching() -> Iterator[None]:
    """As in a program that has not touched the search; as the tests have it, afterwards."""
    was, apart = gc.isenabled(), gc.get_freeze_count()
    gc.unfreeze()
    gc.enable()
    yield
    (gc.enable if was else gc.disable)()
    if apart:
        gc.freeze()


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a module that makes much, and was not loaded yet."""
    name = f"large_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(LARGE)
    monkeypatch.syspath_prepend(tmp_path)
    yield name
    sys.modules.pop(name, None)


@contextmanager
def searches() -> Iterator[list[int]]:
    """The generation of each search that begins in the block."""
    begun: list[int] = []

    def note(phase: str, about: dict[str, int]) -> None:
        if phase == "start":
            begun.append(about["generation"])

    gc.callbacks.append(note)
    try:
        yield begun
    finally:
        gc.callbacks.remove(note)


def test_no_search_for_garbage_is_made_while_a_module_is_loaded_nor_for_it_afterwards(module: str) -> None:
    with searches() as begun:
        loaded = load(module)
        soon = [[each] for each in range(100)]
    assert (len(loaded.made), len(soon), begun) == (20_000, 100, [])
    assert gc.isenabled()


def test_what_was_garbage_before_a_module_was_loaded_is_found_by_the_next_search_through_everything(
    module: str,
) -> None:
    cycle = Cycle()
    left = weakref.ref(cycle)
    del cycle
    load(module)
    assert gc.get_freeze_count() == 0
    gc.collect()
    assert left() is None


def test_a_search_that_was_switched_off_stays_off(module: str) -> None:
    gc.disable()
    load(module)
    assert not gc.isenabled()


def test_objects_that_were_set_apart_from_the_search_stay_so(module: str) -> None:
    gc.freeze()
    try:
        apart = gc.get_freeze_count()
        load(module)
        assert 0 < gc.get_freeze_count() == apart
    finally:
        gc.unfreeze()


def test_the_search_goes_on_after_a_module_that_cannot_be_loaded(tmp_path: Path) -> None:
    with pytest.raises(ModuleNotFoundError):
        load("no_module_of_this_name")
    assert gc.isenabled()
