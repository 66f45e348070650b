"""A run being executed: the one place where calls meet the ledger.

Owns identity, replay, the start and the outcome of every attempt, and what waits to be written. It calls no
user code: `drive` says what is to be done next, and the two drivers in calls.py (plain and async) do it.

Order of writes for a step:    [start synced where it must be] -> body -> receipt (synced) -> delivered.
Order of writes for an effect: intent (synced) -> body -> outcome (synced) -> delivered. A crash between intent
and outcome leaves the effect in doubt: its probe is asked, then a person, before anything runs again.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from holdfast import failpoints
from holdfast.domain.call import (
    GOOD,
    Call,
    Changed,
    Doubtful,
    Fresh,
    Ledger,
    NextCall,
    Past,
    Poisoned,
    Replay,
    next_call,
)
from holdfast.domain.codec import digest_inputs, encode, pack
from holdfast.domain.digest import digest, identity
from holdfast.domain.journal import (
    CALLS,
    Entry,
    Header,
    Payload,
    decode_header,
    decode_payload,
    encode_header,
    encode_payload,
    entry,
)
from holdfast.errors import (
    HoldfastError,
    Paused,
    Severed,
    StepNameTaken,
    Stopped,
    Unavailable,
    ValueRefused,
)
from holdfast.runtime import failure
from holdfast.runtime.attempt import BODY, HANG, PARK, PROBE, SLEEP, WRITE, Asked, Attempt, Do, Raised, Returned
from holdfast.runtime.context import Frame
from holdfast.runtime.effects import NOT_DONE, Happened
from holdfast.runtime.specs import StepSpec
from holdfast.runtime.state import State
from holdfast.store.contract import Hold, Writing

if TYPE_CHECKING:
    from holdfast.runtime import Runtime
    from holdfast.runtime.branches import Branches
    from holdfast.runtime.children import Child

Driven = Generator[Do, Any, Any]


class Execution:
    """One run, one owner, from its claim to the end of its body."""

    def __init__(self, runtime: Runtime, hold: Hold, ledger: Ledger, trace_id: str, *, resumed: bool) -> None:
        self.runtime, self.store, self.clock = runtime, runtime.store, runtime.clock
        self.settings = runtime.settings
        self.hold, self.ledger, self.trace_id = hold, ledger, trace_id
        self.id = hold.run_id
        self.state = State(self.settings.state_bytes)
        self.phase = ""
        self.phase_changed = False
        self.waits: set[Call] = set()  # that this execution opened or found still open
        self.lock = threading.Lock()
        self.pending: list[Entry] = []  # rides with the next commit
        self.open: dict[int, Attempt] = {}
        self.ticks = 0  # of the process's heart since this execution began
        self.replayed = 0
        self.code_changed: set[str] = set()  # replayed steps whose code is not what it was
        self.ran: set[str] = set()  # names of the steps that ran in this execution
        self.needs: set[str] = set()
        self.branches: Branches | None = None  # of an async body
        self.children: list[Child[Any]] = []
        self.paused = False  # a plain body has been ended by a wait
        self.stopping = False
        self.failing = False  # an async body has failed: what it leaves running ends with it
        self.severed: HoldfastError | None = None
        self._counts: dict[tuple[str, str, str], int] = {}
        self._functions: dict[str, Any] = {}
        self._codes: set[str] = set()  # whose place this execution has written down
        self._sync_start = resumed  # the first new step after a resume is on disk before its body
        self._told = self._safe = self._held = 0  # values the body was told; on disk; waiting in `pending`
        self._failed: dict[int, tuple[BaseException, Call, int]] = {}
        self._cancelled: list[Call] = []  # by the flow, in order
        self._settled = 0  # how many of them another outcome followed

    # -- asking ----------------------------------------------------------------------------------

    def gate(self) -> None:
        """Every call of the body passes here: a body that must end does not get past it."""
        if self.severed is not None:
            raise Severed from self.severed
        if self.paused:
            raise Paused
        if self.stopping:
            raise Stopped

    @property
    def ending(self) -> bool:
        """Whether the run's part in this process is over: calls that end now are not the flow's doing."""
        return self.stopping or self.paused or self.failing or self.severed is not None

    def ask(
        self, frame: Frame, spec: StepSpec, args: tuple[Any, ...], kwargs: Mapping[str, Any], call_id: str | None
    ) -> Asked:
        """Which call this is, and what it does: replay, run, or wait."""
        if self.severed is not None or self.paused or self.stopping:
            self.gate()
        if self._functions.get(spec.name) is not spec.function:
            self._know(spec)
        inputs = spec.signature.bind(args, kwargs)
        seen = digest_inputs(inputs, spec.name)
        call = self.numbered(frame, spec.name, f"={call_id}" if call_id else seen)
        found = next_call(call, spec.kind, self.ledger, self.settings.crashes_before_asking)
        if call_id and isinstance(found, Replay) and found.past.last.seen != seen:
            found = self._changed_by_id(found.past)
        if isinstance(found, Replay | Doubtful):
            found.past.asked = True
        return Asked(spec, call, seen if call_id else "", inputs, args, kwargs, found)

    @staticmethod
    def _changed_by_id(past: Past) -> NextCall:
        """A call whose id is known and whose inputs are not: a skipped one was decided on whatever they are."""
        if past.last.status == "skipped":
            return Replay(past)
        return Changed(past) if past.kind == "effect" else Fresh(past.attempts + 1)

    def ask_all(self, frame: Frame, spec: StepSpec, items: Iterable[Any]) -> list[Asked]:
        """The calls of a map: what is left over is known only when all of them have been asked for."""
        asked = [self.ask(frame, spec, (item,), {}, None) for item in items]
        for one in asked:
            if isinstance(one.next, Changed):
                one.next = next_call(one.call, spec.kind, self.ledger, self.settings.crashes_before_asking)
        return asked

    def numbered(self, frame: Frame, name: str, inputs: str) -> Call:
        """The call's identity: which of the equal calls in its scope it is."""
        with self.lock:
            scope = frame.scope
            if scope is None:
                scope = frame.scope = self._scope_of_task(frame.base, name, inputs)
            place = (scope, name, inputs)
            number = self._counts.get(place, 0)
            self._counts[place] = number + 1
        return Call(scope, name, inputs, number)

    def _scope_of_task(self, base: str, name: str, inputs: str) -> str:
        """A task is known by the call it begins with, and by a number among tasks that begin equally."""
        begins = (base, "~" + name, inputs)
        number = self._counts.get(begins, 0)
        self._counts[begins] = number + 1
        told = f":{identity(inputs.encode())[:8]}" if inputs else ""
        return f"{base}~{name}{told}{f'#{number + 1}' if number else ''}/"

    def _know(self, spec: StepSpec) -> None:
        known = self._functions.get(spec.name)
        if known is None:
            self._functions[spec.name] = spec.function
        elif known is not spec.function and known.__code__ is not spec.function.__code__:
            first, second = (f"{f.__module__}.{f.__qualname__}" for f in (known, spec.function))
            raise StepNameTaken(spec.name, first, second)

    # -- driving ---------------------------------------------------------------------------------

    def drive(self, asked: Asked) -> Driven:
        """What to do for a call, one thing at a time; its value is what the flow gets."""
        found = asked.next
        if isinstance(found, Fresh):
            return self._attempts(asked, found.attempt, found.failures)
        if isinstance(found, Replay):
            return self._replay(asked, found.past)
        return self._decide(asked, found)

    def _decide(self, asked: Asked, found: Doubtful | Poisoned | Changed) -> Driven:
        """A call that only its probe or a person can settle."""
        number, failures = 1, 0
        match found:
            case Doubtful():
                found.past.asked = True
                settled = yield from self._ask_probe(asked, self._revived(asked, found.past), None)
                if settled is not None:
                    return settled[0]
                number, failures = found.past.attempts + 1, found.past.failures
            case Poisoned():
                yield from self._wait(asked, "crash_loop", {"crashes": found.past.crashes + found.past.open})
            case Changed():
                yield from self._wait(asked, "inputs_changed", self._changed(found.past) | {"seen": asked.digest})
        return (yield from self._attempts(asked, number, failures))

    def _attempts(self, asked: Asked, number: int, failures: int) -> Driven:
        self.ran.add(asked.spec.name)
        while True:
            attempt = self._attempt(asked, number, failures)
            before = self._begin(attempt)
            if before is not None:
                yield WRITE, before
            if failpoints.armed:
                failpoints.armed("step.begun")
            ended = yield BODY, attempt
            if failpoints.armed:
                failpoints.armed("step.ended")
            if isinstance(ended, Returned):
                packed = self._pack(attempt, ended.value)
                if not isinstance(packed, Raised):
                    yield WRITE, self._close(attempt, "succeeded", True, "", packed[1])
                    return packed[0]
                ended = packed
            settled = yield from self._failed_attempt(attempt, ended)
            if settled is not None:
                return settled[0]
            number, failures = number + 1, attempt.failures

    def _failed_attempt(self, attempt: Attempt, ended: Raised) -> Driven:
        """Record a failure. None: try again; a tuple: the value after all; raises what the flow gets."""
        spec, error = attempt.asked.spec, ended.error
        if ended.status == "interrupted":
            yield WRITE, self._close(attempt, "interrupted", False, self._mark(spec), self._error(error))
            raise error
        if spec.is_effect and not spec.says_not_done(error):
            yield WRITE, self._close(attempt, ended.status, False, self._mark(spec), self._error(error))
            if ended.status == "cancelled":
                self.open_wait(attempt.asked, "in_doubt", {"attempt": attempt.number})
                self.paused = True
                raise error
            return (yield from self._ask_probe(attempt.asked, attempt, error))
        if ended.status == "cancelled":
            self.was_cancelled(attempt.asked.call)
            yield WRITE, self._close(attempt, "cancelled", True, "", Payload())
            raise error
        attempt.failures += 1
        final = attempt.failures > spec.retries or (isinstance(error, HoldfastError) and ended.status == "failed")
        mark = "not_done" if spec.is_effect else ""
        yield WRITE, self._close(attempt, ended.status, final, mark, self._error(error))
        if final:
            raise self.fail(failure.deliverable(error, spec.name), attempt.asked.call)
        yield SLEEP, spec.delay(attempt.failures)
        return None

    def _ask_probe(self, asked: Asked, attempt: Attempt, error: BaseException | None) -> Driven:
        """Settle an effect in doubt. A tuple: it happened; None: it did not, try again; else the run waits."""
        spec = asked.spec
        if spec.confirm is None:
            yield from self._wait(asked, "in_doubt", {"attempt": attempt.number})
        answer = yield PROBE, attempt
        if failpoints.armed:
            failpoints.armed("probe.ended")
        attempt.closed = False
        if isinstance(answer, Happened):
            packed = self._pack(attempt, answer.value)
            if not isinstance(packed, Raised):
                yield WRITE, self._close(attempt, "succeeded", True, "confirmed", packed[1])
                return (packed[0],)
            answer = packed.error
        if answer is not NOT_DONE:
            why = f"{type(answer).__name__}: {answer}" if isinstance(answer, BaseException) else "UNKNOWN"
            yield from self._wait(asked, "in_doubt", {"attempt": attempt.number, "probe": why})
        attempt.failures += error is not None
        final = error is not None and attempt.failures > spec.retries
        kept = self._error(error) if error is not None else Payload()
        yield WRITE, self._close(attempt, "failed", final, "not_done", kept)
        if final and error is not None:
            raise self.fail(failure.deliverable(error, spec.name), asked.call)
        if error is not None:
            yield SLEEP, spec.delay(attempt.failures)
        return None

    def _wait(self, asked: Asked, kind: str, payload: dict[str, Any]) -> Driven:
        self.open_wait(asked, kind, payload)
        yield PARK, None
        raise Paused  # a parked branch that goes on has nothing to go on with

    # -- replaying -------------------------------------------------------------------------------

    def _replay(self, asked: Asked, past: Past) -> Driven:
        self.replayed += 1
        if past.last.code != asked.spec.code and past.last.code:
            self.code_changed.add(asked.spec.name)
        payload = decode_payload(past.payload) if past.payload else Payload()
        if payload.wrote:
            self.state.apply(_unwrapped(payload.wrote))
        if past.last.status == "cancelled":
            yield HANG, None  # the flow cancelled it, and will again
        self._settled = len(self._cancelled)
        if past.last.status in GOOD:
            return self.result_of(payload, asked.spec)
        raise self.fail(failure.rebuild(payload.error or {}, asked.spec.name), asked.call)

    def result_of(self, payload: Payload, spec: StepSpec) -> Any:
        """A recorded result, as the annotation of today names it."""
        raw = self.runtime.blobs.get(payload.blob) if payload.blob else payload.result
        if raw is msgspec.UNSET:
            return None
        try:
            return spec.decode(raw)
        except msgspec.ValidationError as error:
            remedy = "annotate what it returned then, skip it with a result that fits, or rewind to it"
            raise ValueRefused(f"the recorded result of {spec.name}", str(error), remedy) from error

    # -- the start and the end of an attempt -----------------------------------------------------

    def _attempt(self, asked: Asked, number: int, failures: int) -> Attempt:
        key = self.key_of(asked.call) if asked.spec.is_effect else ""
        return Attempt(asked, number, failures, key, self.clock.now(), self.ticks)

    def _revived(self, asked: Asked, past: Past) -> Attempt:
        """The attempt that was left in doubt, to record what became of it."""
        last = past.last
        return Attempt(asked, past.attempts, past.failures, last.key, last.started_at, 0, recorded=True)

    def key_of(self, call: Call) -> str:
        """The same on every attempt of this call, and on no other call's."""
        return f"{self.id}-{identity(encode(call))[:16]}"

    def _begin(self, attempt: Attempt) -> Entries | None:
        """Register the start. What it gives must be on disk before the body runs.

        Values the body was told (a uuid it may use as a key) are safe before any step can show them to the world.
        """
        spec = attempt.asked.spec
        with self.lock:
            self.open[id(attempt)] = attempt
            if spec.is_effect or spec.writes or self._sync_start:
                self._sync_start = False
                return self._take_pending(self._start_entry(attempt))
            return self._take_pending() if self._told != self._safe else None

    def late_starts(self) -> Entries:
        """At each tick: starts (and events) that have waited for a whole one for a commit to ride with."""
        with self.lock:
            self.ticks += 1
            late = [a for a in self.open.values() if not a.recorded and a.tick < self.ticks - 1]
            if not late and not self.pending:
                return Entries()
            return self._take_pending(*(self._start_entry(attempt) for attempt in late))

    def _start_entry(self, attempt: Attempt) -> Entry:
        attempt.recorded = True
        return self._entry(attempt, "started", False, self._mark(attempt.asked.spec), Payload())

    @staticmethod
    def _mark(spec: StepSpec) -> str:
        return "probed" if spec.confirm is not None else ""

    def _close(self, attempt: Attempt, status: str, delivered: bool, mark: str, payload: Payload) -> Entries:
        """The receipt of an attempt, with everything that waited to ride along."""
        with self.lock:
            attempt.closed = True
            self.open.pop(id(attempt), None)
            dirty = self.state.take_dirty()
            if dirty:
                payload = msgspec.structs.replace(payload, state=_wrapped(dirty))
            if status == "succeeded" and attempt.wrote:
                self.state.apply(attempt.wrote)
            if delivered and status != "cancelled":
                self._settled = len(self._cancelled)
            return self._take_pending(self._entry(attempt, status, delivered, mark, payload))

    def _take_pending(self, *entries: Entry) -> Entries:
        taken = Entries(entries)
        if self.pending:
            taken = Entries([*self.pending, *entries], self._held)
            self.pending, self._held = [], 0
        return taken

    def _pack(self, attempt: Attempt, value: Any) -> tuple[Any, Payload] | Raised:
        """A body's value as it will come back, and the payload that keeps it. A refused one is a failure."""
        spec = attempt.asked.spec
        try:
            raw, copy = pack(value, spec.decode, f"{spec.name}()")
            blob = ""
            if len(raw) > self.settings.inline_bytes:
                blob = self.runtime.blobs.put(raw)
        except Unavailable as error:  # it is not the step that failed: nothing more can be kept
            self.sever(error)
        except HoldfastError as error:
            return Raised(error)
        kept: Any = msgspec.UNSET if blob or raw == b"null" else msgspec.Raw(raw)
        wrote = _wrapped(attempt.wrote) if attempt.wrote else None
        return copy, Payload(result=kept, blob=blob, wrote=wrote, done=attempt.done, next=attempt.next)

    @staticmethod
    def _error(error: BaseException) -> Payload:
        return Payload(error=failure.record(error))

    def _entry(self, attempt: Attempt, status: str, delivered: bool, mark: str, payload: Payload) -> Entry:
        asked = attempt.asked
        spec, call = asked.spec, asked.call
        code = spec.code
        if code and code not in self._codes:
            self._codes.add(code)
            payload = msgspec.structs.replace(payload, place=list(spec.place))
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
            code,
            self.hold.epoch,
            self.trace_id,
            asked.digest,
            digest(raw) if raw else "",
        )
        return Entry(encode_header(header), raw, (payload.blob,) if payload.blob else ())

    # -- the body's own calls --------------------------------------------------------------------

    def note(self, kind: str, name: str, facts: Any, call: Call | None = None, mark: str = "", agent: str = "") -> None:
        """An entry that rides with the next commit."""
        with self.lock:
            self.pending.append(self.fact(kind, name, facts, call, mark, agent))

    def fact(
        self, kind: str, name: str, facts: Any, call: Call | None = None, mark: str = "", agent: str = ""
    ) -> Entry:
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
        )
        return entry(header, Payload(facts=facts))

    def value(self, frame: Frame, name: str, make: Callable[[], Any]) -> Any:
        """A value the body is told once: the same on replay."""
        if frame.attempt is not None:
            return make()
        self.gate()
        call = self.numbered(frame, name, "")
        past = self.ledger.calls.get(call)
        if past is not None:
            past.asked = True
            return decode_payload(past.payload).facts if past.payload else None
        made = make()
        with self.lock:
            self._told += 1
            self._held += 1
            self.pending.append(self.fact("value", name, made, call))
        return made

    def emit(self, frame: Frame, name: str, body: Any, kind: str) -> None:
        """An event. From the body it has an identity and is written once; from a step, once per attempt."""
        encode_checked = digest_inputs({"body": body}, f"emit({name!r})")
        if frame.attempt is not None:
            self.note("emit", name, body, None, kind, frame.attempt.asked.spec.name)
            return
        self.gate()
        call = self.numbered(frame, name, f"!{encode_checked}")
        past = self.ledger.calls.get(call)
        if past is None:
            self.note("emit", name, body, call, kind)

    def write(self, entries: Entries) -> None:
        """Make entries durable. A store that refuses them takes the run away from this worker."""
        try:
            self.store.append(self.hold, entries)
        except HoldfastError as error:
            self.sever(error)
        self.values_safe(entries)

    def write_soon(self, entries: Entries) -> Awaitable[None] | None:
        """The same on an event loop: None when it is done, else what to await (then call `values_safe`)."""
        try:
            later = self.store.append_async(self.hold, entries)
        except HoldfastError as error:
            self.sever(error)
        if later is None:
            self.values_safe(entries)
        return later

    def values_safe(self, entries: Entries) -> None:
        if entries.values:
            with self.lock:
                self._safe += entries.values

    def cancelled_late(self, asked: Asked, entries: Entries) -> None:
        """The flow cancelled a call while its entries were being written: that is what the flow was given.

        The entries are in the journal before this one. An effect whose outcome is known keeps it.
        """
        self.values_safe(entries)
        last = decode_header(entries[-1].header) if entries else None
        with self.lock:
            for attempt in [a for a in self.open.values() if a.asked is asked]:
                del self.open[id(attempt)]
        if last is None or last.kind not in CALLS or (last.kind == "effect" and last.status != "started"):
            return
        if self.ending and last.status != "started":
            return
        changed: dict[str, Any] = {"ended_at": self.clock.now(), "payload": ""}
        if self.ending or last.kind == "effect":
            status = "interrupted" if self.ending else "cancelled"
            changed |= {"status": status, "delivered": False, "mark": "not_done"}  # the body never began
        else:
            self.was_cancelled(asked.call)
            changed |= {"status": "cancelled", "delivered": True}
        self.write(Entries([Entry(encode_header(msgspec.structs.replace(last, **changed)), None)]))

    def taken_at_end(self, status: str, facts: dict[str, Any]) -> Entries:
        """The last entries of this execution: what waited, what the body wrote last, and the run's own fact."""
        dirty = self.state.take_dirty()
        if dirty:
            facts = facts | {"state": {name: msgspec.Raw(raw or b"null") for name, raw in dirty.items()}}
        return self._take_pending(self.fact("run", status, facts or None))

    def sever(self, error: HoldfastError) -> NoReturn:
        self.severed = error
        raise Severed from error

    def open_wait(
        self, asked: Asked | None, kind: str, payload: dict[str, Any], call: Call | None = None, due: int | None = None
    ) -> None:
        """Save a wait, with everything that led to it, before anyone can see it."""
        place = asked.call if asked else call
        assert place is not None
        with self.lock:
            entries = self._take_pending()
        self.waits.add(place)
        at, label = self.clock.now(), f"{place.scope}{place.step}"
        saved = (encode(list(place)).decode(), label, encode(payload).decode())

        def work(tx: Writing) -> None:
            tx.append(self.hold, entries)
            tx.add_interrupt(self.runtime.ids(), self.hold.run_key, kind, *saved, at, due)

        try:
            self.store.write(work)
        except HoldfastError as error:
            self.sever(error)

    def _changed(self, past: Past) -> dict[str, Any]:
        return {"was": list(past.call), "status": past.last.status, "seq": past.seq}

    # -- failures that may end the run -----------------------------------------------------------

    def fail(self, error: BaseException, call: Call) -> BaseException:
        """Remember which call a failure came from, in case it ends the run."""
        self._failed[id(error)] = (error, call, len(self._cancelled))
        return error

    def was_cancelled(self, call: Call) -> None:
        """The flow cancelled a call, now or again."""
        self._cancelled.append(call)

    def ended_by(self, error: BaseException) -> list[Call]:
        """The calls to try again after this exception ended the run.

        Those whose failures it is, wraps or was raised while handling; and those that were cancelled with it: after
        the first of these failures, or, when the body itself failed, with no other outcome after them.
        """
        found: list[Call] = []
        since = self._settled
        seen: set[int] = set()
        todo: list[BaseException | None] = [error]
        while todo:
            one = todo.pop()
            if one is None or id(one) in seen:
                continue
            seen.add(id(one))
            known = self._failed.get(id(one))
            if known is not None:
                since = min(known[2], since) if found else known[2]
                found.append(known[1])
                continue  # what it was raised while handling, the flow had caught: that is an outcome
            todo += [one.__cause__, one.__context__]
            if isinstance(one, BaseExceptionGroup):
                todo += one.exceptions
        return found + [call for call in self._cancelled[since:] if call not in found]

    def unasked(self) -> list[Past]:
        """Receipts that this body never asked for."""
        counts = self._counts
        left = []
        for past in self.ledger.calls.values():
            scope, step, inputs, number = past.call
            if past.kind in CALLS and not past.reused and counts.get((scope, step, inputs), 0) <= number:
                left.append(past)
        return left

    # -- resources -------------------------------------------------------------------------------

    def resource(self, key: str) -> Any:
        """A live object by its key. Raises ResourceMissing."""
        self.needs.add(key)
        return self.runtime.resources.get(key)

    def arguments(self, attempt: Attempt) -> Mapping[str, Any]:
        """A body's keyword arguments, with key and resources filled in."""
        asked = attempt.asked
        signature = asked.spec.signature
        injected, keyed = signature.injected, signature.keyed
        if not injected and not keyed:
            return asked.kwargs
        given = dict(asked.kwargs)
        for name in keyed:
            given.setdefault(name, attempt.key)
        for name, key in injected.items():
            if name not in given:
                given[name] = self.resource(key)
        return given


class Entries(list[Entry]):
    """Entries on their way to the journal, and how many of them are values the body was told."""

    __slots__ = ("values",)

    def __init__(self, entries: Iterable[Entry] = (), values: int = 0) -> None:
        super().__init__(entries)
        self.values = values


def _wrapped(raw: Mapping[str, bytes]) -> dict[str, msgspec.Raw]:
    """State writes in a payload: `[value]`, or `[]` for a name that was deleted."""
    return {name: msgspec.Raw(b"[" + value + b"]") for name, value in raw.items()}


def _unwrapped(kept: Mapping[str, msgspec.Raw]) -> dict[str, bytes]:
    return {name: bytes(value)[1:-1] for name, value in kept.items()}
