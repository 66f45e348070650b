"""The power kit, tried on plain databases: it spares what SQLite promises to keep, and takes the rest.

The second half matters as much as the first: equipment under which nothing is ever lost would prove nothing.
"""

import itertools
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import apsw
import pytest

from .power import (
    DropAll,
    DropSome,
    Fault,
    FaultVFS,
    Inode,
    KeepAll,
    Loss,
    Operation,
    PowerVFS,
    Survival,
    Truncate,
    Write,
    disk_full,
    failed_sync,
    failed_write,
)

COMMITS = 30

_names = (f"power-kit-{number}" for number in itertools.count())


@pytest.fixture
def power() -> Iterator[PowerVFS]:
    vfs = PowerVFS(next(_names))
    yield vfs
    vfs.unregister()


@pytest.fixture
def faults(power: PowerVFS) -> Iterator[FaultVFS]:
    vfs = FaultVFS(next(_names), base=power.name)
    yield vfs
    vfs.unregister()


@pytest.fixture
def live(tmp_path: Path) -> Path:
    (tmp_path / "live").mkdir()
    return tmp_path / "live" / "kit.db"


# The script, and what is left of it


def opened(path: Path, vfs: str, synchronous: str = "FULL", journal: str = "WAL") -> apsw.Connection:
    db = apsw.Connection(str(path), vfs=vfs)
    db.pragma("synchronous", synchronous)
    db.pragma("journal_mode", journal)
    db.pragma("wal_autocheckpoint", 12)
    return db


def prepare(path: Path, vfs: str) -> None:
    with closing(opened(path, vfs)) as db:
        db.execute("CREATE TABLE left (number INTEGER PRIMARY KEY, filler BLOB)").fetchall()
        db.execute("CREATE TABLE right (number INTEGER PRIMARY KEY)").fetchall()


def add(db: apsw.Connection, number: int) -> None:
    """One transaction over several pages: both tables get the number, or neither does."""
    with db:
        db.execute("INSERT INTO left VALUES (?, ?)", (number, bytes([number]) * 1000)).fetchall()
        db.execute("INSERT INTO right VALUES (?)", (number,)).fetchall()


def script(path: Path, vfs: str, synchronous: str, acknowledged: list[int]) -> None:
    """Thirty commits with checkpoints between, from two connections, closed and reopened half-way."""
    prepare(path, vfs)
    for half in (range(1, COMMITS // 2 + 1), range(COMMITS // 2 + 1, COMMITS + 1)):
        with closing(opened(path, vfs, synchronous)) as one, closing(opened(path, vfs, synchronous)) as two:
            for number in half:
                add(one if number % 3 else two, number)
                acknowledged.append(number)


def survivors(copy: Path) -> list[int] | None:
    """The numbers the database holds after recovery; None if it is broken or half a transaction is there."""
    path = copy / "kit.db"
    if not path.exists():
        return []
    db = apsw.Connection(str(path))
    try:
        db.pragma("synchronous", "OFF")
        db.pragma("locking_mode", "EXCLUSIVE")  # recovers without a -shm file: faster
        return numbers(db) if db.pragma("integrity_check") == "ok" else None
    except (apsw.CorruptError, apsw.NotADBError):
        return None
    finally:
        db.close()


def numbers(db: apsw.Connection) -> list[int] | None:
    names = [table for table in ("left", "right") if db.table_exists("main", table)]
    found = [[row[0] for row in db.execute(f"SELECT number FROM {name} ORDER BY 1")] for name in names]
    left, right = found if len(found) == 2 else ([], [])
    return left if left == right else None


@dataclass(frozen=True, slots=True)
class Outcome:
    operation: Operation | None
    loss: Loss
    acknowledged: list[int]
    found: list[int] | None

    @property
    def kept(self) -> bool:
        """All that was acknowledged is there, and beyond it at most the commit under way."""
        return self.found in (self.acknowledged, [*self.acknowledged, len(self.acknowledged) + 1])

    @property
    def lost(self) -> set[int]:
        return set(self.acknowledged) - set(self.found or [])


@dataclass(slots=True)
class Trial:
    """Runs the script once and tries every kind of loss before every operation, and after the last."""

    power: PowerVFS
    live: Path
    losses: Callable[[int], list[Loss]]
    acknowledged: list[int] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)

    def run(self, synchronous: str) -> list[Outcome]:
        self.power.before = self._cut
        script(self.live, self.power.name, synchronous, self.acknowledged)
        self._cut(None)
        return self.outcomes

    def _cut(self, operation: Operation | None) -> None:
        copy = self.live.parent.parent / "copy"
        for loss in self.losses(self.power.operations):
            self.power.cut(copy, loss)
            self.outcomes.append(Outcome(operation, loss, list(self.acknowledged), survivors(copy)))
            shutil.rmtree(copy)


def every_loss(seed: int) -> list[Loss]:
    return [DropAll(), KeepAll(), DropSome(seed, torn=False), DropSome(seed), DropSome(seed + 10_000)]


# What is promised survives; what is not, does not


def test_every_acknowledged_commit_survives_a_cut_at_any_operation(power: PowerVFS, live: Path) -> None:
    outcomes = Trial(power, live, every_loss).run("FULL")

    assert [outcome for outcome in outcomes if not outcome.kept] == []
    assert outcomes[-1].acknowledged == list(range(1, COMMITS + 1))
    reached = {(seen.operation.kind, seen.operation.path.name) for seen in outcomes if seen.operation}
    assert {("sync", "kit.db"), ("truncate", "kit.db"), ("delete", "kit.db-wal")} <= reached


@pytest.mark.parametrize("synchronous", ["NORMAL", "OFF"])
def test_without_a_sync_per_commit_a_cut_loses_acknowledged_commits(
    power: PowerVFS, live: Path, synchronous: str
) -> None:
    outcomes = Trial(power, live, lambda _: [DropAll()]).run(synchronous)

    assert len(set().union(*(outcome.lost for outcome in outcomes))) >= COMMITS // 2


@pytest.mark.parametrize("torn", [False, True])
def test_unordered_writes_without_syncs_break_the_database(power: PowerVFS, live: Path, torn: bool) -> None:
    outcomes = Trial(power, live, lambda seed: [DropSome(seed, torn)]).run("OFF")

    assert any(outcome.found is None for outcome in outcomes)


def test_a_killed_process_loses_nothing_even_without_syncs(power: PowerVFS, live: Path) -> None:
    assert all(outcome.kept for outcome in Trial(power, live, lambda _: [KeepAll()]).run("OFF"))


@pytest.mark.parametrize(("synchronous", "found"), [("FULL", []), ("EXTRA", [1])])
def test_a_deleted_journal_is_back_unless_its_folder_was_synced(
    power: PowerVFS, live: Path, tmp_path: Path, synchronous: str, found: list[int]
) -> None:
    prepare(live, power.name)
    db = opened(live, power.name, synchronous, journal="DELETE")
    add(db, 1)

    power.cut(tmp_path / "copy", DropAll())
    db.close()

    assert survivors(tmp_path / "copy") == found


def test_a_new_file_is_lost_until_its_folder_is_synced(power: PowerVFS, live: Path, tmp_path: Path) -> None:
    db = opened(live, power.name, "OFF")
    db.execute("CREATE TABLE first (number)").fetchall()
    assert power.cut(tmp_path / "before", DropAll()) == []

    db.pragma("synchronous", "FULL")
    db.execute("CREATE TABLE second (number)").fetchall()
    after = power.cut(tmp_path / "after", DropAll())
    db.close()

    assert {path.name for path in after} == {"kit.db", "kit.db-wal"}


def test_a_sync_of_one_folder_saves_no_new_file_in_another(power: PowerVFS, live: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with closing(opened(tmp_path / "other" / "other.db", power.name, "OFF")):
        prepare(live, power.name)
        copied = power.cut(tmp_path / "copy", DropAll())

    assert "kit.db" in {path.name for path in copied}
    assert "other.db" not in {path.name for path in copied}


def test_an_unsynced_truncation_may_be_undone(power: PowerVFS, live: Path, tmp_path: Path) -> None:
    prepare(live, power.name)
    with closing(opened(live, power.name)) as db:
        add(db, 1)
        db.pragma("wal_checkpoint", "TRUNCATE")
        for name, loss in (("undone", DropAll()), ("done", KeepAll())):
            power.cut(tmp_path / name, loss)

    assert (tmp_path / "undone" / "kit.db-wal").stat().st_size > 0
    assert (tmp_path / "done" / "kit.db-wal").stat().st_size == 0
    assert survivors(tmp_path / "undone") == survivors(tmp_path / "done") == [1]


# How a cut is made


@pytest.mark.parametrize("number", [1, 40, 41, 42, 43, 44, 120])
def test_a_cut_at_an_operation_switches_the_disk_off(power: PowerVFS, live: Path, tmp_path: Path, number: int) -> None:
    acknowledged: list[int] = []
    power.cut_at(number, tmp_path / "copy", DropAll())

    with pytest.raises(apsw.IOError):
        script(live, power.name, "FULL", acknowledged)

    assert Outcome(None, DropAll(), acknowledged, survivors(tmp_path / "copy")).kept


def test_cuts_from_another_thread_keep_what_was_acknowledged_before_them(
    power: PowerVFS, live: Path, tmp_path: Path
) -> None:
    acknowledged: list[int] = []
    committer = threading.Thread(target=script, args=(live, power.name, "FULL", acknowledged))
    turns = threading.Semaphore(0)

    def wait_for_a_cut(operation: Operation) -> None:
        if operation.number % 10 == 0:
            turns.acquire(timeout=10)

    power.before = wait_for_a_cut
    committer.start()
    outcomes: list[Outcome] = []
    while committer.is_alive():
        before, copy = list(acknowledged), tmp_path / str(len(outcomes))
        power.cut(copy, DropSome(len(outcomes)))
        outcomes.append(Outcome(None, DropAll(), before, survivors(copy)))
        turns.release()

    assert len(acknowledged) == COMMITS
    assert len(outcomes) > 10
    assert [outcome for outcome in outcomes if outcome.found is None or outcome.lost] == []


def test_files_that_were_there_before_count_as_synced(power: PowerVFS, live: Path, tmp_path: Path) -> None:
    prepare(live, power.name)
    db = opened(live, power.name)
    add(db, 1)
    power.cut(tmp_path / "found", DropAll())
    db.close()

    later = PowerVFS(next(_names))
    db = apsw.Connection(str(tmp_path / "found" / "kit.db"), vfs=later.name)
    later.cut(tmp_path / "copy", DropAll())
    db.close()
    later.unregister()

    assert survivors(tmp_path / "copy") == [1]


def test_a_cut_wants_a_fresh_folder(power: PowerVFS, tmp_path: Path) -> None:
    with pytest.raises(FileExistsError):
        power.cut(tmp_path, DropAll())


def test_a_seed_names_one_loss() -> None:
    inode = Inode(pending=[Write(4096 * page, bytes([page]) * 4096) for page in range(20)])

    images = [bytes(inode.after(Survival(DropSome(seed)))) for seed in (7, 7, 8)]

    assert images[0] == images[1] != images[2]


def test_a_torn_write_changes_nothing_outside_itself() -> None:
    inode = Inode(bytearray(b"o" * 4096), [Write(1000, b"n" * 2000)])

    images = [bytes(inode.after(Survival(DropSome(seed)))) for seed in range(50)]

    assert all(image[:1000] + image[3000:] == b"o" * 2096 for image in images)
    assert any(b"o" in image[1024:1536] and b"n" in image[1024:1536] for image in images)


def test_sectors_meet_where_the_disk_has_them() -> None:
    parts = [(part.offset, len(part.data)) for part in Write(500, bytes(600)).sectors()]

    assert parts == [(500, 12), (512, 512), (1024, 76)]


def test_a_write_past_the_end_leaves_zeros_and_a_truncation_can_grow() -> None:
    inode = Inode(bytearray(b"abc"), [Write(5, b"x"), Truncate(2), Truncate(4)])
    assert inode.after(Survival(DropAll())) == b"abc"

    inode.sync()

    assert inode.synced == b"ab\0\0"


# Faults

Broken = Callable[[], Fault]


@pytest.mark.parametrize(
    ("fault", "code", "after_cut"),
    [
        (failed_sync, apsw.SQLITE_IOERR_FSYNC, [1]),
        (lambda: failed_sync(reached=True), apsw.SQLITE_IOERR_FSYNC, [1, 2]),
        (failed_write, apsw.SQLITE_IOERR_WRITE, [1]),
        (lambda: failed_write(nth=3), apsw.SQLITE_IOERR_WRITE, [1]),
        (disk_full, apsw.SQLITE_FULL, [1]),
        (lambda: disk_full(nth=4), apsw.SQLITE_FULL, [1]),
    ],
)
def test_a_failed_commit_is_gone_unless_its_sync_reached_the_disk(
    power: PowerVFS,
    faults: FaultVFS,
    live: Path,
    tmp_path: Path,
    fault: Broken,
    code: int,
    after_cut: list[int],
) -> None:
    prepare(live, faults.name)
    db = opened(live, faults.name)
    add(db, 1)

    armed = faults.arm(fault())
    with pytest.raises(apsw.Error) as raised:
        add(db, 2)
    power.cut(tmp_path / "copy", DropAll())

    assert getattr(raised.value, "extendedresult", None) == code
    assert armed.fired == 1
    assert (db.in_transaction, numbers(db)) == (False, [1])
    assert survivors(tmp_path / "copy") == after_cut
    db.close()


def test_a_commit_after_a_fault_takes_the_place_of_the_failed_one(
    power: PowerVFS, faults: FaultVFS, live: Path, tmp_path: Path
) -> None:
    prepare(live, faults.name)
    db = opened(live, faults.name)
    faults.arm(failed_sync(nth=2, reached=True))  # the first sync is that of the WAL's header
    with pytest.raises(apsw.IOError):
        add(db, 1)

    add(db, 2)
    power.cut(tmp_path / "copy", DropAll())
    db.close()

    assert survivors(tmp_path / "copy") == [2]


def test_a_fault_strikes_only_the_calls_it_names(faults: FaultVFS, live: Path) -> None:
    prepare(live, faults.name)
    db = opened(live, faults.name)
    add(db, 1)
    faults.arm(failed_sync(nth=2, count=2))
    other = faults.arm(disk_full(suffix="-journal", count=None))

    failed = []
    for number in range(2, 7):
        try:
            add(db, number)
        except apsw.IOError:
            failed.append(number)
    db.close()

    assert failed == [3, 4]
    assert other.seen == 0


def test_an_endless_fault_ends_when_disarmed(faults: FaultVFS, live: Path) -> None:
    prepare(live, faults.name)
    db = opened(live, faults.name)
    faults.arm(disk_full(count=None))
    for _ in range(3):
        with pytest.raises(apsw.FullError):
            add(db, 1)

    faults.disarm()
    add(db, 1)

    assert numbers(db) == [1]
    db.close()


def test_a_failed_checkpoint_comes_out_of_a_commit_that_stands(faults: FaultVFS, live: Path) -> None:
    prepare(live, faults.name)
    with closing(opened(live, faults.name)) as db:
        db.pragma("wal_autocheckpoint", 1)
        faults.arm(failed_sync(suffix=".db"))

        with pytest.raises(apsw.IOError):
            add(db, 1)

        assert numbers(db) == [1]
