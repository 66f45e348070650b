"""Small contents of files are committed with the handoff: no sync and no file of their own, and found by everybody."""

import os
import subprocess
from pathlib import Path

import pytest

from outlast import Outlast
from outlast.files.snapshot import SMALL_BYTES, SMALL_IN_ALL
from outlast.python.backups import restore

from ..crash.power import PowerVFS

SAID = {"summary": "s", "handoff_text": "Go on in a.txt", "next_action": "Edit a.txt"}


def stored(outlast: Outlast, root: Path, *names: str) -> tuple[str, ...]:
    """The names of what was kept."""
    handoff = outlast.handoff.store("task:t", target_files=list(names), repo_root=str(root), **SAID)
    assert handoff.binding is not None
    return handoff.binding.blobs


def files_of(home: Path) -> list[str]:
    return sorted(path.name for path in (home / "default" / "blobs").rglob("*") if path.is_file())


def test_a_store_waits_for_the_disk_once_however_many_small_files_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    vfs = PowerVFS("small-contents", before=lambda done: synced.append(done.kind))
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (synced.append("file"), fsync(handle))[1])
    root = tmp_path / "root"
    root.mkdir()
    with Outlast(tmp_path / "home", store_options={"vfs": vfs.name}) as outlast:
        stored(outlast, root, "a.txt")
        for number in range(3):
            for name in ("a.txt", "b.txt", "c.txt"):
                (root / name).write_text(f"{name} {number}\n")
            synced.clear()
            stored(outlast, root, "a.txt", "b.txt", "c.txt")
            assert [each for each in synced if each in ("sync", "file")] == ["sync"]
    assert files_of(tmp_path / "home") == []


def test_the_uncommitted_patch_takes_no_sync_of_its_own_either(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "a.txt").write_text("one\n")
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"]):
        subprocess.run(["git", *who, *words], cwd=root, check=True)
    (root / "a.txt").write_text("two\n")
    with Outlast(tmp_path / "home") as outlast:
        kept = stored(outlast, root, "a.txt")
        assert (len(kept), files_of(tmp_path / "home")) == (2, [])
        assert outlast.handoff.recover("task:t", repo_root=str(root)).verdict.word != "contested"


def test_larger_content_and_what_would_make_a_large_commit_becomes_a_file(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "large").write_bytes(b"x" * (SMALL_BYTES + 1))
    names = [f"f{number}" for number in range(SMALL_IN_ALL // SMALL_BYTES + 1)]
    for number, name in enumerate(names):
        (root / name).write_bytes(bytes([number]) * SMALL_BYTES)
    with Outlast(tmp_path / "home") as outlast:
        kept = stored(outlast, root, "large", *names)
        assert (len(kept), len(files_of(tmp_path / "home"))) == (len(names) + 1, 2)
        assert outlast.verify().ok


def test_gc_leaves_it_and_a_backup_and_a_bundle_bring_it_elsewhere(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "a.txt").write_text("small\n")
    with Outlast(tmp_path / "home") as outlast:
        (name,) = stored(outlast, root, "a.txt")
        outlast.gc()
        outlast.handoff.export("task:t", tmp_path / "bundle")
        outlast.backup(tmp_path / "backup")
        assert outlast.verify().ok
    with Outlast(tmp_path / "other") as other:
        other.handoff.import_(tmp_path / "bundle")
        assert (other.verify().ok, files_of(tmp_path / "other")) == (True, [name])
    restore(tmp_path / "backup", tmp_path / "again")
    with Outlast(tmp_path / "again") as again:
        assert again.verify().ok
        (root / "a.txt").write_text("changed\n")
        told = again.handoff.diff("task:t", repo_root=str(root))
        assert "small" in str(told)
