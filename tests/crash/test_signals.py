"""Signals to the command line, in real processes: the first lets the step finish, the second ends it."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from .stopping import Terminal, Work, lives, wait_until

KINDS = ["two.yaml", "flows.py:plain", "flows.py:mixed"]
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
HEARD = "finishing {}, up to 30 s; again to stop now\n"


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Work]:
    made = Work(tmp_path)
    yield made
    made.close()


def stop_twice(work: Work, process: subprocess.Popen[bytes], number: int) -> int:
    work.send(process, number)
    process.send_signal(number)
    return work.code(process)


# -- the first signal --------------------------------------------------------------------------------


@pytest.mark.parametrize("number", CODES, ids=lambda number: number.name)
@pytest.mark.parametrize("kind", KINDS)
def test_the_step_under_way_finishes_and_the_same_command_goes_on(work: Work, kind: str, number: int) -> None:
    process = work.command("run", kind)
    work.until("one")
    work.send(process, number)
    assert work.diary == ["one"]
    work.go()
    assert work.code(process) == CODES[signal.Signals(number)]
    assert work.err.count(HEARD.format("one")) == 1
    assert work.stands() == ("interrupted", [("one", "succeeded")])
    assert work.code(work.command("run", kind)) == 0
    assert work.diary == ["one", "one done", "two", "two done"]


@pytest.mark.parametrize("kind", ["fails.yaml", "flows.py:fails", "flows.py:fails_async"])
def test_a_pause_before_another_try_ends_at_once(work: Work, kind: str) -> None:
    process = work.command("run", kind)
    work.until("try")
    wait_until(lambda: ("flaky", "failed") in work.stands()[1], "the first failure")
    work.send(process, signal.SIGTERM)
    assert process.wait(25) == 143  # not only when its 30 s are over
    status, receipts = work.stands()
    assert (status, set(receipts)) == ("interrupted", {("flaky", "failed")})
    work.go()
    assert work.code(work.command("run", kind)) == 0


@pytest.mark.parametrize("kind", ["flows.py:between", "flows.py:between_async"])
def test_between_steps_the_next_one_does_not_begin(work: Work, kind: str) -> None:
    process = work.command("run", kind)
    work.until("between")
    work.send(process, signal.SIGINT)
    assert HEARD.format("the current step") in work.err
    work.go()
    assert work.code(process) == 130
    assert work.stands() == ("interrupted", [("number", "succeeded")])


def test_a_signal_at_any_moment_of_quick_commands_repeats_none(work: Work) -> None:
    for steps in ("s0", "s3", "s7"):
        process = work.command("run", "quick.yaml")
        work.until(steps)
        process.send_signal(signal.SIGTERM)
        code = work.code(process)
        assert code in (143, 0)
        if code == 0:  # the signal came after the last of them: to run it once more would be another run
            break
    else:
        assert work.code(work.command("run", "quick.yaml", "--json")) == 0
    assert [line for line in work.diary if work.diary.count(line) > 1] == []
    assert len(work.diary) == 12


def test_in_a_repeat_the_step_finishes_and_the_loop_goes_on_later(work: Work) -> None:
    process = work.command("run", "repeats.yaml")
    work.until("one")
    work.send(process, signal.SIGTERM)
    assert HEARD.format("loop[1]/one") in work.err
    work.go()
    assert work.code(process) == 143
    assert work.stands() == ("interrupted", [("loop[1]/one", "succeeded")])
    assert work.code(work.command("run", "repeats.yaml")) == 0
    assert work.diary == ["one", "one done", "two", "two done"]


@pytest.mark.parametrize(
    ("kind", "steps"),
    [("beside.yaml", ("left", "right")), ("flows.py:beside", ("one", "two"))],
    ids=["commands", "async"],
)
def test_in_parallel_every_branch_finishes(work: Work, kind: str, steps: tuple[str, str]) -> None:
    process = work.command("run", kind)
    work.until(*steps)
    work.send(process, signal.SIGTERM)
    assert all(name in work.err.partition("finishing ")[2] for name in steps)
    work.go()
    assert work.code(process) == 143
    status, receipts = work.stands()
    assert (status, sorted(ended for _, ended in receipts)) == ("interrupted", ["succeeded", "succeeded"])
    assert work.code(work.command("run", kind)) == 0
    assert len(work.diary) == 6


def test_with_json_the_message_goes_to_stderr_and_stdout_is_one_object(work: Work) -> None:
    process = work.command("run", "two.yaml", "--json")
    work.until("one")
    work.send(process, signal.SIGTERM)
    work.go()
    assert work.code(process) == 143
    assert HEARD.format("one") in work.err
    assert json.loads(work.out)["status"] == "interrupted"


def test_the_message_names_a_long_id_whole(work: Work) -> None:
    name = "a" * 60
    (work.folder / "long.yaml").write_text(f"flow: long\nsteps:\n  - {{id: {name}, run: sh work.sh one}}\n")
    process = work.command("run", "long.yaml")
    work.until("one")
    work.send(process, signal.SIGTERM)
    assert HEARD.format(name) in work.err


# -- the second --------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", CODES, ids=lambda number: number.name)
def test_a_second_signal_ends_the_command_which_may_clean_up(work: Work, number: int) -> None:
    process = work.command("run", "traps.yaml")
    work.until("long")
    assert stop_twice(work, process, number) == CODES[signal.Signals(number)]
    assert work.diary == ["long", "cleaned"]
    receipt = work.receipts()[-1]
    assert (work.stands()[0], receipt.status, receipt.facts["exit"]) == ("interrupted", "interrupted", 3)
    assert receipt.facts["transcript"]["text"].startswith("long is at work\n")
    assert [(one["path"], one["change"]) for one in receipt.facts["left"]["files"]] == [("draft.txt", "created")]
    work.go()
    assert work.code(work.command("run", "traps.yaml")) == 0


@pytest.mark.parametrize(
    ("kind", "raised"),
    [
        ("flows.py:plain", "one KeyboardInterrupt"),
        ("flows.py:mixed", "one CancelledError"),
        ("flows.py:awaits", "one CancelledError"),
        ("flows.py:blocks", "one KeyboardInterrupt"),
        ("flows.py:between", "between KeyboardInterrupt"),
    ],
)
def test_a_second_signal_ends_a_python_step_or_body(work: Work, kind: str, raised: str) -> None:
    process = work.command("run", kind)
    work.until(raised.split()[0])
    assert stop_twice(work, process, signal.SIGTERM) == 143
    assert work.diary[-1] == raised
    status, receipts = work.stands()
    expected = {"flows.py:between": [("number", "succeeded")], "flows.py:blocks": []}
    assert (status, receipts) == ("interrupted", expected.get(kind, [("one", "interrupted")]))
    work.go()
    assert work.code(work.command("run", kind)) == 0


@pytest.mark.parametrize("kind", ["flows.py:threaded", "flows.py:only_timed"])
def test_a_second_signal_leaves_a_body_in_a_thread_behind(work: Work, kind: str) -> None:
    process = work.command("run", kind)
    wait_until(lambda: work.diary, "the step")
    assert stop_twice(work, process, signal.SIGINT) == 130
    status, receipts = work.stands()
    assert (status, [ended for _, ended in receipts]) == ("interrupted", ["interrupted"])


def test_a_second_signal_ends_all_branches(work: Work) -> None:
    process = work.command("run", "beside.yaml")
    work.until("left", "right")
    assert stop_twice(work, process, signal.SIGTERM) == 143
    assert sorted(work.stands()[1]) == [("left", "interrupted"), ("right", "interrupted")]


def test_signals_that_keep_coming_are_one_wish(work: Work) -> None:
    process = work.command("run", "flows.py:plain")
    work.until("one")
    work.send(process, signal.SIGINT)
    for _ in range(5):
        process.send_signal(signal.SIGINT)
    assert work.code(process) == 130
    assert work.stands() == ("interrupted", [("one", "interrupted")])
    assert work.diary == ["one", "one KeyboardInterrupt"]


def test_threads_that_do_not_end_are_left_at_the_third_signal(work: Work) -> None:
    process = work.command("run", "flows.py:maps")
    work.until("a", "b")
    work.send(process, signal.SIGINT)
    wait_until(lambda: process.send_signal(signal.SIGINT) or process.poll() is not None, "its end")
    assert work.code(process) == -signal.SIGINT
    work.go()
    assert work.code(work.command("run", "flows.py:maps")) == 0


@pytest.mark.parametrize("kind", ["publishes.yaml", "flows.py:publishes"])
def test_an_effect_that_was_stopped_is_in_doubt_and_not_repeated(work: Work, kind: str) -> None:
    process = work.command("run", kind)
    work.until("publish")
    assert stop_twice(work, process, signal.SIGTERM) == 143
    work.go()
    assert work.code(work.command("run", kind)) == 4
    assert work.diary.count("publish") == 1
    with work.opened() as outlast:
        assert [wait.type for wait in outlast.interrupts()] == ["in_doubt"]


@pytest.mark.parametrize("kind", ["asks.yaml", "flows.py:asks"])
def test_a_probe_that_was_stopped_is_asked_again(work: Work, kind: str) -> None:
    process = work.command("run", kind)
    if kind == "asks.yaml":
        work.until("publish")
        work.go()
        work.until("publish done")
        (work.folder / "go").unlink()
    work.until("probe")
    assert stop_twice(work, process, signal.SIGTERM) == 143
    assert work.stands()[0] == "interrupted"
    before = len(work.diary)
    work.go()
    work.code(work.command("run", kind))
    assert work.diary[before:] == ["probe", "probe done"]


# -- who else hears it -------------------------------------------------------------------------------


def test_a_signal_to_the_whole_group_does_not_reach_the_command(work: Work) -> None:
    process = work.command("run", "traps.yaml")
    work.until("long")
    os.killpg(process.pid, signal.SIGTERM)
    wait_until(lambda: "again to stop now" in work.err, "hearing it")
    work.go()
    assert work.code(process) == 0  # it was the last step, and ended well
    assert work.diary == ["long"]
    assert work.stands() == ("succeeded", [("long", "succeeded")])


def test_a_signal_that_is_ignored_stays_ignored(work: Work) -> None:
    ignore = lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)  # noqa: E731
    process = work.command("run", "two.yaml", preexec_fn=ignore)
    work.until("one")
    process.send_signal(signal.SIGINT)
    work.go()
    assert work.code(process) == 0
    assert "finishing" not in work.err


def test_a_process_that_a_step_forked_is_terminated_as_ever(work: Work) -> None:
    assert work.code(work.command("run", "flows.py:forking")) == 0
    assert f"result: {-signal.SIGTERM}" in work.out


@pytest.mark.parametrize("closed", [("out",), ("out", "err")], ids=["stdout", "stdout and stderr"])
def test_a_closed_pipe_does_not_end_the_run(work: Work, closed: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    pipes = {"out": {"stdout": writer}, "err": {"stderr": writer}}
    process = work.command("run", "talks.yaml", **{name: end for one in closed for name, end in pipes[one].items()})
    os.close(writer)
    assert os.read(reader, 4)
    os.close(reader)
    work.until("talk")
    process.send_signal(signal.SIGTERM)
    work.go()
    assert work.code(process) == 141
    assert "Traceback" not in work.err
    status, receipts = work.stands()
    assert (status, receipts[0]) in (("interrupted", ("talk", "succeeded")), ("succeeded", ("talk", "succeeded")))
    assert work.code(work.command("run", "talks.yaml")) == 0
    assert work.diary.count("talk") <= 2
    assert work.stands()[0] == "succeeded"


def test_a_stderr_that_nobody_reads_does_not_hold_the_signal_up(work: Work) -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while os.write(writer, b"x" * 4096):
            continue
    os.set_blocking(writer, True)
    process = work.script("short", "two.yaml", stderr=writer)
    work.until("one")
    process.send_signal(signal.SIGTERM)
    assert work.code(process) == 143
    os.close(reader)
    os.close(writer)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal()
    yield made
    made.close()


def at(terminal: Terminal) -> dict[str, object]:
    end = terminal.theirs
    return {"stdin": end, "stdout": end, "stderr": end, "preexec_fn": terminal.adopt}


def test_ctrl_c_at_a_terminal_does_not_reach_the_command_and_a_second_one_stops_it(
    work: Work, terminal: Terminal
) -> None:
    process = work.command("run", "traps.yaml", **at(terminal))
    work.until("long")
    terminal.press_ctrl_c()
    terminal.read_until("\r\nfinishing long, up to 30 s; again to stop now\r\n")
    assert (work.diary, process.poll()) == (["long"], None)
    terminal.press_ctrl_c()
    terminal.read_until("interrupted")
    wait_until(lambda: terminal.drain() or process.poll() is not None, "its end")
    assert (work.code(process), work.diary) == (130, ["long", "cleaned"])
    assert work.stands() == ("interrupted", [("long", "interrupted")])


def test_a_terminal_that_is_closed_lets_the_step_finish(work: Work, terminal: Terminal) -> None:
    process = work.command("run", "two.yaml", **at(terminal))
    work.until("one")
    terminal.close()
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.3)
    work.go()
    assert work.code(process) == 129
    assert work.stands() == ("interrupted", [("one", "succeeded")])
    assert work.due() == ["stopped"]


# -- as process 1 ------------------------------------------------------------------------------------

ISOLATED = ["unshare", "--fork", "--pid", "--mount-proc"]


def _can_isolate() -> bool:
    return (
        shutil.which("unshare") is not None and subprocess.run([*ISOLATED, "true"], capture_output=True).returncode == 0
    )


def inside(process: subprocess.Popen[bytes]) -> list[int]:
    """The processes below this one that live in its own world, oldest first; zombies too."""
    found = [process.pid]
    for pid in found:
        children = Path(f"/proc/{pid}/task/{pid}/children")
        found += [int(word) for word in children.read_text().split()] if children.exists() else []
    return found[1:]


@pytest.mark.skipif(not _can_isolate(), reason="unshare --pid is not permitted here")
@pytest.mark.parametrize("times", [1, 2])
def test_as_process_1_sigterm_works_and_the_dead_are_buried(work: Work, times: int) -> None:
    words = [*ISOLATED, sys.executable, "-m", "outlast", "run", "orphans.yaml"]
    process = work.process(words)
    work.until("orphans")
    init, *others = inside(process)
    assert others
    wait_until(lambda: all(lives(pid) for pid in inside(process)), "the dead are buried")
    os.kill(init, signal.SIGTERM)
    wait_until(lambda: "again to stop now" in work.err, "hearing it")
    if times == 2:
        os.kill(init, signal.SIGTERM)
    else:
        work.go()
    assert work.code(process) == (0 if times == 1 else 143)
    assert [pid for pid in (init, *others) if lives(pid)] == []
    expected = "succeeded" if times == 1 else "interrupted"
    assert work.stands()[1] == [("orphans", expected)]
