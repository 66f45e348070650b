"""What is printed about work whose files are elsewhere works as it stands: commands have the home and the files."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .repository import GOOD, Repository

if TYPE_CHECKING:
    from tests.doors.conftest import Answer, Cli

COMMAND = re.compile(r"""(?:OUTLAST_CLAIM=\S+ )?\boutlast (?:'[^']*'|"[^"]*"|[^'"`;()\n])+""")
SOME_WORD = {"FILE", "DIR", "JSON", "ANCHOR", "REF", "CODE[:SUBJECT]", "CMD", "COMMAND", "TASK", "ID"}
FILES = ("recover", "claim", "verify", "settle", "diff", "apply")


class Apart:
    """Somebody whose folder is not that of the files: the home and the repository are named, and nothing is here."""

    def __init__(self, repo: Repository, elsewhere: Path, scope: str) -> None:
        self.repo, self.here = repo, elsewhere
        self.here.mkdir()
        self.where = ("--home", str(repo.folder / ".outlast"), "--scope", scope)
        self.files = ("--repo", str(repo.folder))
        self.seen: list[str] = []

    def __call__(self, *words: str, **env: str) -> "Answer":
        """`outlast …` here, on that home; all that it printed is remembered."""
        options = self.where if "--home" not in words else ()
        end = words.index("--") if "--" in words else len(words)
        answer = self.repo.forked(*words[:end], *options, *words[end:], cwd=self.here, **env)
        self.seen += [answer.out, answer.err]
        return answer

    def pastes(self, command: str) -> "Answer":
        words = shlex.split(command)
        env = dict([words.pop(0).split("=", 1)]) if words[0].startswith("OUTLAST_CLAIM=") else {}
        assert words.pop(0) == "outlast"
        return self.repo.forked(*words, cwd=self.here, **env)

    def printed(self) -> Iterator[str]:
        """Every whole command that was printed so far, as text or inside of JSON."""
        texts = [each for text in self.seen for each in strings_of(text)]
        found = dict.fromkeys(each.strip() for text in texts for each in COMMAND.findall(text))
        yield from (each for each in found if not SOME_WORD & {*shlex.split(each)} and "--help" not in each)
        self.seen.clear()


def strings_of(text: str) -> Iterator[str]:
    """The text itself; if it is JSON, every text in it."""
    try:
        yield from _inside(json.loads(text))
    except ValueError:
        yield text


def _inside(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _inside(each)


@pytest.fixture
def apart(cli: "Cli", tmp_path_factory: pytest.TempPathFactory) -> Apart:
    return Apart(Repository(cli), tmp_path_factory.mktemp("outside") / "of it", 'it\'s a "scope" 🐚')


def all_the_same(apart: Apart) -> list[str]:
    """The commands printed so far; each names the home, the scope and, if it looks at files, where those are."""
    commands = [*apart.printed()]
    for each in commands:
        words = shlex.split(each)
        given = {name: words[words.index(name) + 1] for name in ("--home", "--scope", "--repo") if name in words}
        assert given.get("--home") == apart.where[1], each
        assert given.get("--scope") == apart.where[3], each
        if ("handoff" in words and words[words.index("handoff") + 1] in FILES) or " task resume " in each:
            assert given.get("--repo") == apart.files[1], each
    return commands


def test_commands_about_files_elsewhere_name_where_those_are(apart: Apart) -> None:
    assert apart("handoff", "store", "fix limit", *GOOD[:4], "--file", f"{apart.files[1]}/app.py", "--check",
                 "grep -q 'limit = 2' app.py", *apart.files).code == 0  # fmt: skip
    (recover,) = all_the_same(apart)
    assert apart.pastes(recover).code == 0
    apart.repo.write("limit = 7\n")
    for words in (("recover",), ("recover", "--explain"), ("recover", "--json"), ("verify",), ("verify", "--json")):
        assert apart("handoff", words[0], "fix limit", *words[1:], *apart.files).code == 4
        commands = all_the_same(apart)
        assert any("handoff diff" in each for each in commands), words
        for each in commands:
            if "handoff diff" in each:
                assert "+limit = 7" in apart.pastes(each).out, each
    apart("handoff", "recover", "fix limit", *apart.files)
    (accept,) = [each for each in all_the_same(apart) if "--accept file_changed" in each]
    assert apart.pastes(accept).code == 0


def test_a_claim_elsewhere_is_ended_by_what_was_printed(apart: Apart) -> None:
    words = (*GOOD[:4], "--file", f"{apart.files[1]}/app.py", "--check", "grep -q 'limit = 2' app.py")
    assert apart("handoff", "store", "-x", *words, *apart.files).code == 2
    assert apart("handoff", "store", *words, *apart.files, "--", "-x").code == 0
    assert apart("handoff", "claim", *apart.files, "--", "-x").code == 0
    (settle,) = [each for each in all_the_same(apart) if "settle" in each]
    apart.repo.write("limit = 2\n")
    done = apart.pastes(settle)
    assert done.code == 0, (settle, done)


def test_a_task_elsewhere_is_paused_resumed_and_completed_by_what_was_printed(apart: Apart) -> None:
    words = (*GOOD[:4], "--file", f"{apart.files[1]}/app.py", "--check", "grep -q 'limit = 2' app.py")
    assert apart("task", "pause", *words, *apart.files, "--", "-fix it").code == 0
    (resume,) = all_the_same(apart)
    resumed = apart.pastes(resume)
    assert resumed.code == 0, (resume, resumed)
    apart.seen += [resumed.out]
    (complete,) = [each for each in all_the_same(apart) if "task complete" in each]
    apart.repo.write("limit = 2\n")
    done = apart.pastes(complete)
    assert done.code == 0, (complete, done)


def test_a_task_as_data_advises_what_can_be_pasted(apart: Apart) -> None:
    words = (*GOOD[:4], "--file", f"{apart.files[1]}/app.py", "--check", "grep -q 'limit = 2' app.py")
    assert apart("task", "pause", "fix it", *words, *apart.files).code == 0
    checks = []
    for verb in ("inspect", "resume"):
        told = apart("task", verb, "fix it", *apart.files, "--json")
        assert told.code == 0, told
        checks += [each for each in all_the_same(apart) if "--run-checks" in each]
    assert [each.startswith("OUTLAST_CLAIM=") for each in checks] == [False, True]
    for each in checks:
        assert apart.pastes(f"{each} --json").json["evidence"], each


def test_an_error_as_data_advises_what_an_error_as_text_does(apart: Apart) -> None:
    words = (*GOOD[:4], "--file", f"{apart.files[1]}/app.py", "--check", "grep -q 'limit = 2' app.py")
    for anchor in ("-x", 'it\'s "so"'):
        assert apart("handoff", "store", *words, *apart.files, "--", anchor).code == 0
        assert apart("handoff", "claim", *apart.files, "--", anchor).code == 0
        apart.seen.clear()
        told = apart("handoff", "claim", *apart.files, "--", anchor)
        as_text = [*apart.printed()]
        data = apart("handoff", "claim", *apart.files, "--json", "--", anchor)
        assert (told.code, data.code, data.json["error"]["code"]) == (4, 4, "handoff_claimed")
        assert [*map(shlex.split, all_the_same(apart))] == [*map(shlex.split, as_text)]
        (take,) = as_text
        assert apart.pastes(take).code == 0, take


def test_what_is_refused_here_names_a_comparison_that_can_be_pasted(apart: Apart) -> None:
    words = (*GOOD[:4], "--file", f"{apart.files[1]}/app.py", "--check", "grep -q 'limit = 2' app.py")
    apart.repo.write("limit = 5\n")
    for anchor in ("-x", 'it\'s "so" 🐚'):
        assert apart("handoff", "store", *words, *apart.files, "--", anchor).code == 0
    apart.repo.write("limit = 7\n")
    for anchor in ("-x", 'it\'s "so" 🐚'):
        apart.seen.clear()
        for as_data in ((), ("--json",)):
            assert apart("handoff", "apply", *apart.files, *as_data, "--", anchor).code == 4
        (diff,) = {*all_the_same(apart)}
        assert "+limit = 7" in apart.pastes(diff).out, diff
