"""Commands: nothing runs before it may, nothing is left when it is over, and nobody else is hit."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from outlast.commands.process import CommandEnd, Group, HeldCommand, alive, end_group, hold
from outlast.errors import CommandNotStarted, Invalid, Stopped
from outlast.home.process import this_process
from outlast.ids import random_id
from outlast.ledger.lease import Process

from ..kit.commands import Runtime, lives, number_in, wait_until

FOREVER = "while :; do sleep 1; done"
DEAF = "trap '' TERM; echo $$ > pid; while :; do sleep 1; done"
ORPHAN = "sleep 300 & echo $! > pid"


@pytest.fixture
def me() -> Process:
    return this_process(random_id)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    """Runtimes in processes of their own, and no trace of them afterwards."""
    started: list[Runtime] = []

    def one(*commands: str, **settings: Any) -> Runtime:
        started.append(Runtime(tmp_path, *commands, **settings))
        return started[-1]

    yield one
    for runtime in started:
        runtime.kill()
        runtime.close()
        for group in runtime.groups:
            end_group(group, this_process(random_id), 0)


def sleeps(pid: int) -> bool:
    """Whether the main thread of a process waits for something."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def held(command: str, folder: Path, **env: str) -> HeldCommand:
    return hold(command, cwd=folder, env=os.environ | env, output=None)


def run(command: str, folder: Path, **how: Any) -> CommandEnd:
    waiting = held(command, folder)
    waiting.go()
    return waiting.wait(**how)


# -- held until told -----------------------------------------------------------------------------------


def test_nothing_of_a_command_runs_before_go(tmp_path: Path) -> None:
    waiting = held("echo ran > ran", tmp_path)
    assert lives(waiting.group.pgid)
    assert os.getsid(waiting.group.pgid) == os.getpgid(waiting.group.pgid) == waiting.group.pgid
    assert not (tmp_path / "ran").exists()
    waiting.go()
    assert waiting.wait().exit == 0
    assert (tmp_path / "ran").read_text() == "ran\n"


def test_a_runtime_killed_between_hold_and_go_never_ran_the_command(start: Any, tmp_path: Path) -> None:
    runtime = start("echo ran > ran", go=False, wait=False).started()
    assert lives(runtime.groups[0].pgid)
    runtime.kill()
    wait_until(lambda: not lives(runtime.groups[0].pgid), "the end of the held shell")
    assert not (tmp_path / "ran").exists()


def test_a_forked_child_that_lives_on_does_not_keep_the_held_command_waiting(start: Any, tmp_path: Path) -> None:
    runtime = start("echo ran > ran", go=False, wait=False, fork=True).started()
    runtime.kill()
    wait_until(lambda: not lives(runtime.groups[0].pgid), "the end of the held shell")
    assert lives(runtime.forked)
    assert not (tmp_path / "ran").exists()


def test_a_dropped_command_never_runs_and_dropping_again_is_harmless(tmp_path: Path) -> None:
    waiting = held("echo ran > ran", tmp_path)
    waiting.drop()
    waiting.drop()
    assert not lives(waiting.group.pgid)
    with pytest.raises(CommandNotStarted, match="ended before it began"):
        waiting.go()
    with pytest.raises(CommandNotStarted, match="never let go"):
        waiting.wait()
    assert not (tmp_path / "ran").exists()


def test_dropping_does_nothing_once_the_command_runs(tmp_path: Path) -> None:
    waiting = held("echo ran > ran", tmp_path)
    waiting.go()
    waiting.drop()
    assert waiting.wait() == waiting.wait()
    assert (tmp_path / "ran").exists()


def test_a_held_command_that_somebody_killed_says_so_at_go(tmp_path: Path) -> None:
    waiting = held("echo ran > ran", tmp_path)
    os.kill(waiting.group.pgid, signal.SIGKILL)
    wait_until(lambda: not lives(waiting.group.pgid))
    with pytest.raises(CommandNotStarted, match="ended before it began"):
        waiting.go()
    waiting.drop()


def test_a_command_inherits_nothing_but_its_three_files(tmp_path: Path) -> None:
    other = held("true", tmp_path)
    assert run("sh -c 'ls -l /proc/self/fd >fds 2>/dev/null'", tmp_path).exit == 0
    other.drop()
    files = [line.split(maxsplit=8)[8] for line in (tmp_path / "fds").read_text().splitlines()[1:]]
    assert files[0] == "0 -> /dev/null"
    assert len(files) == 4
    assert files[3].endswith("/fd")  # the listing itself


# -- what cannot be started ------------------------------------------------------------------------------


def test_a_folder_that_is_missing_or_no_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CommandNotStarted, match="nowhere does not exist"):
        held("true", tmp_path / "nowhere")
    with pytest.raises(CommandNotStarted, match="file is not a folder"):
        held("true", tmp_path / "file")


@pytest.mark.parametrize(
    ("command", "env", "why"),
    [
        ("echo \0", {}, "NUL"),
        ("true", {"A": "x\0"}, "cannot be passed on"),
        ("true", {"A=B": "x"}, "cannot be passed on"),
        ("true", {"A": "\ud800"}, "cannot be passed on"),
        (": " + "x" * 200_000, {}, "too long for the system"),
        ("true", {"A": "x" * 200_000}, "too long for the system"),
    ],
)
def test_a_command_that_cannot_be_passed_on_is_refused(
    tmp_path: Path, command: str, env: dict[str, str], why: str
) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(CommandNotStarted, match=why) as refused:
        held(command, tmp_path, **env)
    assert len(str(refused.value)) < 1000
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("command", ["", "-x", "--", "echo 'a b' \"c\" é 🙂\necho second", "exit 0 # \\"])
def test_any_text_is_a_command(tmp_path: Path, command: str) -> None:
    assert run(command, tmp_path).exit == (127 if command.startswith("-") else 0)


def test_the_environment_is_the_one_given_and_no_other(tmp_path: Path) -> None:
    waiting = hold("env > env", cwd=tmp_path, env={"A": "1\n2", "PATH": os.environ["PATH"]}, output=None)
    waiting.go()
    waiting.wait()
    lines = (tmp_path / "env").read_text().splitlines()
    assert {line.partition("=")[0] for line in lines} - {"PWD", "SHLVL", "_", "OLDPWD"} == {"A", "2", "PATH"}


# -- how it ends -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("command", "code"), [("exit 3", 3), ("kill -9 $$", 137), ("kill -TERM $$", 143)])
def test_the_exit_code_is_the_shells(tmp_path: Path, command: str, code: int) -> None:
    ended = run(command, tmp_path)
    assert (ended.how, ended.exit, ended.stragglers, ended.left) == ("exited", code, (), 0)


def test_a_command_that_takes_too_long_is_ended_with_all_it_started(tmp_path: Path) -> None:
    ended = run("sleep 300 & echo $! > pid; sleep 300 | cat", tmp_path, timeout=0.3)
    assert (ended.how, ended.exit) == ("timed_out", 143)
    assert 0.3 <= ended.seconds < 5
    assert not lives(number_in(tmp_path / "pid"))


def test_a_command_that_is_asked_to_stop_ends(tmp_path: Path) -> None:
    stop = threading.Event()
    waiting = held("echo $$ > pid; " + FOREVER, tmp_path)
    waiting.go()
    threading.Thread(target=lambda: number_in(tmp_path / "pid") and stop.set()).start()
    ended = waiting.wait(stop=stop.is_set)
    assert (ended.how, ended.exit) == ("stopped", 143)


def test_a_command_that_ignores_term_is_killed(tmp_path: Path) -> None:
    ended = run(DEAF, tmp_path, stop=(tmp_path / "pid").exists, patience=0.2)
    assert (ended.how, ended.exit, ended.left) == ("stopped", 137, 0)


def test_a_command_may_clean_up_before_it_ends(tmp_path: Path) -> None:
    command = "trap 'sleep 0.1; echo cleaned > cleaned; exit 4' TERM; echo $$ > pid; while :; do sleep 0.05; done"
    ended = run(command, tmp_path, stop=(tmp_path / "pid").exists)
    assert (ended.how, ended.exit) == ("stopped", 4)
    assert (tmp_path / "cleaned").exists()


def test_a_stopped_command_wakes_to_end(tmp_path: Path) -> None:
    ended = run("echo $$ > pid; kill -STOP $$", tmp_path, stop=(tmp_path / "pid").exists)
    assert (ended.how, ended.exit) == ("stopped", 143)


def test_what_a_command_leaves_in_the_background_is_ended_and_named(tmp_path: Path) -> None:
    ended = run("sleep 300 & echo $! > pid; exit 7", tmp_path)
    pid = number_in(tmp_path / "pid")
    assert (ended.how, ended.exit, ended.stragglers) == ("exited", 7, ((pid, "sleep 300"),))
    assert not lives(pid)


def test_a_background_process_that_ends_by_itself_is_not_counted(tmp_path: Path) -> None:
    ended = run("sleep 0.05 & exit 0", tmp_path, grace=20)
    assert (ended.exit, ended.stragglers) == (0, ())


def test_a_tool_that_opens_a_group_of_its_own_does_not_escape(tmp_path: Path) -> None:
    ended = run("timeout 300 sh -c 'echo $$ > pid; sleep 300'; true", tmp_path, stop=(tmp_path / "pid").exists)
    assert ended.how == "stopped"
    assert not lives(number_in(tmp_path / "pid"))


def test_what_leaves_by_setsid_is_on_its_own(tmp_path: Path) -> None:
    ended = run("setsid sh -c 'echo $$ > pid; exec sleep 300' & while [ ! -s pid ]; do sleep 0.01; done", tmp_path)
    daemon = number_in(tmp_path / "pid")
    assert lives(daemon)
    os.kill(daemon, signal.SIGKILL)
    assert (ended.how, ended.exit, ended.stragglers) == ("exited", 0, ())


@pytest.mark.parametrize("kind", [ValueError, Stopped])
def test_what_is_raised_while_waiting_ends_the_command_first(tmp_path: Path, kind: type[BaseException]) -> None:
    def broken() -> bool:
        raise kind(str(number_in(tmp_path / "pid")))

    with pytest.raises(kind, match=r"^[0-9]+$") as raised:
        run("echo $$ > pid; " + FOREVER, tmp_path, stop=broken)
    assert not lives(int(str(raised.value)))


def test_where_the_end_cannot_be_waited_for_it_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: Any) -> int:
        raise PermissionError

    monkeypatch.setattr(os, "pidfd_open", forbidden)
    assert run("sleep 0.1; exit 3", tmp_path).exit == 3
    assert run("sleep 300", tmp_path, timeout=0.1).how == "timed_out"


def test_an_exit_code_that_somebody_else_took_is_not_made_up(tmp_path: Path) -> None:
    waiting = held("exit 3", tmp_path)
    waiting.go()
    os.waitpid(waiting.group.pgid, 0)
    ended = waiting.wait()
    assert (ended.how, ended.exit) == ("exited", None)


def test_twenty_commands_at_once_leave_no_file_open(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with ThreadPoolExecutor(20) as pool:
        ended = list(pool.map(lambda code: run(f"sleep 0.1; exit {code}", tmp_path), range(20)))
    assert [each.exit for each in ended] == list(range(20))
    assert len(os.listdir("/proc/self/fd")) == before


# -- Ctrl-C ----------------------------------------------------------------------------------------------


def test_ctrl_c_for_the_runtime_does_not_reach_the_command(start: Any, tmp_path: Path) -> None:
    command = "trap 'echo hit > hit' INT; echo $$ > pid; while [ ! -e over ]; do sleep 0.02; done"
    runtime = start(command, deaf=True).started()
    number_in(tmp_path / "pid")
    os.killpg(runtime.process.pid, signal.SIGINT)
    runtime.hear("deaf")
    (tmp_path / "over").touch()
    assert runtime.hear("ended")[1:3] == ["exited", 0]
    assert not (tmp_path / "hit").exists()


def test_ctrl_c_in_the_waiting_thread_stops_and_a_second_one_kills(start: Any, tmp_path: Path) -> None:
    command = "trap 'echo hit > hit' TERM; echo $$ > pid; while :; do sleep 0.05; done"
    runtime = start(command, patience=600).started()
    number_in(tmp_path / "pid")
    wait_until(lambda: sleeps(runtime.process.pid), "waiting")  # it may still be saying that it started
    runtime.process.send_signal(signal.SIGINT)
    wait_until((tmp_path / "hit").exists, "TERM")
    assert lives(runtime.groups[0].pgid)
    runtime.process.send_signal(signal.SIGINT)
    assert runtime.hear("ended")[1:3] == ["stopped", 137]


# -- after a crash ---------------------------------------------------------------------------------------


def orphan(start: Any, tmp_path: Path, command: str) -> tuple[Group, int]:
    """A group whose runtime was killed, with nobody to guard it, and the pid that the command wrote."""
    runtime = start(command, wait=False).started()
    pid = number_in(tmp_path / "pid")
    runtime.kill()
    return runtime.groups[0], pid


def test_an_orphaned_command_is_found_and_ended(start: Any, tmp_path: Path, me: Process) -> None:
    group, pid = orphan(start, tmp_path, "echo $$ > pid; " + FOREVER)
    assert alive(group, me) is True
    assert end_group(group, me) is True
    assert not lives(pid)
    assert alive(group, me) is False
    assert end_group(group, me) is True


def test_an_orphan_that_ignores_term_is_killed(start: Any, tmp_path: Path, me: Process) -> None:
    group, pid = orphan(start, tmp_path, DEAF)
    assert end_group(group, me, patience=0.1) is True
    assert not lives(pid)


def test_orphans_without_their_leader_are_known_by_their_environment(tmp_path: Path, me: Process) -> None:
    leaderless = held(ORPHAN, tmp_path, OUTLAST_RUN="é")
    leaderless.go()
    os.waitpid(leaderless.group.pgid, 0)
    pid, group = number_in(tmp_path / "pid"), leaderless.group
    for other in ("OUTLAST_RUN=another", "OUTLAST_RUN=", ""):
        assert alive(group._replace(marker=other), me) is False
        assert end_group(group._replace(marker=other), me) is True
    assert lives(pid)
    assert alive(group, me) is True
    assert end_group(group, me) is True
    assert not lives(pid)
    assert leaderless.wait().exit is None


def test_a_later_process_with_the_same_id_is_not_ours(tmp_path: Path, me: Process) -> None:
    waiting = held("true", tmp_path)
    later = waiting.group._replace(started=waiting.group.started - 1)
    assert alive(waiting.group, me) is True
    assert alive(later, me) is False
    assert end_group(later, me) is True
    assert lives(waiting.group.pgid)
    waiting.drop()


def test_a_group_of_another_place_cannot_be_known(tmp_path: Path, me: Process) -> None:
    waiting = held("true", tmp_path)
    group = waiting.group
    assert alive(group._replace(pid_namespace="pid:[1]"), me) is None
    assert alive(group._replace(boot_id="other", machine_id="elsewhere"), me) is None
    assert alive(group._replace(boot_id="other", machine_id=""), me) is None  # the same host name proves nothing
    assert alive(group._replace(boot_id=""), me) is None
    assert alive(group._replace(boot_id="other", machine_id="m"), replace(me, machine_id="m")) is False
    assert end_group(group._replace(pid_namespace="pid:[1]"), me) is False
    assert lives(group.pgid)
    waiting.drop()


def test_a_group_from_before_a_reboot_is_gone(tmp_path: Path, me: Process) -> None:
    waiting = held("true", tmp_path)
    assert alive(waiting.group._replace(boot_id="before"), me) is False
    assert end_group(waiting.group._replace(boot_id="before"), me) is True
    assert lives(waiting.group.pgid)
    waiting.drop()


def test_a_dead_process_that_nobody_reaped_does_not_count_as_alive(tmp_path: Path, me: Process) -> None:
    waiting = held("exit 0", tmp_path)
    waiting.go()
    wait_until(lambda: not lives(waiting.group.pgid))
    assert alive(waiting.group, me) is False
    assert waiting.wait().exit == 0


def test_nobody_ends_the_session_he_is_in() -> None:
    """Asked from inside a session of its own: the leader of ours may live where nobody here sees it, as pid 0."""
    asking = """
import os
from pathlib import Path
from outlast.ids import random_id
from outlast.commands.process import Group, alive, end_group
from outlast.home.process import this_process
me = this_process(random_id)
started = int(Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()[19])
ourselves = Group(me.host, me.boot_id, me.pid_namespace, os.getpid(), started)
print(os.getsid(0) == os.getpid(), alive(ourselves, me), end_group(ourselves, me))
"""
    told = subprocess.run(
        [sys.executable, "-c", asking], start_new_session=True, capture_output=True, text=True, timeout=60, check=True
    )
    assert told.stdout.split() == ["True", "True", "False"]


def test_a_group_survives_being_written_down(tmp_path: Path) -> None:
    waiting = held("true", tmp_path, OUTLAST_RUN="é 🙂")
    waiting.drop()
    assert waiting.group.marker == "OUTLAST_RUN=é 🙂"
    assert Group.from_facts(waiting.group.to_facts()) == waiting.group


@pytest.mark.parametrize("change", [{"pgid": 0}, {"pgid": -1}, {"pgid": 1}, {"pgid": "2"}, {"host": 1}, {"more": 1}])
def test_facts_that_are_no_group_are_refused(change: dict[str, Any]) -> None:
    facts = Group("host", "boot", "ns", 5, 6, "A=b").to_facts()
    with pytest.raises(Invalid, match="no process group"):
        Group.from_facts(facts | change)


def test_seconds_are_those_of_the_command(tmp_path: Path) -> None:
    began = time.monotonic()
    ended = run("sleep 0.2", tmp_path)
    assert 0.2 <= ended.seconds <= time.monotonic() - began
