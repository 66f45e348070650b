"""Which folder paths are relative to, and where the files of a handoff are found again."""

import dataclasses
import os
import shutil
from pathlib import Path

import pytest

from outlast.errors import HandoffInvalid
from outlast.handoffs.binding import bind, place_of, relative_to, root_of
from outlast.home.home import Runtime

from ..kit.bindings import contract, stored
from ..kit.place import Place
from ..kit.repositories import git, repository, write


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's own settings of git count."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


@pytest.fixture
def runtime(place: Place) -> Runtime:
    return place.outlast._runtime


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with three committed files."""
    return repository(tmp_path / "repo", src__a_py="a = 1\n", src__b_py="b = 1\n", readme="hello\n")


# -- the root ----------------------------------------------------------------------------------------


def test_the_root_is_the_project_inside_the_repository_else_its_top(
    runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert root_of(runtime, None) == tmp_path  # where .outlast lies, outside of git
    repo = repository(tmp_path / "repo", src__a="1")
    monkeypatch.chdir(repo / "src")
    assert root_of(runtime, None) == repo  # the project is larger than the repository
    shutil.rmtree(repo / ".git")
    repository(tmp_path, x="1")
    assert root_of(runtime, None) == tmp_path
    runtime.project = repo
    assert root_of(runtime, None) == repo
    monkeypatch.chdir(tmp_path)
    assert root_of(runtime, None) == tmp_path  # not in the project: the top


def test_without_project_and_repository_the_root_is_here(
    runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime.project = None
    (tmp_path / "real").mkdir()
    os.symlink("real", tmp_path / "link")
    monkeypatch.chdir(tmp_path / "link")
    assert root_of(runtime, None) == tmp_path / "real"
    assert root_of(runtime, str(tmp_path / "link")) == tmp_path / "real"
    assert root_of(runtime, ".") == tmp_path / "real"


@pytest.mark.parametrize("given", ["missing", "file", "nul\0", "", "\ud800", "n" * 10_000])
def test_a_root_that_is_no_folder_is_refused(runtime: Runtime, tmp_path: Path, given: str) -> None:
    write(tmp_path, "file")
    with pytest.raises(HandoffInvalid) as caught:
        root_of(runtime, str(tmp_path / given) if given else "")
    assert caught.value.facts["path"] == "repo_root"


def test_a_current_folder_that_is_gone_is_told(
    runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(HandoffInvalid, match="does not exist any more"):
        root_of(runtime, None)


def test_paths_have_one_spelling(tmp_path: Path) -> None:
    assert relative_to(tmp_path, "a//b/./c/", "x") == "a/b/c"
    assert relative_to(tmp_path, f"{tmp_path}/a/b", "x") == "a/b"
    assert relative_to(tmp_path, ".", "x") == "."
    for given in ("../a", "a/../b", "/etc/passwd", "", "nul\0", f"{tmp_path}2/a"):
        with pytest.raises(HandoffInvalid):
            relative_to(tmp_path, given, "x")


# -- where to look -----------------------------------------------------------------------------------


def test_bound_work_is_found_here_in_a_clone_or_where_it_was(
    runtime: Runtime, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handoff = stored(contract("readme"), bind(runtime, contract("readme"), root))
    git(tmp_path, "clone", "--quiet", str(root), "clone")
    git(root, "worktree", "add", "--quiet", "-b", "other", str(tmp_path / "linked"))
    repository(tmp_path / "unrelated", x="1")
    for here, expected in {
        "repo/src": "repo",
        "clone": "clone",
        "linked": "linked",
        "unrelated": "repo",
        ".": "repo",
    }.items():
        monkeypatch.chdir(tmp_path / here)
        assert place_of(runtime, handoff, None) == tmp_path / expected
    assert place_of(runtime, handoff, str(tmp_path / "unrelated")) == tmp_path / "unrelated"
    assert place_of(runtime, stored(contract("readme"), None), None) == tmp_path
    shutil.rmtree(tmp_path / "linked")
    os.rename(root, tmp_path / "moved")
    assert place_of(runtime, handoff, None) is None
    monkeypatch.chdir(tmp_path / "moved" / "src")
    assert place_of(runtime, handoff, None) == tmp_path / "moved"
    with pytest.raises(HandoffInvalid):
        place_of(runtime, handoff, str(tmp_path / "missing"))


def test_work_bound_in_a_folder_of_a_repository_is_found_in_that_folder_of_a_clone(
    runtime: Runtime, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handoff = stored(contract("a.py"), bind(runtime, contract("a.py"), root / "src"))
    git(tmp_path, "clone", "--quiet", str(root), "clone")
    for here in ("clone", "repo"):
        monkeypatch.chdir(tmp_path / here)
        assert place_of(runtime, handoff, None) == tmp_path / here / "src"


def test_work_outside_of_git_is_found_where_it_was_or_where_its_files_are(
    runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime.project = None
    write(tmp_path, "plain/a")
    (tmp_path / "elsewhere").mkdir()
    given = contract("a", "absent")
    handoff = stored(given, bind(runtime, given, tmp_path / "plain"))
    monkeypatch.chdir(tmp_path / "plain")
    assert place_of(runtime, handoff, None) == tmp_path / "plain"
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert place_of(runtime, handoff, None) == tmp_path / "plain"
    os.rename(tmp_path / "plain", tmp_path / "moved")
    assert place_of(runtime, handoff, None) is None
    monkeypatch.chdir(tmp_path / "moved")
    assert place_of(runtime, handoff, None) == tmp_path / "moved"


def test_a_folder_of_another_host_is_not_taken_for_the_bound_one(
    runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime.project = None
    write(tmp_path, "plain/a")
    write(tmp_path, "copied/a")
    (tmp_path / "elsewhere").mkdir()
    given = contract("a")
    bound = dataclasses.replace(bind(runtime, given, tmp_path / "plain"), host="another")
    monkeypatch.chdir(tmp_path / "copied")
    assert place_of(runtime, stored(given, bound), None) == tmp_path / "copied"
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert place_of(runtime, stored(given, bound), None) is None


def test_of_another_host_nothing_is_believed_that_git_cannot_tell(
    runtime: Runtime, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound = bind(runtime, contract("readme"), root)
    abroad = dataclasses.replace(bound, host="another")
    monkeypatch.chdir(tmp_path)
    assert place_of(runtime, stored(contract("readme"), abroad), None) == root
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert place_of(runtime, stored(contract("readme"), bound), None) == root
    assert place_of(runtime, stored(contract("readme"), abroad), None) is None
