"""`outlast work`, in processes that are stopped and killed: what one leaves, the next goes on with."""

import json
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..crash.stopping import Work, wait_until

TERM, INT, KILL = signal.SIGTERM, signal.SIGINT, signal.SIGKILL


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Work]:
    made = Work(tmp_path)
    yield made
    made.close()


def crashed(work: Work, kind: str = "two.yaml") -> None:
    """A run whose process was killed in its first step."""
    process = work.command("run", kind)
    work.until("one")
    process.send_signal(KILL)
    process.wait()
    (work.folder / "diary").unlink()


@pytest.mark.parametrize("words", [["two.yaml"], []], ids=["given", "found"])
def test_it_goes_on_with_a_crashed_run_until_it_is_stopped(work: Work, words: list[str]) -> None:
    crashed(work)
    work.go()
    process = work.command("work", *words)
    work.until("one done", "two done")
    wait_until(lambda: "now succeeded" in work.out, work.out + work.err)
    process.send_signal(TERM)
    assert (work.code(process), work.stands()[0]) == (0, "succeeded")


@pytest.mark.parametrize(("number", "code", "due"), [(TERM, 0, ["stopped"]), (INT, 130, [])], ids=["TERM", "INT"])
def test_asked_to_stop_its_runs_end_their_steps(work: Work, number: int, code: int, due: list[str]) -> None:
    crashed(work)
    process = work.command("work")
    work.until("one")
    work.send(process, number)
    work.go()
    assert (work.code(process), work.stands()[0], work.due()) == (code, "interrupted", due)
    assert work.diary == ["one", "one done"]


@pytest.mark.crash
def test_what_a_killed_worker_had_goes_on_in_another(work: Work) -> None:
    crashed(work)
    killed = work.command("work", stdout=subprocess.DEVNULL)
    work.until("one")
    other = work.command("work", "--json")
    wait_until(lambda: '"ready"' in work.out, "the other")
    killed.send_signal(KILL)
    work.go()
    wait_until(lambda: '"ended"' in work.out, "its end")
    other.send_signal(TERM)
    assert (work.code(other), work.stands()[0]) == (0, "succeeded")
    told = [json.loads(line) for line in work.out.splitlines()]
    assert [(one["kind"], one.get("reason"), one.get("status")) for one in told[1:]] == [
        ("took", "crashed", ""),
        ("ended", "crashed", "succeeded"),
    ]


def test_a_flow_that_is_not_there_is_refused_before_anything(work: Work) -> None:
    process = work.command("work", "nowhere.yaml")
    assert work.code(process) == 5
    assert "nowhere.yaml" in work.err


@pytest.mark.parametrize("named", ["spoken:bill", "spoken.py:bill"])
def test_the_command_that_a_run_without_a_worker_names_takes_it(work: Work, named: str) -> None:
    body = "from outlast import Run, flow\n\n@flow\ndef bill(run: Run) -> str:\n    return 'done'\n\n"
    (work.folder / "spoken.py").write_text(body + "@flow\ndef other(run: Run) -> None:\n    return None\n")
    asked = work.command("run", named, "--queue", "q")
    assert work.code(asked) == 3
    (told,) = [line for line in work.out.splitlines() if line.startswith("no worker has its flow; start one: outlast ")]
    words = shlex.split(told.partition("outlast ")[2])
    process = work.command(*words)
    wait_until(lambda: "now succeeded" in work.out, work.out + work.err)
    assert "for bill; stop" in work.out
    process.send_signal(TERM)
    assert work.code(process) == 0


def test_what_is_no_flow_after_a_colon_is_refused(work: Work) -> None:
    (work.folder / "spoken.py").write_text("def bill(run: object) -> None: ...\n")
    process = work.command("work", "spoken.py:bill")
    assert work.code(process) == 5
    assert "it is not a flow (decorate it with @flow)" in work.err
