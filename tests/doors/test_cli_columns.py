"""Nothing that people read is broken inside a word, however narrow the terminal is."""

import re
import shlex
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.doors.cli.group import PLACES
from outlast.doors.cli.render import columns_of, width, wrapped

from .terminal import Open

if TYPE_CHECKING:
    from tests.doors.conftest import Cli

COLUMNS = (80, 40)
QUOTED = re.compile(r"'.*'")
CHANGES = re.compile(r"\d[\d.:,]*|ms|s|min|now|ago|\\")  # how long ago: another one each time
MORE = {"one", "of", "them:", "outlast", "handoff", "recover", "workspace", "get", "task", "ANCHOR", "REF", "TASK"}
LOOKS = [
    "runs",
    "show RUN",
    "receipts RUN",
    "receipts RUN draft",
    "events RUN",
    "show RUN --timeline",
    "resume RUN --dry-run",
    "inbox",
    "doctor",
    "verify",
    "audit RUN",
    "gc",
    "handoff list",
    "handoff show release",
    "workspace list",
    "workspace record list",
    "task list",
    "runs --status nowhere",
    "show nothing",
    "run nowhere.py:flow",
    "resume",
]


@pytest.fixture
def full(cli: "Cli") -> "Cli":
    """A home with something of everything."""
    cli.here("flows.py:sleeper")
    cli.here("flows.py:broken")
    cli("run", "flows.py:report", "topic=" + "kelp " * 30, "--task", "a task 🚀 " + "with words " * 9, DIE="1")
    summary = "Everything about the release of the kelp report, and what is still to be done " * 3
    cli("handoff", "store", "release", "-m", summary, "--next", "Write the second half of it, then ask for a review")
    return cli


def unbroken(seen: str, columns: int) -> list[str]:
    """The lines that are too wide although they could have been broken."""
    lines = [line.rstrip("\r") for line in seen.split("\n")]
    return [line for line in lines if width(line) > columns and width(last_word(line)) < columns - 12]


def last_word(line: str) -> str:
    """What stands in quotes is one word: a command that is broken there is another one."""
    return line.strip() if QUOTED.fullmatch(line.strip()) else line.split()[-1]


def words(text: str) -> set[str]:
    return {word for word in text.split() if not CHANGES.fullmatch(word.strip("()"))}


@pytest.mark.parametrize("columns", COLUMNS)
def test_no_look_of_the_command_line_breaks_a_word(full: "Cli", at_terminal: Open, columns: int) -> None:
    for look in LOOKS:
        asked = shlex.split(look.replace("RUN", full.run_id))
        piped = full(*asked)
        screen = at_terminal(*asked, COLUMNS=str(columns), PYTHONIOENCODING="utf-8")
        if look == "resume":
            screen.type("\n", after="leave: ")
        screen.end()
        assert unbroken(screen.seen, columns) == [], look
        if look not in ("resume", "runs", "doctor"):  # there a terminal is told more
            more = words(piped.out + piped.err) | MORE
            assert words(screen.seen) - more == set(), look


@pytest.mark.parametrize("columns", COLUMNS)
def test_no_help_breaks_a_word(cli: "Cli", columns: int) -> None:
    for name in ("", *PLACES):
        asked = [*filter(None, [name]), "--help"]
        wide, narrow = cli(*asked, COLUMNS="500"), cli(*asked, COLUMNS=str(columns))
        assert unbroken(narrow.out, columns) == [], name
        assert words(narrow.out) - words(wide.out) <= {"\\"}, name


@given(st.lists(st.text("ab漢é-", min_size=1, max_size=30), max_size=20), st.integers(20, 100), st.integers(0, 8))
def test_every_word_stays_whole_and_every_line_has_room(parts: list[str], columns: int, indent: int) -> None:
    text = " " * indent + " ".join(parts)
    lines = wrapped(text, columns)
    assert " ".join(lines).split() == text.split()
    assert all(width(line) <= columns or len(line.split()) == 1 for line in lines)


def test_a_command_stays_in_one_piece_where_it_fits_and_is_one_for_a_shell_elsewhere() -> None:
    command = "outlast skip ab12cd34ef56 send --result JSON --why 'I saw it there' --resume"
    assert wrapped(f"done, go on with it, if you like: {command}", 80) == [
        "done, go on with it, if you like:",
        command,
    ]
    *_, first, second, third = wrapped(f"done: {command}", 40)
    joined = "\n".join((first, second, third))
    assert shlex.split(joined.replace("\\\n", "")) == shlex.split(command)
    assert max(map(width, (first, second, third))) <= 40


@given(
    st.lists(st.lists(st.text("ab ", max_size=25), min_size=3, max_size=3), min_size=1, max_size=4),
    st.integers(20, 90),
)
def test_the_columns_of_a_table_have_room_for_every_word(rows: list[list[str]], columns: int) -> None:
    found = columns_of(["RUN", "STATUS", "TASK"], rows, columns, 2)
    if found is not None:
        assert sum(found) + 4 <= columns
        assert all(
            max(map(len, cell.split(" "))) <= wide for row in rows for cell, wide in zip(row, found, strict=True)
        )


def test_a_line_of_a_document_keeps_its_bar_where_it_is_broken() -> None:
    text = "  | alpha beta gamma delta epsilon zeta"
    assert wrapped(text, 30, "  ", "    ") == ["    | alpha beta gamma delta", "    | epsilon zeta"]
    assert wrapped(text, 30) == ["  | alpha beta gamma delta", "  | epsilon zeta"]
