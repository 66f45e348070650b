"""Waits of a flow: saved before anyone sees them, answered once, given to the flow for good."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from outlast import AsyncOutlast, AsyncRun, Outcome, Run, flow, step
from outlast.errors import (
    AlreadyAnswered,
    AnswerInvalid,
    DeadlinePassed,
    Invalid,
    NameInvalid,
    OperationConflict,
    Refused,
    RunFinished,
    RunSealed,
    ValueRefused,
    WaitCancelled,
)
from outlast.home.home import run_row

from ..kit.place import KNOBS, Place, ran, reach

HOUR = 3600


@dataclass(frozen=True)
class Choice:
    colour: str
    count: int = 1


@step
def work(what: str) -> str:
    reach(what)
    ran(what)
    return what.upper()


@flow
def asking(run: Run) -> Any:
    work("before")
    answer = run.pause_for(KNOBS.get("type", "approval"), payload=KNOBS.get("payload"), **KNOBS.get("how", {}))
    work("after")
    return answer


@flow
def choosing(run: Run) -> Choice:
    chosen = run.pause_for("decision", schema=Choice)
    assert isinstance(chosen, Choice)
    return chosen


@flow
def forgiving(run: Run) -> str:
    try:
        run.pause_for("decision", **KNOBS.get("how", {}))
    except (DeadlinePassed, WaitCancelled) as error:
        return f"{error.code}: {error.facts.get('why', '')}"
    return "answered"


@flow
def twice(run: Run) -> list[Any]:
    return [run.pause_for("input"), run.pause_for("input", payload={"question": "And then?"})]


@flow
async def three(run: AsyncRun) -> list[str]:
    async def branch(name: str) -> str:
        answer = await run.pause_for("input", payload={"question": name})
        return str(await run.step(work, f"{name} {answer}"))

    return list(await asyncio.gather(*(branch(name) for name in ("a", "b", "c"))))


@flow
def listening(run: Run) -> list[Any]:
    return [run.wait_for("news", **KNOBS.get("how", {})) for _ in range(KNOBS.get("count", 1))]


@flow
async def listening_beside(run: AsyncRun) -> list[Any]:
    async def one(name: str) -> Any:
        return await run.wait_for(name)

    return list(await asyncio.gather(one("left"), one("right")))


@step
def pausing_step(run_id: str) -> None:
    from outlast import current

    current().pause_for("approval")  # type: ignore[unused-coroutine]


@flow
def wrong(run: Run) -> None:
    pausing_step(run.id)


def seal(place: Place, run_id: str) -> None:
    """As a move to another home leaves a run behind."""
    run = run_row(place.outlast._executor.home, run_id)
    place.outlast._executor.home.store.write(lambda tx: tx.seal_run(run.key, "moved", run.status))


def only_wait(outcome: Outcome[Any]) -> str:
    assert outcome.status == "waiting"
    (wait,) = outcome.interrupts
    return wait.id


# -- answers -----------------------------------------------------------------------------------------


def test_an_approval_is_asked_saved_and_told(place: Place) -> None:
    KNOBS["payload"] = {"artifact": "report.md"}
    first = place.outlast.run(asking)
    (wait,) = first.interrupts
    assert (wait.type, wait.step, wait.payload) == ("approval", "approval", {"artifact": "report.md"})
    place.reopen()
    assert place.outlast.run(asking).interrupts[0].id == wait.id
    place.outlast.answer(wait.id, {"approved": True, "comment": "go"}, shown=wait.digest)
    place.reopen()
    done = place.outlast.run(asking)
    assert done.unwrap() == {"approved": True, "comment": "go"}
    assert place.ran == ["before", "after"]


def test_a_decline_is_told_to_the_flow_too(place: Place) -> None:
    wait = only_wait(place.outlast.run(asking))
    place.outlast.answer(wait, {"approved": False})
    assert place.outlast.run(asking).unwrap() == {"approved": False}


@pytest.mark.parametrize(
    "answer", [{}, {"approved": "yes"}, {"approved": True, "more": 1}, None, "yes", {"comment": "x"}]
)
def test_an_answer_that_does_not_fit_leaves_the_wait_open(place: Place, answer: Any) -> None:
    wait = only_wait(place.outlast.run(asking))
    with pytest.raises(AnswerInvalid):
        place.outlast.answer(wait, answer)
    place.outlast.answer(wait, {"approved": True})


def test_an_answer_fits_the_schema_and_comes_back_as_the_type(place: Place) -> None:
    wait = only_wait(place.outlast.run(choosing))
    for bad in ({"colour": 1}, {"count": 2}, [], {"colour": "red", "count": "two"}):
        with pytest.raises(AnswerInvalid, match="answer"):
            place.outlast.answer(wait, bad)
    place.outlast.answer(wait, {"colour": "red", "count": 2})
    assert place.outlast.run(choosing).unwrap() == Choice("red", 2)


def test_a_json_schema_says_what_is_wrong_by_path(place: Place) -> None:
    items = {"type": "array", "items": {"type": "integer", "minimum": 1}, "maxItems": 2}
    schema = {"type": "object", "properties": {"pick": {"enum": ["a", "b"]}, "n": items}, "required": ["pick"]}
    KNOBS["type"], KNOBS["how"] = "input", {"schema": schema}
    wait = only_wait(place.outlast.run(asking))
    for bad, said in (
        ({"pick": "c"}, "answer.pick is none of"),
        ({}, "answer.pick is missing"),
        ({"pick": "a", "n": [1, 0]}, r"answer.n\[1\] is less than 1"),
        ({"pick": "a", "n": [1, 2, 3]}, "more than 2 items"),
    ):
        with pytest.raises(AnswerInvalid, match=said):
            place.outlast.answer(wait, bad)
    place.outlast.answer(wait, {"pick": "a", "n": [1, 2]})
    assert place.outlast.run(asking).unwrap() == {"pick": "a", "n": [1, 2]}


@pytest.mark.parametrize(
    ("kind", "how", "error"),
    [
        ("in_doubt", {}, NameInvalid),
        ("timer", {}, NameInvalid),
        ("two words", {}, NameInvalid),
        ("", {}, NameInvalid),
        ("approval", {"schema": {"type": "object"}}, NameInvalid),
        ("input", {"schema": {"type": "text"}}, ValueRefused),
        ("input", {"schema": {"oneOf": []}}, ValueRefused),
        ("input", {"default": 1}, NameInvalid),
        ("input", {"deadline": "1h", "default": 1, "schema": {"type": "string"}}, ValueRefused),
        ("input", {"deadline": "soon"}, NameInvalid),
        ("input", {"deadline": -5}, NameInvalid),
        ("input", {"deadline": timedelta(seconds=-5)}, NameInvalid),
        ("input", {"deadline": timedelta.max}, NameInvalid),
        ("input", {"deadline": timedelta(days=365 * 9000)}, NameInvalid),
        ("input", {"deadline": datetime.max.replace(tzinfo=UTC)}, NameInvalid),
        ("input", {"deadline": datetime.min.replace(tzinfo=UTC)}, NameInvalid),
        ("input", {"deadline": datetime(2026, 1, 1)}, NameInvalid),
        ("input", {"assignee": "a\nb"}, NameInvalid),
    ],
)
def test_what_cannot_be_asked_fails_the_run_by_name(place: Place, kind: str, how: dict[str, Any], error: type) -> None:
    KNOBS["type"], KNOBS["how"] = kind, how
    outcome = place.outlast.run(asking)
    assert outcome.status == "failed"
    with pytest.raises(error):
        outcome.unwrap()
    assert place.outlast.inbox() == place.outlast.interrupts() == []


def test_a_deadline_that_is_none_is_called_one(place: Place) -> None:
    KNOBS["how"] = {"deadline": "soon"}
    with pytest.raises(NameInvalid, match="deadline 'soon' cannot be used: it is no time to come"):
        place.outlast.run(asking).unwrap()


def test_a_live_object_in_the_payload_is_refused_by_path(place: Place) -> None:
    KNOBS["payload"] = {"a": [object()]}
    with pytest.raises(ValueRefused, match=r"payload\['a'\]\[0\]"):
        place.outlast.run(asking).unwrap()


def test_a_step_cannot_wait(place: Place) -> None:
    with pytest.raises(Refused, match="body waits, not a step"):
        place.outlast.run(wrong).unwrap()


def test_one_of_many_answers_wins_and_the_run_goes_on_once(place: Place) -> None:
    from concurrent.futures import ThreadPoolExecutor

    wait = only_wait(place.outlast.run(asking))

    def answer(number: int) -> str:
        try:
            place.outlast.answer(wait, {"approved": True, "comment": str(number)})
        except AlreadyAnswered:
            return "conflict"
        return str(number)

    with ThreadPoolExecutor(32) as pool:
        said = list(pool.map(answer, range(32)))
    (winner,) = [one for one in said if one != "conflict"]
    assert place.outlast.run(asking).unwrap()["comment"] == winner
    assert place.ran == ["before", "after"]


def test_a_redelivered_answer_gives_the_first_and_runs_nothing_twice(place: Place) -> None:
    wait = only_wait(place.outlast.run(asking))
    first = place.outlast.answer(wait, {"approved": True}, operation_id="op")
    place.outlast.run(asking).unwrap()
    again = place.outlast.answer(wait, {"approved": True}, operation_id="op")
    assert (first.replayed, again.replayed) == (False, True)
    with pytest.raises(OperationConflict):
        place.outlast.answer(wait, {"approved": False}, operation_id="op")
    with pytest.raises(AlreadyAnswered):
        place.outlast.answer(wait, {"approved": True})
    assert place.ran == ["before", "after"]


def test_an_answer_to_another_question_than_was_shown_is_refused(place: Place) -> None:
    wait = only_wait(place.outlast.run(asking))
    with pytest.raises(AnswerInvalid, match="not what was shown"):
        place.outlast.answer(wait, {"approved": True}, shown="0" * 32)


@pytest.mark.parametrize(("version", "status"), [(1, "succeeded"), (2, "waiting")])
def test_after_a_rewind_an_old_answer_counts_only_if_the_payload_is_equal(
    place: Place, version: int, status: str
) -> None:
    KNOBS["payload"], KNOBS["raise"] = {"version": 1}, ("after", ValueError("not yet"))
    outcome = place.outlast.run(asking)
    place.outlast.answer(only_wait(outcome), {"approved": True})
    assert place.outlast.resume(outcome.run_id).status == "failed"
    place.outlast.rewind(outcome.run_id, "work")
    KNOBS["payload"] = {"version": version}
    del KNOBS["raise"]
    assert place.outlast.resume(outcome.run_id).status == status
    assert place.ran.count("before") == 2


def test_an_old_answer_that_counts_again_stays_through_more_resumes(place: Place) -> None:
    KNOBS["raise"] = ("after", ValueError("not yet"))
    outcome = place.outlast.run(asking)
    place.outlast.answer(only_wait(outcome), {"approved": True})
    assert place.outlast.resume(outcome.run_id).status == "failed"
    place.outlast.rewind(outcome.run_id, "work")
    assert place.outlast.resume(outcome.run_id).status == "failed"
    del KNOBS["raise"]
    assert place.outlast.resume(outcome.run_id).unwrap() == {"approved": True}
    assert place.outlast.verify().ok


def test_a_question_that_was_changed_is_closed_when_the_new_one_is_asked(place: Place) -> None:
    KNOBS["type"], KNOBS["payload"] = "input", {"question": "q"}
    outcome = place.outlast.run(asking)
    old = only_wait(outcome)
    KNOBS["payload"] = {"question": "q2"}
    again = place.outlast.resume(outcome.run_id)
    assert [wait.payload for wait in place.outlast.interrupts()] == [{"question": "q2"}]
    with pytest.raises(AlreadyAnswered):
        place.outlast.answer(old, 7)
    place.outlast.answer(only_wait(again), 8)
    assert place.outlast.resume(outcome.run_id).unwrap() == 8


def test_two_waits_of_one_run_are_told_apart(place: Place) -> None:
    first = only_wait(place.outlast.run(twice))
    place.outlast.answer(first, "one")
    second = place.outlast.run(twice)
    assert second.interrupts[0].says == "input: And then?"
    place.outlast.answer(only_wait(second), ["two"])
    assert place.outlast.run(twice).unwrap() == ["one", ["two"]]


def test_branches_wait_on_their_own_and_a_finished_one_is_not_lost(place: Place) -> None:
    outcome = place.outlast.run(three)
    waits = {wait.payload["question"]: wait.id for wait in outcome.interrupts}
    assert sorted(waits) == ["a", "b", "c"]
    place.outlast.answer(waits["a"], 1)
    place.outlast.answer(waits["b"], 2)
    middle = place.outlast.run(three)
    assert [wait.payload["question"] for wait in middle.interrupts] == ["c"]
    place.reopen()
    place.outlast.answer(waits["c"], 3)
    assert place.outlast.run(three).unwrap() == ["A 1", "B 2", "C 3"]
    assert sorted(place.ran) == ["a 1", "b 2", "c 3"]


# -- deadlines, cancelling ---------------------------------------------------------------------------


@pytest.mark.parametrize("deadline", ["1h", 3600, timedelta(hours=1), datetime(2026, 1, 1, 1, tzinfo=UTC)])
def test_past_its_deadline_the_default_counts_and_a_late_answer_is_a_conflict(place: Place, deadline: Any) -> None:
    KNOBS["how"] = {"deadline": deadline, "default": {"approved": False}}
    wait = only_wait(place.outlast.run(asking))
    place.clock.advance(HOUR - 1)
    assert place.outlast.run(asking).status == "waiting"
    place.clock.advance(1)
    with pytest.raises(AlreadyAnswered, match="its deadline"):
        place.outlast.answer(wait, {"approved": True})
    assert place.outlast.run(asking).unwrap() == {"approved": False}


def test_a_deadline_that_passes_while_an_answer_is_given_is_not_beaten(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    KNOBS["how"] = {"deadline": "1h", "default": {"approved": False}}
    wait = only_wait(place.outlast.run(asking))
    place.clock.advance(HOUR - 1)
    store = place.outlast._executor.home.store
    write = store.write

    def write_a_second_later(*given: Any) -> Any:
        place.clock.advance(1)
        return write(*given)

    monkeypatch.setattr(store, "write", write_a_second_later)
    with pytest.raises(AlreadyAnswered, match="its deadline"):
        place.outlast.answer(wait, {"approved": True})
    assert place.outlast.run(asking).unwrap() == {"approved": False}


def test_a_deadline_of_a_sealed_run_is_not_recorded_here(place: Place) -> None:
    KNOBS["how"] = {"deadline": "1h", "default": {"approved": False}}
    outcome = place.outlast.run(asking)
    seal(place, outcome.run_id)
    place.clock.advance(HOUR)
    with pytest.raises(RunSealed):
        place.outlast.answer(only_wait(outcome), {"approved": True})
    run = run_row(place.outlast._executor.home, outcome.run_id)
    (wait,) = place.outlast._executor.home.store.read(lambda look: look.waits_of(run.key))
    assert wait.status == "open"


def test_a_prefix_of_an_id_is_the_same_operation(place: Place) -> None:
    wait = only_wait(place.outlast.run(asking))
    place.outlast.answer(wait[:8], {"approved": True}, operation_id="op")
    assert place.outlast.answer(wait, {"approved": True}, operation_id="op").replayed


def test_the_first_resume_after_a_deadline_records_the_default(place: Place) -> None:
    KNOBS["how"] = {"deadline": "1h", "default": {"approved": False}}
    outcome = place.outlast.run(asking)
    place.clock.advance(HOUR)
    assert [due.reason for due in place.outlast.due()] == ["over"]
    assert place.outlast.resume(outcome.run_id).unwrap() == {"approved": False}


def test_without_a_default_the_run_fails_and_a_resume_asks_again(place: Place) -> None:
    KNOBS["how"] = {"deadline": "1h"}
    first = only_wait(place.outlast.run(asking))
    place.clock.advance(HOUR)
    failed = place.outlast.run(asking)
    assert failed.status == "failed"
    with pytest.raises(DeadlinePassed):
        failed.unwrap()
    again = place.outlast.run(asking)
    assert only_wait(again) != first
    place.outlast.answer(only_wait(again), {"approved": True})
    assert place.outlast.run(asking).unwrap() == {"approved": True}


def test_a_flow_may_catch_a_deadline_and_it_stays_caught(place: Place) -> None:
    KNOBS["how"] = {"deadline": "1h"}
    place.outlast.run(forgiving)
    place.clock.advance(HOUR)
    place.clock.set_back(0)
    assert place.outlast.run(forgiving).unwrap() == "deadline_passed: "


def test_a_cancelled_wait_is_told_with_its_reason(place: Place) -> None:
    wait = only_wait(place.outlast.run(forgiving))
    with pytest.raises(Exception, match="say why"):
        place.outlast.cancel(wait, "  ")
    cancelled = place.outlast.cancel(wait, "nobody is left to ask")
    assert (cancelled.status, cancelled.reason) == ("cancelled", "nobody is left to ask")
    with pytest.raises(AlreadyAnswered):
        place.outlast.answer(wait, {"choice": "x"})
    assert place.outlast.run(forgiving).unwrap() == "wait_cancelled: nobody is left to ask"


# -- signals -----------------------------------------------------------------------------------------


def test_a_signal_lets_a_waiting_run_go_on(place: Place) -> None:
    outcome = place.outlast.run(listening, task="t")
    assert outcome.interrupts[0].says == "waits for the signal news"
    sent = place.outlast.signal("news", {"n": 1}, task="t")
    assert (sent.run_id, sent.interrupt) == (outcome.run_id, outcome.interrupts[0].id)
    assert [due.reason for due in place.outlast.due()] == ["answered"]
    assert place.outlast.run(listening, task="t").unwrap() == [{"n": 1}]


def test_a_signal_sent_before_is_not_lost_and_is_taken_once(place: Place) -> None:
    KNOBS["count"] = 2
    place.outlast.signal("news", 1, task="t")
    place.outlast.signal("other", "x", task="t")
    outcome = place.outlast.run(listening, task="t")
    assert outcome.status == "waiting"
    place.reopen()
    place.outlast.signal("news", 2, run_id=outcome.run_id)
    assert place.outlast.run(listening, task="t").unwrap() == [1, 2]


def test_signals_are_taken_in_the_order_in_which_they_were_sent(place: Place) -> None:
    KNOBS["count"] = 5
    for number in range(5):
        place.outlast.signal("news", number, task="t")
    assert place.outlast.run(listening, task="t").unwrap() == [0, 1, 2, 3, 4]


def test_a_signal_is_sent_once_per_operation(place: Place) -> None:
    KNOBS["count"] = 2
    first = place.outlast.signal("news", 1, task="t", operation_id="op")
    again = place.outlast.signal("news", 1, task="t", operation_id="op")
    assert (again.id, again.replayed) == (first.id, True)
    with pytest.raises(OperationConflict):
        place.outlast.signal("news", 2, task="t", operation_id="op")
    assert place.outlast.run(listening, task="t").status == "waiting"


def test_a_signal_has_a_name_and_an_addressee(place: Place) -> None:
    for how in ({}, {"task": "t", "run_id": "r"}):
        with pytest.raises(NameInvalid, match="to whom"):
            place.outlast.signal("news", **how)  # type: ignore[arg-type]
    with pytest.raises(NameInvalid):
        place.outlast.signal("", task="t")
    KNOBS["count"] = 0
    done = place.outlast.run(listening, task="t")
    with pytest.raises(RunFinished):
        place.outlast.signal("news", run_id=done.run_id)


def test_a_signal_wait_has_a_deadline_too(place: Place) -> None:
    KNOBS["how"] = {"deadline": "1h", "default": "nothing came"}
    place.outlast.run(listening, task="t")
    place.clock.advance(HOUR)
    assert place.outlast.run(listening, task="t").unwrap() == ["nothing came"]
    kept = place.outlast.signal("news", "late", task="t")
    assert kept.interrupt == ""


def test_branches_wait_for_signals_of_their_own(place: Place) -> None:
    place.outlast.run(listening_beside, task="t")
    place.outlast.signal("right", "r", task="t")
    assert place.outlast.run(listening_beside, task="t").status == "waiting"
    place.outlast.signal("left", "l", task="t")
    assert place.outlast.run(listening_beside, task="t").unwrap() == ["l", "r"]


def test_a_wait_for_a_signal_is_not_answered_by_a_person(place: Place) -> None:
    wait = only_wait(place.outlast.run(listening, task="t"))
    with pytest.raises(AnswerInvalid, match="outlast signal news"):
        place.outlast.answer(wait, 1)


def test_a_payload_that_says_probe_does_not_wake_a_run_that_waits(place: Place) -> None:
    KNOBS["payload"] = {"probe": "of the soil"}
    first = place.outlast.run(asking)
    journal = len(list(place.outlast.events(first.run_id)))
    assert place.outlast.run(asking).status == "waiting"
    assert len(list(place.outlast.events(first.run_id))) == journal


# -- an answer that goes on --------------------------------------------------------------------------


def test_an_answer_goes_on_with_its_run_when_that_is_asked_for(place: Place) -> None:
    (wait,) = place.run(asking).interrupts
    place.outlast.answer(wait.id, {"approved": True}, resume=True)
    assert place.outlast.get(wait.run_id).result == {"approved": True}


def test_an_answer_stands_where_its_run_cannot_go_on(place: Place) -> None:
    (wait,) = place.run(asking).interrupts
    KNOBS["raise"] = ("after", ValueError("no luck"))
    place.outlast.answer(wait.id, {"approved": True}, resume=True)
    assert place.outlast.get(wait.run_id).status == "failed"
    assert place.outlast.interrupt(wait.id).answer == {"approved": True}


def test_on_a_loop_it_is_refused_before_anything_is_answered(place: Place) -> None:
    (wait,) = place.run(asking).interrupts
    place.close()

    async def main() -> None:
        async with AsyncOutlast(place.home) as outlast:
            with pytest.raises(Invalid, match=r"await outlast\.resume"):
                await outlast.answer(wait.id, {"approved": True}, resume=True)

    asyncio.run(main())
    assert place.outlast.interrupt(wait.id).status == "open"
