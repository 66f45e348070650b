"""Runs that start and end plainly, as callers of a store do it."""

from typing import Any

from outlast import failpoints
from outlast.ledger.lease import Beat, Process
from outlast.store.contract import PROVEN, Ending, Hold, PlainEnd, PlainStart, RunRow, Store, Writing

from .support import new_run, some, start_of

ME = Process("p1", "host", "boot", "namespace", 1, 1, "machine")


def sign_in(store: Store) -> None:
    store.write(lambda tx: tx.beat(Beat(ME, 100, 100, 30.0)))


def start_on(store: Store, run_id: str, task: str = "", **given: Any) -> Any:
    """Start a run as a caller does; "worked" where that was done by its work."""
    run = new_run(run_id, task=task or run_id, **given)

    def work(tx: Writing) -> str:
        if tx.beaten_at(ME.id) is None:
            tx.beat(Beat(ME, 100, 100, 30.0))
        return "worked"

    plain = PlainStart(run, start_of(run_id), some(1), ME.id, 0, 200, "", lambda hold, row: (hold, row))
    return store.write(work, plain)


def end_on(store: Store, hold: Hold, row: RunRow, seq: int = 2) -> Any:
    """End it so; "worked" where that was done by its work."""
    ending = Ending("succeeded", "", '{"value":1}', None, 5)

    def work(tx: Writing) -> str:
        tx.append_last(hold, [some(seq)])
        return "worked"

    return store.write(work, PlainEnd(hold, some(seq), row, ending, ""))


def interrupt_at(point: str) -> None:
    """A Ctrl-C comes at this point of the next commit."""

    def reach(name: str) -> None:
        if name == point:
            failpoints.arm(None)
            raise KeyboardInterrupt

    failpoints.arm(reach)


def wrong_rows(store: Store) -> list[Any]:
    """What is not as its proof says."""
    return [told for table in PROVEN for told in store.read(lambda look, table=table: look.unproven(table, 0, 100))[1]]
