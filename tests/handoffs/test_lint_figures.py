"""Lint tried on handoffs that people and agents leave: what it calls weak, against what a reader called so before.

`data/handoffs.jsonl` has a label for each, written by reading it. `tune`: the rules were made with these in sight.
`held`: every third one, which the rules were not made for. `hard`: written afterwards to be misread.
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from outlast.handoffs.contract import contract_of
from outlast.handoffs.lint import lint

CORPUS = Path(__file__).parent / "data" / "handoffs.jsonl"
PAGE = Path(__file__).parents[2] / "docs" / "strong-handoffs.md"
ROWS: list[dict[str, Any]] = [json.loads(line) for line in CORPUS.read_text("utf-8").splitlines()]
NOT_FIELDS = ("label", "origin", "part")


class Figures(NamedTuple):
    handoffs: int
    weak: int
    precision: float
    recall: float


def called_weak(row: dict[str, Any]) -> bool:
    return lint(contract_of(**{name: value for name, value in row.items() if name not in NOT_FIELDS})).weak


def figures(rows: Iterable[dict[str, Any]]) -> Figures:
    judged = [(row["label"] == "weak", called_weak(row)) for row in rows]
    both = sum(is_weak and called for is_weak, called in judged)
    called, weak = sum(called for _, called in judged), sum(is_weak for is_weak, _ in judged)
    return Figures(len(judged), weak, round(both / called, 2), round(both / weak, 2))


def of_page() -> dict[str, Figures]:
    rows = re.findall(
        r"^\| `(\w+)` \|[^|]*\| (\d+) \| (\d+) \| ([\d.]+) \| ([\d.]+) \|$", PAGE.read_text("utf-8"), re.M
    )
    return {part: Figures(int(all_), int(weak), float(p), float(r)) for part, all_, weak, p, r in rows}


def test_the_corpus_has_two_hundred_different_handoffs_with_a_label_each() -> None:
    assert len(ROWS) >= 200
    assert len({(row["anchor"], row["handoff_text"]) for row in ROWS}) == len(ROWS)
    assert {row["label"] for row in ROWS} == {"weak", "strong"}
    assert {row["origin"] for row in ROWS} == {"after a real one", "made up"}
    assert sum(row["part"] == "held" for row in ROWS) >= 60


@pytest.mark.parametrize("part", ["tune", "held", "hard", "all"])
def test_precision_and_recall_of_lint_are_those_of_the_page(part: str) -> None:
    assert figures(row for row in ROWS if part in ("all", row["part"])) == of_page()[part]


def test_lint_calls_no_strong_handoff_weak_and_finds_nine_of_ten_weak_ones() -> None:
    found = figures(ROWS)
    assert (found.precision, found.recall >= 0.9) == (1.0, True)
