"""Rewinding: steps are done again from there on; effects are kept."""

import pytest

from outlast import AsyncRun, Run, effect, flow, step
from outlast.errors import RunFinished, RunHeld, StepNotFound

from ..kit.place import KNOBS, Place, ran, reach


@step
def fetch(what: str) -> str:
    ran(f"fetch {what}")
    return f"{what} {KNOBS.get('edition', 'first')}"


@step
def shorten(text: str) -> str:
    ran(f"shorten {text}")
    return text.upper()


@effect
def send(text: str) -> str:
    ran(f"send {text}")
    return f"sent {text}"


@flow
def report(run: Run) -> list[object]:
    a = fetch("a")
    stamp = run.random()
    b = fetch("b")
    short = shorten(b)
    got = send(a if KNOBS.get("same") else short)
    run.state["sent"] = got
    reach("end")
    if not KNOBS.get("finish"):
        raise RuntimeError("stop here")
    return [a, b, short, got, stamp]


@flow
async def report_async(run: AsyncRun) -> list[str]:
    a = str(await run.step(fetch, "a"))
    got = str(await run.effect(send, a))
    if not KNOBS.get("finish"):
        raise RuntimeError("stop here")
    return [a, got]


@pytest.fixture
def stopped(place: Place) -> Place:
    KNOBS["same"] = True
    assert place.run(report).status == "failed"
    KNOBS.update(edition="second", finish=True)
    return place


def test_steps_from_there_on_are_done_again_and_those_before_are_not(stopped: Place) -> None:
    stopped.outlast.rewind(stopped.run_id, "fetch~2", why="b was stale")
    outcome = stopped.run(report)
    assert outcome.result[:3] == ["a first", "b second", "B SECOND"]
    assert (stopped.count("fetch a"), stopped.count("fetch b")) == (1, 2)


def test_an_effect_with_equal_inputs_is_kept(stopped: Place) -> None:
    stopped.outlast.rewind(stopped.run_id, "fetch~2")
    assert stopped.run(report).result[3] == "sent a first"
    assert stopped.count("send a first") == 1


def test_an_effect_with_other_inputs_asks(stopped: Place) -> None:
    stopped.outlast.rewind(stopped.run_id, "fetch")
    outcome = stopped.run(report)
    assert [wait.type for wait in outcome.interrupts] == ["inputs_changed"]
    assert stopped.count("send a second") == 0


def test_rewinding_to_an_effect_keeps_it_too(stopped: Place) -> None:
    stopped.outlast.rewind(stopped.run_id, "send")
    assert stopped.run(report).result[3] == "sent a first"
    assert stopped.count("send a first") == 1


def test_values_after_that_point_are_drawn_anew_and_those_before_are_kept(stopped: Place) -> None:
    (drawn,) = [event.body for event in stopped.outlast.events(stopped.run_id) if event.name == "value.run.random"]
    stopped.outlast.rewind(stopped.run_id, "fetch~2")
    assert stopped.run(report).result[4] == drawn


def test_a_rewind_is_on_the_record_and_lasts_over_a_crash(stopped: Place) -> None:
    stopped.outlast.rewind(stopped.run_id, "fetch~2", why="b was stale")
    stopped.crash(report, at="end")
    outcome = stopped.run(report)
    assert outcome.result[1] == "b second"
    assert stopped.count("fetch b") == 2
    (rewound,) = stopped.events("run.rewound")
    assert (rewound.body["why"], rewound.body["by"]) == ("b was stale", "local")


def test_receipts_from_before_a_rewind_stay_to_be_read(stopped: Place) -> None:
    stopped.outlast.rewind(stopped.run_id, "fetch~2")
    stopped.run(report)
    receipts = [r for r in stopped.outlast.receipts(stopped.run_id) if r.label == "fetch~2"]
    assert [r.result for r in receipts] == ["b first", "b second"]


def test_a_rewind_to_a_step_that_never_was_is_refused(stopped: Place) -> None:
    with pytest.raises(StepNotFound):
        stopped.outlast.rewind(stopped.run_id, "nothing")


def test_a_finished_run_cannot_be_rewound(stopped: Place) -> None:
    outcome = stopped.run(report)
    with pytest.raises(RunFinished):
        stopped.outlast.rewind(outcome.run_id, "fetch")


def test_a_live_run_cannot_be_rewound(place: Place) -> None:
    KNOBS["place"] = place
    assert place.run(rewinds_itself).result == "run_held"


@flow
def rewinds_itself(run: Run) -> str:
    fetch("a")
    try:
        KNOBS["place"].outlast.rewind(run.id, "fetch")
    except RunHeld as error:
        return error.code
    return "rewound"


def test_an_async_run_is_rewound_alike(place: Place) -> None:
    assert place.run(report_async).status == "failed"
    KNOBS.update(edition="second", finish=True)
    place.outlast.rewind(place.run_id, "fetch")
    assert [wait.type for wait in place.run(report_async).interrupts] == ["inputs_changed"]
    (wait,) = place.outlast.interrupts()
    place.outlast.answer(wait.id, {"choice": "reuse"})
    assert place.run(report_async).result == ["a second", "sent a first"]
