"""A disk that fails: at COMMIT, when it is full, when it may not be written. Nothing acknowledged is lost by it."""

import itertools
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import pytest

from outlast import AsyncRun, Flow, Outlast, Run, flow, step
from outlast.errors import DiskFull, HomeReadOnly, LeaseLost, StoreFailed, StoreReadOnly
from outlast.ledger.journal import Header, entry
from outlast.runs.begin import decide, new_run
from outlast.runs.claim import RunClaim
from outlast.store.sqlite import log
from outlast.store.sqlite.open import SqliteStore
from outlast.testing import crashes
from outlast.testing.crashes import Tell, in_child

from ..kit import by_url
from ..store.support import begin, broken, some
from . import flows
from .fault_tables import FaultTables
from .power import (
    DropAll,
    DropSome,
    Fault,
    FaultVFS,
    KeepAll,
    Kind,
    Loss,
    PowerVFS,
    disk_full,
    failed_sync,
    failed_write,
)
from .processes import AfterReboot, wait_until

pytestmark = pytest.mark.crash

Disk = FaultVFS | FaultTables
_names = (f"faults-{number}" for number in itertools.count())
acknowledged: list[int] = []
ran: list[int] = []
trouble: dict[int, Callable[[], object]] = {}  # what befalls the disk in the body of a step


@pytest.fixture(autouse=True)
def forget() -> None:
    acknowledged.clear()
    ran.clear()
    trouble.clear()


@pytest.fixture
def power() -> Iterator[PowerVFS]:
    vfs = PowerVFS(next(_names))
    yield vfs
    vfs.unregister()


@pytest.fixture
def disk(power: PowerVFS, tmp_path: Path) -> Iterator[Disk]:
    found = FaultTables(tmp_path / "home") if by_url.IS_ON else FaultVFS(next(_names), base=power.name)
    yield found
    found.unregister()


@pytest.fixture
def outlast(disk: Disk, tmp_path: Path) -> Iterator[Outlast]:
    options = {"vfs": disk.name} if isinstance(disk, FaultVFS) else {}
    with Outlast(tmp_path / "home", store_options=options) as opened:
        yield opened
        disk.disarm()


@step
def act(number: int) -> int:
    ran.append(number)
    trouble.pop(number, int)()
    return number


@step
async def act_async(number: int) -> int:
    return act.plain(number)


@flow
def plain(run: Run) -> int:
    for number in range(5):
        act(number)
        acknowledged.append(number)
    return 5


@flow
async def on_a_loop(run: AsyncRun) -> int:
    for number in range(5):
        await act_async(number)
        acknowledged.append(number)
    return 5


FAULTS: dict[str, tuple[Callable[[], Fault], type[Exception] | None]] = {
    "a sync fails once": (failed_sync, StoreFailed),
    "a sync is said to fail": (lambda: failed_sync(reached=True), StoreFailed),
    "syncs fail for a while": (lambda: failed_sync(count=None), StoreFailed),
    "a write fails once": (failed_write, StoreFailed),
    "a write is said to fail": (lambda: failed_write(reached=True), StoreFailed),
    "writes fail for a while": (lambda: failed_write(count=None), StoreFailed),
    "the disk is full once": (disk_full, DiskFull),
    "the disk is full for a while": (lambda: disk_full(count=None), DiskFull),
    # After the commit is in the log, SQLite moves it on into the database: that may fail, and the commit stands.
    "the write of a checkpoint fails": (lambda: failed_write(".db"), None),
    "the sync of a checkpoint fails": (lambda: failed_sync(".db"), None),
    "a checkpoint finds the disk full": (lambda: disk_full(".db"), None),
}


@pytest.mark.parametrize("case", FAULTS)
@pytest.mark.parametrize("work", [plain, on_a_loop], ids=["plain", "async"])
def test_a_fault_at_commit_loses_nothing_acknowledged(
    work: Flow[..., int], case: str, outlast: Outlast, disk: Disk, power: PowerVFS, tmp_path: Path
) -> None:
    fault, error = FAULTS[case]
    armed: list[Fault] = []
    checkpoint_at_once(outlast)
    trouble[2] = lambda: armed.append(disk.arm(fault()))
    if error is None:
        assert outlast.run(work).unwrap() == 5
    else:
        with pytest.raises(error):
            outlast.run(work)
        assert acknowledged == [0, 1]
        disk.disarm()
        assert outlast.run(work).unwrap() == 5
    disk.disarm()
    assert armed[0].fired
    assert sorted(set(acknowledged)) == [0, 1, 2, 3, 4]
    assert ran.count(0) == ran.count(1) == ran.count(3) == ran.count(4) == 1
    assert list(crashes.wrongs(outlast)) == []
    assert in_the_copy(power, tmp_path) == [0, 1, 2, 3, 4]


def checkpoint_at_once(outlast: Outlast) -> None:
    if not by_url.IS_ON:
        outlast._executor.home.store._writer._tx.connection.pragma("wal_autocheckpoint", 1)


def in_the_copy(power: PowerVFS, folder: Path) -> list[Any]:
    """Results of the steps that a power cut now would leave; where the disk is a server's, those that others see."""
    if not by_url.IS_ON:
        power.cut(folder / "copy" / "default", DropAll())
    with Outlast(folder / ("home" if by_url.IS_ON else "copy")) as outlast:
        assert outlast.verify().ok
        return [r.result for run in outlast.runs() for r in outlast.receipts(run.id) if r.delivered]


@pytest.mark.parametrize("loss", [DropAll(), KeepAll(), DropSome(1), DropSome(2), DropSome(3)], ids=repr)
def test_a_commit_that_was_said_to_fail_may_come_back_after_a_crash_and_does_no_harm(
    loss: Loss, outlast: Outlast, disk: Disk, power: PowerVFS, tmp_path: Path
) -> None:
    trouble[2] = lambda: disk.arm(failed_sync(count=None))
    with pytest.raises(StoreFailed):
        outlast.run(plain)
    power.cut(tmp_path / "copy" / "default", loss)
    with Outlast(tmp_path / "copy", clock=AfterReboot()) as copy:
        outcome = copy.run(plain)
        assert outcome.unwrap() == 5
        assert outcome.replayed_steps in (2, 3)
        assert list(crashes.wrongs(copy)) == []


@flow
def pays(run: Run, world: str) -> str:
    act(0)
    trouble.pop(1, int)()
    return flows.charge(world, 5)


@pytest.mark.parametrize("fault", [failed_write, failed_sync, disk_full])
def test_an_effect_whose_intent_cannot_be_written_does_not_begin(
    fault: Callable[..., Fault], outlast: Outlast, disk: Disk, tmp_path: Path
) -> None:
    world = str(tmp_path / "world")
    trouble[1] = lambda: disk.arm(fault(count=None))
    with pytest.raises((StoreFailed, DiskFull)):
        outlast.run(pays, world)
    assert flows.shown(world) == []
    disk.disarm()
    assert outlast.run(pays, world).unwrap() == "charged 5"
    assert len(flows.shown(world)) == 1


@pytest.mark.parametrize("fault", [failed_write, failed_sync, disk_full])
def test_an_effect_whose_outcome_cannot_be_written_is_not_repeated(
    fault: Callable[..., Fault], outlast: Outlast, disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = str(tmp_path / "world")
    show = flows.show
    monkeypatch.setattr(flows, "show", lambda *line: (show(*line), disk.arm(fault(count=None))))
    with pytest.raises((StoreFailed, DiskFull)):
        outlast.run(pays, world)
    disk.disarm()
    assert outlast.run(pays, world).unwrap() == "charged 5"
    assert len(flows.shown(world)) == 1
    assert list(crashes.wrongs(outlast)) == []


@pytest.mark.parametrize("suffix", ["-wal", ".db"])
def test_a_disk_full_while_the_store_is_made_is_said_to_be_full(suffix: str, disk: FaultVFS, tmp_path: Path) -> None:
    fault = disk.arm(disk_full(suffix, count=None))
    with pytest.raises(DiskFull, match="free some space and run the same command again"):
        Outlast(tmp_path / "new", store_options={"vfs": disk.name})
    assert fault.fired
    disk.disarm()
    with Outlast(tmp_path / "new", store_options={"vfs": disk.name}) as outlast:
        assert outlast.run(plain).unwrap() == 5


def test_a_blob_that_finds_the_disk_full_ends_the_run_and_loses_nothing(
    outlast: Outlast, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(DiskFull):
            outlast.run(flows.blobs)
    assert len(outlast.run(flows.blobs).unwrap()) == 40_000
    assert list(crashes.wrongs(outlast)) == []


# -- a batch -----------------------------------------------------------------------------------------


def begun(outlast: Outlast, task: str) -> RunClaim:
    caller = outlast._executor.caller
    claimed = decide(caller, new_run(caller, plain.spec, b"{}", task=task))
    assert isinstance(claimed, RunClaim)
    return claimed


def in_one_batch(outlast: Outlast, works: list[Callable[[], object]]) -> list[BaseException | None]:
    """Let every work queue its commit while the writer is busy, so that all of them land in one batch."""
    errors: list[BaseException | None] = [None] * len(works)
    writer = outlast._executor.home.store._writer

    def one(number: int) -> None:
        try:
            works[number]()
        except BaseException as error:
            errors[number] = error

    with writer._mutex:
        threads = [threading.Thread(target=one, args=(number,)) for number in range(len(works))]
        for number, thread in enumerate(threads):
            thread.start()
            wait_until(lambda queued=number + 1: len(writer._queue) == queued)
    with suppress(StoreFailed):  # it rides in the same batch
        outlast._executor.home.store.write(lambda tx: None)
    for thread in threads:
        thread.join(10)
    return errors


def test_a_stale_item_in_a_batch_fails_alone(outlast: Outlast) -> None:
    store = outlast._executor.home.store
    first, stale, last = (begun(outlast, task) for task in ("first", "stale", "last"))
    lease = store.read(lambda look: look.lease_of(stale.run.id))
    store.write(lambda tx: tx.take_lease(lease, "somebody else"))
    entries = [entry(Header("emit", "here"))]
    errors = in_one_batch(outlast, [lambda c=c: store.finish(store.put(c.hold, entries)) for c in (first, stale, last)])
    assert [type(error) for error in errors] == [type(None), LeaseLost, type(None)]
    names = [[event.name for event in outlast.events(c.run.id)] for c in (first, stale, last)]
    assert names == [["run.started", "here"], ["run.started"], ["run.started", "here"]]
    assert outlast.verify().ok


def test_an_item_that_breaks_a_rule_of_the_store_fails_alone(outlast: Outlast) -> None:
    store = outlast._executor.home.store
    first, last = begun(outlast, "first"), begun(outlast, "last")
    entries = [entry(Header("emit", "here"))]

    def double() -> None:
        caller = outlast._executor.caller
        new = new_run(caller, plain.spec, b"{}", task="first")._replace(id=first.run.id)
        store.write(lambda tx: tx.add_run(new, bytes(32), "me"))

    works = [
        lambda: store.finish(store.put(first.hold, entries)),
        double,
        lambda: store.finish(store.put(last.hold, entries)),
    ]
    errors = in_one_batch(outlast, works)
    assert [type(error) for error in errors] == [type(None), StoreFailed, type(None)]
    assert [len(outlast.events(c.run.id)) for c in (first, last)] == [2, 2]
    assert outlast.verify().ok


def test_a_batch_whose_commit_fails_fails_whole_and_can_be_tried_again(outlast: Outlast, disk: Disk) -> None:
    store = outlast._executor.home.store
    runs = [begun(outlast, task) for task in ("first", "last")]
    entries = [entry(Header("emit", "here"))]
    works = [lambda c=c: store.finish(store.put(c.hold, entries)) for c in runs]
    disk.arm(failed_write(count=None))
    assert [type(error) for error in in_one_batch(outlast, works)] == [StoreFailed, StoreFailed]
    disk.disarm()
    assert in_one_batch(outlast, works) == [None, None]
    assert [len(outlast.events(c.run.id)) for c in runs] == [2, 2]
    assert outlast.verify().ok


# -- what may not be written -------------------------------------------------------------------------


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that any user may reach: root writes where it likes, so the tests become somebody else."""
    folder = Path(tempfile.mkdtemp(prefix="outlast-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def refusal(home: Path) -> str:
    """What a user without the right to write there is told."""

    def work(tell: Tell) -> None:
        if os.geteuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        try:
            with Outlast(home) as outlast:
                outlast.run(plain)
        except (StoreReadOnly, HomeReadOnly) as error:
            tell("refused", str(error))

    ended = in_child(work, 20)
    assert ended.told("error") == []
    return str(ended.told("refused")[0])


def test_a_folder_that_may_not_be_written_is_named(open_folder: Path) -> None:
    (open_folder / "home").mkdir()
    (open_folder / "home").chmod(0o555)
    assert refusal(open_folder / "home").startswith(f"{open_folder}/home/default cannot be written")


def test_a_store_that_may_not_be_written_is_named(open_folder: Path) -> None:
    home = open_folder / "home"

    def work(tell: Tell) -> None:
        with Outlast(home) as outlast:
            outlast.run(plain)

    assert in_child(work, 20).told("error") == []
    for path in (home, *home.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    assert refusal(home).startswith(f"{home}/default/outlast.db can be looked at, not written")
    with Outlast(home) as outlast:
        assert [run.status for run in outlast.runs()] == ["succeeded"]


def test_a_disk_that_turns_read_only_ends_the_run_and_loses_nothing(outlast: Outlast, disk: Disk) -> None:
    trouble[2] = lambda: disk.arm(Fault("write", apsw.SQLITE_READONLY, count=None))
    with pytest.raises(StoreReadOnly, match="check its owner, its permissions and the mount"):
        outlast.run(plain)
    disk.disarm()
    assert outlast.run(plain).unwrap() == 5
    assert ran.count(1) == 1


# -- of a thread that copies the log -----------------------------------------------------------------


class CopyFaults(FaultVFS):
    """A disk that fails while the log is copied beside the writer."""

    def run(self, kind: Kind, path: Path, call: Callable[[], None]) -> None:
        if threading.current_thread().name == "outlast-log":
            super().run(kind, path, call)
        else:
            call()


@pytest.mark.parametrize("fault", [failed_write, failed_sync, disk_full])
def test_what_fails_while_the_log_is_copied_beside_fails_no_commit(
    fault: Callable[..., Fault], power: PowerVFS, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "COPIED_PAGES", 60)
    monkeypatch.setattr(log, "LOG_BYTES", 0)  # no room ahead: the file is as long as the log was
    disk, never = CopyFaults(next(_names), base=power.name), threading.Event()
    armed = disk.arm(fault(".db", count=None))
    store = SqliteStore(tmp_path / "outlast.db", vfs=disk.name)
    holds, copier = [begin(store, f"run{number}") for number in range(8)], store._writer._copier  # type: ignore[union-attr]
    before = os.stat(f"{store.place}-wal").st_size
    for number in range(60):
        tickets = [store.put(hold, [some(number, text="x" * 1500)]) for hold in holds]
        store.finish(tickets[0])
        while copier._stage == "is copied":
            never.wait(0.001)
    assert armed.fired > 3
    assert os.stat(f"{store.place}-wal").st_size < before + 120 * 4120  # the writer copies it
    power.cut(tmp_path / "cut", DropAll())
    found = SqliteStore(tmp_path / "cut" / "outlast.db")
    assert [broken(found, f"run{number}", 60) for number in range(8)] == [None] * 8
    assert found.check() == []
    found.close()
    store.close()
    disk.unregister()


@pytest.mark.parametrize("case", [case for case in FAULTS if "for a while" not in case])  # then nobody can tell
@pytest.mark.parametrize("number", [1, 2, 5])
def test_entries_in_one_statement_are_there_all_or_none_and_their_runs_go_on(
    case: str, number: int, power: PowerVFS, tmp_path: Path
) -> None:
    disk = FaultVFS(next(_names), base=power.name)
    store = SqliteStore(tmp_path / "outlast.db", vfs=disk.name)
    holds = [begin(store, f"run{number}") for number in range(11)]
    store._writer._tx.connection.pragma("wal_autocheckpoint", 1)  # type: ignore[union-attr]
    fault = FAULTS[case][0]()
    fault.nth = number
    disk.arm(fault)
    tickets, written = [store.put(hold, [some(1)]) for hold in holds], 0
    for ticket in tickets:
        with suppress(StoreFailed, DiskFull):
            store.finish(ticket)
            written += 1
    disk.disarm()
    assert written in (0, 11)
    assert [hold.head for hold in holds] == [written // 11] * 11
    again = [store.put(hold, [some(2)]) for hold in holds]
    store.finish(again[-1])
    assert [broken(store, f"run{number}", written // 11 + 1) for number in range(11)] == [None] * 11
    store.close()
    disk.unregister()
