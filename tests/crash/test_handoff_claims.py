"""One claimer: whoever else comes at once, later, from elsewhere, or wakes up too late."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kit.desk import GOOD, TASK, git

from outlast import Outlast, Run, failpoints, flow, step
from outlast.testing.crashes import in_child

from ..kit.ledgers import change as tamper
from .clerk import Clerk
from .processes import wait_until

pytestmark = pytest.mark.crash

MANY = 16
ROUNDS = 3
MINUTES = 60
UNBOUND: dict[str, Any] = GOOD | {"bind": False, "acceptance_checks": []}
Hire = Callable[..., Clerk]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def hire(home: Path) -> Iterator[Hire]:
    clerks: list[Clerk] = []

    def hire(actor: str = "local", **how: Any) -> Clerk:
        clerks.append(Clerk(home, actor, **how))
        return clerks[-1]

    yield hire
    for clerk in clerks:
        clerk.kill()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    repo = tmp_path / "repo"
    (repo / "src").mkdir(parents=True)
    (repo / "src" / "export.py").write_text("x = 1\n")
    git(repo, "init", "-q")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "first")
    return repo


def entries(home: Path, kind: str) -> list[Any]:
    with Outlast(home) as outlast:
        assert outlast.verify().ok
        return [event for event in outlast.handoff.history(TASK) if event.kind == kind]


# -- at once -----------------------------------------------------------------------------------------


def test_of_sixteen_that_claim_at_once_one_wins_and_all_others_name_it(home: Path, hire: Hire) -> None:
    clerks = [hire(f"clerk-{number:02d}") for number in range(MANY)]
    for round_ in range(ROUNDS):
        anchor = f"task:round-{round_}"
        assert clerks[round_].ask("store", **UNBOUND | {"anchor": anchor}).ok
        for clerk in clerks:
            clerk.tell("claim", anchor)
        answers = [clerk.hear() for clerk in clerks]
        (winner,) = [clerk for clerk, answer in zip(clerks, answers, strict=True) if answer.ok]
        lost = [answer for answer in answers if not answer.ok]
        assert {answer.code for answer in lost} == {"handoff_claimed"}
        (holder,) = {answer.value["holder"] for answer in lost}
        assert holder.startswith(f"{winner.actor} (pid {winner.pid} on ")
        told = [event["kind"] for event in clerks[0].ask("history", anchor).value]
        assert told == ["stored", "claimed", "attached"]
    clerks[0].kill()
    with Outlast(home) as outlast:
        assert outlast.verify().ok


@step
def begin() -> str:
    return "begun"


@step
def finish() -> str:
    if failpoints.armed:
        failpoints.armed("test.finishing")
    return "finished"


@flow
def works(run: Run) -> list[str]:
    return [begin(), finish()]


def crash_run(home: Path) -> None:
    def work(tell: object) -> None:
        failpoints.arm(failpoints.kill_at("test.finishing", 1))
        with Outlast(home) as outlast:
            outlast.run(works, task="report")

    assert in_child(work, 60).killed


def test_of_sixteen_that_claim_a_dead_run_at_once_one_wins(home: Path, hire: Hire) -> None:
    crash_run(home)
    clerks = [hire(f"clerk-{number:02d}") for number in range(MANY)]
    for clerk in clerks:
        clerk.tell("claim", "task:report")
    answers = [clerk.hear() for clerk in clerks]
    (winner,) = [clerk for clerk, answer in zip(clerks, answers, strict=True) if answer.ok]
    lost = [answer for answer in answers if not answer.ok]
    assert {answer.code for answer in lost} == {"handoff_claimed"}
    (holder,) = {answer.value["holder"] for answer in lost}
    assert f"of {winner.actor} (pid {winner.pid} on " in holder


def test_of_several_stores_with_one_expected_revision_one_wins(home: Path, hire: Hire) -> None:
    clerks = [hire(f"clerk-{number}") for number in range(6)]
    for expected in range(ROUNDS):
        for clerk in clerks:
            clerk.tell("store", **UNBOUND | {"summary": f"by {clerk.actor}", "expected_revision": expected})
        answers = [clerk.hear() for clerk in clerks]
        assert [answer.value["revision"] for answer in answers if answer.ok] == [expected + 1]
        assert {answer.code for answer in answers if not answer.ok} == {"revision_conflict"}
    for clerk in clerks:
        clerk.kill()
    assert [event.body["revision"] for event in entries(home, "stored")] == [1, 2, 3]


def test_equal_stores_with_one_operation_make_one_revision(home: Path, hire: Hire) -> None:
    clerks = [hire("ann") for _ in range(6)]
    for clerk in clerks:
        clerk.tell("store", **UNBOUND | {"operation_id": "op-1"})
    assert len({clerk.hear().value["id"] for clerk in clerks}) == 1
    for clerk in clerks:
        clerk.kill()
    assert len(entries(home, "stored")) == 1


# -- too late ----------------------------------------------------------------------------------------


def test_a_claimer_that_slept_while_its_claim_was_taken_can_do_nothing_with_it(home: Path, hire: Hire) -> None:
    ann, ben = hire("ann"), hire("ben")
    assert ann.ask("store", **UNBOUND).ok
    claim = ann.ask("claim", TASK).value["id"]
    ann.stop()
    assert ben.ask("claim", TASK).code == "handoff_claimed"  # she is silent, and not dead
    taken = ben.ask("claim", TASK, take=True, why="ann does not answer")
    assert taken.ok
    ann.wake()
    for words, how in (
        (("store",), UNBOUND | {"claim_id": claim}),
        (("renew", TASK), {"claim_id": claim}),
        (("settle", TASK, "completed"), {"claim_id": claim}),
        (("recover", TASK), {"claim_id": claim}),
    ):
        answer = ann.ask(*words, **how)
        assert (words[0], answer.code) == (words[0], "claim_lost")
        assert "ben took it over on" in answer.value["detail"]
    for words in (("renew", TASK), ("settle", TASK, "completed")):
        assert ann.ask(*words).code == "claim_lost"
    assert ann.ask("claim", TASK).code == "handoff_claimed"
    assert ann.ask("store", **UNBOUND).value["rival"].startswith(f"ben (pid {ben.pid} on ")  # not under her claim
    assert ben.ask("settle", TASK, "released", claim_id=taken.value["id"]).ok
    ann.kill()
    ben.kill()
    (first, second) = entries(home, "claimed")
    assert (first.by, second.by, second.body["why"]) == ("ann", "ben", "ann does not answer")


@pytest.mark.parametrize(("shown", "code"), [(True, "claim_lost"), (False, "handoff_claimed")])
def test_a_settlement_under_way_when_the_claim_is_taken_is_refused(
    home: Path, repo: Path, hire: Hire, shown: bool, code: str
) -> None:
    ann, ben = hire("ann"), hire("ben")
    check = "touch ../checking; while [ ! -e ../go ]; do sleep 0.02; done"
    assert ann.ask("store", **GOOD | {"acceptance_checks": [check], "repo_root": str(repo)}).ok
    claim = ann.ask("claim", TASK, repo_root=str(repo)).value["id"]
    ann.tell("settle", TASK, "completed", repo_root=str(repo), claim_id=claim if shown else None)
    wait_until((repo.parent / "checking").exists, "the check")
    assert ben.ask("claim", TASK, repo_root=str(repo), take=True, why="it takes too long").ok
    (repo.parent / "go").touch()
    assert ann.hear().code == code
    ann.kill()
    ben.kill()
    assert entries(home, "settled") == []


def test_a_recovery_under_way_when_the_claim_is_taken_gives_no_claim(home: Path, repo: Path, hire: Hire) -> None:
    ann, ben = hire("ann"), hire("ben")
    check = "touch ../checking; while [ ! -e ../go ]; do sleep 0.02; done"
    assert ann.ask("store", **GOOD | {"acceptance_checks": [check], "repo_root": str(repo)}).ok
    ann.tell("recover", TASK, repo_root=str(repo), claim=True, run_checks=True)
    wait_until((repo.parent / "checking").exists, "the check")
    assert ben.ask("claim", TASK, repo_root=str(repo)).ok
    (repo.parent / "go").touch()
    told = ann.hear().value
    assert (told["resume"], told["claim"], told["codes"]) == ("lost", None, ["claimed"])
    ann.kill()
    ben.kill()
    assert [event.by for event in entries(home, "claimed")] == ["ben"]
    assert [event.by for event in entries(home, "checked")] == ["ann"]


def test_a_recovery_under_way_when_another_revision_is_stored_is_about_that_one(
    home: Path, repo: Path, hire: Hire
) -> None:
    ann, ben = hire("ann"), hire("ben")
    check = "touch ../checking; while [ ! -e ../go ]; do sleep 0.02; done"
    given = GOOD | {"acceptance_checks": [check], "repo_root": str(repo)}
    assert ann.ask("store", **given).ok
    ann.tell("recover", TASK, repo_root=str(repo), claim=True, run_checks=True)
    wait_until((repo.parent / "checking").exists, "the check")
    newer = ben.ask("store", **given | {"summary": "Further on"}, expected_revision=1).value  # he knows of hers
    (repo.parent / "go").touch()
    claim = ann.hear().value["claim"]
    assert (claim["revision"], claim["handoff_id"]) == (2, newer["id"])


# -- dead, or elsewhere ------------------------------------------------------------------------------


def test_a_claimer_that_was_killed_is_followed_at_once(home: Path, hire: Hire) -> None:
    ann, ben = hire("ann"), hire("ben")
    assert ann.ask("store", **UNBOUND).ok
    first = ann.ask("claim", TASK).value
    ann.kill()
    second = ben.ask("claim", TASK).value
    assert second["epoch"] == first["epoch"] + 1
    ben.kill()
    assert [event.by for event in entries(home, "claimed")] == ["ann", "ben"]


ELSEWHERE = {
    "another host": "UPDATE claims SET machine_id = 'its own', boot_id = 'its boot' WHERE lease_seconds = 900",
    "another container": "UPDATE claims SET pid_namespace = 'its own' WHERE lease_seconds = 900",
    "nowhere": "UPDATE claims SET boot_id = '', pid_namespace = '' WHERE lease_seconds = 900",
}


@pytest.mark.parametrize("place", [*ELSEWHERE, "nobody"])
def test_who_cannot_be_looked_up_is_followed_only_after_a_quarter_of_an_hour(
    home: Path, hire: Hire, place: str
) -> None:
    ann = hire("ann", claimer=place != "nobody")
    early, late = hire("ben", ahead=14 * MINUTES), hire("eve", ahead=16 * MINUTES)
    assert ann.ask("store", **UNBOUND).ok
    assert ann.ask("claim", TASK).ok
    if place in ELSEWHERE:
        tamper(home, ELSEWHERE[place])
    ann.kill()
    assert early.ask("claim", TASK).code == "handoff_claimed"
    assert late.ask("claim", TASK).ok
    assert early.ask("claim", TASK).value["holder"].startswith("eve (pid ")


def test_a_claim_that_nobody_stands_behind_is_its_token_s(home: Path, hire: Hire) -> None:
    ann, other = hire("ann", claimer=False), hire("ann", claimer=False)
    assert ann.ask("store", **UNBOUND).ok
    claim = ann.ask("claim", TASK).value["id"]
    ann.kill()
    assert other.ask("claim", TASK).code == "handoff_claimed"
    told = other.ask("recover", TASK, claim_id=claim).value
    assert (told["standing"], told["claim"]["id"]) == ("claimed", claim)
    assert "claimed" not in told["codes"]  # by somebody else
    assert other.ask("store", **UNBOUND | {"claim_id": claim}).value["rival"] == ""
    assert other.ask("settle", TASK, "released", claim_id=claim).ok
    assert other.ask("renew", TASK, claim_id=claim).code == "claim_lost"


def test_who_shows_the_claim_of_a_dead_claimer_works_under_it(home: Path, repo: Path, hire: Hire) -> None:
    ann, ben = hire("ann"), hire("ben")
    given = GOOD | {"repo_root": str(repo)}
    assert ann.ask("store", **given).ok
    claim = ann.ask("claim", TASK, repo_root=str(repo)).value["id"]
    ann.kill()
    stored = ben.ask("store", **given | {"summary": "Further on", "claim_id": claim}).value
    assert stored["claim"]
    (repo / "src" / "export.py").write_text("x = 2\n")
    told = ben.ask("recover", TASK, repo_root=str(repo)).value
    assert (told["verdict"], told["codes"][-1], told["standing"]) == ("candidate", "partial_work", "claimed")


def test_a_repeated_operation_is_one_claim_whatever_changed_meanwhile(home: Path, repo: Path, hire: Hire) -> None:
    ann, again = hire("ann", claimer=False), hire("ann", claimer=False)
    target, was = repo / "src" / "export.py", "x = 1\n"
    assert ann.ask("store", **GOOD | {"repo_root": str(repo)}).ok
    target.write_text("x = 2\n")
    how: dict[str, Any] = {"repo_root": str(repo), "claim": True, "accept": ["file_changed"], "why": "it is mine"}
    first = ann.ask("recover", TASK, **how, operation_id="op-1").value["claim"]
    ann.kill()
    target.write_text(was)  # nothing contests now, so that there is nothing to accept
    assert again.ask("recover", TASK, **how).code == "handoff_invalid"
    second = again.ask("recover", TASK, **how, operation_id="op-1").value["claim"]
    assert (second["id"], second["replayed"]) == (first["id"], True)
    assert again.ask("recover", TASK, **how | {"why": "other"}, operation_id="op-1").code == "operation_conflict"
    again.kill()
    assert len(entries(home, "claimed")) == len(entries(home, "accepted")) == 1


def test_a_settlement_with_other_words_is_another_operation(home: Path, hire: Hire) -> None:
    ann = hire("ann")
    assert ann.ask("store", **UNBOUND).ok
    first = ann.ask("settle", TASK, "released", note="not enough", operation_id="op-1").value
    assert ann.ask("settle", TASK, "released", note="not enough", operation_id="op-1").value["at"] == first["at"]
    assert ann.ask("settle", TASK, "released", note="another", operation_id="op-1").code == "operation_conflict"
    ann.kill()
    assert len(entries(home, "settled")) == 1
