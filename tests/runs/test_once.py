"""A task that a caller named happens once: the same call afterwards is given how it ended, and nothing is done."""

from __future__ import annotations

import asyncio
import sys
import threading
from dataclasses import dataclass
from typing import Any

import pytest

from outlast import AsyncOutlast, Outcome, Outlast, OutlastError, Run, effect, flow, flow_file, step
from outlast.errors import (
    Finished,
    InputsConflict,
    IntegrityBroken,
    RepeatsEffects,
    RunHeld,
    TaskAborted,
    TaskDeclined,
)
from outlast.flows.loading import load
from outlast.flows.spec import source_of
from outlast.python.shared import FlowCall
from outlast.runs.run import Options

from ..kit import ledgers
from ..kit.place import KNOBS, Place, ran, reach


@dataclass(frozen=True)
class Paid:
    amount: int
    to: str


@effect
def charge(to: str) -> Paid:
    ran(f"charge {to}")
    return Paid(7, to)


@step
def look_up(to: str) -> str:
    ran(f"look up {to}")
    if KNOBS.get("trouble"):
        raise ConnectionError("no network")
    return to.upper()


@flow
def pay(run: Run, to: str = "kelp") -> Paid:
    paid = charge(look_up(to))
    reach("before the end")
    if KNOBS.get("fail"):
        raise ValueError("no")
    return paid


@flow
def note(run: Run, to: str = "kelp") -> str:
    return look_up(to)


DECLINED = "flow: bill\nsteps:\n  - {id: ok, pause_for: approval}\n"


@flow
def parent(run: Run, to: str = "kelp") -> Any:
    return run.spawn(pay, to).result()


def facts_of(place: Place, outcome: Outcome[Any], name: str) -> list[Any]:
    return [event for event in place.outlast.events(outcome.run_id) if event.name == f"run.{name}"]


def call(outlast: Outlast, what: Any, *args: Any, **options: Any) -> Outcome[Any]:
    return outlast._run(FlowCall(what, args, {}, Options(**options)))


# -- after success -----------------------------------------------------------------------------------


def test_the_same_call_after_success_gives_the_outcome_and_does_nothing(place: Place) -> None:
    first = place.run(pay, task="bill-7")
    again = place.run(pay, task="bill-7")
    assert (first.replayed, again.replayed) == (False, True)
    assert (again.run_id, again.status, again.result) == (first.run_id, "succeeded", Paid(7, "KELP"))
    assert (place.ran, len(place.outlast.runs())) == (["look up kelp", "charge KELP"], 1)


def test_a_task_without_a_name_starts_anew(place: Place) -> None:
    assert place.run(pay).run_id != place.run(pay).run_id
    assert place.count("charge KELP") == 2


def test_a_large_result_is_given_again(place: Place) -> None:
    place.run(note, "x" * 100_000, task="large")
    assert place.run(note, "x" * 100_000, task="large").result == "X" * 100_000


def test_a_process_that_died_after_its_success_was_recorded_leaves_the_outcome(place: Place) -> None:
    def work(outlast: Outlast) -> None:
        outlast.run(pay, task="bill-7")
        reach("after the end")

    place.killed(work, at="after the end")
    assert place.run(pay, task="bill-7").replayed
    assert place.count("charge KELP") == 1


def test_start_gives_the_outcome_too(place: Place) -> None:
    first = place.run(pay, task="bill-7")
    assert place.outlast.start(pay, task="bill-7").outcome(10) == place.run(pay, task="bill-7")
    assert place.outlast.start(pay, task="bill-7").run_id == first.run_id


def test_many_at_once_do_it_once(place: Place) -> None:
    outcomes: list[str] = []

    def work() -> None:
        with Outlast(place.home) as mine:
            while True:
                try:
                    outcomes.append(mine.run(pay, task="bill-7").run_id)
                    return
                except RunHeld:
                    continue

    threads = [threading.Thread(target=work) for _ in range(4)]
    [each.start() for each in threads]
    [each.join() for each in threads]
    assert (len(outcomes), len(set(outcomes)), place.count("charge KELP")) == (4, 1, 1)


def test_on_an_event_loop_it_is_the_same(place: Place) -> None:
    async def inside() -> None:
        async with AsyncOutlast(place.home) as outlast:
            first = await outlast.run(pay, task="bill-7")
            again = await outlast.run(pay, task="bill-7")
            started = await outlast.start(pay, task="bill-7")
            assert (again.run_id, again.replayed, (await started).replayed) == (first.run_id, True, True)

    asyncio.run(inside())
    assert place.count("charge KELP") == 1


def test_other_inputs_after_success_are_a_conflict_that_names_again(place: Place) -> None:
    first = place.run(pay, task="bill-7")
    with pytest.raises(InputsConflict, match="again=True") as caught:
        place.run(pay, "otters", task="bill-7")
    assert (caught.value.run, caught.value.standing) == (first.run_id, "finished")
    assert place.count("charge OTTERS") == 0


def test_a_task_holds_many_flows_and_each_happens_once(place: Place) -> None:
    first, second = place.run(pay, task="bill-7"), place.run(note, task="bill-7")
    assert first.run_id != second.run_id
    assert (place.run(pay, task="bill-7").run_id, place.run(note, task="bill-7").run_id) == (
        first.run_id,
        second.run_id,
    )


def test_another_scope_is_another_task(place: Place) -> None:
    first = place.run(pay, task="bill-7")
    assert place.outlast._acting(scope="other").run(pay, task="bill-7").run_id != first.run_id


def test_a_failed_run_goes_on_at_its_failure(place: Place) -> None:
    KNOBS["fail"] = True
    first = place.run(pay, task="bill-7")
    KNOBS["fail"] = False
    second = place.run(pay, task="bill-7")
    assert (first.status, second.status, second.run_id) == ("failed", "succeeded", first.run_id)
    assert place.count("charge KELP") == 1


def test_a_named_call_that_continues_an_unnamed_run_names_it(place: Place) -> None:
    KNOBS["fail"] = True
    failed = place.run(pay)
    KNOBS["fail"] = False
    task = place.outlast.get(failed.run_id).task
    assert place.run(pay, task=task).run_id == failed.run_id
    assert place.run(pay, task=task).replayed
    assert place.count("charge KELP") == 1
    assert place.outlast.verify().ok


# -- changed code ------------------------------------------------------------------------------------

SCRIPT = """
from outlast import Run, effect, flow

@effect
def charge() -> int:
    return {amount}

@flow
def bill(run: Run) -> int:
    return charge() + {more}
"""


@pytest.mark.parametrize(("amount", "more", "changed"), [(1, 0, False), (2, 0, True), (1, 5, True)])
def test_changed_code_gives_the_old_outcome_and_a_note(place: Place, amount: int, more: int, changed: bool) -> None:
    def bill() -> Any:  # as another process would load it
        for name in [name for name in sys.modules if name.startswith("outlast_file_")]:
            del sys.modules[name]
        source_of.cache_clear()
        return load(f"{path}:bill")

    path = place.script("bill.py", SCRIPT.format(amount=1, more=0))
    place.run(bill(), task="bill-7")
    place.script("bill.py", "# moved\n" + SCRIPT.format(amount=amount, more=more))
    again = place.run(bill(), task="bill-7")
    assert (again.replayed, again.result, again.notes) == (True, 1, ("code_changed",) * changed)


def test_a_changed_flow_file_gives_the_old_outcome_and_a_note(place: Place) -> None:
    path = place.script("bill.yaml", "flow: bill\nsteps:\n  - id: pay\n    run: echo 1\n")
    first = place.run(flow_file(path), task="bill-7")
    place.script("bill.yaml", "# the same\nflow: bill\nsteps: [{id: pay, run: echo 1}]\n")
    assert place.run(flow_file(path), task="bill-7").notes == ()
    place.script("bill.yaml", "flow: bill\nsteps:\n  - id: pay\n    run: echo 2\n")
    again = place.run(flow_file(path), task="bill-7")
    assert (again.run_id, again.notes) == (first.run_id, ("code_changed",))


# -- aborted and declined ----------------------------------------------------------------------------


def test_an_aborted_task_is_refused_and_names_again(place: Place) -> None:
    KNOBS["fail"] = True
    first = place.run(pay, task="bill-7")
    place.outlast.abort(first.run_id, why="never mind")
    with pytest.raises(TaskAborted, match="--again") as caught:
        place.run(pay, task="bill-7")
    assert (caught.value.run, place.count("charge KELP")) == (first.run_id, 1)


def test_a_declined_task_is_refused_and_names_again(place: Place) -> None:
    bill = flow_file(place.script("bill.yaml", DECLINED))
    first = place.run(bill, task="bill-7")
    (wait,) = place.outlast.interrupts(first.run_id)
    place.outlast.answer(wait.id, {"approved": False, "comment": "too much"})
    with pytest.raises(TaskDeclined, match="--again") as caught:
        place.run(bill, task="bill-7")
    assert caught.value.run == first.run_id


# -- again -------------------------------------------------------------------------------------------


def test_again_names_the_effects_it_would_repeat_and_does_nothing_unasked(place: Place) -> None:
    first = place.run(pay, task="bill-7")
    with pytest.raises(RepeatsEffects) as caught:
        call(place.outlast, pay, task="bill-7", again=True)
    (found,) = caught.value.effects
    assert (found["step"], found["run"]) == ("charge", first.run_id)
    assert found["key"] == place.outlast.receipts(first.run_id)[-1].key
    assert found["result"] == '{"amount":7,"to":"KELP"}'
    assert found["key"] in str(caught.value)
    assert (len(place.outlast.runs()), place.count("charge KELP")) == (1, 1)


@pytest.mark.parametrize("said", [{"yes": True}, {"effects": ("charge",)}])
def test_again_starts_another_on_the_record(place: Place, said: dict[str, Any]) -> None:
    first = place.run(pay, task="bill-7")
    second = call(place.outlast, pay, task="bill-7", again=True, **said)
    assert (second.status, second.replayed, second.run_id != first.run_id) == ("succeeded", False, True)
    (fact,) = facts_of(place, second, "again")
    assert (fact.body["of"], fact.body["by"], [each["step"] for each in fact.body["effects"]]) == (
        first.run_id,
        "local",
        ["charge"],
    )
    (item,) = [item for item in place.outlast.timeline(second.run_id) if item.name == "again"]
    assert item.note == f"by local: after run {first.run_id}, repeats charge"
    assert place.run(pay, task="bill-7").run_id == second.run_id
    assert place.outlast.verify().ok


def test_other_effects_than_were_named_are_not_agreed_to(place: Place) -> None:
    place.run(pay, task="bill-7")
    with pytest.raises(RepeatsEffects):
        call(place.outlast, pay, task="bill-7", again=True, effects=("mail",))


def test_again_without_effects_asks_nothing(place: Place) -> None:
    first = place.run(note, task="bill-7")
    assert call(place.outlast, note, task="bill-7", again=True).run_id != first.run_id


def test_again_with_other_inputs_is_the_callers_word(place: Place) -> None:
    place.run(pay, task="bill-7")
    assert call(place.outlast, pay, "otters", task="bill-7", again=True, yes=True).result == Paid(7, "OTTERS")


def test_again_of_an_unfinished_run_goes_on_with_it(place: Place) -> None:
    KNOBS["fail"] = True
    first = place.run(pay, task="bill-7")
    KNOBS["fail"] = False
    assert call(place.outlast, pay, task="bill-7", again=True).run_id == first.run_id
    assert place.count("charge KELP") == 1


def test_again_counts_effects_of_children_and_of_every_run_before(place: Place) -> None:
    first = place.run(parent, task="bill-7")
    KNOBS["trouble"] = True
    second = call(place.outlast, parent, task="bill-7", again=True, yes=True)
    place.outlast.abort(second.run_id, why="no network")
    KNOBS["trouble"] = False
    with pytest.raises(RepeatsEffects) as caught:
        call(place.outlast, parent, task="bill-7", again=True)
    (found,) = caught.value.effects
    (child,) = [run for run in place.outlast.runs() if run.parent == first.run_id]
    assert (found["step"], found["run"]) == ("charge", child.id)


# -- fresh -------------------------------------------------------------------------------------------


def test_fresh_on_a_finished_named_task_is_refused_and_names_again(place: Place) -> None:
    place.run(pay, task="bill-7")
    with pytest.raises(Finished, match="--again") as caught:
        place.run(pay, task="bill-7", fresh=True)
    assert (caught.value.code, place.count("charge KELP")) == ("finished", 1)


def test_fresh_names_the_effects_of_the_run_that_it_would_give_up(place: Place) -> None:
    KNOBS["fail"] = True
    first = place.run(pay, task="bill-7")
    with pytest.raises(RepeatsEffects) as caught:
        place.run(pay, task="bill-7", fresh=True)
    assert [each["step"] for each in caught.value.effects] == ["charge"]
    assert place.outlast.get(first.run_id).status == "failed"
    KNOBS["fail"] = False
    second = call(place.outlast, pay, task="bill-7", fresh=True, yes=True)
    assert (second.status, place.outlast.get(first.run_id).status) == ("succeeded", "aborted")
    assert place.run(pay, task="bill-7").run_id == second.run_id


def test_fresh_names_an_effect_in_doubt(place: Place) -> None:
    place.crash(doubtful, at="in the effect", task="bill-7")
    with pytest.raises(RepeatsEffects, match="in doubt") as caught:
        place.run(doubtful, task="bill-7", fresh=True)
    assert caught.value.effects[0]["in_doubt"]


@effect
def dies() -> None:
    ran("dies")
    reach("in the effect")


@flow
def doubtful(run: Run) -> None:
    dies()


def test_a_fresh_run_that_cannot_be_added_gives_nothing_up(place: Place) -> None:
    """Both are one transaction: killed in between, the task would be aborted, and the same command refused."""
    first = place.run(fails, task="bill-7")
    with Outlast(place.home, ids=lambda: first.run_id) as outlast, pytest.raises(OutlastError):  # that id is taken
        outlast.run(fails, task="bill-7", fresh=True)
    assert place.outlast.get(first.run_id).status == "failed"
    second = place.run(fails, task="bill-7", fresh=True)
    (fact,) = facts_of(place, second, "fresh")
    assert (fact.body["of"], fact.body["effects"]) == (first.run_id, [])


@flow
def fails(run: Run) -> None:
    look_up("x")
    raise ValueError("no")


# -- what is kept is what is given -------------------------------------------------------------------


def test_an_outcome_that_was_edited_is_not_given(place: Place) -> None:
    first = place.run(pay, task="bill-7")
    ledgers.change(place.home, f"""UPDATE runs SET result = '{{"value":1}}' WHERE id = {first.run_id!r}""", rows=1)
    with pytest.raises(IntegrityBroken):
        place.run(pay, task="bill-7")
    assert place.count("charge KELP") == 1


def test_what_cannot_be_read_any_more_is_asked_about_and_can_be_started_anew(place: Place) -> None:
    KNOBS["fail"] = True
    first = place.run(pay, task="bill-7")
    ledgers.change(place.home, "UPDATE journal SET header = CAST('[' AS BLOB) WHERE seq = 3", rows=1)
    with pytest.raises(RepeatsEffects, match=f"whatever run {first.run_id} did, whose records cannot be read"):
        call(place.outlast, pay, task="bill-7", fresh=True, effects=("charge",))
    KNOBS["fail"] = False
    assert place.fresh(pay, task="bill-7").result == Paid(7, "KELP")


def test_a_name_that_was_taken_away_is_damage(place: Place) -> None:
    first = place.run(pay, task="bill-7")
    ledgers.change(place.home, f"UPDATE runs SET named = 0 WHERE id = {first.run_id!r}", rows=1)
    found = place.outlast.verify()
    assert not found.ok
    assert any("named" in problem.why for problem in found.problems)


# -- open --------------------------------------------------------------------------------------------


def nightly(outlast: Outlast, *, more: bool = False, **options: Any) -> tuple[str, Any]:
    with outlast.open("nightly", **options) as run:
        run.emit("begins", {"number": len(KNOBS.setdefault("times", []))})
        KNOBS["times"].append(1)
        paid = charge(look_up("kelp"))
        run.state["paid"] = paid.amount
        if more:
            charge("otters")
        return run.id, (paid, run.now(), dict(run.state))


def test_open_without_a_task_is_a_new_run_each_time(place: Place) -> None:
    assert nightly(place.outlast)[0] != nightly(place.outlast)[0]
    assert place.count("charge KELP") == 2


def test_open_with_a_task_runs_on_receipts_after_success(place: Place) -> None:
    first, again = nightly(place.outlast, task="monday"), nightly(place.outlast, task="monday")
    assert first == again
    assert (place.ran, len(place.outlast.runs())) == (["look up kelp", "charge KELP"], 1)
    assert place.outlast.verify().ok


def test_a_call_without_a_receipt_is_refused_once_the_task_is_finished(place: Place) -> None:
    nightly(place.outlast, task="monday")
    with pytest.raises(Finished, match="charge") as caught:
        nightly(place.outlast, task="monday", more=True)
    assert caught.value.code == "finished"
    assert place.count("charge otters") == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda run: run.map(look_up, ["a", "b"]),
        lambda run: run.sleep(1),
        lambda run: run.pause_for("approval"),
        lambda run: run.wait_for("news"),
        lambda run: run.spawn(note),
        lambda run: run.uuid(),
        lambda run: run.workspace.save("notes", b"x"),
        lambda run: run.handoff("said", "the whole of it"),
        lambda run: run.checkpoint("here"),
    ],
)
def test_whatever_is_new_is_refused_once_the_task_is_finished(place: Place, call: Any) -> None:
    with place.outlast.open("nightly", task="monday"):
        pass
    with pytest.raises(Finished), place.outlast.open("nightly", task="monday") as run:
        call(run)
    assert len(place.outlast.runs()) == 1


def test_open_with_a_task_goes_on_while_it_is_unfinished(place: Place) -> None:
    KNOBS["trouble"] = True
    with pytest.raises(ConnectionError):
        nightly(place.outlast, task="monday")
    KNOBS["trouble"] = False
    nightly(place.outlast, task="monday")
    assert (place.count("charge KELP"), len(place.outlast.runs())) == (1, 1)


def test_an_async_block_runs_on_receipts_too(place: Place) -> None:
    async def inside(more: bool = False) -> str:
        async with AsyncOutlast(place.home) as outlast, outlast.open("nightly", task="monday") as run:
            found = await asyncio.gather(run.step(look_up, "a"), run.step(look_up, "b"))
            if more:
                await run.step(look_up, "c")
            return "".join(found)

    assert (asyncio.run(inside()), asyncio.run(inside())) == ("AB", "AB")
    with pytest.raises(Finished):
        asyncio.run(inside(more=True))
    assert sorted(place.ran) == ["look up a", "look up b"]


def test_a_map_that_failed_half_way_is_given_again_as_it_was(place: Place) -> None:
    def block() -> str:
        with place.outlast.open("nightly", task="monday") as run:
            try:
                run.map(look_up, ["a", "b", "c"], concurrency=1)
            except ConnectionError as error:
                return str(error)
        return ""

    KNOBS["trouble"] = True
    first = block()
    KNOBS["trouble"] = False
    assert (first, block(), place.ran) == ("no network", "no network", ["look up a"])
