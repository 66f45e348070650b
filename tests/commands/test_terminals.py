"""`pty: true`: the command runs on a terminal of its own, whose output is the transcript."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..crash.command_folder import Folder
from ..kit.commands import lives, number_in, wait_until


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Folder]:
    def unknown(_: int) -> os.terminal_size:
        raise OSError

    monkeypatch.setattr(os, "get_terminal_size", unknown)  # as if we had none, wherever the tests run
    monkeypatch.setenv("COLUMNS", "97")
    monkeypatch.setenv("LINES", "31")
    found = Folder(tmp_path / "work")
    yield found
    found.end()


def printed(folder: Folder, run: str, *keys: str, head: str = "") -> str:
    """What a step on a terminal prints."""
    folder.flow("\n".join(["- id: step", "  pty: true", *(f"  {key}" for key in keys), "  run: |", f"    {run}"]), head)
    folder.run()
    return str(folder.receipts("step")[-1].facts["transcript"]["text"])


def test_a_command_has_a_terminal_on_all_three_sides_and_owns_it(folder: Folder) -> None:
    said = printed(folder, "test -t 0 && test -t 1 && test -t 2 && echo three; echo owned > /dev/tty; echo $TERM")
    assert said.splitlines()[:2] == ["three", "owned"]
    assert said.splitlines()[2]
    assert folder.statuses("step") == ["succeeded"]


def test_without_it_there_is_none(folder: Folder) -> None:
    folder.flow("- {id: step, run: 'test ! -t 0 && test ! -t 1 && test ! -t 2'}")
    assert folder.run().status == "succeeded"


def test_lines_end_as_they_were_written_and_secrets_are_masked(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SESAME", "open-s3same")
    run = "printf 'one\\ntwo\\r\\n'; printf open-s3; sleep 0.2; echo same; echo err >&2; echo ghp_$(printf %036d 7)a1"
    said = printed(folder, run, head="secrets: [SESAME]\n")
    assert said == "one\ntwo\r\n***\nerr\n***\n"


@pytest.mark.parametrize(("run", "exit_code"), [("exit 3", 3), ("kill -9 $$", 137), ("kill -HUP $$", 129), ("true", 0)])
def test_exit_codes_are_the_shells(folder: Folder, run: str, exit_code: int) -> None:
    printed(folder, run)
    assert folder.receipts("step")[-1].facts["exit"] == exit_code


def test_it_is_as_large_as_ours_and_follows_it(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    run = "trap 'stty size; exit' WINCH; stty size; echo > begun; while :; do sleep 0.02; done"
    folder.flow(f'- id: step\n  pty: true\n  run: "{run}"')
    grown = folder.path / "begun"

    def ours(_: int) -> os.terminal_size:
        if not grown.exists():
            raise OSError
        return os.terminal_size((120, 40))

    monkeypatch.setattr(os, "get_terminal_size", ours)
    assert folder.run().status == "succeeded"
    assert folder.receipts("step")[-1].facts["transcript"]["text"] == "31 97\n40 120\n"


def test_nobody_types_so_what_it_reads_is_at_an_end(folder: Folder) -> None:
    assert printed(folder, "cat; read -r line || echo nothing; echo done", "timeout: 20") == "nothing\ndone\n"


def test_what_it_leaves_is_hung_up_on_as_by_a_terminal_that_is_closed(folder: Folder) -> None:
    left = """sh -c 'trap "echo hung up > hup; exit" HUP; echo $$ > pid; while :; do sleep 0.02; done'"""
    printed(folder, f"{left} & while [ ! -s pid ]; do sleep 0.01; done; echo left")
    wait_until(lambda: folder.read("hup") == "hung up\n", "the hangup")
    assert not lives(number_in(folder.path / "pid"))


def test_ctrl_c_twice_ends_it_and_all_it_started(folder: Folder) -> None:
    run = "sleep 300 & echo $! > pid; echo begun; sleep 300"
    folder.flow(f"- id: step\n  pty: true\n  run: {run}")
    child = folder.start("run", "flow.yaml")
    pid = number_in(folder.path / "pid")
    child.signal(signal.SIGINT)
    wait_until(lambda: "again to stop now" in child.err, "the first")
    child.signal(signal.SIGINT)
    assert child.wait().code == 130
    assert not lives(pid)
    assert folder.statuses("step") == ["interrupted"]


def test_a_shell_that_ignores_term_is_ended_by_the_hangup(folder: Folder) -> None:
    printed(folder, "trap '' TERM; echo deaf; sleep 300", "timeout: 0.3")
    receipt = folder.receipts("step")[-1]
    assert receipt.status == "timed_out"
    assert receipt.facts["transcript"]["text"].startswith("deaf\n")
    assert receipt.facts["exit"] == 129


def test_when_the_runtime_dies_the_command_does_too(folder: Folder) -> None:
    folder.flow("- {id: step, pty: true, run: 'sleep 300 & echo $! > pid; sleep 300'}")
    child = folder.start("run", "flow.yaml")
    pid = number_in(folder.path / "pid")
    child.kill()
    wait_until(lambda: not lives(pid), "its end")


def test_much_output_comes_whole_through_a_terminal(folder: Folder) -> None:
    folder.flow("- {id: step, pty: true, run: 'seq 1 200000'}")
    assert folder.run().status == "succeeded"
    log = folder.outlast.logs(folder.run_id)[-1]
    assert b"".join(log.pieces()) == b"".join(b"%d\n" % number for number in range(1, 200001))
