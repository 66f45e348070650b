"""run.state: starts empty, is rebuilt by replay, and holds copies."""

from typing import Any

import pytest

from outlast import AsyncRun, Run, current, effect, flow, step
from outlast.errors import NameInvalid, StateTooLarge, ValueRefused

from ..kit.place import KNOBS, Place, ran, reach


@step
def count(name: str) -> int:
    """Counts in the state; what it wrote is in its receipt."""
    ran(f"count {name}")
    state = current().state
    state[name] = state.get(name, 0) + 1
    reach(f"counting {name}")
    return int(state[name])


@step(retries=1, backoff=0)
def writes_and_fails() -> None:
    current().state["left"] = f"by attempt {current().attempt}"
    if current().attempt == 1 or KNOBS.get("always"):
        raise ValueError("no")


@step
def deletes(name: str) -> None:
    del current().state[name]


@effect
def sends(text: str) -> str:
    current().state["sent"] = text
    return text


def counters(run: Any) -> dict[str, Any]:
    return dict(run.state)


@flow
def counts(run: Run) -> dict[str, Any]:
    assert dict(run.state) == {}
    run.state["body"] = 0
    for number in range(3):
        count("steps")
        run.state["body"] += 1
        reach(f"counted {number}")
    return counters(run)


@flow
async def counts_async(run: AsyncRun) -> dict[str, Any]:
    assert dict(run.state) == {}
    run.state["body"] = 0
    for number in range(3):
        await run.step(count, "steps")
        run.state["body"] += 1
        reach(f"counted {number}")
    return counters(run)


both = pytest.mark.parametrize("body", [counts, counts_async], ids=lambda flow: flow.__name__)


@both
def test_counters_are_right_after_three_crashes(place: Place, body: Any) -> None:
    for point in ("counted 0", "counting steps", "counted 2"):
        place.crash(body, at=point)
    assert place.run(body).result == {"body": 3, "steps": 3}
    assert place.count("count steps") == 4  # one of them died before its receipt


@flow
def survives(run: Run) -> dict[str, Any]:
    writes_and_fails()
    return counters(run)


def test_what_a_failed_attempt_wrote_is_dropped(place: Place) -> None:
    assert place.run(survives).result == {"left": "by attempt 2"}


@flow
def catches(run: Run) -> dict[str, Any]:
    run.state["before"] = 1
    try:
        writes_and_fails()
    except ValueError:
        reach("caught")
    return counters(run)


def test_a_step_that_failed_for_good_wrote_nothing(place: Place) -> None:
    KNOBS["always"] = True
    place.crash(catches, at="caught")
    assert place.run(catches).result == {"before": 1}


@flow
def copies(run: Run) -> list[Any]:
    given = [1]
    run.state["list"] = given
    given.append(2)
    run.state["list"].append(3)
    return [run.state["list"], run.state.get("nothing"), run.state.pop("list"), "list" in run.state, len(run.state)]


def test_reads_and_writes_are_copies(place: Place) -> None:
    assert place.run(copies).result == [[1], None, [1], False, 0]


@flow
def deletes_by_step(run: Run) -> dict[str, Any]:
    run.state["a"], run.state["b"] = 1, 2
    deletes("a")
    reach("deleted")
    del run.state["b"]
    run.state["c"] = 3
    return counters(run)


def test_a_name_deleted_by_a_step_stays_deleted_on_replay(place: Place) -> None:
    place.crash(deletes_by_step, at="deleted")
    assert place.run(deletes_by_step).result == {"c": 3}


@flow
def effect_writes(run: Run) -> dict[str, Any]:
    sends("x")
    reach("sent")
    return counters(run)


def test_what_an_effect_wrote_is_replayed_with_it(place: Place) -> None:
    place.crash(effect_writes, at="sent")
    assert place.run(effect_writes).result == {"sent": "x"}


@flow
def writes(run: Run) -> dict[str, Any]:
    run.state[KNOBS["name"]] = KNOBS["value"]
    return counters(run)


@pytest.mark.parametrize("value", [object(), (1, 2), {1: 2}, float("nan"), {"deep": [object()]}])
def test_a_value_that_is_not_plain_json_is_refused_by_path(place: Place, value: Any) -> None:
    KNOBS.update(name="thing", value=value)
    outcome = place.run(writes)
    assert isinstance(outcome.exception, ValueRefused)
    assert outcome.exception.path.startswith("state['thing']")


def test_a_name_must_be_text(place: Place) -> None:
    KNOBS.update(name=1, value=1)
    assert isinstance(place.run(writes).exception, NameInvalid)


def test_state_is_limited_to_64_kib_in_all(place: Place) -> None:
    KNOBS.update(name="a", value="x" * (64 * 1024 - 3))
    assert place.run(writes).status == "succeeded"
    KNOBS["value"] = "x" * (64 * 1024 - 2)
    outcome = place.run(writes)
    assert isinstance(outcome.exception, StateTooLarge)
    assert (outcome.exception.limit_bytes, outcome.exception.path) == (64 * 1024, "state['a']")


def test_a_step_cannot_pass_the_limit_either(place: Place) -> None:
    assert isinstance(place.run(step_writes_much).exception, StateTooLarge)


@step
def much() -> None:
    current().state["much"] = "x" * 70_000


@flow
def step_writes_much(run: Run) -> None:
    much()


@flow
def reads_in_step(run: Run) -> int:
    run.state["given"] = 41
    return read()


@step
def read() -> int:
    return int(current().state["given"]) + 1


def test_a_step_sees_what_the_body_wrote(place: Place) -> None:
    assert place.run(reads_in_step).result == 42


def test_receipts_carry_the_state_that_was_written(place: Place) -> None:
    place.run(counts)
    assert [receipt.envelope.state for receipt in place.receipts()] == [
        {"body": 0, "steps": 1},
        {"body": 1, "steps": 2},
        {"body": 2, "steps": 3},
    ]
