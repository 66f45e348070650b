"""Export and import by the command line: what is said, what is shown, and the exit codes."""

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.doors.conftest import Cli


@pytest.fixture
def there(cli: "Cli") -> Path:
    """Another project, with a home of its own and the same flows."""
    folder = cli.folder / "there"
    (folder / ".outlast").mkdir(parents=True)
    (folder / "flows.py").write_text((cli.folder / "flows.py").read_text())
    return folder


def test_a_moved_run_is_continued_in_another_project(cli: "Cli", there: Path, in_doubt: "Callable[[], str]") -> None:
    run = in_doubt()
    moved = cli("export", run, "--move", str(there))
    file = there / f"report-{run}.outlast.zip"
    assert (moved.code, file.is_file()) == (0, True)
    assert "cannot go on here any more" in moved.out
    assert hashlib.sha256(file.read_bytes()).hexdigest() in moved.out
    came = cli("import", file.name, cwd=there)
    assert (came.code, f"continue: outlast resume {run}" in came.out) == (0, True)
    assert cli("show", run, "--json").json["seal"] == "moved"
    assert cli("skip", run, "publish", "--result", '"done"', "--why", "it is there", cwd=there).code == 0
    assert cli("resume", run, "--json", cwd=there).json["result"] == {"link": "done"}
    assert cli.diary == ["find", "draft", "publish"]
    assert not (there / "diary.txt").exists()


def test_a_moved_run_is_shown_as_moved_and_refused(cli: "Cli", in_doubt: "Callable[[], str]") -> None:
    run = in_doubt()
    assert cli("export", run[:6], "--move", "--json").json["moved"] is True
    assert " moved " in cli("runs").out
    shown = cli("show", run)
    assert "status   moved" in shown.out
    assert "import its file back" in shown.out
    assert "outlast resume" not in shown.out
    assert cli("show", run, "--json").json["seal"] == "moved"
    for words in (["resume", run], ["retry", run, "publish"], ["run", "flows.py:report", "topic=ai"]):
        answer = cli(*words, "--json")
        assert (answer.code, answer.json["error"]["code"]) == (4, "run_sealed")
    assert cli("resume").code == 2
    assert cli("resume", run, "--dry-run").code == 0
    assert cli("run", "flows.py:report", "topic=ai", "--fresh", "--yes").code == 0


def test_a_copy_is_shown_as_read_only(cli: "Cli", there: Path, in_doubt: "Callable[[], str]") -> None:
    run = in_doubt()
    done = cli("export", run, "copy.zip", "--json").json
    assert (done["path"], done["moved"]) == (str(cli.folder / "copy.zip"), False)
    came = cli("import", str(cli.folder / "copy.zip"), "--json", cwd=there).json
    assert (came["run_id"], came["status"], came["seal"]) == (run, "crashed", "copy")
    assert "crashed, copy (read-only)" in cli("runs", cwd=there).out
    assert "read-only copy" in cli("show", run, cwd=there).out
    assert cli("import", str(cli.folder / "copy.zip"), cwd=there).out.startswith(
        f"run {run} (crashed) was here already"
    )


def test_a_file_that_is_there_is_kept_without_force(cli: "Cli", in_doubt: "Callable[[], str]") -> None:
    run = in_doubt()
    (cli.folder / "mine.txt").write_text("mine")
    answer = cli("export", run, "mine.txt", "--json")
    assert (answer.code, answer.json["error"]["code"]) == (4, "conflict")
    assert cli("export", run, "mine.txt", "--force").code == 0


def test_a_damaged_file_is_refused_with_its_member(cli: "Cli", there: Path, in_doubt: "Callable[[], str]") -> None:
    run = in_doubt()
    file = cli.folder / "run.zip"
    cli("export", run, str(file))
    content = file.read_bytes()
    file.write_bytes(content.replace(b"succeeded", b"suceeeded", 1))
    answer = cli("import", str(file), "--json", cwd=there)
    assert (answer.code, answer.json["error"]["code"]) == (2, "archive_invalid")
    assert f"runs/{run}/journal.jsonl" in answer.json["error"]["detail"]
    assert cli("runs", "--json", cwd=there).json["runs"] == []


def test_a_folder_comes_in_as_testimony_and_says_so_everywhere(cli: "Cli") -> None:
    receipts = cli.folder / "theirs" / "build" / "receipts"
    receipts.mkdir(parents=True)
    (receipts / "plan-planner.json").write_text(json.dumps({"status": "succeeded"}))
    (receipts / "notes.txt").write_text("hello")
    came = cli("import", "theirs")
    assert (came.code, "nothing of it is proven" in came.out) == (0, True)
    assert "not taken: receipts/notes.txt" in came.err
    run = cli.run_id
    assert "testimony (unproven)" in cli("runs").out
    for words in (("show", run), ("receipts", run), ("receipts", run, "plan")):
        assert "testimony (unproven): succeeded" in cli(*words).out
    assert cli("receipts", run, "--json").json["receipts"][0]["mark"] == "testimony"
    again = cli("import", "theirs", "--json").json
    assert (again["replayed"], again["ignored"]) == (True, [["receipts/notes.txt", again["ignored"][0][1]]])


def test_what_is_not_there_is_told(cli: "Cli") -> None:
    assert cli("export", "x", "--json").json["error"]["code"] == "home_not_found"
    assert cli("import", "nowhere.zip", "--json").json["error"]["code"] == "archive_invalid"
    assert cli("import", "flows.py", "--flow", "x").code == 2
