"""Forks: a run of its own from a chosen step of another, which stays as it was."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from outlast import KEY, NOT_DONE, AsyncRun, Outcome, Run, RunRecord, current, effect, flow, step
from outlast.errors import (
    InputsInvalid,
    IntegrityBroken,
    NameInvalid,
    OperationConflict,
    OptionInvalid,
    RepeatsEffects,
    RunRemoved,
    RunSealed,
    StepNotFound,
    ValueRefused,
)
from outlast.home.home import run_row

from ..kit.ledgers import change as tamper
from ..kit.place import KNOBS, Place, ran, reach


@step
def fetch(what: str) -> str:
    ran(f"fetch {what}")
    return what


@step
def draft(text: str, tone: str) -> str:
    ran(f"draft {text} {tone}")
    run = current()
    return f"{text} {tone} {run.state.get('style', 'plain')}{KNOBS.get('edition', '')}"


@effect
def send(text: str, *, key: str = KEY) -> str:
    ran(f"send {text}")
    KNOBS.setdefault("keys", []).append(key)
    return f"sent {text}"


@step
def last(text: str) -> str:
    ran("last")
    reach("last")
    return text.upper()


@flow
def letter(run: Run, topic: str = "kelp", tone: str = "kind") -> list[Any]:
    found = fetch(topic)
    stamp = run.random()
    run.state["style"] = "plain"
    text = draft(found, tone)
    got = send(text)
    return [last(got), stamp]


def story(place: Place, run_id: str) -> list[Any]:
    """All that is known of a run."""
    outlast = place.outlast
    return [outlast.get(run_id), outlast.receipts(run_id), outlast.events(run_id), outlast.timeline(run_id)]


@contextmanager
def unchanged(place: Place, run_id: str) -> Iterator[None]:
    before = story(place, run_id)
    yield
    assert story(place, run_id) == before


@pytest.fixture
def done(place: Place) -> Outcome[Any]:
    outcome = place.run(letter, task="T")
    assert outcome.status == "succeeded"
    return outcome


def resumed(place: Place, fork: RunRecord) -> Any:
    return place.outlast.resume(fork.id).unwrap()


# -- what is taken over and what is done anew --------------------------------------------------------


def test_a_finished_run_is_forked_and_only_the_step_and_what_comes_after_it_is_done(
    place: Place, done: Outcome[Any]
) -> None:
    with unchanged(place, done.run_id):
        fork = place.outlast.fork(done.run_id, "last")
        assert (fork.status, fork.task) == ("interrupted", "T~fork-1")
        assert (fork.origin, fork.origin_step) == (done.run_id, "last")
        assert resumed(place, fork) == done.result
    assert [place.count(what) for what in ("fetch kelp", "send kelp kind plain", "last")] == [1, 1, 2]
    assert place.outlast.verify().ok


def test_the_fork_has_code_inputs_and_state_of_its_own(place: Place, done: Outcome[Any]) -> None:
    KNOBS["edition"] = "!"
    with unchanged(place, done.run_id):
        changes: Any = {"inputs": {"tone": "stern"}, "state": {"style": "ornate"}}
        fork = place.outlast.fork(done.run_id, "draft", yes=True, **changes)
        assert fork.inputs == {"topic": "kelp", "tone": "stern"}
        assert resumed(place, fork) == ["SENT KELP STERN ORNATE!", done.result[1]]
    assert place.count("fetch kelp") == 1


def test_the_state_that_a_fork_was_given_counts_also_after_a_crash(place: Place, done: Outcome[Any]) -> None:
    fork = place.outlast.fork(done.run_id, "draft", yes=True, state={"style": "ornate"})
    place.killed(lambda outlast: outlast.resume(fork.id), at="last")
    assert resumed(place, fork)[0] == "SENT KELP KIND ORNATE"
    assert place.count("send kelp kind ornate") == 1


def test_a_step_before_it_whose_inputs_change_is_done_anew_too(place: Place, done: Outcome[Any]) -> None:
    fork = place.outlast.fork(done.run_id, "draft", yes=True, inputs={"topic": "fish"})
    assert resumed(place, fork)[0] == "SENT FISH KIND PLAIN"


def test_a_run_that_failed_or_waits_or_crashed_is_forked_too(place: Place) -> None:
    place.crash(letter, at="last")
    origin = place.run_id
    with unchanged(place, origin):
        fork = place.outlast.fork(origin, "draft", yes=True)
        assert resumed(place, fork)[0] == "SENT KELP KIND PLAIN"


def test_forks_are_numbered_and_can_be_forked(place: Place, done: Outcome[Any]) -> None:
    first = place.outlast.fork(done.run_id, "last")
    second = place.outlast.fork(done.run_id, "last")
    with pytest.raises(StepNotFound):  # it has not come there itself
        place.outlast.fork(first.id, "last")
    assert resumed(place, first) == resumed(place, second) == done.result
    inner = place.outlast.fork(first.id, "last")
    assert [second.task, inner.task, inner.origin] == ["T~fork-2", "T~fork-1~fork-1", first.id]
    assert resumed(place, inner) == done.result


def test_a_fork_that_was_removed_has_happened_all_the_same(place: Place, done: Outcome[Any]) -> None:
    fork = place.outlast.fork(done.run_id, "last")
    resumed(place, fork)
    place.outlast.gc(keep=0, dry_run=False)
    assert place.run(letter, task="T~fork-1").replayed


def test_a_fork_happens_once_under_its_own_name(place: Place, done: Outcome[Any]) -> None:
    fork = place.outlast.fork(done.run_id, "last")
    assert place.run(letter, task="T~fork-1").run_id == fork.id
    assert place.run(letter, task="T~fork-1").replayed
    assert place.count("last") == 2


def test_a_fork_of_an_async_flow_takes_its_outcomes_over_in_their_order(place: Place) -> None:
    outcome = place.run(both)
    fork = place.outlast.fork(outcome.run_id, "last")
    assert place.outlast.resume(fork.id).unwrap() == outcome.result
    assert (place.count("fetch a"), place.count("fetch b"), place.count("last")) == (1, 1, 2)


@flow
async def both(run: AsyncRun) -> list[str]:
    found = await asyncio.gather(run.step(fetch, "a"), run.step(fetch, "b"))
    return [str(await run.step(last, "".join(found)))]


# -- effects -----------------------------------------------------------------------------------------


def test_effects_that_a_fork_would_repeat_are_named_and_refused(place: Place, done: Outcome[Any]) -> None:
    with unchanged(place, done.run_id), pytest.raises(RepeatsEffects, match="send") as refused:
        place.outlast.fork(done.run_id, "draft")
    assert [each["step"] for each in refused.value.effects] == ["send"]
    assert str(refused.value).endswith("or keep what was done: reuse_effects=True")
    assert len(place.outlast.runs()) == 1
    with pytest.raises(RepeatsEffects):
        place.outlast.fork(done.run_id, "draft", effects=["other"])
    place.outlast.fork(done.run_id, "draft", effects=["send"])


def test_an_effect_that_is_repeated_has_a_key_of_the_forks_own(place: Place, done: Outcome[Any]) -> None:
    fork = place.outlast.fork(done.run_id, "draft", yes=True)
    resumed(place, fork)
    first, second = KNOBS["keys"]
    assert (first.startswith(done.run_id), second.startswith(fork.id)) == (True, True)
    (forked,) = [event for event in place.outlast.events(fork.id) if event.name == "run.forked"]
    assert [each["step"] for each in forked.body["effects"]] == ["send"]


def test_reused_effects_keep_their_results_and_are_not_done_again(place: Place, done: Outcome[Any]) -> None:
    fork = place.outlast.fork(done.run_id, "draft", reuse_effects=True)
    assert resumed(place, fork) == done.result
    assert (place.count("send kelp kind plain"), place.count("draft kelp kind")) == (1, 2)
    (receipt,) = [each for each in place.outlast.receipts(fork.id) if each.step == "send"]
    assert receipt.key.startswith(done.run_id)


def test_a_reused_effect_whose_inputs_changed_asks(place: Place, done: Outcome[Any]) -> None:
    fork = place.outlast.fork(done.run_id, "draft", reuse_effects=True, state={"style": "ornate"})
    outcome = place.outlast.resume(fork.id)
    assert [wait.type for wait in outcome.interrupts] == ["inputs_changed"]
    place.outlast.answer(outcome.interrupts[0].id, {"choice": "reuse"})
    assert resumed(place, fork)[0] == "SENT KELP KIND PLAIN"
    assert place.count("send kelp kind ornate") == 0


@flow
def parent(run: Run) -> list[Any]:
    fetch("a")
    child = run.spawn(letter).result()
    return [last("b"), child[0]]


def test_child_runs_before_the_step_are_taken_over_and_effects_of_later_ones_are_asked_about(place: Place) -> None:
    outcome = place.run(parent)
    fork = place.outlast.fork(outcome.run_id, "last")
    assert resumed(place, fork) == outcome.result
    assert place.count("fetch kelp") == 1
    with pytest.raises(RepeatsEffects, match="send"):
        place.outlast.fork(outcome.run_id, "fetch")
    again = place.outlast.fork(outcome.run_id, "fetch", yes=True)
    assert resumed(place, again) == outcome.result
    assert place.count("fetch kelp") == 2
    assert place.outlast.verify().ok


@flow
def approved(run: Run) -> str:
    answer = run.pause_for("approval", payload={"text": "send it?"})
    return str(last(f"approved {answer['approved']}"))


def test_an_answer_before_the_step_is_taken_over_and_nobody_is_asked_again(place: Place) -> None:
    outcome = place.run(approved)
    place.outlast.answer(outcome.interrupts[0].id, {"approved": True})
    done = place.run(approved)
    fork = place.outlast.fork(done.run_id, "last")
    assert resumed(place, fork) == done.result == "APPROVED TRUE"
    assert place.outlast.verify().ok


# -- files -------------------------------------------------------------------------------------------


@step(writes="notes.txt", on_partial="restore")
def takes_notes(what: str) -> str:
    before = current().previous
    with Path("notes.txt").open("a") as notes:
        notes.write(f"{what}\n")
    return before.status if before else "first"


@flow
def notes(run: Run) -> list[Any]:
    return [takes_notes("one"), takes_notes("two")]


def test_files_of_what_is_done_anew_are_partial_work_of_the_fork(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.folder)
    done = place.run(notes)
    fork = place.outlast.fork(done.run_id, "takes_notes~2")
    assert resumed(place, fork) == ["first", "succeeded"]
    assert (place.folder / "notes.txt").read_text() == "one\ntwo\n"


def test_files_as_they_were_before_are_kept_for_the_fork_too(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.folder)
    (place.folder / "notes.txt").write_text("before\n")
    done = place.run(notes)
    fork = place.outlast.fork(done.run_id, "takes_notes")
    home = place.outlast._executor.home
    keys = [run_row(home, run_id).key for run_id in (done.run_id, fork.id)]
    kept = home.store.read(lambda look: [look.blobs_of(key) for key in keys])
    assert set(kept[0]) == set(kept[1]) != set()
    place.outlast.gc(keep=0, dry_run=False)
    resumed(place, fork)
    assert (place.folder / "notes.txt").read_text() == "before\none\ntwo\n"


# -- content -----------------------------------------------------------------------------------------


@step
def large() -> str:
    ran("large")
    return "x" * 100_000


@flow
def heavy(run: Run) -> str:
    text = large()
    saved = run.workspace.save("big", text)
    last(saved.ref)
    return f"{len(text)} {saved.ref}"


def test_content_that_a_fork_took_over_outlives_the_run_that_it_came_from(place: Place) -> None:
    done = place.run(heavy)
    fork = place.outlast.fork(done.run_id, "last")
    place.outlast.gc(keep=0, dry_run=False)
    with pytest.raises(RunRemoved):
        place.outlast.receipts(done.run_id)
    assert resumed(place, fork) == done.result
    assert place.count("large") == 1
    assert place.outlast.verify().ok


def test_a_fork_is_moved_elsewhere_and_goes_on_there(place: Place, done: Outcome[Any], tmp_path: Path) -> None:
    fork = place.outlast.fork(done.run_id, "last")
    exported = place.outlast.export(fork.id, tmp_path / "fork.run", move=True)
    there = Place(tmp_path / "there")
    there.folder.mkdir()
    there.outlast.import_(exported.path)
    record = there.outlast.get(fork.id)
    assert (record.origin, record.origin_step) == (done.run_id, "last")
    assert there.outlast.resume(fork.id).unwrap() == done.result
    assert there.outlast.verify().ok
    there.close()


# -- the record --------------------------------------------------------------------------------------


def test_a_fork_says_where_it_comes_from(place: Place, done: Outcome[Any]) -> None:
    fork = place.outlast.fork(done.run_id, "last", why="to compare")
    (item,) = [each for each in place.outlast.timeline(fork.id) if each.name == "forked"]
    assert item.note == f"from last of run {done.run_id}, by local: to compare"
    listed = {run.id: run.origin for run in place.outlast.runs()}
    assert listed == {done.run_id: "", fork.id: done.run_id}


def test_a_fork_can_be_rewound_and_resumed_like_any_run(place: Place, done: Outcome[Any]) -> None:
    fork = place.outlast.fork(done.run_id, "last")
    place.outlast.rewind(fork.id, "draft")
    assert resumed(place, fork) == done.result
    assert (place.count("draft kelp kind"), place.count("send kelp kind plain")) == (2, 1)


def test_the_same_operation_makes_one_fork(place: Place, done: Outcome[Any]) -> None:
    first = place.outlast.fork(done.run_id, "last", operation_id="op")
    second = place.outlast.fork(done.run_id, "last", operation_id="op")
    assert (second.id, second.replayed, len(place.outlast.runs())) == (first.id, True, 2)
    with pytest.raises(OperationConflict):
        place.outlast.fork(done.run_id, "draft", yes=True, operation_id="op")


def test_a_fork_replays_as_it_was_done(place: Place, done: Outcome[Any]) -> None:
    fork = place.outlast.fork(done.run_id, "draft", yes=True, state={"style": "ornate"}, inputs={"tone": "stern"})
    resumed(place, fork)
    assert place.outlast.replay(fork.id).divergences == ()


@flow
def forks_itself(run: Run) -> str:
    fetch("a")
    KNOBS["fork"] = KNOBS["place"].outlast.fork(run.id, "fetch")
    return last("b")


def test_a_live_run_can_be_forked_and_goes_on(place: Place) -> None:
    KNOBS["place"] = place
    assert place.run(forks_itself).unwrap() == "B"
    assert KNOBS["fork"].status == "interrupted"
    assert place.outlast.verify().ok


@effect(confirm=lambda key: NOT_DONE)
def doubtful(name: str, *, key: str = KEY) -> str:
    ran(f"doubtful {name}")
    reach("doubtful")
    return name


@flow
def doubts(run: Run) -> str:
    fetch("a")
    return str(doubtful("x"))


def test_an_effect_in_doubt_is_among_those_that_are_asked_about_and_reused_it_stays_in_doubt(place: Place) -> None:
    place.crash(doubts, at="doubtful")
    origin = place.run_id
    with pytest.raises(RepeatsEffects, match="in doubt since"):
        place.outlast.fork(origin, "fetch")
    fork = place.outlast.fork(origin, "fetch", reuse_effects=True)
    assert [each.action for each in place.outlast.plan(fork.id).steps if each.step == "doubtful"] == ["confirm"]
    assert resumed(place, fork) == "x"


# -- what is refused ---------------------------------------------------------------------------------


def test_what_cannot_be_forked_is_refused_and_leaves_nothing(place: Place, done: Outcome[Any]) -> None:
    refusals: list[tuple[type[Exception], str, dict[str, Any]]] = [
        (StepNotFound, "nothing", {}),
        (StepNotFound, "../" + "🙂" * 9_999, {}),
        (InputsInvalid, "last", {"inputs": {"no": 1}}),
        (InputsInvalid, "last", {"inputs": {"topic": 5}}),
        (ValueRefused, "last", {"state": {"x": object()}}),
        (NameInvalid, "last", {"state": {"": 1}}),
        (OptionInvalid, "last", {"effects": "send"}),
    ]
    with unchanged(place, done.run_id):
        for kind, where, given in refusals:
            with pytest.raises(kind):
                place.outlast.fork(done.run_id, where, **given)
    assert len(place.outlast.runs()) == 1


def test_a_run_that_only_stands_for_one_elsewhere_is_not_forked(place: Place, tmp_path: Path) -> None:
    place.crash(letter, at="last")
    place.outlast.export(place.run_id, tmp_path / "moved.run", move=True)
    with pytest.raises(RunSealed):
        place.outlast.fork(place.run_id, "last")


def test_a_damaged_run_is_not_forked(place: Place, done: Outcome[Any]) -> None:
    tamper(place.home, "UPDATE journal SET payload = cast(payload || ' ' AS blob) WHERE seq = 2")
    place.reopen()
    with pytest.raises(IntegrityBroken):
        place.outlast.fork(done.run_id, "last")
