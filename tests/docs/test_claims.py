"""Every sentence that says guaranteed, never or once names a test that holds it to that.

The test stands in a comment inside the sentence, where readers of the page do not see it: `it is never run
again<!-- test_an_effect_is_not_repeated -->.` Several are separated by blanks. What is not guaranteed, "at once" and
"once more" are no such claims.
"""

import re
from functools import cache
from pathlib import Path

import pytest

from .test_snippets import PAGES as ALL_PAGES
from .test_snippets import ROOT, named, prose

PAGES = [page for page in ALL_PAGES if page.parent.name != "decisions"]
CLAIM = re.compile(r"\b(guaranteed|never|once)\b", re.IGNORECASE)
NO_CLAIM = re.compile(
    r"^\W*not guaranteed:.*|\bnot guaranteed\b|\bat once\b|\bonce more\b|`[^`]*`|\]\([^)]*\)", re.IGNORECASE
)
MARKER = re.compile(r"<!-- ((?:test_\w+ ?)+)-->")
SHOWN = re.compile(r"`(test_\w+)`")
BLOCK = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*] |\d+\. |\||#))")
SENTENCE = re.compile(r"(?<=[.!?])[*_)]*\s+")


def claims(page: str) -> list[str]:
    """The sentences of a page that promise something, each with its comment."""
    blocks = [" ".join(block.split()) for block in BLOCK.split(prose(page)) if not block.lstrip().startswith("#")]
    return [sentence for block in blocks for sentence in SENTENCE.split(block) if promises(sentence)]


def promises(sentence: str) -> bool:
    return bool(CLAIM.search(NO_CLAIM.sub("", MARKER.sub("", sentence))))


def named_in(text: str) -> list[str]:
    """The tests that a text names: in comments, or for all to see."""
    return [name for found in MARKER.findall(text) for name in found.split()] + SHOWN.findall(text)


@cache
def known_tests() -> frozenset[str]:
    text = "\n".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    return frozenset(re.findall(r"^\s*(?:async )?def (test_\w+)", text, re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_a_sentence_that_promises_names_its_test(page: Path) -> None:
    assert [sentence for sentence in claims(page.read_text("utf-8")) if not named_in(sentence)] == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_the_tests_that_a_page_names_are_there(page: Path) -> None:
    assert sorted(set(named_in(page.read_text("utf-8"))) - known_tests()) == []


# The reader itself

PAGE = """\
# Never a heading

It is never lost<!-- test_one -->. It happens once. At once, and what is
not guaranteed, `never` is. **Guaranteed:** all of it<!-- test_two test_three -->.

- once
- nothing here, [nor there](page.md#once), once more
- *Not guaranteed:* that it happens once.

| a | never | b |
"""


def test_claims_are_found_by_sentence() -> None:
    found = claims(PAGE)
    assert [named_in(one) for one in found] == [["test_one"], [], ["test_two", "test_three"], [], []]
    assert found[1] == "It happens once."
