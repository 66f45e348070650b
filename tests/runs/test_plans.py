"""The plan of a resume: every known call has one action, and it is what the call will do."""

from hypothesis import given

from outlast.ledger.verdict import judge
from outlast.runs.call import Doubtful, Fresh, Poisoned, Replay, fold, labels, next_call
from outlast.runs.plan import ACTIONS, Plan, action_of, plan_steps
from outlast.runs.recovery import reasons_of

from .stories import EFFECT, KINDS, POISON, STEP, Story, attempt, chain, known, stories


@given(stories())
def test_every_known_call_has_exactly_one_action(story: Story) -> None:
    rows = story.rows
    names = labels(rows)
    steps = plan_steps(fold(rows), names, POISON)
    assert [step.label for step in steps] == list(names.values())
    assert {step.action for step in steps} <= set(ACTIONS)


@given(stories())
def test_the_plan_says_what_the_call_then_does(story: Story) -> None:
    ledger = fold(story.rows)
    for call, past in ledger.calls.items():
        action = action_of(past, POISON)
        match next_call(call, KINDS[call], ledger, POISON):
            case Replay(known):
                assert action == ("raise_again" if known.ended_badly else "reuse")
            case Doubtful() | Poisoned():
                assert action == "decide"
            case Fresh():
                assert action == "retry"
            case other:
                raise AssertionError(other)


@given(stories())
def test_planning_changes_nothing(story: Story) -> None:
    rows = story.rows
    ledger = fold(rows)
    plan_steps(ledger, labels(rows), POISON)
    reasons_of(ledger.calls.values(), labels(rows), "run")
    assert known(ledger) == known(fold(rows))


@given(stories())
def test_a_run_is_contested_exactly_when_an_effect_is_in_doubt(story: Story) -> None:
    rows = story.rows
    verdict = judge(reasons_of(fold(rows).calls.values(), labels(rows), "run"))
    assert (verdict.word == "contested") == any(account.in_doubt for account in story.accounts.values())


def test_an_effect_with_a_probe_is_confirmed_before_anyone_is_asked() -> None:
    rows = chain([attempt(EFFECT, 1, "started", mark="probed")])
    ledger = fold(rows)
    assert plan_steps(ledger, labels(rows), POISON)[0].action == "confirm"
    assert reasons_of(ledger.calls.values(), labels(rows), "run") == []


def test_work_that_stopped_half_way_weakens_and_names_the_attempt() -> None:
    rows = chain([attempt(STEP, 1, "started")])
    (reason,) = reasons_of(fold(rows).calls.values(), labels(rows), "run")
    assert (reason.code, reason.subject, reason.found) == ("partial_work", "fetch", "attempt 1 started")
    assert judge([reason]).word == "candidate"


def test_a_plan_lists_labels_by_action() -> None:
    rows = chain([attempt(STEP, 1, "succeeded", delivered=True), attempt(EFFECT, 1, "started")])
    plan = Plan("run", "flow", "crashed", judge([]), plan_steps(fold(rows), labels(rows), POISON))
    assert (plan.of("reuse"), plan.of("decide"), plan.of("retry")) == (("fetch",), ("publish",), ())
