"""`outlast workspace recall`: as people, prompts and programs read it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from outlast import Outlast
from outlast.handoffs.reading import tokens_of

if TYPE_CHECKING:
    from tests.doors.conftest import Cli


@pytest.fixture
def told(cli: Cli) -> Cli:
    with Outlast(cli.folder / ".outlast") as outlast:
        outlast.workspace.record("decision", "Nothing is published on Fridays.", pinned=True)
        outlast.workspace.record("observation", "The exporter drops time zones.", source="a", actor="Ana")
        outlast.workspace.record("note", "Lunch is at noon.", source="b")
    return cli


def test_people_see_each_with_its_ref_and_what_was_left_out(told: Cli) -> None:
    shown = told("workspace", "recall", "time zones of the exporter")
    assert shown.code == 0
    lines = shown.out.splitlines()
    assert lines[1] == "    Nothing is published on Fridays."
    assert lines[2].endswith("observation, Ana, " + lines[2][-10:])
    assert "    The exporter drops time zones." in lines
    assert "left out: 1 that do not match" in lines


def test_explain_says_why_each_was_chosen(told: Cli) -> None:
    shown = told("workspace", "recall", "exporter", "--explain").out
    assert 'matches "exporter"' in shown
    assert "pinned" in shown


def test_a_prompt_is_all_that_is_printed_and_within_its_budget(told: Cli) -> None:
    shown = told("workspace", "recall", "exporter", "--prompt", "--budget", "120").out
    assert shown.startswith("Recalled for this goal.")
    assert tokens_of(shown.rstrip("\n")) <= 120


def test_programs_get_the_whole_pack(told: Cli) -> None:
    pack = json.loads(told("workspace", "recall", "exporter", "--json").out)
    assert [entry["hard"] for entry in pack["entries"]] == [True, False]
    assert pack["tokens"] <= pack["budget"] == 2000
    assert pack["prompt"].startswith("Recalled")


def test_too_small_a_budget_names_the_need_and_the_option(told: Cli) -> None:
    refused = told("workspace", "recall", "exporter", "--budget", "3")
    assert refused.code == 2
    needed = refused.err.partition("--budget ")[2].partition(")")[0]
    assert told("workspace", "recall", "exporter", "--budget", needed).code == 0


def test_an_empty_scope_says_that_nothing_is_there_yet(told: Cli) -> None:
    shown = told("workspace", "recall", "exporter", "--scope", "new")
    assert (shown.code, shown.out) == (0, "nothing was recalled: nothing is recorded in this scope yet\n")


def test_a_goal_may_come_from_a_file_and_begin_with_a_dash(told: Cli) -> None:
    (told.folder / "goal.txt").write_text("exporter\n")
    assert "drops time zones" in told("workspace", "recall", "@goal.txt").out
    assert "drops time zones" in told("workspace", "recall", "--", "-exporter").out


def test_a_goal_that_has_no_end_is_refused_and_a_long_one_is_not_said_again(told: Cli) -> None:
    endless = told("workspace", "recall", "@/dev/zero")
    assert endless.code == 2
    assert "GOAL: it has more than 1,048,576 bytes" in endless.err
    assert told("workspace", "recall", "exporter " * 1000).out.endswith("why each: the same with --explain\n")
