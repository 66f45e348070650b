"""Asking git: what it says of real repositories, and that hostile, broken or missing ones do no harm."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from outlast.files import ask_git
from outlast.files import git as asked
from outlast.files.git import GitChange

from ..kit.repositories import GIT, commit, git, program, repository, write

HOSTILE = [
    "sp ace",
    "qu\"o'te",
    "ne\nw",
    "🙂",
    "caf\udce9",
    "-rf",
    ":(top)x",
    "*",
    "a\\b",
    "tab\t.txt",
    " lead",
    "trail ",
]
NOWHERE = "0123456789" * 4


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's own settings of git count."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


def logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str = "") -> Path:
    """A git on the PATH that writes down each call, does `before`, and is git."""
    log = tmp_path / "git.log"
    program(tmp_path / "bin", "git", f'echo "$*" >> "{log}"\n{before}\nexec "{GIT}" "$@"')
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    return log


# -- where -------------------------------------------------------------------------------------------


def test_the_top_is_found_from_any_folder_without_asking_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = repository(tmp_path / "repo", src__a="1")
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert asked.top_of(root) == root
    assert asked.top_of(root / "src") == root
    assert asked.top_of(tmp_path) is None


def test_a_linked_worktree_and_a_submodule_have_tops_of_their_own(tmp_path: Path) -> None:
    inner = repository(tmp_path / "inner", deep__b="1")
    root = repository(tmp_path / "repo", a="1")
    git(root, "submodule", "--quiet", "add", str(inner), "sub")
    head = commit(root)
    git(root, "worktree", "add", "--quiet", "-b", "other", str(tmp_path / "linked"))
    assert asked.top_of(root / "sub" / "deep") == root / "sub"
    assert asked.top_of(tmp_path / "linked") == tmp_path / "linked"
    linked, sub = asked.look(tmp_path / "linked"), asked.look(root / "sub")
    assert linked is not None
    assert sub is not None
    assert (linked.commit, linked.branch, linked.changed) == (head, "other", ())
    assert sub.commit == git(inner, "rev-parse", "HEAD")


def test_a_git_folder_without_a_repository_is_no_top(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo", a="1")
    (root / "inner" / ".git").mkdir(parents=True)
    assert asked.top_of(root / "inner") == root


# -- state -------------------------------------------------------------------------------------------


def test_commit_branch_and_changes_come_from_one_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = repository(tmp_path / "repo", changed="1", deleted="1", same="1", moved="content that moves\n" * 5)
    head = git(root, "rev-parse", "HEAD")
    write(root, "changed", "2")
    (root / "deleted").unlink()
    git(root, "mv", "moved", "to")
    write(root, "new/one", "x")
    write(root, "new/two", "x")
    write(root, "staged", "x")
    git(root, "add", "staged")
    log = logged(tmp_path, monkeypatch)
    state = asked.look(root)
    assert state is not None
    assert (state.top, state.commit, state.branch) == (root, head, "main")
    assert set(state.changed) == {
        *(GitChange(path, "changed") for path in ("changed", "deleted", "moved", "to", "staged")),
        GitChange("new/", "untracked"),
    }
    assert questions(log) == ["config", "rev-parse", "status"]  # the first two once for each process


def questions(log: Path) -> list[str]:
    """What git was asked, in order."""
    words = ("rev-parse", "config", "status", "diff")
    return [next(word for word in line.split() if word in words) for line in log.read_text().splitlines()]


def test_before_the_first_commit_there_is_a_branch_and_no_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    write(tmp_path, "a")
    assert asked.look(tmp_path) == (tmp_path, "", "main", (GitChange("a", "untracked"),))
    assert asked.branch_of(tmp_path) == "main"


def test_a_detached_head_has_no_branch(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo", a="1")
    git(root, "checkout", "--quiet", "--detach")
    state = asked.look(root)
    assert state is not None
    assert (state.commit, state.branch) == (git(root, "rev-parse", "HEAD"), "")
    assert asked.branch_of(root) == ""


def test_a_branch_is_named_as_it_is(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo", a="1")
    git(root, "switch", "--quiet", "-c", "feature/ünï")
    git(root, "tag", "feature/ünï")
    state = asked.look(root)
    assert state is not None
    assert (state.branch, asked.branch_of(root / ".")) == ("feature/ünï", "feature/ünï")
    assert asked.branch_of(tmp_path) == ""


def test_a_sha256_repository_is_one_like_any_other(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--object-format=sha256")
    write(tmp_path, "a")
    first = commit(tmp_path)
    second = commit(tmp_path)
    state = asked.look(tmp_path)
    assert state is not None
    assert (len(first), state.commit) == (64, second)
    assert asked.relation(tmp_path, first, second) == "ahead"
    assert asked.has_commit(tmp_path, first) is True


def test_names_are_told_as_they_are(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo", a="1")
    for name in HOSTILE:
        write(root, name)
        write(root, f"in/{name}")
    git(root, "add", "in")
    state = asked.look(root)
    assert state is not None
    assert {each.path for each in state.changed} == {*HOSTILE, *(f"in/{name}" for name in HOSTILE)}
    commit(root)
    assert sorted(asked.files(root / "in") or ()) == sorted(HOSTILE)


def test_a_conflict_is_told_once(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo", a="1\n")
    git(root, "switch", "--quiet", "-c", "other")
    write(root, "a", "2\n")
    commit(root)
    git(root, "switch", "--quiet", "main")
    write(root, "a", "3\n")
    commit(root)
    with pytest.raises(subprocess.CalledProcessError):
        git(root, "merge", "other")
    state = asked.look(root)
    assert state is not None
    assert state.changed == (GitChange("a", "unmerged"),)
    assert asked.files(root) == ["a"]


def test_files_are_seen_from_the_folder_tracked_also_in_submodules_and_new_but_not_ignored(tmp_path: Path) -> None:
    inner = repository(tmp_path / "inner", deep__b="1")
    root = repository(tmp_path / "repo", src__a="1", c="1")
    git(root, "submodule", "--quiet", "add", str(inner), "src/sub")
    write(root, "src/new")
    write(root, "src/made.o")
    write(root, ".git/info/exclude", "*.o\n")
    assert asked.files(root / "src") == ["a", "sub/deep/b", "new"]
    assert asked.files(root / "src" / "sub") == ["deep/b"]
    assert asked.files(tmp_path) is None


def test_what_a_sparse_checkout_leaves_out_is_no_file_here(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo", src__a="1", docs__b="2", docs__c="3")
    git(root, "update-index", "--skip-worktree", "docs/b", "docs/c", "src/a")
    assert asked.files(root) == ["docs/b", "docs/c", "src/a"]
    (root / "docs/b").unlink()
    assert asked.files(root) == ["docs/c", "src/a"]
    assert [asked.left_out(root, path) for path in ("docs/b", "docs", "docs/c", "src/a", "none")] == [True] + [
        False
    ] * 4
    (root / "docs/c").unlink()
    assert asked.left_out(root, "docs")


def test_where_two_histories_parted_is_told(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo", a="1")
    first = git(root, "rev-parse", "HEAD")
    write(root, "a", "2")
    second = commit(root)
    git(root, "switch", "--quiet", "--detach", first)
    write(root, "b", "1")
    third = commit(root)
    assert [asked.parting(root, *pair) for pair in ((first, second), (second, first), (second, third))] == [first] * 3
    assert asked.parting(root, NOWHERE, first) == asked.parting(tmp_path, first, second) == ""


# -- commits -----------------------------------------------------------------------------------------


def test_the_commit_now_is_the_bound_one_ahead_of_it_or_apart(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo", a="1")
    first = git(root, "rev-parse", "HEAD")
    second = commit(root)
    git(root, "switch", "--quiet", "-c", "other", first)
    third = commit(root, "another")
    assert asked.relation(root, first, first) == "same"
    assert asked.relation(root, first, second) == "ahead"
    assert asked.relation(root, second, first) == "apart"
    assert asked.relation(root, second, third) == "apart"
    assert asked.relation(root, second, "") == "apart"
    assert asked.relation(root, NOWHERE, second) == "unknown"
    assert asked.relation(tmp_path, first, second) == "unknown"
    assert (asked.has_commit(root, first), asked.has_commit(root, NOWHERE)) == (True, False)
    assert asked.has_commit(tmp_path, first) is False


def test_history_that_was_cut_off_is_not_called_apart(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo", a="1")
    first, second = git(root, "rev-parse", "HEAD"), commit(root)
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{root}", "cut")
    git(tmp_path / "cut", "fetch", "--quiet", "--depth=1", "origin", first)
    assert asked.has_commit(tmp_path / "cut", first) is True
    assert asked.relation(tmp_path / "cut", first, second) == "unknown"


@pytest.mark.parametrize("name", ["--output=x", "HEAD", "main", "", "-h", "a" * 39, "0\n"])
def test_what_is_no_commit_is_never_shown_to_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    root = repository(tmp_path / "repo", a="1")
    log = logged(tmp_path, monkeypatch)
    assert asked.has_commit(root, name) is False
    assert asked.relation(root, name, NOWHERE) == "unknown"
    assert not log.exists()


# -- the patch ---------------------------------------------------------------------------------------


def test_a_patch_brings_uncommitted_work_to_another_clone(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo", text="1\n", gone="1\n", run="#!/bin/sh\n", untouched="1\n")
    git(tmp_path, "clone", "--quiet", str(root), "clone")
    for setting in ("diff.noprefix=true", "color.ui=always", "diff.mnemonicPrefix=true", "diff.relative=true"):
        git(root, "config", *setting.split("="))
    write(root, "text", "2\n")
    write(root, "untouched", "2\n")
    write(root, "binary", bytes(range(256)))
    write(root, "sub/ne\nw 🙂", "new\n")
    (root / "run").chmod(0o755)
    (root / "gone").unlink()
    git(root, "add", "binary", "sub")
    paths = ["text", "binary", "sub/ne\nw 🙂", "run", "gone"]
    content, why = asked.patch(root, paths, 1 << 20)
    assert why == ""
    (tmp_path / "patch").write_bytes(content)
    git(tmp_path / "clone", "apply", str(tmp_path / "patch"))
    for path in ("text", "binary", "sub/ne\nw 🙂"):
        assert (tmp_path / "clone" / path).read_bytes() == (root / path).read_bytes()
    assert (tmp_path / "clone" / "untouched").read_text() == "1\n"
    assert os.access(tmp_path / "clone" / "run", os.X_OK)
    assert not (tmp_path / "clone" / "gone").exists()


def test_a_patch_is_of_the_very_paths_that_were_named(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo", a="1\n")
    for name in ("*", ":(top)a"):
        write(root, name, "1\n")
    commit(root)
    for name in ("a", "*", ":(top)a"):
        write(root, name, "2\n")
    for name in ("a", "*", ":(top)a"):
        content, why = asked.patch(root, [name], 1 << 20)
        assert (content.count(b"diff --git"), f"a/{name} ".encode() in content, why) == (1, True, "")


def test_a_patch_that_is_too_large_is_none(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo", a="1\n", b="1\n")
    write(root, "a", "long\n" * 5_000)
    write(root, "b", "2\n")
    assert asked.patch(root, ["a", "b"], 10_000) == (b"", "too_large")
    assert asked.patch(root, ["b"], 10_000)[1] == ""


def test_a_patch_of_more_paths_than_a_command_takes_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = repository(tmp_path / "repo", **{f"f{number}": "1\n" for number in range(40)})
    for number in range(40):
        write(root, f"f{number}", "2\n")
    whole, _ = asked.patch(root, [f"f{number:02}".replace("f0", "f") for number in range(40)], 1 << 20)
    monkeypatch.setattr(asked, "_ARGUMENT_BYTES", 20)
    parts, why = asked.patch(root, [f"f{number:02}".replace("f0", "f") for number in range(40)], 1 << 20)
    assert why == ""
    assert sorted(parts.split(b"diff --git ")) == sorted(whole.split(b"diff --git "))
    assert whole.count(b"diff --git ") == 40


def test_a_patch_reads_no_folder_that_the_repository_points_to(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo", a="1\n")
    write(tmp_path, "outside/a", "private\n")
    git(root, "config", "core.worktree", str(tmp_path / "outside"))
    assert b"private" not in asked.patch(root, ["a"], 1 << 20)[0]


# -- hostile and broken ------------------------------------------------------------------------------


def test_a_hostile_repository_runs_nothing(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo", a="1\n", b="1\n")
    first, second = git(root, "rev-parse", "HEAD"), commit(root)
    bad = program(tmp_path, "bad", f'echo "$0 $*" >> "{tmp_path}/ran"\nexit 1')
    for hook in ("post-index-change", "fsmonitor-watchman", "post-checkout", "reference-transaction"):
        shutil.copy(bad, root / ".git" / "hooks" / hook)
    write(root, ".git/info/attributes", "* diff=bad\n")
    write(
        root,
        ".git/config",
        (root / ".git" / "config").read_text()
        + f"""
[core]
    fsmonitor = {bad}
    pager = {bad}
    sshCommand = {bad}
    hooksPath = {root}/.git/hooks
    gitProxy = {bad}
    askPass = {bad}
    editor = {bad}
    alternateRefsCommand = {bad}
[credential]
    helper = {bad}
[gpg]
    program = {bad}
[log]
    showSignature = true
[status]
    submoduleSummary = true
[diff]
    external = {bad}
[diff "bad"]
    command = {bad}
    textconv = {bad}
[pager]
    status = {bad}
    diff = {bad}
[extensions]
    partialClone = origin
[remote "origin"]
    url = {tmp_path}/other
    promisor = true
    uploadpack = {bad}
[interactive]
    diffFilter = {bad}
""",
    )
    os.utime(root / "b", (1, 1))
    write(root, "a", "2\n")
    state = asked.look(root)
    assert state is not None
    assert state.changed == (GitChange("a", "changed"),)
    assert asked.patch(root, ["a"], 1 << 20)[0].count(b"diff --git") == 1
    assert asked.files(root) == ["a", "b"]
    assert asked.relation(root, first, second) == "ahead"
    assert asked.has_commit(root, NOWHERE) is not True
    assert asked.branch_of(root) == "main"
    assert not (tmp_path / "ran").exists()


def with_filter(tmp_path: Path, name: str = "evil") -> tuple[Path, str]:
    """A repository whose attributes name a filter, and the text of settings that have it run a program."""
    root = repository(tmp_path / "repo", a_py="1\n")
    bad = program(tmp_path, "bad", f'touch "{tmp_path}/ran"; cat')
    write(root, ".gitattributes", f"*.py filter={name}\n")
    commit(root)
    os.utime(root / "a.py", (1, 1))
    write(root, "b.py", "untracked\n")
    return root, f'[filter "{name}"]\n    clean = {bad}\n    smudge = {bad}\n'


def ask_everything(root: Path) -> None:
    head = git(root, "rev-parse", "HEAD")
    state = asked.look(root)
    asked.patch(root, ["a.py"], 1 << 20)
    asked.files(root)
    ask_git.ask(root, "hash-object", "--", "b.py")
    ask_git.ask(root, "cat-file", "--filters", "--path=a.py", f"{head}:a.py")
    assert state is None or state.commit == head


def append(file: Path, text: str) -> None:
    write(file.parent, file.name, (file.read_text() if file.exists() else "") + text)


@pytest.mark.parametrize("where", ["config", "config.worktree", "include", "includeIf", "linked", "inner"])
@pytest.mark.parametrize("name", ["evil", "e.vil", "caf\u00e9", "e=vil", "lfs"])
def test_no_filter_of_a_hostile_repository_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, name: str
) -> None:
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "filter.lfs.required")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "false")
    root, evil = with_filter(tmp_path, name)
    looked, config = root, root / ".git" / "config"
    if where == "config":
        append(config, evil)
    elif where == "config.worktree":
        append(config, "[extensions]\n    worktreeConfig = true\n")
        append(root / ".git" / "config.worktree", evil)
    elif where.startswith("include"):
        append(config, "[include]\n" if where == "include" else '[includeIf "gitdir:**"]\n')
        append(config, "    path = hidden\n")
        write(root, ".git/hidden", evil)
    elif where == "linked":
        git(root, "worktree", "add", "--quiet", "-b", "other", str(tmp_path / "linked"))
        append(config, evil)
        looked = tmp_path / "linked"
    else:
        inner = repository(root / "sub", a_py="1\n")
        git(root, "add", "sub")
        commit(root)
        write(inner, ".gitattributes", f"*.py filter={name}\n")
        append(inner / ".git" / "config", evil)
        os.utime(inner / "a.py", (1, 1))
        write(inner, "a.py", "3\n")
    os.utime(looked / "a.py", (1, 1))
    (tmp_path / "ran").unlink(missing_ok=True)
    ask_everything(looked)
    assert not (tmp_path / "ran").exists()


def test_what_a_filter_would_have_made_is_told_as_if_it_were_not_there(tmp_path: Path) -> None:
    root, evil = with_filter(tmp_path)
    append(root / ".git" / "config", evil + "    required = true\n")
    write(root, "a.py", "2\n")
    state = asked.look(root)
    assert state is not None
    assert GitChange("a.py", "changed") in state.changed
    patch, why = asked.patch(root, ["a.py"], 1 << 20)
    assert (b"-1\n+2\n" in patch, why) == (True, "")


def test_the_users_own_filters_stay_also_where_the_repository_names_them_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, evil = with_filter(tmp_path, "lfs")
    mine = program(tmp_path, "mine", f'touch "{tmp_path}/mine-ran"; echo 1')
    write(tmp_path, "global", f'[filter "lfs"]\n    clean = {mine}\n    required = true\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "global"))
    write(root, "a.py", "2\n")  # the same size, else git does not look
    for config in ("", evil):
        append(root / ".git" / "config", config)
        (tmp_path / "mine-ran").unlink(missing_ok=True)
        state = asked.look(root)
        assert state is not None
        assert GitChange("a.py", "changed") not in state.changed
        assert (tmp_path / "mine-ran").exists()
    assert not (tmp_path / "ran").exists()


def test_whose_a_repository_is_and_its_settings_are_asked_for_once_and_again_when_they_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, evil = with_filter(tmp_path)
    log = logged(tmp_path, monkeypatch)
    assert asked.look(root)
    assert asked.look(root)
    assert questions(log) == ["config", "rev-parse", "status", "status", "status"]  # at last: what it does not read
    append(root / ".git" / "config", evil)
    log.unlink()
    assert asked.look(root)
    assert asked.patch(root, ["a.py"], 1 << 20)
    assert questions(log) == ["config", "rev-parse", "status", "diff"]


@pytest.mark.parametrize("what", ["pipe", "large", "broken"])
def test_settings_that_cannot_be_read_do_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    root, evil = with_filter(tmp_path)
    config = root / ".git" / "config"
    if what == "pipe":
        config.unlink()
        os.mkfifo(config)
    else:
        append(config, "#" * (2 << 20) + "\n" + evil if what == "large" else evil + "[")
    monkeypatch.setattr(ask_git, "GIT_SECONDS", 1.0)
    state = asked.look(root)
    assert (state is not None) == (what == "large")
    assert not (tmp_path / "ran").exists()


def test_a_git_inside_the_repository_is_not_the_git_that_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = repository(tmp_path / "repo", a="1")
    program(root, "git", f'touch "{tmp_path}/ran"')
    monkeypatch.chdir(root)
    monkeypatch.setenv("PATH", ".", prepend=os.pathsep)
    assert asked.look(root) is not None
    monkeypatch.setenv("PATH", ".")
    assert asked.look(root) is None
    assert not (tmp_path / "ran").exists()


def test_looking_leaves_the_index_as_it_is(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo", a="1\n", b="1\n")
    os.utime(root / "a", (1, 1))
    write(root, "b", "2\n")
    before = (root / ".git" / "index").read_bytes(), sorted(os.listdir(root / ".git"))
    assert asked.look(root) is not None
    assert asked.patch(root, ["a", "b"], 1 << 20)[0].count(b"diff --git") == 1
    assert ((root / ".git" / "index").read_bytes(), sorted(os.listdir(root / ".git"))) == before


def test_another_repository_in_the_environment_is_not_the_one_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = repository(tmp_path / "repo", a="1")
    other = repository(tmp_path / "other", b="1")
    expected = asked.look(root)
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git" / "index"))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(other / ".git" / "objects"))
    assert expected is not None
    assert asked.look(root) == expected
    assert asked.files(root) == ["a"]


def unknown(root: Path) -> None:
    """Nothing is told of a repository, and nothing raises."""
    assert asked.look(root) is None
    assert asked.files(root) is None
    assert asked.branch_of(root) == ""
    assert asked.has_commit(root, NOWHERE) is None
    assert asked.relation(root, NOWHERE, NOWHERE[::-1]) == "unknown"
    assert asked.patch(root, ["a"], 1 << 20) == (b"", asked.why_unknown())


def test_without_git_nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = repository(tmp_path / "repo", a="1")
    assert ask_git.found()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    unknown(root)
    assert (ask_git.found(), asked.why_unknown()) == (False, "no_git")


def test_of_somebody_elses_repository_nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = repository(tmp_path / "repo", a="1")
    logged(tmp_path, monkeypatch, before="export GIT_TEST_ASSUME_DIFFERENT_OWNER=1")
    unknown(root)


def test_of_a_broken_repository_nothing_is_known_and_the_outer_one_is_not_asked(tmp_path: Path) -> None:
    root = repository(repository(tmp_path / "outer", b="1") / "repo", a="1")
    shutil.rmtree(root / ".git" / "objects")
    assert asked.top_of(root) == root
    unknown(root)
    (root / ".git" / "config").write_text("[not a config\n")
    unknown(root)
    shutil.rmtree(root / ".git")
    write(root, ".git", "gitdir: /nowhere/at/all\n")
    unknown(root)


def test_a_git_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = repository(tmp_path / "repo", a="1")
    log = logged(tmp_path, monkeypatch, before=f'sleep 60 & echo $! > "{tmp_path}/pid"; wait')
    monkeypatch.setattr(ask_git, "GIT_SECONDS", 2.0)
    assert asked.look(root) is None
    assert log.exists()
    deadline = time.monotonic() + 20
    while is_alive(int((tmp_path / "pid").read_text())) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_alive(int((tmp_path / "pid").read_text()))


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def test_an_answer_without_end_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = repository(tmp_path / "repo", a="1")
    program(tmp_path / "bin", "git", "exec yes")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    assert asked.look(root) is None
    assert asked.files(root) is None
