"""The difference of two texts: hunks that make the one into the other, whatever the texts are."""

import re
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.files import patch as lines
from outlast.files.patch import unified

HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@\n")
UNENDED = "\\ No newline at end of file\n"


def patched(before: str, hunks: str) -> str:
    """What the hunks make of a text; every line of theirs that should be in it is, at its place."""
    old = re.findall(r"[^\n]*\n|[^\n]+", before)
    made: list[str] = []
    at = 0
    told = re.findall(r"[^\n]*\n", hunks)[2:] if hunks else []
    for number, line in enumerate(told):
        follows = told[number + 1] if number + 1 < len(told) else ""
        content = line[1:-1] if follows == UNENDED else line[1:]
        if place := HUNK.fullmatch(line):
            start = int(place[1]) - (place[2] != "0")
            made += old[at:start]
            at = start
        elif line != UNENDED:
            if line[0] in " -":
                assert old[at] == content
                at += 1
            if line[0] in " +":
                made.append(content)
    return "".join([*made, *old[at:]])


few_lines = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n", "\x0c\n", "d\u2028\n"]), max_size=40).map("".join)
texts = st.builds(lambda whole, cut: whole[:-1] if cut and whole else whole, few_lines, st.booleans())


@given(texts, texts)
def test_the_hunks_make_the_one_into_the_other(before: str, after: str) -> None:
    assert patched(before, unified(before, after, "was", "now")) == after


@given(texts, texts)
def test_when_there_is_no_time_to_compare_the_hunks_are_longer_and_still_right(before: str, after: str) -> None:
    with pytest.MonkeyPatch.context() as change:
        change.setattr(lines, "_WORK", 0)
        assert patched(before, unified(before, after, "was", "now")) == after


def test_equal_texts_and_other_line_ends_have_no_hunks() -> None:
    assert unified("a\nb", "a\nb", "was", "now") == ""
    assert unified("a\r\nb\r\n", "a\nb\n", "was", "now") == ""


def test_changes_far_apart_are_hunks_of_their_own_with_three_lines_around_them() -> None:
    before = [f"{number}\n" for number in range(1, 31)]
    after = [*before[:4], "five\n", *before[5:25], "new\n", *before[25:]]
    assert unified("".join(before), "".join(after), "a.txt", "a.txt") == (
        "--- a.txt\n+++ a.txt\n"
        "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n"
        "@@ -23,6 +23,7 @@\n 23\n 24\n 25\n+new\n 26\n 27\n 28\n"
    )


def test_a_missing_last_line_end_is_said() -> None:
    assert unified("a", "a\n", "was", "now") == f"--- was\n+++ now\n@@ -1 +1 @@\n-a\n{UNENDED}+a\n"


def test_every_second_line_of_a_long_text_changed_is_found_line_by_line() -> None:
    """The library alone takes minutes for this."""
    rows = 10_000
    before = "".join(f"key {row}\nold {row}\n" for row in range(rows))
    after = "".join(f"key {row}\nnew {row}\n" for row in range(rows))
    hunks = unified(before, after, "was", "now")
    assert (hunks.count("\n-"), hunks.count("\n+new")) == (rows, rows)
    assert patched(before, hunks) == after


def test_a_long_text_of_few_different_lines_is_still_compared_soon() -> None:
    step = count(1)
    before = "".join(f"{next(step) ** 2 % 97}\n" for _ in range(50_000))
    after = "".join(f"{next(step) ** 3 % 97}\n" for _ in range(50_000))
    assert patched(before, unified(before, after, "was", "now")) == after
