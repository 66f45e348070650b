"""Opening a store: what is accepted, what is refused, and that what is refused stays as it was."""

import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from outlast.errors import (
    NetworkFilesystem,
    OutlastError,
    StoreBusy,
    StoreFailed,
    StoreForeign,
    StoreForked,
    StoreNewer,
)
from outlast.store.disk import NETWORK, filesystem_of, refuse_network
from outlast.store.nouns.rows import newest_version
from outlast.store.sqlite.file import APPLICATION_ID
from outlast.store.sqlite.open import SqliteStore

from ..support import begin, broken, lease_of, outsider, some

Open = Callable[..., SqliteStore]


# -- what the file is --------------------------------------------------------------------------------


def test_a_store_opens_again_with_everything_in_it(open_store: Open) -> None:
    first = open_store()
    hold = begin(first, "run1")
    first.finish(first.put(hold, [some(1)]))
    first.close()
    assert broken(open_store(), "run1", 1) is None


def test_an_empty_file_becomes_a_store(path: Path, open_store: Open) -> None:
    path.touch()
    store = open_store()
    begin(store, "run1")
    assert [row.id for row in store.read(lambda look: look.newest_runs(None, 5, 0))] == ["run1"]


def test_a_newer_store_is_refused_and_left_alone(path: Path, open_store: Open) -> None:
    open_store().close()
    with outsider(path) as connection:
        connection.pragma("user_version", 999)
    before = path.read_bytes()
    with pytest.raises(StoreNewer, match="999") as caught:
        open_store()
    assert (caught.value.found, caught.value.known) == (999, newest_version("sqlite"))
    assert path.read_bytes() == before


@pytest.mark.parametrize("change", ["PRAGMA user_version = 999", "PRAGMA application_id = 7"])
def test_what_only_the_log_shows_is_refused_too_and_the_log_is_left_alone(
    path: Path, tmp_path: Path, open_store: Open, change: str
) -> None:
    """A copy of an open database: what it is stands only in its log."""
    open_store().close()
    (tmp_path / "copy").mkdir()
    with outsider(path) as connection:
        connection.execute(change)
        for ending in ("", "-wal"):
            (tmp_path / "copy" / f"outlast.db{ending}").write_bytes(Path(f"{path}{ending}").read_bytes())
    copy = tmp_path / "copy" / "outlast.db"
    assert Path(f"{copy}-wal").stat().st_size
    before = copy.read_bytes(), Path(f"{copy}-wal").read_bytes()
    with pytest.raises((StoreNewer, StoreForeign)):
        SqliteStore(copy)
    assert (copy.read_bytes(), Path(f"{copy}-wal").read_bytes()) == before


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_a_database_of_another_program_is_refused_and_left_alone(path: Path, open_store: Open, mode: str) -> None:
    with outsider(path) as connection:
        connection.pragma("journal_mode", mode)
        connection.execute("CREATE TABLE theirs (x)")
    before = path.read_bytes()
    with pytest.raises(StoreForeign, match="another program"):
        open_store()
    assert path.read_bytes() == before


def test_a_foreign_database_is_not_adopted_for_having_our_version(path: Path, open_store: Open) -> None:
    with outsider(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
        connection.pragma("user_version", 1)
    with pytest.raises(StoreForeign):
        open_store()


@pytest.mark.parametrize(
    "content", [b"not a database, only text\n" * 400, b"\x00" * 5_000, b"SQLite format 3\x00" + b"\xff" * 9_000]
)
def test_garbage_is_refused_and_left_alone(path: Path, open_store: Open, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(StoreForeign):
        open_store()
    assert path.read_bytes() == content


def test_a_migration_that_fails_half_way_leaves_nothing(path: Path, open_store: Open) -> None:
    """The file looks like ours and lacks a version, and one of our tables stands in the way."""
    with outsider(path) as connection:
        connection.pragma("application_id", APPLICATION_ID)
        connection.execute("CREATE TABLE journal (x)")
    with pytest.raises(StoreFailed, match="already exists"):
        open_store()
    with outsider(path) as connection:
        assert [row[0] for row in connection.execute("SELECT name FROM sqlite_schema")] == ["journal"]
        assert connection.pragma("user_version") == 0


def test_two_stores_on_one_file_in_one_process_see_each_other(open_store: Open) -> None:
    first, second = open_store(), open_store()
    one, other = begin(first, "run1"), begin(second, "run2")
    for number in range(20):
        first.finish(first.put(one, [some(number)]))
        second.finish(second.put(other, [some(number)]))
    assert broken(second, "run1", 20) is broken(first, "run2", 20) is None


def test_the_facts_say_how_it_is_kept(store: SqliteStore) -> None:
    facts = store.facts()
    assert facts["path"] == store.place
    assert (facts["journal_mode"], facts["synchronous"], facts["schema"]) == (
        "wal",
        "FULL",
        newest_version("sqlite"),
    )
    assert facts["size_bytes"] > 0
    assert store.check() == []


def test_every_commit_is_synced(store: SqliteStore) -> None:
    assert store._writer._tx.connection.pragma("synchronous") == 2


# -- closing -----------------------------------------------------------------------------------------


def test_closing_leaves_one_file_and_closing_twice_is_harmless(path: Path, open_store: Open) -> None:
    store = open_store()
    begin(store, "run1")
    store.close()
    store.close()
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_closed_store_says_so_and_nothing_else(open_store: Open) -> None:
    store = open_store()
    hold = begin(store, "run1")
    store.close()
    for use in (
        lambda: store.finish(store.put(hold, [some(1)])),
        lambda: store.read(lambda look: look.lease_of("run1")),
    ):
        with pytest.raises(StoreFailed):
            use()


def test_closing_one_of_two_twice_leaves_the_other_known_as_open(open_store: Open) -> None:
    first, second = open_store(), open_store()
    first.close()
    first.close()
    assert in_child(lambda: SqliteStore(Path(second.place))) == "StoreForked"


# -- forks -------------------------------------------------------------------------------------------


def in_child(use: Callable[[], Any]) -> str:
    """The name of what `use` raised in a forked child, or what it gave."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = f"{use()}"
        except BaseException as error:
            said = type(error).__name__
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        said = answer.read()
    os.waitpid(child, 0)
    return said


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_store_that_was_open_before_a_fork_is_refused_in_the_child(store: SqliteStore) -> None:
    hold = begin(store, "run1")
    uses: list[Callable[[], Any]] = [
        lambda: store.finish(store.put(hold, [some(1)])),
        lambda: store.finish_soon(store.put(hold, [some(1)])),
        lambda: store.write(lambda tx: None),
        lambda: store.read(lambda look: None),
        lambda: store.facts(),
        lambda: store.check(),
        lambda: SqliteStore(Path(store.place)),
    ]
    assert [in_child(use) for use in uses] == ["StoreForked"] * len(uses)
    assert in_child(store.close) == "None"
    store.finish(store.put(hold, [some(1)]))  # the parent goes on
    assert broken(store, "run1", 1) is None


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_store_that_was_open_is_refused_by_any_of_its_names(store: SqliteStore, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(Path(store.place).parent)
    (tmp_path / "link.db").symlink_to(store.place)
    name = Path(store.place).name
    names = (tmp_path / "link" / name, tmp_path / "link.db", Path(os.path.relpath(store.place)))
    assert [in_child(lambda path=path: SqliteStore(path)) for path in names] == ["StoreForked"] * 3


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_may_open_what_was_not_open(store: SqliteStore, tmp_path: Path, open_store: Open) -> None:
    def work() -> str:
        other = SqliteStore(tmp_path / "other.db")
        hold = begin(other, "run1")
        other.finish(other.put(hold, [some(1)]))
        other.close()
        return "written"

    assert in_child(work) == "written"
    store.close()
    assert (
        in_child(lambda: broken(SqliteStore(Path(store.place)), "none", 0)) == "AssertionError"
    )  # opened; no such run


def test_the_error_says_what_to_do_after_a_fork() -> None:
    assert "after the fork" in str(StoreForked("outlast.db"))


# -- busy --------------------------------------------------------------------------------------------


def test_a_lock_that_is_let_go_in_time_is_nobody_s_problem(store: SqliteStore) -> None:
    import threading

    hold = begin(store, "run1")
    with outsider(store.place) as connection:
        connection.execute("BEGIN IMMEDIATE")
        timer = threading.Timer(0.1, connection.execute, ["COMMIT"])
        timer.start()
        store.finish(store.put(hold, [some(1)]))
        timer.join()
    assert broken(store, "run1", 1) is None


def test_a_lock_held_beyond_the_limit_is_store_busy_and_nothing_is_lost(open_store: Open) -> None:
    store = open_store(busy_seconds=0.05)
    hold = begin(store, "run1")
    store.finish(store.put(hold, [some(1)]))
    with outsider(store.place) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy, match=r"0\.05 s"):
            store.finish(store.put(hold, [some(2)]))
        with pytest.raises(StoreBusy):
            store.write(lambda tx: None)
        assert lease_of(store, "run1").head == hold.head == 1  # readers are never in the way
        connection.execute("ROLLBACK")
    store.finish(store.put(hold, [some(2)]))
    assert broken(store, "run1", 2) is None


# -- read-only ---------------------------------------------------------------------------------------


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that any user may enter: pytest's own are closed to others."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)
        os.chmod(folder, 0o755)


def as_nobody(code: str, path: Path) -> str:
    """Run code in a process that permissions bind: one that gave up root, if we are root, after its imports."""
    program = """
        import os, sys, asyncio, encodings.idna, outlast.errors, outlast.store.sqlite.read_only
        from pathlib import Path
        from outlast.ledger.journal import Header, entry
        from outlast.store.blobs.folder import FolderBlobs
        from outlast.store.sqlite.open import SqliteStore
        from outlast.store.contract import NewRun
        path = Path(sys.argv[1])
        if os.getuid() == 0:
            os.setgroups([]); os.setgid(65534); os.setuid(65534)
        def write():
            run = NewRun("r", "s", "f", "t", "{}", "d", "", "", "", "{}", "local", 1)
            return SqliteStore(path).write(lambda tx: tx.add_run(run, bytes(32), "p"))
        try:
            print("gave", CODE)
        except Exception as error:
            print(type(error).__name__, error)
    """.replace("CODE", code)
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(path)], capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def test_a_file_that_cannot_be_written_is_a_read_only_home(public: Path) -> None:
    path = public / "outlast.db"
    SqliteStore(path).close()
    os.chmod(path, 0o444)
    os.chmod(public, 0o777)  # the folder may be written, the file may not
    assert as_nobody("write()", path).startswith("HomeReadOnly")


def test_a_folder_that_cannot_be_written_is_a_read_only_home(public: Path) -> None:
    path = public / "outlast.db"
    os.chmod(public, 0o555)
    assert as_nobody("write()", path).startswith("StoreReadOnly")  # there is nothing to look at
    os.chmod(public, 0o755)
    SqliteStore(path).close()
    os.chmod(path, 0o644)  # else only its owner may look
    os.chmod(public, 0o555)
    assert as_nobody("write()", path).startswith("HomeReadOnly")


def test_a_blob_folder_that_cannot_be_written_is_a_read_only_home(public: Path) -> None:
    os.chmod(public, 0o555)
    assert as_nobody("FolderBlobs(path).put(b'x')", public).startswith("HomeReadOnly")


def test_a_permitted_user_writes(public: Path) -> None:
    """The counter-test: what is refused above is refused for the permissions."""
    os.chmod(public, 0o777)
    assert as_nobody("write()", public / "outlast.db").startswith("gave Hold")


# -- network file systems ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(NETWORK))
def test_network_file_systems_are_refused_before_anything_is_made(path: Path, kind: str) -> None:
    with pytest.raises(NetworkFilesystem, match=kind):
        SqliteStore(path, filesystem=lambda _: kind)
    assert not path.exists()


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "overlay", "tmpfs", "zfs", "apfs", ""])
def test_local_file_systems_are_taken(path: Path, kind: str) -> None:
    SqliteStore(path, filesystem=lambda _: kind).close()
    assert path.exists()


def test_the_folder_of_the_file_is_what_is_looked_up(path: Path) -> None:
    asked: list[Path] = []
    refuse_network(path.parent, lambda folder: asked.append(folder) or "ext4")
    SqliteStore(path, filesystem=lambda folder: asked.append(folder) or "ext4").close()
    assert asked == [path.parent, path.parent]


MOUNTS = r"""
24 1 253:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 24 0:26 / /mnt rw shared:2 master:1 - tmpfs tmpfs rw
31 30 0:27 / /mnt/with\040space rw - nfs4 server:/export rw
32 30 0:28 / /mnt/tab\011and\134backslash rw - cifs //server/share rw
33 30 0:29 / /mnt/données rw - nfs server:/é rw
34 30 0:30 / /mnt/over rw - nfs server:/a rw
35 34 0:31 / /mnt/over rw - xfs /dev/vdb rw
36 31 0:32 / /mnt/with\040space/local rw - ext4 /dev/vdc rw
""".strip()


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("/srv/home", "ext4"),
        ("/mnt", "tmpfs"),
        ("/mnt/other", "tmpfs"),
        ("/mnt/with space", "nfs4"),
        ("/mnt/with space/deep/er", "nfs4"),
        ("/mnt/with spaces", "tmpfs"),
        ("/mnt/with space/local/x", "ext4"),
        ("/mnt/tab\tand\\backslash/x", "cifs"),
        ("/mnt/données/x", "nfs"),
        ("/mnt/over/x", "xfs"),
    ],
)
def test_the_deepest_and_last_mount_over_a_path_counts(tmp_path: Path, target: str, kind: str) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(MOUNTS + "\n")
    assert filesystem_of(Path(target), table) == kind


def test_where_the_system_does_not_tell_the_path_is_taken(tmp_path: Path) -> None:
    assert filesystem_of(tmp_path, tmp_path / "nothing") == ""


def test_this_machine_tells() -> None:
    if Path("/proc/self/mountinfo").exists():
        assert filesystem_of(Path(tempfile.gettempdir())) not in ("", *NETWORK)


# -- driver errors -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("driver", "ours"),
    [
        (apsw.BusyError, "store_busy"), (apsw.LockedError, "store_busy"), (apsw.FullError, "disk_full"),
        (apsw.ReadOnlyError, "store_read_only"), (apsw.PermissionsError, "store_read_only"),
        (apsw.NotADBError, "store_foreign"), (apsw.CorruptError, "store_foreign"), (apsw.IOError, "store_failed"),
        (apsw.ConstraintError, "store_failed"), (apsw.TooBigError, "invalid"), (apsw.CantOpenError, "store_failed"),
    ],
)  # fmt: skip
def test_every_driver_error_has_one_of_ours(store: SqliteStore, driver: type[apsw.Error], ours: str) -> None:
    translated = store.translate(driver("what the driver said"))
    assert isinstance(translated, OutlastError)
    assert translated.code == ours
