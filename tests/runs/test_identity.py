"""Which call a call is: scope, step name, digest of inputs, and which of the equal calls."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from outlast import AsyncRun, Run, effect, flow, inject, step
from outlast.errors import NameInvalid, StepInvalid, StepNameTaken, ValueRefused

from ..kit.place import KNOBS, Place, ran, reach


@step
def draw() -> int:
    KNOBS["drawn"] = KNOBS.get("drawn", 0) + 1
    ran("draw")
    return int(KNOBS["drawn"])


@step
def join(a: Any, b: Any = 2, *, c: Any = 3) -> str:
    ran("join")
    return f"{a} {b} {c}"


@step
def gather_all(*parts: int, **named: int) -> int:
    ran("gather_all")
    return sum(parts) + sum(named.values())


@step(ignore=["now"])
def dated(text: str, now: float) -> str:
    ran("dated")
    return f"{text} at {now}"


@step
def searched(text: str, *, search: Any = inject("search")) -> str:
    ran("searched")
    return f"{text}: {search}"


@dataclass
class Point:
    x: int
    y: int


# -- equal calls -------------------------------------------------------------------------------------


@flow
def draws(run: Run) -> list[int]:
    found = [draw(), draw(), draw()]
    reach("drawn")
    return found


def test_equal_calls_are_told_apart_by_their_order(place: Place) -> None:
    place.crash(draws, at="drawn")
    assert place.run(draws).result == [1, 2, 3]
    assert [(r.occurrence, r.label) for r in place.receipts()] == [(0, "draw"), (1, "draw~2"), (2, "draw~3")]


@flow
def calls(run: Run) -> list[Any]:
    """Makes the calls that the test put into KNOBS."""
    return [call(run) for call in KNOBS["calls"]]


def digests(place: Place, *made: Any) -> list[str]:
    KNOBS["calls"] = made
    assert place.run(calls).status == "succeeded"
    return [receipt.input_digest for receipt in place.receipts()]


def test_positions_names_and_defaults_make_no_difference(place: Place) -> None:
    found = digests(
        place,
        lambda run: join(1),
        lambda run: join(a=1),
        lambda run: join(1, 2),
        lambda run: join(b=2, a=1),
        lambda run: join(1, 2, c=3),
        lambda run: run.step(join, 1),
    )
    assert len(set(found)) == 1
    assert [receipt.occurrence for receipt in place.receipts()] == [0, 1, 2, 3, 4, 5]


def test_starred_parameters_are_inputs_like_others(place: Place) -> None:
    found = digests(
        place,
        lambda run: gather_all(1, 2, x=1, y=2),
        lambda run: gather_all(1, 2, y=2, x=1),
        lambda run: gather_all(2, 1, x=1, y=2),
    )
    assert (found[0] == found[1], found[0] == found[2]) == (True, False)


def test_inputs_of_other_value_or_type_are_other_inputs(place: Place) -> None:
    values = [1, 2, 1.5, True, None, "1", "", [1], {"x": 1}, {"x": 1, "y": 2}, Point(1, 3), b"x"]
    found = digests(place, *[lambda run, value=value: join(value) for value in values])
    assert len(set(found)) == len(values)


def test_the_order_of_keys_and_sets_makes_no_difference(place: Place) -> None:
    found = digests(
        place,
        lambda run: join({"x": 1, "y": 2}),
        lambda run: join({"y": 2, "x": 1}),
        lambda run: join({"a", "b", "c", "d"}),
        lambda run: join({"d", "c", "b", "a"}),
    )
    assert found[0] == found[1]
    assert found[2] == found[3]


@flow
def dates(run: Run) -> str:
    found = dated("today", KNOBS["now"])
    reach("dated")
    return found


def test_ignored_parameters_stay_out_of_the_digest(place: Place) -> None:
    KNOBS["now"] = 1.0
    place.crash(dates, at="dated")
    KNOBS["now"] = 2.0
    assert place.run(dates).result == "today at 1.0"


@flow
def searches(run: Run) -> str:
    found = searched("kelp")
    reach("searched")
    return found


def test_injected_resources_stay_out_of_the_digest(place: Place) -> None:
    def first(outlast: Any) -> None:
        outlast.resource("search", "first engine")
        outlast.run(searches)

    place.killed(first, at="searched")
    place.outlast.resource("search", object())
    assert place.run(searches).result == "kelp: first engine"


def test_a_resource_may_be_made_when_it_is_first_needed(place: Place) -> None:
    place.outlast.resource("search", factory=lambda: ran("made") or "made late")
    assert place.ran == []
    assert place.run(searches).result == "kelp: made late"


# -- ids ---------------------------------------------------------------------------------------------


@flow
def by_id(run: Run) -> list[int]:
    found = [run.step(draw, id="second"), run.step(draw, id="first")]
    if KNOBS.get("swapped"):
        found = [run.step(draw, id="first"), run.step(draw, id="second")]
    reach("drawn")
    return found


@flow
def by_id_in_any_order(run: Run) -> dict[str, int]:
    found = {name: run.step(draw, id=name) for name in KNOBS["names"]}
    reach("drawn")
    return found


def test_an_id_names_the_call_whatever_its_order(place: Place) -> None:
    KNOBS["names"] = ["a", "b"]
    place.crash(by_id_in_any_order, at="drawn")
    KNOBS["names"] = ["b", "a"]
    assert place.run(by_id_in_any_order).result == {"a": 1, "b": 2}


@flow
def by_id_twice(run: Run) -> list[int]:
    found = [run.step(draw, id="same"), run.step(draw, id="same")]
    reach("drawn")
    return found


def test_an_id_used_twice_is_told_apart_by_order(place: Place) -> None:
    place.crash(by_id_twice, at="drawn")
    assert place.run(by_id_twice).result == [1, 2]


# -- scopes ------------------------------------------------------------------------------------------


@flow
def branches(run: Run) -> dict[str, int]:
    found = {}
    for name in KNOBS["names"]:
        with run.branch(name):
            found[name] = draw()
    reach("drawn")
    return found


def test_a_branch_tells_equal_calls_apart_by_its_name(place: Place) -> None:
    KNOBS["names"] = ["left", "right"]
    place.crash(branches, at="drawn")
    KNOBS["names"] = ["right", "left"]
    assert place.run(branches).result == {"left": 1, "right": 2}
    assert [receipt.label for receipt in place.receipts()] == ["left/draw", "right/draw"]


@pytest.mark.parametrize("name", ["", "a/b", "~1", "x[0]", "tab\t"])
def test_a_branch_name_that_could_be_taken_for_another_scope_is_refused(place: Place, name: str) -> None:
    KNOBS["names"] = [name]
    assert isinstance(place.run(branches).exception, NameInvalid)


@flow
def maps(run: Run) -> list[list[int]]:
    found = [run.map(take, [1, 2, 3], concurrency=3), run.map(take, [3, 1], concurrency=1)]
    reach("mapped")
    return found


@step
def take(number: int) -> int:
    ran(f"take {number}")
    KNOBS["drawn"] = KNOBS.get("drawn", 0) + 1
    return number * 100 + int(KNOBS["drawn"])


def test_maps_are_scopes_in_program_order(place: Place) -> None:
    place.crash(maps, at="mapped")
    live = [receipt.result for receipt in place.receipts()]
    found = place.run(maps).result
    assert sorted([*found[0], *found[1]]) == sorted(live)
    assert [number // 100 for number in [*found[0], *found[1]]] == [1, 2, 3, 3, 1]
    assert {receipt.scope for receipt in place.receipts()} == {"take[0]/", "take[1]/"}


@flow
def maps_equal_items(run: Run) -> list[int]:
    found = run.map(take, [7, 7, 7, 7], concurrency=4)
    reach("mapped")
    return found


def test_equal_items_of_a_map_keep_their_own_results(place: Place) -> None:
    place.crash(maps_equal_items, at="mapped")
    kept = {receipt.occurrence: receipt.result for receipt in place.receipts()}
    assert place.run(maps_equal_items).result == [kept[number] for number in range(4)]


def test_a_map_over_nothing_gives_nothing(place: Place) -> None:
    KNOBS["calls"] = [lambda run: run.map(take, [])]
    assert place.run(calls).result == [[]]


@pytest.mark.parametrize("concurrency", [0, -1, 1.5, "8"])
def test_a_map_needs_a_sensible_concurrency(place: Place, concurrency: Any) -> None:
    KNOBS["calls"] = [lambda run: run.map(take, [1], concurrency=concurrency)]
    assert isinstance(place.run(calls).exception, NameInvalid)


@flow
def bound(run: Run) -> list[int]:
    with ThreadPoolExecutor(2) as pool:
        work = [pool.submit(run.bind(two_draws)) for _ in range(3)]
        found = [one.result() for one in work]
    reach("drawn")
    return found


def two_draws() -> int:
    return draw() * 100 + draw()


def test_functions_bound_for_threads_are_scopes_in_program_order(place: Place) -> None:
    place.crash(bound, at="drawn")
    live: dict[str, list[int]] = {}
    for receipt in place.receipts():
        live.setdefault(receipt.scope, []).append(receipt.result)
    assert sorted(live) == ["~1/", "~2/", "~3/"]
    assert place.run(bound).result == [a * 100 + b for _, (a, b) in sorted(live.items())]


# -- names -------------------------------------------------------------------------------------------


def other(number: int) -> int:
    return number


other.__name__ = "take"


def test_two_functions_under_one_name_are_refused(place: Place) -> None:
    KNOBS["calls"] = [lambda run: take(1), lambda run: run.step(other, 1)]
    outcome = place.run(calls)
    assert isinstance(outcome.exception, StepNameTaken)
    assert "name=" in str(outcome.exception)


@step(name="take two")
def renamed(number: int) -> int:
    return number


def test_a_step_may_have_a_name_of_its_own(place: Place) -> None:
    KNOBS["calls"] = [lambda run: take(1), lambda run: renamed(1)]
    assert place.run(calls).status == "succeeded"
    assert [receipt.step for receipt in place.receipts()] == ["take", "take two"]


def test_a_lambda_is_no_step(place: Place) -> None:
    KNOBS["calls"] = [lambda run: run.step(lambda: 1)]
    assert isinstance(place.run(calls).exception, StepInvalid)


@pytest.mark.parametrize("name", ["run.now", "a/b", "a~2", "\n"])
def test_a_step_name_that_could_be_taken_for_something_else_is_refused(name: str) -> None:
    with pytest.raises(StepInvalid):
        step(name=name)(draw.plain)


@pytest.mark.parametrize("options", [{"retries": -1}, {"ignore": ["nothing"]}, {"timeout": "soon"}, {"backoff": -1}])
def test_options_that_make_no_sense_are_refused_when_the_step_is_defined(options: dict[str, Any]) -> None:
    with pytest.raises(StepInvalid):
        step(**options)(draw.plain)


# -- what cannot be an input -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (object(), "join['a']"),
        ([1, {"deep": [lambda: 1]}], "join['a'][1]['deep'][0]"),
        (float("nan"), "join['a']"),
        ({"x": float("inf")}, "join['a']['x']"),
    ],
)
def test_an_input_that_has_no_value_of_its_own_is_refused_by_path(place: Place, value: Any, path: str) -> None:
    KNOBS["calls"] = [lambda run: join(value)]
    outcome = place.run(calls)
    assert isinstance(outcome.exception, ValueRefused)
    assert outcome.exception.path == path
    assert place.count("join") == 0


def test_wrong_arguments_are_the_functions_own_type_error(place: Place) -> None:
    KNOBS["calls"] = [lambda run: join()]
    outcome = place.run(calls)
    assert isinstance(outcome.exception, TypeError)
    assert "a" in str(outcome.exception)


# -- async -------------------------------------------------------------------------------------------


@effect
async def send(text: str) -> str:
    ran(f"send {text}")
    return text


@flow
async def async_equal(run: AsyncRun) -> list[Any]:
    with run.branch("one"):
        first = await run.step(draw)
    found = [first, await run.step(draw), await run.step(draw, id="mine"), await send("x")]
    found += await run.map(take, [1, 2], concurrency=1)
    await asyncio.sleep(0)
    reach("end")
    return found


def test_scopes_ids_and_maps_are_the_same_in_an_async_flow(place: Place) -> None:
    place.crash(async_equal, at="end")
    assert [r.label for r in place.receipts()] == [
        "one/draw", "draw", "draw~2", "send", "take[0]/take", "take[0]/take~2",
    ]  # fmt: skip
    assert place.run(async_equal).result == [1, 2, 3, "x", 104, 205]
