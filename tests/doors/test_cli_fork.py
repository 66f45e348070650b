"""`outlast fork`: another run from a chosen step, as a person and a script make one."""

from typing import TYPE_CHECKING

import pytest

from .terminal import Open

if TYPE_CHECKING:
    from tests.doors.conftest import Cli

BILL = ("run", "flows.py:report", "topic=ai", "--task", "bill-7")
ASKED = "may it happen again? [y]es, [n]o: "


def forked(cli: "Cli") -> str:
    """The id of a run that has finished."""
    found = cli(*BILL, "--json")
    assert found.code == 0, found.err
    return str(found.json["run_id"])


def test_a_fork_is_made_and_goes_on_with_other_inputs(cli: "Cli") -> None:
    run = forked(cli)
    made = cli("fork", run, "--from", "find", "topic=fish", "--yes", "--json")
    assert (made.code, made.json["origin"], made.json["origin_step"]) == (0, run, "find")
    assert (made.json["task"], made.json["inputs"]) == ("bill-7~fork-1", {"topic": "fish"})
    assert cli("resume", made.json["id"], "--json").json["result"] == {"link": "published fish FISH"}
    assert cli.diary == ["find", "draft", "publish"] * 2
    shown = cli("show", made.json["id"])
    assert f"{run} from find" in shown.out


def test_a_fork_goes_on_at_once_if_it_is_told_to(cli: "Cli") -> None:
    run = forked(cli)
    answer = cli("fork", run, "--from", "draft", "--reuse-effects", "--resume", "--json")
    assert (answer.code, answer.json["result"]) == (0, {"link": "published ai AI"})
    assert cli.diary == ["find", "draft", "publish", "draft"]


def test_without_going_on_it_says_what_was_made_and_how_it_goes_on(cli: "Cli") -> None:
    run = forked(cli)
    answer = cli("fork", run, "--from", "publish", "--effects", "publish")
    assert (answer.code, "bill-7~fork-1" in answer.out, "outlast resume" in answer.out) == (0, True, True)


def test_in_a_script_effects_that_would_be_repeated_are_refused(cli: "Cli") -> None:
    run = forked(cli)
    told = cli("fork", run, "--from", "draft")
    assert (told.code, "[repeats_effects]" in told.err, "publish (key " in told.err) == (4, True, True)
    assert "keep what was done: --reuse-effects" in told.err
    assert len(cli("runs", "--json").json["runs"]) == 1


@pytest.mark.parametrize("asked", [("rewind", "RUN", "draft"), ("resume", "RUN", "--from", "draft")])
def test_who_goes_back_in_a_run_that_is_over_is_told_of_a_fork(cli: "Cli", asked: tuple[str, ...]) -> None:
    run = forked(cli)
    told = cli(*(run if word == "RUN" else word for word in asked))
    assert (told.code, f"outlast fork {run} --from STEP" in told.err) == (4, True)


def test_at_a_terminal_a_person_is_asked_about_them(cli: "Cli", at_terminal: Open) -> None:
    run = forked(cli)
    no = at_terminal("fork", run, "--from", "draft")
    no.type("n\n", after=ASKED)
    assert no.end() == 4
    yes = at_terminal("fork", run, "--from", "draft", "--resume")
    yes.type("y\n", after=ASKED)
    assert (yes.end(), cli.diary.count("publish")) == (0, 2)
    assert "a fork of task 'bill-7' would repeat" in yes.seen


def test_words_that_are_no_pairs_are_refused_and_leave_nothing(cli: "Cli") -> None:
    run = forked(cli)
    for words in (("x",), ("=x",), ("a=1", "a=2"), ("--state", "x"), ("--state", "a=1", "--state", "a=2")):
        assert cli("fork", run, "--from", "draft", "--yes", *words).code == 2
    assert cli("fork", run, "--from", "draft", "--yes", "no=1").code == 2
    assert cli("fork", run, "--yes").code == 2
    assert cli("fork", run, "--from", "dance 'with' \"quotes\" 🙂").code == 5
    assert len(cli("runs", "--json").json["runs"]) == 1
