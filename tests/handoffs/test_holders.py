"""Who holds the claim on a handoff, and whether that is whoever asks."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast import Outlast
from outlast.errors import HandoffClaimed
from outlast.handoffs import anchor as anchors
from outlast.handoffs.claim import claimed_error, holder_of
from outlast.handoffs.find import HandoffQuery, place_of
from outlast.handoffs.verdict import Holder
from outlast.home.claimer import nobody

from ..kit.desk import TASK, Desk, codes


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    one = Desk(tmp_path)
    yield one
    one.close()


def holder(outlast: Outlast, actor: str | None = None, claim_id: str | None = None) -> Holder | None:
    place = place_of(outlast._executor.home, HandoffQuery("default", TASK))
    assert place is not None
    return outlast._executor.home.store.read(
        lambda look: holder_of(outlast._executor.caller, look, anchors.find(look, *place), actor, claim_id=claim_id)
    )


def mine(outlast: Outlast, actor: str | None = None, claim_id: str | None = None) -> bool:
    found = holder(outlast, actor, claim_id)
    assert found is not None
    return found.mine


def test_two_actors_of_one_object_are_two_claimers(desk: Desk) -> None:
    desk.store()
    claim = desk.recover(claim=True, actor="ann").claim
    assert claim is not None
    assert [mine(desk.outlast, actor) for actor in ("ann", "ben", None)] == [True, False, True]


def test_who_shows_a_claim_is_the_claimer_whatever_the_name(desk: Desk) -> None:
    desk.store()
    claim = desk.recover(claim=True, actor="ann").claim
    assert claim is not None
    stranger = desk.sit_down("ben")
    assert [mine(stranger, "ben", shown) for shown in (None, "another", claim.id)] == [False, False, True]


def test_a_command_line_is_one_claimer_by_any_name(desk: Desk) -> None:
    desk.store()
    claim = desk.recover(claim=True, actor="ann").claim
    assert claim is not None
    command = desk.sit_down("ben")
    command._executor.caller.claimer = nobody()
    assert not mine(command, "ben")
    command._executor.caller.tokens.add(claim.id)  # as OUTLAST_CLAIM does
    assert mine(command, "ben")


def test_a_claimer_is_known_by_name_also_when_somebody_else_stored_since(desk: Desk) -> None:
    desk.store()
    assert desk.recover(claim=True, actor="ann").claim
    assert desk.store(desk.sit_down("ben"), summary="Meanwhile").rival
    assert [mine(desk.outlast, actor) for actor in ("ann", "ben")] == [True, False]
    found = holder(desk.outlast)
    assert found is not None
    assert found.who.startswith("ann (")


def test_an_old_revision_is_shown_while_a_newer_one_was_stored_under_the_claim(desk: Desk) -> None:
    desk.store()
    desk.recover(claim=True)
    desk.store(summary="Further on")
    got = desk.recover(revision=1, outlast=desk.sit_down("ben"))
    assert {"superseded", "claimed"} <= codes(got)


def test_the_refusal_says_who_and_until_when() -> None:
    error = claimed_error("task:x", Holder("ann (on host)", 1_800_000_000_000_000, False))
    assert isinstance(error, HandoffClaimed)
    assert error.facts == {"anchor": "task:x", "holder": "ann (on host)", "until": "2027-01-15 08:00 UTC"}
