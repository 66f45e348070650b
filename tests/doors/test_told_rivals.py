"""What is said of rivals and renamed files names the right thing, and the command that it advises does what it says."""

import re
import shlex
from typing import TYPE_CHECKING

import pytest

from .repository import GOOD, Repository

if TYPE_CHECKING:
    from tests.doors.conftest import Cli

COMMAND = re.compile(r"""\boutlast (?:'[^']*'|"[^"]*"|[^'"`;()\n])+""")


@pytest.fixture
def repo(cli: "Cli") -> Repository:
    return Repository(cli)


def command(text: str, *words: str) -> list[str]:
    """The first command of a text that has these words, without `outlast`."""
    found = [shlex.split(each) for each in COMMAND.findall(text)]
    return next(each[1:] for each in found if {*words} <= {*each})


def test_a_revision_beside_a_claim_is_compared_with_the_one_before_and_cleared_by_who_holds_it(
    repo: Repository,
) -> None:
    repo.store("fix limit", "--actor", "ann")
    claim = repo.claimed("fix limit", "--actor", "cat")
    stored = repo("store", "fix limit", *GOOD, "--risk", "high", "--actor", "ben")
    told = repo("recover", "fix limit", "--actor", "dan")
    for text in (stored.out, told.out):
        assert "rival revision 2: stored by ben while cat" in text
        assert repo.forked(*command(text, "diff")).out.endswith("revision 1 against revision 2\nrisk: none -> high\n")
    both = repo.forked(*command(told.out, "--supersedes"), OUTLAST_CLAIM=claim)
    assert both.code == 0, both
    mine = repo("recover", "fix limit", "--json", OUTLAST_CLAIM=claim).json
    assert (mine["risk"], [each["code"] for each in mine["reasons"] if each["weight"] == "contests"]) == ("high", [])


def test_a_revision_that_goes_past_a_rival_says_how_to_read_that_one(repo: Repository) -> None:
    repo.store("fix limit", "--actor", "ann")
    claim = repo.claimed("fix limit", "--actor", "cat")
    rival = repo.store("fix limit", "--risk", "high", "--actor", "ben")
    past = repo("store", "fix limit", *GOOD, "--actor", "cat", "--claim-id", claim)
    assert f"handoff {rival['id']} was stored while cat" in past.out
    shown = repo.forked(*command(past.out, "show"), "--json")
    assert (shown.code, shown.json["revision"], shown.json["actor"]) == (0, 2, "ben")


def test_what_the_author_had_not_read_is_said_when_it_is_stored(repo: Repository) -> None:
    repo.store("fix limit", "--actor", "ann")
    stored = repo("store", "fix limit", *GOOD, "--risk", "high", "--actor", "ben")
    assert "was not read by ben; differs: risk" in stored.out
    assert repo.forked(*command(stored.out, "diff", "1", "2")).code == 0
    assert repo("recover", "fix limit", "--actor", "dan").code == 0  # somebody looked


def test_a_renamed_file_is_stored_by_its_new_name_from_any_folder(repo: Repository) -> None:
    old, new = 'it\'s "old" 🐚.py', "lib/it's new.py"
    repo.write("one\ntwo\nthree\n", old)
    repo.git("add", ".")
    repo.store("fix limit", "--file", old, "--entry", old, "--risk", "high")
    (repo.folder / old).rename(repo.folder / new)
    told = repo("recover", "fix limit", cwd=repo.folder / "lib")
    again = command(told.out, "--again")
    stored = repo.forked(*again, cwd=repo.folder / "lib")
    assert stored.code == 0, (again, stored)
    found = repo("recover", "fix limit", "--json")
    assert (found.code, found.json["target_files"], found.json["file_path"]) == (0, ["app.py", new], new)
    assert (found.json["risk"], found.json["next_action"]) == ("high", GOOD[3])


def test_storing_again_keeps_what_is_not_given(repo: Repository) -> None:
    first = repo.store("fix limit", "--risk", "high", "--text", "All there is to know about the limit in app.py.")
    assert repo("store", "fix limit", "--again", "--next", "Set limit to 3 in app.py, then run the check.").code == 0
    now = repo("show", "fix limit", "--json").json
    assert (now["revision"], now["next_action"]) == (2, "Set limit to 3 in app.py, then run the check.")
    kept = ("summary", "handoff_text", "target_files", "acceptance_checks", "risk")
    assert [now[name] for name in kept] == [first[name] for name in kept]
    for words, code in ((("nothing here",), 5), ((), 2), (("fix limit", "--expect", "1"), 4)):
        refused = repo("store", *words, "--again")
        assert refused.code == code, refused


def test_a_handoff_without_checks_gets_one_by_what_is_advised(repo: Repository) -> None:
    assert repo("store", "fix limit", *GOOD[:-2], "--file", "gone.py").code == 0
    told = repo("recover", "fix limit").out
    words = ["grep -q 2 app.py" if each == "COMMAND" else each for each in command(told, "--check")]
    for each in (words, command(told, "--creates")):
        assert repo.forked(*each, cwd=repo.folder / "lib").code == 0, each
    reasons = repo("recover", "fix limit", "--json").json["reasons"]
    assert {"no_checks", "target_absent"} & {each["code"] for each in reasons} == set()
