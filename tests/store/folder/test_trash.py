"""The trash of a folder of blobs: no blob goes that somebody relies on."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from outlast import failpoints
from outlast.errors import IntegrityBroken
from outlast.store.blobs.folder import FolderBlobs, FolderTrash
from outlast.values.codec import digest

from ..support import in_threads, kept, left, thrown


@pytest.fixture
def trash(tmp_path: Path) -> FolderTrash:
    (tmp_path / "blobs").mkdir()
    return FolderTrash(FolderBlobs(tmp_path / "blobs"))


def old(trash: FolderTrash, content: bytes = b"x") -> str:
    name = trash.blobs.put(content)
    os.utime(trash.blobs.path(name), (1, 1))
    return name


def nobody(_: str) -> bool:
    return False


def somebody(_: str) -> bool:
    return True


def test_a_thrown_blob_is_found_until_it_is_removed_by_a_later_sweep(trash: FolderTrash) -> None:
    name = old(trash)
    assert trash.throw(name, nobody)
    assert not trash.blobs.path(name).exists()
    assert (trash.blobs.get(name), trash.blobs.has(name), b"".join(trash.blobs.pieces(name))) == (b"x", True, b"x")
    assert not trash.remove(thrown(trash)[0], nobody)  # it has only just come
    os.utime(trash.folder / name, (1, 1))
    assert trash.remove(thrown(trash)[0], nobody)
    assert not trash.blobs.has(name)
    with pytest.raises(IntegrityBroken, match="missing"):
        trash.blobs.get(name)


def test_a_reference_that_appeared_meanwhile_puts_the_blob_back(trash: FolderTrash) -> None:
    name = old(trash)
    assert not trash.throw(name, somebody)
    assert thrown(trash) == []
    assert trash.blobs.path(name).read_bytes() == b"x"
    trash.throw(old(trash), nobody)
    os.utime(trash.folder / name, (1, 1))
    assert not trash.remove(thrown(trash)[0], somebody)
    assert trash.blobs.path(name).stat().st_mtime > 1_000_000  # and young again
    assert thrown(trash) == []


def test_a_touch_before_the_rename_puts_the_blob_back(trash: FolderTrash) -> None:
    """A saver relied on it between the look and the move; its reference comes later."""
    name = old(trash)
    trash.blobs.put(b"x")
    assert not trash.throw(name, nobody)
    assert trash.blobs.path(name).is_file()


def test_a_blob_in_the_trash_is_written_anew_by_its_next_saver(trash: FolderTrash) -> None:
    name = old(trash)
    trash.throw(name, nobody)
    trash.blobs.put(b"x")
    assert trash.blobs.path(name).read_bytes() == b"x"
    assert not trash.remove(thrown(trash)[0], somebody)  # what is in its place stays; the other one is one too many
    assert (thrown(trash), trash.blobs.get(name)) == ([], b"x")


def test_keeping_a_known_blob_that_is_in_the_trash_writes_it_anew(trash: FolderTrash) -> None:
    name = old(trash)
    trash.throw(name, nobody)
    trash.blobs.keep(name, [b"x"])
    assert trash.blobs.path(name).read_bytes() == b"x"


def test_only_blobs_are_looked_at_in_the_folder(trash: FolderTrash) -> None:
    name = old(trash)
    shelf = trash.blobs.path(name).parent
    (shelf / "notes.txt").write_text("mine")
    (shelf / ("a" * 64)).symlink_to("/etc/passwd")
    (trash.blobs.folder / "readme").write_text("mine")
    assert [(shelf.first, [file.name for file in shelf.blobs]) for shelf in trash.shelves()] == [
        (name[:2], [name]),
        ("", []),
    ]
    assert left(trash) == []


def test_temporary_files_go_when_their_writer_is_dead_and_the_grace_is_over(trash: FolderTrash) -> None:
    shelf = trash.blobs.path(old(trash)).parent
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    names = {pid: shelf / f".{'a' * 64}.{pid}.1" for pid in (dead.pid, os.getpid())}
    for path in names.values():
        path.write_bytes(b"half")
    assert left(trash) == []
    for path in names.values():
        os.utime(path, (1, 1))
    assert left(trash) == [str(names[dead.pid])]


def test_savers_and_sweeps_at_once_never_lose_a_blob_that_is_referred_to(trash: FolderTrash) -> None:
    """Four savers rely on the same few blobs and refer to them; a sweep throws and removes all it may."""
    referred: set[str] = set()
    contents = [f"content {n}".encode() * 100 for n in range(6)]
    for content in contents:
        old(trash, content)
    over = threading.Event()
    missing: list[str] = []

    def save(number: int) -> None:
        for turn in range(60):
            content = contents[(number + turn) % len(contents)]
            name = trash.blobs.put(content)
            referred.add(name)  # as a commit would
            if not trash.blobs.has(name) or trash.blobs.get(name) != content:
                missing.append(name)
            referred.discard(name)  # and its run is removed again
            path = trash.blobs.path(name)
            if number == 0 and path.exists():
                with_old_times(path)

    def sweep() -> None:
        while not over.is_set():
            for file in kept(trash):
                if file.old and file.name not in referred:
                    trash.throw(file.name, referred.__contains__)
            for file in thrown(trash):
                trash.remove(file, referred.__contains__)

    sweeper = threading.Thread(target=sweep)
    sweeper.start()
    try:
        raised = in_threads(4, save)
    finally:
        over.set()
        sweeper.join(30)
    assert (raised, missing) == ([], [])


def with_old_times(path: Path) -> None:
    try:
        os.utime(path, (1, 1))
    except FileNotFoundError:
        return  # thrown a moment ago


SAVER = """
import sys
from pathlib import Path
from outlast.store.blobs.folder import FolderBlobs
blobs = FolderBlobs(Path(sys.argv[1]))
for line in sys.stdin:
    print(blobs.put(line.strip().encode() * 1000), flush=True)
"""


@pytest.mark.parametrize("point", ["sweep.trashed", "sweep.dated"])
def test_a_saver_in_another_process_at_any_moment_of_a_throw_keeps_its_blob(trash: FolderTrash, point: str) -> None:
    """The sweep stops at each point until the saver has done all it does before it commits."""
    content = b"text" * 1000
    name = old(trash, content)
    command = [sys.executable, "-c", SAVER, str(trash.blobs.folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as saver:
        said: list[str] = []

        def reached(at: str) -> None:
            if at == point and saver.stdin and saver.stdout and not said:
                saver.stdin.write("text\n")
                saver.stdin.flush()
                said.append(saver.stdout.readline().strip())

        failpoints.arm(reached)
        try:
            trash.throw(name, nobody)
        finally:
            failpoints.arm(None)
            assert saver.stdin is not None
            saver.stdin.close()
    assert said == [name] == [digest(content)]
    for file in thrown(trash):  # whatever the trash still has, and however late the next sweep is
        trash.remove(file._replace(old=True), nobody)
    assert trash.blobs.path(name).read_bytes() == content
