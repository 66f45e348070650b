"""A call whose inputs changed: a plain step runs again, a finished effect waits for a decision."""

from typing import Any

import pytest

from outlast import KEY, AsyncRun, NotDone, Run, effect, flow, step
from outlast.errors import AnswerInvalid

from ..kit.place import KNOBS, Place, ran, reach


@step
def measure(what: str) -> str:
    ran(f"measure {what}")
    return f"size of {what}"


@effect
def send(text: str, *, key: str = KEY) -> str:
    ran(f"send {text}")
    reach(f"sending {text}")
    if KNOBS.get("trouble"):
        raise KNOBS["trouble"]
    return f"sent {text}"


@flow
def reports(run: Run) -> list[str]:
    """What it measures and sends depends on the code of today, which the test plays."""
    found = [measure(what) for what in KNOBS["measure"]]
    found += [send(text) for text in KNOBS["send"]]
    reach("end")
    return found


@flow
async def reports_async(run: AsyncRun) -> list[str]:
    found = [str(await run.step(measure, what)) for what in KNOBS["measure"]]
    found += [str(await run.effect(send, text)) for text in KNOBS["send"]]
    reach("end")
    return found


both = pytest.mark.parametrize("body", [reports, reports_async], ids=lambda flow: flow.__name__)


def today(measure: list[str], send: list[str]) -> None:
    KNOBS.update(measure=measure, send=send)


# -- steps -------------------------------------------------------------------------------------------


@both
def test_a_plain_step_with_other_inputs_runs_again_and_the_old_receipt_is_reported(place: Place, body: Any) -> None:
    today(["a", "b"], [])
    place.crash(body, at="end")
    today(["a", "c"], [])
    outcome = place.run(body)
    assert outcome.result == ["size of a", "size of c"]
    assert outcome.unasked == ("measure~2",)
    assert place.count("measure a") == 1


def test_what_was_never_asked_for_is_on_the_record(place: Place) -> None:
    today(["a", "b"], [])
    place.crash(reports, at="end")
    today([], [])
    assert place.run(reports).unasked == ("measure", "measure~2")
    (ended,) = place.events("run.succeeded")
    assert ended.body["unasked"] == ["measure", "measure~2"]


def test_a_step_whose_inputs_changed_is_noted(place: Place) -> None:
    today(["a"], [])
    place.crash(reports, at="end")
    today(["b"], [])
    place.run(reports)
    assert "inputs_changed" in str([event.body for event in place.outlast.events(place.run_id)])


def test_an_effect_nobody_asked_for_again_is_reported(place: Place) -> None:
    today([], ["a"])
    place.crash(reports, at="end")
    today(["x"], [])
    assert place.run(reports).unasked == ("send",)


# -- effects -----------------------------------------------------------------------------------------


@pytest.fixture
def changed(place: Place) -> Place:
    """An effect was done with `a`; today the body asks for `b`."""
    today([], ["a"])
    place.crash(reports, at="end")
    today([], ["b"])
    outcome = place.run(reports)
    assert [wait.type for wait in outcome.interrupts] == ["inputs_changed"]
    assert outcome.interrupts[0].choices == ("reuse", "again", "abort")
    assert place.count("send b") == 0
    return place


def decide(place: Place, choice: str) -> None:
    (wait,) = place.outlast.interrupts()
    place.outlast.answer(wait.id, {"choice": choice, "why": "I looked"})


def test_reuse_gives_the_old_result_to_the_new_call(changed: Place) -> None:
    decide(changed, "reuse")
    outcome = changed.run(reports)
    assert (outcome.result, outcome.unasked) == (["sent a"], ())
    assert changed.count("send b") == 0


def test_again_runs_the_effect_with_the_new_inputs(changed: Place) -> None:
    decide(changed, "again")
    assert changed.run(reports).result == ["sent b"]
    assert (changed.count("send a"), changed.count("send b")) == (1, 1)


def test_abort_ends_the_run(changed: Place) -> None:
    decide(changed, "abort")
    assert changed.outlast.get(changed.run_id).status == "aborted"


def test_a_retry_is_no_answer_to_changed_inputs(changed: Place) -> None:
    with pytest.raises(AnswerInvalid):
        decide(changed, "retry")


def test_the_decision_stands_after_another_crash(changed: Place) -> None:
    decide(changed, "reuse")
    changed.crash(reports, at="end")
    assert changed.run(reports).result == ["sent a"]


def test_going_back_to_the_old_inputs_needs_no_decision(changed: Place) -> None:
    today([], ["a"])
    outcome = changed.run(reports)
    assert outcome.status == "waiting"  # nothing was answered, so the body was not run again
    outcome = changed.outlast.resume(changed.run_id)
    assert (outcome.status, outcome.result) == ("succeeded", ["sent a"])
    assert changed.outlast.interrupts() == []


@both
def test_a_further_effect_is_no_change(place: Place, body: Any) -> None:
    today([], ["a"])
    place.crash(body, at="end")
    today([], ["a", "b"])
    assert place.run(body).result == ["sent a", "sent b"]


@both
def test_an_effect_put_in_front_of_a_finished_one_asks(place: Place, body: Any) -> None:
    today([], ["a"])
    place.crash(body, at="end")
    today([], ["z", "a"])
    assert [wait.type for wait in place.run(body).interrupts] == ["inputs_changed"]
    decide(place, "again")
    assert place.run(body).result == ["sent z", "sent a"]
    assert place.count("send a") == 1


def test_an_effect_in_doubt_under_other_inputs_asks_as_well(place: Place) -> None:
    today([], ["a"])
    place.crash(reports, at="sending a")
    today([], ["b"])
    assert [wait.type for wait in place.run(reports).interrupts] == ["inputs_changed"]
    decide(place, "again")
    assert place.run(reports).result == ["sent b"]


def test_what_is_in_doubt_has_no_result_to_reuse(place: Place) -> None:
    today([], ["a"])
    place.crash(reports, at="sending a")
    today([], ["b"])
    place.run(reports)
    with pytest.raises(AnswerInvalid):
        decide(place, "reuse")


def test_an_effect_that_said_not_done_leaves_nothing_over(place: Place) -> None:
    today([], ["a"])
    KNOBS["trouble"] = NotDone("full")
    assert place.run(reports).status == "failed"
    del KNOBS["trouble"]
    today([], ["b"])
    assert place.run(reports).result == ["sent b"]


# -- ids ---------------------------------------------------------------------------------------------


@flow
def by_id(run: Run) -> list[str]:
    found = [run.step(measure, KNOBS["measure"], id="the-one"), run.effect(send, KNOBS["send"], id="the-mail")]
    reach("end")
    return found


def given(measure: str, send: str) -> None:
    KNOBS.update(measure=measure, send=send)


def test_a_step_with_an_id_and_other_inputs_runs_again_as_its_next_attempt(place: Place) -> None:
    given("a", "x")
    place.crash(by_id, at="end")
    given("b", "x")
    assert place.run(by_id).result == ["size of b", "sent x"]
    assert [(r.attempt, r.result) for r in place.receipts("measure")] == [(1, "size of a"), (2, "size of b")]


def test_reuse_settles_an_effect_with_an_id(place: Place) -> None:
    given("a", "x")
    place.crash(by_id, at="end")
    given("a", "y")
    assert [wait.type for wait in place.run(by_id).interrupts] == ["inputs_changed"]
    decide(place, "reuse")
    assert place.run(by_id).result == ["size of a", "sent x"]
    assert place.count("send y") == 0


def test_again_settles_an_effect_with_an_id(place: Place) -> None:
    given("a", "x")
    place.crash(by_id, at="end")
    given("a", "y")
    place.run(by_id)
    decide(place, "again")
    assert place.run(by_id).result == ["size of a", "sent y"]
    assert (place.count("send x"), place.count("send y")) == (1, 1)


def test_a_skip_stands_for_a_call_with_an_id(place: Place) -> None:
    given("a", "x")
    place.crash(by_id, at="sending x")
    place.run(by_id)
    place.outlast.skip(place.run_id, "send", result="by hand", why="seen")
    assert place.run(by_id).result == ["size of a", "by hand"]
    assert place.count("send x") == 1


# -- maps --------------------------------------------------------------------------------------------


@flow
def maps(run: Run) -> list[str]:
    found = run.map(send, KNOBS["send"], concurrency=1)
    reach("end")
    return found


def test_items_put_into_a_map_are_no_changed_inputs_of_items_that_are_still_there(place: Place) -> None:
    KNOBS["send"] = ["c"]
    place.crash(maps, at="end")
    KNOBS["send"] = ["a", "b", "c"]
    assert place.run(maps).result == ["sent a", "sent b", "sent c"]
    assert place.count("send c") == 1


def test_an_item_of_a_map_that_changed_asks(place: Place) -> None:
    KNOBS["send"] = ["a", "b"]
    place.crash(maps, at="end")
    KNOBS["send"] = ["a", "z"]
    assert [wait.type for wait in place.run(maps).interrupts] == ["inputs_changed"]
