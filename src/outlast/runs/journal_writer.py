"""What a run writes: entries on their way to its journal, and the moment they are safe.

Entries that need no commit of their own wait here and ride with the next one. Values the body was told are
counted until they are on disk, because no step may show one to the world before.

Taking what waits and queueing its commit are one step under the lock: the queue is first in, first out, so whoever
queues later knows that what was taken earlier is safe when his own entries are.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from outlast.clock import Clock
from outlast.errors import OutlastError, Severed
from outlast.flows.loading import lasting
from outlast.ledger.journal import Header, JournalEntry, Payload, encode_header, encode_payload, entry
from outlast.runs.attempt import Attempt
from outlast.runs.call import Call, id_of
from outlast.runs.step_inputs import blobs_of
from outlast.store.contract import Ending, Hold, PlainEnd, RunRow, Store, Ticket, Writing
from outlast.values.codec import digest
from outlast.values.late import late

if TYPE_CHECKING:
    import asyncio

    from outlast.runs.call_flat import StepForm
    from outlast.runs.outputs import saves
    from outlast.runs.step import StepSpec
else:
    saves = late("outlast.runs.outputs.saves")
    asyncio = late("asyncio")


_lasting = lru_cache(maxsize=1024)(lasting)  # of code that is loaded: where it is does not change any more


class Entries(msgspec.Struct, eq=False):
    """Entries in the queue to the journal, and how many of them are values the body was told."""

    ticket: Ticket
    last: JournalEntry | None
    values: int


class JournalWriter:
    """What one execution writes. `lock` guards what waits."""

    def __init__(self, store: Store, clock: Clock, hold: Hold, trace_id: str, project: Path | None) -> None:
        self.store, self.clock, self.hold, self.trace_id = store, clock, hold, trace_id
        self.project = project
        self.lock = threading.Lock()
        self.severed: OutlastError | None = None  # why this worker may write no more
        self.waiting: list[JournalEntry] = []  # to ride with the next commit
        self.owed = 0  # values the body was told that are not on disk yet: no step may show one to the world
        self._held = 0  # of these, the ones that wait here
        self.forms: dict[tuple[str, str], StepForm] = {}  # of steps, by name and scope (`call_flat.py`)
        self.placed: set[str] = set()  # codes whose place this execution has written down

    # -- making entries --------------------------------------------------------------------------

    def receipt(
        self, attempt: Attempt, status: str, payload: Payload, *, delivered: bool = False, mark: str = ""
    ) -> JournalEntry:
        """The entry about an attempt: its start or its outcome."""
        asked = attempt.asked
        spec, call = asked.spec, asked.call
        place = self.new_place(spec)
        if place is not None:
            payload = msgspec.structs.replace(payload, place=place)
        names: tuple[str, ...] = ((payload.blob,) if payload.blob else ()) + blobs_of(payload.inputs)
        if attempt.facts:
            payload = msgspec.structs.replace(payload, facts=attempt.facts)
            names += attempt.blobs
            attempt.facts, attempt.blobs = None, ()
        kept = encode_payload(payload)
        raw = None if kept == b"{}" else kept
        header = Header(
            spec.kind,
            call.step,
            call.scope,
            call.inputs,
            call.occurrence,
            attempt.number,
            status,
            delivered,
            mark,
            spec.agent,
            attempt.started_at,
            0 if status == "started" else self.clock.now(),
            attempt.key,
            spec.code,
            self.hold.epoch,
            self.trace_id,
            f"{asked.item}#{asked.digest}" if asked.item else asked.digest,
            digest(raw) if raw else "",
        )
        return JournalEntry(encode_header(header), raw, names)

    def new_place(self, spec: StepSpec) -> list[str] | None:
        """Where a step's code is, for the first receipt of it that this execution writes."""
        if not spec.code or spec.code in self.placed:
            return None
        self.placed.add(spec.code)
        file, qualname = spec.place
        return [_lasting(file, self.project), qualname]

    def fact(
        self,
        kind: str,
        name: str,
        facts: Any,
        call: Call | None = None,
        mark: str = "",
        agent: str = "",
        blob: str = "",
        said_in: Attempt | None = None,
        masked: int = 0,
        result: Any = msgspec.UNSET,
    ) -> JournalEntry:
        """An entry that is no receipt."""
        scope, inputs, occurrence = (call.scope, call.inputs, call.occurrence) if call else ("", "", 0)
        now = self.clock.now()
        header = Header(
            kind,
            name,
            scope,
            inputs,
            occurrence,
            delivered=True,
            mark=mark,
            agent=agent,
            started_at=now,
            ended_at=now,
            epoch=self.hold.epoch,
            trace_id=self.trace_id,
            attempt=said_in.number if said_in else 0,
            key=id_of(said_in.asked.call) if said_in else "",
        )
        return entry(header, Payload(facts=facts, blob=blob, masked=masked, result=result))

    # -- what waits (the first two take the lock themselves) -------------------------------------

    def note(self, made: JournalEntry) -> None:
        """Let an entry ride with the next commit."""
        with self.lock:
            self.waiting.append(made)

    def tell(self, made: JournalEntry) -> None:
        """The same for a value that the body is told: the next step waits until it is safe."""
        with self.lock:
            self.owed += 1
            self._held += 1
            self.waiting.append(made)

    def queue(self, *entries: JournalEntry) -> Entries:
        """Queue everything that waits, and these after it. With the lock held."""
        last = entries[-1] if entries else None
        if not self.waiting:
            return Entries(self.store.put(self.hold, entries), last, 0)
        waited, held = self.waiting, self._held
        self.waiting, self._held = [], 0
        return Entries(self.store.put(self.hold, [*waited, *entries]), last, held)

    def queue_work(self, work: Callable[[Writing], Any], *entries: JournalEntry) -> Entries:
        """The same together with a piece of work, in one transaction. With the lock held."""
        waited, held = self.waiting, self._held
        self.waiting, self._held = [], 0

        def all_of_it(tx: Writing) -> Any:
            tx.append(self.hold, [*waited, *entries])
            return work(tx)

        return Entries(self.store.put_work(all_of_it), entries[-1] if entries else None, held)

    def queue_end(self, work: Callable[[Writing], list[JournalEntry]], plain: PlainEnd | None = None) -> Entries:
        """Everything that waits, and the entries that the work gives, as the last of this holder. With the lock held.

        The lease guards them and is let go of with them. `plain`: as of `Store.put_work`.
        """
        waited, held = self.waiting, self._held
        self.waiting, self._held = [], 0
        put = self.store.put_work(lambda tx: tx.append_last(self.hold, [*waited, *work(tx)]), plain)
        return Entries(put, None, held)

    def plain_end(self, row: RunRow, fact: JournalEntry, ending: Ending, receiver: str) -> PlainEnd | None:
        """This fact as the last of a run; None where more entries wait, or it refers to a blob."""
        return None if self.waiting or fact.blobs else PlainEnd(self.hold, fact, row, ending, receiver)

    def queue_receipt(self, attempt: Attempt, status: str, payload: Payload, *, delivered: bool, mark: str) -> Entries:
        """The receipt of an attempt, in one transaction with what becomes of what it kept. With the lock held."""
        made = self.receipt(attempt, status, payload, delivered=delivered, mark=mark)
        if attempt.kept is not None:
            fate = saves.fate_of(attempt, status, delivered=delivered, mark=mark)
            saved = attempt.saved if status == "succeeded" else ()  # can be seen from now on
            told = [self.fact("artifact", "saved", about, said_in=attempt) for about in saved]
            return self.queue_work(fate, *told, made) if fate is not None else self.queue(*told, made)
        return self.queue(made)

    # -- writing ---------------------------------------------------------------------------------

    def write(self, entries: Entries) -> Any:
        """Make queued entries durable. A store that refuses them takes the run away from this worker."""
        try:
            result = self.store.finish(entries.ticket)
        except OutlastError as error:
            self.sever(error)
        self.is_safe(entries)
        return result

    def append_now(self, made: JournalEntry) -> bool:
        """Make one entry durable if nobody else is writing. False: nothing was done, it is to be queued like others."""
        try:
            return self.store.append_now(self.hold, made)
        except OutlastError as error:
            self.sever(error)

    def append(self, made: JournalEntry) -> None:
        """Make one entry durable before which nothing waits."""
        try:
            if not self.store.append_now(self.hold, made):
                self.store.append(self.hold, made)
        except OutlastError as error:
            self.sever(error)

    def commit(self, *entries: JournalEntry) -> None:
        """Make these durable now, with everything that waits before them."""
        with self.lock:
            queued = self.queue(*entries)
        self.write(queued)

    def commit_work(self, work: Callable[[Writing], Any], *entries: JournalEntry) -> Any:
        """The same together with a piece of work, in one transaction. Gives what the work gives."""
        with self.lock:
            queued = self.queue_work(work, *entries)
        return self.write(queued)

    def put(self, made: JournalEntry) -> Entries:
        """Queue one entry, and all that waits before it."""
        with self.lock:
            return self.queue(made)

    def write_soon(self, entries: Entries) -> Awaitable[None] | None:
        """The same on an event loop: None when it is done, else what to await (then call `is_safe`)."""
        try:
            later = self.store.finish_soon(entries.ticket)
        except OutlastError as error:
            self.sever(error)
        if later is None:
            self.is_safe(entries)
        return later

    def is_safe(self, entries: Entries) -> None:
        """These entries are on disk."""
        if entries.values:
            with self.lock:
                self.owed -= entries.values

    def sever(self, error: OutlastError) -> NoReturn:
        """Nothing more can be written: end the body."""
        self.severed = error
        raise Severed from error


# -- from an event loop ------------------------------------------------------------------------------


async def finish(store: Store, ticket: Ticket) -> tuple[Any, asyncio.CancelledError | None]:
    """What the queued work gives, once it is durable; and what this task was cancelled by meanwhile. Raises as it.

    What is queued will be written, whoever still waits for it: a task that is cancelled meanwhile is cancelled once
    that is known, so that nothing of a run is left behind that nobody knows of.
    """
    later, cancelled = store.finish_surely(ticket), None
    if later is not None:
        try:
            await later
        except asyncio.CancelledError as error:
            cancelled = error
    return store.finish(ticket), cancelled
