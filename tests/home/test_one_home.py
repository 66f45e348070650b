"""One home per repository: found from any folder of it, shared by its work trees, and the same by every door."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from outlast import Outlast
from outlast.home.place import near
from outlast.python.work_tree import work_tree_of

from ..kit.desk import QUIET
from ..kit.repositories import git, repository
from ..ready import completed


@pytest.fixture(autouse=True)
def nobody_names_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OUTLAST_HOME", raising=False)


def home_at(folder: Path) -> Path:
    """The home that a command finds, or makes, there; a hook means the same one."""
    before = os.getcwd()
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    try:
        found = near()
    finally:
        os.chdir(before)
    assert work_tree_of(str(folder)).home == str(found)
    return found


def command(folder: Path, *words: str, given: str = "") -> "subprocess.CompletedProcess[str]":
    return completed(
        ("-m", "outlast", *words),
        cwd=folder,
        env=os.environ | QUIET,
        input=given,
        capture_output=True,
        text=True,
        timeout=120,
    )


# -- where it is -------------------------------------------------------------------------------------


def test_in_a_repository_it_is_made_at_the_top_also_before_the_first_commit(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    git(tmp_path / "new", "init", "-q")
    committed = repository(tmp_path / "old", a="1")
    for top in (tmp_path / "new", committed):
        assert [home_at(top), home_at(top / "src/deep")] == [top / ".outlast"] * 2


def test_the_nearest_one_is_used_but_none_above_the_top(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", a="1")
    (tmp_path / ".outlast").mkdir()
    assert home_at(repo / "src") == repo / ".outlast"
    (repo / "packages/one/.outlast").mkdir(parents=True)
    assert home_at(repo / "packages/one/src") == repo / "packages/one/.outlast"
    assert home_at(repo / "packages/two") == repo / ".outlast"


def test_a_linked_work_tree_has_that_of_the_main_one(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", a="1")
    git(repo, "worktree", "add", "-q", "../beside")
    git(repo, "worktree", "add", "-q", "trees/inside")
    trees = (tmp_path / "beside", repo / "trees/inside")
    assert {home_at(each / "src") for each in trees} == {repo / ".outlast"}
    (repo / "packages/one/.outlast").mkdir(parents=True)
    assert {home_at(each / "packages/one/src") for each in trees} == {repo / "packages/one/.outlast"}
    (tmp_path / "beside/.outlast").mkdir()  # one that somebody named once: the work trees share theirs all the same
    assert home_at(tmp_path / "beside") == repo / ".outlast"


@pytest.mark.parametrize("name", [".bare", "it.git", ".git"])
def test_work_trees_of_a_bare_repository_have_one_beside_it(tmp_path: Path, name: str) -> None:
    repository(tmp_path / "source", a="1")
    git(tmp_path, "clone", "-q", "--bare", "source", f"work/{name}")
    for tree in ("one", "two"):
        git(tmp_path / "work" / name, "worktree", "add", "-q", "-b", tree, f"../{tree}")
    places = ("work/one", "work/two/src", f"work/{name}", f"work/{name}/refs")
    assert {home_at(tmp_path / each) for each in places} == {tmp_path / "work/.outlast"}


def test_a_submodule_has_its_own_and_shares_it_with_its_work_trees(tmp_path: Path) -> None:
    repository(tmp_path / "inner", a="1")
    outer = repository(tmp_path / "outer", b="1")
    git(outer, "submodule", "add", "-q", str(tmp_path / "inner"), "sub module")
    sub = outer / "sub module"
    git(sub, "worktree", "add", "-q", str(tmp_path / "beside"))
    assert [home_at(each) for each in (sub / "src", tmp_path / "beside")] == [sub / ".outlast"] * 2
    assert home_at(outer / "src") == outer / ".outlast"
    assert home_at(outer / ".git/modules/sub module") == outer / ".outlast"  # never in a folder of git's


def test_outside_of_git_it_is_the_nearest_upward_else_right_here(tmp_path: Path) -> None:
    assert home_at(tmp_path / "a/b") == tmp_path / "a/b/.outlast"
    (tmp_path / "a/.outlast").mkdir()
    assert home_at(tmp_path / "a/b") == tmp_path / "a/.outlast"


def test_a_folder_that_only_says_to_be_a_work_tree_has_its_own(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", a="1")
    git(repo, "worktree", "add", "-q", "../beside")
    copied = tmp_path / "came with an archive"
    copied.mkdir()
    (copied / ".git").write_bytes((tmp_path / "beside/.git").read_bytes())
    assert home_at(copied) == copied / ".outlast"


# -- by every door -----------------------------------------------------------------------------------

SAID = {"summary": "Half way", "handoff_text": "Go on in a."}


def by_python(folder: Path) -> None:
    script = f"from outlast import Outlast\nOutlast().handoff.store(anchor='by_python', **{SAID!r})"
    subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, timeout=120, check=True)


def by_command(folder: Path) -> None:
    said = [*("-m", SAID["summary"]), *("--text", SAID["handoff_text"])]
    assert command(folder, "handoff", "store", "by_command", *said).returncode == 0


def by_server(folder: Path) -> None:
    words = [sys.executable, "-m", "outlast", "serve", "--port", "0", "--json"]
    with subprocess.Popen(
        words, cwd=folder, env=os.environ | QUIET, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        try:
            assert server.stdout is not None
            with Outlast(json.loads(server.stdout.readline())["address"]) as client:
                client.handoff.store(anchor="by_server", bind=False, **SAID)
        finally:
            server.terminate()


def by_mcp(folder: Path) -> None:
    asked = {"name": "handoff_store", "arguments": {"anchor": "by_mcp", **SAID}}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": asked},
    ]
    command(folder, "mcp", given="".join(f"{json.dumps(each)}\n" for each in messages))


def by_hook(folder: Path) -> None:
    (folder / "a").write_text("edited in a session\n")
    event = {"hook_event_name": "SessionEnd", "session_id": "s", "cwd": str(folder), "reason": "other"}
    command(folder, "hook", "end", "--client", "claude", given=json.dumps(event))
    command(folder, "hook", "drain")


def test_every_door_finds_and_makes_the_same_one(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", a="1", src__b="1")
    git(repo, "worktree", "add", "-q", "../beside")
    doors: tuple[Callable[[Path], None], ...] = (by_python, by_command, by_server, by_mcp, by_hook)
    for door in doors:
        door(tmp_path / "beside/src")
        assert [*tmp_path.rglob(".outlast")] == [repo / ".outlast"], door.__name__
    with Outlast(repo / ".outlast") as found:
        stored = {each.anchor for each in found.handoff.list()}
    assert stored == {*(each.__name__ for each in doors[:-1]), "branch:beside"}
