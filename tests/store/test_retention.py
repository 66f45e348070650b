"""Removing: a key is used once, and slices leave nothing."""

import random

from outlast.store.contract import KeptOutcome, NewWait, Slice, Store

from .backends import Backend
from .support import begin, some


def bury(store: Store, key: int, run_id: str) -> None:
    store.write(lambda tx: tx.bury(key, run_id, 5, "me", KeptOutcome(0, "", None)))


def test_a_buried_run_leaves_a_tombstone_and_its_journal(store: Store, backend: Backend) -> None:
    hold = begin(store, "r1")
    store.finish(store.put(hold, [some(1), some(2)]))
    store.write(lambda tx: tx.add_interrupt("i1", hold.run_key, NewWait("timer", '["x"]', "s", "{}", 1)))
    store.write(lambda tx: tx.send(hold.run_key, "pause", "{}", "me", 1))
    bury(store, hold.run_key, "r1")
    assert [backend.count(t) for t in ("runs", "chains", "interrupts", "inbox", "journal")] == [0, 0, 0, 0, 2]
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
    assert store.read(lambda look: look.chains_of_blob("b")) == {other.run_key}


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


def test_vacuum_gives_room_back_and_changes_nothing_else(store: Store) -> None:
    hold, kept = begin(store, "r1"), begin(store, "r2")
    store.finish(store.put(hold, [some(n, text=random.Random(n).randbytes(2500).hex()) for n in range(100)]))
    store.finish(store.put(kept, [some(1)]))
    bury(store, hold.run_key, "r1")
    store.write(lambda tx: tx.remove_slice(Slice(hold.run_key, 0, 0, True)))
    before = store.room()
    store.vacuum()
    after = store.room()
    assert after.free_bytes == 0
    assert after.size_bytes < before.size_bytes
    store.finish(store.put(kept, [some(2)]))
    assert store.check() == []
