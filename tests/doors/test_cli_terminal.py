"""`outlast resume` at a real pseudo-terminal: it asks where only a person can choose, and nowhere else."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from outlast.doors.cli.ask import KEYS
from outlast.doors.cli.render import width
from outlast.runs.waits.interrupt import CHOICES as CHOICES_OF

from .terminal import Open

if TYPE_CHECKING:
    from tests.doors.conftest import Cli

InDoubt = Callable[[], str]
CHOICES = "[r]etry, [s]kip with a result, [a]bort, [l]eave it: "


def test_a_retry_is_chosen_and_the_run_goes_on_at_once(cli: "Cli", in_doubt: InDoubt, at_terminal: Open) -> None:
    screen = at_terminal("resume", in_doubt())
    screen.type("r\n", after=CHOICES)
    assert screen.end() == 0
    assert "? effect publish may have happened; nobody knows\r\n  its inputs: text='ai AI'" in screen.seen
    assert 'result: {"link": "published ai AI"}' in screen.seen
    assert cli.diary.count("publish") == 2


def test_a_skip_asks_for_a_result_and_for_a_reason(cli: "Cli", in_doubt: InDoubt, at_terminal: Open) -> None:
    run = in_doubt()
    screen = at_terminal("resume", run)
    screen.type("s\n", after=CHOICES)
    screen.type("sent\n", after="its result, as JSON: ")
    screen.type("s\n", after=CHOICES)
    assert 'for text write "sent"' in screen.seen
    screen.type('"sent"\n', after="its result, as JSON: ")
    screen.type("I saw it\n", after="why? it is on the record: ")
    assert screen.end() == 0
    assert cli.diary.count("publish") == 1
    with cli.opened() as outlast:
        receipt = outlast.receipts(run)[-1]
    assert (receipt.label, receipt.status, receipt.result) == ("publish", "skipped", "sent")


def test_an_abort_asks_why_and_exits_6(cli: "Cli", in_doubt: InDoubt, at_terminal: Open) -> None:
    run = in_doubt()
    screen = at_terminal("resume", run)
    screen.type("a\n", after=CHOICES)
    screen.type("\n", after="why? it is on the record: ")
    screen.type("a\n", after=CHOICES)
    screen.type("not wanted\n", after="why? it is on the record: ")
    assert screen.end() == 6
    assert "why: not wanted" in screen.seen
    with cli.opened() as outlast:
        assert (outlast.get(run).error or {})["message"] == "not wanted"


@pytest.mark.parametrize("typed", ["l\n", "\x04"], ids=["l", "Ctrl-D"])
def test_what_is_left_stays_open_and_the_commands_are_shown(
    cli: "Cli", in_doubt: InDoubt, at_terminal: Open, typed: str
) -> None:
    run = in_doubt()
    screen = at_terminal("resume", run)
    screen.type("x\n", after=CHOICES)
    screen.type(typed, after=CHOICES)
    assert screen.end() == 4
    assert "x is none of r, s, a, l" in screen.seen
    assert f"outlast retry {run} publish" in screen.seen
    with cli.opened() as outlast:
        assert [wait.status for wait in outlast.interrupts(run)] == ["open"]


def test_ctrl_c_at_a_question_decides_nothing(cli: "Cli", in_doubt: InDoubt, at_terminal: Open) -> None:
    run = in_doubt()
    screen = at_terminal("resume", run)
    screen.interrupt(after=CHOICES)
    assert (screen.end(), "Traceback" in screen.seen) == (130, False)
    with cli.opened() as outlast:
        assert outlast.get(run).status == "waiting"


def test_several_questions_are_asked_one_after_another(cli: "Cli", at_terminal: Open) -> None:
    run = cli.here("flows.py:two", env={"BREAK": "1"})
    screen = at_terminal("resume")
    screen.type("r\n", after=CHOICES)
    screen.type("l\n", after=CHOICES)
    assert screen.end() == 4
    assert screen.seen.count("[r]etry") == 2
    assert cli.diary.count("send a") + cli.diary.count("send b") == 3
    with cli.opened() as outlast:
        assert [wait.type for wait in outlast.interrupts(run)] == ["in_doubt"]


def test_a_crash_loop_is_asked_about(cli: "Cli", at_terminal: Open) -> None:
    for _ in range(3):  # the very first one counts, however soon it was
        cli.here("flows.py:crasher", env={"DIE": "1"})
    screen = at_terminal("resume", DIE="")
    screen.type("r\n", after=CHOICES)
    assert screen.end() == 0
    assert "? the process died 3 times in step crash" in screen.seen


def test_changed_inputs_of_an_effect_are_asked_about(cli: "Cli", at_terminal: Open) -> None:
    cli.here("flows.py:greeting", env={"WORD": "hello"})
    screen = at_terminal("resume", WORD="goodbye", FINE="1")
    screen.type("k\n", after="[k]eep what was done, [d]o it again, [a]bort, [l]eave it: ")
    assert screen.end() == 0
    assert cli.diary.count("greet hello") == 1
    assert "greet goodbye" not in cli.diary


def test_a_failed_run_is_tried_again_without_a_question(cli: "Cli", at_terminal: Open) -> None:
    cli.here("flows.py:broken")
    screen = at_terminal("resume")
    assert (screen.end(), "[r]etry" in screen.seen) == (1, False)


@pytest.mark.parametrize("words", [("--json",), ()], ids=["--json", "a pipe"])
def test_a_script_is_asked_nothing(cli: "Cli", in_doubt: InDoubt, at_terminal: Open, words: tuple[str, ...]) -> None:
    run = in_doubt()
    if words:
        screen = at_terminal("resume", run, *words)
        assert (screen.end(), "[r]etry" in screen.seen) == (4, False)
    else:
        answer = cli("resume", run, stdin="r\n")
        assert (answer.code, "[r]etry" in answer.out + answer.err) == (4, False)


def test_one_of_several_runs_is_picked_by_its_number(cli: "Cli", at_terminal: Open) -> None:
    runs = [cli.here(f"flows.py:{name}") for name in ("sleeper", "broken")]
    screen = at_terminal("resume")
    screen.type("7\n", after="or Enter to leave: ")
    screen.type("2\n", after="or Enter to leave: ")
    assert screen.end() == 3
    assert "7 is none of 1 to 2" in screen.seen
    assert f"run {runs[0]} waiting" in screen.seen


def test_picking_none_of_several_exits_2(cli: "Cli", at_terminal: Open) -> None:
    for name in ("sleeper", "broken"):
        cli.here(f"flows.py:{name}")
    screen = at_terminal("resume")
    screen.type("\n", after="or Enter to leave: ")
    assert screen.end() == 2


def test_no_row_of_a_table_is_wider_than_the_terminal(cli: "Cli", at_terminal: Open) -> None:
    cli("run", "flows.py:report", "topic=" + "kelp " * 30, "--task", "task 🚀 " + "word " * 20, DIE="1")
    run = cli.run_id
    for words in (["runs"], ["show", run], ["receipts", run], ["events", run], ["resume", run, "--dry-run"]):
        screen = at_terminal(*words)
        assert screen.end() == 0
        shown = [line for line in screen.seen.splitlines() if not line.startswith(("inputs ", "task "))]
        assert [line for line in shown if width(line) > 80] == []


def test_every_choice_that_a_wait_may_offer_has_a_key_of_its_own() -> None:
    for choices in CHOICES_OF.values():
        keys = [KEYS[choice][0] for choice in choices]
        assert len({*keys, "l"}) == len(keys) + 1
        assert all(f"[{KEYS[choice][0]}]" in KEYS[choice][1] for choice in choices)
