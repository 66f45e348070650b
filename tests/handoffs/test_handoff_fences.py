"""What is written about a handoff holds only for what was looked at, by who had the right to it until the commit."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import AsyncOutlast, Outlast, Run, current, flow, step
from outlast.errors import (
    ClaimLost,
    Finished,
    HandoffClaimed,
    HandoffInvalid,
    HandoffNotFound,
    LeaseLost,
    NotSettled,
    StoreFailed,
)

from ..kit.desk import GOOD, TASK, Desk, codes

SLOW = {"acceptance_checks": ["true"], "baseline": True}


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    found = Desk(tmp_path)
    yield found
    found.close()


def meanwhile(outlast: Outlast, act: Callable[[], Any]) -> None:
    """Let something happen once, at the moment in which a check is about to be run."""
    acts = [act]
    outlast.listen(None, lambda note: acts.pop()() if acts and note.startswith("check ") else None)


def kinds(desk: Desk, anchor: str = TASK) -> list[str]:
    return [event.kind for event in desk.outlast.handoff.history(anchor)]


# -- the run's lease ---------------------------------------------------------------------------------


def take_run(outlast: Outlast) -> None:
    """As another worker would that found this one silent."""
    (run,) = outlast.runs()

    def work(tx: Any) -> None:
        tx.take_lease(tx.lease_of(run.id), "another worker")

    outlast._executor.home.store.write(work)


@flow
def hands_over(run: Run) -> str:
    try:
        return run.handoff("Half way", "Go on from here.", bind=False, **SLOW).id
    except Exception as error:
        return f"went on after {error!r}"


@step
def hands_over_in_step() -> str:
    return current().handoff("Half way", "Go on from here.", bind=False, **SLOW).id


@flow
def hands_over_by_step(run: Run) -> str:
    return hands_over_in_step()


@pytest.mark.parametrize("work", [hands_over, hands_over_by_step])
def test_a_worker_that_lost_its_run_stores_no_handoff_of_it(desk: Desk, work: Any) -> None:
    other = desk.sit_down("other")
    meanwhile(desk.outlast, lambda: take_run(other))
    with pytest.raises(LeaseLost):
        desk.outlast.run(work, task="tides")
    with pytest.raises(HandoffNotFound):
        other.handoff.get(anchor="task:tides")


@step
def loses_it_first(home: str) -> str:
    with Outlast(home) as other:
        take_run(other)
    return current().handoff("Half way", "Go on from here.", bind=False).id


@flow
def loses_it(run: Run, home: str) -> str:
    return loses_it_first(home)


def test_a_step_that_lost_its_run_before_stores_nothing(desk: Desk) -> None:
    with pytest.raises(LeaseLost):
        desk.outlast.run(loses_it, str(desk.home), task="tides")
    with pytest.raises(HandoffNotFound):
        desk.outlast.handoff.get(anchor="task:tides")


@step(retries=1)
def hands_over_twice(log: str) -> int:
    with Path(log).open("a") as file:
        file.write("x")
    for _ in range(2):
        current().handoff("Half way", "Go on from here.", bind=False)
    if Path(log).read_text() == "x":
        raise ValueError("the first attempt fails")
    return 2


@flow
def tries_again(run: Run, log: str) -> int:
    return hands_over_twice(log)


def test_each_call_of_each_attempt_of_a_step_stores_its_own_revision(desk: Desk, tmp_path: Path) -> None:
    assert desk.outlast.run(tries_again, str(tmp_path / "log"), task="tides").unwrap() == 2
    assert kinds(desk, "task:tides") == ["stored"] * 4


# -- settling ----------------------------------------------------------------------------------------


def test_work_that_somebody_else_took_and_gave_back_meanwhile_is_not_completed_by_older_evidence(desk: Desk) -> None:
    desk.store()
    ann, ben = desk.sit_down("ann"), desk.sit_down("ben")
    ann.handoff.claim(TASK, repo_root=str(desk.repo))

    def take_and_fail() -> None:
        ben.handoff.claim(TASK, take=True, why="it takes too long", repo_root=str(desk.repo))
        desk.write("src/export.py", "broken\n")
        desk.settle("failed", ben)

    meanwhile(ann, take_and_fail)
    with pytest.raises(ClaimLost):
        desk.settle("completed", ann)
    assert [event.body["outcome"] for event in ben.handoff.history(TASK) if event.kind == "settled"] == ["failed"]


def test_what_happened_while_nobody_held_the_claim_has_the_checks_run_again(desk: Desk) -> None:
    desk.store(acceptance_checks=["! grep -q broken src/export.py"])
    ben = desk.sit_down("ben")

    def break_it() -> None:
        ben.handoff.claim(TASK, repo_root=str(desk.repo))
        desk.settle("released", ben)

    def broken_after_the_first_check(note: str) -> None:
        seen.append(note)
        if len(seen) == 1:
            break_it()

    seen: list[str] = []
    desk.outlast.listen(None, broken_after_the_first_check)
    assert desk.settle("completed").outcome == "completed"
    assert len(seen) == 2


def test_a_claim_is_forgotten_only_once_its_end_is_written(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.store()
    ann = desk.sit_down("ann")
    claim = ann.handoff.claim(TASK, repo_root=str(desk.repo))
    store, whole = ann._executor.home.store, ann._executor.home.store.write

    def full(work: Any, plain: Any = None) -> Any:
        def failing(tx: Any) -> Any:
            work(tx)
            raise StoreFailed("the home", "the disk is full")

        return whole(failing)

    monkeypatch.setattr(store, "write", full)
    with pytest.raises(StoreFailed):
        desk.settle("released", ann)
    monkeypatch.undo()
    assert ann.handoff.claim(TASK, repo_root=str(desk.repo)).id == claim.id


# -- recovering --------------------------------------------------------------------------------------


def test_the_checks_of_a_revision_that_was_replaced_meanwhile_say_nothing_about_the_next(desk: Desk) -> None:
    desk.store(acceptance_checks=["true"])
    ben = desk.sit_down("ben")
    meanwhile(desk.outlast, lambda: desk.store(ben, acceptance_checks=["false"]))
    got = desk.recover(run_checks=True)
    assert got.handoff.revision == 2
    assert [(each.check, each.passed) for each in got.evidence] == [("false", False)]


def test_a_finished_handoff_is_read_and_not_claimed(desk: Desk) -> None:
    desk.store()
    desk.settle("completed")
    assert desk.recover(include_finished=True).standing == "finished"
    with pytest.raises(Finished):
        desk.recover(include_finished=True, claim=True)


# -- who is who --------------------------------------------------------------------------------------


def test_two_actors_of_one_process_are_two_claimers(desk: Desk) -> None:
    desk.store()
    hands = desk.outlast.handoff
    claim = hands.claim(TASK, actor="ann", repo_root=str(desk.repo))
    assert hands.claim(TASK, actor="ann", repo_root=str(desk.repo)).id == claim.id
    with pytest.raises(HandoffClaimed, match="ann"):
        hands.claim(TASK, actor="ben", repo_root=str(desk.repo))
    with pytest.raises(HandoffClaimed, match="ann"):
        hands.renew(TASK, actor="ben")
    with pytest.raises(HandoffClaimed, match="ann"):
        desk.settle("completed", actor="ben")
    assert desk.store(actor="ben").rival.startswith("ann")
    assert hands.renew(TASK, actor="ben", claim_id=claim.id).id == claim.id


def test_a_claim_of_somebody_else_is_taken_and_never_accepted(desk: Desk) -> None:
    desk.store()
    ann, ben, cyd = desk.sit_down("ann"), desk.sit_down("ben"), desk.sit_down("cyd")
    ann.handoff.claim(TASK, repo_root=str(desk.repo))
    for word in ("claimed", f"claimed:{TASK}"):
        with pytest.raises(HandoffInvalid, match="take=True"):
            desk.recover(outlast=ben, accept=[word], why="I am in a hurry")
    with pytest.raises(HandoffClaimed):
        cyd.handoff.claim(TASK, repo_root=str(desk.repo))


def test_an_acceptance_of_a_claim_that_is_on_record_counts_for_nothing(desk: Desk) -> None:
    from outlast.handoffs.claim import standing_reasons
    from outlast.ledger.verdict import Reason, judge

    held, changed = Reason("claimed", "x", "free", "ann", ""), Reason("file_changed", "y", "a", "b", "")
    assert standing_reasons(judge([held, changed]), [held.fingerprint, changed.fingerprint]) == (held,)


def test_a_lost_claim_is_named_and_not_told(desk: Desk) -> None:
    desk.store()
    claim = desk.outlast.handoff.claim(TASK, repo_root=str(desk.repo))
    desk.store(anchor="task:other")
    for use in (
        lambda: desk.outlast.handoff.renew("task:other", claim_id=claim.id),
        lambda: desk.store(anchor="task:third", claim_id=claim.id),
        lambda: desk.outlast.tasks.open("fourth", claim_id=claim.id).complete_task(override="it counts"),
    ):
        with pytest.raises(ClaimLost) as lost:
            use()
        assert claim.id not in str(lost.value.to_dict())
        assert claim.id[:6] in str(lost.value)


# -- rivals ------------------------------------------------------------------------------------------


def test_a_rival_contests_until_a_revision_says_that_it_supersedes_it(desk: Desk) -> None:
    desk.store()
    ann, ben = desk.sit_down("ann"), desk.sit_down("ben")
    ann.handoff.claim(TASK, repo_root=str(desk.repo))
    rival = desk.store(ben, summary="Beside the one who holds the claim")
    assert (rival.rival.startswith("ann"), rival.rival_id) == (True, "")
    for summary in ("Further on", "Further still"):
        plain = desk.store(ann, summary=summary)
        assert (plain.rival, plain.rival_id) == (rival.rival, rival.id)
        (reason,) = [one for one in desk.recover(outlast=ann).verdict.contesting if one.code == "rival"]
        assert rival.id in reason.found
        assert f"--supersedes {rival.id}" in reason.advice
    assert desk.store(ann, supersedes=plain.id).rival == rival.rival
    both = desk.store(ann, supersedes=rival.id)
    assert (both.rival, both.rival_id) == ("", "")
    assert "rival" not in codes(desk.recover(outlast=ann))
    assert desk.store(ann).rival == ""


def test_a_claimer_does_not_complete_what_somebody_else_stored_beside_it(desk: Desk) -> None:
    desk.store()
    ann, ben = desk.sit_down("ann"), desk.sit_down("ben")
    ann.handoff.claim(TASK, repo_root=str(desk.repo))
    rival = desk.store(ben, acceptance_checks=["touch ran"])
    with pytest.raises(NotSettled, match=rf"revision 2 is a rival, stored by ben.*--supersedes {rival.id}"):
        desk.settle("completed", ann)
    assert not (desk.repo / "ran").exists()  # nor is its check run
    desk.recover(outlast=ann, claim=True, accept=["rival:revision 2"], why="ben and I talked")
    assert desk.settle("completed", ann).revision == 2


def test_an_override_completes_a_rival_and_says_why(desk: Desk) -> None:
    desk.store()
    ann, ben = desk.sit_down("ann"), desk.sit_down("ben")
    ann.handoff.claim(TASK, repo_root=str(desk.repo))
    desk.store(ben)
    assert desk.settle("completed", ann, override="it is the same").override == "it is the same"


def test_only_who_holds_the_claim_clears_a_rival(desk: Desk) -> None:
    first = desk.store()
    ann, ben = desk.sit_down("ann"), desk.sit_down("ben")
    ann.handoff.claim(TASK, repo_root=str(desk.repo))
    rival = desk.store(ben, supersedes=first.id)
    again = desk.store(ben, supersedes=rival.id)
    assert rival.rival.startswith("ann")
    assert again.rival.startswith("ann")
    assert desk.store(ann, supersedes=again.id).rival == ""
    assert desk.settle("completed", ann).revision == 4


def test_what_was_stored_after_a_claim_had_lapsed_is_read_before_it_is_completed(desk: Desk) -> None:
    desk.store()
    ann, ben = desk.sit_down("ann"), desk.sit_down("ben")
    ann.handoff.claim(TASK, repo_root=str(desk.repo))
    desk.clock.advance(16 * 60)
    assert desk.store(ben).rival == ""
    with pytest.raises(NotSettled, match="revision 2 was stored by ben after your claim"):
        desk.settle("completed", ann)
    desk.recover(outlast=ann, claim=True)
    assert desk.settle("completed", ann).revision == 2


# -- long checks -------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["recover", "settle"])
def test_a_claim_stays_alive_while_its_checks_are_run(desk: Desk, verb: str) -> None:
    desk.store(acceptance_checks=["true", "test -f src/export.py", "test -d src"])
    ann, ben = desk.sit_down("ann"), desk.sit_down("ben")
    ann.handoff.claim(TASK, repo_root=str(desk.repo))
    refused: list[str] = []

    def minutes_later(note: str) -> None:
        desk.clock.advance(10 * 60)
        with pytest.raises(HandoffClaimed) as claimed:
            ben.handoff.claim(TASK, repo_root=str(desk.repo))
        refused.append(claimed.value.holder)

    ann.listen(None, minutes_later)
    if verb == "recover":
        desk.recover(outlast=ann, run_checks=True)
    else:
        assert desk.settle("completed", ann).outcome == "completed"
    assert len(refused) == 3


# -- on an event loop --------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["recover", "settle", "store"])
def test_a_call_that_is_cancelled_while_checks_run_writes_nothing(tmp_path: Path, verb: str) -> None:
    desk = Desk(tmp_path)
    check = "touch ../checking; while [ ! -e ../go ]; do sleep 0.02; done"
    desk.store(acceptance_checks=[check])
    outlast = AsyncOutlast(desk.home)

    async def cancelled() -> None:
        hands, root = outlast.handoff, str(desk.repo)
        calls: dict[str, Callable[[], Any]] = {
            "recover": lambda: hands.recover(TASK, repo_root=root, claim=True, run_checks=True),
            "settle": lambda: hands.settle(TASK, "completed", repo_root=root),
            "store": lambda: hands.store(**GOOD | {"acceptance_checks": [check], "repo_root": root, "baseline": True}),
        }
        before = threading.active_count()
        work = asyncio.ensure_future(calls[verb]())
        deadline = asyncio.get_running_loop().time() + 60
        while not (tmp_path / "checking").exists():
            assert asyncio.get_running_loop().time() < deadline
            await asyncio.sleep(0.01)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        (tmp_path / "go").touch()
        assert threading.active_count() <= before + 1
        await outlast.close()

    asyncio.run(cancelled())
    assert kinds(desk) == ["stored"]
    assert desk.outlast.handoff.claim(TASK, repo_root=str(desk.repo)).epoch == 1
    desk.close()
