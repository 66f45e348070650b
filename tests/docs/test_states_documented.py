"""docs/state-machine.md repeats the tables of the domain: moves of runs, statuses of receipts, answers of waits."""

import re
from pathlib import Path

from outlast.ledger.journal import STATUSES
from outlast.runs.run import FINISHED, MOVES
from outlast.runs.waits.interrupt import CHOICES

PAGE = (Path(__file__).parents[2] / "docs" / "state-machine.md").read_text("utf-8")


def rows(heading: str) -> dict[str, set[str]]:
    """The first table below a heading: first column to the code words of the last."""
    text = PAGE.partition(f"{heading}\n")[2].partition("\n## ")[0]
    found = re.findall(r"^\| `([a-z_]+)` \|.*\| ([^|]*) \|$", text, re.MULTILINE)
    return {first: set(re.findall(r"`([a-z_]+)`", last)) for first, last in found}


def test_the_moves_of_a_run_are_those_of_the_code() -> None:
    assert rows("# The states of a run") == {status: set(moves) for status, moves in MOVES.items()}


def test_the_diagram_shows_the_same_moves() -> None:
    drawn = set(re.findall(r"^ +([a-z]+) --> ([a-z]+)", PAGE, re.MULTILINE))
    assert drawn == {(before, after) for before, moves in MOVES.items() for after in moves}


def test_the_diagram_ends_where_a_run_is_finished() -> None:
    assert re.findall(r"([a-z]+) --> \[\*\]", PAGE) == list(FINISHED)


def test_the_statuses_of_receipts_are_those_of_the_code() -> None:
    assert set(rows("## Receipts")) == set(STATUSES)


def test_the_answers_of_waits_are_those_of_the_code() -> None:
    assert rows("## Waits") == {kind: set(choices) for kind, choices in CHOICES.items()}
