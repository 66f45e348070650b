"""A run that goes on with a damaged record that somebody accepted: all that is told of it is told as of any other."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ..crash.command_folder import Folder
from ..kit import ledgers

STEPS = """\
- {id: make, run: "echo made > made.txt; echo 1 > $OUTLAST_RESULT", writes: made.txt}
- {id: count, run: "echo counted >> diary; echo 2 > $OUTLAST_RESULT"}
- {id: use, run: "cat made.txt; test -f go", reads: made.txt}
"""
CUT = "UPDATE journal SET payload = substr(payload, 1, length(payload) - 2) WHERE "
OF_COUNT = 'CAST(header AS TEXT) LIKE \'["step","count"%\' AND CAST(header AS TEXT) LIKE \'%"succeeded"%\''


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    found = Folder(tmp_path / "work")
    yield found
    found.end()


@pytest.fixture
def run(folder: Folder) -> str:
    """A run that failed, of which one receipt was cut short; accepted since."""
    folder.flow(STEPS)
    run = str(folder.cli("run", "flow.yaml", "--json").json["run_id"])
    folder.close()
    ledgers.change(folder.path / ".outlast", CUT + OF_COUNT, rows=1)
    return run


def accept(folder: Folder, run: str) -> str:
    said = folder.cli("resume", run, "--accept", "integrity_broken", "--why", "seen")
    assert said.code == 1
    assert folder.lines() == ["counted", "counted"]
    return said.err


def test_what_is_done_again_is_told_and_mirrored(folder: Folder, run: str) -> None:
    said = accept(folder, run)
    assert "count succeeded" in said
    assert "cannot be written" not in said
    assert folder.mirror("receipts", "count-main")["attempt"] == 2
    assert "payload was changed" in folder.mirror("receipts", "count-main.1")["broken"]


def test_what_was_accepted_is_not_to_be_accepted_again(folder: Folder, run: str) -> None:
    assert "--accept" in folder.cli("resume", run, "--dry-run").out
    accept(folder, run)
    said = folder.cli("resume", run, "--dry-run").out
    assert "--accept" not in said
    assert f"continue: outlast resume {run}" in said


def test_files_of_its_finished_steps_are_looked_at(folder: Folder, run: str) -> None:
    accept(folder, run)
    (folder.path / "made.txt").unlink()
    assert folder.cli("resume", run).code == 4
    assert folder.cli("outputs", run, "--restore").code == 0
    folder.write("go", "")
    assert folder.cli("resume", run).code == 0
