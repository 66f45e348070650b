"""`outlast completion`: the script, and what a shell is offered. Trouble offers nothing and prints nothing."""

import os
import subprocess
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.doors.conftest import Answer, Cli

InDoubt = Callable[[], str]


def offered(cli: "Cli", *words: str) -> "Answer":
    """What the shell is offered for the last word."""
    line = " ".join(["outlast", *words])
    return cli(_OUTLAST_COMPLETE="zsh_complete", COMP_WORDS=line, COMP_CWORD=str(len(words)))


def words_of(answer: "Answer") -> dict[str, str]:
    """Words and their help, as the script for zsh reads them."""
    assert (answer.code, answer.err) == (0, "")
    _, words, helps = (answer.out.splitlines()[start::3] for start in range(3))
    return dict(zip(words, helps, strict=True))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_says_how_to_install_it(cli: "Cli", shell: str) -> None:
    answer = cli("completion", shell)
    assert answer.code == 0
    first, *script = answer.out.splitlines()
    assert first.startswith("# To install it, once: ")
    assert f"outlast completion {shell}" in first
    assert any("_OUTLAST_COMPLETE" in line for line in script)


def test_bash_takes_the_script_as_it_is(cli: "Cli") -> None:
    script = cli("completion", "bash").out
    done = subprocess.run(["bash", "-c", f"{script}\ncomplete -p outlast"], capture_output=True, text=True, check=False)
    assert "_outlast_completion" in done.stdout, done


def test_commands_complete_with_their_lines(cli: "Cli") -> None:
    assert set(words_of(offered(cli, "re"))) == {"resume", "retry", "rewind", "receipts", "replay", "restore"}


def test_runs_complete_by_their_ids_with_their_status(cli: "Cli", in_doubt: InDoubt) -> None:
    crashed, waits = in_doubt(), cli.here("flows.py:sleeper")
    found = words_of(offered(cli, "show", ""))
    assert [*found] == [waits, crashed]
    assert [found[run].partition(",")[0] for run in (waits, crashed)] == ["waiting", "crashed"]
    assert [*words_of(offered(cli, "resume", crashed[:8]))] == [crashed]


def test_steps_complete_after_their_run(cli: "Cli", in_doubt: InDoubt) -> None:
    run = in_doubt()
    assert [*words_of(offered(cli, "retry", run, ""))] == ["find", "draft", "publish"]
    assert [*words_of(offered(cli, "receipts", run[:8], "pu"))] == ["publish"]


def test_the_home_that_was_named_is_the_one_that_is_read(cli: "Cli", in_doubt: InDoubt) -> None:
    run, home = in_doubt(), str(cli.folder / ".outlast")
    inside = cli.folder.parent / "elsewhere"
    inside.mkdir()
    elsewhere = type(cli)(inside)
    assert words_of(offered(elsewhere, "show", "")) == {}
    assert [*words_of(offered(elsewhere, "--home", home, "show", ""))] == [run]
    assert [*words_of(offered(elsewhere, "show", "--home", home, ""))] == [run]


def test_trouble_offers_nothing_and_prints_nothing(cli: "Cli") -> None:
    assert words_of(offered(cli, "show", "")) == {}
    folder = cli.folder / ".outlast" / "default"
    folder.mkdir(parents=True)
    (folder / "outlast.db").write_bytes(os.urandom(4096))
    assert words_of(offered(cli, "show", "")) == {}
    assert words_of(offered(cli, "retry", "nope", "")) == {}
