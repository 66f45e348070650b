"""Going back in a flow of commands: files of work that was set aside are partial work, and its context is given."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..crash.command_folder import Folder

# Three steps that append to one file, and the second to one of its own; the last one fails until somebody says good.
THREE = """\
- {{id: a, run: echo a $OUTLAST_ATTEMPT >> log, writes: log{more}}}
- id: b
  run: |
    cp "$OUTLAST_PREVIOUS" previous 2> /dev/null || :
    echo b $OUTLAST_ATTEMPT >> log; echo b $OUTLAST_ATTEMPT >> own; echo said
  writes: [log, own]
{also}
- {{id: c, run: 'echo c $OUTLAST_ATTEMPT >> log; test -f good', writes: log{more}}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    folder = Folder(tmp_path / "work")
    yield folder
    folder.end()


def stopped(folder: Folder, on_partial: str) -> Folder:
    """The flow, run until its last step failed."""
    folder.write("log", "before\n")
    said = f", on_partial: {on_partial}"
    folder.flow(THREE.format(more=said, also=f"  on_partial: {on_partial}"))
    assert folder.run().status == "failed"
    assert folder.lines("log") == ["before", "a 1", "b 1", "c 1"]
    folder.write("good", "")
    return folder


def test_going_back_puts_files_back_as_they_were_before_the_work_that_was_set_aside(folder: Folder) -> None:
    stopped(folder, "restore").outlast.rewind(folder.run_id, "b")
    assert folder.run().status == "succeeded"
    assert folder.lines("log") == ["before", "a 1", "b 2", "c 2"]
    assert folder.lines("own") == ["b 2"]
    assert folder.outlast.verify().ok


def test_going_back_to_the_first_of_them_puts_back_what_all_of_them_made(folder: Folder) -> None:
    stopped(folder, "restore").outlast.rewind(folder.run_id, "a")
    assert folder.run().status == "succeeded"
    assert folder.lines("log") == ["before", "a 2", "b 2", "c 2"]
    assert folder.lines("own") == ["b 2"]


def test_going_back_a_second_time_puts_back_what_the_second_time_made(folder: Folder) -> None:
    stopped(folder, "restore")
    (folder.path / "good").unlink()
    folder.outlast.rewind(folder.run_id, "a")
    assert folder.run().status == "failed"
    folder.write("good", "")
    folder.outlast.rewind(folder.run_id, "b")
    assert folder.run().status == "succeeded"
    assert folder.lines("log") == ["before", "a 2", "b 3", "c 3"]
    assert folder.lines("own") == ["b 3"]


def test_what_was_put_back_on_the_way_is_kept_and_on_the_record(folder: Folder) -> None:
    stopped(folder, "restore").outlast.rewind(folder.run_id, "b")
    folder.run()
    first = folder.events("run.displaced")[0].body
    assert (first["step"], sorted(first["files"])) == ("b", ["log", "own"])
    assert folder.outlast._runtime.blobs.get(first["files"]["log"]) == b"before\na 1\nb 1\nc 1\n"


def test_kept_files_are_found_by_the_step_that_is_done_again_with_what_its_last_attempt_left(folder: Folder) -> None:
    stopped(folder, "keep").outlast.rewind(folder.run_id, "b")
    folder.run()
    previous = json.loads(folder.read("previous"))
    assert (previous["attempt"], previous["status"], previous["tail"]) == (1, "succeeded", "said\n")
    assert [(each["path"], each["change"]) for each in previous["files"]] == [("log", "changed"), ("own", "created")]
    assert folder.lines("log") == ["before", "a 1", "b 1", "c 1", "b 2", "c 2"]


def test_what_a_step_made_since_the_run_went_back_is_no_leftover_of_a_later_one(folder: Folder) -> None:
    stopped(folder, "restore").outlast.rewind(folder.run_id, "a")
    folder.run()
    previous = json.loads(folder.read("previous"))
    assert [(each["path"], each["change"]) for each in previous["files"]] == [("own", "created")]


def test_who_said_ask_is_asked_when_the_run_goes_back(folder: Folder) -> None:
    stopped(folder, "ask").outlast.rewind(folder.run_id, "c")
    outcome = folder.run()
    assert [(wait.type, wait.step) for wait in outcome.interrupts] == [("partial", "c")]
    folder.outlast.answer(outcome.interrupts[0].id, {"choice": "restore"})
    assert folder.run().status == "succeeded"
    assert folder.lines("log") == ["before", "a 1", "b 1", "c 2"]


def test_a_file_that_somebody_edited_since_is_not_put_back_and_somebody_is_asked(folder: Folder) -> None:
    stopped(folder, "restore")
    folder.write("log", "mended by hand\n")
    folder.outlast.rewind(folder.run_id, "b")
    outcome = folder.run()
    assert [(wait.type, wait.step) for wait in outcome.interrupts] == [("partial", "b")]
    assert folder.read("log") == "mended by hand\n"


def test_the_command_line_says_what_becomes_of_the_files_when_it_goes_back(folder: Folder) -> None:
    stopped(folder, "keep")
    folder.end()
    assert folder.cli("resume", "--from", "b", "--partial", "restore").code == 0
    assert folder.lines("log") == ["before", "a 1", "b 2", "c 2"]


def test_a_step_that_leads_back_has_the_files_put_back_too(folder: Folder) -> None:
    folder.flow(
        "- {id: a, run: echo a $OUTLAST_ATTEMPT >> log, writes: log, on_partial: restore}\n"
        "- {id: b, run: echo b $OUTLAST_ATTEMPT >> log, writes: log, on_partial: restore}\n"
        "- {id: c, run: 'echo c $OUTLAST_ATTEMPT >> log; test -f good', writes: log, on_partial: restore, resume_to: b}"
    )
    for _ in range(2):
        assert folder.run().status == "failed"
    folder.write("good", "")
    assert folder.run().status == "succeeded"
    assert folder.lines("log") == ["a 1", "b 3", "c 3"]


def test_a_step_leads_back_as_often_in_each_round_of_a_loop(folder: Folder) -> None:
    folder.flow(
        "- id: fix\n  repeat:\n    max: 4\n    until: test $OUTLAST_ITERATION = 4\n    steps:\n"
        "      - {id: a, run: echo a$OUTLAST_ITERATION >> diary}\n"
        "      - {id: b, run: 'echo b$OUTLAST_ITERATION >> diary; test -f good$OUTLAST_ITERATION', resume_to: a}"
    )
    for number in (1, 2, 3, 4):
        assert folder.run().status == "failed"
        folder.write(f"good{number}", "")
    assert folder.run().status == "succeeded"
    assert folder.lines() == [f"{step}{number}" for number in (1, 2, 3, 4) for step in "abab"]


def test_a_step_leads_back_to_the_step_as_it_was_done_last(folder: Folder) -> None:
    a, b = "- {id: a, run: echo a >> diary, reads: input}\n", "- {id: b, run: echo b >> diary}\n"
    c = "- {id: c, run: 'echo c >> diary; test -f good'MORE}"
    folder.write("input", "one")
    folder.flow(a + b + c.replace("MORE", "")).run()
    folder.write("input", "two")
    folder.flow(b + a + c.replace("MORE", "")).run()
    assert folder.lines() == [*"abc", *"ac"]
    folder.flow(b + a + c.replace("MORE", ", resume_to: a")).run()
    assert folder.lines() == [*"abc", *"ac", *"ac"]
