"""The same command again: what was not printed is given once, an id gives back its run, a held run is waited for."""

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.doors.conftest import Cli

REPORT = ("run", "flows.py:report", "topic=ai")
LINE = "nobody received it: this call is given its outcome, once"


def test_an_outcome_that_was_not_printed_is_given_to_the_same_command_once(cli: "Cli") -> None:
    died = cli.stop(cli.start(*REPORT, OUTLAST_FAILPOINT="run.returns:1"))
    assert (died.code, "result" in died.out) == (-signal.SIGKILL, False)
    again = cli(*REPORT)
    assert (again.code, again.out.splitlines()[-1]) == (0, 'result: {"link": "published ai AI"}')
    assert LINE in again.err
    assert cli.diary == ["find", "draft", "publish"]
    later = cli(*REPORT)
    assert (later.code, LINE in later.err, cli.diary.count("publish")) == (0, False, 2)


def test_an_outcome_that_could_not_be_printed_is_not_received(cli: "Cli") -> None:
    command = [sys.executable, "-m", "outlast", *REPORT, "--json"]  # what the flow prints goes to stderr
    with open("/dev/full", "w") as full:
        told = subprocess.run(command, cwd=cli.folder, env=cli.environment(), stdout=full, stderr=subprocess.PIPE)
    assert told.returncode != 0
    again = cli(*REPORT, "--json").json
    assert (again["redelivered"], cli.diary.count("publish")) == (True, 1)


def test_json_has_a_field_for_it(cli: "Cli") -> None:
    cli.stop(cli.start(*REPORT, OUTLAST_FAILPOINT="run.returns:1"))
    given = cli(*REPORT, "--json").json
    assert (given["redelivered"], given["result"]) == (True, {"link": "published ai AI"})
    assert cli(*REPORT, "--json").json["redelivered"] is False


def test_what_a_tick_ended_is_given_to_the_same_command(cli: "Cli") -> None:
    cli.stop(cli.start_until("draft", *REPORT, SLOW="60"), signal.SIGKILL)
    assert cli("tick").code == 0
    again = cli(*REPORT, "--json").json
    assert (again["redelivered"], again["status"]) == (True, "succeeded")
    assert cli.diary.count("publish") == 1


def test_what_resume_printed_is_received(cli: "Cli") -> None:
    cli.stop(cli.start_until("draft", *REPORT, SLOW="60"), signal.SIGKILL)
    assert cli("resume").code == 0
    assert cli(*REPORT, "--json").json["redelivered"] is False
    assert cli.diary.count("publish") == 2


def test_an_operation_id_gives_back_the_run_that_it_began(cli: "Cli") -> None:
    first = cli(*REPORT, "--operation-id", "a", "--json").json
    again = cli(*REPORT, "--operation-id", "a", "--json").json
    assert (again["run_id"], again["result"], again["replayed"]) == (first["run_id"], first["result"], True)
    other = cli("run", "flows.py:report", "topic=tides", "--operation-id", "a", "--json")
    assert (other.code, other.json["error"]["code"]) == (4, "operation_conflict")
    assert cli.diary.count("publish") == 1


def test_an_operation_id_continues_a_killed_run(cli: "Cli") -> None:
    asked = (*REPORT, "--operation-id", "a")
    cli.stop(cli.start_until("draft", *asked, SLOW="60"), signal.SIGKILL)
    again = cli(*asked, "--json")
    assert (again.code, again.json["replayed_steps"]) == (0, 1)
    assert cli.diary == ["find", "draft", "draft", "publish"]


def test_a_held_run_is_named_with_its_holder_and_can_be_waited_for(cli: "Cli") -> None:
    holder = cli.start_until("draft", *REPORT, UNTIL="go")
    refused = cli(*REPORT, "--json")
    error = refused.json["error"]
    assert (refused.code, error["code"], error["run_id"]) == (4, "run_held", cli.run_id)
    assert str(holder.pid) in error["holder"]
    assert "--wait" in cli(*REPORT).err
    waits = cli.start(*REPORT, "--wait")
    assert waits.stderr is not None
    assert "waiting for it" in waits.stderr.readline()
    (cli.folder / "go").write_text("")
    done = cli.stop(waits)
    assert (done.code, done.out.splitlines()[-1]) == (0, 'result: {"link": "published ai AI"}')
    assert cli.stop(holder).code == 0
    assert cli.diary.count("publish") == 1


def test_who_waits_goes_on_with_it_when_the_holder_is_killed(cli: "Cli") -> None:
    holder = cli.start_until("draft", *REPORT, UNTIL="go")
    waits = cli.start(*REPORT, "--wait")
    assert waits.stderr is not None
    assert "waiting for it" in waits.stderr.readline()
    cli.stop(holder, signal.SIGKILL)
    assert cli.stop(waits).code == 0
    assert cli.diary == ["find", "draft", "draft", "publish"]
