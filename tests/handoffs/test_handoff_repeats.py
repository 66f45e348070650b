"""Calls of handoffs that carry an operation_id, and calls that cannot be meant."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast
from outlast.errors import (
    HandoffClaimed,
    HandoffInvalid,
    HandoffNotFound,
    NameInvalid,
    OperationConflict,
    OutlastError,
    SecretFound,
    ValueRefused,
)

from ..kit.desk import TASK, Desk

SECRET = "AKIA" + "IOSFODNN7EXAMPLE"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    found = Desk(tmp_path)
    yield found
    found.close()


# -- once --------------------------------------------------------------------------------------------


def test_a_claim_that_was_refused_may_be_asked_for_again_by_the_same_operation(desk: Desk) -> None:
    desk.store()
    ann, ben = desk.sit_down("ann"), desk.sit_down("ben")
    ann.handoff.claim(TASK, repo_root=str(desk.repo))
    with pytest.raises(HandoffClaimed):
        ben.handoff.claim(TASK, repo_root=str(desk.repo), operation_id="k")
    desk.settle("released", ann)
    assert ben.handoff.claim(TASK, repo_root=str(desk.repo), operation_id="k").actor == "ben"


def test_a_repeated_claim_is_answered_as_the_first_time_also_after_the_work_is_completed(desk: Desk) -> None:
    desk.store()
    root = str(desk.repo)
    first = desk.outlast.handoff.claim(TASK, repo_root=root, operation_id="k")
    got = desk.recover(claim=True, run_checks=True, operation_id="r")
    desk.settle("completed")
    again = desk.outlast.handoff.claim(TASK, repo_root=root, operation_id="k")
    assert (again.id, again.replayed) == (first.id, True)
    back = desk.recover(claim=True, run_checks=True, operation_id="r")
    assert got.claim is not None
    assert back.claim is not None
    assert (back.claim.id, back.claim.replayed, back.resume) == (got.claim.id, True, "attached")
    assert back.standing == "finished"


def test_a_repeat_by_branch_gives_the_handoff_that_was_claimed_then(desk: Desk) -> None:
    first = desk.store()
    desk.recover(None, claim=True, operation_id="k")
    desk.clock.advance(1)
    desk.store(anchor="task:newer")
    back = desk.recover(None, claim=True, operation_id="k")
    assert (back.handoff.id, back.claim and back.claim.anchor) == (first.id, TASK)


@pytest.mark.parametrize(
    "other", [{"revision": 1}, {"repo_root": None}, {"file_path": "src/export.py", "anchor": None}]
)
def test_the_same_operation_with_another_subject_is_a_conflict(desk: Desk, other: dict[str, Any]) -> None:
    desk.store()
    desk.recover(claim=True, operation_id="k")
    with pytest.raises(OperationConflict):
        desk.recover(claim=True, operation_id="k", **other)


def test_verifying_takes_who_and_once(desk: Desk) -> None:
    desk.store()
    hands, root = desk.outlast.handoff, str(desk.repo)
    claim = hands.claim(TASK, repo_root=root, actor="ann")
    for _ in range(2):
        got = hands.verify(TASK, repo_root=root, actor="ben", claim_id=claim.id, operation_id="k")
        assert [each.passed for each in got.evidence] == [True]
    checked = [event for event in hands.history(TASK) if event.kind == "checked"]
    assert [(event.by, event.body["evidence"][0]["when"]) for event in checked] == [("ben", "verify")]


def test_a_resume_of_a_task_that_is_repeated_after_its_completion_gives_the_first_claim(desk: Desk) -> None:
    session = desk.outlast.tasks.open("export-repair", repo_root=str(desk.repo))
    session.pause_task("Half way", "Go on from here.", target_files=["src/export.py"], repo_root=str(desk.repo))
    first = session.resume_task(operation_id="k")
    session.complete_task(override="it was only an example")
    assert session.resume_task(operation_id="k").claim.id == first.claim.id


# -- what cannot be meant ----------------------------------------------------------------------------

Verb = Callable[[Outlast], Any]
WRONG: dict[str, tuple[Verb, type[OutlastError], str]] = {
    "baseline of objects": (
        lambda outlast: outlast.handoff.store(TASK, "a", "b", baseline=[object()], operation_id="k"),  # type: ignore[list-item]
        HandoffInvalid,
        r"baseline\[0\]",
    ),
    "evidence of objects": (
        lambda outlast: outlast.handoff.settle(TASK, "failed", evidence=[{"check": object()}], operation_id="k"),
        ValueRefused,
        "evidence",
    ),
    "evidence that is no list": (
        lambda outlast: outlast.handoff.settle(TASK, "failed", evidence=5),  # type: ignore[arg-type]
        HandoffInvalid,
        "evidence",
    ),
    "a task's evidence of objects": (
        lambda outlast: outlast.tasks.open("x").complete_task([{"check": object()}], operation_id="k"),
        ValueRefused,
        "evidence",
    ),
    "why is None": (lambda outlast: outlast.handoff.claim(TASK, take=True, why=None), HandoffInvalid, "why"),  # type: ignore[arg-type]
    "accept is a number": (lambda outlast: outlast.handoff.recover(TASK, accept=5), HandoffInvalid, "accept"),  # type: ignore[arg-type]
    "accept has a number": (
        lambda outlast: outlast.handoff.recover(TASK, accept=[5], why="x"),  # type: ignore[list-item]
        HandoffInvalid,
        r"accept\[0\]",
    ),
    "limit is text": (lambda outlast: outlast.handoff.list(limit="3"), HandoffInvalid, "limit"),  # type: ignore[arg-type]
    "note is a number": (lambda outlast: outlast.handoff.settle(TASK, "failed", note=5), HandoffInvalid, "note"),  # type: ignore[arg-type]
    "override is a number": (
        lambda outlast: outlast.handoff.settle(TASK, "completed", override=5),  # type: ignore[arg-type]
        HandoffInvalid,
        "override",
    ),
    "claim_id is a number": (lambda outlast: outlast.handoff.renew(TASK, claim_id=5), NameInvalid, "claim_id"),  # type: ignore[arg-type]
    "two names": (lambda outlast: outlast.handoff.recover(TASK, handoff_id="abc"), HandoffInvalid, "handoff_id"),
    "an id and a revision": (
        lambda outlast: outlast.handoff.recover(handoff_id="abc", revision=1),
        HandoffInvalid,
        "revision",
    ),
    "take without claim": (
        lambda outlast: outlast.handoff.recover(TASK, take=True, why="x"),
        HandoffInvalid,
        "claim=True",
    ),
    "a secret in why": (
        lambda outlast: outlast.handoff.claim(TASK, take=True, why=f"key {SECRET}"),
        SecretFound,
        "why",
    ),
    "a secret in acknowledged": (
        lambda outlast: outlast.handoff.settle(TASK, "failed", acknowledged=[SECRET]),
        SecretFound,
        r"acknowledged\[0\]",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_meant_is_refused_by_its_field_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    verb, error, words = WRONG[name]
    with Outlast(tmp_path) as outlast:
        outlast.handoff.store(TASK, "a", "b", bind=False)
        with pytest.raises(error, match=words):
            verb(outlast)
        assert [event.kind for event in outlast.handoff.history(TASK)] == ["stored"]


OPERATIONS: dict[str, Callable[[Outlast, Any], Any]] = {
    "store": lambda outlast, key: outlast.handoff.store(TASK, "a", "b", bind=False, operation_id=key),
    "recover": lambda outlast, key: outlast.handoff.recover(TASK, operation_id=key),
    "verify": lambda outlast, key: outlast.handoff.verify(TASK, operation_id=key),
    "claim": lambda outlast, key: outlast.handoff.claim(TASK, operation_id=key),
    "settle": lambda outlast, key: outlast.handoff.settle(TASK, "failed", operation_id=key),
    "open": lambda outlast, key: outlast.tasks.open("x", operation_id=key),
    "pause": lambda outlast, key: outlast.tasks.open("x").pause_task("a", "b", bind=False, operation_id=key),
    "resume": lambda outlast, key: outlast.tasks.open("x").resume_task(operation_id=key),
    "complete": lambda outlast, key: outlast.tasks.open("x").complete_task(operation_id=key),
    "event": lambda outlast, key: outlast.tasks.open("x").record_event("seen", operation_id=key),
}


@pytest.mark.parametrize("verb", OPERATIONS)
def test_an_operation_is_named_by_a_text_that_can_be_printed(tmp_path: Path, verb: str) -> None:
    with Outlast(tmp_path) as outlast:
        outlast.handoff.store(TASK, "a", "b", bind=False)
        for key in (5, "", "a\nb", "x" * 501):
            with pytest.raises(NameInvalid, match="operation_id"):
                OPERATIONS[verb](outlast, key)


def test_an_id_of_another_scope_is_not_found_here(desk: Desk) -> None:
    stored = desk.store(scope="elsewhere")
    hands = desk.outlast.handoff
    for find in (lambda **how: hands.recover(handoff_id=stored.id, **how), lambda **how: hands.get(stored.id, **how)):
        with pytest.raises(HandoffNotFound):
            find()
        assert find(scope="elsewhere") is not None
