"""Which folder paths are relative to, and where the files of a handoff are found again."""

import os
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from outlast.errors import HandoffInvalid
from outlast.files.git import relative_to
from outlast.handoffs.binding import bind
from outlast.handoffs.observer import LOCAL
from outlast.runs.live import Executor

from ..kit.bindings import contract, stored
from ..kit.place import Place
from ..kit.repositories import git, repository, write


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's own settings of git count."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


@pytest.fixture
def runtime(place: Place) -> Executor:
    return place.outlast._executor


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with three committed files."""
    return repository(tmp_path / "repo", src__a_py="a = 1\n", src__b_py="b = 1\n", readme="hello\n")


# -- the root ----------------------------------------------------------------------------------------


def test_the_root_is_the_project_inside_the_repository_else_its_top(
    runtime: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert LOCAL.root(runtime.caller, None) == tmp_path  # where .outlast lies, outside of git
    repo = repository(tmp_path / "repo", src__a="1")
    monkeypatch.chdir(repo / "src")
    assert LOCAL.root(runtime.caller, None) == repo  # the project is larger than the repository
    shutil.rmtree(repo / ".git")
    repository(tmp_path, x="1")
    assert LOCAL.root(runtime.caller, None) == tmp_path
    runtime.home.project = repo
    assert LOCAL.root(runtime.caller, None) == repo
    monkeypatch.chdir(tmp_path)
    assert LOCAL.root(runtime.caller, None) == tmp_path  # not in the project: the top


def test_without_project_and_repository_the_root_is_here(
    runtime: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime.home.project = None
    (tmp_path / "real").mkdir()
    os.symlink("real", tmp_path / "link")
    monkeypatch.chdir(tmp_path / "link")
    assert LOCAL.root(runtime.caller, None) == tmp_path / "real"
    assert LOCAL.root(runtime.caller, str(tmp_path / "link")) == tmp_path / "real"
    assert LOCAL.root(runtime.caller, ".") == tmp_path / "real"


@pytest.mark.parametrize("given", ["missing", "file", "nul\0", "", "\ud800", "n" * 10_000])
def test_a_root_that_is_no_folder_is_refused(runtime: Executor, tmp_path: Path, given: str) -> None:
    write(tmp_path, "file")
    with pytest.raises(HandoffInvalid) as caught:
        LOCAL.root(runtime.caller, str(tmp_path / given) if given else "")
    assert caught.value.facts["path"] == "repo_root"


def test_a_current_folder_that_is_gone_is_told(
    runtime: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(HandoffInvalid, match="does not exist any more"):
        LOCAL.root(runtime.caller, None)


def test_paths_have_one_spelling(tmp_path: Path) -> None:
    assert relative_to(tmp_path, "a//b/./c/", "x") == "a/b/c"
    assert relative_to(tmp_path, f"{tmp_path}/a/b", "x") == "a/b"
    assert relative_to(tmp_path, ".", "x") == "."
    for given in ("../a", "a/../b", "/etc/passwd", "", "nul\0", f"{tmp_path}2/a"):
        with pytest.raises(HandoffInvalid):
            relative_to(tmp_path, given, "x")


# -- where to look -----------------------------------------------------------------------------------


def test_bound_work_is_found_where_we_are_or_nowhere(
    runtime: Executor, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handoff = stored(contract("readme"), bind(runtime.home, contract("readme"), root))
    git(tmp_path, "clone", "--quiet", str(root), "clone")
    git(root, "worktree", "add", "--quiet", "-b", "other", str(tmp_path / "linked"))
    repository(tmp_path / "unrelated", x="1")
    for here, expected in {
        "repo/src": tmp_path / "repo",
        "clone": tmp_path / "clone",
        "linked": tmp_path / "linked",
        "unrelated": None,
        ".": None,
    }.items():
        monkeypatch.chdir(tmp_path / here)
        assert LOCAL.place(runtime.caller, handoff, None) == expected
    assert LOCAL.place(runtime.caller, handoff, str(tmp_path / "unrelated")) == tmp_path / "unrelated"
    assert LOCAL.place(runtime.caller, stored(contract("readme"), None), None) == tmp_path
    shutil.rmtree(tmp_path / "linked")
    os.rename(root, tmp_path / "moved")
    assert LOCAL.place(runtime.caller, handoff, None) is None
    monkeypatch.chdir(tmp_path / "moved" / "src")
    assert LOCAL.place(runtime.caller, handoff, None) == tmp_path / "moved"
    with pytest.raises(HandoffInvalid):
        LOCAL.place(runtime.caller, handoff, str(tmp_path / "missing"))


def test_work_bound_in_a_folder_of_a_repository_is_found_in_that_folder_of_a_clone(
    runtime: Executor, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handoff = stored(contract("a.py"), bind(runtime.home, contract("a.py"), root / "src"))
    git(tmp_path, "clone", "--quiet", str(root), "clone")
    for here in ("clone", "repo"):
        monkeypatch.chdir(tmp_path / here)
        assert LOCAL.place(runtime.caller, handoff, None) == tmp_path / here / "src"


@pytest.mark.parametrize("prefix", ["..", "../..", "/etc", "src/../..", "link", ".git/hooks", "nul\0"])
def test_no_word_of_where_a_root_was_leads_out_of_the_repository(
    runtime: Executor, root: Path, monkeypatch: pytest.MonkeyPatch, prefix: str
) -> None:
    os.symlink("/etc", root / "link")
    bound = replace(bind(runtime.home, contract("readme"), root), prefix=prefix)
    monkeypatch.chdir(root)
    assert LOCAL.place(runtime.caller, stored(contract("readme"), bound), None) is None


def test_what_a_folder_of_another_host_was_is_told_by_its_path_alone(
    runtime: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime.home.project = None
    write(tmp_path, "plain/a")
    write(tmp_path, "copied/a")
    given = contract("a")
    bound = replace(bind(runtime.home, given, tmp_path / "plain"), host="another")
    monkeypatch.chdir(tmp_path / "copied")
    assert LOCAL.place(runtime.caller, stored(given, bound), None) is None
    monkeypatch.chdir(tmp_path / "plain")
    assert LOCAL.place(runtime.caller, stored(given, bound), None) == tmp_path / "plain"


def test_of_another_host_nothing_is_believed_that_git_cannot_tell(
    runtime: Executor, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound = bind(runtime.home, contract("readme"), root)
    abroad = replace(bound, host="another")
    monkeypatch.chdir(root)
    assert LOCAL.place(runtime.caller, stored(contract("readme"), abroad), None) == root
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert LOCAL.place(runtime.caller, stored(contract("readme"), bound), None) == root
    assert LOCAL.place(runtime.caller, stored(contract("readme"), abroad), None) is None
