"""`with_options`: how a call is asked for, apart from a flow's inputs, whatever those are called."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import AsyncOutlast, Outlast, Run, flow, step
from outlast.errors import OperationConflict, OptionInvalid

NAMES = ("again", "operation_id", "tags", "queue", "priority", "delay", "wait", "yes", "effects")


@step
def noted(value: Any) -> Any:
    return value


@flow
def takes_all(
    run: Run,
    again: int = 0,
    operation_id: int = 0,
    tags: int = 0,
    queue: int = 0,
    priority: int = 0,
    delay: int = 0,
    wait: int = 0,
    yes: int = 0,
    effects: int = 0,
) -> list[int]:
    """Every name that is, or will be, an option."""
    return noted([again, operation_id, tags, queue, priority, delay, wait, yes, effects])  # type: ignore[no-any-return]


@pytest.fixture
def outlast(tmp_path: Path) -> Iterator[Outlast]:
    with Outlast(tmp_path / "home", store_options={"synchronous": "OFF"}) as found:
        yield found


def test_an_option_never_takes_the_name_of_an_input(outlast: Outlast) -> None:
    given = {name: number for number, name in enumerate(NAMES)}
    assert outlast.run(takes_all, **given).result == list(range(9))
    assert outlast.with_options(operation_id="a", wait=True).run(takes_all, **given).result == list(range(9))


def test_the_options_are_bound_to_what_is_given_and_to_nothing_else(outlast: Outlast) -> None:
    once = outlast.with_options(operation_id="a")
    first = once.run(takes_all)
    assert once.run(takes_all).run_id == first.run_id
    assert outlast.run(takes_all).run_id != first.run_id
    assert (type(once), once.home, len(once.runs())) == (type(outlast), outlast.home, 2)


def test_later_options_win_and_the_others_stay(outlast: Outlast) -> None:
    both = outlast.with_options(operation_id="a", wait=True).with_options(operation_id="b")
    assert both.run(takes_all).run_id != outlast.with_options(operation_id="a").run(takes_all).run_id
    assert both._bound == {"operation_id": "b", "wait": True}
    assert both.with_options(operation_id=None).run(takes_all).replayed is False


def test_one_id_is_of_one_call(outlast: Outlast) -> None:
    once = outlast.with_options(operation_id="a")
    once.run(takes_all)
    with pytest.raises(OperationConflict):
        once.run(takes_all, queue=1)


@pytest.mark.parametrize("name", ["task", "agian"])
def test_an_unknown_option_is_refused_with_the_list(outlast: Outlast, name: str) -> None:
    with pytest.raises(OptionInvalid) as caught:
        outlast.with_options(**{name: "x"})
    assert caught.value.to_dict()["path"] == name
    known = "again, effects, engine, delay, operation_id, priority, queue_timeout, queue, tags, wait, yes"
    assert str(caught.value).endswith(f"with_options takes {known}")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("again", 1),
        ("again", "yes"),
        ("yes", None),
        ("operation_id", 7),
        ("wait", -1),
        ("wait", float("nan")),
        ("wait", "5"),
        ("effects", "publish"),
        ("effects", [1]),
    ],
)
def test_so_is_a_value_that_it_cannot_have(outlast: Outlast, name: str, value: Any) -> None:
    with pytest.raises(OptionInvalid, match=name):
        outlast.with_options(**{name: value})


def test_on_an_event_loop_it_is_the_same(tmp_path: Path) -> None:
    async def calls() -> None:
        async with AsyncOutlast(tmp_path / "home") as outlast:
            once = outlast.with_options(operation_id="a")
            assert isinstance(once, AsyncOutlast)
            assert (await once.run(takes_all)).run_id == (await once.run(takes_all)).run_id
            with pytest.raises(OptionInvalid):
                outlast.with_options(queu="q")

    asyncio.run(calls())


def test_a_client_checks_them_before_it_asks() -> None:
    with Outlast("http://127.0.0.1:9") as client:
        assert type(client.with_options(again=True)) is type(client)
        with pytest.raises(OptionInvalid):
            client.with_options(priority="high")
