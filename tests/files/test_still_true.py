"""Git is asked again whenever what it would say may be another thing, and only then."""

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from outlast.files import ask_git, still_true
from outlast.files import git as asked

from ..kit.repositories import commit, git, repository, write

AN_HOUR_NS = 3_600_000_000_000


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's own settings of git, empty at first."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.delenv("GIT_CONFIG_GLOBAL", raising=False)
    still_true.forget()
    return write(tmp_path, ".gitconfig", "")


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if all that there is had been there for an hour: nothing of it is too young."""
    monkeypatch.setattr(ask_git, "time_ns", lambda: os.stat("/proc/self").st_ctime_ns + AN_HOUR_NS)


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What git is started for."""
    seen: list[str] = []
    begin = ask_git._start

    def counted(folder: Path, command: tuple[str, ...], *rest: object) -> object:
        seen.append(command[0])
        return begin(folder, command, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(ask_git, "_start", counted)
    return seen


def place(tmp_path: Path) -> Path:
    """A repository with files, folders, new ones and ignored ones."""
    root = repository(tmp_path / "repo", a_py="1\n", src__b_py="2\n", src__deep__c_py="3\n", _gitignore="*.log\nout/\n")
    write(root, "new.txt")
    write(root, "fresh/one.txt")
    write(root, "noise.log")
    write(root, "out/made.txt")
    return root


def settled(root: Path) -> None:
    """It was looked at until nobody has to be asked."""
    for _ in range(4):
        assert asked.look(root) is not None


@pytest.mark.usefixtures("later")
def test_what_nothing_has_changed_of_is_not_asked_again(tmp_path: Path, starts: list[str]) -> None:
    root = place(tmp_path)
    first = asked.look(root)
    settled(root)
    starts.clear()
    assert asked.look(root) == first
    assert starts == []


@pytest.mark.usefixtures("later")
def test_where_it_is_fetched_from_is_not_asked_again(tmp_path: Path, starts: list[str]) -> None:
    root = place(tmp_path)
    git(root, "remote", "add", "origin", "https://example.org/a/b.git")
    for _ in range(4):
        known = asked.known_by(root, "x")
    starts.clear()
    assert "example.org/a/b" in known
    assert asked.known_by(root, "x") == known
    assert starts == []
    git(root, "remote", "set-url", "origin", "https://example.org/a/c.git")
    assert "example.org/a/c" in asked.known_by(root, "x")


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize("path", ["new.txt", "fresh/one.txt", "noise.log", "out/made.txt", "out/more.txt"])
def test_what_is_in_a_new_or_an_ignored_file_does_not_count(tmp_path: Path, starts: list[str], path: str) -> None:
    root = place(tmp_path)
    settled(root)
    starts.clear()
    write(root, path, "something else")
    assert asked.look(root)
    assert starts == []


def test_what_changed_a_moment_ago_is_asked_for_again(tmp_path: Path, starts: list[str]) -> None:
    root = place(tmp_path)
    write(root, "a.py", "2\n")
    settled(root)
    os.utime(root / "a.py")
    starts.clear()
    assert asked.look(root)
    assert "status" in starts


def filters(root: Path) -> None:
    write(root.parent, ".gitconfig", '[filter "x"]\nclean = cat\n')


def includes(root: Path) -> None:
    write(root.parent, "more", "[core]\nexcludesFile = /dev/null\n")
    write(root.parent, ".gitconfig", "[include]\npath = ~/more\n")


def extensions(root: Path) -> None:
    git(root, "config", "extensions.worktreeConfig", "true")


def repository_inside(root: Path) -> None:
    repository(root / "inner", x="1")


def submodule(root: Path) -> None:
    repository(root.parent / "other", x="1")
    git(root, "submodule", "--quiet", "add", str(root.parent / "other"), "sub")


def many_files(root: Path) -> None:
    for number in range(still_true.MOST_FILES):
        write(root, f"many/{number}.txt")
    commit(root)


def ref_that_leads_on(root: Path) -> None:
    git(root, "symbolic-ref", "refs/heads/alias", "refs/heads/main")
    git(root, "symbolic-ref", "HEAD", "refs/heads/alias")


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize(
    "made", [filters, includes, extensions, repository_inside, submodule, many_files, ref_that_leads_on]
)
def test_git_is_asked_each_time_where_more_than_files_counts(
    tmp_path: Path, starts: list[str], made: Callable[[Path], None]
) -> None:
    root = place(tmp_path)
    made(root)
    settled(root)
    starts.clear()
    assert asked.look(root)
    assert starts[:1] == ["status"]


def ignore_it(root: Path) -> None:
    write(root, ".gitignore", "new.txt\n")


def ignore_it_in_a_file_that_is_new(root: Path) -> None:
    write(root, "src/.gitignore", "deep\n")
    write(root, "src/deep/new.txt")


def ignore_it_for_this_clone(root: Path) -> None:
    write(root, ".git/info/exclude", "new.txt\n")


def ignore_it_for_this_user(root: Path) -> None:
    write(root.parent, "xdg/git/ignore", "new.txt\n")


def ignore_it_by_a_setting(root: Path) -> None:
    write(root.parent, "mine", "new.txt\n")
    write(root.parent, ".gitconfig", "[core]\nexcludesFile = ~/mine\n")


def ignore_it_by_a_setting_behind_a_link(root: Path) -> None:
    write(root.parent, "mine", "fresh\n")
    write(root.parent, "dotfiles", "")
    (root.parent / ".gitconfig").unlink()
    (root.parent / ".gitconfig").symlink_to("dotfiles")
    settled(root)
    write(root.parent, "dotfiles", "[core]\nexcludesFile = ~/mine\n")


def pack_refs_and_move_on(root: Path) -> None:
    git(root, "pack-refs", "--all")
    settled(root)
    git(root, "commit", "--quiet", "--allow-empty", "-m", "y")


def move_the_branch_elsewhere(root: Path) -> None:
    head = git(root, "commit-tree", "-m", "y", "HEAD^{tree}")
    git(root, "update-ref", "refs/heads/main", head)


def turn_a_file_into_a_link(root: Path) -> None:
    (root / "a.py").unlink()
    (root / "a.py").symlink_to("src/b.py")


def leave_it_as_it_was_but_for_a_letter(root: Path) -> None:
    was = os.stat(root / "a.py")
    (root / "a.py").write_text("9\n")
    os.utime(root / "a.py", ns=(was.st_atime_ns, was.st_mtime_ns))


CHANGES: list[Callable[[Path], object]] = [
    ignore_it,
    ignore_it_in_a_file_that_is_new,
    ignore_it_for_this_clone,
    ignore_it_for_this_user,
    ignore_it_by_a_setting,
    ignore_it_by_a_setting_behind_a_link,
    pack_refs_and_move_on,
    move_the_branch_elsewhere,
    turn_a_file_into_a_link,
    leave_it_as_it_was_but_for_a_letter,
]


def told_anew(root: Path) -> asked.GitState | None:
    """What git says when it is asked, whatever it said before."""
    still_true.forget()
    return asked.look(root)


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_whatever_git_reads_is_seen(tmp_path: Path, change: Callable[[Path], object]) -> None:
    root = place(tmp_path)
    settled(root)
    before = asked.look(root)
    change(root)
    seen = asked.look(root)
    assert seen == told_anew(root)
    assert seen != before


DEEDS: list[Callable[[Path, random.Random], object]] = [
    lambda root, by: write(root, by.choice(["a.py", "src/b.py", "src/deep/c.py"]), str(by.randrange(10))),
    lambda root, by: write(root, f"{by.choice(['', 'src/', 'fresh/', 'made/in/'])}{by.randrange(3)}.txt"),
    lambda root, by: (root / by.choice(["a.py", "src/b.py", "new.txt", "0.txt"])).unlink(missing_ok=True),
    lambda root, by: write(root, by.choice(["", "src/"]) + ".gitignore", by.choice(["*.txt\n", "*.log\n", "out/\n"])),
    lambda root, by: (root / "a.py").chmod(by.choice([0o644, 0o755])) if (root / "a.py").exists() else None,
    lambda root, by: git(root, "add", "--all"),
    lambda root, by: git(root, "reset", "--quiet", by.choice(["--mixed", "--hard"])),
    lambda root, by: commit(root),
    lambda root, by: git(root, "checkout", "--quiet", "-B", by.choice(["main", "other", "x/y"])),
    lambda root, by: git(root, "checkout", "--quiet", "--detach"),
    lambda root, by: git(root, "pack-refs", "--all"),
    lambda root, by: git(root, "stash", "--quiet"),
    lambda root, by: git(root, "update-index", "-q", "--really-refresh") if not git(root, "diff") else None,
    lambda root, by: git(root, "config", "core.fileMode", by.choice(["true", "false"])),
    lambda root, by: write(root, "out/more.txt", str(by.random())),
]


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize("seed", range(6))
def test_whatever_is_done_to_a_repository_it_is_told_as_git_tells_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(still_true, "_PATIENCE", 2)  # what it rests on is looked up as soon as it may be
    root, by = place(tmp_path), random.Random(seed)
    kept = 0
    for _ in range(12):
        by.choice(DEEDS)(root, by)
        for _ in range(by.choice([1, 4])):
            seen = asked.look(root)
        was, still_true._heard = still_true._heard, {}
        assert seen == asked.look(root)
        still_true._heard = was
        kept += any(each.answer is not None for each in was.values())
    assert kept
