"""`outlast events` and `outlast pause`: what happened in a run, also while it goes on, and asking it to stop."""

import json
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from outlast import Outlast, Run, flow
from outlast.doors.cli.logs import PAGE

from ..kit import ledgers

if TYPE_CHECKING:
    from tests.doors.conftest import Cli

InDoubt = Callable[[], str]


@flow
def talkative(run: Run, count: int) -> None:
    for number in range(count):
        run.emit("said", {"number": number})


@pytest.fixture
def many(cli: "Cli") -> "Cli":
    """A run with more events than a page holds."""
    with Outlast(cli.folder / ".outlast", store_options={"synchronous": "OFF"}) as outlast:
        outlast.run(talkative, 2 * PAGE + 7)
    return cli


def test_an_event_is_a_line_with_its_number_time_name_and_step(cli: "Cli", in_doubt: InDoubt) -> None:
    run = in_doubt()
    lines = [line.split() for line in cli("events", run).out.splitlines()]
    assert [(int(line[0]), line[3], *line[4:5]) for line in lines[1:]] == [
        (2, "step.succeeded", "find"),
        (3, "step.succeeded", "draft"),
        (4, "effect.started", "publish"),
    ]
    assert lines[0][3] == "run.started"


def test_an_error_is_told_in_words_and_steers_no_terminal(cli: "Cli") -> None:
    run = cli.here("flows.py:broken")
    shown = cli("events", run, "--after", "1").out
    assert r"run.failed        ValueError: no \x1b[31mluck\nat all" in shown


def test_a_long_journal_is_read_whole(many: "Cli") -> None:
    run = many.run_id
    found = many("events", run, "--json").json
    assert found["run_id"] == run
    numbers = [event["body"]["number"] for event in found["events"] if event["name"] == "said"]
    assert numbers == [*range(2 * PAGE + 7)]
    assert [event["seq"] for event in found["events"]] == [*range(1, len(found["events"]) + 1)]
    last = len(found["events"])
    assert many("events", run, "--after", str(last - 1)).out.split()[0] == str(last)


def test_nothing_after_the_last_one_is_said_so(cli: "Cli") -> None:
    run = cli.here("flows.py:sleeper")
    assert "after 99; its last is" in cli("events", run, "--after", "99").out
    assert cli("events", run, "--after", "99", "--json").json == {"run_id": run, "events": []}


def test_a_reader_that_has_seen_enough_is_no_error(many: "Cli") -> None:
    child = many.start("events", many.run_id)
    assert child.stdout is not None
    assert child.stderr is not None
    assert "run.started" in child.stdout.readline()
    child.stdout.close()
    assert (child.stderr.read(), child.wait(60)) == ("", 141)


def test_a_torn_record_is_named_and_the_object_stays_whole(cli: "Cli") -> None:
    run = cli.here("flows.py:sleeper")
    ledgers.change(cli.folder / ".outlast", "UPDATE journal SET payload = CAST('{torn' AS BLOB) WHERE seq = 2", rows=1)
    answer = cli("events", run, "--json")
    assert (answer.code, answer.json["error"]["code"]) == (4, "integrity_broken")
    assert f"entry {run}/2" in cli("events", run).err


def test_following_ends_when_the_run_has_ended(cli: "Cli") -> None:
    working = cli.start_until("draft", "run", "flows.py:report", "topic=ai", UNTIL="go")
    following = cli.start("events", cli.run_id, "-f", "--json")
    assert following.stdout is not None
    assert json.loads(following.stdout.readline())["name"] == "run.started"
    (cli.folder / "go").touch()
    out, err = following.communicate(timeout=60)
    assert (following.returncode, err) == (0, "")
    assert json.loads(out.splitlines()[-1])["name"] == "run.succeeded"
    assert cli.stop(working).code == 0


def test_following_a_run_that_waits_ends_at_once_and_says_where_to_look(cli: "Cli") -> None:
    run = cli.here("flows.py:sleeper")
    answer = cli("events", run, "-f")
    assert answer.code == 0
    assert answer.err == f"run {run} is waiting; see `outlast show {run}`\n"


def test_ctrl_c_ends_following_and_not_the_run(cli: "Cli") -> None:
    working = cli.start_until("draft", "run", "flows.py:report", "topic=ai", SLOW="60")
    following = cli.start("events", cli.run_id, "--follow")
    assert following.stdout is not None
    assert "run.started" in following.stdout.readline()
    following.send_signal(signal.SIGINT)
    out, err = following.communicate(timeout=60)
    assert (following.returncode, "Traceback" in out + err) == (130, False)
    assert working.poll() is None


def test_a_paused_run_stops_at_its_next_step_and_goes_on_later(cli: "Cli") -> None:
    working = cli.start_until("draft", "run", "flows.py:report", "topic=ai", UNTIL="go")
    run = cli.run_id
    answer = cli("pause", run, OUTLAST_ACTOR="ann")
    assert answer.code == 0
    assert f"outlast resume {run}" in answer.out
    assert f"outlast events {run} --follow" in answer.out
    cli.wait_for_event(run, "run.pausing")
    with cli.opened() as outlast:
        assert [each.body for each in outlast.events(run) if each.name == "run.pausing"] == [{"by": "ann"}]
    (cli.folder / "go").touch()
    assert cli.stop(working).code == 130
    refused = cli("pause", run)
    assert (refused.code, f"outlast show {run}" in refused.err) == (2, True)
    assert cli("resume", run).code == 0
    assert cli.diary == ["find", "draft", "publish"]
