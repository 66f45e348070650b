"""Finding handoffs among many, of other repositories and damaged ones too, and listing them page by page."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast.errors import HandoffInvalid
from outlast.handoffs import find as handoffs

from ..kit.desk import TASK, Desk, git
from ..ready import completed


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    yield made
    made.close()


def tamper(desk: Desk, sql: str) -> None:
    """Change the database from another process, with another SQLite."""
    code = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute(sys.argv[2]); db.commit()"
    completed(("-c", code, str(desk.home / "default" / "outlast.db"), sql), check=True)


def beside(desk: Desk, *anchors: str) -> Path:
    """Another repository on a branch of the same name, with open handoffs of its own."""
    other = desk.folder / "other"
    (other / "src").mkdir(parents=True)
    (other / "src" / "export.py").write_text("of somebody else\n")
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "its own"]):
        git(other, *words)
    for anchor in anchors:
        desk.store(anchor=anchor, repo_root=str(other))
    return other


def counted(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git on the PATH that writes down each call and is git."""
    log, program = desk.folder / "git.log", desk.folder / "bin" / "git"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$*" >> "{log}"\nexec "{shutil.which("git")}" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    return log


def test_handoffs_of_other_repositories_hide_none_and_git_is_asked_once_for_a_commit(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handoffs, "PAGE", 2)
    desk.store()
    beside(desk, *(f"task:other-{number}" for number in range(7)))
    log = counted(desk, monkeypatch)
    assert desk.recover(None).anchor == TASK
    assert log.read_text().count(" cat-file ") == 1
    assert desk.recover(None, file_path="src/export.py").anchor == TASK
    desk.store(anchor="task:newest")
    log.unlink()
    assert desk.recover(None).anchor == "task:newest"
    assert " cat-file " not in log.read_text()


def test_however_many_are_looked_at_for_one_list_git_is_asked_each_thing_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        desk.store(anchor=f"task:number-{number}")
    log = counted(desk, monkeypatch)
    monkeypatch.chdir(desk.repo)
    assert desk.outlast.handoff.list("contested") == []
    assert [log.read_text().count(word) for word in (" status ", " cat-file ")] == [1, 0]  # it is the bound commit
    desk.write("src/export.py", "changed\n")
    assert len(desk.outlast.handoff.list("contested")) == 5  # and the next list looks again


def test_the_newest_of_a_branch_may_have_been_stored_in_a_clone(desk: Desk) -> None:
    desk.store()
    git(desk.folder, "clone", "-q", str(desk.repo), "clone")
    desk.store(anchor="task:in-clone", repo_root=str(desk.folder / "clone"))
    assert desk.recover(None).anchor == "task:in-clone"


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, "3", None])
def test_a_limit_that_is_no_positive_number_is_refused(desk: Desk, limit: Any) -> None:
    with pytest.raises(HandoffInvalid) as refused:
        desk.outlast.handoff.list(limit=limit)
    assert refused.value.facts["path"] == "limit"
    assert desk.outlast.handoff.list(limit=1 << 80) == []


def test_lists_are_whole_over_many_pages(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handoffs, "PAGE", 2)
    names = [f"task:{number}" for number in range(6)]
    for number, name in enumerate(names):
        desk.store(anchor=name, bind=False, expires="1h" if number % 2 else None)
    desk.recover("task:5", claim=True)
    desk.outlast.handoff.settle("task:4", "completed", override="it is", run_checks=False)
    listed = desk.outlast.handoff.list
    assert [one.anchor for one in listed()] == names[::-1]
    assert [one.anchor for one in listed("open")] == ["task:3", "task:2", "task:1", "task:0"]
    assert [one.anchor for one in listed("open", limit=3)] == ["task:3", "task:2", "task:1"]
    desk.clock.advance(3600)
    assert [one.anchor for one in listed("expired")] == ["task:3", "task:1"]
    assert [one.anchor for one in listed("open")] == ["task:2", "task:0"]


def test_a_record_that_cannot_be_read_is_listed_as_contested_and_hides_no_other(desk: Desk) -> None:
    desk.store()
    beside(desk, "task:damaged")
    desk.outlast.close()
    where = "chain = (SELECT key FROM anchors WHERE anchor = 'task:damaged')"
    tamper(desk, f"UPDATE journal SET payload = CAST('{{}}' AS BLOB) WHERE {where}")
    outlast = desk.sit_down()
    told: list[str] = []
    outlast._executor.home.tell = told.append
    assert desk.recover(None, outlast=outlast).anchor == TASK
    assert any("task:damaged" in line for line in told)
    assert desk.recover(None, file_path="src/export.py", outlast=outlast).anchor == TASK
    one, other = outlast.handoff.list()
    assert (one.anchor, one.standing, one.summary, other.anchor) == ("task:damaged", "contested", "", TASK)
    assert one.handoff_id
    assert one.verdict is not None
    assert [reason.code for reason in one.verdict.reasons] == ["integrity_broken"]
    assert [each.anchor for each in outlast.handoff.list("open")] == [TASK]
    assert "task:damaged" in [each.anchor for each in outlast.handoff.list("contested")]


def test_another_branch_than_the_one_checked_out_can_be_named(desk: Desk) -> None:
    desk.store(anchor="task:here")
    desk.git("switch", "-q", "-c", "side")
    desk.store(anchor="task:side")
    desk.git("switch", "-q", "main")
    assert desk.recover(None).anchor == "task:here"
    assert desk.recover(None, branch="side").anchor == "task:side"
    with pytest.raises(HandoffInvalid, match="anchor and branch name one each"):
        desk.recover("task:here", branch="side")
