"""What is not what was stored is no finished run, whatever its row says: gc leaves it alone."""

import pytest

from ..kit.place import Place
from ..kit.travellers import doubtful, sleeper
from ..ready import completed


def tamper(place: Place, sql: str) -> None:
    """From a process of its own: one SQLite library per process and file."""
    place.close()
    program = f"import apsw; apsw.Connection({str(place.home / 'default' / 'outlast.db')!r}).execute({sql!r})"
    completed(("-c", program), check=True)


@pytest.mark.parametrize("edit", ["status = 'succeeded'", "seal = 'copy'", "status = 'aborted', updated_at = -1"])
def test_a_waiting_run_that_was_made_to_look_finished_is_not_removed(place: Place, edit: str) -> None:
    waiting, aborted = place.run(sleeper).run_id, place.run(doubtful).run_id
    place.outlast.abort(aborted, why="not needed")
    tamper(place, f"UPDATE runs SET {edit} WHERE id = '{waiting}'")
    place.clock.advance(3600)
    gone = place.outlast.gc(older_than=60, dry_run=False)
    assert {run.id for run in gone.runs} <= {aborted}
    assert [run.id for run in place.outlast.runs()] == [waiting]
    assert f"run {waiting}" in {problem.record for problem in place.outlast.verify().problems}
