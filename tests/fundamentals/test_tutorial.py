"""Outlast from the beginning, one idea a test. Read it from top to bottom.

Five words: a *flow* is a recipe; a *step* is work that may run again until it has succeeded; an *effect* is work that
must never be repeated unknowingly; a *run* is one execution of a flow; a *receipt* is the record of one attempt.
"""

import asyncio
import os
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from outlast import (
    KEY,
    NOT_DONE,
    AsyncOutlast,
    AsyncRun,
    Happened,
    NotDone,
    Outlast,
    Run,
    effect,
    flow,
    inject,
    step,
)
from outlast.errors import Contested, InputsConflict, RunFinished, ValueRefused

DID: list[str] = []  # what really ran
WORLD: dict[str, str] = {}  # what effects did to the world outside, by key
TROUBLE: list[BaseException] = []  # what goes wrong next


@pytest.fixture(autouse=True)
def a_new_world() -> None:
    for thing in (DID, WORLD, TROUBLE):
        thing.clear()


@dataclass
class Source:
    title: str
    year: int


def trouble() -> None:
    if TROUBLE:
        raise TROUBLE.pop(0)


# -- 1. A run and its steps --------------------------------------------------------------------------


@step
def find(topic: str) -> list[Source]:
    DID.append("find")
    return [Source(topic, 2025), Source(topic, 2026)]


@step
def summarise(source: Source) -> str:
    DID.append(f"summarise {source.year}")
    trouble()
    return f"{source.title} {source.year}"


@flow
def survey(run: Run, topic: str) -> list[str]:
    return [summarise(source) for source in find(topic)]


def test_a_flow_runs_its_steps_and_gives_an_outcome(outlast: Outlast) -> None:
    outcome = outlast.run(survey, "kelp")
    assert outcome.status == "succeeded"
    assert outcome.result == ["kelp 2025", "kelp 2026"]


def test_each_attempt_of_a_step_leaves_a_receipt(outlast: Outlast) -> None:
    outcome = outlast.run(survey, "kelp")
    receipts = outlast.receipts(outcome.run_id)
    assert [(r.label, r.status) for r in receipts] == [
        ("find", "succeeded"),
        ("summarise", "succeeded"),
        ("summarise~2", "succeeded"),
    ]


def test_a_failure_is_an_outcome_too_and_unwrap_raises_it(outlast: Outlast) -> None:
    TROUBLE.append(ConnectionError("the network went away"))
    outcome = outlast.run(survey, "kelp")
    assert outcome.status == "failed"
    with pytest.raises(ConnectionError, match="went away"):
        outcome.unwrap()


def test_the_same_call_goes_on_at_the_failure(outlast: Outlast) -> None:
    TROUBLE.append(ConnectionError("the network went away"))
    failed = outlast.run(survey, "kelp")
    DID.clear()
    again = outlast.run(survey, "kelp")
    assert again.run_id == failed.run_id
    assert again.unwrap() == ["kelp 2025", "kelp 2026"]
    assert "find" not in DID  # its result came from its receipt, as the dataclasses that the annotation names


def test_a_finished_run_stays_finished_and_the_same_call_starts_a_new_one(outlast: Outlast) -> None:
    first = outlast.run(survey, "kelp")
    with pytest.raises(RunFinished):
        outlast.resume(first.run_id)
    assert outlast.run(survey, "kelp").run_id != first.run_id


def test_a_task_has_one_unfinished_run_and_other_inputs_for_it_are_a_conflict(outlast: Outlast) -> None:
    TROUBLE.append(ConnectionError("the network went away"))
    outlast.run(survey, "kelp", task="weekly")
    with pytest.raises(InputsConflict):
        outlast.run(survey, "otters", task="weekly")


# -- 2. Killed ---------------------------------------------------------------------------------------


def test_a_killed_process_loses_nothing_that_a_step_returned(tmp_path: Path) -> None:
    """A real process, and a real kill -9 between two steps."""
    home, log = tmp_path / ".outlast", tmp_path / "log"
    os.environ["TUTORIAL_LOG"] = str(log)
    child = os.fork()
    if child == 0:
        os.environ["TUTORIAL_DIE"] = "1"
        try:
            Outlast(home).run(two_steps)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    with Outlast(home) as outlast:
        assert outlast.runs()[0].status == "crashed"
        assert outlast.run(two_steps).result == "first, then second"
    assert log.read_text() == "first\nsecond\n"


@flow
def two_steps(run: Run) -> str:
    first = write_down("first")
    if os.environ.get("TUTORIAL_DIE"):
        os.kill(os.getpid(), signal.SIGKILL)
    return f"{first}, then {write_down('second')}"


@step
def write_down(text: str) -> str:
    with open(os.environ["TUTORIAL_LOG"], "a") as log:
        log.write(f"{text}\n")
    return text


# -- 3. The body runs again --------------------------------------------------------------------------


@flow
def careful(run: Run) -> str:
    """Bodies do no side effects of their own; what they ask the run for is the same each time."""
    stamp, token = run.now(), run.uuid()
    run.state["seen"] = run.state.get("seen", 0) + 1
    run.emit("began", {"number": str(token)})
    DID.append("body")
    summarise(Source("kelp", 2026))
    return f"{stamp.isoformat()} {token} {run.state['seen']}"


def test_resuming_runs_the_body_again_from_the_top_on_its_receipts(outlast: Outlast) -> None:
    TROUBLE.append(ConnectionError("the network went away"))
    outlast.run(careful)
    outcome = outlast.run(careful)
    assert DID.count("body") == 2
    began = [event for event in outlast.events(outcome.run_id) if event.name == "began"]
    assert len(began) == 1  # an event of the body is written once
    assert began[0].body["number"] in outcome.unwrap()  # a value it was told is told again
    assert outcome.unwrap().endswith(" 1")  # state starts empty each time, and is rebuilt


@flow
def forgiving(run: Run) -> str:
    try:
        return summarise(Source("kelp", 2026))
    except ConnectionError as error:
        DID.append("caught")
        summarise(Source("otters", 2026))
        return f"went on without it: {error}"


def test_a_failure_that_the_flow_caught_is_raised_again_on_replay(outlast: Outlast) -> None:
    TROUBLE.extend([ConnectionError("no kelp"), ValueError("no otters")])
    assert outlast.run(forgiving).status == "failed"
    assert outlast.run(forgiving).result == "went on without it: no kelp"
    assert (DID.count("caught"), DID.count("summarise 2026")) == (2, 3)


# -- 4. Effects --------------------------------------------------------------------------------------


def find_sent(key: str) -> object:
    """The probe: looks in the world for what the effect would have left there."""
    return Happened(WORLD[key]) if key in WORLD else NOT_DONE


@effect(confirm=find_sent)
def send(text: str, *, key: str = KEY) -> str:
    DID.append(f"send {text}")
    WORLD[key] = f"sent {text}"
    trouble()
    return WORLD[key]


@effect
def send_blindly(text: str) -> str:
    DID.append(f"send {text}")
    trouble()
    return f"sent {text}"


@flow
def publish(run: Run, text: str) -> str:
    return send(text)


@flow
def publish_blindly(run: Run, text: str) -> str:
    return send_blindly(text)


def test_a_probe_settles_an_effect_that_ended_without_an_outcome(outlast: Outlast) -> None:
    TROUBLE.append(TimeoutError("no answer, but it was sent"))
    assert outlast.run(publish, "report").result == "sent report"
    assert DID == ["send report"]


def test_without_a_probe_a_person_decides(outlast: Outlast) -> None:
    TROUBLE.append(TimeoutError("no answer"))
    outcome = outlast.run(publish_blindly, "report")
    assert outcome.status == "waiting"
    assert outcome.interrupts[0].choices == ("retry", "skip", "abort")
    outlast.skip(outcome.run_id, "send_blindly", result="sent report", why="I saw it in the outbox")
    assert outlast.run(publish_blindly, "report").result == "sent report"
    assert DID == ["send report"]


def test_an_effect_that_says_not_done_has_simply_failed(outlast: Outlast) -> None:
    TROUBLE.append(NotDone("the queue was full"))
    assert outlast.run(publish_blindly, "report").status == "failed"
    assert outlast.run(publish_blindly, "report").result == "sent report"


# -- 5. Many at once ---------------------------------------------------------------------------------


@step
async def weigh(name: str) -> int:
    DID.append(f"weigh {name}")
    await asyncio.sleep(0)
    trouble()
    return len(name)


@flow
async def weigh_all(run: AsyncRun, names: list[str]) -> int:
    return sum(await asyncio.gather(*(weigh(name) for name in names)))


def test_branches_of_an_async_flow_keep_what_they_finished(tmp_path: Path) -> None:
    async def twice() -> None:
        async with AsyncOutlast(tmp_path / ".outlast") as outlast:
            assert (await outlast.run(weigh_all, ["ant", "bee", "cat"])).status == "failed"
            done = len(DID)
            assert (await outlast.run(weigh_all, ["ant", "bee", "cat"])).result == 9
            assert len(DID) - done < 3  # what had been weighed was not weighed again

    TROUBLE.append(ConnectionError("one of them"))
    asyncio.run(twice())


@flow
def map_all(run: Run, years: list[int]) -> list[str]:
    return run.map(summarise, [Source("kelp", year) for year in years], concurrency=4)


def test_a_map_does_many_in_threads_and_keeps_their_order(outlast: Outlast) -> None:
    assert outlast.run(map_all, [2026, 2024, 2025]).result == ["kelp 2026", "kelp 2024", "kelp 2025"]


# -- 6. Resources and values -------------------------------------------------------------------------


@step
def ask(question: str, *, model: object = inject("model")) -> str:
    assert callable(model)
    return str(model(question))


@flow
def interview(run: Run) -> str:
    first = ask("who?")
    trouble()
    return first


def test_live_objects_are_injected_and_never_saved(outlast: Outlast) -> None:
    outlast.resource("model", lambda question: f"{question} me")
    assert outlast.run(interview).result == "who? me"


def test_resuming_without_a_resource_is_contested_before_anything_runs(outlast: Outlast) -> None:
    TROUBLE.append(ConnectionError("gone"))
    outlast.resource("model", lambda question: f"{question} me")
    assert outlast.run(interview).status == "failed"
    with Outlast(outlast.home) as another, pytest.raises(Contested, match="model"):
        another.run(interview)


@step
def leaky() -> object:
    return {"results": [object()]}


@flow
def leaks(run: Run) -> object:
    return leaky()


def test_a_value_that_would_not_come_back_is_refused_by_path(outlast: Outlast) -> None:
    error = outlast.run(leaks).exception
    assert isinstance(error, ValueRefused)
    assert error.path == "leaky()['results'][0]"


# -- 7. Looking --------------------------------------------------------------------------------------


def test_a_plan_says_what_resuming_would_do_and_how_far_to_trust_it(outlast: Outlast) -> None:
    TROUBLE.append(ConnectionError("the network went away"))
    outcome = outlast.run(survey, "kelp")
    plan = outlast.plan(outcome.run_id)
    assert (plan.of("reuse"), plan.of("retry")) == (("find",), ("summarise",))
    assert str(plan.verdict) == "trusted"


def test_verify_checks_every_record_of_the_store(outlast: Outlast) -> None:
    outlast.run(survey, "kelp")
    found = outlast.verify()
    assert found.ok
    assert (found.runs, found.entries) == (1, 5)  # started, three receipts, succeeded
