"""Outcomes that are there without running anything: given as they are, checked.

Of a named task that has happened; of the run that an operation_id began; of a run that somebody else runs, once it
ends; and one that nobody received, which goes once to the next equal call of `run`.

The last is for calls that nothing else leads back to. A delivery is noted with the run and forgotten, without a sync,
when its outcome was returned or printed. Losing that means one redelivery.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import msgspec

from outlast import errors, failpoints
from outlast.clock import moment
from outlast.errors import OutlastError
from outlast.flows.spec import FlowSpec
from outlast.home.home import Home, run_row
from outlast.home.process import is_alive
from outlast.ledger.journal import OF_A_CALL, facts_in
from outlast.ledger.lease import is_over
from outlast.runs import claim as claims
from outlast.runs import holder as holders
from outlast.runs import same_flow
from outlast.runs.claim import RunClaim
from outlast.runs.found import FoundRun, find
from outlast.runs.journal import differences
from outlast.runs.run import FINISHED, Options, Outcome, RecordStatus
from outlast.runs.waits.stored import waits_now
from outlast.store.contract import FinishedRow, NewRun, Reading, RunRow, Writing
from outlast.store.contract.runs import refuse_damaged
from outlast.values.codec import decode
from outlast.values.late import asyncio, late

if TYPE_CHECKING:
    from outlast.home.caller import Caller
    from outlast.runs import look as looks
    from outlast.runs import recovery
    from outlast.runs.queues import queue, workers
else:
    looks = late("outlast.runs.look")
    queue, workers = late("outlast.runs.queues.queue"), late("outlast.runs.queues.workers")
    recovery = late("outlast.runs.recovery")


CODE_CHANGED = "code_changed"  # the flow, or a step of it, is not what it was when it ran
RESULT_PRUNED = "result_pruned"  # the run was removed: that it succeeded is known, its result is not


def outcome_of(caller: Caller, spec: FlowSpec, new: NewRun, done: FinishedRow) -> Outcome[Any]:
    """How it ended. Raises TaskAborted, TaskDeclined, InputsConflict; IntegrityBroken when that cannot be trusted."""
    refuse_damaged(done, f"run {done.id}")
    if done.status == "aborted":
        declined = decode(done.error or "{}").get("type") == "declined"
        raise (errors.TaskDeclined if declined else errors.TaskAborted)(new.task, done.id)
    if done.inputs_digest != new.inputs_digest:
        raise errors.InputsConflict(new.task, done.id, "finished")
    return pruned(done.id, "succeeded") if done.removed else succeeded(caller, spec, done.id)


def pruned(run_id: str, status: str) -> Outcome[Any]:
    """How a run ended that was removed since: its result is gone."""
    found = cast(RecordStatus, status)
    return Outcome(run_id, found, replayed=True, notes=(RESULT_PRUNED,) if status == "succeeded" else ())


def succeeded(caller: Caller, spec: FlowSpec, run_id: str) -> Outcome[Any]:
    """The outcome of a run that has succeeded. Raises IntegrityBroken."""
    found = proven(caller.home, run_id)
    body = facts_in(found.rows[-1]).get("code", "")
    changed = bool(body and spec.code and body != spec.code) or bool(recovery.changed_code(caller, found))
    notes = (CODE_CHANGED,) if changed else ()
    return Outcome(run_id, "succeeded", _result(caller.home, spec, found.run), replayed=True, notes=notes)


def proven(home: Home, run_id: str) -> FoundRun:
    """A finished run as it lies in the store. Raises IntegrityBroken: what was changed is nobody's outcome."""

    def look(reading: Reading) -> FoundRun:
        run, lease = reading.run_by_id(run_id), reading.lease_of(run_id)
        assert run is not None
        assert lease is not None
        found = find(reading, run, lease)
        broken = found.unaccepted or next(differences(run, found.rows, reading.interrupts_of(run.key)), None)
        if broken is not None:
            raise broken.as_error()
        return found

    return home.store.read(look)


def _result(home: Home, spec: FlowSpec, run: RunRow) -> Any:
    """The result as the flow's annotation types it; plain when that is another one since."""
    kept = msgspec.json.decode(run.result or "{}", type=dict[str, msgspec.Raw])
    raw = home.blobs.get(decode(bytes(kept["blob"]))) if "blob" in kept else bytes(kept.get("value", b"null"))
    try:
        return spec.decode(raw)
    except msgspec.ValidationError:
        return decode(raw)


# -- of a call that was made before ----------------------------------------------------------------


def repeated(caller: Caller, spec: FlowSpec, run_id: str) -> RunClaim | Outcome[Any]:
    """What became of the run that an operation_id began, or the run to go on with. Raises RunHeld, RunSealed."""
    try:
        row = run_row(caller.home, run_id)
    except errors.RunRemoved as gone:
        return pruned(run_id, gone.status)
    if row.status == "succeeded":
        return succeeded(caller, spec, run_id)
    if row.status == "aborted":
        return replace(looks.outcome_now(caller, row), replayed=True)
    holders.refuse_sealed(row)
    try:
        return standing(caller.home, row) or claims.claim(caller, run_id)
    except errors.RunFinished:  # a moment ago
        return repeated(caller, spec, run_id)


def redelivered(caller: Caller, spec: FlowSpec, row: RunRow) -> Outcome[Any]:
    """What nobody received, with a line that says so."""
    found = succeeded(caller, spec, row.id)
    at = f"{moment(row.updated_at):%Y-%m-%d %H:%M:%S} UTC"
    caller.home.warn(
        f"run {row.id} succeeded at {at}, and nobody received it: this call is given its outcome, once; "
        "the next equal call starts a new run"
    )
    return replace(found, replayed=False, redelivered=True)


def ended(caller: Caller, spec: FlowSpec | None, row: RunRow) -> Outcome[Any]:
    """How a run stands now; a result as the flow's annotation types it, or plain where the flow is not at hand."""
    found = looks.outcome_now(caller, row)  # which may have ended since the row was read
    if spec is None or found.status != "succeeded":
        return found
    return replace(succeeded(caller, spec, row.id), replayed=False)


# -- of a run that somebody else runs --------------------------------------------------------------


POLL_SECONDS = 0.05
UNSERVED_SECONDS = 1.0  # that a queued run is waited for before it is said that nobody will take it


class Awaited:
    """A run that is waited for: each look gives its outcome, the run itself once it can be taken up, or nothing yet."""

    def __init__(
        self, caller: Caller, run_id: str, seconds: float | None, spec: FlowSpec | None = None, *, takes: bool = True
    ) -> None:
        """`takes`: one whose owner died is taken up here; else that is for others."""
        self._takes = takes
        self._began, self._told = time.monotonic(), False
        self._caller, self.run_id, self.seconds, self._spec = caller, run_row(caller.home, run_id).id, seconds, spec
        self._until = None if seconds is None else time.monotonic() + seconds

    def look(self) -> Outcome[Any] | RunClaim | None:
        """How it stands once nobody runs it; a run whose owner died, claimed. Raises RunSealed."""
        row = run_row(self._caller.home, self.run_id)
        if row.status not in FINISHED:
            holders.refuse_sealed(row)  # it goes on elsewhere, if it does
        found = ended(self._caller, self._spec, row)
        if found.status == "crashed":
            return self._taken() if self._takes else None
        if found.status == "queued":
            queue.expire(self._caller)
            self._say_unserved(row)
        return None if found.status in ("queued", "running") else found

    def _say_unserved(self, row: RunRow) -> None:
        """Once it has waited for a moment: that no worker has its flow, if that is so."""
        if self._told or time.monotonic() - self._began < UNSERVED_SECONDS:
            return
        self._told = True
        if looks.record_now(self._caller, row).held_up == workers.NO_WORKER:
            flow = row.source or row.flow
            waits = f"run {row.id} waits in its queue, and no worker has its flow (no_worker)"
            self._caller.home.warn(f"{waits}; start one: outlast work {flow}")

    def _taken(self) -> RunClaim | None:
        try:
            return claims.claim(self._caller, self.run_id)
        except (errors.RunHeld, errors.RunFinished):  # somebody was quicker
            return None

    def naps(self) -> Iterator[float]:
        """How long to wait before each further look. Ends when the time is over."""
        while self._until is None or (left := self._until - time.monotonic()) > 0:
            yield POLL_SECONDS if self._until is None else min(POLL_SECONDS, left)

    def late(self) -> TimeoutError:
        return TimeoutError(f"run {self.run_id} has not ended within {self.seconds} s")


def await_end(awaited: Awaited) -> Outcome[Any] | RunClaim:
    """The outcome of a run, or the run to go on with, once nobody runs it. Raises TimeoutError."""
    if (found := awaited.look()) is not None:
        return found
    for seconds in awaited.naps():
        time.sleep(seconds)
        if (found := awaited.look()) is not None:
            return found
    raise awaited.late()


async def await_end_async(awaited: Awaited) -> Outcome[Any] | RunClaim:
    """The same on an event loop."""
    if (found := awaited.look()) is not None:
        return found
    for seconds in awaited.naps():
        await asyncio.sleep(seconds)
        if (found := awaited.look()) is not None:
            return found
    raise awaited.late()


# -- who has received it ---------------------------------------------------------------------------


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
        if row is None or row.inputs_digest != run.inputs_digest or row.seal or row.named:
            continue
        if same_flow.is_same(home, row, run) and _is_free(home, look, run_id, receiver):
            return row
    return None


def _since(home: Home) -> int:
    return home.clock.now() - int(home.settings.redeliver_seconds * 1_000_000)


def _is_free(home: Home, look: Reading, run_id: str, receiver: str) -> bool:
    """Whether nobody is about to receive it: no process has it in hand, or the one that had is dead."""
    if receiver == home.process.id:
        return run_id not in home.held.receiving
    beat = look.beat_of(receiver) if receiver else None
    if beat is None:
        return True
    alive, clock = is_alive(beat.process, home.process), home.clock
    return is_over(beat, home.process, alive=alive, boot_us=clock.boot(), wall_us=clock.now())


def expect(home: Home, tx: Writing, run_key: int, run: NewRun, options: Options) -> bool:
    """Note, with a new run, that its outcome is to be received by this process; whether that was to be noted."""
    if not is_due(home, options):
        return False
    tx.add_delivery(run_key, run.scope, run.task, home.process.id)
    return True


class Receiving:
    """Somebody in this process waits for the outcome of the run. Who is thrown out of that receives nothing."""

    def __init__(self, caller: Caller, run_id: str) -> None:
        self._receiving, self._run_id = caller.home.held.receiving, run_id
        self._is_received = caller.received_when != "never"

    def __enter__(self) -> None:
        if self._is_received:
            self._receiving.add(self._run_id)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._receiving.discard(self._run_id)


def given(caller: Caller, outcome: Outcome[Any], *, noted: bool = True) -> Outcome[Any]:
    """The outcome, for a caller to return: that is to receive it, unless it is still to be printed."""
    if failpoints.armed:
        failpoints.armed("run.returns")
    if caller.received_when == "returned":
        receive(caller.home, outcome, noted=noted)
    return outcome


def receive(home: Home, outcome: Outcome[Any], *, noted: bool = True) -> None:
    """Whoever asked has it. That costs no sync; where it cannot be written, it will be given once more.

    `noted`: that it was to be received may stand in the store.
    """
    run_id = outcome.run_id
    if noted and outcome.status == "succeeded":
        with suppress(OutlastError):
            if home.store.read(lambda look: look.is_undelivered(run_id)):
                home.store.write_soon(lambda tx: tx.remove_delivery(run_id))
    home.held.receiving.discard(run_id)


def standing(home: Home, row: RunRow) -> Outcome[Any] | None:
    """How a waiting run stands, when nothing has happened that lets it go on."""
    if row.status != "waiting":
        return None
    waits = waits_now(home, row.key)
    now = home.clock.now()
    rows = home.store.read(lambda look: look.waits_of(row.key))
    asks_again = any(
        wait.status == "answered"
        or (wait.due_at is not None and wait.due_at <= now)
        or wait.type == "child"
        or (wait.type in OF_A_CALL and '"probe"' in wait.payload)
        for wait in rows
    )
    untaken = home.store.read(lambda look: look.untaken(row.key))
    if asks_again or untaken or not rows:
        return None
    return Outcome(row.id, "waiting", interrupts=tuple(waits))
