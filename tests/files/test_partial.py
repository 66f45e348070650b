"""Partial work: which files are meant, what changed, how much is there, and the record of it."""

import json
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.errors import NameInvalid, ValueRefused
from outlast.files.changes import (
    FileChange,
    LeftFiles,
    Patterns,
    SeenFile,
    blobs_of,
    changes,
    edited_since,
    from_facts,
    judge,
    last_lines,
    matches,
    not_restorable,
    to_facts,
)
from outlast.values.codec import path_of, text


def seen(content: str, **other: object) -> SeenFile:
    return SeenFile(content, len(content), "file", **other)  # type: ignore[arg-type]


NAMES = [
    "a",
    "b",
    "out",
    "src",
    "x.py",
    ".hidden",
    "sp ace",
    "qu\"o'te",
    "ne\nw",
    "🙂",
    "caf\udce9",
    "bytes:%20",
    "a[1]",
]
PATHS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map("/".join)
TREES = st.dictionaries(PATHS, st.sampled_from(["1", "2", "3"]).map(seen), max_size=8)


# -- patterns ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "meant", "not_meant"),
    [
        ("plan.md", ["plan.md"], ["a/plan.md", "plan.mdx", "plan_md"]),
        ("out", ["out", "out/a", "out/a/b"], ["output", "a/out"]),
        ("out/", ["out/a", "out/a/b"], ["out"]),
        ("./out//a", ["out/a", "out/a/b"], ["out"]),
        (".", ["a", "a/b/c", ".hidden"], []),
        ("src/*", ["src/a", "src/.hidden"], ["src", "src/a/b", "a"]),
        ("src/*.py", ["src/x.py", "src/.py"], ["src/a/x.py", "x.py", "src/x.pyc"]),
        ("src/**", ["src/a", "src/a/b", "src/.hidden/a"], ["src", "a/src/b"]),
        ("**", ["a", "a/b", ".hidden"], []),
        ("**/x.py", ["x.py", "a/x.py", "a/b/x.py", "x.py/below"], ["a/y.py"]),
        ("src/**/x.py", ["src/x.py", "src/a/b/x.py"], ["x.py", "a/src/x.py"]),
        ("*/out/**", ["a/out/b", "a/out/b/c"], ["out/b", "a/b/out/c"]),
        ("a?c", ["abc", "a\nc", "a🙂c"], ["ac", "a/c", "abbc"]),
        ("a[0-9]", ["a1"], ["ab", "a"]),
        ("a[!0-9]", ["ab"], ["a1", "a/"]),
        ("a[[]1]", ["a[1]"], ["a1"]),
        (".hidden*", [".hidden", ".hidden1"], ["hidden"]),
        ("a**b", ["ab", "axxb"], ["a/b"]),
        ("src/{a,b}", ["src/{a,b}"], ["src/a"]),
    ],
)
def test_a_pattern_means_these_files_and_not_those(pattern: str, meant: list[str], not_meant: list[str]) -> None:
    assert [path for path in meant if not matches(pattern, path)] == []
    assert [path for path in not_meant if matches(pattern, path)] == []


@pytest.mark.parametrize("path", [".git/config", "a/.git/x", ".git", ".outlast/db", "a/.outlast-0123", "a/.outlast/b"])
def test_git_and_outlast_are_never_meant(path: str) -> None:
    assert not any(matches(pattern, path) for pattern in ["**", ".", ".*", "*/.*", "a", ".g*/**", "**/.*/*"])
    assert matches("**", ".gitignore")


@pytest.mark.parametrize(
    "pattern", ["", "/etc/passwd", "../x", "a/../../x", "a\0b", "\ud800", ".git/config", ".outlast"]
)
def test_a_pattern_that_leaves_its_folder_or_cannot_be_a_name_is_refused(pattern: str) -> None:
    with pytest.raises(NameInvalid, match="pattern"):
        Patterns.of(["fine", pattern])


@given(PATHS)
def test_a_path_is_meant_by_its_own_name_and_by_everything(path: str) -> None:
    escaped = path.replace("[", "[[]")
    assert matches(escaped, path)
    assert matches("**", path)
    assert matches("/".join("*" for _ in path.split("/")), path)
    assert not matches("/".join("*" for _ in [*path.split("/"), "more"]), path)


@given(PATHS, st.lists(st.sampled_from(["*", "a", "x.py", "?", "[ab]", "*.py"]), min_size=1, max_size=4))
def test_without_folders_in_it_a_wild_pattern_is_read_as_pathlib_reads_it(path: str, parts: list[str]) -> None:
    pattern = "/".join([*parts, "*"])
    expected = len(path.split("/")) == len(parts) + 1 and PurePosixPath(path).match(pattern)
    assert matches(pattern, path) == expected


def test_a_long_and_nested_pattern_is_no_trouble() -> None:
    assert matches("/".join(["**", "a*a*a*a*b"] * 20), "/".join(["a" * 200] * 60)) is False
    assert matches("x" * 10_000, "x" * 10_000)


# -- changes and judgement ---------------------------------------------------------------------------


@given(TREES, TREES)
def test_changes_name_every_file_that_is_not_as_it_was(before: dict[str, SeenFile], now: dict[str, SeenFile]) -> None:
    found = changes(before, now)
    assert [change.path for change in found] == sorted(p for p in {*before, *now} if before.get(p) != now.get(p))
    for change in found:
        assert change.before == (before[change.path].digest if change.path in before else "")
        assert change.after == (now[change.path].digest if change.path in now else "")
        kind = {(True, True): "changed", (True, False): "removed", (False, True): "created"}
        assert change.change == kind[change.path in before, change.path in now]


@given(TREES, TREES)
def test_undoing_the_changes_gives_the_files_before(before: dict[str, SeenFile], now: dict[str, SeenFile]) -> None:
    undone = {path: each.digest for path, each in now.items()}
    for change in changes(before, now):
        undone[change.path] = change.before
    assert {path: found for path, found in undone.items() if found} == {p: each.digest for p, each in before.items()}


def test_permissions_and_kind_are_changes_and_being_kept_is_none() -> None:
    plain = SeenFile("d", 1, "file")
    assert changes({"a": plain}, {"a": SeenFile("d", 1, "file", kept="d")}) == ()
    assert changes({"a": plain}, {"a": SeenFile("d", 1, "exec", bits=0o755)}) == (FileChange("a", "changed", "d", "d"),)
    assert changes({"a": plain}, {"a": SeenFile("d", 1, "link", bits=0)}) == (FileChange("a", "changed", "d", "d"),)
    assert changes({"a": SeenFile("", 5, "file")}, {"a": SeenFile("", 6, "file")}) == (
        FileChange("a", "changed", "", ""),
    )


@pytest.mark.parametrize(
    ("before", "now", "judgement"),
    [
        ({}, {}, "none"),
        ({"plan.md": "1"}, {"plan.md": "1"}, "none"),
        ({}, {"other": "1"}, "none"),
        ({}, {"plan.md": "1"}, "partial"),
        ({"plan.md": "1"}, {}, "partial"),
        ({"src/a": "1"}, {"src/a": "2"}, "partial"),
        ({"plan.md": "1", "src/a": "1"}, {"plan.md": "2", "src/a": "1"}, "partial"),
        ({"plan.md": "1", "src/a": "1"}, {"plan.md": "2"}, "partial"),
        ({}, {"plan.md": "1", "src/a": "1"}, "complete"),
        ({"plan.md": "1", "src/a": "1"}, {"plan.md": "2", "src/b": "1"}, "complete"),
    ],
)
def test_an_attempt_is_judged_by_what_every_pattern_has(
    before: dict[str, str], now: dict[str, str], judgement: str
) -> None:
    was, found = ({path: seen(content) for path, content in tree.items()} for tree in (before, now))
    assert judge(["plan.md", "src/**"], was, found) == judgement


def test_a_folder_that_cannot_be_read_is_no_file_that_is_there() -> None:
    assert judge(["out"], {}, {"out": SeenFile("", 0, "folder", why="unreadable")}) == "partial"
    assert judge([], {}, {"out": seen("1")}) == "none"


@given(TREES, TREES, st.lists(st.sampled_from(["**", "a", "src/*", "*.py"]), max_size=3))
def test_a_judgement_is_none_only_when_nothing_declared_changed(
    before: dict[str, SeenFile], now: dict[str, SeenFile], patterns: list[str]
) -> None:
    touched = [change for change in changes(before, now) if any(matches(each, change.path) for each in patterns)]
    assert (judge(patterns, before, now) == "none") == (touched == [])


# -- may it be put back? -----------------------------------------------------------------------------


@given(TREES, TREES, TREES)
def test_edits_after_the_end_are_told_from_what_the_attempt_left(
    before: dict[str, SeenFile], after: dict[str, SeenFile], now: dict[str, SeenFile]
) -> None:
    known = LeftFiles(1, "failed", "partial", changes(before, after)).known_after
    undo = changes(before, now)
    edited = edited_since(undo, known)
    assert set(edited) == {
        change.path for change in undo if change.path in now and now[change.path] != after.get(change.path)
    }
    assert edited_since(changes(before, after), known) == ()


def test_what_was_not_kept_or_cannot_be_saved_cannot_be_put_back() -> None:
    before = {
        "big": seen("1", why="too_large"),
        "kept": seen("1", kept="1"),
        "mode": SeenFile("1", 1, "exec", why="secret", bits=0o755),
        "gone": seen("1", why="over_budget"),
    }
    now = {"big": seen("2"), "kept": seen("2"), "mode": seen("1"), "pipe": SeenFile("", 0, "special", why="special")}
    found = dict(not_restorable(changes(before, now), before, now))
    assert list(found) == ["big", "gone", "pipe"]
    assert "too large" in found["big"]
    assert "cannot be saved" in found["pipe"]


# -- the record --------------------------------------------------------------------------------------

LEFT = LeftFiles(
    attempt=2,
    status="crashed",
    judgement="partial",
    files=(FileChange("caf\udce9 🙂\n", "created", "", "d1"), FileChange("b", "removed", "d2", "")),
    tail="last words",
    git=("a b", "x\udcff"),
    git_more=7,
    exit=-9,
    error="killed",
)


def test_the_record_goes_through_json_and_comes_back_equal() -> None:
    plain = json.loads(json.dumps(LEFT.to_dict(), ensure_ascii=False).encode("utf-8"))
    assert LeftFiles.from_dict(plain) == LEFT
    assert plain["files"][1] == {"path": "b", "change": "removed", "before": "d2", "after": ""}
    assert LEFT.known_after == {"caf\udce9 🙂\n": "d1", "b": ""}


def test_a_record_may_lack_fields_and_has_no_others() -> None:
    assert LeftFiles.from_dict({"attempt": 1}) == LeftFiles(1, "", "none")
    with pytest.raises(ValueRefused, match=r"surprise"):
        LeftFiles.from_dict({"attempt": 1, "surprise": 1})
    with pytest.raises(ValueRefused, match=r"files\[0\]\.other"):
        LeftFiles.from_dict({"files": [{"path": "a", "other": 1}]})


@given(PATHS)
def test_a_path_goes_through_text_that_is_utf8(path: str) -> None:
    assert path_of(text(path).encode("utf-8").decode("utf-8")) == path


@given(st.lists(PATHS, unique=True, max_size=5), st.sampled_from(["d" * 64, ""]), st.sampled_from(["", "too_large"]))
def test_what_was_seen_goes_through_the_journal(paths: list[str], digest: str, why: str) -> None:
    kept = digest if not why else ""
    found = {path: SeenFile(digest, 3, "exec", kept=kept, why=why, bits=0o750) for path in paths}
    assert from_facts(json.loads(json.dumps(to_facts(found), ensure_ascii=False).encode())) == found
    assert blobs_of(found) == ((kept,) if kept and paths else ())


@given(st.text(alphabet=st.sampled_from("ab\n🙂\udcff"), max_size=400), st.integers(60, 200))
def test_the_tail_is_the_end_and_says_what_was_cut(transcript: str, limit: int) -> None:
    whole = last_lines(transcript, 10**6)
    tail = last_lines(transcript, limit)
    tail.encode("utf-8")
    assert len(tail) <= limit
    if len(whole) <= limit:
        assert tail == whole
    else:
        note, rest = tail.split("\n", 1)
        assert whole.endswith(rest)
        assert str(len(whole) - len(rest)) in note
        assert rest.strip("\n") or not whole[-5:].strip("\n")


def test_the_tail_begins_at_a_line_where_there_is_one() -> None:
    lines = "".join(f"line {n}\n" for n in range(2_000))
    note, first, *_, last, _ = last_lines(lines).split("\n")
    assert note.startswith("[the ")
    assert (first.startswith("line "), last) == (True, "line 1999")
    long = last_lines("x" * 10_000)
    assert len(long) > 3_900
    assert long.endswith("xxx")
