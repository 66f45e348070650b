"""A day in the life of a handoff: three processes, one of them killed, and everybody told the truth."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast

from ..crash.clerk import Answer, Clerk
from ..kit.desk import GOOD, TASK, git

CHECK = "grep -q patched src/export.py"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    repo = tmp_path / "repo"
    (repo / "src").mkdir(parents=True)
    (repo / "src" / "export.py").write_text("def export():\n    return 1\n")
    git(repo, "init", "-q")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "first")
    return repo


@pytest.fixture
def office(tmp_path: Path) -> Iterator[list[Clerk]]:
    clerks: list[Clerk] = []
    yield clerks
    for clerk in clerks:
        clerk.kill()


def told(answer: Answer) -> tuple[str, set[str], str]:
    return answer.value["verdict"], {*answer.value["codes"]}, answer.value["resume"]


def test_the_work_outlives_its_workers(tmp_path: Path, repo: Path, office: list[Clerk]) -> None:
    home, here = tmp_path / "home", {"repo_root": str(repo)}
    target = repo / "src" / "export.py"

    def hire(actor: str) -> Clerk:
        office.append(Clerk(home, actor))
        return office[-1]

    ann = hire("ann")  # diagnoses, hands over, and goes home
    given: dict[str, Any] = GOOD | here | {"acceptance_checks": [CHECK], "must_keep": ["the public names"]}
    assert ann.ask("store", **given, baseline=True, strict=True).value["revision"] == 1
    ann.kill()

    ben = hire("ben")  # comes, trusts it, begins, and is killed in the middle of it
    assert told(ben.ask("recover", TASK, **here)) == ("trusted", {"checks_not_run"}, "")
    assert told(ben.ask("recover", TASK, claim=True, **here)) == ("trusted", {"checks_not_run"}, "attached")
    target.write_text("def export():\n    return 1  # to be patc")
    ben.kill()

    eve = hire("eve")  # knows only the file; what lies there is progress, and the claim of the dead is free
    found = eve.ask("recover", file_path="src/export.py", claim=True, run_checks=True, **here)
    assert told(found) == ("candidate", {"partial_work"}, "attached")
    assert found.value["next_action"] == GOOD["next_action"]
    kept = {"acknowledged": ["the public names"]}
    refused = eve.ask("settle", TASK, "completed", **kept, **here)
    assert (refused.code, "fails" in refused.value["detail"]) == ("not_settled", True)
    target.write_text("def export():\n    return 1  # patched\n")
    assert eve.ask("settle", TASK, "completed", **here).code == "not_settled"  # a must is not acknowledged
    assert eve.ask("settle", TASK, "completed", **kept, **here).value["outcome"] == "completed"
    assert eve.ask("recover", TASK, **here).code == "finished"
    assert eve.ask("recover", file_path="src/export.py", **here).code == "handoff_not_found"  # no open one is
    eve.kill()
    _look_back(home)


def _look_back(home: Path) -> None:
    """Everything that happened, in order, and nothing that did not."""
    with Outlast(home) as outlast:
        events = outlast.handoff.history(TASK)
        assert [(event.kind, event.by) for event in events] == [
            ("stored", "ann"),
            ("claimed", "ben"),
            ("attached", "ben"),
            ("checked", "eve"),
            ("claimed", "eve"),
            ("attached", "eve"),
            ("checked", "eve"),
            ("checked", "eve"),
            ("settled", "eve"),
        ]
        assert [event.seq for event in events] == [*range(1, 10)]
        assert [event.at for event in events] == sorted(event.at for event in events)
        assert [each["passed"] for each in events[3].body["evidence"]] == [False]
        settled = events[-1].body
        assert (settled["outcome"], settled["score"], settled["override"]) == ("completed", 100, "")
        assert [(each["passed"], each["runner"]) for each in settled["evidence"]] == [(True, "runner")]
        found = outlast.verify()
        assert (found.ok, found.handoffs, found.entries) == (True, 1, 9)
        assert [one.anchor for one in outlast.handoff.list("finished")] == [TASK]


def test_a_good_handoff_is_trusted_in_an_unchanged_clone(
    tmp_path: Path, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = tmp_path / "elsewhere" / "clone"
    git(tmp_path, "clone", "-q", str(repo), str(clone))
    with Outlast(tmp_path / "home") as outlast:
        outlast.handoff.store(**GOOD | {"repo_root": str(repo)}, baseline=True)
        repo.rename(tmp_path / "gone")
        found = outlast.handoff.recover(TASK, repo_root=str(clone), run_checks=True)
        assert (str(found.verdict), found.verdict.reasons, found.root) == ("trusted", (), str(clone))
        monkeypatch.chdir(clone / "src")
        by_place = outlast.handoff.recover(TASK, claim=True)
        assert (str(by_place.verdict), by_place.root, by_place.resume) == ("trusted", str(clone), "attached")
        by_branch = outlast.handoff.recover()
        assert (by_branch.anchor, by_branch.standing) == (TASK, "claimed")
