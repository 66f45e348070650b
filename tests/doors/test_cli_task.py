"""`outlast task` as it is used: opened, paused, resumed by one, completed by what is shown. Real processes."""

import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from .repository import CHECK, GOOD, Repository, Shell

if TYPE_CHECKING:
    from tests.doors.conftest import Answer, Cli


@pytest.fixture
def repo(cli: "Cli") -> Repository:
    return Repository(cli)


@pytest.fixture
def terminal(repo: Repository) -> Iterator[Shell]:
    opened = Shell(repo)
    yield opened
    opened.close()


def task(repo: Repository, *words: str, **env: str) -> "Answer":
    return repo.forked("task", *words, **env)


def allowed(found: Any) -> list[str]:
    return [each["name"] for each in found["allowed_actions"] if each["allowed"]]


def test_a_day_in_the_life_of_a_task(cli: "Cli", repo: Repository) -> None:
    opened = cli("task", "open", "fix limit", "--meta", '{"ticket": 12}')
    assert (opened.code, opened.err) == (0, "")
    assert "task fix limit is active" in opened.out
    assert "outlast task inspect 'fix limit'" in opened.out

    paused = task(repo, "pause", "fix limit", *GOOD, "--must-keep", "the public names")
    assert paused.code == 0, paused
    assert "task fix limit paused: task:fix limit@1" in paused.out
    assert "outlast task resume 'fix limit'" in paused.out

    resumed = task(repo, "resume", "fix limit", "--actor", "ann", "--json")
    assert resumed.code == 0, resumed
    claim = resumed.json["claim"]["id"]
    assert resumed.json["recovered"]["verdict"] == "trusted"
    second = task(repo, "resume", "fix limit", "--actor", "bob")
    assert (second.code, "claimed by ann" in second.err, claim in second.err) == (4, True, False)

    looked = task(repo, "inspect", "fix limit")
    assert looked.code == 0
    assert "state     resumed" in looked.out
    assert "claimed by ann" in looked.out
    assert "pause" in allowed(task(repo, "inspect", "fix limit", "--claim-id", claim, "--json").json)

    complete = ("complete", "fix limit", "--ack", "the public names")
    refused = task(repo, *complete, OUTLAST_CLAIM=claim)
    assert (refused.code, "not_settled" in refused.err, "--override WHY" in refused.err) == (4, True, True)
    repo.write("limit = 2\n")
    done = task(repo, *complete, "--claim-id", claim)
    assert done.code == 0, done
    assert "task fix limit completed" in done.out
    assert f"{CHECK}: passed" in done.out

    found = task(repo, "inspect", "fix limit", "--json").json
    assert (found["state"], allowed(found), found["meta"]) == ("completed", ["reopen"], {"ticket": 12})
    late = task(repo, "event", "fix limit", "late")
    assert (late.code, "--reopen" in late.err) == (4, True)
    assert "--reopen" in task(repo, "open", "fix limit").out
    assert task(repo, "open", "fix limit", "--reopen", "--json").json["state"] == "active"


def test_a_terminal_is_one_worker(repo: Repository, terminal: Shell) -> None:
    assert task(repo, "pause", "t", *GOOD).code == 0
    in_it = f"--help >/dev/null; {sys.executable} -m outlast task"  # the shell begins with `outlast handoff`
    assert terminal(f"{in_it} resume t")[0] == 0
    assert terminal(f"{in_it} resume t")[0] == 0
    found = task(repo, "inspect", "t", "--json").json
    assert found["state"] == "resumed"
    assert not {"pause", "resume", "complete"} & {*allowed(found)}
    assert terminal(f"{in_it} inspect t | grep -q 'pause *yes'")[0] == 0
    terminal.close()
    found = task(repo, "inspect", "t", "--json").json
    assert {"pause", "resume", "complete"} < {*allowed(found)}


def test_inspect_has_every_field_and_looks_only(repo: Repository) -> None:
    task(repo, "pause", "limits", *GOOD, "--actor", "ann")
    found = task(repo, "inspect", "limits", "--history", "1", "--json").json
    assert (found["state"], found["events"], [each["kind"] for each in found["history"]]) == ("paused", 2, ["paused"])
    assert (found["handoff"]["verdict"], found["checkpoints"], found["runs"], found["waits"]) == ("trusted", [], [], [])
    assert [each["name"] for each in found["allowed_actions"]] == [
        *("pause", "resume", "complete", "record_event", "reopen")
    ]
    text = task(repo, "inspect", "limits", "--history", "1").out
    assert "[1 of 2 events shown; --history N shows more]" in text
    assert task(repo, "inspect", "limits", "--json").json["events"] == 2


def test_what_contests_is_accepted_by_name(repo: Repository) -> None:
    task(repo, "pause", "t", *GOOD)
    repo.write("limit = 7\n")
    refused = task(repo, "resume", "t")
    assert (refused.code, "file_changed" in refused.err, "--accept" in refused.err) == (4, True, True)
    got = task(repo, "resume", "t", "--accept", "file_changed", "--why", "it is mine")
    assert got.code == 0, got
    assert "verdict: contested" in got.out
    assert "export OUTLAST_CLAIM=" in got.out


def test_events_are_recorded_once_under_an_id(repo: Repository) -> None:
    task(repo, "open", "t")
    first = task(repo, "event", "t", "seen", '{"by": "ann"}', "--operation-id", "1", "--json")
    again = task(repo, "event", "t", "seen", '{"by": "ann"}', "--operation-id", "1")
    assert (first.json["seq"], first.json["body"]) == (2, {"by": "ann"})
    assert "event t/2 was recorded already" in again.out
    other = task(repo, "event", "t", "seen", "7", "--operation-id", "1")
    assert (other.code, "operation_conflict" in other.err) == (4, True)
    assert '{"by": "ann"}' in task(repo, "inspect", "t").out


def test_the_list_shows_tasks_by_state(repo: Repository) -> None:
    assert "no such tasks" in task(repo, "open", "a").out + task(repo, "list", "--state", "paused").out
    task(repo, "pause", "b", *GOOD)
    assert [each["task"] for each in task(repo, "list", "--json").json["tasks"]] == ["b", "a"]
    assert [each["task"] for each in task(repo, "list", "--state", "active", "--json").json["tasks"]] == ["a"]
    assert "paused" in task(repo, "list").out


def test_a_run_of_the_task_is_continued_by_its_command(cli: "Cli", repo: Repository) -> None:
    assert cli("run", "flows.py:report", "topic=kelp", "--task", "t", DIE_IN_DRAFT="1").code != 0
    got = task(repo, "resume", "t", "--json").json
    home = f"--home {repo.folder / '.outlast'}"
    assert got["command"] == f"OUTLAST_CLAIM={got['claim']['id']} outlast {home} resume {got['claim']['run_id']}"
    refused = task(repo, "complete", "t")
    assert (refused.code, "is crashed" in refused.err) == (4, True)
    assert cli("resume", got["claim"]["run_id"], OUTLAST_CLAIM=got["claim"]["id"]).code == 0
    done = task(repo, "complete", "t", "--json")
    assert (done.code, done.json["shown_by"]) == (0, got["claim"]["run_id"]), done


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("inspect", "nothing"), 5, "task_not_found"),
        (("resume", "nothing"), 5, "task_not_found"),
        (("pause", "t"), 2, "-m TEXT is missing"),
        (("pause", "t", "-m", "Half way"), 2, "nothing says how to go on"),
        (("open", ""), 2, "it is empty"),
        (("open", "x" * 10_000), 2, "the limit is 495"),
        (("open", "t", "--meta", "{"), 2, "it is no JSON"),
        (("open", "t", "--meta", "[1]"), 2, "is no object"),
        (("event", "t", "n", "{"), 2, "no JSON"),
        (("event", "t", ""), 2, "it is empty"),
        (("pause", "t", *GOOD, "--expect", "7"), 4, "revision_conflict"),
        (("complete", "t"), 4, "nothing shows it"),
        (("resume", "t"), 4, "nothing was handed over"),
        (("list", "--state", "asleep"), 2, "asleep"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_cannot_be_done_is_said_with_an_exit_code(
    repo: Repository, words: tuple[str, ...], code: int, said: str
) -> None:
    task(repo, "open", "t")
    answer = task(repo, *words)
    assert (answer.code, said in answer.err) == (code, True), answer
    assert "Traceback" not in answer.err


def test_without_a_home_only_opening_and_pausing_make_one(cli: "Cli") -> None:
    assert cli("task", "list").code == 5
    assert not (cli.folder / ".outlast").exists()
    fields = {"summary": "Half way", "handoff_text": "Go on.", "anchor": "task:other"}
    (cli.folder / "fields.json").write_text(json.dumps(fields))
    wrong = cli("task", "pause", "t", "--from", "@fields.json", "--no-bind")
    assert (wrong.code, "task:other" in wrong.err) == (2, True)
    (cli.folder / "fields.json").write_text(json.dumps(fields | {"anchor": "task:t", "operation_id": "1"}))
    for already in (False, True):
        paused = cli("task", "pause", "t", "--from", "@fields.json", "--no-bind", "--json")
        assert (paused.code, paused.json["replayed"]) == (0, already), paused
