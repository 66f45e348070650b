"""Going back in a flow of commands: files of work that was set aside are partial work, and its context is given."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.commands import loops as marks

from ..crash.command_folder import Folder
from ..kit.commands import wait_until

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
    assert folder.outlast._executor.home.blobs.get(first["files"]["log"]) == b"before\na 1\nb 1\nc 1\n"


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


# -- forks -------------------------------------------------------------------------------------------

FORKED = """\
- {id: a, run: 'echo a $OUTLAST_INPUT_WORD >> diary; echo a $OUTLAST_INPUT_WORD >> log', writes: log}
- {id: pay, run: 'echo pay $OUTLAST_EFFECT_KEY >> diary; echo 7 > $OUTLAST_RESULT', effect: true}
- id: b
  run: 'echo b $OUTLAST_INPUT_WORD >> diary; echo b $OUTLAST_INPUT_WORD >> log'
  writes: log
  on_partial: restore
"""


def finished(folder: Folder) -> str:
    folder.flow(FORKED, head="inputs: {word: {default: one}}\n")
    outcome = folder.run()
    assert outcome.status == "succeeded"
    return str(outcome.run_id)


def test_a_finished_run_of_commands_is_forked_with_other_inputs_and_files_as_before(folder: Folder) -> None:
    run = finished(folder)
    fork = folder.outlast.fork(run, "b", inputs={"word": "two"})
    assert folder.outlast.resume(fork.id).status == "succeeded"
    assert [line.split()[0] for line in folder.lines()] == ["a", "pay", "b", "b"]
    assert folder.lines("log") == ["a one", "b two"]
    assert folder.outlast.verify().ok


def test_the_command_of_a_live_run_is_not_ended_by_its_fork(folder: Folder) -> None:
    folder.flow(
        "- {id: a, run: echo a >> diary}\n"
        "- {id: b, run: 'echo begun >> begun; until test -f go; do sleep 0.01; done; echo b >> diary'}"
    )
    folder.end()
    live = folder.start("run", "flow.yaml")
    wait_until(lambda: folder.read("begun") == "begun\n", "the second step")
    fork = folder.outlast.fork(folder.run_id, "a")
    folder.write("go", "")
    assert folder.outlast.resume(fork.id).status == "succeeded"
    assert live.wait().code == 0
    assert sorted(folder.lines()) == ["a", "a", "b", "b"]


def test_a_repeated_effect_of_commands_has_a_key_of_the_forks_own(folder: Folder) -> None:
    fork = folder.outlast.fork(finished(folder), "a", yes=True)
    assert folder.outlast.resume(fork.id).status == "succeeded"
    keys = [line.split()[1] for line in folder.lines() if line.startswith("pay")]
    assert (len(set(keys)), keys[1].startswith(fork.id)) == (2, True)


def test_a_fork_takes_over_a_long_loop_that_resumes_from_a_mark(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marks, "EVERY", 4)
    folder.flow(
        "- id: fix\n  repeat:\n    max: 30\n    until: test $OUTLAST_ITERATION = 20\n    steps:\n"
        "      - {id: a, run: echo $OUTLAST_ITERATION >> diary}\n- {id: last, run: echo last >> diary; test -f good}"
    )
    assert folder.run().status == "failed"
    fork = folder.outlast.fork(folder.run_id, "fix[19]/a")
    folder.write("good", "")
    assert folder.outlast.resume(fork.id).status == "succeeded"
    assert folder.lines() == [*map(str, range(1, 21)), "last", "19", "20", "last"]
    assert folder.outlast.verify().ok
