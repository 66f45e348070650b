"""Who claims: the shell at a real terminal, this process, or nobody."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from outlast.home.claimer import nobody, same_claimer, terminal_leader
from outlast.home.process import is_alive, machine_id, started_at, this_place, this_process
from outlast.ids import random_id
from outlast.ledger.lease import Beat, Process, is_over

from ..kit.commands import PATIENCE_SECONDS, lives, wait_until

ASK = """
import json, os, sys, time
from msgspec import to_builtins
from outlast.home.claimer import terminal_leader
from outlast.home.process import started_at
while sys.argv[1:] and started_at(int(sys.argv[1])) is not None:
    time.sleep(0.005)
print(json.dumps([os.getpid(), os.getsid(0), to_builtins(terminal_leader())]), flush=True)
"""
# Leads a session of its own, takes the terminal, and does what it is told.
LEADER = """
import fcntl, os, signal, subprocess, sys, termios
signal.signal(signal.SIGHUP, signal.SIG_IGN)  # of the session's members: they outlive it
ask, terminal, what = sys.argv[1:]
if terminal:
    fcntl.ioctl(os.open(terminal, os.O_RDWR | os.O_NOCTTY), termios.TIOCSCTTY, 0)
if what == "itself":
    sys.argv[1:] = []
    exec(ask)
elif what == "leave":
    subprocess.Popen([sys.executable, "-c", ask, str(os.getpid())])
elif what == "elsewhere":
    subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", ask], check=True)
else:
    for _ in range(2):
        subprocess.run([sys.executable, "-c", ask], check=True)
    sys.stdin.read()
"""


def can_make_namespaces() -> bool:
    try:
        made = subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "true"], capture_output=True, check=False)
    except OSError:
        return False
    return made.returncode == 0


NO_NAMESPACES = not can_make_namespaces()


class Session:
    """A session of its own, at a real terminal if it is given one, in which a command asks who claims."""

    def __init__(self, terminal: str, what: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", LEADER, ASK, terminal, what],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    def hear(self) -> tuple[int, int, Process | None]:
        """The command's pid, its session, and who it thinks leads it."""
        assert self.process.stdout is not None
        pid, session, found = json.loads(self.process.stdout.readline())
        return pid, session, None if found is None else Process(**found)

    def close(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_SECONDS)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


@pytest.fixture
def terminal() -> Iterator[str]:
    ours, theirs = os.openpty()
    yield os.ttyname(theirs)
    os.close(ours)
    os.close(theirs)


@pytest.fixture
def session() -> Iterator[Any]:
    made: list[Session] = []

    def one(terminal: str, what: str = "ask") -> Session:
        made.append(Session(terminal, what))
        return made[-1]

    yield one
    for each in made:
        each.close()


@pytest.fixture
def me() -> Process:
    return this_process(random_id)


# -- at a terminal -----------------------------------------------------------------------------------------


def test_every_command_at_one_terminal_is_the_same_claimer(terminal: str, session: Any) -> None:
    shell = session(terminal)
    (first, _, one), (second, _, other) = shell.hear(), shell.hear()
    assert first != second
    assert one is not None
    begun = started_at(shell.process.pid)
    assert one == other == Process("", *this_place(), shell.process.pid, begun or -1, machine_id())
    assert same_claimer(one, other)


def test_the_claim_of_a_closed_terminal_is_over_at_once(terminal: str, session: Any, me: Process) -> None:
    shell = session(terminal)
    _, _, leader = shell.hear()
    assert leader is not None
    assert is_alive(leader, me) is True
    beat = Beat(leader, 0, 0, 900.0)
    assert not is_over(beat, me, alive=is_alive(leader, me), boot_us=1, wall_us=1)
    os.kill(shell.process.pid, signal.SIGKILL)
    wait_until(lambda: not lives(shell.process.pid))
    assert is_over(beat, me, alive=is_alive(leader, me), boot_us=1, wall_us=1)


def test_two_terminals_are_two_claimers(terminal: str, session: Any) -> None:
    ours, theirs = os.openpty()
    _, _, one = session(terminal).hear()
    _, _, other = session(os.ttyname(theirs)).hear()
    os.close(ours)
    os.close(theirs)
    assert one is not None
    assert other is not None
    assert not same_claimer(one, other)


def test_a_command_without_a_terminal_is_bound_to_no_process(session: Any) -> None:
    shell = session("")
    _, leads, leader = shell.hear()
    assert leads == shell.process.pid
    assert leader is None


def test_a_command_that_leads_its_terminal_itself_is_bound_to_no_process(terminal: str, session: Any) -> None:
    pid, leads, leader = session(terminal, "itself").hear()
    assert pid == leads
    assert leader is None


def test_a_leader_that_is_gone_claims_nothing(terminal: str, session: Any) -> None:
    shell = session(terminal, "leave")
    shell.process.wait(PATIENCE_SECONDS)
    pid, leads, leader = shell.hear()
    assert leads == shell.process.pid != pid
    assert leader is None


@pytest.mark.skipif(NO_NAMESPACES, reason="PID namespaces cannot be made here")
def test_a_leader_in_another_pid_namespace_claims_nothing(terminal: str, session: Any) -> None:
    _, leads, leader = session(terminal, "elsewhere").hear()
    assert leads == 0
    assert leader is None


def test_this_very_process_gets_an_answer_wherever_it_runs() -> None:
    leader = terminal_leader()
    assert leader is None or (leader.pid, leader.id) == (os.getsid(0), "")


# -- nobody, and who is who --------------------------------------------------------------------------------


def test_nobody_is_here_and_cannot_be_looked_up(me: Process) -> None:
    assert (nobody().host, nobody().boot_id, nobody().pid_namespace) == this_place()
    assert is_alive(nobody(), me) is None
    assert not same_claimer(nobody(), nobody())


def test_a_process_is_known_by_boot_namespace_pid_and_start_and_not_by_its_id(me: Process) -> None:
    assert same_claimer(me, replace(me, id="another", host="renamed"))
    for other in ({"boot_id": "other"}, {"pid_namespace": "pid:[1]"}, {"pid": me.pid + 1}, {"started": 1}):
        assert not same_claimer(me, replace(me, **other))


@pytest.mark.parametrize("blank", [{"boot_id": ""}, {"pid_namespace": ""}])
def test_two_unknown_places_are_not_the_same_place(me: Process, blank: dict[str, str]) -> None:
    assert not same_claimer(replace(me, **blank), replace(me, **blank))  # type: ignore[arg-type]
