"""Transcripts of a run, below the door: read in pieces, also when their file is cleared meanwhile."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast import Outlast, Run, flow
from outlast.errors import StepNotFound
from outlast.python.decorators import flow_file

from ..kit.commands import wait_until

SLOW = """\
flow: slow
steps:
  - {id: wait, run: "printf 'a\\\\377'; touch begun; while ! test -e go; do sleep 0.02; done; echo b"}
"""


@pytest.fixture
def outlast(tmp_path: Path) -> Iterator[Outlast]:
    with Outlast(tmp_path / ".outlast") as made:
        yield made


@flow
def nothing(run: Run) -> None: ...


def started(outlast: Outlast, folder: Path) -> str:
    """A run whose command waits for the file `go`, and has printed its first words."""
    (folder / "flow.yaml").write_text(SLOW)
    run_id = outlast.start(flow_file("flow.yaml", folder)).run_id
    wait_until((folder / "begun").exists)
    wait_until(lambda: b"".join(outlast.logs(run_id)[0].pieces()) == b"a\xff", "its output")
    return run_id


def test_a_log_whose_file_was_cleared_is_read_from_the_receipt(outlast: Outlast, tmp_path: Path) -> None:
    run_id = started(outlast, tmp_path)
    (log,) = outlast.logs(run_id)
    (tmp_path / "go").touch()
    wait_until(lambda: outlast.get(run_id).status == "succeeded", "the end")
    assert (log.status, log.exit, b"".join(log.pieces()).decode()) == ("running", None, "a\ufffdb\n")
    (now,) = outlast.logs(run_id, "wait", attempt=1)
    assert (now.status, now.exit) == ("succeeded", 0)


def test_a_follower_gets_every_byte_though_the_file_goes(outlast: Outlast, tmp_path: Path) -> None:
    run_id = started(outlast, tmp_path)
    following = outlast.follow_logs(run_id)
    log, first = next(following)
    (tmp_path / "go").touch()
    rest = list(following)
    assert (log.status, first + b"".join(piece for _, piece in rest)) == ("running", b"a\xffb\n")
    assert [(log.status, log.exit, piece) for log, piece in rest][-1] == ("succeeded", 0, b"")


def test_a_run_without_commands_has_no_logs(outlast: Outlast) -> None:
    run_id = outlast.run(nothing).run_id
    assert outlast.logs(run_id) == []
    with pytest.raises(StepNotFound):
        outlast.logs(run_id, "anything")


SPOKE = """\
flow: spoke
steps:
  - {id: build, run: "echo words of the step; exit 3"}
  - {id: send, effect: true, run: "echo words of the effect; exit 4", confirm: "exit $(cat answer)"}
"""


def said(outlast: Outlast, run_id: str) -> dict[tuple[str, int], str]:
    return {(log.step, log.attempt): b"".join(log.pieces()).decode() for log in outlast.logs(run_id)}


@pytest.mark.parametrize("answer", ["0", "1"], ids=["it happened", "it did not"])
def test_what_a_failed_attempt_printed_stays_whatever_is_decided_about_it(
    outlast: Outlast, tmp_path: Path, answer: str
) -> None:
    (tmp_path / "flow.yaml").write_text(SPOKE)
    (tmp_path / "answer").write_text("7")
    run_id = outlast.run(flow_file("flow.yaml", tmp_path)).run_id
    outlast.skip(run_id, "build", result=None, why="built by hand")
    assert outlast.resume(run_id).status == "waiting"  # its probe does not know
    (tmp_path / "answer").write_text(answer)
    outlast.resume(run_id)
    kept = said(outlast, run_id)
    assert kept["build", 1] == "words of the step\n"
    assert kept["send", 1] == "words of the effect\n"
    folder = outlast.mirror(run_id) / "receipts"
    assert '"status":"failed"' in (folder / "build-main.1.json").read_text()
