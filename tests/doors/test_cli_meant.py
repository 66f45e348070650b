"""A word that is nearly right is answered with the right one: commands, flows, filters."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.doors.conftest import Cli

ONE = '''
from outlast import Run, flow

@flow
def only(run: Run, word: str = "hello") -> str:
    """Says a word."""
    return word
'''
NONE = "x = 1\n"


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["rnu"], "`outlast run`"),
        (["shwo", "x"], "`outlast show`"),
        (["store"], "`outlast handoff store`"),
        (["handoff", "recovr"], "`outlast handoff recover`"),
        (["runs", "--status", "faild"], "`failed`"),
        (["task", "list", "--state", "compleeted"], "`completed`"),
        (["run", "flow.py:report"], "`flows.py`"),
        (["run", "flows.py:reprot"], "`report`"),
        (["run", "buildd.yaml"], "`build.yaml`"),
    ],
    ids=" ".join,
)
def test_a_word_that_is_nearly_right_is_answered_with_the_right_one(cli: "Cli", words: list[str], meant: str) -> None:
    (cli.folder / "build.yaml").write_text("flow: build\nsteps:\n- {id: a, run: 'true'}\n")
    answer = cli(*words)
    assert answer.code in (2, 5)
    assert f"did you mean {meant}?" in answer.err


def test_a_word_that_is_like_nothing_is_only_refused(cli: "Cli") -> None:
    answer = cli("zzzzzz")
    assert (answer.code, "did you mean" in answer.err) == (2, False)
    assert "there is no command 'zzzzzz'" in answer.err


def test_a_filter_of_the_inbox_that_nothing_has_names_the_one_that_was_meant(cli: "Cli") -> None:
    cli.here("flows.py:sleeper")
    assert "did you mean `timer`?" in cli("inbox", "--type", "timr").out
    assert "did you mean" not in cli("inbox", "--type", "approval").out


def test_a_file_with_several_flows_lists_them_with_their_commands(cli: "Cli") -> None:
    answer = cli("run", "flows.py")
    assert answer.code == 2
    assert "flows.py has 9 flows; name one of them [choose_one]" in answer.err
    assert "  outlast run flows.py:report topic=…\n" in answer.out
    assert "  outlast run flows.py:sleeper\n" in answer.out
    assert "find" not in answer.out  # a step is no flow
    assert cli("runs", "--json").code == 5  # nothing was begun
    told = cli("run", "flows.py", "--json")
    assert (told.code, told.json["error"]["code"]) == (2, "choose_one")


def test_a_file_with_one_flow_stands_for_it_and_is_the_same_run(cli: "Cli") -> None:
    (cli.folder / "one.py").write_text(ONE)
    first = cli("run", "one.py", "word=ahoy", "--task", "t", "--json")
    assert (first.code, first.json["result"]) == (0, "ahoy")
    again = cli("run", "one.py:only", "word=ahoy", "--task", "t", "--json")
    assert again.json["run_id"] == first.json["run_id"]


def test_a_file_without_a_flow_says_so(cli: "Cli") -> None:
    (cli.folder / "none.py").write_text(NONE)
    answer = cli("run", "none.py")
    assert (answer.code, "it has no flow" in answer.err) == (5, True)
