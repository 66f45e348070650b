"""Who has received how a run ended: an outcome that nobody was given goes once to the next equal call of `run`.

It is for calls that nothing else leads back to: of a named task and of an operation_id the outcome is always there, and
what was started is read by its id. A delivery is noted with the run and forgotten, without a sync, when its outcome was
returned or printed. Losing that means one redelivery.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from outlast import failpoints
from outlast.errors import OutlastError
from outlast.home.process import is_alive
from outlast.ledger.lease import is_over
from outlast.runs import same_flow
from outlast.store.contract import NewRun, Reading, RunRow, Writing

if TYPE_CHECKING:
    from outlast.home.caller import Caller
    from outlast.home.home import Home
    from outlast.runs.options import Options
    from outlast.runs.run import Outcome


def is_due(home: Home, options: Options) -> bool:
    """Whether this call gets its outcome by returning it, and in no other way."""
    alone = options.returns and not options.named and options.operation_id is None
    return alone and home.settings.redeliver_seconds > 0


def take_undelivered(home: Home, tx: Writing, run: NewRun, options: Options) -> RunRow | None:
    """The run of an equal call whose outcome nobody received lately: from now on it is for this process alone."""
    if not is_due(home, options) or options.fresh or options.again:
        return None
    tx.forget_deliveries(run.scope, run.task, _since(home))
    row = find_undelivered(home, tx, run, options)
    if row is not None:
        tx.beat(home.beat())  # whoever comes now sees that it is being received
        tx.set_receiver(row.key, home.process.id)
        home.held.receiving.add(row.id)
    return row


def find_undelivered(home: Home, look: Reading, run: NewRun, options: Options) -> RunRow | None:
    """The same run, if there is one, and nothing is done about it."""
    if not is_due(home, options) or options.fresh or options.again:
        return None
    for run_id, receiver in look.deliveries_of(run.scope, run.task, _since(home)):
        row = look.run_by_id(run_id)
        if row is not None and _is_equal(home, row, run) and _is_free(home, look, run_id, receiver):
            return row
    return None


def _since(home: Home) -> int:
    return home.clock.now() - int(home.settings.redeliver_seconds * 1_000_000)


def _is_equal(home: Home, row: RunRow, run: NewRun) -> bool:
    same = same_flow.is_same(home, row, run)
    return same and row.inputs_digest == run.inputs_digest and not (row.seal or row.named)


def _is_free(home: Home, look: Reading, run_id: str, receiver: str) -> bool:
    """Whether nobody is about to receive it: no process has it in hand, or the one that had is dead."""
    if receiver == home.process.id:
        return run_id not in home.held.receiving
    beat = look.beat_of(receiver) if receiver else None
    if beat is None:
        return True
    alive, clock = is_alive(beat.process, home.process), home.clock
    return is_over(beat, home.process, alive=alive, boot_us=clock.boot(), wall_us=clock.now())


def expect(home: Home, tx: Writing, run_key: int, run: NewRun, options: Options) -> None:
    """Note, with a new run, that its outcome is to be received by this process."""
    if is_due(home, options):
        tx.add_delivery(run_key, run.scope, run.task, home.process.id)


def note_end(home: Home, tx: Writing, run_key: int, run_id: str, status: str) -> None:
    """With the end of a run: who is about to receive it, if somebody waits here for its success."""
    here = status == "succeeded" and run_id in home.held.receiving
    tx.set_receiver(run_key, home.process.id if here else "")


@contextmanager
def receiving(caller: Caller, run_id: str) -> Iterator[None]:
    """Somebody in this process waits for the outcome of the run. Who is thrown out of that receives nothing."""
    if caller.received_when != "never":
        caller.home.held.receiving.add(run_id)
    try:
        yield
    except BaseException:
        caller.home.held.receiving.discard(run_id)
        raise


def given(caller: Caller, outcome: Outcome[Any]) -> Outcome[Any]:
    """The outcome, for a caller to return: that is to receive it, unless it is still to be printed."""
    if failpoints.armed:
        failpoints.armed("run.returns")
    if caller.received_when == "returned":
        receive(caller.home, outcome)
    return outcome


def receive(home: Home, outcome: Outcome[Any]) -> None:
    """Whoever asked has it. That costs no sync; where it cannot be written, it will be given once more."""
    run_id = outcome.run_id
    if outcome.status == "succeeded":
        with suppress(OutlastError):
            if home.store.read(lambda look: look.is_undelivered(run_id)):
                home.store.write_soon(lambda tx: tx.remove_delivery(run_id))
    home.held.receiving.discard(run_id)
