"""The pen: what was taken first is on disk first, whoever writes."""

from __future__ import annotations

from pathlib import Path

from outlast import Outlast, Run, flow
from outlast.ledger.journal import decode_header
from outlast.runs.begin import begin, new_run
from outlast.runs.call import Call, fold
from outlast.runs.claim import RunClaim
from outlast.runs.execution import Execution


@flow
def nothing(run: Run) -> None:
    """A flow that is only begun."""


def begun(outlast: Outlast) -> Execution:
    executor = outlast._executor
    claimed = begin(executor, nothing.spec, new_run(executor.caller, nothing.spec, b"{}"))
    assert isinstance(claimed, RunClaim)
    return Execution(executor, claimed.hold, fold(()), "", resumed=False)


def names(outlast: Outlast, execution: Execution) -> list[str]:
    rows = outlast._executor.home.store.read(lambda look: look.journal_of(execution.hold.run_key))
    return [decode_header(row.header).name for row in rows]


def test_a_value_that_another_thread_has_taken_but_not_written_is_safe_before_the_next_step(tmp_path: Path) -> None:
    with Outlast(tmp_path) as outlast:
        writer = (execution := begun(outlast)).writer
        writer.tell(writer.fact("value", "run.uuid", "u", Call("", "run.uuid", "", 0)))
        with writer.lock:
            writer.queue()  # the heart has taken it, and is not on the processor any more
        assert writer.owed, "a step that begins now must wait"
        with writer.lock:
            mine = writer.queue()
        writer.write(mine)
        assert names(outlast, execution) == ["started", "run.uuid"]


def test_entries_reach_the_journal_in_the_order_in_which_they_were_queued(tmp_path: Path) -> None:
    with Outlast(tmp_path) as outlast:
        writer = (execution := begun(outlast)).writer
        with writer.lock:
            queued = [writer.queue(writer.fact("emit", f"event {number}", None)) for number in range(5)]
        for entries in reversed(queued):
            writer.write(entries)
        assert names(outlast, execution)[1:] == [f"event {number}" for number in range(5)]


def test_once_its_values_are_safe_a_step_waits_for_nothing(tmp_path: Path) -> None:
    with Outlast(tmp_path) as outlast:
        writer = begun(outlast).writer
        writer.tell(writer.fact("value", "run.uuid", "u", Call("", "run.uuid", "", 0)))
        writer.commit()
        assert not writer.owed
