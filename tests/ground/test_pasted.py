"""Commands in texts that are pasted elsewhere."""

from shlex import split

import pytest

from outlast.doors.cli.group import PLACES
from outlast.values.text import COMMANDS, carry

HOME = ("--home", "/a b/it's/.outlast")


def test_every_command_is_known() -> None:
    assert sorted(COMMANDS) == sorted(PLACES)


def test_each_command_of_a_text_is_given_the_options() -> None:
    text = "see `outlast handoff list`; or accept it: outlast handoff recover x --why WHY"
    words = "outlast --home '/a b/it'\"'\"'s/.outlast' handoff"
    assert carry(text, HOME) == f"see `{words} list`; or accept it: {words} recover x --why WHY"


def test_what_a_command_names_itself_stays() -> None:
    assert carry("outlast runs --home here", HOME) == "outlast runs --home here"
    given = carry("outlast handoff diff x --scope s", ("--home", "h", "--scope", "t"))
    assert given == "outlast --home h handoff diff x --scope s"


@pytest.mark.parametrize("file", ["my outlast run.py", "it's an outlast run.py", 'a "b" outlast run'])
def test_an_argument_that_reads_like_a_command_is_none(file: str) -> None:
    from shlex import quote

    made = carry(f"outlast handoff recover x --accept {quote(f'file_changed:{file}')} --why WHY", HOME)
    assert split(made)[1:3] == list(HOME)
    assert split(made)[-3:] == [f"file_changed:{file}", "--why", "WHY"]


def test_words_that_are_no_command_stay() -> None:
    for text in ("what may outlast it", "outlast is a word", "see.outlast run", "/bin/outlast run x"):
        assert carry(text, HOME) == text


def test_a_claim_is_shown_by_what_goes_on_under_it() -> None:
    assert carry("outlast handoff verify x", (), "tok") == "OUTLAST_CLAIM=tok outlast handoff verify x"
    assert carry("outlast handoff diff x", (), "tok") == "outlast handoff diff x"
    assert carry("outlast handoff settle x --claim-id tok", (), "tok") == "outlast handoff settle x --claim-id tok"
    assert carry("continue: outlast resume r1", (), "tok") == "continue: OUTLAST_CLAIM=tok outlast resume r1"
    assert carry("outlast show r1", (), "tok") == "outlast show r1"
