"""Removing: a key is used once, slices leave nothing, and no blob goes that somebody relies on."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from outlast import failpoints
from outlast.errors import IntegrityBroken
from outlast.store.blobs.folder import Blobs
from outlast.store.blobs.trash import Trash
from outlast.store.contract import Kept, NewWait, Slice, Store
from outlast.values.digest import digest

from .backends import Backend
from .support import begin, in_threads, some


def bury(store: Store, key: int, run_id: str) -> None:
    store.write(lambda tx: tx.bury(key, run_id, 5, "me", Kept(0, "", None)))


# -- the database ------------------------------------------------------------------------------------


def test_a_buried_run_leaves_a_tombstone_and_its_journal(store: Store, backend: Backend) -> None:
    hold = begin(store, "r1")
    store.finish(store.put(hold, [some(1), some(2)]))
    store.write(lambda tx: tx.add_interrupt("i1", hold.run_key, NewWait("timer", '["x"]', "s", "{}", 1)))
    store.write(lambda tx: tx.send(hold.run_key, "pause", "{}", "me", 1))
    bury(store, hold.run_key, "r1")
    assert [backend.count(t) for t in ("runs", "leases", "interrupts", "inbox", "journal")] == [0, 0, 0, 0, 2]
    (stone,) = store.read(lambda look: look.tombstones_by_prefix("r"))
    assert (stone.id, stone.flow, stone.removed_at, stone.removed_by) == ("r1", "m:flow", 5, "me")
    assert store.read(lambda look: look.unswept()) == [(hold.run_key, "r1")]


def test_the_key_of_a_removed_run_is_given_to_no_other(store: Store) -> None:
    """Else what is left of its journal would become the other one's."""
    first = begin(store, "r1")
    last = begin(store, "r2")
    bury(store, last.run_key, "r2")
    assert begin(store, "r3").run_key == last.run_key + 1
    bury(store, first.run_key, "r1")
    assert begin(store, "r4").run_key == last.run_key + 2


def test_slices_remove_entries_and_references_and_the_last_one_says_so(store: Store, backend: Backend) -> None:
    hold, other = begin(store, "r1"), begin(store, "r2")
    blob = [some(n)._replace(blobs=("b",)) for n in range(6)]
    store.finish(store.put(hold, blob))
    store.finish(store.put(other, blob))
    bury(store, hold.run_key, "r1")
    store.write(lambda tx: tx.remove_slice(Slice(hold.run_key, 0, 4, False)))
    assert (backend.count("journal"), backend.count("blob_refs")) == (8, 8)
    assert store.read(lambda look: look.unswept())
    store.write(lambda tx: tx.remove_slice(Slice(hold.run_key, 4, 5, True)))
    assert (backend.count("journal"), backend.count("blob_refs")) == (6, 6)
    assert store.read(lambda look: look.unswept()) == []
    assert store.read(lambda look: look.runs_of_blob("b")) == {other.run_key}


def test_a_run_that_came_back_can_be_removed_again(store: Store) -> None:
    for _ in range(2):
        hold = begin(store, "r1")
        bury(store, hold.run_key, "r1")
        store.write(lambda tx, key=hold.run_key: tx.remove_slice(Slice(key, 0, 0, True)))
    assert len(store.read(lambda look: look.tombstones_by_prefix("r1"))) == 1
    assert begin(store, "r2").run_key == hold.run_key + 1


def test_a_run_is_weighed_by_its_rows_and_bytes(store: Store) -> None:
    hold = begin(store, "r1")
    entries = [some(1), some(2, text="é" * 100)]
    store.finish(store.put(hold, entries))
    store.write(lambda tx: tx.send(hold.run_key, "pause", "{}", "me", 1))
    size = sum(len(e.header) + len(e.payload or b"") for e in entries)
    assert store.read(lambda look: look.weight_of(hold.run_key)) == (2, size, len("{}"), 1)


def test_vacuum_gives_free_pages_back_and_changes_nothing_else(store: Store) -> None:
    hold, kept = begin(store, "r1"), begin(store, "r2")
    store.finish(store.put(hold, [some(n, text="x" * 5000) for n in range(100)]))
    store.finish(store.put(kept, [some(1)]))
    bury(store, hold.run_key, "r1")
    store.write(lambda tx: tx.remove_slice(Slice(hold.run_key, 0, 0, True)))
    before = store.room()
    store.vacuum()
    after = store.room()
    assert before.free_bytes > 400_000
    assert after.free_bytes == 0
    assert after.size_bytes <= before.size_bytes - before.free_bytes
    assert Path(store.path).stat().st_size == after.size_bytes
    store.finish(store.put(kept, [some(2)]))
    assert store.check() == []


# -- the trash ---------------------------------------------------------------------------------------


@pytest.fixture
def trash(tmp_path: Path) -> Trash:
    (tmp_path / "blobs").mkdir()
    return Trash(Blobs(tmp_path / "blobs"))


def old(trash: Trash, content: bytes = b"x") -> str:
    name = trash.blobs.put(content)
    os.utime(trash.blobs.path(name), (1, 1))
    return name


def nobody(_: str) -> bool:
    return False


def somebody(_: str) -> bool:
    return True


def test_a_thrown_blob_is_found_until_it_is_removed_by_a_later_sweep(trash: Trash) -> None:
    name = old(trash)
    assert trash.throw(name, nobody)
    assert not trash.blobs.path(name).exists()
    assert (trash.blobs.get(name), trash.blobs.has(name), b"".join(trash.blobs.pieces(name))) == (b"x", True, b"x")
    assert not trash.remove(trash.content()[0], nobody)  # it has only just come
    os.utime(trash.folder / name, (1, 1))
    assert trash.remove(trash.content()[0], nobody)
    assert not trash.blobs.has(name)
    with pytest.raises(IntegrityBroken, match="missing"):
        trash.blobs.get(name)


def test_a_reference_that_appeared_meanwhile_puts_the_blob_back(trash: Trash) -> None:
    name = old(trash)
    assert not trash.throw(name, somebody)
    assert trash.content() == []
    assert trash.blobs.path(name).read_bytes() == b"x"
    trash.throw(old(trash), nobody)
    os.utime(trash.folder / name, (1, 1))
    assert not trash.remove(trash.content()[0], somebody)
    assert trash.blobs.path(name).stat().st_mtime > 1_000_000  # and young again
    assert trash.content() == []


def test_a_touch_before_the_rename_puts_the_blob_back(trash: Trash) -> None:
    """A saver relied on it between the look and the move; its reference comes later."""
    name = old(trash)
    trash.blobs.put(b"x")
    assert not trash.throw(name, nobody)
    assert trash.blobs.path(name).is_file()


def test_a_blob_in_the_trash_is_written_anew_by_its_next_saver(trash: Trash) -> None:
    name = old(trash)
    trash.throw(name, nobody)
    trash.blobs.put(b"x")
    assert trash.blobs.path(name).read_bytes() == b"x"
    assert not trash.remove(trash.content()[0], somebody)  # what is in its place stays; the other one is one too many
    assert (trash.content(), trash.blobs.get(name)) == ([], b"x")


def test_keeping_a_known_blob_that_is_in_the_trash_writes_it_anew(trash: Trash) -> None:
    name = old(trash)
    trash.throw(name, nobody)
    trash.blobs.keep(name, [b"x"])
    assert trash.blobs.path(name).read_bytes() == b"x"


def test_only_blobs_are_looked_at_in_the_folder(trash: Trash) -> None:
    name = old(trash)
    shelf = trash.blobs.path(name).parent
    (shelf / "notes.txt").write_text("mine")
    (shelf / ("a" * 64)).symlink_to("/etc/passwd")
    (trash.blobs.folder / "readme").write_text("mine")
    assert [(first, [file.name for file in files]) for first, files in trash.shelves()] == [(name[:2], [name])]
    assert trash.temporaries() == []


def test_temporary_files_go_when_their_writer_is_dead_and_the_grace_is_over(trash: Trash) -> None:
    shelf = trash.blobs.path(old(trash)).parent
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    names = {pid: shelf / f".{'a' * 64}.{pid}.1" for pid in (dead.pid, os.getpid())}
    for path in names.values():
        path.write_bytes(b"half")
    assert trash.temporaries() == []
    for path in names.values():
        os.utime(path, (1, 1))
    assert trash.temporaries() == [names[dead.pid]]


def test_savers_and_sweeps_at_once_never_lose_a_blob_that_is_referred_to(trash: Trash) -> None:
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
            for _, files in trash.shelves():
                for file in files:
                    if file.old and file.name not in referred:
                        trash.throw(file.name, referred.__contains__)
            for file in trash.content():
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
from outlast.store.blobs.folder import Blobs
blobs = Blobs(Path(sys.argv[1]))
for line in sys.stdin:
    print(blobs.put(line.strip().encode() * 1000), flush=True)
"""


@pytest.mark.parametrize("point", ["sweep.trashed", "sweep.dated"])
def test_a_saver_in_another_process_at_any_moment_of_a_throw_keeps_its_blob(trash: Trash, point: str) -> None:
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
    for file in trash.content():  # whatever the trash still has, and however late the next sweep is
        trash.remove(file._replace(old=True), nobody)
    assert trash.blobs.path(name).read_bytes() == content
