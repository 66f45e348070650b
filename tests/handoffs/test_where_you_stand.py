"""A verdict is about where you stand: the root is where the caller is, and nothing elsewhere is judged or written."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from outlast import Outlast
from outlast.errors import HandoffInvalid, OtherPlace
from outlast.files.repository import spelled
from outlast.operations.reading import prompt

from ..doors.server import served
from ..kit.desk import QUIET, TASK, Desk, codes, git
from ..kit.repositories import repository
from ..ready import completed

FILE = "src/export.py"
Make = Callable[[Desk], Path]
WHERE: dict[str, tuple[bool, Make]] = {}


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's own settings of git count, but that clones of folders may be made."""
    for name, value in QUIET.items():
        monkeypatch.setenv(name, value)


def place(same: bool) -> Callable[[Make], Make]:
    """A place to stand in, made after the handoff was stored: whether it is known to be its repository."""

    def add(make: Make) -> Make:
        WHERE[make.__name__] = same, make
        return make

    return add


def clone(desk: Desk, name: str = "clone", *options: str) -> Path:
    git(desk.folder, "clone", "-q", *options, f"file://{desk.repo}", name)
    return desk.folder / name


@place(same=True)
def the_repository(desk: Desk) -> Path:
    return desk.repo


@place(same=True)
def a_folder_in_it(desk: Desk) -> Path:
    return desk.repo / "src"


@place(same=True)
def a_linked_work_tree(desk: Desk) -> Path:
    desk.git("worktree", "add", "-q", "--detach", "../tree")
    return desk.folder / "tree"


@place(same=True)
def a_clone(desk: Desk) -> Path:
    return clone(desk)


@place(same=True)
def a_clone_that_lacks_the_commit_and_knows_no_remote(desk: Desk) -> Path:
    made = desk.folder / "copy"
    shutil.copytree(desk.repo, made)
    git(made, "update-ref", "refs/heads/main", "HEAD~1")
    git(made, "reset", "-q", "--hard")
    git(made, "reflog", "expire", "--expire=now", "--all")
    git(made, "gc", "-q", "--prune=now")
    return made


@place(same=True)
def a_shallow_clone_that_lacks_the_commit(desk: Desk) -> Path:
    desk.commit("later")
    return clone(desk, "shallow", "--depth", "1")


@place(same=True)
def a_shallow_clone_of_the_same_origin_in_another_spelling(desk: Desk) -> Path:
    desk.commit("later")
    made = clone(desk, "shallow", "--depth", "1")
    git(made, "remote", "set-url", "origin", "https://me:tok3n@forge.example/team/export")
    return made


@place(same=True)
def a_work_tree_of_a_bare_clone(desk: Desk) -> Path:
    bare = clone(desk, "work/.bare", "--bare")
    git(bare, "worktree", "add", "-q", "../main")
    return desk.folder / "work/main"


@place(same=False)
def another_repository(desk: Desk) -> Path:
    return repository(desk.folder / "another", src__export_py="def export():\n    return 1\n")


@place(same=False)
def a_repository_without_a_commit(desk: Desk) -> Path:
    (desk.folder / "new").mkdir()
    git(desk.folder / "new", "init", "-q")
    return desk.folder / "new"


@place(same=False)
def a_plain_folder(desk: Desk) -> Path:
    shutil.copytree(desk.repo, desk.folder / "plain", ignore=shutil.ignore_patterns(".git"))
    return desk.folder / "plain"


@place(same=False)
def a_shallow_clone_of_something_else(desk: Desk) -> Path:
    repository(desk.folder / "something", a="1")
    git(desk.folder, "clone", "-q", "--depth", "1", f"file://{desk.folder}/something", "shallow")
    git(desk.folder / "shallow", "remote", "set-url", "origin", "https://forge.example/team/import")
    return desk.folder / "shallow"


@place(same=False)
def a_submodule_in_it(desk: Desk) -> Path:
    repository(desk.folder / "inner", b="1")
    desk.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(desk.folder / "inner"), "sub")
    return desk.repo / "sub"


@place(same=False)
def the_repository_around(desk: Desk) -> Path:
    outer = repository(desk.folder / "outer", c="1")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(desk.repo), "sub")
    return outer


def stored(desk: Desk) -> None:
    """A handoff on the second commit of a repository that is known by a remote."""
    desk.git("remote", "add", "origin", "git@Forge.example:team/Export.git")
    desk.write(FILE, "def export():\n    return 2\n")
    desk.commit("second")
    desk.store()


@pytest.mark.parametrize(("same", "make"), WHERE.values(), ids=WHERE)
def test_what_is_judged_is_where_you_stand(desk: Desk, same: bool, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(desk)
    here = make(desk)
    top = desk.repo if here == desk.repo / "src" else here
    monkeypatch.chdir(here)
    found = desk.outlast.handoff.recover(TASK)
    if same:
        assert (found.root, "other_place" in codes(found)) == (str(top), False)
        assert desk.outlast.handoff.recover(file_path=FILE).anchor == TASK
        (top / FILE).write_text("changed here\n")
        assert "file_changed" in codes(desk.outlast.handoff.recover(TASK))
        return
    desk.write(FILE, "changed where it was stored, and nobody stands there\n")
    found = desk.outlast.handoff.recover(TASK)
    assert (str(found.verdict), found.root, codes(found, ["contests", "weakens"])) == ("candidate", "", {"other_place"})
    assert (reason := next(each for each in found.reasons if each.code == "other_place")).found == str(here)
    assert "forge.example/team/export" in reason.expected
    assert "other_place" in prompt(found)


@pytest.mark.parametrize(("same", "make"), WHERE.values(), ids=WHERE)
def test_nothing_is_written_outside_unless_it_is_named(
    desk: Desk, same: bool, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(desk)
    here, apply = make(desk), desk.outlast.handoff.apply
    top = desk.repo if here == desk.repo / "src" else here
    for root in {desk.repo, top}:
        (root / FILE).unlink(missing_ok=True)
    monkeypatch.chdir(here)
    if same:
        assert apply(TASK, force=True).root == str(top)
        assert [(root / FILE).exists() for root in (top, desk.repo)] == [True, top == desk.repo]
        return
    for how in ({}, {"force": True}, {"dry_run": True}):
        with pytest.raises(OtherPlace) as refused:
            apply(TASK, **how)
        assert str(here) in str(refused.value)
    assert not any((root / FILE).exists() for root in (desk.repo, top))
    with pytest.raises(HandoffInvalid, match="--repo"):
        desk.outlast.handoff.diff(TASK)
    with pytest.raises(HandoffInvalid, match="--repo"):
        desk.outlast.handoff.verify(TASK)
    assert apply(TASK, repo_root=str(desk.repo)).done
    assert [(root / FILE).exists() for root in (desk.repo, top)] == [True, False]


def test_another_repository_in_the_same_folder_is_another_place(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.store()
    shutil.rmtree(desk.repo / ".git")
    monkeypatch.chdir(desk.repo)
    assert desk.outlast.handoff.recover(TASK).root == str(desk.repo)  # without git the folder tells
    desk.git("init", "-q")
    desk.commit("somebody else's first")
    assert codes(desk.outlast.handoff.recover(TASK), ["weakens", "contests"]) == {"other_place"}


def test_without_a_commit_the_folder_tells_and_a_remote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one/src", "two/src", "three/src"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "a").write_text("a\n")
        git((tmp_path / name).parent, "init", "-q")
    for name in ("one", "three"):
        git(tmp_path / name, "remote", "add", "origin", "ssh://git@forge.example:2222/new/one.git")
    with Outlast(tmp_path / "home") as outlast:
        monkeypatch.chdir(tmp_path / "one/src")
        outlast.handoff.store(anchor="a", summary="s", handoff_text="t", target_files=["src/a"])
        roots = {}
        for name in ("one", "one/src", "two", "three"):
            monkeypatch.chdir(tmp_path / name)
            roots[name] = outlast.handoff.recover("a").root
        one, three = str(tmp_path / "one"), str(tmp_path / "three")
        assert roots == {"one": one, "one/src": one, "two": "", "three": three}
        monkeypatch.chdir(tmp_path / "one")
        git(tmp_path / "one", "add", "-A")
        git(tmp_path / "one", "commit", "-q", "-m", "first")
        assert outlast.handoff.recover("a").root == one


def test_outside_of_git_only_the_same_folder_and_what_is_in_it_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("plain/deep", "copy/deep"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name).parent.joinpath("a").write_text("a\n")
    (tmp_path / "link").symlink_to("plain")
    with Outlast(tmp_path / "home") as outlast:
        monkeypatch.chdir(tmp_path / "plain")
        outlast.handoff.store(anchor="a", summary="s", handoff_text="t", target_files=["a"])
        roots = []
        for name in ("plain", "plain/deep", "link", "copy", "."):
            monkeypatch.chdir(tmp_path / name)
            roots.append(outlast.handoff.recover("a").root)
        assert roots == [str(tmp_path / "plain")] * 3 + ["", ""]
        found = outlast.handoff.recover("a", repo_root=str(tmp_path / "copy"))  # who names it has said so
        assert (found.root, "other_place" in codes(found)) == (str(tmp_path / "copy"), False)


def test_a_folder_of_a_repository_is_found_in_a_clone_whose_source_is_gone(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.store(repo_root=str(desk.repo / "src"), target_files=["export.py"], acceptance_checks=[])
    made = clone(desk)
    shutil.rmtree(desk.repo)
    monkeypatch.chdir(made)
    assert desk.outlast.handoff.recover(TASK).root == str(made / "src")


def test_no_name_or_password_of_a_remote_is_kept(desk: Desk) -> None:
    desk.git("remote", "add", "origin", "https://ann:hunter2@forge.example/team/export.git?key=hunter2")
    binding = desk.store().binding
    assert binding is not None
    assert binding.known_by[1:] == ("forge.example/team/export",)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        *((url, "forge.example/team/repo") for url in (
            "git@forge.example:team/repo.git",
            "forge.example:/team/repo",
            "ssh://git@forge.example:2222/team/repo.git/",
            "ssh://forge.example/team//repo",
            "https://me:token@Forge.Example/Team/Repo.git",
            "http://forge.example:80/team/repo.git#x",
            "git://forge.example/team/repo",
        )),
        ("https://forge.example/other/repo", "forge.example/other/repo"),
        ("https://[::1]:8080/r.git", "::1/r"),
        ("git@[::1]:r.git", "::1/r"),
        ("/srv/git/repo.git/", "/srv/git/repo"),
        ("file:///srv/git/a%20b/.git", "/srv/git/a b"),
        ("../repo", "/srv/repo"),
        ("./a:b/c", "/srv/top/a:b/c"),
        ("ext::sh -c %S", ""),
        ("https://forge.example", ""),
        ("nul\0", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_a_remote_has_one_spelling(url: str, name: str) -> None:
    assert spelled(url, "/srv/top") == name


# -- by other doors ----------------------------------------------------------------------------------


def command(desk: Desk, folder: Path, *words: str, given: str = "") -> "subprocess.CompletedProcess[str]":
    environment = os.environ | {"OUTLAST_HOME": str(desk.home)}
    line = ("-m", "outlast", *words)
    return completed(line, cwd=folder, env=environment, input=given, capture_output=True, text=True, timeout=120)


def test_a_command_writes_only_where_it_is_run_or_told(desk: Desk) -> None:
    desk.store()
    here = another_repository(desk)
    (desk.repo / FILE).unlink()
    refused = command(desk, here, "handoff", "apply", TASK)
    assert (refused.returncode, "[other_place]" in refused.stderr, "--repo" in refused.stderr) == (4, True, True)
    assert (git(here, "status", "--short"), (desk.repo / FILE).exists()) == ("", False)
    assert command(desk, here, "handoff", "apply", TASK, "--repo", str(desk.repo)).returncode == 0
    assert (desk.repo / FILE).exists()


def test_a_client_of_a_server_says_where_it_stands(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(desk.home) as server, Outlast(f"http://127.0.0.1:{server.port}") as client:
        monkeypatch.chdir(desk.repo)
        desk.store(client)
        assert client.handoff.recover(TASK).root == str(desk.repo)
        monkeypatch.chdir(another_repository(desk))
        found = client.handoff.recover(TASK)
        assert (str(found.verdict), codes(found, ["weakens"])) == ("candidate", {"other_place"})
        with pytest.raises(OtherPlace):
            client.handoff.apply(TASK)
        monkeypatch.chdir(clone(desk))
        assert client.handoff.recover().root == str(desk.folder / "clone")


def test_a_session_that_starts_in_another_repository_is_not_told_to_stop(desk: Desk) -> None:
    desk.store(anchor="branch:main")
    here = another_repository(desk)
    event = {"hook_event_name": "SessionStart", "session_id": "s1", "source": "startup", "cwd": str(here)}
    told = command(desk, desk.repo, "hook", "start", "--client", "claude", given=json.dumps(event)).stdout
    context = json.loads(told)["hookSpecificOutput"]["additionalContext"]
    assert context.startswith("# Verdict: candidate")
    assert "other_place" in context
    assert "file_" not in context


def test_whoever_is_elsewhere_is_told_to_name_where_checks_run(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.store()
    monkeypatch.chdir(desk.folder)
    for reason in desk.outlast.handoff.recover(TASK).verdict.reasons:
        assert ("--repo DIR" in reason.advice) == (reason.code in ("checks_not_run", "other_place"))


def test_on_another_branch_one_is_sent_to_the_work_tree_that_has_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git lets no second work tree switch to a branch."""
    desk.git("worktree", "add", "-q", "-b", "other", "../tree")
    desk.store()
    monkeypatch.chdir(desk.folder / "tree")
    (reason,) = (each for each in desk.outlast.handoff.recover(TASK).verdict.reasons if each.code == "diverged")
    assert reason.advice == f"go where it was stored: cd {desk.repo}; or here: git switch main"
