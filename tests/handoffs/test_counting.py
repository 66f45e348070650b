"""Which evidence counts: the rules of docs/evidence.md, one by one, and what holds for all of them."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from outlast.files.snapshot import Binding, Bound
from outlast.handoffs.evidence import content_of, counted
from outlast.handoffs.handoff import Evidence

KINDS: dict[str, Any] = {"r": "runner", "c": "client", "s": "self"}


def word(short: str) -> Evidence:
    """`r+A`: a runner's pass on content A; `s-`: somebody says it failed; a dot in front: at store."""
    kind, sign, *content = short.lstrip(".")
    return Evidence(
        check="make",
        passed=sign == "+",
        at=1,
        by="ann",
        where="here",
        runner=KINDS[kind],
        when="store" if short.startswith(".") else "verify",
        content="".join(content),
    )


def came(words: str, content: str | None) -> str:
    return counted([word(each) for each in words.split()], content).came


TABLE = [
    ("nothing was said", "", "A", "unrun"),
    ("a pass at store is no run since", ".r+A", "A", "unrun"),
    ("a failure at store is none either", ".r-A", "A", "unrun"),
    ("a pass on this content", "r+A", "A", "passed"),
    ("a pass lapses with the content", "r+A", "B", "unrun"),
    ("and counts again when it is back", "r+A r+B", "A", "passed"),
    ("a pass counts for nobody who did not look", "r+A", None, "unrun"),
    ("nor if it is not known what it ran on", "r+", "A", "unrun"),
    ("it never passed", "r-A", "A", "failed"),
    ("it failed at store and still fails", ".r-A r-A", "A", "failed"),
    ("it passed at store and fails", ".r+A r-A", "A", "regressed"),
    ("it passed since and fails", "r+A r-B", "B", "regressed"),
    ("it failed at store, passed, and fails", ".r-A r+A r-A", "A", "regressed"),
    ("run again, it passes", ".r+A r-A r+A", "A", "passed"),
    ("it failed on this content, whatever passed elsewhere", ".r+A r-A r+B", "A", "regressed"),
    ("a regression on other content", ".r+A r-A", "B", "failed_before"),
    ("one that has passed elsewhere since", ".r+A r-A r+B", "C", "unrun"),
    ("a failure of no weight on other content", "r-A", "B", "unrun"),
    ("a regression, and nobody looks", ".r+A r-A", None, "regressed"),
    ("a regression on who knows what", ".r+A r-", "A", "regressed"),
    ("a false report", "s+A r-A", "A", "contradicted"),
    ("a false report at store", ".s+A r-B", "B", "contradicted"),
    ("a false report, run twice", "s+A r-A r-A", "A", "contradicted"),
    ("a false report of who did not look", "r-A s+", "A", "contradicted"),
    ("a report that was confirmed, and a regression", "s+A r+A r-B", "B", "regressed"),
    ("a false report, and the files changed", "s+A r-A", "B", "failed_before"),
    ("somebody says it fails after it passed", "r+A s-A", "A", "contradicted"),
    ("somebody said so before it passed", "s-A r+A", "A", "passed"),
    ("somebody says so of other content", "r+A s-B", "A", "passed"),
    ("only a report", "s+A", "A", "reported"),
    ("a report stays one when files change", "s+A", "B", "reported"),
    ("two reports that disagree", "s+A s-A", "A", "contradicted"),
    ("two of who did not look", "s-  s+", "A", "contradicted"),
    ("two about different content", "s-A s+B", "B", "reported"),
    ("two about what is no longer there", "s+A s-A", "B", "reported"),
    ("failed at store, reported as passed", ".s-A s+A", "A", "reported"),
    ("a client's run counts", "c+A", "A", "passed"),
    ("a client's failure too", ".r+A c-A", "A", "regressed"),
    ("a runner outweighs a client, who contradicts", "r+A c-A", "A", "contradicted"),
    ("and the other way", "r-A c+A", "A", "contradicted"),
    ("nobody looks, and a runner outweighs a client all the same", "r-A c+A", None, "contradicted"),
    ("nobody looks, and somebody says it fails after it passed", "r+A s-A", None, "contradicted"),
    ("nobody looks, and somebody says so of other content", "r+A s-B", None, "reported"),
    ("it failed, was mended, and a report is about what failed", "r-A r+B s+A", "A", "contradicted"),
    ("the same, and nobody looks", "r-A r+B s+A", None, "contradicted"),
    ("nobody looks, and somebody says that what passed earlier fails", "r+A r+B s-A", None, "contradicted"),
    ("a regression that is mended, a report about that, and nobody looks", ".r+A r-A r+B s+B", None, "reported"),
    ("a regression, a report about other content, and nobody looks", ".r+A r-A s+B", None, "contradicted"),
    ("two reports that disagree, and one about other content", "s+A s-A s+B", "A", "contradicted"),
    ("the same on that other content", "s+A s-A s+B", "B", "reported"),
    ("the same, and nobody looks", "s+A s-A s+B", None, "contradicted"),
    ("a runner after a client settles it", "c-A r+A", "A", "passed"),
    ("a client on this content, a runner elsewhere", "r-B c+A", "A", "passed"),
]


@pytest.mark.parametrize(("words", "content", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_the_rules_one_by_one(words: str, content: str | None, expected: str) -> None:
    assert came(words, content) == expected


words = st.lists(
    st.sampled_from(
        [f"{dot}{kind}{sign}{at}" for dot, kind, sign, at in product(["", "."], "rcs", "+-", ["", "A", "B"])]
    ).map(word),
    max_size=6,
).map(lambda found: sorted(found, key=lambda each: each.when != "store"))
CONTENTS = st.sampled_from(["A", "B"])
CONTESTS = {"regressed", "contradicted"}


RANK = {"passed": 0, "unrun": 0, "failed": 0, "reported": 1, "failed_before": 1, "regressed": 2, "contradicted": 2}


@given(words, CONTENTS)
@example([word(each) for each in ("r-A", "r+B", "s+A")], "A")
@example([word(each) for each in ("s+A", "s-A", "s+B")], "A")
def test_looking_less_never_raises_a_verdict(said: list[Evidence], content: str) -> None:
    """What may be there is what the last run ran on, and what anything said since is about: none of it is worse."""
    runs = [place for place, each in enumerate(said) if each.runner != "self" and each.when != "store"]
    recent = {each.content for each in said[runs[-1] if runs else 0 :]}
    if content in recent or (runs and not said[runs[-1]].content and not said[runs[-1]].passed):
        assert RANK[counted(said, None).came] >= RANK[counted(said, content).came]
    assert counted(said, None).came != "passed"


@given(words, CONTENTS)
def test_only_reports_never_count_as_a_run(said: list[Evidence], content: str) -> None:
    only = [replace(each, runner="self") for each in said]
    assert counted(only, content).came in ("unrun", "reported", "contradicted")
    assert not counted(only, content).ran


@given(words, CONTENTS, st.booleans())
def test_running_it_again_settles_all_that_was_said_before_it(said: list[Evidence], content: str, passes: bool) -> None:
    again = counted([*said, word(f"r{'+' if passes else '-'}{content}")], content)
    assert again.came == "passed" if passes else again.came in ("failed", *CONTESTS)


@given(words, CONTENTS)
def test_a_report_that_it_fails_never_raises_a_verdict(said: list[Evidence], content: str) -> None:
    before, after = counted(said, content).came, counted([*said, word(f"s-{content}")], content).came
    assert RANK[after] >= RANK[before]


# -- content -----------------------------------------------------------------------------------------

FILE = Bound("file", "1" * 64, "a" * 40, 1)
LOOKED = Binding(
    root="/repo", host="here", files={"a.py": FILE}, musts={"m": FILE}, environment={"e": FILE}, commit="c"
)


@pytest.mark.parametrize("name", ["files", "musts", "environment"])
@pytest.mark.parametrize(
    "now", [{}, {"a.py": Bound("absent")}, {"a.py": replace(FILE, blob="b" * 40, digest="2" * 64)}]
)
def test_targets_musts_and_environment_are_content(name: str, now: dict[str, Bound]) -> None:
    assert content_of(replace(LOOKED, **{name: now})) != content_of(LOOKED)


@pytest.mark.parametrize("change", [{"commit": "d"}, {"dirty": "d1"}, {"files": {"a.py": replace(FILE, mode="exec")}}])
def test_the_commit_other_changed_files_and_the_exec_bit_are_content(change: dict[str, Any]) -> None:
    assert content_of(replace(LOOKED, **change)) != content_of(LOOKED)


@pytest.mark.parametrize("change", [{"root": "/other"}, {"host": "there"}, {"branch": "side"}, {"patch": "b" * 64}])
def test_where_somebody_looked_is_no_content(change: dict[str, Any]) -> None:
    assert content_of(replace(LOOKED, **change)) == content_of(LOOKED)


def test_line_ends_are_no_content() -> None:
    crlf = replace(FILE, digest="2" * 64, size=2, kept="2" * 64)
    assert content_of(replace(LOOKED, files={"a.py": crlf})) == content_of(LOOKED)
