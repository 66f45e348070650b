"""`outlast tick` wakes what can go on by itself, and `run --until-done` waits here for the time."""

import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from outlast import Outlast
from outlast.doors.cli.invocation import Invocation
from outlast.doors.cli.progress import Ended, until_done
from outlast.doors.cli.tick import wake
from outlast.home.settings import Settings
from outlast.python.named_flows import find_flow
from outlast.runs.find import Due

if TYPE_CHECKING:
    from tests.doors.conftest import Cli

TWO_HOURS = 7200


@pytest.fixture
def ticked(cli: "Cli") -> Callable[..., list[tuple[str, str, str | None]]]:
    """What a tick woke: run, reason, status."""

    def tick(code: int, *words: str, **env: str) -> list[tuple[str, str, str | None]]:
        answer = cli("tick", "--json", *words, **env)
        assert answer.code == code, answer
        assert answer.json["ok"] == (code == 0)
        return [(run["run_id"], run["reason"], run["status"]) for run in answer.json["runs"]]

    return tick


Ticked = Callable[..., list[tuple[str, str, str | None]]]


def test_nothing_is_due_in_an_empty_home_and_among_runs_that_only_wait(cli: "Cli") -> None:
    cli.here("flows.py:sleeper")
    answer = cli("tick")
    assert (answer.code, answer.out) == (0, "nothing is due\n")


def test_crashed_and_due_runs_go_on_and_failed_ones_are_left_to_people(cli: "Cli", ticked: Ticked) -> None:
    crashed = cli.here("flows.py:crasher", env={"DIE": "1"})
    over = cli.here("flows.py:sleeper", ago=TWO_HOURS + 60)
    cli.here("flows.py:broken")
    cli.here("flows.py:impatient")  # interrupted
    woken = {(over, "over"), (crashed, "crashed")}
    assert {(*one[:2],) for one in ticked(0, "--dry-run")} == woken
    assert {*ticked(0)} == {(*one, "succeeded") for one in woken}
    assert ticked(0) == []


def test_an_answered_run_goes_on_and_an_open_question_does_not(cli: "Cli", ticked: Ticked) -> None:
    run = cli.here("flows.py:two", env={"BREAK": "1"})
    with cli.opened() as outlast:
        assert outlast.due() == []
        first, second = outlast.interrupts(run)
        outlast.answer(first.id, {"choice": "retry"})
        assert ticked(0) == [(run, "answered", "waiting")]
        outlast.answer(second.id, {"choice": "skip", "result": "b"})
        assert ticked(0) == [(run, "answered", "succeeded")]


def test_one_that_fails_and_one_that_is_refused_do_not_stop_the_others(cli: "Cli") -> None:
    missing = cli.here("flows.py:crasher", env={"DIE": "1"})
    (cli.folder / "flows.py").rename(cli.folder / "other.py")
    last = cli.here("other.py:sleeper", ago=TWO_HOURS)
    fails = cli.here("other.py:greeting", env={"WORD": "hello", "DIE": "1"})
    answer = cli("tick", WORD="hello")
    assert answer.code == 4
    said = answer.out.splitlines()
    assert any(line.startswith(f"run {missing} had crashed; now it was refused") for line in said)
    assert f"run {fails} had crashed; now it is failed" in said
    assert f"run {last} has waited long enough; now it is succeeded" in said
    assert "[flow_not_found]" in answer.out


def test_a_failure_alone_exits_1(cli: "Cli", ticked: Ticked) -> None:
    run = cli.here("flows.py:greeting", env={"WORD": "hello", "DIE": "1"})
    assert ticked(1, WORD="hello") == [(run, "crashed", "failed")]


def test_the_third_crash_in_a_step_opens_a_question_and_the_run_is_left_alone(cli: "Cli") -> None:
    for _ in range(2):
        cli.here("flows.py:crasher", env={"DIE": "1"})
    codes = [cli("tick", DIE="1").code for _ in range(3)]  # the very first crash may have come too soon to be known
    assert (codes[0], codes[-1]) == (-signal.SIGKILL, 0)
    with cli.opened() as outlast:
        assert [wait.type for wait in outlast.interrupts()] == ["crash_loop"]
        assert outlast.due() == []


def test_a_run_that_kills_its_process_does_not_keep_the_others_from_their_turn(cli: "Cli") -> None:
    poison = cli.here("flows.py:crasher", env={"DIE": "1"})
    other = cli.here("flows.py:report", topic="ai", env={"DIE": "1"})
    assert cli("tick", "--jobs", "1", DIE="1").code == -signal.SIGKILL
    with cli.opened() as outlast:
        assert [one.run_id for one in outlast.due()] == [other, poison]


def test_a_run_that_somebody_has_is_not_due(cli: "Cli", ticked: Ticked) -> None:
    child = cli.start_until("draft", "run", "flows.py:report", "topic=ai", SLOW="60")
    assert ticked(0) == []
    cli.stop(child, signal.SIGKILL)
    assert [one[1:] for one in ticked(0)] == [("crashed", "succeeded")]


def test_a_run_that_was_taken_or_finished_meanwhile_is_no_error(cli: "Cli") -> None:
    child = cli.start_until("draft", "run", "flows.py:report", "topic=ai", UNTIL="go")
    with cli.opened() as outlast:
        due = Due(outlast.runs()[0].id, "crashed")
        found = [wake(Invocation(None, None, None, json=True), outlast, due)]
        (cli.folder / "go").touch()
        assert cli.stop(child).code == 0
        found.append(wake(Invocation(None, None, None, json=True), outlast, due))
    assert [(woken.status, woken.code) for woken in found] == [("held", 0), ("finished", 0)]


def test_two_ticks_at_once_wake_a_run_once(cli: "Cli") -> None:
    run = cli.here("flows.py:report", topic="ai", env={"DIE_IN_DRAFT": "1"})
    ticks = [cli.start("tick", "--json") for _ in range(2)]
    ended = [(*tick.communicate(timeout=60), tick.returncode) for tick in ticks]
    assert [code for *_, code in ended] == [0, 0]
    assert sum(f'"run_id":"{run}","reason":"crashed","status":"succeeded"' in out for out, *_ in ended) == 1
    assert cli.diary.count("publish") == 1


# -- side by side ------------------------------------------------------------------------------------

MORE = """
import os, time
from pathlib import Path
from outlast import Happened, Run, effect, flow, step


def die():
    if os.environ.get("DIE"):
        os.kill(os.getpid(), 9)


@step
def meet(mine: str, other: str) -> str:
    die()
    Path(mine).touch()
    while not Path(other).exists():
        time.sleep(0.01)
    return mine


@flow
def meeting(run: Run, mine: str, other: str) -> list[str]:
    return [meet(mine, other), meet(mine, mine)]


def answer():
    while not Path("answer").exists():
        time.sleep(0.01)
    return Happened("sent")


@effect(confirm=answer)
def send() -> str:
    with Path("diary.txt").open("a") as file:
        file.write("send\\n")
    die()
    return "sent"


@flow
def sending(run: Run) -> str:
    return send()
"""
SENDING = """
flow: sending
steps:
  - id: send
    run: echo send >> diary.txt; exit 9
    effect: true
    confirm: while [ ! -e answer ]; do sleep 0.02; done
"""


@pytest.fixture
def more(cli: "Cli") -> None:
    (cli.folder / "more.py").write_text(MORE)
    (cli.folder / "sending.yaml").write_text(SENDING)


def standing(cli: "Cli") -> dict[str, str]:
    with cli.opened() as outlast:
        return {run.id: run.status for run in outlast.runs()}


@pytest.mark.usefixtures("more")
def test_due_runs_go_on_side_by_side(cli: "Cli", ticked: Ticked) -> None:
    """Each of them goes on only while the other does."""
    runs = {cli.here("more.py:meeting", mine=mine, other=other, env={"DIE": "1"}) for mine, other in ("ab", "ba")}
    assert {run for run, _, status in ticked(0) if status == "succeeded"} == runs


@pytest.mark.usefixtures("more")
@pytest.mark.parametrize("kind", ["more.py:sending", "sending.yaml"])
def test_a_probe_that_hangs_holds_nobody_up_and_is_asked_again_with_the_next_tick(cli: "Cli", kind: str) -> None:
    if kind == "more.py:sending":
        hangs = cli.here(kind, env={"DIE": "1"})
    else:
        cli.stop(cli.start_until("send", "run", kind), signal.SIGKILL)
        hangs = next(iter(standing(cli)))
    other = cli.here("flows.py:crasher", env={"DIE": "1"})
    answer = cli("tick", "--jobs", "1", "--wait", "1s")
    assert answer.code == 0, answer
    assert f"run {other} had crashed; now it is succeeded" in answer.out
    assert f"run {hangs} had crashed; now it is left to the next tick" in answer.out
    assert "it still asks whether send happened" in answer.out
    (cli.folder / "answer").touch()
    assert cli("tick").code == 0
    assert (standing(cli)[hangs], cli.diary.count("send")) == ("succeeded", 1)


@pytest.mark.usefixtures("more")
@pytest.mark.parametrize(("number", "left"), [(signal.SIGTERM, 2), (signal.SIGINT, 1)], ids=["TERM", "INT"])
def test_a_tick_that_is_stopped_lets_steps_end_and_begins_no_other_run(cli: "Cli", number: int, left: int) -> None:
    first = cli.here("more.py:meeting", mine="a", other="b", env={"DIE": "1"})
    second = cli.here("flows.py:crasher", env={"DIE": "1"})
    child = cli.start("tick", "--jobs", "1")
    while not (cli.folder / "a").exists():
        assert child.poll() is None
    child.send_signal(number)
    assert child.stderr is not None
    assert child.stderr.readline().startswith("finishing meet, up to 30 s")
    (cli.folder / "b").touch()
    assert cli.stop(child).code == 128 + number
    assert standing(cli) == {first: "interrupted", second: "crashed"}
    with cli.opened() as outlast:
        assert len(outlast.due()) == left
        assert [receipt.status for receipt in outlast.receipts(first)][-1] == "succeeded"


def test_a_quiet_tick_tells_only_what_is_wrong(cli: "Cli") -> None:
    assert cli("tick", "--quiet").out == ""
    cli.here("flows.py:crasher", env={"DIE": "1"})
    answer = cli("tick", "--quiet")
    assert (answer.code, answer.out, answer.err) == (0, "", "")
    fails = cli.here("flows.py:greeting", env={"WORD": "hello", "DIE": "1"})
    cli.here("flows.py:crasher", env={"DIE": "1"})
    answer = cli("tick", "--quiet", WORD="hello")
    assert (answer.code, answer.out.startswith(f"run {fails} had crashed; now it is failed")) == (1, True)
    assert "succeeded" not in answer.out


def test_what_was_left_more_than_a_week_ago_is_woken_only_with_all(cli: "Cli", ticked: Ticked) -> None:
    old = cli.here("flows.py:crasher", env={"DIE": "1"}, ago=8 * 86_400)
    answer = cli("tick")
    assert (answer.code, "1 run left more than a week ago" in answer.out) == (0, True)
    assert cli("tick", "--json").json == {"ok": True, "runs": [], "old": [old]}
    assert ticked(0, "--all") == [(old, "crashed", "succeeded")]


@pytest.mark.parametrize("words", [("--jobs", "0"), ("--wait", "soon"), ("--wait", "-1")])
def test_what_is_no_number_or_time_is_refused(cli: "Cli", words: tuple[str, str]) -> None:
    answer = cli("tick", *words)
    assert (answer.code, words[0] in answer.err) == (2, True)


# -- until done ----------------------------------------------------------------------------------------


def test_until_done_sleeps_here_and_ends_with_the_run(cli: "Cli") -> None:
    cli.here("flows.py:sleeper", ago=TWO_HOURS - 4)
    answer = cli("run", "flows.py:sleeper", "--until-done")
    assert (answer.code, "sleeps until" in answer.err, "succeeded" in answer.out) == (0, True, True)


def test_until_done_stops_where_more_than_time_is_needed(cli: "Cli") -> None:
    answer = cli("run", "flows.py:both", "--until-done", BREAK="1")
    assert (answer.code, answer.out.count("waits: ")) == (3, 2)


def test_ctrl_c_leaves_the_run_asleep(cli: "Cli") -> None:
    child = cli.start("run", "flows.py:sleeper", "--until-done")
    assert child.stderr is not None
    assert "sleeps until" in child.stderr.readline()
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert (child.returncode, "Traceback" in err + out) == (130, False)
    with cli.opened() as outlast:
        assert [run.status for run in outlast.runs()] == ["waiting"]


def test_a_run_that_another_process_was_quicker_with_is_told_as_it_stands(cli: "Cli") -> None:
    settings = Settings(sleep_in_place_seconds=0)
    with Outlast(cli.folder / ".outlast", settings=settings) as outlast, cli.opened() as other:
        first = outlast.run(find_flow(f"{cli.folder / 'flows.py'}:moment", str(outlast.home)))

        def too_late(run_id: str) -> Ended:
            assert other.resume(run_id).status == "succeeded"
            return outlast.resume(run_id), 0

        outcome, signal = until_done(outlast, (first, 0), too_late, quiet=True)
    assert (first.status, outcome.status, outcome.result, signal) == ("waiting", "succeeded", "rested", 0)


def test_a_queued_run_that_nobody_took_in_time_ends_and_others_stay_in_their_queue(cli: "Cli", ticked: Ticked) -> None:
    with cli.opened() as outlast:
        flow = find_flow(str(cli.folder / "flows.py:sleeper"))
        late = outlast.with_options(queue="q", queue_timeout=0.001).start(flow, task="late").run_id
        left = outlast.with_options(queue="q").start(flow, task="left").run_id
        assert ticked(0, "--dry-run") == [(late, "not_taken", None)]
        assert outlast.get(late).status == "queued"
        assert ticked(0, "--scope", "elsewhere") == []
        assert ticked(0) == [(late, "not_taken", "aborted")]
        assert (outlast.get(late).error["type"], outlast.get(left).status) == ("queue_timed_out", "queued")  # type: ignore[index]
        assert cli("tick").out == "nothing is due\n"
