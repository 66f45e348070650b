"""Running, stopping and continuing by the command line: what is printed, and the exit codes."""

import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.doors.conftest import Cli

OUTCOME = {
    *("run_id", "status", "result", "interrupts", "error", "verdict", "replayed_steps", "unasked", "stopped_by"),
    *("replayed", "redelivered", "notes", "holder"),
}
InDoubt = Callable[[], str]


def test_a_run_prints_its_result_and_exits_0(cli: "Cli") -> None:
    answer = cli("run", "flows.py:report", "topic=ai")
    assert (answer.code, answer.out.splitlines()[-1]) == (0, 'result: {"link": "published ai AI"}')
    assert "publish succeeded" in answer.err


def test_json_is_one_object_also_when_the_flow_prints(cli: "Cli") -> None:
    answer = cli("run", "flows.py:report", '{"topic": "ai"}', "--json")
    assert set(answer.json) == OUTCOME
    assert answer.json["result"] == {"link": "published ai AI"}
    assert "looking" in answer.err


def test_a_killed_run_is_continued_by_the_same_command(cli: "Cli") -> None:
    cli.stop(cli.start_until("draft", "run", "flows.py:report", "topic=ai", SLOW="60"), signal.SIGKILL)
    answer = cli("run", "flows.py:report", "topic=ai", "--json")
    assert (answer.code, answer.json["replayed_steps"]) == (0, 1)
    assert cli.diary == ["find", "draft", "draft", "publish"]


def test_resume_without_a_name_takes_the_one_run_that_can_go_on(cli: "Cli") -> None:
    cli.stop(cli.start_until("draft", "run", "flows.py:report", "topic=ai", SLOW="60"), signal.SIGKILL)
    answer = cli("resume", "--json")
    assert (answer.code, answer.json["status"], answer.json["verdict"]["word"]) == (0, "succeeded", "candidate")
    assert cli("resume").code == 2


def test_resume_without_a_name_lists_several_and_exits_2(cli: "Cli") -> None:
    runs = [cli("run", f"flows.py:{name}", "--json").json["run_id"] for name in ("sleeper", "broken")]
    answer = cli("resume")
    assert (answer.code, all(run in answer.out for run in runs)) == (2, True)
    assert cli("resume", "--json").json["error"]["code"] == "choose_one"


def test_a_run_continues_from_another_folder_of_its_project(cli: "Cli") -> None:
    assert cli("run", "flows.py:broken").code == 1  # makes the home
    inside = cli.folder / "inside"
    inside.mkdir()
    (inside / "more.py").write_text((cli.folder / "flows.py").read_text())
    assert cli("run", "more.py:sleeper", cwd=inside).code == 3
    run = cli.run_id
    assert cli("show", run, "--json").json["flow"] == "inside/more.py:sleeper"
    assert [cli("resume", run, cwd=folder).code for folder in (inside, cli.folder)] == [3, 3]


def test_a_sleeping_run_exits_3_and_says_when_to_come_back(cli: "Cli") -> None:
    answer = cli("run", "flows.py:sleeper")
    assert (answer.code, "outlast resume" in answer.out) == (3, True)


def test_a_failed_run_exits_1_and_shows_no_control_characters(cli: "Cli") -> None:
    answer = cli("run", "flows.py:broken")
    assert (answer.code, "\x1b" in answer.out + answer.err) == (1, False)
    assert r"ValueError: no \x1b[31mluck" in answer.out
    assert "\x1b" not in cli("show", cli.run_id).out


def test_a_flow_that_exits_leaves_an_interrupted_run(cli: "Cli") -> None:
    answer = cli("run", "flows.py:impatient", "--json")
    assert (answer.code, answer.json["status"]) == (130, "interrupted")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_first_signal_lets_the_step_finish(cli: "Cli", number: signal.Signals, code: int) -> None:
    child = cli.start_until("draft", "run", "flows.py:report", "topic=ai", SLOW="1")
    answer = cli.stop(child, number)
    assert (answer.code, "finishing " in answer.err) == (code, True)
    assert f"outlast resume {cli.run_id}" in answer.out
    assert (cli("resume").code, cli.diary) == (0, ["find", "draft", "publish"])


def test_the_second_signal_stops_the_step(cli: "Cli") -> None:
    child = cli.start_until("draft", "run", "flows.py:report", "topic=ai", SLOW="60")
    assert cli.stop(child, signal.SIGINT, signal.SIGINT).code == 130
    assert cli("show", cli.run_id, "--json").json["steps"][-1]["status"] == "interrupted"


def test_an_effect_in_doubt_exits_4_and_names_the_three_ways_on(cli: "Cli", in_doubt: InDoubt) -> None:
    run = in_doubt()
    plan = cli("resume", run, "--dry-run")
    answer = cli("resume", run)
    assert (plan.code, answer.code) == (0, 4)
    for words in (f"retry {run} publish", f"skip {run} publish --result JSON --why WHY", f"abort {run} --why WHY"):
        assert f"outlast {words}" in plan.out
        assert f"outlast {words}" in answer.out


def test_retry_does_the_effect_again(cli: "Cli", in_doubt: InDoubt) -> None:
    run = in_doubt()
    assert f"outlast resume {run}" in cli("retry", run, "publish", "--why", "it is not there").out
    assert cli("resume", run).code == 0
    assert cli.diary.count("publish") == 2


def test_skip_takes_the_given_result(cli: "Cli", in_doubt: InDoubt) -> None:
    run = in_doubt()
    assert cli("skip", run, "publish", "--result", "sent", "--why", "I saw it").code == 2
    assert cli("skip", run, "publish", "--result", '"sent"', "--why", "I saw it").code == 0
    assert cli("resume", run, "--json").json["result"] == {"link": "sent"}
    assert cli.diary.count("publish") == 1


def test_an_aborted_run_refuses_to_resume(cli: "Cli", in_doubt: InDoubt) -> None:
    run = in_doubt()
    assert cli("abort", run, "--why", "not wanted").code == 0
    answer = cli("resume", run, "--json")
    assert (answer.code, answer.json["error"]["code"]) == (4, "run_finished")


def test_rewind_does_a_finished_step_again(cli: "Cli", in_doubt: InDoubt) -> None:
    run = in_doubt()
    assert cli("rewind", run, "draft").code == 0
    cli("resume", run)
    assert cli.diary.count("draft") == 2


def test_other_inputs_for_an_unfinished_task_are_refused(cli: "Cli") -> None:
    cli("run", "flows.py:report", "topic=ai", "--task", "daily", DIE="1")
    answer = cli("run", "flows.py:report", "topic=bees", "--task", "daily")
    assert (answer.code, "--fresh" in answer.err, "[inputs_conflict]" in answer.err) == (4, True, True)
    assert cli("run", "flows.py:report", "topic=bees", "--task", "daily", "--fresh", "--yes").code == 0


def test_a_module_that_starts_runs_when_it_is_imported_is_refused_by_every_command(cli: "Cli") -> None:
    text = (
        "from pathlib import Path\nfrom outlast import Outlast, flow\n"
        "@flow\ndef report(run):\n    Path('published').open('a').write('x')\n    return 1\n"
        "Outlast().run(report)\n"
    )
    (cli.folder / "eager.py").write_text(text)
    for words in (("run", "eager.py:report"), ("audit", "eager.py:report")):
        answer = cli(*words, "--json")
        assert (answer.code, answer.json["error"]["code"]) == (4, "runs_on_import")
    assert not (cli.folder / "published").exists()
