"""run.map for many items of which some are bad: failures collected, items known by their keys."""

import asyncio
import time
from typing import Any

import pytest

from outlast import AsyncRun, Failed, NotDone, Ok, Run, effect, flow, step, unwrap_all
from outlast.errors import MapKeyTaken, NameInvalid, StepFailed, ValueRefused

from ..kit.place import KNOBS, Place, ran, reach

ITEMS = 40


class Unpicklable(Exception):
    """Takes more than its arguments say: it cannot be rebuilt."""

    def __init__(self, where: str) -> None:
        super().__init__(f"at {where}")
        self.handle = object()


def work(item: int) -> int:
    ran(f"item {item}")
    if item in KNOBS.get("bad", ()):
        raise ValueError(f"no {item}")
    if item == KNOBS.get("odd"):
        raise Unpicklable(str(item))
    return item * 10


@step
def fetch(item: int) -> int:
    return work(item)


@step
async def fetch_async(item: int) -> int:
    await asyncio.sleep(0)
    return work(item)


def summary(results: list[Ok[int] | Failed]) -> list[str]:
    reach("mapped")
    if KNOBS.get("all or nothing"):
        return [str(value) for value in unwrap_all(results)]
    return [one.error.args[0] if isinstance(one, Failed) else str(one.value) for one in results]


@flow
def plain_of_plain(run: Run) -> list[str]:
    return summary(run.map(fetch, range(ITEMS), concurrency=4, on_error="collect"))


@flow
def plain_of_async(run: Run) -> list[str]:
    return summary(run.map(fetch_async, range(ITEMS), concurrency=4, on_error="collect"))


@flow
async def async_of_plain(run: AsyncRun) -> list[str]:
    return summary(await run.map(fetch, range(ITEMS), concurrency=4, on_error="collect"))


@flow
async def async_of_async(run: AsyncRun) -> list[str]:
    return summary(await run.map(fetch_async, range(ITEMS), concurrency=4, on_error="collect"))


every_mix = pytest.mark.parametrize(
    "body", [plain_of_plain, plain_of_async, async_of_plain, async_of_async], ids=lambda flow: flow.__name__
)
both = pytest.mark.parametrize("body", [plain_of_plain, async_of_async], ids=lambda flow: flow.__name__)


def expected(bad: set[int]) -> list[str]:
    return [f"no {item}" if item in bad else str(item * 10) for item in range(ITEMS)]


# -- one bad item does not stop the others -----------------------------------------------------------


@every_mix
def test_bad_items_do_not_stop_the_others_and_the_run_may_succeed(place: Place, body: Any) -> None:
    KNOBS["bad"] = {0, 7, 39}
    outcome = place.run(body)
    assert (outcome.status, outcome.result) == ("succeeded", expected({0, 7, 39}))
    assert len(place.ran) == ITEMS


@every_mix
def test_a_replay_collects_the_same_failures_and_runs_nothing(place: Place, body: Any) -> None:
    KNOBS["bad"] = {0, 7, 39}
    place.crash(body, at="mapped")
    KNOBS["bad"] = set()
    outcome = place.run(body)
    assert (outcome.result, outcome.replayed_steps) == (expected({0, 7, 39}), ITEMS)
    assert len(place.ran) == ITEMS


@every_mix
def test_a_resume_tries_all_that_failed_and_only_those(place: Place, body: Any) -> None:
    KNOBS.update({"bad": {0, 7, 39}, "all or nothing": True})
    outcome = place.run(body)
    assert outcome.status == "failed"
    assert isinstance(outcome.exception, ExceptionGroup)
    assert [str(error) for error in outcome.exception.exceptions] == ["no 0", "no 7", "no 39"]
    KNOBS["bad"] = {7}
    before = len(place.ran)
    assert place.run(body).status == "failed"
    assert sorted(place.ran[before:]) == ["item 0", "item 39", "item 7"]
    KNOBS["bad"] = set()
    assert place.run(body).result == expected(set())
    assert place.ran[before + 3 :] == ["item 7"]


@both
def test_a_failure_that_cannot_be_rebuilt_is_collected_the_same_live_and_on_replay(place: Place, body: Any) -> None:
    KNOBS["odd"] = 3
    place.crash(body, at="mapped")
    live = place.receipts()
    assert len(live) == ITEMS
    assert place.run(body).result[3] == "fetch" + (
        "_async" if body is async_of_async else ""
    )  # StepFailed's first fact
    assert place.outlast.replay(place.run_id).divergences == ()


@flow
def raises_one(run: Run) -> int:
    results = run.map(fetch, range(3), on_error="collect")
    return sum(one.unwrap() for one in results)


def test_a_collected_failure_that_ends_the_run_is_tried_again(place: Place) -> None:
    KNOBS["bad"] = {1}
    outcome = place.run(raises_one)
    assert (outcome.status, str(outcome.exception)) == ("failed", "no 1")
    KNOBS["bad"] = set()
    assert place.run(raises_one).result == 30
    assert sorted(place.ran[:3]) == ["item 0", "item 1", "item 2"]  # in threads: whichever comes first
    assert place.ran[3:] == ["item 1"]


@flow
def raises_another(run: Run) -> int:
    results = run.map(fetch, range(3), on_error="collect")
    reach("mapped")
    if any(isinstance(one, Failed) for one in results):
        raise RuntimeError("not good enough")
    return len(results)


def test_a_person_lets_one_collected_failure_be_tried_again_by_its_label(place: Place) -> None:
    KNOBS["bad"] = {1}
    assert place.run(raises_another).status == "failed"
    KNOBS["bad"] = set()
    assert str(place.run(raises_another).exception) == "not good enough"  # what was collected is an outcome
    place.outlast.retry(place.run_id, "fetch[0]/fetch~2")
    assert place.run(raises_another).result == 3


# -- what a result is --------------------------------------------------------------------------------


@flow
def shows_results(run: Run) -> list[list[Any]]:
    results = run.map(fetch, [5, 6], key=lambda item: f"k{item}", on_error="collect")
    return [[type(one).__name__, one.item, one.key] for one in results]


def test_a_result_knows_its_item_and_its_key(place: Place) -> None:
    KNOBS["bad"] = {6}
    assert place.run(shows_results).result == [["Ok", 1, "k5"], ["Failed", 2, "k6"]]


def test_a_collected_error_keeps_no_frames(place: Place) -> None:
    KNOBS["bad"] = {1}
    KNOBS["kept"] = []
    place.run(keeps_errors)
    assert [error.__traceback__ for error in KNOBS["kept"]] == [None]
    (receipt,) = [receipt for receipt in place.receipts() if receipt.status == "failed"]
    assert "in work" in receipt.error["trace"]


@flow
def keeps_errors(run: Run) -> None:
    KNOBS["kept"] += [one.error for one in run.map(fetch, range(2), on_error="collect") if isinstance(one, Failed)]


@flow
def nothing_to_do(run: Run) -> list[Any]:
    return [run.map(fetch, [], on_error="collect"), unwrap_all([]), run.map(fetch, [], key=str)]


def test_a_map_over_nothing_is_an_empty_list(place: Place) -> None:
    assert place.run(nothing_to_do).result == [[], [], []]


# -- effects and waits -------------------------------------------------------------------------------


@effect
def charge(item: int) -> int:
    ran(f"charge {item}")
    if item == KNOBS.get("doubtful"):
        raise RuntimeError("was that charged")
    if item == KNOBS.get("refused"):
        raise NotDone("no such card")
    return item


@flow
def charges(run: Run) -> list[str]:
    return [type(one).__name__ for one in run.map(charge, [1, 2, 3], concurrency=2, on_error="collect")]


@flow
async def charges_async(run: AsyncRun) -> list[str]:
    return [type(one).__name__ for one in await run.map(charge, [1, 2, 3], concurrency=2, on_error="collect")]


@pytest.mark.parametrize("body", [charges, charges_async], ids=lambda flow: flow.__name__)
def test_an_effect_in_doubt_is_asked_about_and_never_collected_as_a_failure(place: Place, body: Any) -> None:
    KNOBS.update({"doubtful": 1, "refused": 2})
    outcome = place.run(body)
    assert (outcome.status, [wait.step for wait in outcome.interrupts]) == ("waiting", ["charge[0]/charge"])
    assert sorted(place.ran) == ["charge 1", "charge 2", "charge 3"]
    place.outlast.answer(outcome.interrupts[0].id, {"choice": "skip", "result": 1, "why": "seen"})
    assert place.run(body).result == ["Ok", "Failed", "Ok"]
    assert len(place.ran) == 3


# -- keys --------------------------------------------------------------------------------------------


@step
def measure(sample: dict[str, Any]) -> float:
    ran(f"measure {sample['name']}")
    reach(f"measure {sample['name']}")
    return float(sample["size"])


def samples(names: str) -> list[dict[str, Any]]:
    return [{"name": name, "size": ord(name)} for name in names]


@flow
def measured(run: Run) -> list[float]:
    found = run.map(measure, KNOBS["samples"], key=lambda sample: sample["name"], concurrency=1)
    reach("measured")
    return found


@flow
async def measured_async(run: AsyncRun) -> list[float]:
    found = await run.map(measure, KNOBS["samples"], key=lambda sample: sample["name"], concurrency=1)
    reach("measured")
    return found


both_measure = pytest.mark.parametrize("body", [measured, measured_async], ids=lambda flow: flow.__name__)


@both_measure
def test_items_that_are_reordered_and_added_replay_by_their_keys(place: Place, body: Any) -> None:
    KNOBS["samples"] = samples("abc")
    place.crash(body, at="measured")
    KNOBS["samples"] = samples("dcba")
    assert place.run(body).result == [100.0, 99.0, 98.0, 97.0]
    assert place.ran == ["measure a", "measure b", "measure c", "measure d"]


@both_measure
def test_an_item_whose_content_changed_runs_again_under_its_key(place: Place, body: Any) -> None:
    KNOBS["samples"] = samples("abc")
    place.crash(body, at="measured")
    KNOBS["samples"] = [*samples("a"), {"name": "b", "size": 7}, *samples("c")]
    assert place.run(body).result == [97.0, 7.0, 99.0]
    assert place.ran[3:] == ["measure b"]


@both_measure
def test_receipts_are_labelled_by_key(place: Place, body: Any) -> None:
    KNOBS["samples"] = [{"name": name, "size": 1} for name in ("kelp", "two words", "it's 🐙", "s3://bay/../a~b.csv")]
    place.run(body)
    labels = [receipt.label for receipt in place.receipts()]
    assert labels == [f"measure[0]/measure~{sample['name']}" for sample in KNOBS["samples"]]
    assert place.outlast.verify(place.run_id).ok


@both_measure
def test_two_items_of_one_key_are_refused_before_anything_runs_and_both_are_named(place: Place, body: Any) -> None:
    KNOBS["samples"] = samples("abca")
    outcome = place.run(body)
    assert isinstance(outcome.exception, MapKeyTaken)
    assert "items 1 and 4 both have the key 'a'" in str(outcome.exception)
    assert place.ran == []


@pytest.mark.parametrize("key", ["", "x" * 10_000, "line\nbreak", None, 1.5, True, ["a"]])
def test_what_cannot_be_a_key_is_refused_and_the_item_is_named(place: Place, key: Any) -> None:
    KNOBS["samples"] = [*samples("a"), {"name": key, "size": 1}]
    outcome = place.run(measured)
    assert isinstance(outcome.exception, NameInvalid)
    assert "key of item 2 of map measure" in str(outcome.exception)
    assert place.ran == []


@flow
def numbered_keys(run: Run) -> list[int]:
    return run.map(fetch, [7, 8], key=lambda item: item)


def test_whole_numbers_are_keys_too(place: Place) -> None:
    place.run(numbered_keys)
    assert {receipt.label for receipt in place.receipts()} == {"fetch[0]/fetch~7", "fetch[0]/fetch~8"}


# -- numbers -----------------------------------------------------------------------------------------


@step
def backwards(item: int) -> int:
    """Items end in the opposite order."""
    waits, done = KNOBS["events"]["waits"], KNOBS["events"]["done"]
    if item < 3:
        assert waits[item].wait(20)
    done[item] = True
    if item > 1:
        waits[item - 1].set()
    return item


@flow
def ends_backwards(run: Run) -> list[int]:
    return run.map(backwards, [1, 2, 3], concurrency=3)


def test_the_number_of_a_label_is_that_of_the_item_whichever_ended_first(place: Place) -> None:
    import threading

    KNOBS["events"] = {"waits": {1: threading.Event(), 2: threading.Event()}, "done": {}}
    place.run(ends_backwards)
    found = {receipt.label: receipt.result for receipt in place.receipts()}
    assert found == {
        "backwards[0]/backwards": 1,
        "backwards[0]/backwards~2": 2,
        "backwards[0]/backwards~3": 3,
    }
    assert list(KNOBS["events"]["done"]) == [3, 2, 1]


@flow
def grows(run: Run) -> list[int]:
    found = run.map(fetch, KNOBS["items"], concurrency=1)
    reach("mapped")
    return found


def test_no_two_calls_have_one_label_when_items_come_in_front(place: Place) -> None:
    KNOBS["items"] = [1, 2]
    place.crash(grows, at="mapped")
    KNOBS["items"] = [8, 9, 1, 2]
    place.run(grows)
    labels = {receipt.result // 10: receipt.label for receipt in place.receipts()}
    assert labels == {1: "fetch[0]/fetch", 2: "fetch[0]/fetch~2", 8: "fetch[0]/fetch~3", 9: "fetch[0]/fetch~4"}


# -- what is refused ---------------------------------------------------------------------------------


@flow
def asks_wrongly(run: Run) -> Any:
    return run.map(fetch, [1], on_error=KNOBS["on_error"])


@pytest.mark.parametrize("on_error", ["ignore", "", None, True])
def test_another_word_for_on_error_is_refused(place: Place, on_error: Any) -> None:
    KNOBS["on_error"] = on_error
    outcome = place.run(asks_wrongly)
    assert isinstance(outcome.exception, NameInvalid)
    assert "it is stop or collect" in str(outcome.exception)


@step
def takes(value: Any) -> None:
    ran("took")


@flow
def has_a_live_item(run: Run) -> Any:
    return run.map(takes, [1, 2, object()], on_error="collect")


def test_an_item_that_cannot_be_stored_is_refused_before_anything_runs_and_named(place: Place) -> None:
    outcome = place.run(has_a_live_item)
    assert isinstance(outcome.exception, ValueRefused)
    assert str(outcome.exception).startswith("item 3: takes['value'] cannot be stored")
    assert place.ran == []


def test_unwrap_all_gives_the_values_or_all_the_failures() -> None:
    assert unwrap_all([Ok(1), Ok(2)]) == [1, 2]
    with pytest.raises(ExceptionGroup, match="2 of 3 items failed") as caught:
        unwrap_all([Ok(1), Failed(ValueError("a")), Failed(StepFailed("s", "T", "b"))])
    assert len(caught.value.exceptions) == 2


# -- many --------------------------------------------------------------------------------------------


@step
def tiny(item: int) -> int:
    if item % 5 == 0:
        raise ValueError("fifth")
    return item


@step
async def tiny_async(item: int) -> int:
    if item % 5 == 0:
        raise ValueError("fifth")
    return item


@flow
def many(run: Run, count: int) -> int:
    return sum(isinstance(one, Ok) for one in run.map(tiny, range(count), on_error="collect"))


@flow
async def many_async(run: AsyncRun, count: int) -> int:
    results = await run.map(tiny_async, range(count), on_error="collect")
    if KNOBS.get("all or nothing"):
        unwrap_all(results)
    return sum(isinstance(one, Ok) for one in results)


def cpu_of(place: Place, body: Any, count: int) -> float:
    began = time.process_time()
    assert place.fresh(body, count).result == count * 4 // 5
    return time.process_time() - began


@pytest.mark.parametrize("body", [many, many_async], ids=lambda flow: flow.__name__)
def test_the_cost_of_an_item_does_not_grow_with_their_number(place: Place, body: Any) -> None:
    small = min(cpu_of(place, body, 250) for _ in range(3))
    large = min(cpu_of(place, body, 1_000) for _ in range(3))
    assert large < small * 8


def test_more_failures_than_are_usually_remembered_are_all_tried_again(place: Place) -> None:
    KNOBS["all or nothing"] = True
    outcome = place.run(many_async, 6_000)
    assert isinstance(outcome.exception, ExceptionGroup)
    assert len(outcome.exception.exceptions) == 1_200
    place.run(many_async, 6_000)
    attempts = [receipt.attempt for receipt in place.receipts() if receipt.status == "failed"]
    assert (attempts.count(1), attempts.count(2)) == (1_200, 1_200)
