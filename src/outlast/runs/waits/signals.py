"""Sending signals: durable at once, and taken once, by a wait that is open or by one that is still to come."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from outlast.clock import moment
from outlast.errors import NameInvalid, RunFinished
from outlast.home import once as operations
from outlast.home.once import Operation
from outlast.home.place import check_name
from outlast.runs.claim import refuse_sealed
from outlast.runs.decisions import pass_deadline
from outlast.runs.run import FINISHED
from outlast.runs.waits.ask import signal as question
from outlast.runs.waits.interrupt import NO_DEFAULT
from outlast.runs.waits.notes import note_closed
from outlast.runs.waits.signal import Signal
from outlast.store.contract import InterruptRow, NewSignal, RunRow, Writing
from outlast.values.codec import SENT_BYTES, decode, encode, pack_small

if TYPE_CHECKING:
    from outlast.home.home import Runtime


def send(
    runtime: Runtime, name: str, body: Any, *, task: str | None, run_id: str | None, operation_id: str | None
) -> Signal:
    """Send a signal to a task or a run. Raises NameInvalid, RunNotFound, RunFinished, OperationConflict."""
    question(name, None, NO_DEFAULT)  # the name is one that can be waited for
    raw = pack_small(body, "body", SENT_BYTES).decode()
    if (task is None) == (run_id is None):
        raise NameInvalid("signal", name, "say to whom: a task, or a run")
    run = runtime.row(run_id) if run_id is not None else None
    found = check_name("task", task) if task is not None else ""
    operation = Operation(operation_id, "signal", [name, body, found, run.id if run else ""])

    def work(tx: Writing) -> tuple[Signal, str]:
        sent = _send(runtime, tx, name, raw, found, run)
        return sent, encode(sent).decode()

    return operations.once(runtime, operation, work, _again)


def _again(answer: str) -> Signal:
    return replace(msgspec.json.decode(answer, type=Signal), replayed=True)


def _send(runtime: Runtime, tx: Writing, name: str, raw: str, task: str, run: RunRow | None) -> Signal:
    wait = _waiting(runtime, tx, name, task, run)
    if wait is not None:
        tx.answer_interrupt(wait.id, raw, runtime.actor)
        note_closed(runtime, tx, wait.id)
    at, signal_id = runtime.clock.now(), runtime.ids()
    taken = wait.id if wait else ""
    scope = run.scope if run else runtime.scope
    tx.add_signal(NewSignal(signal_id, scope, task, run.key if run else 0, name, raw, runtime.actor, at, taken))
    to = wait.run_id if wait else run.id if run else ""
    return Signal(signal_id, name, decode(raw), task, to, taken, runtime.actor, moment(at))


def _waiting(runtime: Runtime, tx: Writing, name: str, task: str, run: RunRow | None) -> InterruptRow | None:
    """The oldest open wait for this signal. One whose deadline has passed is answered by that."""
    if run is not None:
        now = tx.run_by_id(run.id)
        if now is None or now.status in FINISHED:
            raise RunFinished(run.id, now.status if now else "removed")
        refuse_sealed(now)
    runs = [run] if run is not None else [row for row in tx.unfinished_of_task(runtime.scope, task) if not row.seal]
    waits = [wait for row in runs for wait in tx.waits_of(row.key)]
    mine = [
        each
        for each in waits
        if each.type == "signal" and each.status == "open" and decode(each.payload)["name"] == name
    ]
    in_order = sorted(mine, key=lambda wait: wait.key)
    return next((wait for wait in in_order if not pass_deadline(runtime, tx, wait)), None)
