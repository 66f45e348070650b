"""What a step costs on disk: it grows with what happened, and not with its square."""

from pathlib import Path

import msgspec
import pytest

from outlast.ledger.journal import Header, JournalEntry, Payload, entry
from outlast.store.contract import Slice
from outlast.store.sqlite.open import SqliteStore

from ..support import begin, broken, some

STEPS = 2_000


def finished_step(number: int) -> JournalEntry:
    """A receipt as a run writes it, with a result of 1 KB."""
    header = Header(
        "step", "find_sources", "", f"{number:032x}", 0, 1, "succeeded", True, "", "researcher",
        1_767_225_600_000_000 + number, 1_767_225_600_000_900 + number, "", f"{7:032x}", 1, f"{9:032x}",
    )  # fmt: skip
    return entry(header, Payload(result=msgspec.Raw(b'"' + b"x" * 1_022 + b'"')))


def size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.parent.iterdir())


@pytest.mark.parametrize("runs", [1, 20])
def test_a_step_with_a_1_kb_result_takes_at_most_2_kb_and_growth_is_linear(path: Path, runs: int) -> None:
    store = SqliteStore(path, synchronous="OFF")  # how it is synced does not change what is stored
    holds = [begin(store, f"run{number}") for number in range(runs)]
    sizes = []
    for number in range(STEPS):
        store.finish(store.put(holds[number % runs], [finished_step(number)]))
        if number + 1 in (STEPS // 2, STEPS):
            store._writer._tx.connection.wal_checkpoint(mode=3)
            sizes.append(size(path))
    assert broken(store, "run0", STEPS // runs) is None
    store.close()
    first, second = sizes[0], sizes[1] - sizes[0]
    assert path.stat().st_size / STEPS <= 2_000
    assert second <= first * 1.1


def test_vacuum_gives_free_pages_back_to_the_disk(path: Path) -> None:
    store = SqliteStore(path)
    hold = begin(store, "r1")
    store.finish(store.put(hold, [some(n, text="x" * 5000) for n in range(100)]))
    store.write(lambda tx: tx.remove_slice(Slice(hold.run_key, 0, 0, True)))
    before = store.room()
    store.vacuum()
    after = store.room()
    assert before.free_bytes > 400_000
    assert after.free_bytes == 0
    assert after.size_bytes <= before.size_bytes - before.free_bytes
    assert path.stat().st_size == after.size_bytes
    store.close()
