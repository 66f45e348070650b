"""Different contracts under one anchor, by workers who did not read each other: named until somebody looked."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast, Run, flow
from outlast.errors import HandoffContested, NotSettled
from outlast.handoffs.handoff import Recovered

from ..kit.desk import GOOD, TASK, Desk, codes

ANOTHER = {"next_action": "Rewrite the exporter from nothing.", "summary": "Another plan"}


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    found = Desk(tmp_path)
    yield found
    found.close()


def two(desk: Desk, **second: Any) -> Recovered:
    """Ann stores, Ben stores beside her, somebody recovers."""
    desk.store(desk.sit_down("ann"))
    desk.store(desk.sit_down("ben"), **ANOTHER | second)
    return desk.recover(outlast=desk.sit_down("cy"))


def test_the_newest_names_the_other_revision_its_author_and_what_differs(desk: Desk) -> None:
    found = two(desk)
    (reason,) = found.verdict.contesting
    host = desk.outlast._executor.home.process.host
    assert (str(found.verdict), reason.code, reason.subject) == ("contested", "rival", "revision 2")
    assert reason.found == f"revision 1 by ann@{host} was not read by ben; differs: summary, next_action"
    assert f"outlast handoff diff {TASK} 1 2" in reason.advice
    with pytest.raises(HandoffContested, match="rival"):
        desk.sit_down("dan").handoff.claim(TASK, repo_root=str(desk.repo))
    assert [one.anchor for one in desk.outlast.handoff.list("contested")] == [TASK]


LOOKS: dict[str, Callable[[Desk, Outlast], object]] = {
    "show the newest": lambda desk, who: who.handoff.get(anchor=TASK),
    "show the other": lambda desk, who: who.handoff.get(anchor=TASK, revision=1),
    "diff": lambda desk, who: who.handoff.diff(TASK, revisions=(1, 2)),
    "accept": lambda desk, who: desk.recover(outlast=who, accept=["rival:revision 2"], why="both are known"),
}


@pytest.mark.parametrize("how", LOOKS)
def test_it_is_named_until_somebody_looks(desk: Desk, how: str) -> None:
    two(desk)
    for who in ("cy", "dan", "cy"):  # recovering is not looking
        assert codes(desk.recover(outlast=desk.sit_down(who)), ("contests",)) == {"rival"}
    LOOKS[how](desk, desk.sit_down("cy"))
    assert str(desk.recover(outlast=desk.sit_down("dan")).verdict) == "trusted"


def test_no_operation_id_that_a_caller_gives_counts_as_a_look(desk: Desk) -> None:
    found = two(desk)
    desk.outlast.workspace.record("note", "x", operation_id=f"handoff_read:{found.handoff.id}:looked")
    assert codes(desk.recover(outlast=desk.sit_down("dan")), ("contests",)) == {"rival"}


READS: dict[str, Callable[[Desk, Outlast], object]] = {
    "recovered it": lambda desk, who: desk.recover(outlast=who),
    "claimed it": lambda desk, who: desk.recover(outlast=who, claim=True),
    "was shown it": lambda desk, who: who.handoff.get(anchor=TASK),
    "ran its checks": lambda desk, who: who.handoff.verify(TASK, repo_root=str(desk.repo)),
}


@pytest.mark.parametrize("how", READS)
def test_who_had_read_it_is_no_rival(desk: Desk, how: str) -> None:
    desk.store(desk.sit_down("ann"))
    READS[how](desk, ben := desk.sit_down("ben"))
    desk.store(ben, **ANOTHER)
    assert "rival" not in codes(desk.recover(outlast=desk.sit_down("cy")))


@pytest.mark.parametrize("knows", [{"expected_revision": 1}, {"supersedes": ""}])
def test_who_says_what_he_goes_past_is_no_rival(desk: Desk, knows: dict[str, Any]) -> None:
    first = desk.store(desk.sit_down("ann"))
    if "supersedes" in knows:
        knows = {"supersedes": first.id}
    desk.store(desk.sit_down("ben"), **ANOTHER | knows)
    assert str(desk.recover(outlast=desk.sit_down("cy")).verdict) == "trusted"


def test_the_same_worker_is_no_rival_of_himself_and_nor_is_the_same_contract(desk: Desk) -> None:
    ann = desk.sit_down("ann")
    desk.store(ann)
    desk.store(ann, **ANOTHER)
    desk.store(desk.sit_down("ben"), **ANOTHER)
    assert "rival" not in codes(desk.recover(outlast=desk.sit_down("cy")))


def test_storing_once_more_does_not_make_it_forgotten(desk: Desk) -> None:
    two(desk)
    third = desk.store(desk.sit_down("ben"), summary="A third wording", handoff_text="Resume in src/export.py, again.")
    assert third.unread is not None
    assert (third.unread.revision, third.unread.by) == (1, "ann")
    found = desk.recover(outlast=desk.sit_down("cy"))
    assert codes(found, ("contests",)) == {"rival"}
    desk.sit_down("cy").handoff.diff(TASK, revisions=(1, 3))
    assert str(desk.recover(outlast=desk.sit_down("dan")).verdict) == "trusted"


STORES = """
import sys
from outlast import Outlast, Run, flow
with Outlast(sys.argv[1], actor="ann") as outlast:
    if sys.argv[4] == "reads":
        outlast.handoff.recover(sys.argv[2], repo_root=sys.argv[3])
    fields = {"target_files": ["src/export.py"], "acceptance_checks": ["test -f src/export.py"]}
    fields |= {"next_action": "Patch the exporter.", "repo_root": sys.argv[3]}
    outlast.handoff.store(sys.argv[2], sys.argv[4], "Resume in src/export.py.", **fields)
"""


@pytest.mark.parametrize(("second", "expected"), [("blind", {"rival"}), ("reads", set())])
def test_another_process_of_the_same_name_is_another_worker(desk: Desk, second: str, expected: set[str]) -> None:
    for summary in ("first", second):
        words = [str(desk.home), TASK, str(desk.repo), summary]
        subprocess.run([sys.executable, "-c", STORES, *words], check=True)
    assert codes(desk.recover(), ("contests",)) == expected


def test_an_import_names_it_again_since_nobody_has_looked_there(desk: Desk, tmp_path: Path) -> None:
    two(desk)
    desk.outlast.handoff.get(anchor=TASK)
    desk.outlast.handoff.export(TASK, tmp_path / "bundle")
    with Outlast(tmp_path / "there") as there:
        there.handoff.import_(tmp_path / "bundle")
        found = there.handoff.recover(TASK, repo_root=str(desk.repo))
        assert "rival" in codes(found)
        desk.store(desk.sit_down("ben"), summary="Later")
        desk.outlast.handoff.export(TASK, tmp_path / "later")
        there.handoff.import_(tmp_path / "later")  # that somebody read it here has not parted the two


def test_finished_work_has_no_rival(desk: Desk) -> None:
    desk.store(desk.sit_down("ann"))
    desk.settle("completed")
    desk.store(desk.sit_down("ben"), **ANOTHER)
    assert str(desk.recover(outlast=desk.sit_down("cy")).verdict) == "trusted"


# -- completing --------------------------------------------------------------------------------------


def test_completing_is_refused_until_somebody_has_looked_at_the_other_contract(desk: Desk) -> None:
    two(desk)
    ben = desk.sit_down("ben")
    with pytest.raises(NotSettled, match=r"revision 1 by ann@.* was not read by ben; .*outlast handoff diff .* 1 2"):
        desk.settle("completed", ben)
    assert str(desk.recover(outlast=ben).standing) == "contested"  # nothing is over
    ben.handoff.diff(TASK, revisions=(1, 2))
    assert desk.settle("completed", ben).override == ""


def test_completing_past_a_rival_is_said_on_the_record(desk: Desk) -> None:
    two(desk)
    done = desk.settle("completed", desk.sit_down("ben"), override="ann's plan was given up")
    assert done.override == "ann's plan was given up"


def test_work_with_a_rival_can_be_given_back_without_looking(desk: Desk) -> None:
    two(desk)
    assert desk.settle("released", desk.sit_down("ben")).outcome == "released"


@flow
def hands_over(run: Run, summary: str, repo: str) -> None:
    run.handoff(anchor=TASK, **ITS_OWN | {"summary": summary, "repo_root": repo})


ITS_OWN: dict[str, Any] = {name: value for name, value in GOOD.items() if name != "anchor"}


def test_what_a_run_stores_is_compared_by_its_actor_in_whatever_process_it_is(desk: Desk) -> None:
    desk.store(desk.sit_down("ann"))
    desk.sit_down("ben").run(hands_over, "Another plan", str(desk.repo))
    assert codes(desk.recover(outlast=desk.sit_down("cy")), ("contests",)) == {"rival"}
    desk.sit_down("cy").handoff.get(anchor=TASK)
    desk.sit_down("ben").run(hands_over, "A third plan", str(desk.repo))
    assert "rival" not in codes(desk.recover(outlast=desk.sit_down("cy")))
