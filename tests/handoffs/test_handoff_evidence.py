"""What shows that work is done: run now, or run before on the very same files; and where it is kept."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast import Outlast, Run, flow, step
from outlast.errors import ClaimLost, HandoffClaimed, NotSettled

from ..kit.desk import TASK, Desk
from ..kit.place import Place, reach

ANCHOR = "task:report"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    found = Desk(tmp_path)
    yield found
    found.close()


# -- settling without running the checks -------------------------------------------------------------


def test_checks_that_could_not_be_run_here_are_said_and_not_made_up_for_by_older_ones(desk: Desk) -> None:
    desk.store()
    desk.outlast.handoff.verify(TASK, repo_root=str(desk.repo))
    desk.repo.rename(desk.folder / "elsewhere")
    with pytest.raises(NotSettled, match="could not be run here"):
        desk.outlast.handoff.settle(TASK, "completed")
    assert desk.outlast.handoff.settle(TASK, "completed", override="I saw it").override == "I saw it"


def test_recorded_evidence_completes_while_the_files_are_what_they_were(desk: Desk) -> None:
    desk.store()
    with pytest.raises(NotSettled, match="was not run by a runner"):
        desk.settle("completed", run_checks=False)
    checked = desk.outlast.handoff.verify(TASK, repo_root=str(desk.repo))
    assert [each.when for each in checked.evidence] == ["verify"]
    desk.write("src/export.py", "other\n")
    with pytest.raises(NotSettled, match="was not run by a runner on the files as they are now"):
        desk.settle("completed", run_checks=False)
    desk.write("src/export.py", "def export():\n    return 1\n")
    assert desk.settle("completed", run_checks=False).outcome == "completed"


# -- of what is composed from a run ------------------------------------------------------------------


@step
def first(stop: str) -> int:
    reach(stop)
    return 1


@flow
def works(run: Run) -> int:
    return first("at first")


@flow
def works_in_two(run: Run) -> int:
    return first("") + first("at second")


def base_of(outlast: Outlast, root: Path) -> None:
    """An older handoff of the task, which lends the run its checks."""
    text = {"summary": "Before the run", "handoff_text": "Go on with the run.", "next_action": "Run it."}
    outlast.handoff.store(ANCHOR, **text, acceptance_checks=["echo checked"], repo_root=str(root))


@pytest.fixture
def crashed(place: Place) -> str:
    base_of(place.outlast, place.folder)
    place.clock.advance(60)
    place.crash(works, at="at first", task="report")
    return place.run_id


def test_what_came_of_checks_on_a_composed_handoff_is_kept_on_the_record_of_its_run(place: Place, crashed: str) -> None:
    hands = place.outlast.handoff
    got = hands.verify(ANCHOR, repo_root=str(place.folder), actor="ann", operation_id="once")
    hands.verify(ANCHOR, repo_root=str(place.folder), actor="ann", operation_id="once")
    assert (got.handoff.source, [each.passed for each in got.evidence], got.notes) == ("run", [True], ())
    (checked,) = [event for event in place.outlast.events(crashed) if event.name == "run.checked"]
    assert checked.body["by"] == "ann"
    (evidence,) = checked.body["evidence"]
    assert place.outlast._executor.home.blobs.get(evidence["output"]) == b"checked\n"
    place.clock.advance(10 * 86_400)
    place.outlast.gc(dry_run=False)
    assert place.outlast.verify().ok
    assert place.outlast.resume(crashed).status == "succeeded"


def test_checks_do_not_hide_who_claimed_the_run(place: Place, crashed: str) -> None:
    hands = place.outlast.handoff
    claim = hands.claim(ANCHOR, actor="ann")
    hands.recover(ANCHOR, run_checks=True, repo_root=str(place.folder), actor="ann")
    with pytest.raises(HandoffClaimed, match="ann"):
        hands.claim(ANCHOR, actor="ben")
    assert hands.claim(ANCHOR, actor="ann").id == claim.id
    with pytest.raises(HandoffClaimed, match="ann"):
        hands.settle(ANCHOR, "released", actor="ben")
    taken = hands.claim(ANCHOR, actor="ben", take=True, why="ann is on leave")
    assert taken.id != claim.id
    with pytest.raises(ClaimLost):
        hands.renew(ANCHOR, actor="ann", claim_id=claim.id)


def test_what_came_of_checks_while_the_run_is_executed_is_said_to_be_lost(place: Place) -> None:
    base_of(place.outlast, place.folder)
    place.clock.advance(60)
    seen = []

    def look(run_id: str) -> None:
        with Outlast(place.home, clock=place.clock) as other:
            seen.append(other.handoff.verify(ANCHOR, repo_root=str(place.folder)))

    from ..kit.place import KNOBS

    KNOBS["look"] = look
    place.outlast.run(looks, task="report")
    assert [got.notes[0].partition(":")[0] for got in seen] == ["what came of the checks was not kept"]


@step
def looks_on() -> int:
    from ..kit.place import KNOBS

    KNOBS["look"]("")
    return 1


@flow
def looks(run: Run) -> int:
    return looks_on()


# -- the claim on what is composed -------------------------------------------------------------------


def test_a_claim_on_a_run_with_an_older_handoff_is_renewed_and_given_back(place: Place, crashed: str) -> None:
    hands = place.outlast.handoff
    claim = hands.claim(ANCHOR)
    assert claim.run_id == crashed
    place.clock.advance(60)
    renewed = hands.renew(ANCHOR, claim_id=claim.id)
    assert (renewed.id, renewed.expires_at > claim.expires_at) == (claim.id, True)
    with pytest.raises(NotSettled, match=f"run {crashed} of it is crashed"):
        hands.settle(ANCHOR, "completed", repo_root=str(place.folder))
    done = hands.settle(ANCHOR, "released", claim_id=claim.id, operation_id="once")
    again = hands.settle(ANCHOR, "released", claim_id=claim.id, operation_id="once")
    assert (done.outcome, done.replayed, again.replayed) == ("released", False, True)
    assert len([event for event in place.outlast.events(crashed) if event.name == "run.released"]) == 1
    assert hands.claim(ANCHOR).id != claim.id


def test_a_claim_on_the_older_handoff_itself_is_still_that(place: Place) -> None:
    base_of(place.outlast, place.folder)
    claim = place.outlast.handoff.claim(ANCHOR, repo_root=str(place.folder))
    place.clock.advance(60)
    place.crash(works, at="at first", task="report")
    hands = place.outlast.handoff
    assert hands.renew(ANCHOR, claim_id=claim.id).run_id == ""
    assert hands.settle(ANCHOR, "released", claim_id=claim.id).revision == 1
