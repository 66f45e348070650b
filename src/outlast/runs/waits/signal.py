"""Signals: named messages to a run, or to whatever run of a task comes to wait for them.

Sending signals: durable at once, and taken once, by a wait that is open or by one that is still to come.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from outlast.clock import moment
from outlast.errors import NameInvalid, RunFinished
from outlast.home import caller as operations
from outlast.home.caller import Repeatable
from outlast.home.home import run_row
from outlast.home.place import check_name
from outlast.runs.decisions import pass_deadline
from outlast.runs.holder import refuse_sealed
from outlast.runs.run import FINISHED
from outlast.runs.waits.ask import signal as question
from outlast.runs.waits.interrupt import NO_DEFAULT
from outlast.runs.waits.stored import note_closed
from outlast.store.contract import InterruptRow, NewSignal, RunRow, Writing
from outlast.values.codec import SENT_BYTES, decode, encode, pack_small

if TYPE_CHECKING:
    from outlast.home.caller import Caller


class Signal(Struct, frozen=True):
    """A message that was sent. It is consumed once."""

    id: str
    name: str
    body: Any
    task: str
    run_id: str  # the run it was sent to, or the one that it let go on; "" while nobody waits for it
    interrupt: str  # the wait that it answered; "" while it is kept for one to come
    actor: str
    sent_at: datetime
    replayed: bool = False


def send(
    caller: Caller, name: str, body: Any, *, task: str | None, run_id: str | None, operation_id: str | None
) -> Signal:
    """Send a signal to a task or a run. Raises NameInvalid, RunNotFound, RunFinished, OperationConflict."""
    question(name, None, NO_DEFAULT)  # the name is one that can be waited for
    raw = pack_small(body, "body", SENT_BYTES).decode()
    if (task is None) == (run_id is None):
        raise NameInvalid("signal", name, "say to whom: a task, or a run")
    run = run_row(caller.home, run_id) if run_id is not None else None
    found = check_name("task", task) if task is not None else ""
    operation = Repeatable(operation_id, "signal", [name, body, found, run.id if run else ""])

    def work(tx: Writing) -> tuple[Signal, str]:
        sent = _send(caller, tx, name, raw, found, run)
        return sent, encode(sent).decode()

    return operations.once(caller.home, operation, work, _again)


def _again(answer: str) -> Signal:
    return replace(msgspec.json.decode(answer, type=Signal), replayed=True)


def _send(caller: Caller, tx: Writing, name: str, raw: str, task: str, run: RunRow | None) -> Signal:
    wait = _waiting(caller, tx, name, task, run)
    if wait is not None:
        tx.answer_interrupt(wait.id, raw, caller.actor)
        note_closed(caller.home, tx, wait.id)
    at, signal_id = caller.home.clock.now(), caller.home.ids()
    taken = wait.id if wait else ""
    scope = run.scope if run else caller.scope
    tx.add_signal(NewSignal(signal_id, scope, task, run.key if run else 0, name, raw, caller.actor, at, taken))
    to = wait.run_id if wait else run.id if run else ""
    return Signal(signal_id, name, decode(raw), task, to, taken, caller.actor, moment(at))


def _waiting(caller: Caller, tx: Writing, name: str, task: str, run: RunRow | None) -> InterruptRow | None:
    """The oldest open wait for this signal. One whose deadline has passed is answered by that."""
    if run is not None:
        now = tx.run_by_id(run.id)
        if now is None or now.status in FINISHED:
            raise RunFinished(run.id, now.status if now else "removed")
        refuse_sealed(now)
    runs = [run] if run is not None else [row for row in tx.unfinished_of_task(caller.scope, task) if not row.seal]
    waits = [wait for row in runs for wait in tx.waits_of(row.key)]
    mine = [
        each
        for each in waits
        if each.type == "signal" and each.status == "open" and decode(each.payload)["name"] == name
    ]
    in_order = sorted(mine, key=lambda wait: wait.key)
    return next((wait for wait in in_order if not pass_deadline(caller.home, tx, wait)), None)
