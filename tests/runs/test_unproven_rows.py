"""One value of a row beside the chain that was changed: nobody goes on with it, and it stays named."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from outlast import Outcome, Outlast
from outlast.errors import IntegrityBroken

from ..kit import ledgers

FLOW = """
from pathlib import Path

from outlast import Run, effect, flow


@effect
def pay(folder: str) -> None:
    Path(folder, "paid").touch()


@flow(name="shop")
def shop(run: Run, folder: str) -> None:
    run.pause_for("approval", {"question": "pay?"})
    pay(folder)
    run.wait_for("news")
"""
WAITS = 3
YES = """'{"approved":true}'"""
CHANGES = {
    "an answer that nobody gave": f"UPDATE interrupts SET status = 'answered', answer = {YES}, answered_by = 'boss'",
    "a deadline": "UPDATE interrupts SET due_at = 1",
    "where the code is": "UPDATE runs SET source = replace(source, 'shop.py', 'other.py')",
    "a request": "INSERT INTO inbox (run, kind, body, actor, sent_at) VALUES (1, 'rewind', '{}', 'x', 1)",
}


@pytest.fixture
def waiting(tmp_path: Path) -> str:
    """A run that waits for an approval; beside its file is another of the same name."""
    for name in ("shop.py", "other.py"):
        (tmp_path / name).write_text(FLOW)
    (tmp_path / "other.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n{FLOW}")
    begun = [sys.executable, "-m", "outlast", "run", "shop.py:shop", f"folder={tmp_path}", "--home", ".outlast"]
    assert subprocess.run(begun, cwd=tmp_path, capture_output=True, timeout=60).returncode == WAITS
    with Outlast(tmp_path / ".outlast") as outlast:
        return next(iter(outlast.runs())).id


def asked(folder: Path, what: Callable[[Outlast], Outcome[None]]) -> Outcome[None]:
    with Outlast(folder / ".outlast") as outlast:
        return what(outlast)


def change(folder: Path, statement: str) -> None:
    ledgers.change(folder / ".outlast", statement, rows=1)


@pytest.mark.parametrize("what", CHANGES)
def test_a_changed_value_is_not_gone_on_with_however_often_it_is_tried(tmp_path: Path, waiting: str, what: str) -> None:
    change(tmp_path, CHANGES[what])
    for _ in range(2):
        with pytest.raises(IntegrityBroken):
            asked(tmp_path, lambda one: one.resume(waiting))
    with Outlast(tmp_path / ".outlast") as outlast:
        assert outlast.verify().problems
    assert not [name for name in ("paid", "ran") if (tmp_path / name).exists()]


def test_a_changed_question_is_not_answered(tmp_path: Path, waiting: str) -> None:
    change(tmp_path, """UPDATE interrupts SET payload = '{"question":"pay little?"}'""")
    with Outlast(tmp_path / ".outlast") as outlast, pytest.raises(IntegrityBroken):
        outlast.answer(outlast.interrupts(waiting)[0].id, {"approved": True})


@pytest.mark.parametrize(
    "statement", ["UPDATE signals SET body = '{\"n\":2}'", "DELETE FROM proofs WHERE noun = 'signals'"]
)
def test_a_changed_signal_tells_a_run_nothing(tmp_path: Path, waiting: str, statement: str) -> None:
    with Outlast(tmp_path / ".outlast") as outlast:
        outlast.signal("news", {"n": 1}, run_id=waiting)
        outlast.answer(outlast.interrupts(waiting)[0].id, {"approved": True})
    change(tmp_path, statement)
    assert asked(tmp_path, lambda one: one.resume(waiting)).status == "waiting"
    with Outlast(tmp_path / ".outlast") as outlast:
        assert [problem.record[:6] for problem in outlast.verify().problems] == ["signal"]
