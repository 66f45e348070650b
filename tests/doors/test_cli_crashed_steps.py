"""After a hard crash in a plain step: retry, skip and abort are offered, in `show`, in a dry run and at a terminal."""

from typing import TYPE_CHECKING

import pytest

from .terminal import Open

if TYPE_CHECKING:
    from tests.doors.conftest import Cli

CHOICES = "[r]etry, [s]kip with a result, [a]bort, [l]eave it: "
DIED = "step draft did not end: its process died in attempt 1"


@pytest.fixture
def crashed(cli: "Cli") -> str:
    """A run whose process was killed in a step, at once and for the first time."""
    run = cli.here("flows.py:report", topic="ai", env={"DIE_IN_DRAFT": "1"})
    assert cli.diary == ["find", "draft"]
    return run


@pytest.mark.parametrize("words", [("show",), ("resume", "--dry-run")], ids=["show", "--dry-run"])
def test_the_three_ways_on_are_shown(cli: "Cli", crashed: str, words: tuple[str, ...]) -> None:
    out = cli(words[0], crashed, *words[1:]).out
    assert DIED in out
    assert f"outlast retry {crashed} draft --resume" in out
    assert f"outlast skip {crashed} draft --result JSON --why WHY --resume" in out
    assert f"outlast abort {crashed} --why WHY" in out
    assert f"continue: outlast resume {crashed}" in out


def test_the_plan_names_the_choices_for_programs(cli: "Cli", crashed: str) -> None:
    plan = cli("resume", crashed, "--dry-run", "--json").json
    assert {step["label"]: step["choices"] for step in plan["steps"]} == {
        "find": [],
        "draft": ["retry", "skip", "abort"],
    }
    cli("skip", crashed, "draft", "--result", '"by hand"', "--why", "written")
    plan = cli("resume", crashed, "--dry-run", "--json").json  # it is decided
    assert [step["choices"] for step in plan["steps"]] == [[], []]
    assert "did not end: its process died" not in cli("show", crashed).out


@pytest.mark.parametrize("words", [("retry",), ("skip", "--result", '"by hand"', "--why", "written")])
def test_each_way_that_is_shown_goes_on(cli: "Cli", crashed: str, words: tuple[str, ...]) -> None:
    answer = cli(words[0], crashed, "draft", *words[1:], "--resume")
    text = "ai AI" if words[0] == "retry" else "by hand"
    assert (answer.code, answer.out.splitlines()[-1]) == (0, f'result: {{"link": "published {text}"}}')


def test_at_a_terminal_a_retry_is_chosen_and_the_run_goes_on(cli: "Cli", crashed: str, at_terminal: Open) -> None:
    screen = at_terminal("resume", crashed)
    screen.type("r\n", after=CHOICES)
    assert screen.end() == 0
    assert f"? {DIED}\r\n" in screen.seen
    assert cli.diary == ["find", "draft", "draft", "publish"]


def test_at_a_terminal_a_skip_leaves_the_crashed_attempt_on_record(cli: "Cli", crashed: str, at_terminal: Open) -> None:
    screen = at_terminal("resume", crashed)
    screen.type("s\n", after=CHOICES)
    screen.type('"by hand"\n', after="its result, as JSON: ")
    screen.type("I wrote it\n", after="why? it is on the record: ")
    assert screen.end() == 0
    assert cli.diary == ["find", "draft", "publish"]
    with cli.opened() as outlast:
        kept = [(r.attempt, r.status) for r in outlast.receipts(crashed) if r.label == "draft"]
    assert kept == [(1, "started"), (2, "skipped")]


def test_at_a_terminal_an_abort_asks_why_and_exits_6(cli: "Cli", crashed: str, at_terminal: Open) -> None:
    screen = at_terminal("resume", crashed)
    screen.type("a\n", after=CHOICES)
    screen.type("not wanted\n", after="why? it is on the record: ")
    assert screen.end() == 6
    assert "why: not wanted" in screen.seen
    with cli.opened() as outlast:
        assert [(r.label, r.status) for r in outlast.receipts(crashed)] == [("find", "succeeded"), ("draft", "started")]


@pytest.mark.parametrize("typed", ["l\n", "\x04"], ids=["l", "Ctrl-D"])
def test_what_is_left_at_a_terminal_is_left_as_it_is(cli: "Cli", crashed: str, at_terminal: Open, typed: str) -> None:
    screen = at_terminal("resume", crashed)
    screen.type("x\n", after=CHOICES)
    screen.type(typed, after=CHOICES)
    assert screen.end() == 4
    assert "x is none of r, s, a, l" in screen.seen
    assert f"outlast retry {crashed} draft" in screen.seen
    with cli.opened() as outlast:
        assert outlast.get(crashed).status == "crashed"
    assert cli.diary == ["find", "draft"]


def test_ctrl_c_at_the_question_decides_nothing(cli: "Cli", crashed: str, at_terminal: Open) -> None:
    screen = at_terminal("resume", crashed)
    screen.interrupt(after=CHOICES)
    assert (screen.end(), "Traceback" in screen.seen) == (130, False)
    with cli.opened() as outlast:
        assert outlast.get(crashed).status == "crashed"


def test_who_has_decided_already_is_not_asked_again(cli: "Cli", crashed: str, at_terminal: Open) -> None:
    cli("retry", crashed, "draft")
    screen = at_terminal("resume", crashed)
    assert (screen.end(), "[r]etry" in screen.seen) == (0, False)


@pytest.mark.parametrize("words", [("--json",), ("--partial", "keep")])
def test_who_said_how_to_go_on_is_not_asked(
    cli: "Cli", crashed: str, at_terminal: Open, words: tuple[str, ...]
) -> None:
    screen = at_terminal("resume", crashed, *words)
    assert (screen.end(), "[r]etry" in screen.seen) == (0, False)


def test_a_script_goes_on_as_before(cli: "Cli", crashed: str) -> None:
    answer = cli("resume", crashed, stdin="a\n")
    assert (answer.code, "[r]etry" in answer.out + answer.err) == (0, False)
    assert cli.diary == ["find", "draft", "draft", "publish"]


def test_after_the_second_crash_they_are_shown_as_after_the_first(cli: "Cli", crashed: str) -> None:
    assert cli.here("flows.py:report", topic="ai", env={"DIE_IN_DRAFT": "1"}) == crashed
    assert DIED.replace("attempt 1", "attempt 2") in cli("show", crashed).out
    cli("skip", crashed, "draft", "--result", '"by hand"', "--why", "written", "--resume")
    with cli.opened() as outlast:
        kept = [(r.attempt, r.status) for r in outlast.receipts(crashed) if r.label == "draft"]
    assert kept == [(1, "started"), (2, "started"), (3, "skipped")]
