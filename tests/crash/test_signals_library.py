"""Signals to a program that uses the library, in real processes: it stays in charge of its own handlers."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from .stopping import Work, lives, wait_until

KINDS = ["two.yaml", "flows.py:plain", "flows.py:mixed"]


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Work]:
    made = Work(tmp_path)
    yield made
    made.close()


# -- over the defaults, and put back -----------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_sigterm_counts_as_system_exit_once_the_end_is_written(work: Work, kind: str) -> None:
    process = work.script("library", kind)
    work.until("one")
    work.send(process, signal.SIGTERM)
    work.go()
    assert work.code(process) == 143
    assert work.out == "SystemExit True interrupted\n"
    assert work.stands()[1] == [("one", "succeeded")]


@pytest.mark.parametrize("kind", KINDS)
def test_sigint_counts_as_keyboard_interrupt_once_the_end_is_written(work: Work, kind: str) -> None:
    process = work.script("library", kind)
    work.until("one")
    work.send(process, signal.SIGINT)
    work.go()
    assert work.code(process) == -signal.SIGINT  # as Python itself ends by it
    assert work.out == "KeyboardInterrupt True interrupted\n"
    assert work.code(work.script("library", kind)) == 0
    assert (work.out, work.diary) == ("ended True succeeded\n", ["one", "one done", "two", "two done"])


def test_a_run_that_raised_leaves_the_handlers_as_they_were(work: Work) -> None:
    process = work.script("raising", "flows.py:raises")
    assert work.code(process) == -signal.SIGINT  # what came while nothing ran acted as usual
    assert "finishing" not in work.err


@pytest.mark.parametrize("times", [1, 2])
def test_a_block_is_stopped_like_a_flow(work: Work, times: int) -> None:
    process = work.script("block", "")
    work.until("one")
    work.send(process, signal.SIGTERM)
    assert "finishing one, up to 30 s; again to stop now\n" in work.err
    if times == 2:
        process.send_signal(signal.SIGTERM)
    else:
        work.go()
    assert work.code(process) == 143
    assert work.out == "True interrupted\n"
    assert work.stands()[1] == [("one", "succeeded" if times == 1 else "interrupted")]
    work.go()
    assert work.code(work.script("block", "")) == 0


def test_a_signal_that_comes_before_the_body_begins_is_not_forgotten(work: Work) -> None:
    assert work.code(work.script("too_early")) == 143
    assert "finishing the current step, up to 30 s; again to stop now\n" in work.err
    status, receipts = work.stands()
    assert (status, receipts) in [("interrupted", []), ("interrupted", [("until_stopping", "succeeded")])]


def test_a_handler_of_the_programs_own_stays_in_charge(work: Work) -> None:
    process = work.script("own_handler", "flows.py:plain")
    work.until("one")
    process.send_signal(signal.SIGTERM)
    work.until("mine")
    work.go()
    assert work.code(process) == 0
    assert (work.out, "finishing" in work.err) == ("interrupted True\n", False)


# -- outlast.stop() -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["two.yaml", "flows.py:plain"])
def test_runs_in_threads_touch_no_handler_and_stop_asks_them_all(work: Work, kind: str) -> None:
    process = work.script("in_thread", kind)
    work.until("stopped")
    work.go()
    assert work.code(process) == 0
    assert work.out.split() == ["True", "interrupted", "interrupted", "interrupted"]
    assert (work.diary.count("one done"), work.diary.count("two")) == (3, 0)


def test_stop_now_ends_the_commands_of_all_runs(work: Work) -> None:
    (work.folder / "now").touch()
    assert work.code(work.script("in_thread", "two.yaml")) == 0
    assert work.out.split() == ["True", "interrupted", "interrupted", "interrupted"]
    assert (work.stands()[1], "one done" in work.diary) == ([("one", "interrupted")], False)


def test_stop_from_another_thread_lets_the_step_finish(work: Work) -> None:
    assert work.code(work.script("from_another", "flows.py:plain")) == 0
    assert (work.out, work.diary) == ("interrupted\n", ["one", "one done"])


# -- time that runs out ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_when_the_time_is_up_the_step_is_stopped(work: Work, kind: str) -> None:
    process = work.script("short", kind)
    work.until("one")
    work.send(process, signal.SIGTERM)
    assert "finishing one, up to 0.5 s; again to stop now\n" in work.err
    assert work.code(process) == 143
    assert work.stands() == ("interrupted", [("one", "interrupted")])


def test_a_command_that_does_not_heed_term_is_killed(work: Work) -> None:
    process = work.script("short", "deaf.yaml")
    work.until("long")
    pid = int((work.folder / "pid").read_text())
    work.send(process, signal.SIGTERM)
    assert work.code(process) == 143
    receipt = work.receipts()[-1]
    assert (receipt.status, receipt.facts["exit"]) == ("interrupted", 128 + signal.SIGKILL)
    assert not lives(pid)


# -- at any moment -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["flows.py:quick", "flows.py:quick_async"])
def test_two_signals_at_any_moment_lose_nothing_and_double_nothing(work: Work, kind: str) -> None:
    process = work.script("often", kind, "1")
    wait_until(lambda: process.poll() is not None, "thirty times")
    assert (process.returncode, work.err.count("Traceback")) == (0, 0), work.err
    first, *others = work.out.splitlines()
    assert first == "True 44850 {'succeeded'} True"
    assert set(others) == {"True"}
