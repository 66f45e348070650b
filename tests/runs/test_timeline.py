"""The timeline: everything that happened in a run, in order, with when it began and how long it took."""

import threading
from typing import Any

from outlast import NOT_DONE, Happened, Run, TimelineItem, current, effect, flow, step

from ..kit.place import KNOBS, Place, reach


@step(retries=1, backoff=0)
def work(word: str, seconds: float = 0) -> str:
    KNOBS["clock"].advance(seconds)
    reach(f"working on {word}")
    if word == "flaky" and current().attempt == 1:
        raise ConnectionError("no line")
    return word


def was_sent(word: str) -> Any:
    return Happened("found") if KNOBS.get("found") else NOT_DONE


@effect(confirm=was_sent)
def send(word: str) -> str:
    reach("sending")
    return word


@effect
def publish(word: str) -> str:
    raise RuntimeError("the line broke")


@flow
def child(run: Run) -> str:
    return work("in the child", 4)


@flow
def whole(run: Run) -> str:
    run.phase = "finding"
    work("first", 1)
    work("flaky", 2)
    with run.branch("inner"):
        work("branched")
    run.spawn(child).result()
    run.phase = "publishing"
    run.sleep(8)
    return publish("it")


def items(place: Place, *kinds: str) -> list[TimelineItem]:
    (run,) = [run for run in place.outlast.runs() if not run.parent]
    return [item for item in place.outlast.timeline(run.id) if item.kind in kinds or not kinds]


def shown(place: Place, *kinds: str) -> list[tuple[str, str, str, int]]:
    return [(item.kind, item.name, item.status, item.attempt) for item in items(place, *kinds)]


def start(place: Place) -> str:
    KNOBS["clock"] = place.clock
    return str(place.run(whole).run_id)


def test_every_attempt_phase_child_and_sleep_is_there_in_order(place: Place) -> None:
    start(place)
    names = [item for item in shown(place) if item[0] != "run"]
    (spawned,) = [run.id for run in place.outlast.runs() if run.parent]
    assert names == [
        ("phase", "finding", "", 0),
        ("step", "work", "succeeded", 1),
        ("step", "work~2", "failed", 1),
        ("step", "work~2", "succeeded", 2),
        ("step", "inner/work", "succeeded", 1),
        ("child", spawned, "succeeded", 0),
        ("phase", "publishing", "", 0),
        ("sleep", "run.sleep", "over", 0),
        ("effect", "publish", "failed", 1),
        ("wait", "publish", "open", 0),
    ]
    assert [item.name for item in place.outlast.timeline(spawned)] == ["started", "work", "succeeded"]


def test_items_say_when_they_began_and_how_long_they_took(place: Place) -> None:
    start(place)
    took = {(item.name, item.attempt): item.seconds for item in items(place)}
    assert (took["work", 1], took["work~2", 1], took["work~2", 2]) == (1, 2, 2)
    assert round(took["run.sleep", 0] or 0) == 8
    assert took["started", 0] == 0
    assert took["publish", 0] is None  # it is waited for still
    began = [item.started_at for item in items(place)]
    assert began == sorted(began)
    assert [item.child for item in items(place, "child")] == [item.name for item in items(place, "child")]


def test_errors_are_told(place: Place) -> None:
    start(place)
    notes = {(item.name, item.attempt): item.note for item in items(place)}
    assert notes["work~2", 1] == "ConnectionError: no line"
    assert notes["publish", 1] == "RuntimeError: the line broke"


def test_a_wait_becomes_a_decision_with_who_and_why(place: Place) -> None:
    run = start(place)
    (wait,) = items(place, "wait")
    place.clock.advance(60)
    place.outlast.skip(run, "publish", result="seen", why="it is on the page")
    place.outlast.resume(run)
    (decision,) = items(place, "decision")
    assert (decision.name, decision.status, decision.note) == ("publish", "skip", "by local: it is on the page")
    assert (decision.interrupt, decision.started_at, decision.seconds) == (wait.interrupt, wait.started_at, 60)
    assert items(place, "wait") == []
    assert [item.status for item in items(place, "effect")] == ["failed"]


def test_the_time_in_which_nobody_worked_is_there(place: Place) -> None:
    run = start(place)
    place.clock.advance(3600)
    place.outlast.skip(run, "publish", result="seen", why="seen")
    place.outlast.resume(run)
    stops = {item.name: item.seconds for item in items(place, "run")}
    assert [item.name for item in items(place, "run")] == ["started", "waiting", "resumed", "succeeded"]
    assert stops["waiting"] == 3600


@flow
def two(run: Run) -> list[str]:
    return [work("one"), work("two")]


def test_a_crash_and_the_attempt_that_it_ended_are_shown_then_the_resume(place: Place) -> None:
    KNOBS["clock"] = place.clock
    place.crash(two, at="working on one")
    place.crash(two, at="working on two")
    assert [item.name for item in items(place, "run")][-1] == "crashed"  # nobody has resumed it yet
    place.clock.advance(10)
    place.run(two)
    assert [item.name for item in items(place, "run")] == [
        "started",
        "crashed",
        "resumed",
        "crashed",
        "resumed",
        "succeeded",
    ]
    last = items(place, "run")[3]
    assert (last.seconds, last.note) == (10, "the last sign of life")
    assert items(place, "run")[4].note.startswith("from crashed, ")


@flow
def sends(run: Run) -> str:
    return send("it")


def test_an_attempt_without_an_outcome_crashed_and_its_end_is_unknown(place: Place) -> None:
    place.crash(sends, at="sending")
    (attempt,) = items(place, "effect")
    assert (attempt.status, attempt.ended_at, attempt.seconds) == ("crashed", None, None)


def test_an_effect_that_its_probe_settles_stays_one_item(place: Place) -> None:
    place.crash(sends, at="sending")
    KNOBS["found"] = True
    assert place.run(sends).unwrap() == "found"
    (attempt,) = items(place, "effect")
    assert (attempt.status, attempt.attempt, attempt.note) == ("succeeded", 1, "its probe found it")


def test_a_rewound_step_is_there_twice(place: Place) -> None:
    KNOBS["clock"] = place.clock
    KNOBS["raise"] = ("working on two", ValueError("no"))
    run = place.run(two).run_id
    place.clock.advance(1)
    KNOBS.pop("raise")
    place.outlast.rewind(run, "work", why="once more")
    place.outlast.resume(run)
    assert [item.attempt for item in items(place, "step") if item.name == "work"] == [1, 2]
    assert [item.note for item in items(place, "run") if item.name == "rewound"] == ["by local: once more"]


@step
def stay() -> None:
    KNOBS["begun"].set()
    KNOBS["go"].wait(20)


@flow
def stays(run: Run) -> None:
    stay()


def test_what_is_under_way_is_running(place: Place) -> None:
    KNOBS["begun"], KNOBS["go"] = threading.Event(), threading.Event()
    started = place.outlast.start(stays)
    assert KNOBS["begun"].wait(20)
    try:
        for event in place.outlast.follow_events(started.run_id):
            if event.name == "step.started":
                break
        assert [(item.status, item.ended_at) for item in items(place, "step")] == [("running", None)]
    finally:
        KNOBS["go"].set()
    assert started.outcome(20).status == "succeeded"


def test_an_aborted_run_says_by_whom_and_its_wait_is_cancelled(place: Place) -> None:
    run = start(place)
    place.outlast.abort(run, why="not needed")
    assert [(item.name, item.note) for item in items(place, "run")][-1] == ("aborted", "by local: not needed")
    assert [item.status for item in items(place, "wait")] == ["cancelled"]


@flow
def asks(run: Run) -> list[Any]:
    return [run.pause_for("approval")["approved"], run.wait_for("paid")]


def test_a_wait_that_was_answered_and_one_that_a_signal_ended_say_by_whom_and_how_long(place: Place) -> None:
    run = place.run(asks, task="t").run_id
    (wait,) = place.outlast.interrupts(run)
    place.clock.advance(30)
    place.outlast.answer(wait.id, {"approved": True})
    place.outlast.resume(run)
    place.clock.advance(5)
    place.outlast.signal("paid", 12, task="t")
    assert place.outlast.resume(run).unwrap() == [True, 12]
    first, second = items(place, "wait")
    assert (first.status, first.seconds, first.interrupt, first.call) == ("answered", 30, wait.id, wait.call)
    assert (first.note, second.note) == ("approval, by local", "signal, by local")
    assert (second.status, second.seconds) == ("answered", 5)
    told = [event for event in place.outlast.events(run) if event.interrupt == wait.id and "answer" in event.body]
    assert told
    assert {str(event.body["answer"]) for event in told} == {str({"approved": True})}
