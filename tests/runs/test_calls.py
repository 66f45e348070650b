"""Identity of a call, what the journal knows of it, and what it does on resume."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.ledger.journal import Header, JournalEntry, Payload, Row, decode_header, entry
from outlast.runs.call import (
    Call,
    Changed,
    Doubtful,
    Fresh,
    Ledger,
    NextCall,
    Poisoned,
    Replay,
    fold,
    labels,
    next_call,
)

from .stories import (
    CALLS,
    EFFECT,
    KINDS,
    OTHER,
    POISON,
    SECOND,
    STEP,
    TWIN,
    Story,
    attempt,
    chain,
    decision,
    fact,
    known,
    stories,
    told,
)


def ask(entries: list[JournalEntry], call: Call) -> NextCall:
    return next_call(call, KINDS[call], fold(chain(entries)), POISON)


def ask_ledger(ledger: Ledger, call: Call) -> NextCall:
    return next_call(call, KINDS[call], ledger, POISON)


# -- any journal that a run may leave ----------------------------------------------------------------


@given(stories())
def test_every_known_call_does_what_its_account_says(story: Story) -> None:
    ledger = fold(story.rows)
    for call, account in story.accounts.items():
        if account.events:
            assert type(ask_ledger(ledger, call)).__name__ == account.expected, account


@given(stories())
def test_a_delivered_outcome_is_always_replayed_as_it_was_recorded(story: Story) -> None:
    ledger = fold(story.rows)
    for call, account in story.accounts.items():
        if account.final:
            answer = ask_ledger(ledger, call)
            assert isinstance(answer, Replay)
            last = [row for row in story.rows if _call_of(row) == call][-1]
            assert (answer.past.seq, answer.past.payload) == (last.seq, last.payload)


@given(stories())
def test_a_begun_effect_never_runs_again_unless_it_was_not_done_or_somebody_decided(story: Story) -> None:
    ledger = fold(story.rows)
    for call in (EFFECT, SECOND):
        account = story.of(call)
        if isinstance(ask_ledger(ledger, call), Fresh) and account.events:
            assert account.events[-1][3] in ("not_done", "decided")


@given(stories())
def test_attempt_numbers_only_grow(story: Story) -> None:
    ledger = fold(story.rows)
    for call, account in story.accounts.items():
        answer = ask_ledger(ledger, call)
        if isinstance(answer, Fresh) and account.events:
            assert answer.attempt == account.attempts + 1
            assert answer.attempt > max(number for number, *_ in account.events)


@given(stories())
def test_folding_is_a_function_of_the_rows(story: Story) -> None:
    rows = story.rows
    assert known(fold(rows)) == known(fold(iter(rows))) == known(fold(tuple(rows)))


@given(stories(), st.data())
def test_order_across_calls_is_never_identity(story: Story, data: st.DataObject) -> None:
    """Rows of different calls may land in any order: every call still does the same."""
    entries = [item for item in story.entries if _call_of_entry(item) in KINDS]
    queues = {call: [item for item in entries if _call_of_entry(item) == call] for call in CALLS}
    shuffled = data.draw(st.permutations([_call_of_entry(item) for item in entries]))
    mixed = fold(chain([queues[call].pop(0) for call in shuffled]))
    ledger = fold(chain(entries))
    for call in story.accounts:
        before, after = ask_ledger(ledger, call), ask_ledger(mixed, call)
        assert type(before) is type(after)
        if isinstance(before, Fresh):
            assert before == after


@given(stories())
def test_a_crash_never_loses_what_was_known_before_it(story: Story) -> None:
    """Every prefix of a journal is a journal: what was final in it stays final, with the same receipt."""
    rows = story.rows
    for end in range(len(rows) + 1):
        ledger = fold(rows[:end])
        for call, past in ledger.calls.items():
            if past.finished:
                again = fold(rows).calls[call]
                assert (again.finished, again.seq, again.payload) == (True, past.seq, past.payload)


@given(stories(), st.data())
def test_rewinding_forgets_later_steps_and_keeps_every_effect(story: Story, data: st.DataObject) -> None:
    to = data.draw(st.integers(1, len(story.entries) + 1))
    before = fold(story.rows)
    after = fold(chain([*story.entries, fact("rewound", {"to": to})]))
    for call, past in before.calls.items():
        if past.first < to:
            assert told(after.calls[call]) == told(past)
        elif KINDS[call] == "step":
            assert ask_ledger(after, call) == Fresh(past.attempts + 1)
        elif past.ended_badly or past.last.status == "cancelled":
            assert isinstance(ask_ledger(after, call), Fresh if past.last.delivered else Doubtful | Fresh)
        else:
            assert told(after.calls[call]) | {"first": past.first} == told(past)


@given(stories())
def test_only_the_failure_that_ended_the_run_is_tried_again(story: Story) -> None:
    ledger = fold(story.rows)
    bad = [call for call, past in ledger.calls.items() if past.finished and past.ended_badly]
    for guilty in bad:
        after = fold(chain([*story.entries, fact("failed", {"ended_by": [list(guilty)]})]))
        assert isinstance(ask_ledger(after, guilty), Fresh)
        for call in set(bad) - {guilty}:
            assert isinstance(ask_ledger(after, call), Replay)


# -- one by one --------------------------------------------------------------------------------------


def test_a_call_that_nobody_knows_runs_as_attempt_one() -> None:
    assert ask([], STEP) == Fresh(1)
    assert ask([], EFFECT) == Fresh(1)


@pytest.mark.parametrize("other", [TWIN, OTHER, STEP._replace(step="fetch2"), STEP._replace(inputs="in2")])
def test_scope_name_inputs_and_occurrence_each_tell_calls_apart(other: Call) -> None:
    ledger = fold(chain([attempt(STEP, 1, "succeeded", delivered=True)]))
    assert isinstance(next_call(STEP, "step", ledger, POISON), Replay)
    assert next_call(other, "step", ledger, POISON) == Fresh(1)


def crashed(number: int, *calls: Call, death: str = "") -> list[JournalEntry]:
    """These calls were under way in their attempt `number` when the owner was gone, and the next one took the run."""
    facts = {"from": "crashed", **({"death": death} if death else {})}
    return [*(attempt(call, number, "started") for call in calls), fact("resumed", facts)]


@pytest.mark.parametrize("crashes", range(6))
def test_the_third_crash_in_one_step_asks_a_person(crashes: int) -> None:
    answer = ask([entry for number in range(1, crashes + 1) for entry in crashed(number, STEP)], STEP)
    assert isinstance(answer, Poisoned if crashes >= 3 else Fresh)


def test_a_failure_between_crashes_does_not_hide_them() -> None:
    entries = [*crashed(1, STEP), *crashed(2, STEP), attempt(STEP, 3, "failed")]
    assert ask(entries, STEP) == Fresh(4, failures=1)
    assert isinstance(ask([*entries, *crashed(4, STEP)], STEP), Poisoned)


def test_a_decision_to_retry_starts_the_count_of_crashes_anew() -> None:
    entries = [*(entry for number in (1, 2, 3) for entry in crashed(number, STEP)), decision(STEP, 3, "retry")]
    assert ask(entries, STEP) == Fresh(4)
    entries += [entry for number in (4, 5) for entry in crashed(number, STEP)]
    assert ask(entries, STEP) == Fresh(6)
    assert isinstance(ask([*entries, *crashed(6, STEP)], STEP), Poisoned)


@pytest.mark.parametrize("beside", [OTHER, EFFECT], ids=["a step", "an effect"])
def test_a_crash_that_a_step_shared_is_not_counted_against_it(beside: Call) -> None:
    shared = [entry for number in range(1, 9) for entry in crashed(number, STEP, beside)]
    assert isinstance(ask(shared, STEP), Fresh)
    alone = [entry for number in (9, 10, 11) for entry in crashed(number, STEP)]
    assert isinstance(ask([*shared, *alone[:4]], STEP), Fresh)
    assert isinstance(ask([*shared, *alone], STEP), Poisoned)


@pytest.mark.parametrize("death", ["shared", "rebooted", "taken"])
def test_an_end_that_was_nobodys_doing_in_this_run_is_not_counted_against_its_step(death: str) -> None:
    ended = [entry for number in range(1, 20) for entry in crashed(number, STEP, death=death)]
    assert isinstance(ask(ended, STEP), Fresh)


def test_a_step_that_was_under_way_in_very_many_shared_crashes_is_asked_about_at_last() -> None:
    shared = [entry for number in range(1, 10 * POISON) for entry in crashed(number, STEP, OTHER)]
    assert isinstance(ask(shared, STEP), Fresh)
    assert isinstance(ask([*shared, *crashed(10 * POISON, STEP, OTHER)], STEP), Poisoned)


def test_a_crash_is_counted_once_however_often_the_run_is_taken_up_after_it() -> None:
    entries = [*crashed(1, STEP), *crashed(2, STEP), *(fact("resumed", {"from": "crashed"}) for _ in range(5))]
    assert isinstance(ask(entries, STEP), Fresh)


def test_failures_count_against_the_retries_until_somebody_decides() -> None:
    entries = [attempt(STEP, 1, "failed"), attempt(STEP, 2, "timed_out"), attempt(STEP, 3, "interrupted")]
    assert ask(entries, STEP) == Fresh(4, failures=2)
    assert ask([*entries, decision(STEP, 3, "retry")], STEP) == Fresh(4, failures=0)


@pytest.mark.parametrize("status", ["failed", "timed_out", "cancelled", "interrupted"])
def test_whatever_ends_an_effect_without_an_outcome_leaves_it_in_doubt(status: str) -> None:
    assert isinstance(ask([attempt(EFFECT, 1, "started"), attempt(EFFECT, 1, status)], EFFECT), Doubtful)
    not_done = [attempt(EFFECT, 1, "started"), attempt(EFFECT, 1, status, mark="not_done")]
    assert isinstance(ask(not_done, EFFECT), Fresh)


def test_an_effect_in_doubt_stays_in_doubt_over_any_number_of_crashes() -> None:
    for crashes in range(1, 6):
        assert isinstance(ask([attempt(EFFECT, 1, "started")] * crashes, EFFECT), Doubtful)


@pytest.mark.parametrize("status", ["failed", "timed_out"])
def test_a_caught_failure_is_an_outcome(status: str) -> None:
    answer = ask([attempt(STEP, 1, status, delivered=True)], STEP)
    assert isinstance(answer, Replay)
    assert answer.past.ended_badly


def test_an_effect_done_with_other_inputs_is_shown_before_it_runs_again() -> None:
    other = EFFECT._replace(inputs="in2")
    done = fold(chain([attempt(EFFECT, 1, "succeeded", delivered=True)]))
    assert next_call(other, "effect", done, POISON) == Changed(done.calls[EFFECT])
    begun = fold(chain([attempt(EFFECT, 1, "started")]))
    assert next_call(other, "effect", begun, POISON) == Changed(begun.calls[EFFECT])


def test_an_effect_that_was_asked_for_or_never_happened_is_no_left_over() -> None:
    other = EFFECT._replace(inputs="in2")
    ledger = fold(chain([attempt(EFFECT, 1, "succeeded", delivered=True)]))
    ledger.calls[EFFECT].asked = True
    assert next_call(other, "effect", ledger, POISON) == Fresh(1)
    never = fold(chain([attempt(EFFECT, 1, "failed", mark="not_done")]))
    assert next_call(other, "effect", never, POISON) == Fresh(1)


@pytest.mark.parametrize("elsewhere", [EFFECT._replace(scope="left/"), EFFECT._replace(step="mail")])
def test_effects_of_another_scope_or_name_are_no_left_over(elsewhere: Call) -> None:
    ledger = fold(chain([attempt(EFFECT, 1, "succeeded", delivered=True)]))
    assert next_call(elsewhere._replace(inputs="in2"), "effect", ledger, POISON) == Fresh(1)


@pytest.mark.parametrize(("was", "now"), [("", "left/"), ("left/", ""), ("left/", "left/~1/")])
def test_an_effect_whose_call_was_moved_into_or_out_of_a_scope_is_shown(was: str, now: str) -> None:
    moved = entry(Header("effect", "publish", was, "in1", 0, 1, "succeeded", delivered=True))
    ledger = fold(chain([moved]))
    answer = next_call(EFFECT._replace(scope=now), "effect", ledger, POISON)
    assert answer == Changed(ledger.calls[EFFECT._replace(scope=was)])
    assert next_call(EFFECT._replace(scope=now, inputs="in2"), "effect", ledger, POISON) == Fresh(1)


def test_effects_of_sibling_branches_are_their_own() -> None:
    ledger = fold(chain([entry(Header("effect", "publish", "left/", "in1", 0, 1, "succeeded", delivered=True))]))
    assert next_call(EFFECT._replace(scope="right/"), "effect", ledger, POISON) == Fresh(1)


def test_an_effect_whose_result_was_given_to_another_call_is_no_left_over() -> None:
    reused = Header("effect", "publish", "", "in2", 0, 1, "succeeded", delivered=True, mark="reused")
    given_on = entry(reused, Payload(facts={"was": list(EFFECT)}))
    ledger = fold(chain([attempt(EFFECT, 1, "succeeded", delivered=True), given_on]))
    assert isinstance(next_call(EFFECT._replace(inputs="in2"), "effect", ledger, POISON), Replay)
    ledger.calls[EFFECT._replace(inputs="in2")].asked = True
    assert next_call(EFFECT._replace(inputs="in3"), "effect", ledger, POISON) == Fresh(1)


def test_a_plain_step_with_changed_inputs_just_runs() -> None:
    ledger = fold(chain([attempt(STEP, 1, "succeeded", delivered=True)]))
    assert next_call(STEP._replace(inputs="in2"), "step", ledger, POISON) == Fresh(1)


def test_again_for_a_call_that_has_no_entry_yet_lets_it_run() -> None:
    new = EFFECT._replace(inputs="in2")
    KINDS_OF_NEW = {**KINDS, new: "effect"}
    again = entry(Header("decision", new.step, new.scope, new.inputs, 0, 1, "again", mark="decided"), Payload(facts={}))
    entries = [attempt(EFFECT, 1, "succeeded", delivered=True), again]
    ledger = fold(chain(entries))
    assert next_call(new, KINDS_OF_NEW[new], ledger, POISON) == Fresh(1)


def test_an_effect_decided_on_before_it_began_is_in_doubt_once_it_has_begun() -> None:
    new = EFFECT._replace(inputs="in2")
    again = entry(Header("decision", new.step, new.scope, new.inputs, 0, 1, "again", mark="decided"))
    begun = entry(Header("effect", new.step, new.scope, new.inputs, 0, 1, "started"))
    ledger = fold(chain([again, begun]))
    assert isinstance(next_call(new, "effect", ledger, POISON), Doubtful)
    assert ledger.left_over(EFFECT) is ledger.calls[new]


def test_values_sleeps_and_emits_are_set_aside_by_a_rewind_and_children_are_kept() -> None:
    def told(kind: str) -> JournalEntry:
        return entry(Header(kind, f"run.{kind}", occurrence=0, delivered=True), Payload(facts={"value": 1}))

    kinds = ("value", "sleep", "emit", "spawn")
    ledger = fold(chain([*(told(kind) for kind in kinds), fact("rewound", {"to": 1})]))
    assert [call.step for call in ledger.calls] == ["run.spawn"]


def test_acceptances_and_endings_are_kept_in_order() -> None:
    accepted = {"fingerprint": "f", "why": "checked"}
    ledger = fold(chain([fact("started"), fact("crashed"), fact("accepted", accepted), fact("succeeded")]))
    assert ledger.endings == [("started", 1), ("crashed", 2), ("accepted", 3), ("succeeded", 4)]
    assert ledger.accepted == [accepted]


# -- labels ------------------------------------------------------------------------------------------


def test_a_label_is_scope_name_and_which_one() -> None:
    entries = [attempt(call, 1, "succeeded", delivered=True) for call in (STEP, OTHER, TWIN, STEP, EFFECT)]
    assert labels(chain(entries)) == {STEP: "fetch", OTHER: "left/fetch", TWIN: "fetch~2", EFFECT: "publish"}


@given(stories())
def test_labels_are_unique_cover_every_call_and_never_change_as_the_journal_grows(story: Story) -> None:
    rows = story.rows
    names = labels(rows)
    assert set(names) == {_call_of(row) for row in rows if decode_header(row.header).kind in ("step", "effect")}
    assert len(set(names.values())) == len(names)
    for end in range(len(rows)):
        assert labels(rows[:end]).items() <= names.items()


def test_facts_and_values_have_no_label() -> None:
    value = entry(Header("value", "run.now", delivered=True), Payload(facts=1))
    assert labels(chain([fact("started"), value])) == {}


def test_calls_made_at_once_get_different_labels() -> None:
    calls = [STEP._replace(inputs=f"in{n}", occurrence=m) for n, m in itertools.product(range(5), range(5))]
    entries = [
        entry(Header("step", c.step, c.scope, c.inputs, c.occurrence, 1, "succeeded", delivered=True)) for c in calls
    ]
    assert sorted(labels(chain(entries)).values()) == sorted(["fetch", *(f"fetch~{n}" for n in range(2, 26))])


def _call_of(row: Row) -> Call:
    header = decode_header(row.header)
    return Call(header.scope, header.name, header.inputs, header.occurrence)


def _call_of_entry(item: JournalEntry) -> Call:
    return _call_of(Row(0, item.header, b"", None))
