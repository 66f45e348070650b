"""JSON that is nested without end is refused by every command that takes some, with words and no traceback."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .conftest import Cli

DEEP = '{"topic": ' + "[" * 100_000 + "]" * 100_000 + "}"


@pytest.mark.parametrize(
    "words",
    [
        ("run", "flows.py:report", "@deep.json"),
        ("run", "flows.py:report", "-"),
        ("handoff", "store", "task:x", "--from", "@deep.json"),
        ("answer", "nothing", "@deep.json"),
        ("signal", "nothing", "go", "@deep.json"),
    ],
    ids=" ".join,
)
def test_it_is_refused(cli: "Cli", words: tuple[str, ...]) -> None:
    cli.here("flows.py:sleeper")
    (cli.folder / "deep.json").write_text(DEEP)
    answer = cli(*words, stdin=DEEP if "-" in words else "")
    assert answer.code in (2, 5), answer
    assert "Traceback" not in answer.err
    assert answer.err.startswith("error: ")
