"""What callers report of checks that they ran themselves: taken word for word, or refused by path."""

from typing import Any

import pytest

from outlast.errors import HandoffInvalid
from outlast.handoffs.evidence import reported
from outlast.handoffs.handoff import Contract, Evidence, Form

CHECKS: tuple[Form, ...] = ("pytest -q", {"run": "make lint", "cwd": "sub", "exit": 2}, {"file": "a", "exists": True})
CONTRACT = Contract(anchor="a", summary="s", handoff_text="t", acceptance_checks=CHECKS)


def report(*given: Any, contract: Contract = CONTRACT) -> list[Evidence]:
    return reported(list(given), contract, when="settle", by="bob", at=5, where="there")


def test_a_report_is_evidence_of_who_made_it() -> None:
    first, second, third = report(
        {"check": "pytest -q", "passed": False, "exit": 1, "seconds": 2, "note": "one failed"},
        {"check": {"exit": 2, "cwd": "sub", "run": "make lint"}, "passed": True, "exit": 2},
        {"check": {"file": "a", "exists": True}, "passed": True, "exit": None, "note": None},
    )
    assert (first.passed, first.exit, first.seconds, first.note) == (False, 1, 2, "one failed")
    assert (first.by, first.at, first.where, first.runner, first.when) == ("bob", 5, "there", "self", "settle")
    assert list(second.check) == ["run", "cwd", "exit"]  # as the contract has it: the same key
    assert (third.exit, third.note, third.output) == (None, "", "")
    assert report() == []
    assert reported((), CONTRACT, when="settle", by="bob", at=5, where="there") == []


@pytest.mark.parametrize(
    ("item", "path", "why"),
    [
        (7, "evidence[2]", "a number"),
        ("pytest -q", "evidence[2]", "text"),
        ({"passed": True}, "evidence[2].check", "missing"),
        ({"check": "pytest -q"}, "evidence[2].passed", "missing"),
        ({"check": "pytest -q", "passed": None}, "evidence[2].passed", "None"),
        ({"check": "pytest -q", "passed": 1}, "evidence[2].passed", "true or false"),
        ({"check": "pytest -q", "passed": "yes"}, "evidence[2].passed", "'yes'"),
        ({"check": "pytest -q", "passed": True, "exit": True}, "evidence[2].exit", "whole number"),
        ({"check": "pytest -q", "passed": True, "exit": "0"}, "evidence[2].exit", "whole number"),
        ({"check": "pytest -q", "passed": False, "exit": 10**30}, "evidence[2].exit", "whole number"),
        ({"check": "pytest -q", "passed": True, "seconds": -1}, "evidence[2].seconds", "0 or more"),
        ({"check": "pytest -q", "passed": True, "seconds": float("nan")}, "evidence[2].seconds", "nan"),
        ({"check": "pytest -q", "passed": True, "seconds": 10**400}, "evidence[2].seconds", "0 or more"),
        ({"check": "pytest -q", "passed": True, "note": ["x"]}, "evidence[2].note", "a text"),
        ({"check": "pytest -q", "passed": True, "note": "\ud800"}, "evidence[2].note", "a text"),
        ({"check": "pytest -q", "passed": True, "runner": "runner"}, "evidence[2].runner", "not known"),
        ({"check": "pytest -q", "pased": True}, "evidence[2].pased", "did you mean `passed`"),
        ({"check": "pytest -q", "passed": True, "seconds": 10**9000}, "evidence[2].seconds", "a number"),
        ({"check": {"run": 10**9000}, "passed": True}, "evidence[2].check", "an object"),
        ({"check": "pytest -q", "passed": True, 5: 1}, "evidence[2].5", "not known"),
        ({"check": "pytest -q", "passed": True, "exit": 1}, "evidence[2].passed", "exit is 1 and the check wants 0"),
        ({"check": "pytest", "passed": True}, "evidence[2].check", "nearest is 'pytest -q'"),
        ({"check": {"run": "make lint"}, "passed": True}, "evidence[2].check", "'cwd': 'sub'"),
        ({"check": 5, "passed": True}, "evidence[2].check", "is no check of the handoff: 5"),
        ({"check": "x" * 10_000, "passed": True}, "evidence[2].check", "10002 characters"),
    ],
)
def test_a_report_that_cannot_be_used_is_refused_by_path(item: Any, path: str, why: str) -> None:
    good = {"check": "pytest -q", "passed": True}
    with pytest.raises(HandoffInvalid) as refused:
        report(good, good, item)
    assert refused.value.path == path
    assert why in str(refused.value)
    assert len(str(refused.value)) < 1000


def test_of_a_handoff_without_checks_any_check_may_be_reported_when_it_is_settled() -> None:
    bare = Contract(anchor="a", summary="s", handoff_text="t")
    (said,) = report({"check": "pytest -q", "passed": True}, contract=bare)
    assert (said.check, said.passed, said.runner) == ("pytest -q", True, "self")
    with pytest.raises(HandoffInvalid, match=r"evidence\[0\]\.check"):
        report({"check": {"run": ""}, "passed": True}, contract=bare)


def test_a_report_about_a_handoff_without_checks_that_is_only_stored_says_so() -> None:
    bare, given = Contract(anchor="a", summary="s", handoff_text="t"), [{"check": "pytest -q", "passed": True}]
    with pytest.raises(HandoffInvalid, match="has none"):
        reported(given, bare, when="store", by="bob", at=5, where="there", path="baseline")


@pytest.mark.parametrize("given", [None, "pytest", {"check": "pytest -q", "passed": True}, 5])
def test_reports_come_as_a_list(given: Any) -> None:
    with pytest.raises(HandoffInvalid) as refused:
        reported(given, CONTRACT, when="settle", by="bob", at=5, where="there")
    assert refused.value.path == "evidence"


def test_there_are_at_most_as_many_reports_as_checks_can_be() -> None:
    good = {"check": "pytest -q", "passed": True}
    assert len(report(*[good] * 200)) == 200
    with pytest.raises(HandoffInvalid, match="201 items; the limit is 200"):
        report(*[good] * 201)
