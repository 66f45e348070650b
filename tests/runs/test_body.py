"""What a body may do of its own: values, events, the phase, all with an identity of their own."""

import asyncio
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest

from outlast import KEY, AsyncRun, Run, current, effect, flow, step
from outlast.errors import NameInvalid, Refused, ValueRefused

from ..kit.place import KNOBS, Place, ran, reach


@step
def show(text: str) -> str:
    ran(f"show {text}")
    reach("shown")
    return text


@effect
def send(text: str, *, key: str = KEY) -> str:
    ran(f"show {text}")
    reach("shown")
    return text


@flow
def tells(run: Run) -> list[Any]:
    found = [run.now().isoformat(), run.random(), str(run.uuid()), str(run.uuid())]
    show(str(found))
    reach("told")
    return found


@flow
async def tells_async(run: AsyncRun) -> list[Any]:
    found = [run.now().isoformat(), run.random(), str(run.uuid()), str(run.uuid())]
    await run.step(show, str(found))
    reach("told")
    return found


@flow
def tells_an_effect(run: Run) -> list[Any]:
    found = [run.now().isoformat(), run.random(), str(run.uuid()), str(run.uuid())]
    send(str(found))
    return found


@pytest.mark.parametrize("body", [tells, tells_async], ids=lambda flow: flow.__name__)
@pytest.mark.parametrize("point", ["shown", "told"])
def test_values_are_the_same_after_a_crash_as_soon_as_a_step_can_have_shown_them(
    place: Place, body: Any, point: str
) -> None:
    place.crash(body, at=point)
    place.clock.advance(3600)
    outcome = place.run(body)
    assert place.ran[0] == f"show {outcome.result}"
    assert len(set(place.ran)) == 1


def test_values_are_safe_before_an_effect_begins(place: Place) -> None:
    place.crash(tells_an_effect, at="shown")
    place.outlast.retry(place.run_id, "send") if place.run(tells_an_effect).status == "waiting" else None
    outcome = place.run(tells_an_effect)
    assert place.ran == [f"show {outcome.result}"] * 2


def test_now_is_the_runs_clock_in_utc(place: Place) -> None:
    found = place.run(tells).result
    assert datetime.fromisoformat(found[0]) == datetime(2026, 1, 1, tzinfo=UTC)
    assert 0 <= found[1] < 1
    assert uuid.UUID(found[2]) != uuid.UUID(found[3])


@flow
async def values_in_branches(run: AsyncRun) -> list[str]:
    async def one(name: str) -> str:
        await run.step(show, name)
        return str(run.uuid())

    found = list(await asyncio.gather(one("a"), one("b")))
    await run.step(show, "end")
    reach("told")
    return found


def test_values_belong_to_their_branch(place: Place) -> None:
    place.crash(values_in_branches, at="told")
    kept = [event.body for event in place.outlast.events(place.run_id) if event.name == "value.run.uuid"]
    assert sorted(place.run(values_in_branches).result) == sorted(kept)
    assert place.count("show end") == 1


@flow
def values_in_steps(run: Run) -> list[float]:
    return [roll(), roll()]


@step
def roll() -> float:
    return current().random()


def test_inside_a_step_they_are_plain_values(place: Place) -> None:
    assert len(set(place.run(values_in_steps).result)) == 2
    assert not [event for event in place.outlast.events(place.run_id) if event.name.startswith("value.")]


# -- events ------------------------------------------------------------------------------------------


@flow
def emits(run: Run) -> None:
    run.emit("began", {"topic": "kelp"})
    show("x")
    for number in range(2):
        run.emit("tick")
        run.emit("count", number, kind="fact")
    show("y")
    reach("emitted")


@flow
async def emits_async(run: AsyncRun) -> None:
    run.emit("began", {"topic": "kelp"})
    await run.step(show, "x")
    for number in range(2):
        run.emit("tick")
        run.emit("count", number, kind="fact")
    await run.step(show, "y")
    reach("emitted")


@pytest.mark.parametrize("body", [emits, emits_async], ids=lambda flow: flow.__name__)
def test_an_event_is_written_once_however_often_the_body_runs(place: Place, body: Any) -> None:
    place.crash(body, at="emitted")
    place.crash(body, at="emitted")
    place.run(body)
    assert [event.body for event in place.events("began")] == [{"topic": "kelp"}]
    assert len(place.events("tick")) == 2
    assert [(event.kind, event.body) for event in place.events("count")] == [("fact", 0), ("fact", 1)]


def test_the_sequence_of_events_never_repeats_or_goes_back(place: Place) -> None:
    place.crash(emits, at="emitted")
    place.run(emits)
    seqs = [event.seq for event in place.outlast.events(place.run_id)]
    assert seqs == list(range(1, len(seqs) + 1))
    assert [event.seq for event in place.outlast.events(place.run_id, after=3, limit=2)] == [4, 5]


@step(retries=1, backoff=0)
def emits_in_step() -> None:
    current().emit("working", current().attempt)
    if current().attempt == 1:
        raise ValueError("once more")


@flow
def emits_from_a_step(run: Run) -> None:
    emits_in_step()


def test_a_step_emits_once_for_each_attempt(place: Place) -> None:
    place.run(emits_from_a_step)
    assert [(event.step, event.body) for event in place.events("working")] == [
        ("emits_in_step", 1),
        ("emits_in_step", 2),
    ]


@flow
def emits_what_it_is_told(run: Run) -> None:
    run.emit(*KNOBS["emit"][0], **KNOBS["emit"][1])


@pytest.mark.parametrize("given", [(("",), {}), (("x",), {"kind": "gossip"})])
def test_an_event_needs_a_name_and_a_known_kind(place: Place, given: Any) -> None:
    KNOBS["emit"] = given
    assert isinstance(place.run(emits_what_it_is_told).exception, NameInvalid)


def test_an_event_cannot_carry_a_live_object(place: Place) -> None:
    KNOBS["emit"] = (("x", {"a": object()}), {})
    assert isinstance(place.run(emits_what_it_is_told).exception, ValueRefused)


# -- phase, envelope, current ------------------------------------------------------------------------


@flow
def phases(run: Run) -> str:
    run.phase = "collecting"
    show("x")
    run.phase = "writing"
    show("y")
    reach("phased")
    return run.phase


def test_the_phase_is_seen_from_outside_and_written_once(place: Place) -> None:
    place.crash(phases, at="phased")
    assert place.run(phases).result == "writing"
    assert place.outlast.get(place.run_id).phase == "writing"
    assert [event.body for event in place.events("phase")] == ["collecting", "writing"]


@pytest.mark.parametrize("word", ["two\nlines", "x" * 101, 7])
def test_a_phase_is_one_printable_word(place: Place, word: Any) -> None:
    KNOBS["word"] = word
    assert isinstance(place.run(sets_phase).exception, NameInvalid)


@flow
def sets_phase(run: Run) -> None:
    run.phase = KNOBS["word"]


@step
def with_envelope() -> None:
    current().envelope(done="read 12 sources", next="write the draft")


@flow
def envelopes(run: Run) -> None:
    with_envelope()
    show("x")


def test_a_step_says_what_was_done_and_what_comes_next(place: Place) -> None:
    place.run(envelopes)
    first, second = place.receipts()
    assert (first.envelope.done, first.envelope.next) == ("read 12 sources", "write the draft")
    assert second.envelope.done == "show succeeded"


@step
def with_artifacts(given: list[Any]) -> str:
    run = current()
    saved = run.workspace.save("notes", "text")
    run.envelope(done="wrote", artifacts=given)
    return run.workspace.save("more", "text").ref + saved.ref


@flow
def names_artifacts(run: Run, given: list[Any]) -> str:
    return with_artifacts(given)


def test_an_envelope_names_its_artifacts_those_that_were_said_and_those_that_were_saved(place: Place) -> None:
    place.run(names_artifacts, ["report.txt", "artifact:default/notes@1"])
    [receipt] = place.receipts()
    named = ("report.txt", "artifact:default/notes@1", "artifact:default/more@1")
    assert receipt.envelope.artifacts == receipt.artifacts == named


def test_an_artifact_that_is_no_text_is_refused(place: Place) -> None:
    assert isinstance(place.run(names_artifacts, [7]).exception, ValueRefused)


@flow
def knows_itself(run: Run) -> list[str]:
    return [run.id, current().id, whoami()]


@step
def whoami() -> str:
    return current().id


def test_current_gives_the_run_anywhere_below_its_body(place: Place) -> None:
    outcome = place.run(knows_itself)
    assert outcome.result == [outcome.run_id] * 3


@flow
def misuses(run: Run) -> str:
    return misuse()


@step
def misuse() -> str:
    run: Any = current()
    refused = []
    for call in (lambda: run.sleep(1), lambda: run.map(show, ["x"]), lambda: run.spawn(phases)):
        try:
            call()
        except Refused:
            refused.append("refused")
    try:
        run.phase = "inside"
    except Refused:
        refused.append("refused")
    return " ".join(refused)


def test_what_belongs_to_the_body_is_refused_inside_a_step(place: Place) -> None:
    assert place.run(misuses).result == "refused refused refused refused"
