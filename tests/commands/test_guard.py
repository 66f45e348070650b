"""The guard: when the runtime dies, however it dies, its commands end, and it is on record when they were gone."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from outlast.commands.guard import Guard
from outlast.commands.process import end_group, hold
from outlast.errors import CommandNotStarted
from outlast.home.process import this_process
from outlast.ids import random_id

from ..kit.commands import Runtime, lives, number_in, wait_until

FOREVER = "echo $$ > pid; while :; do echo more >> growing; sleep 0.02; done"
DEAF = "trap '' TERM; echo $$ > pid; while :; do sleep 0.1; done"
STRANGE = ["a b 'c' \"d\" $HOME `e` \\n \\0101", "é 🙂 \x81\x82", "two\nlines\n", "-rf *", "x" * 200, "not utf8 \udcff"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    started: list[Runtime] = []

    def one(*commands: str, **settings: Any) -> Runtime:
        runtime = Runtime(tmp_path, *commands, **({"guard": 5.0} | settings))
        started.append(runtime)
        runtime.started()
        runtime.make_folders()
        return runtime

    yield one
    for runtime in started:
        runtime.kill()
        runtime.close()
        for group in runtime.groups:
            end_group(group, this_process(random_id), 0)


@pytest.fixture
def guard() -> Iterator[Guard]:
    found = Guard(0.2)
    yield found
    found.close()


def wait_for_the_end(runtime: Runtime) -> None:
    for file in runtime.ended_files():
        wait_until(file.exists, str(file))


# -- the runtime dies ------------------------------------------------------------------------------------


def test_a_command_ends_soon_after_its_runtime_was_killed(start: Any, tmp_path: Path) -> None:
    runtime = start(FOREVER)
    pid = number_in(tmp_path / "pid")
    wait_until((tmp_path / "growing").exists)
    runtime.kill()
    wait_for_the_end(runtime)
    assert not lives(pid)
    assert (tmp_path / "growing").stat().st_mtime_ns <= runtime.ended_files()[0].stat().st_mtime_ns
    wait_until(lambda: not lives(runtime.guard), "the end of the guard")
    assert not lives(pid)


def test_a_command_that_ignores_term_is_killed(start: Any, tmp_path: Path) -> None:
    runtime = start(DEAF, guard=0.3)
    pid = number_in(tmp_path / "pid")
    runtime.kill()
    wait_for_the_end(runtime)
    assert not lives(pid)


def test_a_stubborn_command_does_not_delay_the_word_about_the_others(start: Any, tmp_path: Path) -> None:
    runtime = start("echo $$ > other; exec sleep 300", DEAF, guard=600)
    number_in(tmp_path / "pid"), number_in(tmp_path / "other")
    runtime.kill()
    wait_until(runtime.ended_files()[0].exists, "the word about the one that is gone")
    assert not runtime.ended_files()[1].exists()
    assert lives(number_in(tmp_path / "pid"))
    os.kill(number_in(tmp_path / "pid"), signal.SIGKILL)
    wait_for_the_end(runtime)


def test_what_a_command_left_in_the_background_ends_with_it(start: Any, tmp_path: Path) -> None:
    runtime = start("(sleep 300 & echo $! > pid); timeout 300 sh -c 'echo $$ > other; sleep 300'; true")
    pids = [number_in(tmp_path / "pid"), number_in(tmp_path / "other")]
    runtime.kill()
    wait_for_the_end(runtime)
    assert [lives(pid) for pid in pids] == [False, False]


def test_a_group_that_is_gone_already_is_only_noted(start: Any, tmp_path: Path) -> None:
    runtime = start("echo $$ > pid", wait=False)
    wait_until(lambda: not lives(number_in(tmp_path / "pid")))
    runtime.kill()
    wait_for_the_end(runtime)
    assert runtime.ended_files()[0].exists()


def test_a_command_that_was_held_when_the_runtime_died_never_runs(start: Any, tmp_path: Path) -> None:
    runtime = start("echo ran > ran", go=False, wait=False)
    runtime.kill()
    wait_for_the_end(runtime)
    assert not (tmp_path / "ran").exists()


def test_a_forked_child_that_lives_on_does_not_hide_the_death(start: Any, tmp_path: Path) -> None:
    runtime = start(FOREVER, fork=True)
    runtime.kill()
    wait_for_the_end(runtime)
    assert not lives(runtime.groups[0].pgid)
    assert lives(runtime.forked)


def test_the_guard_holds_nothing_of_the_runtime_open(start: Any, tmp_path: Path) -> None:
    runtime = start(DEAF, guard=600)
    pid = number_in(tmp_path / "pid")
    runtime.kill()
    assert runtime.process.stdout.read() == b""
    assert lives(runtime.guard)
    os.kill(pid, signal.SIGKILL)
    wait_for_the_end(runtime)


def test_signals_for_everybody_leave_the_guard_on_duty(start: Any, tmp_path: Path) -> None:
    runtime = start(FOREVER)
    number_in(tmp_path / "pid")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(runtime.guard, number)
    runtime.kill()
    wait_for_the_end(runtime)
    assert not lives(runtime.groups[0].pgid)


def test_a_guard_that_is_sent_away_ends_what_still_runs(start: Any, tmp_path: Path) -> None:
    runtime = start(FOREVER, wait=False, goodbye=True)
    pid = number_in(tmp_path / "pid")
    runtime.close()
    wait_until(lambda: not lives(pid), "the end of the command")
    wait_until(lambda: not lives(runtime.guard), "the end of the guard")
    assert not lives(pid)


# -- in this process -------------------------------------------------------------------------------------


DYING = """
import os, sys
from pathlib import Path
from outlast.commands.process import hold
from outlast.commands.guard import Guard
held = hold("sleep 300", cwd=Path("/"), env=os.environ, output=None)
Guard().watch(held.group.pgid, Path(os.fsdecode(sys.argv[1])))
held.go()
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("name", STRANGE, ids=range(len(STRANGE)))
def test_the_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    subprocess.run([sys.executable, "-c", DYING, folder], check=False)
    wait_until((folder / "ended").exists)
    assert [each.name for each in tmp_path.iterdir()] == [name]


def test_a_released_command_is_nobodys_business(tmp_path: Path) -> None:
    guard = Guard(0.1)
    one, other = (hold("sleep 300", cwd=tmp_path, env=os.environ, output=None) for _ in range(2))
    folders = [tmp_path / "one", tmp_path / "other"]
    for held, folder in zip((one, other), folders, strict=True):
        folder.mkdir()
        guard.watch(held.group.pgid, folder)
    guard.release(one.group.pgid)
    guard.release(one.group.pgid)
    assert guard._line is not None
    guard._line.close()  # as the kernel does when we die
    wait_until((folders[1] / "ended").exists)
    assert lives(one.group.pgid)
    assert not (folders[0] / "ended").exists()
    one.drop()
    other.drop()
    guard.close()


def test_a_guard_that_was_killed_is_replaced_and_knows_everything_live(tmp_path: Path) -> None:
    guard = Guard(0.1)
    helds = [hold("sleep 300", cwd=tmp_path, env=os.environ, output=None) for _ in range(2)]
    guard.watch(helds[0].group.pgid, tmp_path)
    first = guard.pid
    assert first
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: not lives(first))
    (tmp_path / "second").mkdir()
    guard.watch(helds[1].group.pgid, tmp_path / "second")
    assert guard.pid != first
    assert guard._line is not None
    guard._line.close()
    wait_until((tmp_path / "ended").exists)
    wait_until((tmp_path / "second" / "ended").exists)
    for held in helds:
        assert not lives(held.group.pgid)
        held.drop()
    guard.close()


def test_there_is_one_guard_for_all_threads_and_none_before_the_first_command(tmp_path: Path, guard: Guard) -> None:
    assert guard.pid is None
    helds = [hold("exit 0", cwd=tmp_path, env=os.environ, output=None) for _ in range(20)]

    def one(number: int) -> int | None:
        held = helds[number]
        guard.watch(held.group.pgid, tmp_path)
        held.go()
        assert held.wait().exit == 0
        guard.release(held.group.pgid)
        return guard.pid

    with ThreadPoolExecutor(20) as pool:
        assert len(set(pool.map(one, range(20)))) == 1


def test_a_forked_process_starts_a_guard_of_its_own(tmp_path: Path, guard: Guard) -> None:
    held = hold("sleep 300", cwd=tmp_path, env=os.environ, output=None)
    guard.watch(held.group.pgid, tmp_path)
    held.go()
    script = tmp_path / "said"
    if (pid := os.fork()) == 0:
        guard.release(held.group.pgid)
        guard.watch(99_999_999, tmp_path)
        script.write_text(str(guard.pid))
        guard.close()
        os._exit(0)
    os.waitpid(pid, 0)
    assert script.read_text() not in ("None", str(guard.pid))
    assert lives(held.group.pgid)
    assert guard.pid
    assert lives(guard.pid)
    assert held.wait(timeout=0).how == "timed_out"


def test_a_guard_that_cannot_start_says_so(tmp_path: Path, guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise BlockingIOError(11, "no more processes")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with pytest.raises(CommandNotStarted, match="no more processes"):
        guard.watch(99_999_999, tmp_path)
