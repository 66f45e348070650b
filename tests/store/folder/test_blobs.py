"""Blobs: durable before anyone refers to them, the same content once, verified when read."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outlast import failpoints
from outlast.errors import DiskFull, HomeReadOnly, IntegrityBroken, StoreFailed
from outlast.store.blobs.folder import FolderBlobs
from outlast.values.codec import digest

from ..support import in_threads


@pytest.fixture
def blobs(tmp_path: Path) -> FolderBlobs:
    folder = tmp_path / "blobs"
    folder.mkdir()
    return FolderBlobs(folder)


def files(blobs: FolderBlobs) -> list[Path]:
    return sorted(path for path in blobs.folder.rglob("*") if path.is_file())


@given(st.binary(max_size=200))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None)
def test_content_comes_back_under_its_digest(blobs: FolderBlobs, content: bytes) -> None:
    name = blobs.put(content)
    assert name == digest(content)
    assert blobs.get(name) == content
    assert blobs.has(name)
    assert blobs.path(name).relative_to(blobs.folder).parts == (name[:2], name)


def test_the_same_content_twice_is_one_file(blobs: FolderBlobs) -> None:
    assert blobs.put(b"x" * 100_000) == blobs.put(b"x" * 100_000)
    assert len(files(blobs)) == 1


def test_relying_on_a_blob_makes_it_young_again(blobs: FolderBlobs) -> None:
    path = blobs.path(blobs.put(b"x"))
    os.utime(path, (1, 1))
    blobs.put(b"x")
    assert path.stat().st_mtime > 1_000_000


def recorded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What is synced and renamed, in order."""
    seen: list[tuple[str, str]] = []
    sync, replace = os.fsync, os.replace

    def fsync(handle: int) -> None:
        sync(handle)
        seen.append(("sync", os.readlink(f"/proc/self/fd/{handle}")))

    def rename(source: Any, target: Any) -> None:
        replace(source, target)
        seen.append(("name", str(target)))

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", rename)
    return seen


def test_the_file_is_synced_before_it_is_named_and_the_folder_after(
    blobs: FolderBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = recorded(monkeypatch)
    path = blobs.path(blobs.put(b"content"))
    named = seen.index(("name", str(path)))
    assert any(kind == "sync" and Path(where).parent == path.parent for kind, where in seen[:named])
    assert ("sync", str(path.parent)) in seen[named:]
    assert ("sync", str(blobs.folder)) in seen  # the folder's own name is durable too


def test_a_blob_that_another_process_has_just_named_is_synced_before_it_is_relied_on(
    blobs: FolderBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one may be killed between its rename and its sync."""
    path = blobs.path(blobs.put(b"content"))
    seen = recorded(monkeypatch)
    blobs.put(b"content")
    assert ("sync", str(path.parent)) in seen


def test_every_step_of_a_write_can_be_killed_at(blobs: FolderBlobs) -> None:
    seen: list[str] = []
    failpoints.arm(seen.append)
    try:
        blobs.put(b"content")
    finally:
        failpoints.arm(None)
    assert seen == ["blob.written", "blob.named", "blob.synced"]


def test_a_missing_blob_is_reported(blobs: FolderBlobs) -> None:
    name = blobs.put(b"content")
    blobs.path(name).unlink()
    assert not blobs.has(name)
    with pytest.raises(IntegrityBroken, match=rf"{name[:12]}.*missing"):
        blobs.get(name)


@pytest.mark.parametrize("content", [b"", b"conten", b"Content", b"content "])
def test_a_changed_blob_is_reported(blobs: FolderBlobs, content: bytes) -> None:
    name = blobs.put(b"content")
    blobs.path(name).write_bytes(content)
    with pytest.raises(IntegrityBroken, match=rf"{name[:12]}.*changed"):
        blobs.get(name)


@pytest.mark.parametrize("content", [b"", b"conten", b"Content", b"content "])
def test_putting_the_content_again_mends_a_changed_blob(blobs: FolderBlobs, content: bytes) -> None:
    name = blobs.put(b"content")
    blobs.path(name).write_bytes(content)
    assert blobs.put(b"content") == name
    assert blobs.get(name) == b"content"


@pytest.mark.parametrize("call", ["fsync", "replace", "open"])
@pytest.mark.parametrize(
    ("number", "error"),
    [
        (errno.ENOSPC, DiskFull),
        (errno.EDQUOT, DiskFull),
        (errno.EROFS, HomeReadOnly),
        (errno.EACCES, HomeReadOnly),
        (errno.EIO, StoreFailed),
    ],
)
def test_what_the_disk_says_is_said_in_our_words(
    blobs: FolderBlobs, monkeypatch: pytest.MonkeyPatch, call: str, number: int, error: type[Exception]
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    (blobs.folder / digest(b"content")[:2]).mkdir()
    with monkeypatch.context() as patched:
        patched.setattr(os, call, fail)
        with pytest.raises(error):
            blobs.put(b"content")
    left = files(blobs)
    assert left in ([], [blobs.path(digest(b"content"))])  # nothing half-written; at most a file nobody refers to
    assert blobs.get(blobs.put(b"content")) == b"content"


def test_a_write_that_fails_half_way_leaves_nothing_under_the_name(
    blobs: FolderBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(DiskFull):
            blobs.put(b"content")
    assert files(blobs) == []


def test_the_same_content_put_at_once_is_written_once_and_nobody_fails(blobs: FolderBlobs) -> None:
    for round_ in range(20):
        content = f"round {round_}".encode() * 5_000
        assert in_threads(8, lambda _, same=content: blobs.put(same)) == []
        assert blobs.get(digest(content)) == content
    assert len(files(blobs)) == 20


def test_different_content_put_at_once(blobs: FolderBlobs) -> None:
    assert in_threads(8, lambda number: [blobs.put(f"{number} {n}".encode()) for n in range(10)]) == []
    assert all(blobs.get(path.name) for path in files(blobs))
    assert len(files(blobs)) == 80
