"""When somebody else's lease may be taken."""

import os
import signal
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from outlast.clock import ManualClock
from outlast.home.process import is_alive, is_stopped, started_at, this_process
from outlast.ids import counted
from outlast.ledger.lease import Beat, Process, can_be_probed, is_over

ME = Process("me", "host", "boot", "pid:[1]", 1, 10)
HOLDER = Process("holder", "host", "boot", "pid:[1]", 2, 20)
SECOND = 1_000_000
BEAT = Beat(HOLDER, boot_us=100 * SECOND, wall_us=500 * SECOND, lease_seconds=30.0)

processes = st.builds(
    Process,
    st.just("p"),
    st.just("host"),
    st.sampled_from(["", "boot", "other boot"]),
    st.sampled_from(["", "pid:[1]", "pid:[2]"]),
    st.integers(1, 3),
    st.integers(1, 3),
)
times = st.integers(0, 1_000 * SECOND)


def over(
    *,
    alive: bool | None,
    stopped: bool = False,
    me: Process = ME,
    beat: Beat = BEAT,
    boot: float = 100,
    wall: float = 500,
) -> bool:
    boot_us, wall_us = int(boot * SECOND), int(wall * SECOND)
    return is_over(beat, me, alive=alive, stopped=stopped, boot_us=boot_us, wall_us=wall_us)


def test_a_dead_owner_is_taken_over_at_once() -> None:
    assert over(alive=False)


def test_a_living_or_unknown_owner_is_left_alone_within_its_lease() -> None:
    assert not over(alive=True, boot=129)
    assert not over(alive=None, boot=129)


def test_silence_is_only_too_long_past_the_lease_time() -> None:
    assert not over(alive=None, boot=130)
    assert over(alive=None, boot=130.000001)


def test_an_owner_that_is_seen_to_live_and_says_nothing_is_taken_over_after_four_leases() -> None:
    assert not over(alive=True, boot=220)
    assert over(alive=True, boot=220.000001)


def test_a_stopped_owner_is_taken_over_past_its_lease() -> None:
    assert not over(alive=True, stopped=True, boot=130)
    assert over(alive=True, stopped=True, boot=130.000001)


def test_nobody_outlives_a_reboot_of_the_same_machine_whatever_the_clock_says() -> None:
    me, beat = rebooted("machine", "machine")
    assert over(alive=None, me=me, beat=beat, boot=0, wall=500)
    assert over(alive=None, me=me, beat=beat, boot=0, wall=-500_000)  # and the clock was set back


@pytest.mark.parametrize(("mine", "theirs"), [("machine", "other"), ("", ""), ("machine", ""), ("", "machine")])
def test_of_another_or_unknown_machine_only_time_ends_the_lease(mine: str, theirs: str) -> None:
    me, beat = rebooted(mine, theirs)
    assert not over(alive=None, me=me, beat=beat, boot=0, wall=-500_000)
    assert not over(alive=None, me=me, beat=beat, boot=0, wall=530)
    assert over(alive=None, me=me, beat=beat, boot=0, wall=531)


def test_an_unknown_boot_proves_no_reboot() -> None:
    me, beat = rebooted("machine", "machine", boot="")
    assert not over(alive=None, me=me, beat=beat, boot=0, wall=530)


def test_equal_host_names_prove_nothing() -> None:
    elsewhere = replace(HOLDER, boot_id="other boot", machine_id="other")
    assert elsewhere.host == ME.host
    assert not over(alive=False, beat=replace(BEAT, process=elsewhere), wall=530)


def rebooted(mine: str, theirs: str, boot: str = "next boot") -> tuple[Process, Beat]:
    holder = replace(HOLDER, machine_id=theirs)
    return replace(ME, machine_id=mine, boot_id=boot), replace(BEAT, process=holder)


def test_on_one_boot_the_wall_clock_does_not_count() -> None:
    assert not over(alive=None, wall=500_000)
    assert over(alive=None, boot=131, wall=-500_000)


@pytest.mark.parametrize("boot_id", ["another boot", ""])
def test_across_boots_only_the_wall_clock_counts(boot_id: str) -> None:
    me = replace(ME, boot_id=boot_id)
    assert not over(alive=None, me=me, boot=999, wall=530)
    assert over(alive=None, me=me, boot=0, wall=531)


@pytest.mark.parametrize("elsewhere", [replace(ME, boot_id="other"), replace(ME, pid_namespace="pid:[2]")])
def test_a_pid_that_is_not_ours_to_look_up_proves_nothing(elsewhere: Process) -> None:
    assert not can_be_probed(HOLDER, elsewhere)
    assert not over(alive=False, me=elsewhere)


@pytest.mark.parametrize("blank", [{"boot_id": ""}, {"pid_namespace": ""}])
def test_two_unknown_places_are_not_the_same_place(blank: dict[str, str]) -> None:
    assert not can_be_probed(replace(HOLDER, **blank), replace(ME, **blank))  # type: ignore[arg-type]


def test_a_holder_without_a_pid_is_nobody_to_look_up_and_only_time_ends_its_lease() -> None:
    nobody = replace(HOLDER, pid=0, started=0)
    beat = replace(BEAT, process=nobody)
    assert not can_be_probed(nobody, ME)
    assert is_alive(nobody, ME) is None
    assert not over(alive=False, beat=beat, boot=130)
    assert over(alive=None, beat=beat, boot=131)


@given(processes, processes, times, times, times, times, st.sampled_from([True, None]))
def test_without_proof_of_death_nobody_is_taken_over_early(
    holder: Process, me: Process, boot: int, wall: int, later_boot: int, later_wall: int, alive: bool | None
) -> None:
    beat = Beat(holder, boot, wall, 30.0)
    if is_over(beat, me, alive=alive, boot_us=boot + later_boot, wall_us=wall + later_wall):
        assert max(later_boot, later_wall) > 30 * SECOND


@given(processes, processes, times, times, st.sampled_from([True, False, None]), st.integers(0, 100))
def test_a_lease_that_is_over_stays_over(
    holder: Process, me: Process, boot: int, wall: int, alive: bool | None, more: int
) -> None:
    beat = Beat(holder, 0, 0, 30.0)
    if is_over(beat, me, alive=alive, boot_us=boot, wall_us=wall):
        assert is_over(beat, me, alive=alive, boot_us=boot + more, wall_us=wall + more)


def test_a_clock_set_back_does_not_end_a_lease_on_one_boot() -> None:
    clock = ManualClock()
    beat = Beat(HOLDER, clock.boot(), clock.now(), 30.0)
    clock.advance(10)
    clock.set_back(3_600)
    assert not is_over(beat, ME, alive=None, boot_us=clock.boot(), wall_us=clock.now())
    clock.advance(21)
    assert is_over(beat, ME, alive=None, boot_us=clock.boot(), wall_us=clock.now())


def test_a_process_knows_itself_to_be_alive_and_a_reused_pid_to_be_another() -> None:
    me = this_process(counted("p"))
    assert is_alive(me, me) is True
    assert is_alive(replace(me, started=me.started + 1), me) is False
    assert is_alive(replace(me, boot_id="other"), me) is None
    assert is_alive(replace(me, pid=2**22 + 1), me) is False


def test_a_process_that_was_stopped_is_seen_to_be_and_one_that_goes_on_is_not() -> None:
    me = this_process(counted("p"))
    other = subprocess.Popen(["sleep", "60"])
    try:
        holder = replace(me, pid=other.pid, started=started_at(other.pid) or 0)
        assert (is_alive(holder, me), is_stopped(holder, me)) == (True, False)
        other.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, other.pid, os.WSTOPPED | os.WNOWAIT)
        assert (is_alive(holder, me), is_stopped(holder, me)) == (True, True)
        assert not is_stopped(replace(holder, pid_namespace="pid:[elsewhere]"), me)
    finally:
        other.kill()
        other.wait()
