"""Waits of a flow file: any question with a schema, a deadline and a default, and signals."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import Interrupt, Outcome, Outlast
from outlast.clock import ManualClock
from outlast.commands.flow import Performance
from outlast.errors import AlreadyAnswered, AnswerInvalid, DeadlinePassed, LeaseLost, WaitCancelled
from outlast.flows.yaml.model import Pause

from ..crash.command_folder import Folder
from ..kit.flow_files import parse, problems, with_steps

HOUR = 3600
AFTER = '\n- {id: last, run: cp "$OUTLAST_ANSWER" answer; echo last >> diary}'
PICK = (
    "- {id: first, run: echo first >> diary}\n"
    "- {id: pick, pause_for: decision, payload: {question: Which colour?, hint: warm}, assignee: ann,\n"
    "   schema: {type: object, properties: {colour: {enum: [red, blue]}, n: {type: integer}}, required: [colour]}%s}"
)
NEWS = "- {id: news, wait_for: 'the news'%s}"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    found = Folder(tmp_path / "work")
    yield found
    found.end()


@pytest.fixture
def clock(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    """A clock that is told the time: of every home that this test opens."""
    made = ManualClock()
    init: Any = Outlast.__init__
    monkeypatch.setattr(Outlast, "__init__", lambda self, *args, **how: init(self, *args, **{"clock": made, **how}))
    return made


def only(outcome: Outcome[Any]) -> Interrupt:
    assert outcome.status == "waiting", outcome
    (wait,) = outcome.interrupts
    return wait


def answer_of(folder: Folder) -> Any:
    return json.loads(folder.read("answer"))


# -- questions ---------------------------------------------------------------------------------------


def test_a_question_of_any_type_is_asked_checked_and_handed_on(folder: Folder) -> None:
    wait = only(folder.flow(PICK % "" + AFTER).run())
    assert (wait.type, wait.step, wait.assignee, wait.says) == ("decision", "pick", "ann", "pick: Which colour?")
    assert wait.payload == {"question": "Which colour?", "hint": "warm"}
    for bad in ({"colour": "green"}, {"n": 1}, "red"):
        with pytest.raises(AnswerInvalid):
            folder.outlast.answer(wait.id, bad)
    folder.outlast.answer(wait.id, {"colour": "red", "n": 2}, shown=wait.digest)
    assert folder.run().status == "succeeded"
    assert (folder.lines(), answer_of(folder)) == (["first", "last"], {"colour": "red", "n": 2})


def test_an_answer_that_looks_like_a_choice_or_a_decline_is_only_handed_on(folder: Folder) -> None:
    wait = only(folder.flow("- {id: ask, pause_for: input}" + AFTER).run())
    folder.outlast.answer(wait.id, {"choice": "abort", "approved": False})
    assert folder.run().status == "succeeded"
    assert answer_of(folder) == {"choice": "abort", "approved": False}


def test_an_answer_of_null_is_an_answer(folder: Folder) -> None:
    wait = only(folder.flow("- {id: ask, pause_for: input}" + AFTER).run())
    folder.outlast.answer(wait.id, None)
    assert folder.run().status == "succeeded"
    assert folder.read("answer") == "null"


def test_a_question_that_was_edited_while_it_was_open_is_asked_anew(folder: Folder) -> None:
    old = only(folder.flow("- {id: ok, pause_for: approval, payload: {cost: 10}}" + AFTER).run())
    folder.flow("- {id: ok, pause_for: approval, payload: {cost: 10000}}" + AFTER)
    new = only(folder.resume())
    assert (new.payload["cost"], new.id != old.id) == (10000, True)
    with pytest.raises(AlreadyAnswered):
        folder.outlast.answer(old.id, {"approved": True})
    with pytest.raises(AnswerInvalid, match="not what was shown"):
        folder.outlast.answer(new.id, {"approved": True}, shown=old.digest)
    folder.outlast.answer(new.id, {"approved": True}, shown=new.digest)
    assert folder.resume().status == "succeeded"


def test_an_answer_given_before_a_rewind_is_asked_for_again(folder: Folder) -> None:
    flow = "- {id: plan, run: echo plan >> diary}\n- {id: ok, pause_for: approval}\n- {id: last, run: test -f go}"
    wait = only(folder.flow(flow).run())
    folder.outlast.answer(wait.id, {"approved": True})
    assert folder.run().status == "failed"
    folder.outlast.rewind(folder.run_id, "plan")
    assert only(folder.resume()).id != wait.id


def test_a_cancelled_question_fails_the_run_and_a_resume_asks_again(folder: Folder) -> None:
    wait = only(folder.flow(PICK % "" + AFTER).run())
    folder.outlast.cancel(wait.id, "nobody knows")
    failed = folder.run()
    assert (failed.status, type(failed.exception)) == ("failed", WaitCancelled)
    assert only(folder.run()).id != wait.id
    assert folder.lines() == ["first"]


def test_an_approval_cannot_be_cancelled_only_declined(folder: Folder) -> None:
    wait = only(folder.flow("- {id: ok, pause_for: approval}").run())
    with pytest.raises(AnswerInvalid, match="outlast abort"):
        folder.outlast.cancel(wait.id, "no time")


# -- deadlines ---------------------------------------------------------------------------------------


def test_past_its_deadline_the_default_is_handed_on(folder: Folder, clock: ManualClock) -> None:
    wait = only(folder.flow(PICK % ", deadline: 1h, default: {colour: blue}" + AFTER).run())
    assert (wait.has_default, wait.default) == (True, {"colour": "blue"})
    clock.advance(HOUR)
    assert [due.reason for due in folder.outlast.due()] == ["over"]
    with pytest.raises(AlreadyAnswered, match="its deadline"):
        folder.outlast.answer(wait.id, {"colour": "red"})
    assert folder.run().status == "succeeded"
    assert answer_of(folder) == {"colour": "blue"}


def test_without_a_default_the_run_fails_and_a_resume_asks_again(folder: Folder, clock: ManualClock) -> None:
    first = only(folder.flow(PICK % ", deadline: 1h" + AFTER).run())
    clock.advance(HOUR)
    failed = folder.run()
    assert (failed.status, type(failed.exception)) == ("failed", DeadlinePassed)
    again = only(folder.run())
    assert again.id != first.id
    folder.outlast.answer(again.id, {"colour": "red"})
    assert folder.run().status == "succeeded"
    assert folder.lines() == ["first", "last"]


def test_a_default_of_no_ends_the_run_as_a_decline_does(folder: Folder, clock: ManualClock) -> None:
    folder.flow("- {id: ok, pause_for: approval, deadline: 1h, default: {approved: false}}" + AFTER).run()
    clock.advance(HOUR)
    outcome = folder.run()
    assert (outcome.status, (outcome.error or {})["type"]) == ("aborted", "declined")
    assert ((outcome.error or {})["by"], folder.lines()) == ("deadline", [])
    assert folder.outlast.get(outcome.run_id).status == "aborted"
    assert folder.outlast.verify().ok


def test_a_worker_that_was_taken_over_does_not_end_the_run_by_its_default(
    folder: Folder, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.flow("- {id: ok, pause_for: approval, deadline: 1h, default: {approved: false}}" + AFTER).run()
    clock.advance(HOUR)
    end_declined: Any = Performance._end_declined

    def taken_over_first(self: Performance, node: Pause) -> None:
        def take(tx: Any) -> None:
            tx.take_lease(tx.lease_of(self.execution.id), "another")

        self.execution.store.write(take)
        end_declined(self, node)

    monkeypatch.setattr(Performance, "_end_declined", taken_over_first)
    with pytest.raises(LeaseLost):
        folder.run()
    (run,) = folder.outlast.runs()
    assert folder.outlast.get(run.id).status != "aborted"


def test_a_default_of_no_takes_the_way_that_the_flow_says(folder: Folder, clock: ManualClock) -> None:
    how = "deadline: 1h, default: {approved: false}, on_decline: continue"
    folder.flow(f"- {{id: ok, pause_for: approval, {how}}}" + AFTER).run()
    clock.advance(HOUR)
    assert folder.run().status == "succeeded"
    assert answer_of(folder) == {"approved": False}


def test_a_default_of_yes_goes_on(folder: Folder, clock: ManualClock) -> None:
    folder.flow("- {id: ok, pause_for: approval, deadline: 1h, default: {approved: true}}" + AFTER).run()
    clock.advance(HOUR)
    assert folder.run().status == "succeeded"


# -- signals -----------------------------------------------------------------------------------------


def test_a_signal_lets_the_run_go_on_with_its_body(folder: Folder) -> None:
    wait = only(folder.flow(NEWS % "" + AFTER).run())
    assert (wait.type, wait.step, wait.payload) == ("signal", "news", {"name": "the news"})
    sent = folder.outlast.signal("the news", {"n": 1}, run_id=wait.run_id)
    assert sent.interrupt == wait.id
    assert folder.run().status == "succeeded"
    assert answer_of(folder) == {"n": 1}


def test_a_signal_that_came_before_is_taken_at_once(folder: Folder) -> None:
    outcome = folder.flow("- {id: hold, run: test -f go}\n" + NEWS % "" + AFTER).run()
    folder.outlast.signal("the news", [1], run_id=outcome.run_id)
    folder.write("go", "")
    assert folder.run().status == "succeeded"
    assert answer_of(folder) == [1]


def test_a_signal_has_a_deadline_and_a_default_too(folder: Folder, clock: ManualClock) -> None:
    folder.flow(NEWS % ", deadline: 90s, default: null" + AFTER).run()
    clock.advance(90)
    assert folder.run().status == "succeeded"
    assert folder.read("answer") == "null"


def test_branches_wait_for_a_person_and_a_signal_side_by_side(folder: Folder) -> None:
    folder.flow(
        "- id: both\n  parallel:\n    - {id: ask, pause_for: input}\n    - {id: news, wait_for: x}"
        + "\n- {id: last, run: echo last >> diary}"
    )
    waits = {wait.type: wait for wait in folder.run().interrupts}
    folder.outlast.signal("x", 1, run_id=folder.run_id)
    assert only(folder.run()).id == waits["input"].id
    folder.outlast.answer(waits["input"].id, 2)
    assert folder.run().status == "succeeded"
    assert folder.lines() == ["last"]


# -- mistakes ----------------------------------------------------------------------------------------

WRONG = [
    ("pause_for: aproval", "pause_for", "approval"),
    ("pause_for: timer", "pause_for", "runtime's own"),
    ("pause_for: signal", "pause_for", "wait_for"),
    ("pause_for: 'two words'", "pause_for", "cannot be waited for"),
    ("pause_for: approval, schema: {type: object}", "schema", "of its own"),
    ("pause_for: approval, payload: {on_decline: x}", "payload", "kept for the runtime"),
    ("pause_for: approval, default: {approved: true}", "default", "deadline"),
    ("pause_for: approval, deadline: 1h, default: {approved: maybe}", "default", "not boolean"),
    ("pause_for: input, schema: {type: text}", "schema.type", "none of"),
    ("pause_for: input, schema: {oneOf: []}", "schema.oneOf", "not known"),
    ("pause_for: input, schema: {type: object, required: x}", "schema.required", "a list of names"),
    ("pause_for: input, schema: {$ref: '#/$defs/a', $defs: {a: {$ref: '#/$defs/a'}}}", "schema.$ref", "itself"),
    ("pause_for: input, schema: [1]", "schema", "mapping"),
    ("pause_for: input, schema: {type: string}, deadline: 1h, default: 5", "default", "not string"),
    ("pause_for: input, on_decline: continue", "on_decline", "only an approval"),
    ("pause_for: input, deadline: soon", "deadline", "no duration"),
    ("pause_for: input, deadline: 0", "deadline", "no time"),
    ("pause_for: input, assignee: ''", "assignee", "cannot be a name"),
    ('pause_for: input, assignee: "a\\nb"', "assignee", "printable"),
    ("wait_for: ''", "wait_for", "cannot be a name"),
    ("wait_for: x, default: 1", "default", "deadline"),
    ("wait_for: x, payload: {a: 1}", "payload", "does not belong"),
    ("wait_for: x, schema: {type: string}", "schema", "does not belong"),
    ("run: x, deadline: 1h", "deadline", "does not belong"),
]


@pytest.mark.parametrize(("keys", "place", "why"), WRONG, ids=[keys for keys, _, _ in WRONG])
def test_a_mistake_is_named_before_anything_runs(keys: str, place: str, why: str) -> None:
    (found,) = problems(with_steps(f"- {{id: a, {keys}}}"))
    assert (found.line, found.path) == (3, f"steps[0].{place}")
    assert why in f"{found.why} {found.advice}"
    assert found.advice


def test_a_word_of_its_own_is_no_mistake() -> None:
    found = parse(with_steps("- {id: a, pause_for: appraisal}\n- {id: b, pause_for: decision, payload: {name: x}}"))
    assert [node.type for node in found.steps if isinstance(node, Pause)] == ["appraisal", "decision"]


def test_a_payload_with_a_name_takes_no_signal_of_that_name(folder: Folder) -> None:
    outcome = folder.flow("- {id: hold, run: test -f go}\n- {id: ask, pause_for: input, payload: {name: x}}").run()
    folder.outlast.signal("x", "not for you", run_id=outcome.run_id)
    folder.write("go", "")
    assert only(folder.run()).type == "input"
