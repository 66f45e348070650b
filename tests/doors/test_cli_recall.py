"""`outlast workspace recall`: as people, prompts and programs read it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from outlast import Outlast
from outlast.values.tokens import tokens_about as tokens_of

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
    assert (shown.code, shown.out) == (0, "nothing is recorded in this scope yet\n")


def test_no_match_says_so_and_shows_the_pins_alone(told: Cli) -> None:
    shown = told("workspace", "recall", "qwertz").out.splitlines()
    assert shown[1:3] == ["    Nothing is published on Fridays.", "nothing recorded matches this goal"]
    assert not any("exporter" in line for line in shown)


def test_what_is_left_out_for_want_of_room_is_named(told: Cli) -> None:
    shown = told("workspace", "recall", "exporter or lunch", "--limit", "2").out
    assert "left out: 1 that came after the last one asked for: record:" in shown


def test_a_goal_may_come_from_a_file_and_begin_with_a_dash(told: Cli) -> None:
    (told.folder / "goal.txt").write_text("exporter\n")
    assert "drops time zones" in told("workspace", "recall", "@goal.txt").out
    assert "drops time zones" in told("workspace", "recall", "--", "-exporter").out


def test_a_goal_that_has_no_end_is_refused_and_a_long_one_is_not_said_again(told: Cli) -> None:
    endless = told("workspace", "recall", "@/dev/zero")
    assert endless.code == 2
    assert "GOAL: it has more than 1,048,576 bytes" in endless.err
    assert told("workspace", "recall", "exporter " * 1000).out.endswith("why each: the same with --explain\n")


def test_a_tokenizer_is_given_by_an_option_or_the_environment(told: Cli) -> None:
    asked = ("workspace", "recall", "exporter", "--budget", "300", "--json")
    pack = json.loads(told(*asked, "--tokenizer", "builtins:len").out)
    assert pack["tokens"] == len(pack["prompt"]) <= 300
    assert json.loads(told(*asked).out)["tokens"] < pack["tokens"]
    assert json.loads(told(*asked, OUTLAST_TOKENIZER="builtins:len").out)["tokens"] == pack["tokens"]
    refused = told(*asked, "--tokenizer", "nowhere:len")
    assert refused.code == 2
    error = json.loads(refused.out)["error"]
    assert (error["code"], error["path"]) == ("tokenizer_invalid", "tokens_of")
    assert "cannot be loaded" in error["detail"]
    assert "cannot be stored" not in refused.out
    refused = told(*asked, OUTLAST_TOKENIZER="nowhere:len")
    error = json.loads(refused.out)["error"]
    assert (refused.code, error["code"], error["path"]) == (2, "tokenizer_invalid", "OUTLAST_TOKENIZER")


def test_a_tokenizer_that_fails_is_named_with_what_went_wrong(told: Cli) -> None:
    asked = ("workspace", "recall", "exporter", "--json")
    for refused in (told(*asked, "--tokenizer", "builtins:int"), told(*asked, OUTLAST_TOKENIZER="builtins:int")):
        assert refused.code == 2
        assert "'builtins:int' failed: ValueError" in json.loads(refused.out)["error"]["detail"]
