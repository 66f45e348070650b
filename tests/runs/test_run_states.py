"""The states of a run: one table, repeated by the schema and by the docs."""

import re
from pathlib import Path

import apsw
import pytest

from outlast.errors import RunAborted, RunFailed, RunInterrupted, RunWaiting
from outlast.ledger.journal import STATUSES as RECEIPT_STATUSES
from outlast.runs.run import FINISHED, MOVES, STATUSES, Outcome, may_move
from outlast.runs.waits.interrupt import CHOICES
from outlast.store.nouns.rows import migrations, schema, statements

PAGE = Path(__file__).parents[2] / "docs" / "state-machine.md"


def test_the_table_has_a_row_for_every_status_and_leads_to_known_ones() -> None:
    assert tuple(sorted(MOVES)) == tuple(sorted(STATUSES))
    assert {after for moves in MOVES.values() for after in moves} <= set(STATUSES)


def test_finished_runs_go_nowhere_and_all_others_can_be_aborted() -> None:
    assert {status for status in STATUSES if not MOVES[status]} == set(FINISHED)
    assert all("aborted" in MOVES[status] for status in set(STATUSES) - set(FINISHED))


def test_only_a_running_run_ends_and_every_stopped_one_goes_on_by_running() -> None:
    for before in STATUSES:
        for after in STATUSES:
            if may_move(before, after) and after != "aborted":
                assert (before == "running") != (after == "running")


def test_every_status_can_be_reached_and_can_reach_an_end() -> None:
    reached = {"queued", "running"}  # a run begins as one of these
    while more := {after for before in reached for after in MOVES[before]} - reached:
        reached |= more
    assert reached == set(STATUSES)
    assert all(may_move(status, "aborted") for status in STATUSES if status not in FINISHED)


def words(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"'(\w+)'", text))


def test_the_schema_checks_the_same_statuses() -> None:
    made = apsw.Connection(":memory:")
    for _, text in migrations("sqlite"):
        for _ in made.execute(text):
            pass
    ((runs,),) = made.execute("SELECT sql FROM sqlite_schema WHERE name = 'runs'")
    check = re.search(r"CHECK \(status IN\s*\((.*?)\)\)", runs, re.DOTALL)
    assert check
    assert words(check[1]) == STATUSES
    with pytest.raises(apsw.ConstraintError):
        made.execute(
            "INSERT INTO runs (id, scope, flow, task, inputs, inputs_digest, status, actor, created_at, updated_at)"
            " VALUES ('a', '', '', '', '', '', 'resting', '', 0, 0)"
        )


def test_the_schema_and_the_lookup_call_the_same_runs_finished() -> None:
    index = re.search(r"INDEX one_unfinished_run .*?NOT IN \((.*?)\)", schema("sqlite"), re.DOTALL)
    lookup = re.search(r"NOT IN \((.*?)\)", statements("sqlite")["unfinished_run"])
    assert index
    assert lookup
    assert words(index[1]) == words(lookup[1]) == FINISHED


def tables() -> list[dict[str, str]]:
    """The tables of the page: the word that each row is about, and its last cell."""
    found: list[dict[str, str]] = []
    for block in re.findall(r"(?:^\|.*\n)+", PAGE.read_text(), re.MULTILINE):
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()]
        found.append({row[0].strip("`"): row[-1] for row in rows if row[0].startswith("`")})
    return found


def test_the_docs_repeat_the_table() -> None:
    shown = {before: set(re.findall(r"`(\w+)`", after)) for before, after in tables()[0].items()}
    assert shown == {before: set(after) for before, after in MOVES.items()}


def test_the_diagram_in_the_docs_draws_the_same_moves() -> None:
    drawn = set(re.findall(r"^\s*(\w+) --> (\w+)", PAGE.read_text(), re.MULTILINE))
    assert drawn == {(before, after) for before, moves in MOVES.items() for after in moves}


def test_the_docs_list_every_status_of_a_receipt() -> None:
    assert set(tables()[1]) == set(RECEIPT_STATUSES)


def test_statuses_of_receipts_are_those_that_the_promise_names() -> None:
    named = {"started", "succeeded", "failed", "interrupted", "timed_out", "cancelled", "skipped"}
    assert set(RECEIPT_STATUSES) == named


def test_every_decision_can_give_the_run_up_and_timers_take_no_answer() -> None:
    assert all("abort" in choices for choices in CHOICES.values() if choices)
    assert CHOICES["timer"] == CHOICES["child"] == ()


@pytest.mark.parametrize(
    ("status", "error"),
    [("waiting", RunWaiting), ("aborted", RunAborted), ("interrupted", RunInterrupted), ("failed", RunFailed)],
)
def test_unwrap_says_why_there_is_no_result(status: str, error: type[Exception]) -> None:
    with pytest.raises(error, match="run1"):
        Outcome("run1", status, error={"type": "builtins:ValueError", "message": "no"}).unwrap()


def test_unwrap_gives_the_result_or_raises_what_failed() -> None:
    assert Outcome("run1", "succeeded", result=None).unwrap() is None
    failure = ValueError("no")
    with pytest.raises(ValueError, match="no") as caught:
        Outcome("run1", "failed", exception=failure).unwrap()
    assert caught.value is failure
