"""Texts merged by git: what both sides changed, without a trace in any repository."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.files.patch import Merged, has_marks, may_hold, merged, with_ends_of
from outlast.files.snapshot import Bound, Sight
from outlast.handoffs.carry import MergeOutcome, Side, merge
from outlast.values.codec import digest

LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "d\n"]), max_size=8).map(lambda lines: "".join(lines).encode())


def test_what_each_side_changed_is_in_the_outcome() -> None:
    base, here, work = b"1\n2\n3\n4\n5\n", b"one\n2\n3\n4\n5\n", b"1\n2\n3\n4\nfive\n"
    assert merged(base, here, work) == Merged(b"one\n2\n3\n4\nfive\n")


def test_a_conflict_has_all_three_sides_and_is_found_again() -> None:
    found = merged(b"1\n", b"here\n", b"work\n")
    assert found is not None
    assert found.conflicts == 1
    assert found.content.startswith(
        b"<<<<<<< here\nhere\n||||||| where the work began\n1\n=======\nwork\n>>>>>>> the h"
    )
    assert has_marks(found.content)
    assert has_marks(found.content.replace(b"\n", b"\r\n"))
    assert not has_marks(b"a line with <<<<<<< here\n")


@pytest.mark.parametrize("side", [0, 1, 2])
def test_what_is_no_text_is_not_merged(side: int) -> None:
    sides = [b"1\n", b"2\n", b"3\n"]
    sides[side] = b"\0"
    assert merged(*sides) is None


def test_the_line_ends_that_are_used_here_stay() -> None:
    assert merged(b"1\n2\n3\n", b"1\r\n2\r\n3\r\nhere\r\n", b"work\n2\n3\n") == Merged(b"work\r\n2\r\n3\r\nhere\r\n")
    assert with_ends_of(b"a\r\nb\n", b"1\n") == b"1\n"


def test_without_git_nothing_is_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert merged(b"1\n", b"1\n2\n", b"0\n1\n") is None


def test_no_setting_of_the_user_changes_the_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    before = merged(b"1\n", b"here\n", b"work\n")
    for number, (key, value) in enumerate([("merge.conflictStyle", "merge"), ("diff.algorithm", "patience")]):
        monkeypatch.setenv(f"GIT_CONFIG_KEY_{number}", key)
        monkeypatch.setenv(f"GIT_CONFIG_VALUE_{number}", value)
    monkeypatch.setenv("GIT_CONFIG_COUNT", "2")
    assert merged(b"1\n", b"here\n", b"work\n") == before


def once(base: bytes, here: bytes, work: bytes) -> MergeOutcome:
    seen = Sight(Bound("file", digest(here), size=len(here)), here)
    return merge("a", seen, Side("file", base), Side("file", work), "both changed it", leave=False)


@pytest.mark.parametrize(
    ("base", "here", "work"),
    [
        ("acd", "xacd", "aacd"),
        ("bbc", "zzc", "bbcc"),
        ("caccbcdb", "yccaccdb", "cacccdbz"),
        ("abdaabcb", "abaabcb", "abdabcb"),
        ("bbacc", "bbdcc", "bbac"),
    ],
)
def test_merged_a_second_time_a_text_is_left_alone(base: str, here: str, work: str) -> None:
    lines = ["".join(f"{sign}\n" for sign in text).encode() for text in (base, here, work)]
    first = once(*lines)
    content = first.put.content if first.put else lines[1]
    assert once(lines[0], content, lines[2]).put is None


@settings(max_examples=25, deadline=None)
@given(LINES, LINES, LINES)
def test_whatever_the_texts_nothing_is_merged_twice(base: bytes, here: bytes, work: bytes) -> None:
    first = once(base, here, work)
    if first.put is not None:
        assert once(base, first.put.content, work).put is None


def test_a_text_that_the_work_did_not_reach_yet_does_not_hold_it() -> None:
    base, here, work = b"1\n2\n3\n4\n5\n", b"one\n2\n3\n4\n5\n", b"1\n2\n3\n4\nfive\n"
    assert not may_hold(base, here, work)
    assert may_hold(base, b"one\n2\n3\n4\nfive\n", work)
