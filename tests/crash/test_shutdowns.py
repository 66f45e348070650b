"""What a shutdown stops goes on by itself, what a person stops does not, and what dies along has not failed."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from outlast import Outlast, flow_file

from .processes import state
from .stopping import Work, lives, wait_until

TERM, INT, HUP = signal.SIGTERM, signal.SIGINT, signal.SIGHUP


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Work]:
    made = Work(tmp_path)
    yield made
    made.close()


def below(process: subprocess.Popen[bytes]) -> list[int]:
    """Every process that this one started, and those that they did: what a service manager knows by the cgroup."""
    found = [process.pid]
    for pid in found:
        with suppress(OSError):  # it ended since
            children = Path(f"/proc/{pid}/task").glob("*/children")
            found += [int(word) for each in children for word in each.read_text().split()]
    return found[1:]


def stop_service(process: subprocess.Popen[bytes], number: int = TERM, *, ours_last: bool = True) -> None:
    """As a service manager does: the signal goes to every process, ours first, or last when the others are dead."""
    others = below(process)
    if not ours_last:
        os.kill(process.pid, number)
    for pid in others:
        if lives(pid):
            os.kill(pid, number)
    if ours_last:
        wait_until(lambda: not any(is_at_work(pid) for pid in others), "the end of the others")
        os.kill(process.pid, number)


def is_at_work(pid: int) -> bool:
    """Whether it is a step's own process. The guard of commands does not heed signals, and is none."""
    try:
        return lives(pid) and b"outlast-guard" not in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


# -- to the whole service ------------------------------------------------------------------------------


@pytest.mark.parametrize("ours_last", [True, False], ids=["ours last", "ours first"])
@pytest.mark.parametrize("kind", ["two.yaml", "flows.py:calling", "flows.py:calling_async"])
def test_a_step_that_dies_of_the_same_term_was_interrupted_and_goes_on(work: Work, kind: str, ours_last: bool) -> None:
    process = work.command("run", kind)
    work.until("one")
    wait_until(lambda: len(below(process)) > 0, "its processes")
    stop_service(process, ours_last=ours_last)
    assert work.code(process) == 143
    status, [(_, receipt)] = work.stands()
    assert (status, receipt, work.due()) == ("interrupted", "interrupted", ["stopped"])
    work.go()
    assert work.code(work.command("tick")) == 0
    assert (work.stands()[0], work.diary.count("one"), work.diary.count("two done")) == ("succeeded", 2, 1)


def test_a_command_with_a_trap_of_its_own_was_interrupted_too(work: Work) -> None:
    process = work.command("run", "traps.yaml")
    work.until("long")
    stop_service(process)
    assert (work.code(process), work.diary) == (143, ["long", "cleaned"])
    assert work.stands() == ("interrupted", [("long", "interrupted")])


def test_all_branches_were_interrupted(work: Work) -> None:
    process = work.command("run", "beside.yaml")
    work.until("left", "right")
    stop_service(process)
    assert work.code(process) == 143
    status, receipts = work.stands()
    assert (status, {one for _, one in receipts}, work.due()) == ("interrupted", {"interrupted"}, ["stopped"])


def test_a_hangup_of_the_whole_service_is_a_shutdown_too(work: Work) -> None:
    process = work.command("run", "two.yaml")
    work.until("one")
    stop_service(process, HUP)
    assert (work.code(process), work.stands()[0], work.due()) == (129, "interrupted", ["stopped"])


def test_an_effect_that_died_along_is_in_doubt_and_not_repeated(work: Work) -> None:
    process = work.command("run", "publishes.yaml")
    work.until("publish")
    stop_service(process)
    assert work.code(process) == 143
    assert work.stands() == ("interrupted", [("publish", "interrupted")])
    work.go()
    assert work.code(work.command("tick")) == 0
    with work.opened() as outlast:
        assert [wait.type for wait in outlast.interrupts()] == ["in_doubt"]
    assert work.diary == ["publish"]


def test_a_probe_that_died_along_is_asked_again(work: Work) -> None:
    process = work.command("run", "asks_soon.yaml")
    work.until("probe")
    stop_service(process)
    assert work.code(process) == 143
    assert (work.stands()[0], work.due()) == ("interrupted", ["stopped"])
    work.go()
    assert work.code(work.command("tick")) == 0
    assert (work.stands()[0], work.diary) == ("succeeded", ["publish", "probe", "probe", "probe done"])


def test_a_command_that_somebody_else_ends_has_failed(work: Work) -> None:
    process = work.command("run", "two.yaml")
    work.until("one")
    for pid in below(process):
        if b"work.sh" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, TERM)
    assert work.code(process) == 1
    assert work.stands() == ("failed", [("one", "failed")])
    assert work.due() == []


# -- who stopped it ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "reasons", "words"),
    [
        (TERM, ["stopped"], "stopped by a shutdown: it goes on by itself"),
        (HUP, ["stopped"], "stopped by a shutdown: it goes on by itself"),
        (INT, [], "stopped by you: it stays stopped until it is resumed"),
    ],
    ids=["TERM", "HUP", "INT"],
)
@pytest.mark.parametrize("kind", ["two.yaml", "flows.py:plain", "flows.py:mixed"])
def test_a_shutdown_is_woken_and_a_person_is_not(
    work: Work, kind: str, number: int, reasons: list[str], words: str
) -> None:
    process = work.command("run", kind, "--json")
    work.until("one")
    work.send(process, number)
    work.go()
    assert work.code(process) == 128 + number
    assert words in work.err
    assert json.loads(work.out)["stopped_by"] == ("shutdown" if reasons else "person")
    assert work.due() == reasons
    assert work.code(work.command("tick")) == 0
    assert work.stands()[0] == ("succeeded" if reasons else "interrupted")


@pytest.mark.parametrize(("first", "second"), [(TERM, INT), (INT, TERM)], ids=["TERM, INT", "INT, TERM"])
def test_ctrl_c_before_or_after_a_shutdown_is_a_persons_word(work: Work, first: int, second: int) -> None:
    process = work.command("run", "two.yaml")
    work.until("one")
    work.send(process, first)
    process.send_signal(second)
    assert work.code(process) == 128 + first
    assert (work.stands()[0], work.due()) == ("interrupted", [])


def test_a_pause_is_a_persons_also_amid_a_shutdown_and_when_its_owner_dies(work: Work) -> None:
    process = work.command("run", "two.yaml")
    work.until("one")
    work.send(process, TERM)
    with work.opened() as outlast:
        outlast.pause(outlast.runs()[0].id)
    work.go()
    assert work.code(process) == 143
    assert (work.stands()[0], work.due()) == ("interrupted", [])


def test_a_run_that_was_paused_and_whose_owner_died_is_not_woken(work: Work) -> None:
    process = work.command("run", "two.yaml")
    work.until("one")
    process.send_signal(signal.SIGSTOP)
    wait_until(lambda: state(process.pid) == "T", "it stands still")
    with work.opened() as outlast:
        outlast.pause(outlast.runs()[0].id)
    process.kill()
    process.wait()
    assert (work.stands()[0], work.due()) == ("crashed", [])


# -- a run that comes to its end all the same ------------------------------------------------------------


@pytest.mark.parametrize("number", [INT, TERM, HUP], ids=["INT", "TERM", "HUP"])
@pytest.mark.parametrize("kind", ["publishes.yaml", "flows.py:publishes", "flows.py:threaded", "flows.py:only_timed"])
def test_a_signal_in_the_last_step_that_then_ends_well_has_succeeded(work: Work, kind: str, number: int) -> None:
    process = work.command("run", kind)
    wait_until(lambda: work.diary, "the step")
    work.send(process, number)
    work.go()
    assert (work.code(process), work.stands()[0]) == (0, "succeeded")


def test_a_flow_that_catches_the_stop_has_not_succeeded(work: Work) -> None:
    process = work.command("run", "flows.py:swallows")
    work.until("one")
    work.send(process, TERM)
    work.go()
    assert (work.code(process), work.stands()) == (143, ("interrupted", [("one", "succeeded")]))


# -- hanging up ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("signals", [(HUP,), (HUP, HUP), (TERM, HUP)], ids=["HUP", "HUP twice", "TERM, HUP"])
@pytest.mark.parametrize("kind", ["publishes_first.yaml", "flows.py:publishes_first"])
def test_a_hangup_lets_an_effect_end(work: Work, kind: str, signals: tuple[int, ...]) -> None:
    process = work.command("run", kind)
    work.until("publish")
    work.send(process, signals[0])
    for number in signals[1:]:
        process.send_signal(number)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    work.go()
    assert work.code(process) == 128 + signals[0]
    assert work.stands() == ("interrupted", [("publish", "succeeded")])
    assert (work.diary, work.due()) == (["publish", "publish done"], ["stopped"])


# -- a server --------------------------------------------------------------------------------------------


def serve(work: Work, *words: str) -> tuple[subprocess.Popen[bytes], str]:
    process = work.command("serve", "--port", "0", "--flows", "two.yaml", "--json", *words)
    wait_until(lambda: work.out.strip() or process.poll() is not None, "the server")
    return process, json.loads(work.out)["address"]


@pytest.mark.parametrize(("number", "woken"), [(TERM, True), (INT, False)], ids=["TERM", "INT"])
def test_a_server_goes_on_with_what_its_shutdown_stopped(work: Work, number: int, woken: bool) -> None:
    first, address = serve(work)
    with Outlast(address) as outlast:
        outlast.start(flow_file(work.folder / "two.yaml"))
        work.until("one")
        stop_service(first, number) if number == TERM else first.send_signal(number)
        if number == INT:
            work.go()
        work.code(first)
    assert (work.stands()[0], work.due()) == ("interrupted", ["stopped"] if woken else [])
    work.go()
    second, _ = serve(work)
    if woken:
        wait_until(lambda: work.stands()[0] == "succeeded", "the run")
    assert work.stands()[0] == ("succeeded" if woken else "interrupted")
    second.send_signal(TERM)
    assert work.code(second) == 0
