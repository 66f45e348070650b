"""Binding a handoff to real files: what is bound, what is kept, and what is refused."""

import os
import shutil
import socket
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from outlast.errors import HandoffInvalid
from outlast.files import git as git_files
from outlast.files import snapshot as bound_files
from outlast.files.snapshot import ABSENT, ContentKeeper
from outlast.handoffs import binding, observer
from outlast.handoffs.binding import bind
from outlast.handoffs.observer import LOCAL, observe
from outlast.home.home import Home
from outlast.runs.live import Executor
from outlast.values.codec import digest

from ..kit.bindings import bound_and_seen, contract, stored
from ..kit.place import Place
from ..kit.repositories import commit, git, repository, write

KEY = "\n".join(
    [
        "-----BEGIN RSA PRIVATE KEY-----",
        *["MIIEpAIBAAKCAQEA7bq8kXb2vW3yZ0Jd5pQ9sLr1tUe6"] * 6,
        "-----END RSA PRIVATE KEY-----\n",
    ]
)
EMPTY_BLOB = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"


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


def refused(home: Home, root: Path, *targets: str, **fields: Any) -> HandoffInvalid:
    with pytest.raises(HandoffInvalid) as caught:
        bind(home, contract(*targets, **fields), root)
    assert caught.value.facts["remedy"]
    return caught.value


# -- what is bound -----------------------------------------------------------------------------------


def test_each_target_is_bound_by_kind_and_content(runtime: Executor, root: Path) -> None:
    write(root, "run.sh", "#!/bin/sh\n", 0o755)
    os.symlink("src/a.py", root / "link")
    write(root, "empty", "")
    write(root, "binary", b"\0\1\r\n")
    bound = bind(runtime.home, contract("src/a.py", "run.sh", "link", "not/there", "empty", "binary"), root)
    modes = {path: each.mode for path, each in bound.files.items()}
    assert modes == {
        "binary": "file",
        "empty": "file",
        "link": "link",
        "not/there": "absent",
        "run.sh": "exec",
        "src/a.py": "file",
    }
    assert bound.files["src/a.py"].digest == digest(b"a = 1\n")
    assert bound.files["src/a.py"].blob == git(root, "hash-object", "src/a.py")
    assert bound.files["empty"].blob == EMPTY_BLOB
    assert (bound.files["binary"].blob, bound.files["binary"].size) == ("", 4)
    assert bound.files["link"].digest == digest(b"src/a.py")
    assert bound.files["not/there"] == ABSENT
    assert (bound.commit, bound.branch, bound.root) == (git(root, "rev-parse", "HEAD"), "main", str(root))
    assert bound.host == os.uname().nodename


def test_what_was_kept_can_be_read_again(runtime: Executor, root: Path) -> None:
    os.symlink("readme", root / "link")
    bound = bind(runtime.home, contract("src/a.py", "link", "absent"), root)
    assert runtime.home.blobs.get(bound.files["src/a.py"].kept) == b"a = 1\n"
    assert runtime.home.blobs.get(bound.files["link"].kept) == b"readme"
    assert set(bound.blobs) == {bound.files["src/a.py"].kept, bound.files["link"].kept}


def test_line_ends_do_not_lie(runtime: Executor, root: Path) -> None:
    before, seen = bound_and_seen(
        runtime.home, root, contract("src/a.py"), lambda: write(root, "src/a.py", "a = 1\r\n")
    )
    now = seen.binding.files["src/a.py"]
    assert now.same(before.files["src/a.py"])
    assert now.digest != before.files["src/a.py"].digest


@pytest.mark.parametrize("size", [100, (1 << 20) + 5, (1 << 18) * 5 + 1])
def test_a_text_of_any_size_has_gits_own_id_whatever_its_line_ends(root: Path, size: int) -> None:
    text = (b"abc\n" * size)[:size] + b"\r"  # as CRLF, some ends lie across two chunks; a lone CR is no line end
    expected = git(root, "hash-object", "--no-filters", str(write(root, "lf", text)))
    write(root, "crlf", text.replace(b"\n", b"\r\n"))
    assert bound_files.sight(root, "lf").bound.blob == expected
    assert bound_files.sight(root, "crlf").bound.blob == expected


def test_a_large_file_is_hashed_in_constant_memory(root: Path) -> None:
    with open(root / "large", "wb") as file:
        for _ in range(12):
            file.write(b"text of a line\r\n" * (1 << 16))
    tracemalloc.start()
    try:
        seen = bound_files.sight(root, "large")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (seen.bound.size, bool(seen.bound.blob), seen.content) == (12 << 20, True, None)
    assert peak < 4 << 20


def test_an_exec_bit_and_a_rename_are_changes(runtime: Executor, root: Path) -> None:
    def change() -> None:
        (root / "src" / "a.py").chmod(0o755)
        os.rename(root / "src" / "b.py", root / "src" / "c.py")

    before, seen = bound_and_seen(runtime.home, root, contract("src/a.py", "src/b.py", "readme"), change)
    now = seen.binding.files
    assert {path for path in now if not now[path].same(before.files[path])} == {"src/a.py", "src/b.py"}
    assert (now["src/a.py"].mode, now["src/b.py"].mode) == ("exec", "absent")


def test_names_that_are_not_text_survive_the_store(runtime: Executor, tmp_path: Path) -> None:
    root = repository(tmp_path / "caf\udce9", a="1")
    for name in ("in/caf\udce9", "in/ne\nw 🙂", "in/qu\"o'te"):
        write(root, name)
    commit(root)
    write(root, "dirty\udce9")
    given = contract("in")
    bound, seen = bound_and_seen(runtime.home, root, given, lambda: write(root, "in/caf\udce9", "changed\n"))
    assert set(bound.files) == {"bytes:in/caf%E9", "in/ne\nw 🙂", "in/qu\"o'te"}
    changed = [path for path, each in seen.binding.files.items() if not each.same(bound.files[path])]
    assert changed == ["bytes:in/caf%E9"]
    assert bound.dirty_files == ("bytes:dirty%E9",)
    assert seen.relation == "same"
    assert LOCAL.place(runtime.caller, stored(given, bound), str(root)) == root


def test_the_file_to_begin_with_is_bound_too(runtime: Executor, root: Path) -> None:
    assert [*bind(runtime.home, contract("readme", file_path="src/a.py"), root).files] == ["readme", "src/a.py"]
    assert refused(runtime.home, root, file_path="../x").facts["path"] == "file_path"


# -- refusing ----------------------------------------------------------------------------------------


def test_what_leaves_the_root_is_refused_by_name(runtime: Executor, root: Path, tmp_path: Path) -> None:
    write(tmp_path, "outside/file")
    os.symlink(tmp_path / "outside", root / "way")
    os.symlink("../../outside/file", root / "src" / "out")
    os.symlink("src", root / "inside")
    os.symlink("b.py", root / "src" / "in")
    assert refused(runtime.home, root, "readme", "src/a.py", "way/file").facts["path"] == "target_files[2]"
    assert "src/out" in str(refused(runtime.home, root, "src/out"))
    assert refused(runtime.home, root, environment=("readme", "way/file")).facts["path"] == "environment[1]"
    bound = bind(runtime.home, contract("inside/a.py", "src/in", "inside"), root)
    assert {path: each.mode for path, each in bound.files.items()} == {
        "inside": "link",
        "inside/a.py": "file",
        "src/in": "link",
    }


@pytest.mark.parametrize("target", ["/etc", "../..", "../../missing", "../.git"])
@pytest.mark.parametrize("tracked", [True, False])
def test_a_link_in_a_folder_that_leaves_the_root_is_refused_by_name(
    runtime: Executor, root: Path, tmp_path: Path, target: str, tracked: bool
) -> None:
    root = root if tracked else tmp_path / "plain"
    write(root, "src/deep/a.py")
    os.symlink(target, root / "src" / "evil")
    if tracked:
        git(root, "add", "--all")
    found = refused(runtime.home, root, "src")
    assert found.facts["path"] == "target_files[0]"
    assert "'src/evil'" in str(found)
    (root / "src" / "evil").unlink()
    os.symlink("deep", root / "src" / "fine")
    bind(runtime.home, contract("src"), root)


def test_devices_pipes_and_sockets_are_refused_and_never_opened(runtime: Executor, root: Path) -> None:
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        here = os.getcwd()
        os.chdir(root)
        try:
            listening.bind("socket")
        finally:
            os.chdir(here)
    for name in ("pipe", "socket"):
        found = refused(runtime.home, root, "readme", name)
        assert found.facts["path"] == "target_files[1]"
        assert "a device, a pipe or a socket" in str(found)
    assert refused(runtime.home, Path("/dev"), "null").facts["path"] == "target_files[0]"


def test_what_cannot_be_read_is_refused(runtime: Executor) -> None:
    memory = Path(f"/proc/{os.getpid()}")  # its `mem` is a plain file that nobody can read from the beginning
    assert "cannot be read" in str(refused(runtime.home, memory, "mem"))
    assert bound_files.sight(memory, "mem").bound.why == "unreadable"


def test_files_of_git_and_of_outlast_are_refused(runtime: Executor, root: Path, tmp_path: Path) -> None:
    write(root, "src/.outlast/x")
    os.symlink("../.git", root / "src" / "hidden")
    for path in (".git/config", ".git", "src/.outlast/x", "src/hidden/config", "src/hidden"):
        assert "git or Outlast" in str(refused(runtime.home, root, path))
    assert "git or Outlast" in str(refused(runtime.home, tmp_path, ".outlast/default/outlast.db"))


def test_a_home_of_another_name_is_outlasts_too(runtime: Executor, root: Path) -> None:
    runtime.home.path = root / "state"
    write(root, "state/default/outlast.db")
    assert "git or Outlast" in str(refused(runtime.home, root, "state/default/outlast.db"))


def test_hostile_paths_are_refused_or_absent(runtime: Executor, root: Path) -> None:
    for path in ("nul\0", "\ud800", "..", "a/../../b", "/etc/passwd", ""):
        assert refused(runtime.home, root, path).facts["path"] == "target_files[0]"
    bound = bind(runtime.home, contract("n" * 10_000, "d/" * 3_000 + "f", "readme/x", "qu\"o'te 🙂"), root)
    assert {each.mode for each in bound.files.values()} == {"absent"}


def test_a_folder_as_environment_is_refused(runtime: Executor, root: Path) -> None:
    assert "is a folder" in str(refused(runtime.home, root, environment=("src",)))


# -- folders -----------------------------------------------------------------------------------------


def test_a_folder_stands_for_its_tracked_and_new_files_but_not_for_ignored_ones(runtime: Executor, root: Path) -> None:
    write(root, "src/new.py")
    write(root, "src/made.o")
    write(root, ".git/info/exclude", "*.o\n")

    def change() -> None:
        write(root, "src/deep/newer.py")
        (root / "src" / "b.py").unlink()
        (root / "src" / "new.py").unlink()

    bound, seen = bound_and_seen(runtime.home, root, contract("src/", "readme"), change)
    assert (set(bound.files), bound.folders) == ({"src/a.py", "src/b.py", "src/new.py", "readme"}, ("src",))
    assert bound.files["src/new.py"].kept
    modes = {path: each.mode for path, each in seen.binding.files.items()}
    gone = {"src/b.py": "absent", "src/new.py": "absent"}
    assert modes == {"readme": "file", "src/a.py": "file", "src/deep/newer.py": "file", **gone}
    assert bound.dirty_files == ()


def sparse(root: Path) -> Path:
    """The repository with a folder `docs`, and a clone of it that leaves that out."""
    write(root, "docs/a.md", "a\n")
    write(root, "docs/b.bin", b"\0b")
    os.symlink("a.md", root / "docs/link")
    commit(root)
    git(root.parent, "clone", "--quiet", "--no-checkout", str(root), "sparse")
    git(root.parent / "sparse", "sparse-checkout", "set", "src")
    git(root.parent / "sparse", "checkout", "--quiet")
    return root.parent / "sparse"


def test_what_a_sparse_checkout_leaves_out_is_not_bound_and_not_new_elsewhere(runtime: Executor, root: Path) -> None:
    given, clone = contract("."), sparse(root)
    bound = bind(runtime.home, given, clone)
    assert set(bound.files) == {"readme", "src/a.py", "src/b.py"}
    assert set(observe(stored(given, bound), clone).binding.files) == {*bound.files}
    assert set(observe(stored(given, bound), root).binding.files) == {*bound.files}
    write(root, "docs/a.md", "changed\n")
    write(root, "docs/new.md", "new\n")
    assert set(observe(stored(given, bound), root).binding.files) == {*bound.files, "docs/a.md", "docs/new.md"}


def test_a_file_that_was_removed_and_is_there_again_is_new(runtime: Executor, root: Path) -> None:
    git(root, "rm", "--quiet", "src/b.py")
    bound, seen = bound_and_seen(
        runtime.home, root, contract("src"), lambda: git(root, "checkout", "--quiet", "HEAD", "src/b.py")
    )
    assert (set(bound.files), set(seen.binding.files)) == ({"src/a.py"}, {"src/a.py", "src/b.py"})


def test_a_named_file_that_a_sparse_checkout_leaves_out_is_refused(runtime: Executor, root: Path) -> None:
    clone = sparse(root)
    for path in ("docs/a.md", "docs"):
        found = refused(runtime.home, clone, "readme", path)
        assert found.facts["path"] == "target_files[1]"
        assert f"git sparse-checkout add {path}" in found.facts["remedy"]
    assert "sparse" in str(refused(runtime.home, clone, environment=("docs/a.md",)))
    assert bind(runtime.home, contract("docs/none.md"), clone).files["docs/none.md"] == ABSENT


def test_outside_of_git_a_folder_stands_for_all_its_files(runtime: Executor, tmp_path: Path) -> None:
    root = tmp_path / "plain"
    for path in ("src/a", "src/deep/b", "src/.git/x", "src/.outlast/y", "other"):
        write(root, path)
    os.mkfifo(root / "src" / "pipe")
    os.symlink("../other", root / "src" / "link")
    bound, seen = bound_and_seen(runtime.home, root, contract("src"), lambda: write(root, "src/new"))
    assert set(bound.files) == {"src/a", "src/deep/b", "src/link"}
    assert set(seen.binding.files) == {*bound.files, "src/new"}
    assert (bound.commit, bound.dirty, bound.patch_why, seen.relation) == ("", "", "", "none")


def test_a_folder_of_too_many_files_is_refused_by_name(
    runtime: Executor, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binding, "FOLDER_FILES", 2)
    monkeypatch.setattr(observer, "FOLDER_FILES", 2)
    monkeypatch.setattr(git_files, "FOLDER_FILES", 2)
    given = contract("src")
    bound, seen = bound_and_seen(runtime.home, root, given, lambda: (write(root, "src/c.py"), commit(root)))
    assert (len(bound.files), seen.binding.files["src"].mode) == (2, "special")
    found = refused(runtime.home, root, "readme", "src")
    assert found.facts["path"] == "target_files[1]"
    assert "name the files" in found.facts["remedy"]
    for number in range(3):
        write(tmp_path, f"plain/in/{number}")
    assert "more than 2 files" in str(refused(runtime.home, tmp_path / "plain", "in"))


def test_a_folder_that_is_something_else_now_is_told(runtime: Executor, root: Path) -> None:
    def change() -> None:
        shutil.rmtree(root / "src")
        write(root, "src", "a file\n")

    _, seen = bound_and_seen(runtime.home, root, contract("src"), change)
    assert {path: each.mode for path, each in seen.binding.files.items()} == {
        "src": "file",
        "src/a.py": "absent",
        "src/b.py": "absent",
    }


def test_a_submodule_that_is_not_checked_out_is_no_file(runtime: Executor, root: Path, tmp_path: Path) -> None:
    inner = repository(tmp_path / "inner", b="1")
    git(root, "submodule", "--quiet", "add", str(inner), "src/sub")
    commit(root)
    git(tmp_path, "clone", "--quiet", str(root), "clone")
    assert set(bind(runtime.home, contract("src"), root).files) == {"src/a.py", "src/b.py", "src/sub/b"}
    assert set(bind(runtime.home, contract("src"), tmp_path / "clone").files) == {"src/a.py", "src/b.py"}


# -- keeping -----------------------------------------------------------------------------------------


def test_large_files_are_bound_and_not_kept(runtime: Executor, root: Path) -> None:
    write(root, "large", b"x" * ((1 << 20) + 1))
    for name, content in {"a": "a" * 1_000, "b": "a" * 1_000, "c": "c" * 1_000, "d": "d" * 1_000, "e": "e"}.items():
        write(root, name, content)
    with ContentKeeper(runtime.home.blobs, all_bytes=2_500) as keeper:
        bound = bind(runtime.home, contract("large", "a", "c", "b", "d", "e"), root, keeper).files
    assert {path: each.why for path, each in bound.items()} == {
        "large": "too_large",
        **dict.fromkeys("abce", ""),
        "d": "over_budget",
    }
    assert bound["large"].digest == digest(b"x" * ((1 << 20) + 1))
    assert all(bool(each.kept) != bool(each.why) for each in bound.values())
    assert bound["a"].kept == bound["b"].kept


def test_secrets_are_bound_and_never_kept(runtime: Executor, root: Path) -> None:
    write(root, ".env", "NAME=value\n")
    write(root, "notes.txt", f"the key is\n{KEY}")
    bound = bind(runtime.home, contract(".env", "notes.txt", "readme"), root)
    assert {path: each.why for path, each in bound.files.items()} == {
        ".env": "secret",
        "notes.txt": "secret",
        "readme": "",
    }
    assert bound.blobs == (bound.files["readme"].kept,)
    assert bound.files[".env"].digest == digest(b"NAME=value\n")
    kept = [path.read_bytes() for path in runtime.home.blobs.folder.rglob("*") if path.is_file()]
    assert not any(b"PRIVATE KEY" in content or b"NAME=" in content for content in kept)


def test_environment_files_are_bound_and_not_kept(runtime: Executor, root: Path) -> None:
    write(root, "lock", "1\n")
    given = contract("readme", environment=("lock", "missing"))
    bound, seen = bound_and_seen(runtime.home, root, given, lambda: write(root, "lock", "2\n"))
    assert {path: each.mode for path, each in bound.environment.items()} == {"lock": "file", "missing": "absent"}
    assert bound.blobs == (bound.files["readme"].kept,)
    assert not seen.binding.environment["lock"].same(bound.environment["lock"])


def test_the_uncommitted_patch_is_kept_and_applies_elsewhere(runtime: Executor, root: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "--quiet", str(root), "clone")
    assert bind(runtime.home, contract("readme"), root).patch == ""
    write(root, "src/b.py", "b = 2\n")
    write(root, "untracked", "x")
    bound = bind(runtime.home, contract("readme"), root / "src")
    patch = runtime.home.blobs.path(bound.patch)
    git(tmp_path / "clone", "apply", str(patch))
    assert (tmp_path / "clone" / "src" / "b.py").read_text() == "b = 2\n"
    assert not (tmp_path / "clone" / "untracked").exists()
    assert bound.patch in bound.blobs


def test_a_patch_that_is_too_large_or_holds_a_secret_is_not_kept(
    runtime: Executor, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found() -> tuple[str, str]:
        bound = bind(runtime.home, contract("readme"), root)
        return bound.patch, bound.patch_why

    write(root, "src/b.py", KEY)
    assert found() == ("", "secret")
    write(root, "src/b.py", "b = 2\n")
    write(root, ".env", "x")
    git(root, "add", ".env")
    assert found() == ("", "secret")
    git(root, "rm", "--quiet", "--cached", ".env")
    monkeypatch.setattr(binding, "PATCH_BYTES", 10)
    assert found() == ("", "too_large")


def test_before_the_first_commit_there_is_no_patch_and_no_relation(runtime: Executor, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    git(tmp_path / "new", "init", "--quiet")
    write(tmp_path / "new", "a")
    git(tmp_path / "new", "add", "a")
    bound, seen = bound_and_seen(runtime.home, tmp_path / "new", contract("a"), lambda: commit(tmp_path / "new"))
    assert (bound.commit, bound.branch, bound.patch, bound.patch_why) == ("", "main", "", "no_commit")
    assert (seen.relation, seen.binding.branch) == ("none", "main")


# -- other files -------------------------------------------------------------------------------------


def test_other_dirty_files_count_by_content_and_targets_do_not(runtime: Executor, root: Path) -> None:
    given = contract("readme", "new/target")

    def dirty() -> tuple[str, tuple[str, ...]]:
        bound = bind(runtime.home, given, root)
        return bound.dirty, bound.dirty_files

    assert dirty() == ("", ())
    write(root, "readme", "changed\n")
    write(root, "new/target", "made\n")
    write(root, ".outlast/db", "x")
    assert dirty() == ("", ())
    write(root, "src/a.py", "a = 2\n")
    write(root, "loose", "1\n")
    first = dirty()
    assert first[1] == ("loose", "src/a.py")
    assert dirty() == first
    git(root, "add", "src/a.py")
    assert dirty() == first  # staging changes no file
    write(root, "loose", "2\n")
    second = dirty()
    assert (second[0] == first[0], second[1]) == (False, first[1])
    (root / "src" / "a.py").unlink()
    assert dirty()[0] not in (first[0], second[0])


def test_new_files_that_will_stay_behind_are_named_also_beside_a_target(runtime: Executor, root: Path) -> None:
    write(root, "src/a.py", "tracked, and in the patch\n")
    write(root, "loose 🙂", "1\n")
    write(root, "folder/inner", "1\n")
    write(root, "new/target", "made\n")
    write(root, "new/beside", "forgotten\n")
    write(root, ".outlast/db", "x")
    (root / ".gitignore").write_text("ignored\n")
    git(root, "add", ".gitignore")
    write(root, "ignored", "x")
    bound = bind(runtime.home, contract("readme", "new/target"), root)
    assert bound.untracked == ("folder/", "loose 🙂", "new/beside")
    git(root, "add", "-A")
    assert bind(runtime.home, contract("readme", "new/target"), root).untracked == ()


def test_many_dirty_files_are_named_up_to_a_hundred_and_count_by_size(runtime: Executor, root: Path) -> None:
    for number in range(105):
        write(root, f"f{number:03}", "1")
    first = bind(runtime.home, contract("readme"), root)
    assert first.dirty_files == tuple(f"f{number:03}" for number in range(100))
    write(root, "f104", "22")
    assert bind(runtime.home, contract("readme"), root).dirty != first.dirty


def test_dirty_files_are_seen_from_the_root(runtime: Executor, root: Path) -> None:
    write(root, "readme", "changed\n")
    write(root, "src/b.py", "changed\n")
    assert bind(runtime.home, contract("a.py"), root / "src").dirty_files == ("../readme", "b.py")
