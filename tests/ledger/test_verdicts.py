"""The verdict: one pure function of the reasons."""

import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from outlast.ledger.verdict import WEIGHTS, Reason, judge

ORDER = ("contested", "candidate", "trusted")
words = st.sampled_from(["", "a", "b", "a b"])
reasons = st.builds(Reason, st.sampled_from(sorted(WEIGHTS)), words, words, words, words)
contesting = reasons.filter(lambda reason: reason.weight == "contests")
lists = st.lists(reasons, max_size=8)


def test_without_reasons_it_is_trusted() -> None:
    assert str(judge([])) == "trusted"


@given(lists)
def test_the_worst_reason_decides(given_reasons: list[Reason]) -> None:
    weights = {reason.weight for reason in given_reasons}
    expected = "contested" if "contests" in weights else "candidate" if "weakens" in weights else "trusted"
    assert judge(given_reasons).word == expected


@given(lists, reasons)
def test_another_reason_never_improves_the_verdict(given_reasons: list[Reason], more: Reason) -> None:
    assert ORDER.index(judge([*given_reasons, more]).word) <= ORDER.index(judge(given_reasons).word)


@given(lists, contesting)
def test_one_contesting_reason_contests(given_reasons: list[Reason], more: Reason) -> None:
    assert judge([*given_reasons, more]).word == "contested"


@given(lists.flatmap(lambda items: st.tuples(st.just(items), st.permutations(items))))
def test_order_and_repetition_never_matter(both: tuple[list[Reason], list[Reason]]) -> None:
    first, second = both
    assert judge(first) == judge(second) == judge(first + second) == judge(iter(second))


def test_the_order_of_reasons_is_the_same_in_every_process() -> None:
    """Also for reasons that differ only in what was expected and advised."""
    code = (
        "from outlast.ledger.verdict import Reason, judge\n"
        "given = [Reason('claimed', 's', e, 'f', a) for e in 'xyz' for a in 'pqr']\n"
        "print([(r.expected, r.advice) for r in judge(given).reasons])"
    )
    seen = {
        subprocess.check_output([sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}) for seed in ("1", "2", "3")
    }
    assert len(seen) == 1


@given(reasons, reasons)
def test_an_acceptance_is_bound_to_code_subject_and_what_was_found(one: Reason, other: Reason) -> None:
    same = (one.code, one.subject, one.found) == (other.code, other.subject, other.found)
    assert (one.fingerprint == other.fingerprint) == same


@given(lists, st.data())
def test_only_unaccepted_contesting_reasons_are_left(given_reasons: list[Reason], data: st.DataObject) -> None:
    verdict = judge(given_reasons)
    accepted = data.draw(st.sets(st.sampled_from(given_reasons))) if given_reasons else set()
    prints = {reason.fingerprint for reason in accepted}
    left = verdict.unaccepted(prints)
    assert all(reason.weight == "contests" and reason.fingerprint not in prints for reason in left)
    assert {r.fingerprint for r in verdict.contesting} == {r.fingerprint for r in left} | (
        prints & {r.fingerprint for r in verdict.contesting}
    )


def test_accepting_one_find_does_not_accept_the_next() -> None:
    found = Reason("effect_in_doubt", "publish", "an outcome", "attempt 1 started", "decide")
    later = Reason("effect_in_doubt", "publish", "an outcome", "attempt 2 started", "decide")
    assert judge([found]).unaccepted([found.fingerprint]) == ()
    assert judge([later]).unaccepted([found.fingerprint]) == (later,)


@given(reasons)
def test_a_reason_shows_everything(reason: Reason) -> None:
    shown = reason.to_dict()
    assert shown.pop("weight") == WEIGHTS[reason.code]
    assert Reason(**shown) == reason
