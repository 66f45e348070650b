"""A server that comes back as an older copy of itself, without its last commits: what was open before writes nothing
into it that does not belong there. What the copy lacks is lost, and nobody can say otherwise."""

import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from outlast.errors import LeaseLost
from outlast.store import open as open_by_url
from outlast.store.contract import Hold, Store, Writing

from ...kit.postgres import Server, new_folder
from ..support import begin, broken, lease_of, new_run, some, start_of, take_over


class CopiedServer(Server):
    """A server that can be put back to what it was."""

    def keep(self) -> None:
        self.stop()
        subprocess.run(["cp", "-a", self.folder / "data", self.folder / "kept"], check=True)
        self.start()

    def fail_over(self) -> None:
        """The copy takes its place."""
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder / "data")
        (self.folder / "kept").rename(self.folder / "data")
        self.start()


@pytest.fixture
def own() -> Iterator[CopiedServer]:
    folder = new_folder()
    server = CopiedServer(folder)
    yield server
    server.stop(signal.SIGQUIT)
    shutil.rmtree(folder)


@pytest.fixture
def stores(own: CopiedServer, tmp_path: Path) -> Iterator[list[Store]]:
    """Two processes, as far as the database knows."""
    opened = [open_by_url(own.url("postgres"), blobs=tmp_path).store for _ in range(2)]
    yield opened
    for store in opened:
        store.close()


def test_who_wrote_what_an_older_copy_lacks_writes_nothing_after_it(own: CopiedServer, stores: list[Store]) -> None:
    one, other = stores
    hold = begin(one, "run1")
    one.finish(one.put(hold, [some(1)]))
    own.keep()
    one.finish(one.put(hold, [some(2)]))
    own.fail_over()
    with pytest.raises(LeaseLost):
        one.finish(one.put(hold, [some(3)]))
    assert broken(one, "run1", 1) is None
    taken = take_over(other, hold)
    other.finish(other.put(taken, [some(2)]))
    assert broken(one, "run1", 2) is None


def test_the_same_epoch_and_head_are_not_the_same_history(own: CopiedServer, stores: list[Store]) -> None:
    """Each took the run over and wrote as much, the one before the failover and the other after it."""
    one, other = stores
    hold = begin(one, "run1")
    own.keep()
    before = take_over(one, hold)
    one.finish(one.put(before, [some(1, who="before")]))
    own.fail_over()
    after = take_over(other, hold)
    other.finish(other.put(after, [some(1, who="after")]))
    assert (before.epoch, before.head, before.lease_key) == (after.epoch, after.head, after.lease_key)
    for late in ([some(2)], [some(2), some(3)]):
        with pytest.raises(LeaseLost):
            one.finish(one.put(before, late))
    other.finish(other.put(after, [some(2)]))
    assert broken(one, "run1", 2) is None


def test_work_that_was_lost_in_a_crash_is_done_again_although_another_has_its_number_of_a_transaction(
    own: CopiedServer, stores: list[Store]
) -> None:
    """The number of a transaction of which nothing came to the disk is given again after a crash."""
    numbers: list[int] = []

    def work(tx: Writing) -> Hold:
        if not numbers:
            connection = tx.connection  # type: ignore[attr-defined]
            numbers.append(number_of(connection))
            own.stop(signal.SIGQUIT)
            own.start()
            with psycopg.connect(own.url("postgres"), autocommit=True) as other:
                while number_of(other) < numbers[0]:  # each is a transaction, and is committed
                    pass
        return tx.add_run(new_run("run1"), start_of("run1"), "p1")

    hold = stores[0].write(work)
    stores[0].finish(stores[0].put(hold, [some(1)]))
    assert broken(stores[1], "run1", 1) is None


def number_of(connection: psycopg.Connection[tuple[int]]) -> int:
    ((number,),) = connection.execute("SELECT pg_current_xact_id()::text::bigint")
    return number


def test_a_run_whose_number_another_has_after_a_failover_writes_nothing_to_it(
    own: CopiedServer, stores: list[Store]
) -> None:
    one, other = stores
    begin(one, "first")
    own.keep()
    lost = begin(one, "lost")
    own.fail_over()
    found = begin(other, "found")
    if lost.run_key != found.run_key:  # a server that was copied while it ran leaves some numbers out
        pytest.fail("the number was not given again: the test shows nothing")
    with pytest.raises(LeaseLost):
        one.finish(one.put(lost, [some(1)]))
    assert broken(other, "found", 0) is None
    assert lease_of(other, "found").head == 0
