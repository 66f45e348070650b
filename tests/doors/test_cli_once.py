"""`outlast run --task`: it happens once, and `--again` asks before effects are repeated."""

from typing import TYPE_CHECKING

import pytest

from .terminal import Open

if TYPE_CHECKING:
    from tests.doors.conftest import Cli

BILL = ("run", "flows.py:report", "topic=ai", "--task", "bill-7")
DECLINED = "flow: bill\nsteps:\n  - {id: ok, pause_for: approval}\n"
ASKED = "may it happen again? [y]es, [n]o: "


def test_the_same_command_after_success_gives_the_outcome_and_says_so(cli: "Cli") -> None:
    first, again = cli(*BILL), cli(*BILL)
    assert (first.code, again.code) == (0, 0)
    assert "happened before" not in first.out
    assert "it has happened before, so nothing was done now" in again.out
    assert 'result: {"link": "published ai AI"}' in again.out
    assert cli.diary == ["find", "draft", "publish"]


def test_json_says_that_it_was_replayed(cli: "Cli") -> None:
    first, again = cli(*BILL, "--json").json, cli(*BILL, "--json").json
    assert (first["replayed"], again["replayed"], again["notes"]) == (False, True, [])
    assert again | {"replayed": False} == first


def test_a_command_that_died_after_its_success_was_recorded_is_not_done_twice(cli: "Cli") -> None:
    cli.here("flows.py:report", topic="ai", task="bill-7")  # which exits without a word
    assert cli(*BILL).code == 0
    assert cli.diary.count("publish") == 1


def test_without_a_task_it_is_another_run(cli: "Cli") -> None:
    assert cli(*BILL[:3]).code == cli(*BILL[:3]).code == 0
    assert cli.diary.count("publish") == 2


def test_changed_code_is_told(cli: "Cli") -> None:
    cli(*BILL)
    text = (cli.folder / "flows.py").read_text()
    (cli.folder / "flows.py").write_text(text.replace('f"published {text}"', 'f"printed {text}"'))
    again = cli(*BILL)
    assert (again.code, "its code has changed since" in again.out, "published ai AI" in again.out) == (0, True, True)


def test_other_inputs_are_refused_and_name_again(cli: "Cli") -> None:
    cli(*BILL)
    told = cli("run", "flows.py:report", "topic=otters", "--task", "bill-7")
    assert (told.code, "[inputs_conflict]" in told.err, "--again" in told.err) == (4, True, True)


def test_an_aborted_task_exits_6_and_a_declined_one_4(cli: "Cli") -> None:
    cli.here("flows.py:sleeper", task="bill-7")
    cli("abort", cli.run_id, "--why", "no")
    told = cli("run", "flows.py:sleeper", "--task", "bill-7")
    assert (told.code, "[task_aborted]" in told.err, "--again" in told.err) == (6, True, True)
    (cli.folder / "bill.yaml").write_text(DECLINED)
    cli("run", "bill.yaml", "--task", "bill-7")
    with cli.opened() as outlast:
        (wait,) = outlast.interrupts()
    cli("decline", wait.id, "-m", "too dear")
    told = cli("run", "bill.yaml", "--task", "bill-7")
    assert (told.code, "[task_declined]" in told.err, "--again" in told.err) == (4, True, True)


def test_fresh_on_a_finished_task_is_refused_and_names_again(cli: "Cli") -> None:
    cli(*BILL)
    told = cli(*BILL, "--fresh")
    assert (told.code, "[finished]" in told.err, "--again" in told.err) == (4, True, True)


@pytest.mark.parametrize("said", [("--yes",), ("--effects", "publish"), ("--effects", "mail, publish")])
def test_in_a_script_again_is_refused_until_it_is_said_what_may_be_repeated(cli: "Cli", said: tuple[str, ...]) -> None:
    cli(*BILL)
    told = cli(*BILL, "--again")
    assert (told.code, "[repeats_effects]" in told.err) == (4, True)
    assert "publish (key " in told.err
    assert 'result "published ai AI"' in told.err
    assert cli.diary.count("publish") == 1
    assert cli(*BILL, "--again", *said).code == 0
    assert cli.diary.count("publish") == 2
    assert cli(*BILL).code == 0
    assert cli.diary.count("publish") == 2


def test_in_a_script_fresh_is_refused_in_the_same_way(cli: "Cli") -> None:
    work = ("run", "flows.py:greeting", "--task", "bill-7")
    assert cli(*work, WORD="hi").code == 1
    told = cli(*work, "--fresh", WORD="hi")
    assert (told.code, "[repeats_effects]" in told.err, "greet (key " in told.err) == (4, True, True)
    assert cli(*work, "--fresh", "--yes", WORD="hi", FINE="1").code == 0


def test_at_a_terminal_a_person_is_asked_what_may_be_repeated(cli: "Cli", at_terminal: Open) -> None:
    cli(*BILL)
    no = at_terminal(*BILL, "--again")
    no.type("n\n", after=ASKED)
    assert (no.end(), cli.diary.count("publish")) == (4, 1)
    yes = at_terminal(*BILL, "--again")
    yes.type("y\n", after=ASKED)
    assert (yes.end(), cli.diary.count("publish")) == (0, 2)
    assert "publish (key " in yes.seen


def test_at_a_terminal_nothing_is_asked_where_no_effect_would_be_repeated(cli: "Cli", at_terminal: Open) -> None:
    cli("run", "flows.py:moment", "--task", "bill-7")
    screen = at_terminal("run", "flows.py:moment", "--task", "bill-7", "--again")
    assert (screen.end(), "[y]es" in screen.seen) == (0, False)


def test_after_gc_the_same_command_says_that_it_succeeded_and_does_nothing(cli: "Cli") -> None:
    cli.here("flows.py:report", topic="ai", task="bill-7", ago=1000)
    assert cli("gc", "--older-than", "1s", "--yes").code == 0
    again = cli(*BILL)
    assert (again.code, "its result was removed by gc" in again.out) == (0, True)
    told = cli(*BILL, "--again")
    assert (told.code, "which was removed" in told.err) == (4, True)
    assert cli.diary.count("publish") == 1
    assert cli(*BILL, "--again", "--yes").code == 0
    assert cli.diary.count("publish") == 2
