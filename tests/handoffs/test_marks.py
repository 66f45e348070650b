"""Five marks of a weak handoff and five of a strong one, as `docs/strong-handoffs.md` has them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast.handoffs.handoff import Handoff

from ..kit.desk import TASK, Desk, codes

WEAK = "weak"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    found = Desk(tmp_path)
    yield found
    found.close()


def found_in(handoff: Handoff) -> set[str]:
    return {finding.code for finding in handoff.lint.findings}


def said(desk: Desk, stored: Handoff) -> tuple[str, set[str]]:
    recovered = desk.recover(anchor=stored.anchor)
    return str(recovered.verdict), codes(recovered, ["weakens"])


# -- weak --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("anchor", ["x", "fix", "wip", "notes", "412", "session-2026-02-22", "task:tbd", "latest"])
def test_weak_no_stable_anchor(desk: Desk, anchor: str) -> None:
    stored = desk.store(anchor=anchor)
    assert found_in(stored) == {"no_anchor"}
    assert said(desk, stored) == ("candidate", {WEAK})


def test_weak_it_says_what_happened_and_not_what_comes_next(desk: Desk) -> None:
    past = "Fixed the parser and told the team."
    stored = desk.store(handoff_text=past, next_action=past)
    assert found_in(stored) == {"past_tense", "no_next_action"}
    assert said(desk, stored) == ("candidate", {WEAK})


@pytest.mark.parametrize(
    "words", ["continue", "TBD", "?", "Finish the rest", "See above", "Carry on with the remaining stuff", "🚀", "..."]
)
def test_weak_words_that_say_nothing(desk: Desk, words: str) -> None:
    stored = desk.store(next_action=words)
    assert found_in(stored) == {"empty_words"}
    assert "src/export.py" in stored.lint.findings[0].better
    assert said(desk, stored) == ("candidate", {WEAK})
    both = desk.store(anchor="task:both", handoff_text=words, next_action=words)
    assert [finding.path for finding in both.lint.findings] == ["next_action", "handoff_text"]


def test_weak_no_files_or_files_that_are_not_there(desk: Desk) -> None:
    assert said(desk, desk.store(target_files=[])) == ("candidate", {WEAK, "unbound"})
    stored = desk.store(anchor="task:typo", target_files=["src/exprot.py"])
    assert said(desk, stored) == ("candidate", {"target_absent"})


VAIN = [
    *("true", ":", "exit 0", "echo ok", "pytest -q || true", "make sure it works", "?"),
    *("echo done && exit 0", "pytest -q; echo done", "pytest -q || echo 'it failed'"),
]


@pytest.mark.parametrize("check", VAIN)
def test_weak_no_check_or_one_that_cannot_fail(desk: Desk, check: str) -> None:
    assert said(desk, desk.store(acceptance_checks=[])) == ("candidate", {"no_checks"})
    stored = desk.store(anchor="task:vain", acceptance_checks=[check])
    assert found_in(stored) == {"empty_check"}
    assert said(desk, stored) == ("candidate", {WEAK})


@pytest.mark.parametrize("check", ["true", "pytest --version; true"])
def test_a_check_that_cannot_fail_clears_nothing_when_it_is_run(desk: Desk, check: str) -> None:
    desk.store(acceptance_checks=[check])
    assert WEAK in codes(desk.recover(run_checks=True))


# -- strong ------------------------------------------------------------------------------------------

CONCRETE: list[tuple[str, Any]] = [
    ("next_action", "Fix the parser"),
    ("next_action", "Continue with table n: tools/migrate.py --table n"),
    ("next_action", "Review `Lease.take`"),
    ("handoff_text", "Continue."),
    ("acceptance_checks", ["test -f src/export.py", "true"]),
    ("acceptance_checks", ["! grep -rn recieve src"]),
    ("acceptance_checks", [{"file": "src/export.py", "contains": "def export"}]),
    ("acceptance_checks", ["echo x | grep -q x"]),
    ("acceptance_checks", ['grep -q "a; echo b" src/export.py']),
    ("acceptance_checks", ["pytest -q || { echo failed; exit 1; }"]),
    ("acceptance_checks", ["cd src && test -f export.py"]),
]


@pytest.mark.parametrize(
    "anchor", [TASK, "branch:feature/x", "export-repair", "task:fix-date-zone", "issue-412-import"]
)
def test_strong_one_stable_anchor(desk: Desk, anchor: str) -> None:
    assert said(desk, desk.store(anchor=anchor)) == ("trusted", set())


def test_strong_the_text_says_where_to_re_enter(desk: Desk) -> None:
    text = "The lexer was rewritten. Go on in src/export.py: the tz branch returns naive datetimes."
    assert said(desk, desk.store(handoff_text=text)) == ("trusted", set())


def test_strong_files_that_are_there_or_are_to_be_made(desk: Desk) -> None:
    assert said(desk, desk.store(target_files=["src/export.py"], creates=["src/new.py"])) == ("trusted", set())


def test_strong_one_explicit_next_action(desk: Desk) -> None:
    assert said(desk, desk.store(next_action="Patch the tz branch of export()")) == ("trusted", set())


def test_strong_checks_that_can_fail(desk: Desk) -> None:
    desk.store(acceptance_checks=["grep -q patched src/export.py"], baseline=True)
    recovered = desk.recover(run_checks=True)
    assert (str(recovered.verdict), [each.passed for each in recovered.evidence]) == ("trusted", [False])


@pytest.mark.parametrize(("field", "value"), CONCRETE)
def test_one_concrete_word_is_enough(desk: Desk, field: str, value: Any) -> None:
    assert desk.store(**{field: value}).lint.findings == ()
