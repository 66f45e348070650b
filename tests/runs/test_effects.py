"""An effect is never run a second time without NOT_DONE from its probe, or a recorded decision."""

import asyncio
import threading
from typing import Any

import pytest

from outlast import KEY, NOT_DONE, UNKNOWN, AsyncRun, Happened, NotDone, Run, effect, flow, inject, step
from outlast.errors import AlreadyAnswered, AnswerInvalid, RunFinished, StepTimedOut

from ..kit.place import KNOBS, Place, ran, reach

WORLD: dict[str, str] = {}  # what has really happened, by key


@pytest.fixture(autouse=True)
def an_empty_world() -> None:
    WORLD.clear()


def happens(text: str, key: str) -> str:
    """The outside world: does what the test asks for, and writes down that it was asked."""
    ran(f"send {text}")
    ran(f"key {key}")
    reach(f"before {text}")
    if KNOBS.get("troubles"):
        raise KNOBS["troubles"].pop(0)
    WORLD[key] = text
    reach(f"after {text}")
    return f"receipt for {text}"


def look(text: str, key: str = KEY) -> Any:
    ran(f"look {text}")
    answer = KNOBS["answers"].pop(0) if KNOBS.get("answers") else UNKNOWN
    if isinstance(answer, Exception):
        raise answer
    return answer


async def look_async(text: str, key: str = KEY) -> Any:
    return look(text, key)


@effect
def send(text: str, *, key: str = KEY) -> str:
    return happens(text, key)


@effect(not_done=(ConnectionError,), retries=2)
def send_with_retries(text: str, *, key: str = KEY) -> str:
    return happens(text, key)


@effect(confirm=look)
def send_probed(text: str, *, key: str = KEY) -> str:
    return happens(text, key)


@effect(confirm=look, retries=1)
def send_probed_again(text: str, *, key: str = KEY) -> str:
    return happens(text, key)


@effect(confirm=look_async)
async def send_async(text: str, *, key: str = KEY) -> str:
    return happens(text, key)


@step
def prepare() -> str:
    ran("prepare")
    return "ready"


@flow
def sends(run: Run, text: str) -> str:
    prepare()
    got = send(text)
    reach("sent")
    return got


@flow
def sends_with_retries(run: Run, text: str) -> str:
    return send_with_retries(text)


@flow
def sends_probed(run: Run, text: str) -> str:
    prepare()
    got = send_probed(text)
    reach("sent")
    return got


@flow
def sends_probed_again(run: Run, text: str) -> str:
    return send_probed_again(text)


@flow
async def sends_async(run: AsyncRun, text: str) -> str:
    prepare()
    got = await send_async(text)
    reach("sent")
    return got


@flow
async def sends_plain_in_async(run: AsyncRun, text: str) -> str:
    prepare()
    got = str(await run.effect(send_probed, text))
    reach("sent")
    return got


@flow
def sends_async_in_plain(run: Run, text: str) -> str:
    prepare()
    got = run.effect(send_async, text)
    reach("sent")
    return got


PROBED = [sends_probed, sends_async, sends_plain_in_async, sends_async_in_plain]
every_mix = pytest.mark.parametrize("body", PROBED, ids=lambda flow: flow.__name__)


# -- finished effects --------------------------------------------------------------------------------


@every_mix
def test_a_finished_effect_is_not_repeated(place: Place, body: Any) -> None:
    place.crash(body, "x", at="sent")
    assert place.run(body, "x").result == "receipt for x"
    assert (place.count("send x"), place.count("look x")) == (1, 0)


# -- in doubt ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", ["before x", "after x"])
def test_an_effect_that_died_half_way_waits_for_a_person(place: Place, point: str) -> None:
    place.crash(sends, "x", at=point)
    outcome = place.run(sends, "x")
    assert outcome.status == "waiting"
    (wait,) = outcome.interrupts
    assert (wait.type, wait.step, wait.choices) == ("in_doubt", "send", ("retry", "skip", "abort"))
    assert place.run(sends, "x").interrupts == outcome.interrupts
    assert place.count("send x") == 1


@every_mix
def test_a_probe_that_found_it_settles_the_doubt_with_its_value(place: Place, body: Any) -> None:
    place.crash(body, "x", at="after x")
    KNOBS["answers"] = [Happened("found x")]
    assert place.run(body, "x").result == "found x"
    assert (place.count("send x"), place.count("look x")) == (1, 1)
    assert [r.mark for r in place.receipts() if r.kind == "effect"] == ["confirmed"]


@every_mix
def test_a_probe_that_found_nothing_lets_it_run_again(place: Place, body: Any) -> None:
    place.crash(body, "x", at="before x")
    KNOBS["answers"] = [NOT_DONE]
    assert place.run(body, "x").result == "receipt for x"
    assert place.count("send x") == 2
    effects = [r for r in place.receipts() if r.kind == "effect"]
    assert [(r.attempt, r.status) for r in effects] == [(1, "failed"), (2, "succeeded")]


@every_mix
@pytest.mark.parametrize("answer", [UNKNOWN, RuntimeError("the probe broke"), "garbage", None, Happened(object())])
def test_a_probe_that_does_not_know_leaves_it_to_a_person(place: Place, body: Any, answer: Any) -> None:
    place.crash(body, "x", at="after x")
    KNOBS["answers"] = [answer]
    outcome = place.run(body, "x")
    assert [wait.type for wait in outcome.interrupts] == ["in_doubt"]
    assert outcome.interrupts[0].payload["probe"]
    assert place.count("send x") == 1


def test_a_probe_that_did_not_know_is_asked_again_next_time(place: Place) -> None:
    place.crash(sends_probed, "x", at="after x")
    assert place.run(sends_probed, "x").status == "waiting"
    KNOBS["answers"] = [Happened("found later")]
    assert place.run(sends_probed, "x").result == "found later"
    assert place.outlast.interrupts() == []


def test_a_probe_gets_the_inputs_and_the_key_that_it_names(place: Place) -> None:
    place.crash(sends_probed_by_inputs, "x", 3, at="after x")
    assert place.run(sends_probed_by_inputs, "x", 3).result == "x 3 the outbox"
    (receipt,) = [r for r in place.receipts() if r.kind == "effect"]
    assert f"probe {receipt.key}" in place.ran


def probe_by_inputs(copies: int, text: str, key: str, *, outbox: str = inject("outbox")) -> Any:
    ran(f"probe {key}")
    return Happened(f"{text} {copies} {outbox}")


@effect(confirm=probe_by_inputs)
def send_copies(text: str, copies: int = 1, *, key: str = KEY) -> str:
    return happens(text, key)


@flow
def sends_probed_by_inputs(run: Run, text: str, copies: int) -> str:
    return send_copies(text, copies)


@pytest.fixture(autouse=True)
def an_outbox(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = type(place).outlast

    def outlast(self: Place) -> Any:
        found = opened.__get__(self)
        found.resource("outbox", "the outbox")
        return found

    monkeypatch.setattr(type(place), "outlast", property(outlast))


# -- what ends between intent and outcome ------------------------------------------------------------


@pytest.mark.parametrize(
    "trouble", [RuntimeError("what was that"), ConnectionError("cut"), OSError(5, "io"), KeyError(1)]
)
def test_an_exception_leaves_an_effect_in_doubt(place: Place, trouble: Exception) -> None:
    KNOBS["troubles"] = [trouble]
    outcome = place.run(sends, "x")
    assert [wait.type for wait in outcome.interrupts] == ["in_doubt"]
    (receipt,) = place.receipts("send")
    assert (receipt.status, receipt.delivered) == ("failed", False)
    assert receipt.error is not None


@flow
def swallows(run: Run, text: str) -> str:
    try:
        return send(text)
    except Exception:
        return "swallowed"


def test_a_flow_cannot_swallow_the_doubt(place: Place) -> None:
    KNOBS["troubles"] = [RuntimeError("what was that")]
    assert place.run(swallows, "x").status == "waiting"


@flow
def swallows_everything(run: Run, text: str) -> str:
    try:
        send(text)
    except BaseException:
        ran("swallowed")
    return prepare()


def test_not_even_by_catching_everything(place: Place) -> None:
    KNOBS["troubles"] = [RuntimeError("what was that")]
    assert place.run(swallows_everything, "x").status == "waiting"
    assert (place.count("swallowed"), place.count("prepare")) == (1, 0)


def test_sys_exit_in_an_effect_leaves_it_in_doubt(place: Place) -> None:
    KNOBS["troubles"] = [SystemExit(2)]
    assert place.run(sends, "x").status == "waiting"


def test_a_keyboard_interrupt_in_an_effect_leaves_it_in_doubt_for_the_next_time(place: Place) -> None:
    KNOBS["troubles"] = [KeyboardInterrupt()]
    with pytest.raises(KeyboardInterrupt):
        place.run(sends, "x")
    assert place.outlast.get(place.run_id).status == "interrupted"
    assert [wait.type for wait in place.run(sends, "x").interrupts] == ["in_doubt"]


def test_a_result_that_cannot_be_kept_leaves_it_in_doubt(place: Place) -> None:
    outcome = place.run(sends_a_live_object)
    assert [wait.type for wait in outcome.interrupts] == ["in_doubt"]
    place.outlast.skip(outcome.run_id, "live", result="it is done", why="it was sent")
    assert place.run(sends_a_live_object).result == "it is done"
    assert place.count("live") == 1


@effect
def live() -> Any:
    ran("live")
    return object()


@flow
def sends_a_live_object(run: Run) -> Any:
    return live()


RELEASE = threading.Event()


@effect(timeout=0.05, confirm=look, retries=3, backoff=0)
def send_slowly(text: str, *, key: str = KEY) -> str:
    ran(f"send {text}")
    if KNOBS.get("slow"):
        RELEASE.wait(5)
    return f"receipt for {text}"


@flow
def sends_slowly(run: Run, text: str) -> str:
    return send_slowly(text)


@flow
async def sends_slowly_async(run: AsyncRun, text: str) -> str:
    return str(await run.effect(send_slowly, text))


@pytest.mark.parametrize("body", [sends_slowly, sends_slowly_async], ids=lambda flow: flow.__name__)
def test_a_probe_is_not_believed_while_the_timed_out_attempt_still_runs(place: Place, body: Any) -> None:
    """It has not happened yet, says the probe; a moment later the first attempt makes it happen."""
    RELEASE.clear()
    KNOBS.update(slow=True, answers=[NOT_DONE] * 9)
    outcome = place.run(body, "x")
    RELEASE.set()
    assert [wait.type for wait in outcome.interrupts] == ["in_doubt"]
    assert place.count("send x") == 1


def test_a_timeout_leaves_an_effect_in_doubt(place: Place) -> None:
    outcome = place.run(times_out)
    assert [wait.type for wait in outcome.interrupts] == ["in_doubt"]
    assert place.statuses("never_ends") == ["timed_out"]
    assert StepTimedOut.code == "step_timed_out"


@effect(timeout=0.02)
async def never_ends() -> None:
    await asyncio.Event().wait()


@flow
async def times_out(run: AsyncRun) -> None:
    await never_ends()


# -- what says NotDone -------------------------------------------------------------------------------


def test_not_done_fails_the_effect_for_the_flow(place: Place) -> None:
    KNOBS["troubles"] = [NotDone("the queue was full")]
    outcome = place.run(sends, "x")
    assert (outcome.status, str(outcome.exception)) == ("failed", "the queue was full")


def test_an_effect_that_said_not_done_is_tried_again_when_its_failure_ended_the_run(place: Place) -> None:
    KNOBS["troubles"] = [NotDone("the queue was full")]
    place.run(sends, "x")
    assert place.run(sends, "x").result == "receipt for x"
    assert place.count("send x") == 2


def test_not_done_types_are_retried(place: Place) -> None:
    KNOBS["troubles"] = [ConnectionRefusedError("no"), NotDone("no")]
    assert place.run(sends_with_retries, "x").result == "receipt for x"
    assert [(r.attempt, r.status, r.mark) for r in place.receipts()] == [
        (1, "failed", "not_done"),
        (2, "failed", "not_done"),
        (3, "succeeded", ""),
    ]


def test_not_done_is_retried_no_more_often_than_said(place: Place) -> None:
    KNOBS["troubles"] = [NotDone("no")] * 9
    outcome = place.run(sends_with_retries, "x")
    assert (outcome.status, place.count("send x")) == ("failed", 3)


def test_other_exceptions_are_not_retried_however_many_retries_there_are(place: Place) -> None:
    KNOBS["troubles"] = [ConnectionError("no"), RuntimeError("what was that")]
    assert place.run(sends_with_retries, "x").status == "waiting"
    assert place.count("send x") == 2


def test_an_exception_that_the_probe_denies_counts_as_a_failed_attempt(place: Place) -> None:
    KNOBS.update(troubles=[RuntimeError("no"), RuntimeError("no")], answers=[NOT_DONE, NOT_DONE])
    outcome = place.run(sends_probed_again, "x")
    assert (outcome.status, place.count("send x")) == ("failed", 2)
    assert isinstance(outcome.exception, RuntimeError)


def test_an_exception_that_the_probe_confirms_is_a_success(place: Place) -> None:
    KNOBS.update(troubles=[RuntimeError("no")], answers=[Happened("found")])
    assert place.run(sends_probed, "x").result == "found"


# -- keys --------------------------------------------------------------------------------------------


def test_the_key_is_the_same_on_every_attempt_and_after_a_crash(place: Place) -> None:
    place.crash(sends_probed, "x", at="before x")
    KNOBS.update(answers=[NOT_DONE], troubles=[NotDone("not yet")])
    assert place.run(sends_probed, "x").status == "failed"
    place.run(sends_probed, "x")
    keys = [line for line in place.ran if line.startswith("key ")]
    assert len(keys) == 3
    assert len(set(keys)) == 1
    assert keys[0] == f"key {place.receipts('send_probed')[0].key}"


@flow
def sends_twice(run: Run) -> None:
    send("x")
    send("x")
    with run.branch("other"):
        send("x")


def test_each_of_equal_calls_has_a_key_of_its_own(place: Place) -> None:
    place.run(sends_twice)
    assert len({line for line in place.ran if line.startswith("key ")}) == 3


def test_two_runs_never_share_a_key(place: Place) -> None:
    place.run(sends, "x")
    place.run(sends, "x")
    assert len({line for line in place.ran if line.startswith("key ")}) == 2


# -- decisions ---------------------------------------------------------------------------------------


@pytest.fixture
def doubt(place: Place) -> Place:
    place.crash(sends, "x", at="after x")
    place.run(sends, "x")
    return place


def test_retry_runs_it_again_on_record(doubt: Place) -> None:
    doubt.outlast.retry(doubt.run_id, "send", why="I looked, it is not there")
    assert doubt.run(sends, "x").result == "receipt for x"
    assert doubt.count("send x") == 2
    (decided,) = [event for event in doubt.outlast.events(doubt.run_id) if event.name == "decision.send"]
    assert decided.body["why"] == "I looked, it is not there"
    assert decided.body["by"] == "local"


def test_skip_gives_the_flow_the_result_that_was_named(doubt: Place) -> None:
    doubt.outlast.skip(doubt.run_id, "send", result="I saw it", why="it is in the outbox")
    assert doubt.run(sends, "x").result == "I saw it"
    assert doubt.count("send x") == 1
    assert doubt.statuses("send") == ["started", "skipped"]


def test_abort_ends_the_run(doubt: Place) -> None:
    run = doubt.outlast.abort(doubt.run_id, why="no use")
    assert (run.status, doubt.outlast.interrupts()) == ("aborted", [])
    with pytest.raises(RunFinished):
        doubt.outlast.resume(run.id)


@pytest.mark.parametrize(
    ("answer", "result"),
    [({"choice": "retry"}, "receipt for x"), ({"choice": "skip", "result": "by hand", "why": "seen"}, "by hand")],
)
def test_an_answer_settles_it_too(doubt: Place, answer: dict[str, Any], result: str) -> None:
    (wait,) = doubt.outlast.interrupts()
    assert doubt.outlast.answer(wait.id, answer).status == "answered"
    assert doubt.run(sends, "x").result == result


def test_an_answer_of_abort_ends_the_run_at_once(doubt: Place) -> None:
    (wait,) = doubt.outlast.interrupts()
    doubt.outlast.answer(wait.id, {"choice": "abort", "why": "no use"})
    assert doubt.outlast.get(doubt.run_id).status == "aborted"


@pytest.mark.parametrize(
    "answer", [{}, {"choice": "reuse"}, {"choice": "skip"}, {"choice": "retry", "result": 1}, {"choice": None}, "retry"]
)
def test_an_answer_that_does_not_fit_leaves_the_wait_open(doubt: Place, answer: Any) -> None:
    (wait,) = doubt.outlast.interrupts()
    with pytest.raises((AnswerInvalid, ValueError)):
        doubt.outlast.answer(wait.id, answer)
    assert [open_.id for open_ in doubt.outlast.interrupts()] == [wait.id]


def test_the_first_answer_wins(doubt: Place) -> None:
    (wait,) = doubt.outlast.interrupts()
    doubt.outlast.answer(wait.id, {"choice": "skip", "result": "first", "why": "seen"})
    with pytest.raises(AlreadyAnswered):
        doubt.outlast.answer(wait.id, {"choice": "retry"})
    assert doubt.run(sends, "x").result == "first"
    with pytest.raises(AlreadyAnswered):
        doubt.outlast.answer(wait.id, {"choice": "retry"})


def test_a_retry_that_dies_again_is_in_doubt_again(doubt: Place) -> None:
    doubt.outlast.retry(doubt.run_id, "send")
    doubt.crash(sends, "x", at="before x")
    outcome = doubt.run(sends, "x")
    assert [wait.type for wait in outcome.interrupts] == ["in_doubt"]
    assert doubt.count("send x") == 2


def test_a_skipped_result_must_fit_what_the_effect_returns(doubt: Place) -> None:
    doubt.outlast.skip(doubt.run_id, "send", result={"not": "text"}, why="a slip")
    outcome = doubt.run(sends, "x")
    assert outcome.status == "failed"
    assert "recorded result of send" in str(outcome.exception)
    doubt.outlast.skip(doubt.run_id, "send", result="text", why="put right")
    assert doubt.run(sends, "x").result == "text"


# -- several at once ---------------------------------------------------------------------------------


@flow
async def sends_many(run: AsyncRun) -> list[str]:
    async def one(text: str) -> str:
        got = str(await run.effect(send, text))
        ran(f"one {text}")
        return got

    return list(await asyncio.gather(one("a"), one("b"), one("c")))


def test_other_branches_go_on_while_one_waits(place: Place) -> None:
    KNOBS["troubles"] = [RuntimeError("first one only")]
    outcome = place.run(sends_many)
    assert (outcome.status, len(outcome.interrupts)) == ("waiting", 1)
    assert len([line for line in place.ran if line.startswith("one ")]) == 2
    place.outlast.skip(outcome.run_id, outcome.interrupts[0].step, result="by hand", why="seen")
    assert sorted(place.run(sends_many).result)[0] == "by hand"
    assert len([line for line in place.ran if line.startswith("send ")]) == 3


@flow
def maps_effects(run: Run) -> list[str]:
    return run.map(send, ["a", "b", "c"], concurrency=3)


def test_a_map_of_effects_waits_for_each_that_is_in_doubt_and_finishes_the_others(place: Place) -> None:
    KNOBS["troubles"] = [RuntimeError("one"), RuntimeError("two")]
    outcome = place.run(maps_effects)
    assert (outcome.status, len(outcome.interrupts)) == ("waiting", 2)
    for wait in outcome.interrupts:
        place.outlast.answer(wait.id, {"choice": "skip", "result": "by hand", "why": "seen"})
    assert sorted(place.run(maps_effects).result)[:2] == ["by hand", "by hand"]
    assert len([line for line in place.ran if line.startswith("send ")]) == 3
