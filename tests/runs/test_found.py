"""A run as it lies in the store: what its holder has added since is read without the rest, and means the same."""

import msgspec

from outlast import Run, flow, step
from outlast.runs.call import fold
from outlast.runs.found import FoundRun, find_newer, find_run

from ..kit.place import Place
from .stories import known


@step
def double(n: int) -> int:
    if n == 3:
        raise ValueError("three")
    return 2 * n


@flow
def doubles(run: Run) -> int:
    return sum(double(n) for n in range(4))


def before(found: FoundRun, count: int) -> FoundRun:
    """The run as it was when its last entries were not there yet."""
    rows = found.rows[:-count]
    return found._replace(rows=rows, ledger=fold(rows))


def test_what_was_added_is_learnt_as_if_all_had_been_read(place: Place) -> None:
    home, run_id = place.outlast._home, place.run(doubles).run_id
    found = find_run(home, run_id)
    for count in range(1, len(found.rows)):
        older = before(found, count)
        newer = home.store.read(lambda look, older=older: find_newer(look, older))
        assert newer.rows == found.rows
        assert (newer.lease, newer.run, newer.breaks) == (found.lease, found.run, ())
        assert known(newer.ledger) == known(found.ledger)


def test_where_it_does_not_follow_all_is_read_again(place: Place) -> None:
    home, run_id = place.outlast._home, place.run(doubles).run_id
    found = find_run(home, run_id)
    older = before(found, 2)
    older.rows[-1] = msgspec.structs.replace(older.rows[-1], hash=b"0" * 32)
    assert home.store.read(lambda look: find_newer(look, older)).rows == found.rows
