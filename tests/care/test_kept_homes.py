"""A home of each version of the schema is kept: it opens, is brought to this version, verifies, and goes on."""

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from outlast import Outlast
from outlast.store.nouns.rows import newest_version

from ..ready import completed

HOMES = sorted((Path(__file__).parent / "homes").glob("v*.tar.gz"))
ENDINGS = {
    "done": "succeeded",
    "small": "succeeded",
    "failing": "failed",
    "doubtful": "crashed",
    "retried": "crashed",
    "asked": "waiting",
    "answered": "waiting",
    "used": "succeeded",
    "cancelled": "aborted",
    "loop": "waiting",
}


@pytest.fixture(params=HOMES, ids=lambda home: home.name.split(".")[0])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of a kept home, and of the flows beside it."""
    with tarfile.open(fileobj=io.BytesIO(request.param.read_bytes())) as tar:
        tar.extractall(tmp_path, filter="data")
    return tmp_path


def opened(folder: Path) -> Outlast:
    return Outlast(folder / ".outlast")


def run_of(outlast: Outlast, task: str) -> str:
    return next(run.id for run in outlast.runs() if run.task == task)


def command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    settings = {name: value for name, value in os.environ.items() if not name.startswith("OUTLAST_")}
    return completed(("-m", "outlast", *words), cwd=folder, env=settings, capture_output=True, text=True)


def test_there_is_a_home_of_every_version() -> None:
    kept = {home.name.split(".")[0] for home in HOMES}
    assert kept == {f"v{number}" for number in range(1, newest_version("sqlite") + 1)}


def test_it_opens_as_this_version_and_all_of_it_is_proven(folder: Path) -> None:
    with opened(folder) as outlast:
        found = outlast.verify()
        assert (found.ok, [problem.record for problem in found.problems]) == (True, [])
        assert outlast.facts()["schema"] == newest_version("sqlite")
        assert found.runs >= len(ENDINGS)


def test_every_run_is_what_it_was(folder: Path) -> None:
    with opened(folder) as outlast:
        found = {run.task: run.status for run in outlast.runs() if run.task in ENDINGS}
        assert found == ENDINGS
        assert "removed" not in {run.task for run in outlast.runs()}


def test_everything_else_is_read(folder: Path) -> None:
    with opened(folder) as outlast:
        assert [message.content for message in outlast.sessions.messages("talk")][-1] == "said by assistant"
        assert outlast.workspace.get("notes").read() == b"third"
        assert outlast.workspace.recall("which decision do we use").entries
        assert outlast.handoff.get(anchor="task:one").summary == "more done"
        assert [event.kind for event in outlast.handoff.history("task:two")][:2] == ["stored", "claimed"]
        assert outlast.tasks.get("chore").state == "paused"


def test_a_run_that_waited_goes_on_with_its_answer(folder: Path) -> None:
    with opened(folder) as outlast:
        run = run_of(outlast, "answered")
    done = command(folder, "resume", run)
    assert done.returncode == 3, done.stderr  # it waits for news now
    with opened(folder) as outlast:
        outlast.signal("news", {"n": 1}, run_id=run)
    done = command(folder, "resume", run)
    assert done.returncode == 0, done.stderr
    with opened(folder) as outlast:
        assert outlast.get(run).result == "told"
        assert outlast.verify().ok


def test_an_effect_in_doubt_is_not_done_again(folder: Path) -> None:
    with opened(folder) as outlast:
        run = run_of(outlast, "doubtful")
    done = command(folder, "resume", run)
    assert done.returncode != 0
    assert "doubt" in done.stdout + done.stderr
    with opened(folder) as outlast:
        assert outlast.get(run).status != "succeeded"
        assert outlast.verify().ok


def test_one_that_a_person_let_run_again_is(folder: Path) -> None:
    with opened(folder) as outlast:
        run = run_of(outlast, "retried")
    done = command(folder, "resume", run)
    assert done.returncode == 0, done.stderr
