"""Where the work and a clone both changed a file, applying merges them; what cannot be merged touches nothing."""

import json
import os
import shutil
from functools import partial
from pathlib import Path

import pytest

from outlast import failpoints
from outlast.errors import NotApplicable
from outlast.files import place as placing
from outlast.files.place import STAGING
from outlast.handoffs.carry import apply
from outlast.handoffs.difference import Applied
from outlast.handoffs.handoff import Handoff
from outlast.home.home import Home
from outlast.runs.live import Executor
from outlast.testing.crashes import Tell, in_child

from ..kit.place import Place
from .test_carrying import actions, clone_of, git, refused, stored, tree, write

LINES = [f"line {n}\n" for n in range(1, 31)]


def text(**changed: str) -> str:
    """Thirty lines, of which some are others: `at5="five"`."""
    lines = list(LINES)
    for name, line in changed.items():
        lines[int(name.removeprefix("at")) - 1] = f"{line}\n"
    return "".join(lines)


@pytest.fixture
def runtime(place: Place) -> Executor:
    return place.outlast._executor


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("original")
    git(root, "init", "-q", "--template=")
    for name in ("target.py", "second.py", "other.py", "third.py"):
        write(root, name, text())
    write(root, "logo.bin", b"\0logo")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    return root


@pytest.fixture
def source(original: Path, tmp_path: Path) -> Path:
    return shutil.copytree(original, tmp_path / "source", symlinks=True)


def worked(root: Path) -> None:
    """The work: two targets and another tracked file, all near the top."""
    for name in ("target.py", "second.py", "other.py"):
        write(root, name, text(at3=f"{name} by the work"))


def kept_of(home: Home, source: Path) -> Handoff:
    worked(source)
    return stored(home, source, "target.py", "second.py")


BOTH = text(at3="target.py by the work", at25="by the clone")


@pytest.mark.parametrize("how", ["own changes", "later commits", "staged"])
def test_what_both_changed_is_merged_line_by_line(runtime: Executor, source: Path, how: str) -> None:
    clone, kept = clone_of(source), kept_of(runtime.home, source)
    write(clone, "target.py", text(at25="by the clone"))
    write(clone, "other.py", text(at25="by the clone"))
    if how != "own changes":
        git(clone, "add", "-A")
    if how == "later commits":
        git(clone, "commit", "-qm", "on")
    index = git(clone, "ls-files", "--stage")
    planned = apply(runtime.home, kept, clone, dry_run=True)
    assert not planned.hindrances
    done = apply(runtime.home, kept, clone)
    assert actions(done)["target.py"] == "merge"
    assert (clone / "target.py").read_text() == BOTH
    assert (clone / "other.py").read_text() == text(at3="other.py by the work", at25="by the clone")
    assert (clone / "second.py").read_text() == text(at3="second.py by the work")
    assert git(clone, "ls-files", "--stage") == index
    before = tree(clone)
    again = apply(runtime.home, kept, clone)
    assert tree(clone) == before
    assert {*actions(again).values()} == {"same", "keep"}
    assert "nothing to do" in again.as_text()


def test_what_only_the_clone_changed_stays(runtime: Executor, source: Path) -> None:
    clone = clone_of(source)
    write(source, "target.py", text(at3="by the work"))
    kept = stored(runtime.home, source, "target.py", "second.py", "third.py")
    write(clone, "second.py", "mine\n")
    (clone / "third.py").unlink()
    git(clone, "commit", "-qam", "on")
    write(clone, "second.py", "mine, uncommitted\n")
    done = apply(runtime.home, kept, clone)
    assert actions(done) == {"target.py": "write", "second.py": "keep", "third.py": "keep"}
    assert (clone / "second.py").read_text() == "mine, uncommitted\n"
    assert not (clone / "third.py").exists()


def conflicting(home: Home, source: Path) -> tuple[Handoff, Path]:
    clone, kept = clone_of(source), kept_of(home, source)
    write(clone, "target.py", text(at3="by the clone"))
    write(clone, "other.py", text(at3="by the clone"))
    return kept, clone


def test_the_same_lines_changed_on_both_sides_touch_nothing_and_say_how_to_go_on(
    runtime: Executor, source: Path
) -> None:
    kept, clone = conflicting(runtime.home, source)
    message = refused(runtime.home, kept, clone)
    for path in ("target.py", "other.py"):
        assert repr(path) in message
    assert "--leave-conflicts" in message
    assert "'second.py'" not in message


def test_on_request_conflicts_are_left_in_the_file_with_both_sides(runtime: Executor, source: Path) -> None:
    kept, clone = conflicting(runtime.home, source)
    planned = apply(runtime.home, kept, clone, leave_conflicts=True, dry_run=True)
    assert actions(planned)["target.py"] == "conflict left"
    assert (clone / "target.py").read_text() == text(at3="by the clone")
    done = apply(runtime.home, kept, clone, leave_conflicts=True)
    assert done.done
    assert [file.path for file in done.conflicts_left] == ["target.py", "other.py"]
    found = (clone / "target.py").read_text()
    for part in (
        "<<<<<<< here\nby the clone\n",
        "line 3\n",
        "target.py by the work\n>>>>>>> the handoff\n",
        "line 30\n",
    ):
        assert part in found
    assert (clone / "second.py").read_text() == text(at3="second.py by the work")
    assert "solve" in done.as_text()


def test_conflicts_that_are_left_are_not_merged_into_each_other(runtime: Executor, source: Path) -> None:
    kept, clone = conflicting(runtime.home, source)
    apply(runtime.home, kept, clone, leave_conflicts=True)
    before = tree(clone)
    for leave in (True, False):
        with pytest.raises(NotApplicable, match="conflicts of an earlier apply"):
            apply(runtime.home, kept, clone, leave_conflicts=leave)
    assert tree(clone) == before


def test_what_cannot_be_merged_is_a_conflict_whatever_is_asked_for(runtime: Executor, source: Path) -> None:
    clone = clone_of(source)
    write(source, "logo.bin", b"\0work")
    (source / "target.py").unlink()
    write(source, "new.py", "by the work\n")
    os.symlink("second.py", source / "link")
    kept = stored(runtime.home, source, "logo.bin", "target.py", "new.py", "link")
    write(clone, "logo.bin", b"\0mine")
    write(clone, "target.py", text(at3="mine"))
    os.symlink("other.py", clone / "link")
    before = tree(clone)
    with pytest.raises(NotApplicable) as raised:
        apply(runtime.home, kept, clone, leave_conflicts=True)
    assert tree(clone) == before
    assert all(f"'{name}'" in str(raised.value) for name in ("logo.bin", "target.py", "link"))
    assert "'new.py'" not in str(raised.value)


def test_a_file_that_both_made_is_a_conflict_that_can_be_left(runtime: Executor, source: Path) -> None:
    clone = clone_of(source)
    write(source, "new.py", "by the work\n")
    kept = stored(runtime.home, source, "new.py")
    write(clone, "new.py", "mine\n")
    assert "'new.py'" in refused(runtime.home, kept, clone)
    apply(runtime.home, kept, clone, leave_conflicts=True)
    assert "<<<<<<< here\nmine\n" in (clone / "new.py").read_text()


def test_line_ends_and_the_exec_bit_of_the_clone_stay(runtime: Executor, source: Path) -> None:
    clone, kept = clone_of(source), kept_of(runtime.home, source)
    write(clone, "target.py", text(at25="by the clone").replace("\n", "\r\n"), 0o755)
    apply(runtime.home, kept, clone)
    assert (clone / "target.py").read_bytes() == BOTH.replace("\n", "\r\n").encode()
    assert (clone / "target.py").stat().st_mode & 0o777 == 0o755


def test_force_takes_the_handoffs_in_place_of_later_commits_and_merges_own_changes(
    runtime: Executor, source: Path
) -> None:
    clone, kept = clone_of(source), kept_of(runtime.home, source)
    write(clone, "target.py", text(at25="by the clone"))
    git(clone, "commit", "-qam", "on")
    write(clone, "second.py", text(at25="mine"))
    apply(runtime.home, kept, clone, force=True)
    assert (clone / "target.py").read_text() == text(at3="target.py by the work")
    assert (clone / "second.py").read_text() == text(at3="second.py by the work", at25="mine")


def test_names_that_git_could_take_for_options_are_merged_too(runtime: Executor, source: Path) -> None:
    names = ["-p", "sp ace 🙂.txt", "qu\"o'te", "new\nline"]
    for name in names:
        write(source, name, text())
    git(source, "add", "-A")
    git(source, "commit", "-qm", "names")
    clone = clone_of(source)
    for name in names:
        write(source, name, text(at3="by the work"))
        write(clone, name, text(at25="mine"))
    apply(runtime.home, stored(runtime.home, source, *names[:2]), clone)
    assert {(clone / name).read_text() for name in names} == {text(at3="by the work", at25="mine")}


# -- all or nothing ----------------------------------------------------------------------------------


def test_an_error_in_the_middle_puts_everything_back(runtime: Executor, source: Path) -> None:
    clone, kept = clone_of(source), kept_of(runtime.home, source)
    write(clone, "target.py", text(at25="mine"))
    before = tree(clone)
    reached: list[str] = []

    def edit(point: str) -> None:
        reached.append(point)
        if reached.count("apply.written") == 2:
            write(clone, "other.py", "edited just now\n")

    failpoints.arm(edit)
    try:
        with pytest.raises(NotApplicable, match=r"'other.py' changed just now; all else is as it was"):
            apply(runtime.home, kept, clone)
    finally:
        failpoints.arm(None)
    assert tree(clone) == before | {"other.py": ("file", b"edited just now\n")}
    assert not (clone / STAGING).exists()


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_in_the_middle_puts_everything_back_and_a_second_one_leaves_that_to_the_next_call(
    runtime: Executor, source: Path, times: int
) -> None:
    clone, kept = clone_of(source), kept_of(runtime.home, source)
    write(clone, "target.py", text(at25="mine"))
    before, reached = tree(clone), []

    def interrupt(point: str) -> None:
        reached.append(point)
        after = reached[reached.index("apply.written") + 1 :] if "apply.written" in reached else []
        if 0 < len(after) <= times:
            raise KeyboardInterrupt

    failpoints.arm(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            apply(runtime.home, kept, clone)
    finally:
        failpoints.arm(None)
    assert (tree(clone) == before) == (times == 1)
    assert any("interrupted" in note for note in apply(runtime.home, kept, clone).notes) == (times == 2)
    assert (clone / "target.py").read_text() == text(at3="target.py by the work", at25="mine")
    assert not (clone / STAGING).exists()


def killed(point: tuple[str, int], home: Home, kept: Handoff, clone: Path, tell: Tell) -> None:
    failpoints.arm(failpoints.kill_at(*point))
    apply(home, kept, clone, leave_conflicts=True)


def reached_by(work: "partial[Applied]") -> list[tuple[str, int]]:
    reached: list[str] = []
    failpoints.arm(reached.append)
    try:
        work()
    finally:
        failpoints.arm(None)
    return [(name, reached[: at + 1].count(name)) for at, name in enumerate(reached)]


@pytest.mark.crash
def test_killed_anywhere_the_same_call_gives_what_one_call_gives(runtime: Executor, source: Path) -> None:
    """One target is merged, one is written, another file has conflicts left in it: none is merged twice."""
    kept, clone = conflicting(runtime.home, source)
    write(clone, "target.py", text(at25="mine, uncommitted"))
    was, whole = tree(clone), shutil.copytree(clone, clone.parent / "whole", symlinks=True)
    found = reached_by(partial(apply, runtime.home, kept, whole, leave_conflicts=True))
    goal = tree(whole)
    assert [name for name, _ in found] == ["apply.staged"] * 3 + ["apply.noted"] + ["apply.written"] * 3
    for number, point in enumerate(found):
        here = shutil.copytree(clone, clone.parent / f"clone-{number}", symlinks=True)
        assert in_child(partial(killed, point, runtime.home, kept, here), 60).killed
        halfway = {path: entry for path, entry in tree(here).items() if STAGING not in path}
        assert all(entry in (was[path], goal[path]) for path, entry in halfway.items())
        if not point[0].endswith("written"):
            assert halfway == was
        assert "outlast" not in git(here, "status", "--porcelain", "--untracked-files=all")
        assert apply(runtime.home, kept, here, leave_conflicts=True).done
        assert tree(here) == goal


def turned(home: Home, source: Path) -> tuple[Handoff, Path]:
    """Work that made a folder of a file and a file of a folder, and a clone without it."""
    write(source, "pkg/inner.py", "inner\n")
    git(source, "add", "-A")
    git(source, "commit", "-qm", "a folder")
    clone = clone_of(source)
    (source / "other.py").unlink()
    write(source, "other.py/inside.py", "inside\n")
    shutil.rmtree(source / "pkg")
    write(source, "pkg", "now a file\n")
    return stored(home, source, "other.py/inside.py", "pkg"), clone


def test_what_made_a_folder_of_a_file_is_applied_once_and_the_second_time_there_is_nothing_to_do(
    runtime: Executor, source: Path
) -> None:
    kept, clone = turned(runtime.home, source)
    assert apply(runtime.home, kept, clone).done
    once = tree(clone)
    assert {*actions(apply(runtime.home, kept, clone)).values()} == {"same"}
    assert tree(clone) == once


@pytest.mark.crash
def test_killed_anywhere_among_files_and_folders_that_change_places_the_same_call_does_all_of_it(
    runtime: Executor, source: Path
) -> None:
    kept, clone = turned(runtime.home, source)
    whole = shutil.copytree(clone, clone.parent / "whole", symlinks=True)
    found = reached_by(partial(apply, runtime.home, kept, whole))
    for number, point in enumerate(found):
        here = shutil.copytree(clone, clone.parent / f"clone-{number}", symlinks=True)
        assert in_child(partial(killed, point, runtime.home, kept, here), 60).killed
        assert apply(runtime.home, kept, here).done, point
        assert tree(here) == tree(whole)


@pytest.mark.parametrize("number", range(1, 5))
def test_an_error_among_files_and_folders_that_change_places_puts_everything_back(
    runtime: Executor, source: Path, number: int
) -> None:
    kept, clone = turned(runtime.home, source)
    before, reached = tree(clone), list[str]()

    def interrupt(point: str) -> None:
        reached.append(point)
        if reached.count("apply.written") == number and "apply.undone" not in reached:
            raise KeyboardInterrupt

    failpoints.arm(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            apply(runtime.home, kept, clone)
    finally:
        failpoints.arm(None)
    assert tree(clone) == before
    assert not (clone / STAGING).exists()


@pytest.mark.crash
def test_killed_while_it_is_put_back_the_next_call_goes_on(runtime: Executor, source: Path) -> None:
    kept, clone = conflicting(runtime.home, source)
    whole = shutil.copytree(clone, clone.parent / "whole", symlinks=True)
    apply(runtime.home, kept, whole, leave_conflicts=True)
    for number in (1, 2, 3):
        here = shutil.copytree(clone, clone.parent / f"undone-{number}", symlinks=True)
        assert in_child(partial(killed, ("apply.written", 3), runtime.home, kept, here), 60).killed
        assert in_child(partial(killed, ("apply.undone", number), runtime.home, kept, here), 60).killed
        assert apply(runtime.home, kept, here, leave_conflicts=True).done
        assert tree(here) == tree(whole)


@pytest.mark.crash
def test_after_a_kill_what_the_user_edited_since_stays_and_a_dry_run_says_what_waits(
    runtime: Executor, source: Path
) -> None:
    clone, kept = clone_of(source), kept_of(runtime.home, source)
    assert in_child(partial(killed, ("apply.written", 2), runtime.home, kept, clone), 60).killed
    write(clone, "second.py", text(at3="second.py by the work", at25="solved by hand"))
    halfway = tree(clone)
    planned = apply(runtime.home, kept, clone, dry_run=True)
    assert any("interrupted" in note for note in planned.notes)
    assert tree(clone) == halfway
    assert apply(runtime.home, kept, clone).done
    assert (clone / "second.py").read_text() == text(at3="second.py by the work", at25="solved by hand")
    assert (clone / "target.py").read_text() == text(at3="target.py by the work")


@pytest.mark.parametrize("path", ["../outside", ".git/hooks/pre-commit", ".GIT/config", "/outside", "a//b"])
def test_a_note_that_somebody_put_there_touches_nothing_of_git_and_nothing_outside(
    runtime: Executor, source: Path, path: str
) -> None:
    """Whoever made the clone may know the handoff's id, and have a staging folder in it."""
    clone, kept = clone_of(source), kept_of(runtime.home, source)
    for mode in ("special", "absent"):
        file = {"path": path, "depth": 0, "mode": mode, "digest": "", "gave_way": True}
        note = json.dumps([kept.id, [[*file.values()]]])
        write(clone, f"{STAGING}/undo", note)
        write(clone, f"{STAGING}/{placing._kept_name(path)}", "#!/bin/sh\n", 0o755)
        apply(runtime.home, kept, clone)
    assert not (clone.parent / "outside").exists()
    assert not (clone / ".git/hooks/pre-commit").exists()
    assert not (clone / ".GIT").exists()
    assert (clone / "target.py").read_text() == text(at3="target.py by the work")


def test_where_there_are_no_hard_links_what_gives_way_is_copied(
    runtime: Executor, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise OSError(95, "not supported")

    monkeypatch.setattr(placing.os, "link", no_links)
    test_an_error_in_the_middle_puts_everything_back(runtime, source)
