"""Rows that somebody changed behind our back: `verify` names the record, and no call falls over it."""

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from outlast import Outlast
from outlast.errors import IntegrityBroken, OutlastError

from ..kit.desk import TASK, Desk
from ..kit.ledgers import change as tamper

OTHER = "task:other"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """Two anchors; one of them with two revisions, evidence, and a claim under which it was given back."""
    found = Desk(tmp_path_factory.mktemp("made"))
    found.store(anchor=OTHER, target_files=["src/other.py"])
    found.store(baseline=True)
    found.recover(claim=True, run_checks=True)
    found.settle("released")
    found.store(summary="Further on", symbol="export")
    found.recover(claim=True)
    found.close()
    found.home.rename(found.folder / "untouched")
    return found


@pytest.fixture
def desk(made: Desk) -> Iterator[Desk]:
    """The desk that was made, with a home that nobody has touched since."""
    shutil.copytree(made.folder / "untouched", made.home)
    yield made
    made.close()
    shutil.rmtree(made.home)
    (made.folder / "out.hold").unlink(missing_ok=True)


def anchor(sets: str) -> str:
    return f"UPDATE anchors SET {sets} WHERE anchor = '{TASK}'"


def lease(sets: str) -> str:
    return f"UPDATE chains SET {sets} WHERE subject = (SELECT 'handoff:' || id FROM anchors WHERE anchor = '{TASK}')"


KEY = f"(SELECT key FROM anchors WHERE anchor = '{TASK}')"
EDITS = {
    "the lease is gone": f"DELETE FROM chains WHERE subject = (SELECT 'handoff:' || id FROM anchors WHERE key = {KEY})",
    "the lease is another's": lease("subject = 'handoff:nobody'"),
    "the lease is a run's": lease("subject = 'run:nobody'"),
    "the end was moved back": lease("head = head - 1"),
    "the end was moved on": lease("head = head + 1"),
    "nothing was ever written": lease("head = 0"),
    "the end has another hash": lease("hash = zeroblob(32)"),
    "the anchor is gone": f"DELETE FROM anchors WHERE anchor = '{TASK}'",
    "the anchor has another id": anchor("id = 'another'"),
    "the anchor has another name": anchor("anchor = 'task:renamed'"),
    "the anchor is of another scope": anchor("scope = 'elsewhere'"),
    "it was finished": anchor("status = 'finished'"),
    "it was completed": anchor("status = 'finished', outcome = 'completed'"),
    "its outcome is another": anchor("outcome = 'failed'"),
    "an old revision is the newest": anchor("revision = 1"),
    "a revision to come is the newest": anchor("revision = 9"),
    "no revision is the newest": anchor("revision = 0"),
    "its place in the order is another": anchor("newest = 0"),
    "its branch is another": anchor("branch = 'side'"),
    "its root is another": anchor("root = '/elsewhere'"),
    "its symbol is another": anchor("symbol = 'import_'"),
    "its score is another": anchor("score = 1"),
    "it was stored another day": anchor("stored_at = 1"),
    "it expires another day": anchor("expires_at = 1"),
    "a revision is gone": f"DELETE FROM handoffs WHERE anchor = {KEY} AND revision = 1",
    "the newest revision is gone": f"DELETE FROM handoffs WHERE anchor = {KEY} AND revision = 2",
    "all revisions are gone": f"DELETE FROM handoffs WHERE anchor = {KEY}",
    "a revision has another id": f"UPDATE handoffs SET id = 'another' WHERE anchor = {KEY} AND revision = 2",
    "a revision has another number": f"UPDATE handoffs SET revision = 7 WHERE anchor = {KEY} AND revision = 2",
    "a revision is another entry": f"UPDATE handoffs SET seq = 1 WHERE anchor = {KEY} AND revision = 2",
    "a revision is no entry": f"UPDATE handoffs SET seq = 99 WHERE anchor = {KEY} AND revision = 2",
    "a revision is an entry before the first": f"UPDATE handoffs SET seq = -3 WHERE anchor = {KEY} AND revision = 2",
    "a revision is an entry that is none": f"UPDATE handoffs SET seq = 2 WHERE anchor = {KEY} AND revision = 2",
    "a revision replaces another": f"UPDATE handoffs SET supersedes = 'x' WHERE anchor = {KEY} AND revision = 2",
    "a revision is of another anchor": f"UPDATE handoffs SET anchor = 1 WHERE anchor = {KEY} AND revision = 2",
    "a revision is of no anchor": f"UPDATE handoffs SET anchor = 99 WHERE anchor = {KEY} AND revision = 2",
    "its files are gone": f"DELETE FROM handoff_files WHERE anchor = {KEY}",
    "its file is another": f"UPDATE handoff_files SET path = 'src/x.py' WHERE anchor = {KEY}",
    "a file was added": f"INSERT INTO handoff_files (path, anchor) VALUES ('src/x.py', {KEY})",
    "its files are another's": f"UPDATE handoff_files SET anchor = 1 WHERE anchor = {KEY}",
    "its journal is gone": f"DELETE FROM journal WHERE chain = {KEY}",
    "an entry is no header": f"UPDATE journal SET header = CAST('[1]' AS BLOB) WHERE chain = {KEY} AND seq = 7",
    "an entry has no content": f"UPDATE journal SET payload = NULL WHERE chain = {KEY} AND seq = 7",
    "an old entry is no header": f"UPDATE journal SET header = CAST('[1]' AS BLOB) WHERE chain = {KEY} AND seq = 3",
    "an old entry has no content": f"UPDATE journal SET payload = NULL WHERE chain = {KEY} AND seq = 3",
    "an entry's content is no JSON": f"UPDATE journal SET payload = CAST('{{' AS BLOB) WHERE chain = {KEY} AND seq = 1",
    "an entry's content is deep": f"UPDATE journal SET payload = CAST('{'[' * 5000}' AS BLOB) WHERE chain = {KEY}",
    "what a claim said is gone": f"DELETE FROM blob_refs WHERE chain = {KEY}",
}


def calls(desk: Desk, outlast: Outlast) -> dict[str, Callable[[], Any]]:
    """Everything that can be asked for. Those that write come last."""
    return {
        "get": lambda: outlast.handoff.get(anchor=TASK),
        "get a revision": lambda: outlast.handoff.get(anchor=TASK, revision=1),
        "history": lambda: outlast.handoff.history(TASK),
        "list": lambda: outlast.handoff.list(),
        "list with a look": lambda: outlast.handoff.list(look=True),
        "list claimed": lambda: outlast.handoff.list("claimed"),
        "list finished": lambda: outlast.handoff.list("finished"),
        "diff": lambda: outlast.handoff.diff(TASK, repo_root=str(desk.repo)),
        "recover": lambda: desk.recover(outlast=outlast),
        "recover by file": lambda: desk.recover(None, outlast=outlast, file_path="src/export.py"),
        "recover by branch": lambda: desk.recover(None, outlast=outlast),
        "recover finished": lambda: desk.recover(outlast=outlast, include_finished=True),
        "recover another": lambda: desk.recover(OTHER, outlast=outlast),
        "recover and claim": lambda: desk.recover(outlast=outlast, claim=True, run_checks=True),
        "claim": lambda: outlast.handoff.claim(TASK, repo_root=str(desk.repo), take=True, why="to see"),
        "renew": lambda: outlast.handoff.renew(TASK),
        "export": lambda: outlast.handoff.export(TASK, desk.folder / "out.hold"),
        "settle": lambda: desk.settle("failed", outlast),
        "store": lambda: desk.store(outlast, summary="And further"),
    }


def outcome_of(call: Callable[[], Any]) -> str:
    """`given`, or what the error says. Anything else that is raised falls through."""
    try:
        call()
    except OutlastError as error:
        return str(error)
    return "given"


@pytest.mark.parametrize("edit", EDITS)
def test_verify_names_what_was_changed_and_nothing_falls_over_it(desk: Desk, edit: str) -> None:
    tamper(desk.home, EDITS[edit])
    outlast = desk.sit_down()
    found = outlast.verify()
    assert not found.ok, "nobody noticed"
    text = "; ".join(f"{problem.record}: {problem.why}" for problem in found.problems)
    assert any(word in text for word in (TASK, "task:renamed", "anchor number", "handoff lease", "run nobody")), text
    said = {name: outcome_of(call) for name, call in calls(desk, outlast).items()}
    assert all(said.values()), said


BROKEN = {
    "the lease is gone",
    "the lease is another's",
    "the lease is a run's",
    "the end was moved back",
    "the end was moved on",
    "nothing was ever written",
    "the end has another hash",
    "the anchor has another id",
    "a revision has another id",
    "a revision is another entry",
    "a revision is no entry",
    "a revision is an entry before the first",
    "a revision is an entry that is none",
    "its journal is gone",
    "an entry is no header",
    "an entry has no content",
    "an entry's content is deep",
    "the newest revision is gone",
    "all revisions are gone",
    "the anchor is gone",
}


def believed(desk: Desk, outlast: Outlast) -> str:
    """The claim that was given, or why there is none: the code of the only reason, or of the error."""
    try:
        got = desk.recover(outlast=outlast, claim=True)
    except OutlastError as error:
        return error.code
    codes = ", ".join(reason.code for reason in got.reasons)
    return codes if got.claim is None else f"claimed, {codes}"


@pytest.mark.parametrize("edit", sorted(BROKEN))
def test_what_was_stored_is_not_believed_when_its_record_is_broken(desk: Desk, edit: str) -> None:
    tamper(desk.home, EDITS[edit])
    outlast = desk.sit_down()
    assert believed(desk, outlast) in ("integrity_broken", "handoff_not_found")


@pytest.mark.parametrize("edit", ["the end has another hash", "a revision has another id", "an entry has no content"])
def test_nothing_is_stored_or_settled_after_a_broken_record(desk: Desk, edit: str) -> None:
    tamper(desk.home, EDITS[edit])
    outlast = desk.sit_down()
    before = outlast.verify()
    with pytest.raises(IntegrityBroken):
        desk.store(outlast, summary="And further")
    with pytest.raises(IntegrityBroken):
        desk.settle("failed", outlast)
    desk.recover(outlast=outlast, claim=True, run_checks=True)
    assert outlast.verify() == before
    assert desk.store(outlast, anchor="task:anew").revision == 1


def test_rows_that_only_help_to_find_things_change_nothing_that_was_stored(desk: Desk) -> None:
    tamper(desk.home, anchor("branch = 'side', root = '/elsewhere', score = 1, expires_at = 1"))
    outlast = desk.sit_down()
    got = desk.recover(outlast=outlast)
    assert (got.handoff.lint.score, got.summary) == (outlast.handoff.get(anchor=TASK).lint.score, "Further on")
    assert "stale" not in [reason.code for reason in got.reasons]
