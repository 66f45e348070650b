"""Partial work on real files: looked at, kept, judged, and put back without losing anything."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from functools import partial as with_options
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast import failpoints
from outlast.errors import DiskFull, EditedSince, IntegrityBroken, NameInvalid, NotRestorable
from outlast.files.changes import SeenFile, blobs_of, from_facts, to_facts
from outlast.files.partial import changed_by_git, judged, restore
from outlast.files.snapshot import look, look_and_keep
from outlast.store.blobs.folder import FolderBlobs
from outlast.testing.crashes import Tell, in_child
from outlast.values.codec import digest

HOSTILE = ["sp ace", "qu\"o'te", "ne\nw", "🙂", "caf\udce9", "-rf", "%41", "a\\b", "[x]", "~", "n" * 255]
Tree = dict[str, tuple[str, bytes, int]]  # path: kind, content or target, permissions


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
def blobs(tmp_path: Path) -> FolderBlobs:
    (tmp_path / "blobs").mkdir()
    return FolderBlobs(tmp_path / "blobs")


def write(root: Path, path: str, content: str | bytes, bits: int = 0o644) -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    file.chmod(bits)
    return file


def tree(root: Path) -> Tree:
    """Every file and link below a folder, as it is."""
    found: Tree = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(folder, name)
            at = str(path.relative_to(root))
            if path.is_symlink():
                found[at] = ("link", os.fsencode(os.readlink(path)), 0)
            elif path.is_file():
                found[at] = ("file", path.read_bytes(), path.stat().st_mode & 0o777)
    return found


# -- looking -----------------------------------------------------------------------------------------


def test_a_look_gives_digest_size_and_mode_of_what_is_declared(root: Path) -> None:
    write(root, "plan.md", "a plan")
    write(root, "bin/run", "#!", 0o755)
    write(root, "other", "not declared")
    os.symlink("plan.md", root / "bin" / "link")
    assert look(root, ["plan.md", "bin", "missing", "x" * 10_000]) == {
        "bin/link": SeenFile(digest(b"plan.md"), 7, "link", bits=0),
        "bin/run": SeenFile(digest(b"#!"), 2, "exec", bits=0o755),
        "plan.md": SeenFile(digest(b"a plan"), 6, "file", bits=0o644),
    }


def test_hostile_names_are_names(root: Path, blobs: FolderBlobs) -> None:
    for name in HOSTILE:
        write(root, f"out/{name}", name.encode("utf-8", "surrogateescape"))
    found = look_and_keep(root, ["out/**"], blobs)
    assert set(found) == {f"out/{name}" for name in HOSTILE}
    assert from_facts(to_facts(found)) == found
    for path, seen in found.items():
        assert blobs.get(seen.kept) == (root / path).read_bytes()


def test_links_are_never_followed(root: Path, tmp_path: Path) -> None:
    write(tmp_path, "outside/secret", "s")
    os.symlink(tmp_path / "outside", root / "out")
    os.symlink("..", root / "up")
    os.symlink("missing", root / "dangling")
    assert set(look(root, ["**"])) == {"out", "up", "dangling"}
    assert look(root, ["out/**", "up/outside/secret", "out/secret"]) == {}
    assert look(root, ["out"])["out"].mode == "link"


def test_pipes_and_sockets_are_listed_and_not_opened(
    root: Path, blobs: FolderBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(root / "pipe")
    monkeypatch.chdir(root)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        found = look_and_keep(root, ["*"], blobs)
    assert {path: (seen.mode, seen.why, seen.digest) for path, seen in found.items()} == {
        "pipe": ("special", "special", ""),
        "socket": ("special", "special", ""),
    }


def test_git_and_outlast_folders_are_not_entered(root: Path) -> None:
    for path in [".git/config", "a/.git/x", ".outlast/db", "a/.outlast-0", "a/b", ".gitignore"]:
        write(root, path, "x")
    assert set(look(root, ["**", "a"])) == {"a/b", ".gitignore"}


def test_an_unreadable_file_or_folder_is_listed_as_such(
    root: Path, blobs: FolderBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, "a", "1")
    write(root, "b", "2")
    write(root, "shut/c", "3")
    opens, scans = os.open, os.scandir

    def refuse(path: Any, *args: Any, **options: Any) -> int:  # tests may run as root, whom no permission stops
        if str(path).endswith("/a"):
            raise PermissionError(13, "Permission denied", path)
        return opens(path, *args, **options)

    def refuse_folder(path: Any) -> Any:
        if str(path).rstrip("/").endswith("shut"):
            raise PermissionError(13, "Permission denied", path)
        return scans(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        patched.setattr(os, "scandir", refuse_folder)
        found = look_and_keep(root, ["**"], blobs)
    assert {path: (seen.mode, seen.why) for path, seen in found.items()} == {
        "a": ("file", "unreadable"),
        "b": ("file", ""),
        "shut": ("folder", "unreadable"),
    }


def test_a_file_that_vanishes_meanwhile_is_not_there(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(root, "a", "1")
    write(root, "b", "2")
    seen = os.lstat

    def lstat(path: Any, *args: Any, **options: Any) -> os.stat_result:
        (root / "a").unlink(missing_ok=True)
        return seen(path, *args, **options)

    monkeypatch.setattr(os, "lstat", lstat)
    assert set(look(root, ["*"])) == {"b"}


def test_a_root_that_is_not_there_has_no_files(tmp_path: Path) -> None:
    assert look(tmp_path / "missing", ["**", "a"]) == {}


def test_a_pattern_that_leaves_the_root_is_refused(root: Path, blobs: FolderBlobs) -> None:
    with pytest.raises(NameInvalid, match=r"\.\."):
        look(root, ["../x"])
    with pytest.raises(NameInvalid, match="absolute"):
        look_and_keep(root, ["/etc/passwd"], blobs)


def test_thousands_of_files_are_looked_at_in_one_walk(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3_000):
        write(root, f"src/d{number % 30}/e{number % 3}/{number}.txt", str(number))
    write(root, "elsewhere/deep/x", "x")
    read: list[str] = []
    scan = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: read.append(str(path)) or scan(path))
    began = time.process_time()
    assert len(look(root, ["src/**", "src/d1/**", "src/*/*/7*.txt"])) == 3_000
    assert time.process_time() - began < 3  # of processor time; about 0.2 s where nothing else runs
    assert len(read) == len(set(read)) == 1 + 30 + 30  # each folder once, and only those below src
    assert not any("elsewhere" in path for path in read)


# -- keeping -----------------------------------------------------------------------------------------


def test_content_is_kept_up_to_its_limits_and_never_with_a_secret(root: Path, blobs: FolderBlobs) -> None:
    write(root, "a", "x" * 100)
    write(root, "b", "x" * 100)  # the same content counts once
    write(root, "c", "y" * 101)
    write(root, "d", "z" * 60)
    write(root, "e", "")
    write(root, "f", "key=hunter2;")
    os.symlink("/run/hunter2", root / "g")
    found = look_and_keep(root, ["*"], blobs, secrets=["", "hunter2"], file_bytes=100, all_bytes=150)
    assert {path: seen.why for path, seen in found.items()} == {
        **{"a": "", "b": "", "c": "too_large", "d": "over_budget", "e": "", "f": "secret", "g": "secret"}
    }
    assert blobs_of(found) == tuple(sorted({digest(b"x" * 100), digest(b"")}))
    stored = [file.read_bytes() for file in blobs.folder.rglob("*") if file.is_file()]
    assert sorted(stored) == [b"", b"x" * 100]
    assert all(seen.digest for seen in found.values())


def test_a_large_file_is_hashed_in_pieces(root: Path, blobs: FolderBlobs) -> None:
    content = os.urandom(3 << 20)
    write(root, "big", content)
    found = look_and_keep(root, ["big"], blobs)
    assert found["big"] == SeenFile(digest(content), 3 << 20, "file", why="too_large", bits=0o644)
    assert look(root, ["big"])["big"].digest == digest(content)


def test_a_full_disk_is_said_when_keeping(root: Path, blobs: FolderBlobs, monkeypatch: pytest.MonkeyPatch) -> None:
    write(root, "a", "1")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskFull):
        look_and_keep(root, ["a"], blobs)


# -- judging, with git -------------------------------------------------------------------------------


def git(root: Path, *command: str) -> None:
    who = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *who, *command], cwd=root, check=True, capture_output=True)


def test_an_attempt_is_judged_with_its_files_its_last_words_and_what_git_says(root: Path, blobs: FolderBlobs) -> None:
    git(root, "init")
    write(root, "plan.md", "1")
    git(root, "add", ".")
    git(root, "commit", "-m", "x")
    before = look_and_keep(root, ["plan.md", "out/**"], blobs)
    write(root, "plan.md", "2")
    write(root, "elsewhere", "3")
    left = judged(
        root,
        ["plan.md", "out/**"],
        before,
        attempt=3,
        status="crashed",
        tail="x\n" * 9_000 + "end\n",
        exit=-9,
        error="died\udcff",
    )
    assert (left.attempt, left.status, left.judgement, left.exit) == (3, "crashed", "partial", -9)
    assert [(change.path, change.change) for change in left.files] == [("plan.md", "changed")]
    assert left.git == ("elsewhere", "plan.md")
    assert left.tail.endswith("end\n")
    assert left.error == "died\\udcff"


def test_git_names_are_told_as_they_are(root: Path) -> None:
    git(root, "init")
    write(root, "old name", "content that moves\n" * 5)
    git(root, "add", ".")
    git(root, "commit", "-m", "x")
    git(root, "mv", "old name", "new\nname")
    names = [name for name in HOSTILE if name != "n" * 255]
    for name in names:
        write(root, f"sub/{name}", "x")
    write(root, ".outlast/db", "x")
    write(root, "sub/.outlast-1", "x")
    assert set(changed_by_git(root)) == {"old name", "new\nname", *(f"sub/{name}" for name in names)}
    assert set(changed_by_git(root / "sub")) == {"../old name", "../new\nname", *names}


def test_many_paths_of_git_are_counted(root: Path) -> None:
    git(root, "init")
    for number in range(230):
        write(root, f"f{number}", "x")
    left = judged(root, [], {}, attempt=1, status="failed")
    assert (len(left.git), left.git_more) == (200, 30)


def test_without_git_or_a_work_tree_there_are_no_paths(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(root.parent))
    write(root, "a", "x")
    assert changed_by_git(root) == ()
    assert changed_by_git(root / "missing") == ()
    monkeypatch.setenv("PATH", str(root))
    assert changed_by_git(root) == ()


def test_a_git_that_hangs_is_given_up(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(root, "bin/git", "#!/bin/sh\nexec sleep 60\n", 0o755)
    monkeypatch.setenv("PATH", str(root / "bin"), prepend=os.pathsep)
    monkeypatch.setattr("outlast.files.partial.GIT_SECONDS", 0.1)
    assert changed_by_git(root) == ()


# -- putting back ------------------------------------------------------------------------------------


def put_back(root: Path, before: dict[str, SeenFile], blobs: FolderBlobs, **options: Any) -> Any:
    return restore(root, ["**"], before, blobs, **options)


def test_files_are_put_back_as_they_were_and_what_gave_way_is_saved(root: Path, blobs: FolderBlobs) -> None:
    write(root, "changed", "1", 0o640)
    write(root, "removed/deep/x", "2", 0o755)
    write(root, "chmodded", "3", 0o600)
    write(root, "same", "4")
    os.symlink("same", root / "link")
    was = tree(root)
    before = from_facts(to_facts(look_and_keep(root, ["**"], blobs)))
    write(root, "changed", "11", 0o644)
    shutil.rmtree(root / "removed")
    (root / "chmodded").chmod(0o755)
    write(root, "created", "5")
    (root / "link").unlink()
    write(root, "link", "same")  # a file with the text of the link's target
    left = judged(root, ["**"], before, attempt=1, status="failed")
    done = put_back(root, before, blobs, known_after=left.known_after)
    assert tree(root) == was
    assert done.restored == left.files
    assert {path: blobs.get(blob) for path, blob in done.saved.items()} == {
        "changed": b"11",
        "created": b"5",
        "link": b"same",
    }
    assert done.not_kept == ()
    assert put_back(root, before, blobs, known_after=left.known_after).restored == ()


def test_hostile_names_are_put_back(root: Path, blobs: FolderBlobs) -> None:
    for name in HOSTILE:
        write(root, f"out/{name}", name.encode("utf-8", "surrogateescape"))
    was = tree(root)
    before = look_and_keep(root, ["**"], blobs)
    for name in HOSTILE[::2]:
        write(root, f"out/{name}", "changed")
    for name in HOSTILE[1::2]:
        (root / "out" / name).rename(root / f"{name[:200]}-moved")
    put_back(root, before, blobs)
    assert tree(root) == was


CONTENTS = st.sampled_from([b"", b"1", b"2", b"x"])
ENTRIES = st.one_of(
    st.tuples(st.just("file"), CONTENTS, st.sampled_from([0o644, 0o600, 0o755])),
    st.tuples(st.just("link"), st.sampled_from([b"x", b"..", b"/nowhere", b"a/b"]), st.just(0)),
)
TREES = st.dictionaries(st.sampled_from(["a", "b", "b/c", "b/c/d", "b/e", "f 🙂/g", "f 🙂"]), ENTRIES, max_size=6)


def make(root: Path, wanted: Tree) -> Tree:
    """Make the files, leaving out those that are in the way of others; gives what is there."""
    for path, (kind, content, bits) in wanted.items():
        try:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            if kind == "link":
                os.symlink(os.fsdecode(content), root / path)
            elif not any(above.is_symlink() for above in [root / path, *(root / path).parents]):
                write(root, path, content, bits)
        except OSError:
            continue
    return tree(root)


@given(TREES, TREES)
@settings(max_examples=60, deadline=None)
def test_whatever_an_attempt_did_the_tree_before_comes_back(before: Tree, after: Tree) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root, blobs = Path(folder, "root"), FolderBlobs(Path(folder, "blobs"))
        root.mkdir()
        blobs.folder.mkdir()
        was = make(root, before)
        seen = look_and_keep(root, ["**"], blobs)
        for path in root.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        left = make(root, after)
        done = restore(root, ["**"], seen, blobs)
        assert tree(root) == was
        gone = {path: entry for path, entry in left.items() if was.get(path, ())[:2] != entry[:2]}
        assert {path: blobs.get(blob) for path, blob in done.saved.items()} == {p: e[1] for p, e in gone.items()}


def test_a_file_edited_after_the_attempt_is_refused_before_anything_is_touched(root: Path, blobs: FolderBlobs) -> None:
    write(root, "a", "1")
    write(root, "b", "1")
    before = look_and_keep(root, ["**"], blobs)
    write(root, "a", "2")
    write(root, "b", "2")
    after = judged(root, ["**"], before, attempt=1, status="failed").known_after
    write(root, "b", "edited by a person")
    write(root, "new", "by a person")
    was = tree(root)
    with pytest.raises(EditedSince, match=r"'b', 'new'.*--partial keep") as refused:
        put_back(root, before, blobs, known_after=after)
    assert refused.value.code == "edited_since"
    assert tree(root) == was


def test_an_edited_file_that_is_moved_away_is_out_of_the_way(root: Path, blobs: FolderBlobs, tmp_path: Path) -> None:
    write(root, "a", "1")
    before = look_and_keep(root, ["**"], blobs)
    write(root, "a", "2")
    after = judged(root, ["**"], before, attempt=1, status="failed").known_after
    write(root, "a", "mine")
    (root / "a").rename(tmp_path / "mine")
    put_back(root, before, blobs, known_after=after)
    assert (root / "a").read_text() == "1"


def test_without_digests_a_file_written_after_the_end_counts_as_edited(root: Path, blobs: FolderBlobs) -> None:
    write(root, "a", "1")
    write(root, "gone", "1")
    before = look_and_keep(root, ["**"], blobs)
    os.utime(write(root, "a", "2"), ns=(0, 5_000_000_000))
    (root / "gone").unlink()
    with pytest.raises(EditedSince, match="'a'"):
        put_back(root, before, blobs, ended_at_us=4_999_999)
    assert (root / "a").read_text() == "2"
    put_back(root, before, blobs, ended_at_us=5_000_000)
    assert {path: entry[1] for path, entry in tree(root).items()} == {"a": b"1", "gone": b"1"}


def test_what_was_not_kept_is_refused_only_when_it_changed(root: Path, blobs: FolderBlobs) -> None:
    write(root, "big", "x" * 50)
    write(root, "small", "1")
    write(root, "key", "hunter2")
    before = look_and_keep(root, ["**"], blobs, secrets=["hunter2"], file_bytes=10)
    write(root, "small", "2")
    assert put_back(root, before, blobs).not_kept == ("big", "key")
    write(root, "small", "2")
    write(root, "big", "y" * 50)
    (root / "key").unlink()
    with pytest.raises(NotRestorable, match=r"'big' \(.*too large.*'key' \(.*secret") as refused:
        put_back(root, before, blobs)
    assert refused.value.code == "not_restorable"
    assert (root / "small").read_text() == "2"


@pytest.mark.parametrize("why", ["fifo", "secret", "large"])
def test_what_cannot_be_saved_first_is_not_displaced(
    root: Path, blobs: FolderBlobs, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    write(root, "a", "1")
    before = look_and_keep(root, ["**"], blobs)
    write(root, "a", "2")
    if why == "fifo":
        os.mkfifo(root / "b")
    write(root, "c", "my hunter2" if why == "secret" else "x" * 100)
    if why == "large":
        monkeypatch.setattr("outlast.files.partial.SAVE_BYTES", 50)
    with pytest.raises(NotRestorable, match="'b'" if why == "fifo" else "'c'"):
        put_back(root, before, blobs, secrets=["hunter2"])
    assert (root / "a").read_text() == "2"
    assert not any(file.read_bytes() == b"my hunter2" for file in blobs.folder.rglob("*") if file.is_file())


def test_a_kept_content_that_is_gone_is_said_before_anything_is_touched(root: Path, blobs: FolderBlobs) -> None:
    write(root, "a", "1")
    write(root, "b", "other")
    before = look_and_keep(root, ["**"], blobs)
    write(root, "a", "2")
    write(root, "b", "2")
    blobs.path(before["b"].kept).unlink()
    with pytest.raises(IntegrityBroken):
        put_back(root, before, blobs)
    assert (root / "a").read_text() == "2"


def test_nothing_is_written_through_a_link_that_took_the_place_of_a_folder(
    root: Path, blobs: FolderBlobs, tmp_path: Path
) -> None:
    write(root, "out/x", "1")
    before = look_and_keep(root, ["out/**"], blobs)
    write(tmp_path, "outside/x", "not ours")
    shutil.rmtree(root / "out")
    os.symlink(tmp_path / "outside", root / "out")
    with pytest.raises(NotRestorable, match="'out' was a folder"):
        restore(root, ["out/**"], before, blobs)
    whole = look_and_keep(root, ["out"], blobs)
    assert set(whole) == {"out"}
    restore(root, ["out"], before, blobs, ended_at_us=time.time_ns() // 1000 + 10**9)
    assert {path: entry[:2] for path, entry in tree(root).items()} == {"out/x": ("file", b"1")}
    assert (tmp_path / "outside" / "x").read_text() == "not ours"


def test_a_folder_with_undeclared_files_in_it_is_not_removed(root: Path, blobs: FolderBlobs) -> None:
    write(root, "a.txt", "1")
    before = look_and_keep(root, ["*.txt"], blobs)
    (root / "a.txt").unlink()
    write(root, "a.txt/inside", "undeclared")
    with pytest.raises(NotRestorable, match="folder now"):
        restore(root, ["*.txt"], before, blobs)
    assert (root / "a.txt" / "inside").read_text() == "undeclared"


def test_an_edit_that_slips_in_while_files_are_put_back_is_not_lost(root: Path, blobs: FolderBlobs) -> None:
    write(root, "a", "1")
    before = look_and_keep(root, ["**"], blobs)
    write(root, "a", "2")
    with pytest.raises(EditedSince, match="'a'"):
        put_back(root, before, blobs, record=lambda saved: write(root, "a", "slipped in"))
    assert (root / "a").read_text() == "slipped in"


def test_what_gives_way_is_recorded_before_any_file_is_touched(root: Path, blobs: FolderBlobs) -> None:
    write(root, "a", "1")
    before = look_and_keep(root, ["**"], blobs)
    write(root, "a", "2")
    recorded: list[tuple[dict[str, str], str]] = []
    put_back(root, before, blobs, record=lambda saved: recorded.append((dict(saved), (root / "a").read_text())))
    assert recorded == [({"a": digest(b"2")}, "2")]
    assert blobs.get(digest(b"2")) == b"2"


@pytest.mark.parametrize(("number", "raised"), [(28, DiskFull), (13, NotRestorable)])
def test_what_the_file_system_refuses_is_said_and_the_file_is_whole(
    root: Path, blobs: FolderBlobs, monkeypatch: pytest.MonkeyPatch, number: int, raised: type[Exception]
) -> None:
    write(root, "a", "1")
    before = look_and_keep(root, ["**"], blobs)
    write(root, "a", "2")
    with monkeypatch.context() as patched:
        patched.setattr(os, "fchmod", lambda handle, bits: (_ for _ in ()).throw(OSError(number, "refused")))
        with pytest.raises(raised):
            put_back(root, before, blobs)
    assert (root / "a").read_text() == "2"
    put_back(root, before, blobs)
    assert {path: entry[1] for path, entry in tree(root).items()} == {"a": b"1"}


# -- crashes -----------------------------------------------------------------------------------------


def scene(folder: Path) -> tuple[Path, FolderBlobs, dict[str, SeenFile], dict[str, str]]:
    """An attempt that changed, removed and created files and then died; the files before are kept."""
    root, blobs = folder / "root", FolderBlobs(folder / "blobs")
    blobs.folder.mkdir(parents=True)
    write(root, "a", "a before")
    write(root, "deep/removed", "removed before", 0o755)
    os.symlink("a", root / "link")
    before = look_and_keep(root, ["**"], blobs)
    write(root, "a", "a after")
    shutil.rmtree(root / "deep")
    write(root, "created", "created after")
    (root / "link").unlink()
    write(root, "link", "link after")
    return root, blobs, before, judged(root, ["**"], before, attempt=1, status="crashed").known_after


def points(folder: Path) -> Iterator[tuple[str, int]]:
    """Every write point that putting the scene back reaches, and which time it is."""
    root, blobs, before, _ = scene(folder)
    reached: list[str] = []
    failpoints.arm(reached.append)
    try:
        put_back(root, before, blobs)
    finally:
        failpoints.arm(None)
    assert set(failpoints.RESTORE_POINTS) <= set(reached)
    return ((name, reached[: at + 1].count(name)) for at, name in enumerate(reached))


def kept_contents(blobs: FolderBlobs) -> set[bytes]:
    return {blobs.get(file.name) for file in blobs.folder.rglob("*") if file.is_file() and file.name[0] != "."}


def killed(point: tuple[str, int], tell: Tell, *args: Any, **options: Any) -> None:
    failpoints.arm(failpoints.kill_at(*point))
    put_back(*args, **options)


@pytest.mark.crash
@pytest.mark.parametrize("by_digest", [True, False])
def test_killed_anywhere_a_second_try_puts_the_rest_back_and_nothing_is_lost(tmp_path: Path, by_digest: bool) -> None:
    found = list(points(tmp_path / "first"))
    assert len(found) > 12
    was = tree(tmp_path / "first" / "root")
    for number, point in enumerate(found):
        root, blobs, before, after = scene(tmp_path / str(number))
        left = {path: entry[1] for path, entry in tree(root).items()}
        known = {"known_after": after} if by_digest else {"ended_at_us": time.time_ns() // 1000}
        assert in_child(with_options(killed, point, root=root, before=before, blobs=blobs, **known), 30).killed
        halfway = {path: entry[1] for path, entry in tree(root).items() if ".outlast-" not in path}
        for path, content in halfway.items():
            assert content in (left.get(path), was.get(path, ("", None))[1])
        assert set(left.values()) <= set(halfway.values()) | kept_contents(blobs)
        put_back(root, before, blobs, **known)
        assert tree(root) == was
        assert set(left.values()) <= kept_contents(blobs)
