"""Looking at bound files again, in hostile and in large repositories too."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from outlast.files import snapshot as bound_files
from outlast.files.snapshot import ABSENT
from outlast.handoffs.binding import bind
from outlast.handoffs.handoff import key_of
from outlast.handoffs.observer import LOCAL, observe
from outlast.runs.live import Executor

from ..kit.bindings import bound_and_seen, contract, stored
from ..kit.place import Place
from ..kit.repositories import GIT, commit, git, repository, write


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


# -- observing ---------------------------------------------------------------------------------------


def test_observing_the_same_work_finds_it_the_same(runtime: Executor, root: Path) -> None:
    given = contract("src", "absent", environment=("readme",))
    bound, seen = bound_and_seen(runtime.home, root, given, lambda: None)
    assert seen.relation == "same"
    assert set(seen.binding.files) == set(bound.files)
    assert all(bound.files[path].same(now) for path, now in seen.binding.files.items())
    facts = ("commit", "branch", "dirty", "dirty_files", "root", "host", "folders")
    assert [getattr(seen.binding, name) for name in facts] == [getattr(bound, name) for name in facts]


def test_observing_keeps_and_writes_nothing(runtime: Executor, root: Path) -> None:
    write(root, "src/a.py", "a = 2\n")
    given = contract("src")
    bound = bind(runtime.home, given, root)
    write(root, "src/a.py", "a = 3\n")
    before = {path: path.stat().st_mtime_ns for path in (root / ".git", *runtime.home.blobs.folder.rglob("*"))}
    assert observe(stored(given, bound), root).binding.blobs == ()
    assert {path: path.stat().st_mtime_ns for path in (root / ".git", *runtime.home.blobs.folder.rglob("*"))} == before


def test_the_relation_to_the_bound_commit_is_told(runtime: Executor, root: Path, tmp_path: Path) -> None:
    given = contract("readme")
    bound = bind(runtime.home, given, root)
    handoff = stored(given, bound)
    write(root, "src/a.py", "a = 2\n")
    commit(root)
    assert observe(handoff, root).relation == "ahead"
    git(root, "checkout", "--quiet", "--orphan", "other")
    assert (observe(handoff, root).relation, observe(handoff, root).binding.branch) == ("apart", "other")
    assert observe(handoff, repository(tmp_path / "unrelated", readme="hello\n")).relation == "unknown"
    (tmp_path / "plain").mkdir()
    assert observe(handoff, tmp_path / "plain").relation == "none"


def test_targets_that_are_no_files_any_more_are_seen_and_not_opened(
    runtime: Executor, root: Path, tmp_path: Path
) -> None:
    write(tmp_path, "outside/a.py", "a = 1\n")

    def change() -> None:
        (root / "readme").unlink()
        os.mkfifo(root / "readme")
        (root / "src" / "b.py").unlink()
        os.symlink(tmp_path / "outside" / "a.py", root / "src" / "b.py")
        os.rename(root / "deep", root / "moved")
        os.symlink(tmp_path / "outside", root / "deep")
        (root / "made").mkdir()

    write(root, "deep/a.py", "a = 1\n")
    _, seen = bound_and_seen(runtime.home, root, contract("readme", "src/b.py", "deep/a.py", "made"), change)
    found = {path: (each.mode, each.why) for path, each in seen.binding.files.items()}
    assert found == {
        "readme": ("special", "special"),
        "src/b.py": ("link", ""),
        "deep/a.py": ("special", "outside"),
        "made": ("special", "folder"),
    }


def test_paths_of_a_record_from_elsewhere_open_nothing_outside(runtime: Executor, root: Path, tmp_path: Path) -> None:
    write(tmp_path, "secret", "x")
    bound = bind(runtime.home, contract("readme"), root)
    paths = (
        "../secret",
        str(tmp_path / "secret"),
        "a/../../secret",
        ".git/config",
        "nul\0",
        "bytes:..%2Fsecret",
        "",
        "..",
    )
    hostile = replace(bound, files=dict.fromkeys(paths, ABSENT), folders=("..", "/"), commit="--output=x")
    seen = observe(stored(contract("readme"), hostile), root)
    assert {seen.binding.files[path].mode for path in paths} == {"special"}
    assert {seen.binding.files[path].why for path in paths} == {"outside", "hidden"}
    assert set(seen.binding.files) <= {*paths, "..", "/"}
    assert seen.relation == "unknown"


def test_a_link_put_on_the_way_while_looking_is_not_followed(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "outside/a.py", "private\n")
    real = os.path.realpath

    def swapped(path: Any, **options: Any) -> Any:
        found = real(path, **options)
        if not (root / "src").is_symlink():
            os.rename(root / "src", root / "was")
            os.symlink(tmp_path / "outside", root / "src")
        return found

    monkeypatch.setattr(bound_files.os.path, "realpath", swapped)
    assert bound_files.sight(root, "src/a.py").bound.mode in ("absent", "special")


def test_musts_to_keep_are_looked_at_where_they_are_rules_of_files(runtime: Executor, root: Path) -> None:
    holds, broken = {"file": "readme", "contains": "hello"}, {"file": "src/a.py", "contains": "b = "}
    given = contract("readme", must_keep=("the public names", holds, broken), must_change=(broken,))
    handoff = stored(given, bind(runtime.home, given, root))
    musts = observe(handoff, root).musts
    assert set(musts) == {key_of(holds), key_of(broken)}
    assert musts[key_of(holds)] == ""
    assert musts[key_of(broken)]


def test_an_unbound_handoff_still_has_its_musts_looked_at(root: Path) -> None:
    rule = {"file": "readme", "absent": True}
    seen = observe(stored(contract("readme", must_keep=(rule,)), None), root)
    assert seen.musts[key_of(rule)]
    assert (seen.binding.files, seen.relation) == ({}, "none")


# -- git that cannot tell, and large repositories ----------------------------------------------------


def test_where_git_cannot_tell_files_are_bound_all_the_same(
    runtime: Executor, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = contract("src", "readme")
    known = stored(given, bind(runtime.home, given, root))
    write(root, "src/untracked")
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    seen = observe(known, root)
    assert (seen.relation, set(seen.binding.files)) == ("unknown", {"readme", "src/a.py", "src/b.py"})
    monkeypatch.chdir(root)
    assert LOCAL.place(runtime.caller, known, None) == root
    bound = bind(runtime.home, given, root)
    assert (bound.commit, bound.patch_why, set(bound.files)) == (
        "",
        "no_git",
        {"readme", "src/a.py", "src/b.py", "src/untracked"},
    )


WATCHED = """
import json, os, sys
from pathlib import Path
from outlast import Outlast
from outlast.handoffs.handoff import Contract, Handoff, Lint
from outlast.handoffs.binding import bind
from outlast.handoffs.observer import observe

root, home = Path(sys.argv[1]), sys.argv[2]
ours = Path(home)  # what is looked for there is nothing of the repository
contract = Contract(anchor="a", summary="s", handoff_text="t", target_files=("d1/f1", "d2", "missing"))
home = Outlast(home)._executor.home
import concurrent.futures, selectors, shutil, subprocess
import outlast.handoffs.contract, outlast.secrets.find, outlast.handoffs.checks
opened, listed, spawned = [], [], []

def watch(event, args):
    if event == "open" and isinstance(args[0], str) and not (args[2] or 0) & os.O_DIRECTORY:
        path = Path(args[0])
        if not path.is_absolute() or (root in path.parents and ".git" not in path.parts):  # its settings are read
            opened.append(path.name)
    elif event in ("os.listdir", "os.scandir"):
        path = Path(args[0])
        listed.extend([str(path)] if ".git" not in path.parts and ours not in (path, *path.parents) else [])
    elif event == "subprocess.Popen":
        asked = [word for word in args[1] if word in ("status", "ls-files", "diff", "merge-base", "cat-file")]
        spawned.extend([asked] if asked else [])  # not: whose it is, and its settings

sys.addaudithook(watch)
told = []
bound = bind(home, contract, root)
fields = {name: getattr(contract, name) for name in Contract.__struct_fields__}
fields |= dict(id="h", scope="s", revision=1, actor="me", stored_us=1, expires_us=2, lint=Lint(100))
handoff = Handoff(**fields, binding=bound)
told.append([sorted(opened), listed[:], spawned[:]])
opened.clear(); listed.clear(); spawned.clear()
seen = observe(handoff, root)
told.append([sorted(opened), listed[:], spawned[:]])
assert all(bound.files[path].same(seen.binding.files[path]) for path in bound.files), (bound, seen)
print(json.dumps(told))
"""


def test_in_a_large_repository_only_bound_files_are_opened(tmp_path: Path) -> None:
    """Of 20,000 files five hundred are checked out; with OUTLAST_TEST_FILES there are so many, and all are."""
    everything = os.environ.get("OUTLAST_TEST_FILES")
    root = tmp_path / "large"
    git_of_many(root, folders=int(everything or 20_000) // 100, there=None if everything else 5)
    words = [sys.executable, "-c", WATCHED, str(root), str(tmp_path / ".outlast")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    bound, seen = json.loads(done.stdout)
    files = sorted(["f1", *(f"f{number}" for number in range(100))])
    assert bound == [files, [], [["status"], ["ls-files"], ["ls-files"], ["ls-files"]]]  # one asks for what is missing
    assert seen == [files, [], [["status"], ["ls-files"], ["ls-files"]]]


def git_of_many(root: Path, folders: int, there: int | None) -> None:
    """A repository of a hundred files in each folder, so many folders of it checked out."""
    root.mkdir()
    git(root, "init", "--quiet")
    names = (f"d{folder}/f{file}" for folder in range(folders) for file in range(100))
    lines = "".join(f"M 100644 :1 {name}\n" for name in names)
    stream = f"blob\nmark :1\ndata 2\nx\n\ncommit refs/heads/main\ncommitter a <b> 0 +0000\ndata 1\nx\n{lines}\n"
    subprocess.run([GIT, "fast-import", "--quiet"], cwd=root, input=stream.encode(), check=True, timeout=60)
    if there is not None:
        git(root, "sparse-checkout", "set", "--cone", *(f"d{folder}" for folder in range(there)))
    git(root, "reset", "--quiet", "--hard")
