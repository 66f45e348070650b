"""A run being executed: the one place where calls meet the ledger.

Owns identity, what a call does on resume, the start and the outcome of every attempt, and the body's own calls.
It calls no user code. What it writes goes through its `JournalWriter`; what is done for a call, in which order, is
call_logic.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from outlast import errors
from outlast.errors import OutlastError, Paused, Severed, Stopped, Unavailable
from outlast.flows.spec import NO_RETRY
from outlast.ledger.journal import CALLS, JournalEntry, Payload, decode_header, decode_payload, encode_header, result_in
from outlast.runs import failure, journal
from outlast.runs import failure as log
from outlast.runs.attempt import Attempt, Endings, Frame, Raised, StepCall
from outlast.runs.call import (
    FIRST,
    GOOD,
    PROBED,
    Call,
    Changed,
    Doubtful,
    Fresh,
    Ledger,
    NextCall,
    Past,
    Replay,
    equal_elsewhere,
    fold,
    made_call,
    next_call,
)
from outlast.runs.journal import Labels
from outlast.runs.journal_writer import Entries, JournalWriter
from outlast.runs.rewind import BEHIND, NOT_REACHED, PLACED, REWOUND, leave_behind
from outlast.runs.state import Needs, State
from outlast.runs.step import StepSpec
from outlast.runs.step_inputs import StepInputs
from outlast.runs.stops import both
from outlast.runs.unawaited import Unawaited
from outlast.store.contract import Ending, Hold, InterruptRow, NewWait, PlainEnd, Reading, RunRow, Writing
from outlast.store.contract.runs import damage_of
from outlast.values.codec import decode, digest_inputs, encode, identity, pack, refuse_large
from outlast.values.late import late

if TYPE_CHECKING:
    from outlast.runs.branches import Branches
    from outlast.runs.child import Child
    from outlast.runs.live import Executor
    from outlast.runs.under_way import StepNotes
    from outlast.runs.waits import ask as saved_waits
    from outlast.runs.waits import stored as wait_notes
    from outlast.secrets.rules import SecretRule
else:
    saved_waits = late("outlast.runs.waits.ask")
    wait_notes = late("outlast.runs.waits.stored")

SHOWN_BYTES = 4096
KNOWN = (Replay, Doubtful)  # what a call does that the journal has something of


class Execution:
    """One run, one owner, from its claim to the end of its body."""

    on_receipts_only = False  # True of a replay: nothing is run and nothing written

    def __init__(self, executor: Executor, hold: Hold, ledger: Ledger, trace_id: str, *, resumed: bool) -> None:
        self.executor, self.store, self.clock = executor, executor.home.store, executor.home.clock
        self.settings = executor.home.settings
        self.hold, self.ledger, self.trace_id = hold, ledger, trace_id
        self.id = hold.run_id
        self.task = self.flow = ""  # for who is told what goes wrong
        self.row: RunRow | None = None  # as it was when it was claimed
        self.writer = JournalWriter(executor.home.store, executor.home.clock, hold, trace_id, executor.home.project)
        self.endings = Endings()
        self.state = State(self.settings.state_bytes)
        self.inputs = StepInputs(executor.home, lambda: self.ledger)
        self.phase = ""
        self.phase_changed = False
        self.waits: dict[Call, str] = {}  # that this execution opened or found still open, and their types
        self.told: set[str] = set(ledger.closed)  # waits of which the journal says, or will, how they were closed
        self.settled: set[Call] = set()  # effects in doubt that their probe has settled
        self.open: dict[Attempt, None] = {}  # attempts under way, in the order of their starts
        self.ticks = 0  # of the process's heartbeat since this execution began
        self.replayed = 0
        # The body may still come to plain receipts, one after the other, and they are given on the short way.
        self.replaying = bool(ledger.calls) and not self.on_receipts_only
        self.flow_code = ""  # a digest of the body's code
        self.code_changed: set[str] = set()  # replayed steps whose code is not what it was
        self.ran: set[str] = set()  # names of the steps that ran in this execution
        self.needs = Needs(executor, self.writer, ledger.needs)
        self.branches: Branches | None = None  # of an async body
        self.children: list[Child[Any]] = []
        self.maps: dict[str, tuple[int, int]] = {}  # by path: how many items, and of those done before
        self.made = Unawaited(self.id, executor.home.project)
        self.paused = False  # a plain body has been ended by a wait
        self.stopping = False
        self.stopped_by = ""  # person, shutdown: who asked it to stop (`stops.py`)
        self.cut_short = False  # a call of the body did not come about because it was to stop
        self.over = False  # the body has ended: nothing is done in its name any more
        self.failing = False  # an async body has failed: what it leaves running ends with it
        # How many equal calls the body has made: by scope and step, by inputs. No object for each, which garbage
        # would be searched for in.
        self._counts: dict[tuple[str, str], dict[str, int]] = {}
        self._place = 0  # of the last call that the body came to
        self._forked = ledger.forked  # until the body comes to where its run goes its own way
        self._beside = 0  # how much is under way whose calls are in no particular order
        self._functions: dict[str, Any] = {}
        self._unfinished: set[tuple[str, str]] | None = None  # scopes and steps, as this execution found them
        self.silent_at = 0  # by when the owner before was surely dead
        self.partial = ""  # keep, restore: what to do with partial work, said for this resume
        self.writers: Any = None  # whose declared files are, once a step is done again that was set aside
        self.stopping_now = False  # the step under way is to end too
        self.deadline_at = 0  # when it is to be done, if its flow says so
        self.deadline_seconds = 0.0  # after its start
        self.retry = NO_RETRY  # of the whole run, when it fails
        self.called_off: OutlastError | None = None  # what the run fails with for that (`stops.py`)
        self.called_off_at = 0.0  # when that was, by the clock of this process
        self.guarded: Any = None  # of a flow of commands: what runs it; no exception has to reach its body
        self.marked = 0  # seq of the newest mark
        self.probing: dict[int, tuple[str, float]] = {}  # probes under way: of which step, and since when
        self.sync_start = resumed  # the first new step after a resume is on disk before its body
        self.suspects: set[Call] = set()  # were under way at a crash; until they end, every start is on disk first

    # -- asking ----------------------------------------------------------------------------------

    def gate(self) -> None:
        """Every call of the body passes here: a body that must end does not get past it."""
        if self.writer.severed is not None:
            raise Severed from self.writer.severed
        if self.paused:
            raise Paused
        if self.stopping or self.over:
            self.cut_short = True
            raise Stopped
        self.made.refuse_dropped()

    def refuse_ended(self) -> None:
        """The same between a call and its attempt."""
        if self.writer.severed is not None or self.paused or self.stopping or self.over:
            self.gate()

    def ask_to_stop(self, by: str, *, now: bool = False) -> None:
        """No further call begins; with `now` the step under way ends too. What a person wants outweighs a shutdown."""
        self.stopped_by = both(self.stopped_by, by)
        self.stopping_now = self.stopping_now or now
        self.stopping = True

    def must_end(self, attempt: Attempt) -> bool:
        """Whether a body that can be ended is to end. Of a run that was called off an effect is let end for a while."""
        if self.called_off_at and attempt.asked.spec.is_effect:
            return self.stopping_now
        return self.stopping_now or bool(self.called_off_at) or self.writer.severed is not None

    @property
    def ending(self) -> bool:
        """Whether the run's part in this process is over: calls that end now are not the flow's doing."""
        return self.stopping or self.paused or self.failing or self.over or self.writer.severed is not None

    def ask(
        self, frame: Frame, spec: StepSpec, args: tuple[Any, ...], kwargs: Mapping[str, Any], call_id: str | None
    ) -> StepCall:
        """Which call this is, and what it does: replay, run, or wait."""
        if self.over or self.stopping or self.paused or self.writer.severed is not None:
            self.gate()
        made = self.made.last
        if made is not None and made[0].cr_frame is not None:  # type: ignore[attr-defined]  # it has not ended
            self.made.refuse_dropped()
        if self._functions.get(spec.name) is not spec.function:
            self._know(spec)
        shape, known = spec.shape, self.ledger.calls
        names = shape.names
        if names is not None and not kwargs and len(args) == len(names):
            inputs = dict(zip(names, args))  # noqa: B905
        else:
            inputs = spec.signature.bind(args, kwargs)
        seen = digest_inputs(inputs, spec.name)
        call = self.numbered(frame, spec.name, f"={call_id}" if call_id else seen)
        past = known.get(call) if known else None
        if past is None and self._place == NOT_REACHED and not shape.is_effect and self._forked is None:
            return StepCall(spec, call, seen if call_id else "", inputs, args, kwargs, FIRST)  # nearly every new one
        found: NextCall
        if past is not None and past.finished:
            found = Replay(past)
        else:
            found = next_call(call, spec.kind, self.ledger, spec.crashes or self.settings.crashes_before_asking)
        if call_id and isinstance(found, Replay) and found.past.last.seen_inputs != seen:
            found = self._changed_by_id(found.past)
        if isinstance(found, KNOWN):
            past = found.past
            past.asked = True
            if self._place <= past.first < BEHIND:
                self._place = past.first
            else:
                self.come_to(past)
        elif self._place != NOT_REACHED:
            self.come_to_new(call)
        if self._forked is not None:
            self._go_own_way(call, found)
        asked = StepCall(spec, call, seen if call_id else "", inputs, args, kwargs, found)
        if spec.is_effect and found is FIRST:
            self._look_elsewhere(asked)
        return asked

    def come_to(self, past: Past) -> None:
        """The body has come to a call that the journal knows: where it has another place by that, this is noted.

        What comes after one that was noted is noted too: it would else be before it.
        """
        if past.first < self._place or past.first >= BEHIND:
            if past.first < BEHIND and (self._beside or self.branches is not None or "~" in past.call.scope):
                return  # of calls that are made side by side none comes first
            self.come_to_new(past.call)
            if not self.on_receipts_only:
                self.writer.note(self.writer.fact("run", "reached", {"call": list(past.call)}))
        else:
            self._place = past.first

    def come_to_child(self, past: Past) -> None:
        """The body has come to a child run. One that goes on has no entry of its own for that before it has ended."""
        if past.given or self._beside or self.branches is not None:
            self.come_to(past)
            return
        self.come_to_new(past.call)
        self.writer.commit(self.writer.fact("run", "reached", {"call": list(past.call)}))

    def stand_at(self, call: Call) -> None:
        """The body waits at a call for a person: one that had been set aside, or left behind, has its place again."""
        past = self.ledger.calls.get(call)
        if past is not None and past.first >= BEHIND and not self.on_receipts_only:
            self.writer.note(self.writer.fact("run", "reached", {"call": list(call)}))

    def come_to_new(self, call: Call | None = None) -> None:
        """The body has come to a call that gets a new place: what it comes to later comes after this one.

        That is also what it knows and has not come to so far, whether it will or not.
        """
        if self._place != NOT_REACHED and self.ledger.calls:
            self._leave_behind(call)
        self._place = NOT_REACHED
        self.replaying = False

    def _leave_behind(self, call: Call | None) -> None:
        if self._beside or self.branches is not None or self.on_receipts_only or self.ledger.mark:
            return
        unasked = [past for past in self.ledger.calls.values() if not past.asked and past.first < BEHIND]
        left = [past for past in unasked if past.kind in PLACED and past.call != call]
        if left:
            over = [list(past.call) for past in left if past.first < self._place]
            self.writer.note(self.writer.fact("run", "reached", {"after": self._place, "over": over}))
            leave_behind(self.ledger, self._place, over)  # also here: what is come to side by side has its place again

    def _go_own_way(self, call: Call, found: NextCall) -> None:
        """The state that a fork was given counts from its step on: from the first call of it that is not taken over."""
        assert self._forked is not None
        is_old = isinstance(found, Replay) and found.past.seq < self._forked["to"]
        if is_old or list(call[:2]) != self._forked["call"][:2]:
            return
        for name, (value,) in self._forked["state"].items():
            self.state[name] = value
        self._forked = None

    @contextmanager
    def side_by_side(self) -> Iterator[None]:
        """Calls that are asked for in no particular order."""
        with self.writer.lock:
            self._beside += 1
        try:
            yield
        finally:
            with self.writer.lock:
                self._beside -= 1

    def _look_elsewhere(self, asked: StepCall) -> None:
        """A new effect: if an equal one is recorded somewhere and not asked for yet, it may have moved here."""
        asked.elsewhere = equal_elsewhere(self.ledger, asked.call, is_command=bool(asked.spec.command))
        if asked.elsewhere is not None and self.branches is None:
            asked.next = Changed(asked.elsewhere)  # in a plain body what comes before has been asked for before

    @staticmethod
    def _changed_by_id(past: Past) -> NextCall:
        """A call whose id is known and whose inputs are not: a skipped one was decided on whatever they are."""
        if past.last.status == "skipped":
            return Replay(past)
        return Changed(past) if past.kind == "effect" else Fresh(past.attempts + 1)

    def ask_again(self, asked: StepCall) -> None:
        """What a call of a map does, now that all of them have been asked for: what is left over is known only then."""
        limit = asked.spec.crashes or self.settings.crashes_before_asking
        asked.next = next_call(asked.call, asked.spec.kind, self.ledger, limit)
        if asked.next is FIRST:
            self._look_elsewhere(asked)

    def turns(self) -> list[int]:
        """The recorded outcomes that a replay gives again, in the order in which the flow was given them."""
        finished = [past for past in self.ledger.calls.values() if past.kind in CALLS and past.finished]
        return sorted([past.seq for past in finished if past.header is None or past.header.status != "cancelled"])

    def numbered(self, frame: Frame, name: str, inputs: str) -> Call:
        """The call's identity: which of the equal calls in its scope it is."""
        scope = frame.scope
        with self.writer.lock:
            if scope is None:
                scope = frame.scope = self._scope_of_task(frame.base, name, inputs)
            number = self._count(scope, name, inputs)
        return made_call((scope, name, inputs, number))

    def _count(self, scope: str, name: str, inputs: str) -> int:
        """How many equal calls there were before. With the writer's lock held."""
        counts = self._counts.get((scope, name))
        if counts is None:
            counts = self._counts[scope, name] = {}
        number = counts.get(inputs, 0)
        counts[inputs] = number + 1
        return number

    def _scope_of_task(self, base: str, name: str, inputs: str) -> str:
        """A task is known by the call it begins with, and by a number among tasks that begin equally."""
        number = self._count(base, "~" + name, inputs)
        told = f":{identity(inputs.encode())[:8]}" if inputs else ""
        return f"{base}~{name}{told}{f'#{number + 1}' if number else ''}/"

    def _know(self, spec: StepSpec) -> None:
        known = self._functions.get(spec.name)
        if known is None:
            self._functions[spec.name] = spec.function
        elif known is not spec.function and known.__code__ is not spec.function.__code__:
            first, second = (f"{f.__module__}.{f.__qualname__}" for f in (known, spec.function))
            raise errors.StepNameTaken(spec.name, first, second)

    # -- replaying -------------------------------------------------------------------------------

    def plain_receipt(
        self, frame: Frame, spec: StepSpec, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Past | None:
        """What `ask` comes to for nearly every call of a long replay: a plain receipt that is next in the journal.

        None of any other call: nothing is noted of that, and `ask` says what it does.
        """
        if self.over or self.stopping or self.paused or self.writer.severed is not None:
            self.gate()
        if self.made.last is not None:
            self.made.refuse_dropped()
        if self._functions.get(spec.name) is not spec.function or frame.scope is None or self._forked is not None:
            return None
        names = spec.shape.names
        if names is not None and not kwargs and len(args) == len(names):
            inputs = dict(zip(names, args))  # noqa: B905
        else:
            inputs = spec.signature.bind(args, kwargs)
        scope, name, seen = frame.scope, spec.name, digest_inputs(inputs, spec.name)
        with self.writer.lock:
            counts = self._counts.get((scope, name))
            if counts is None:
                counts = self._counts[scope, name] = {}
            number = counts.get(seen, 0)
            past = self.ledger.calls.get(made_call((scope, name, seen, number)))
            if past is None or past.header is not None or past.open or past.decided:  # it is not plain, or not finished
                return None
            if not self._place <= past.first < BEHIND:
                return None
            counts[past.call.inputs] = number + 1  # of a long run there is no room for each of them twice
            self._place = past.first
        past.asked = True
        return past

    def again(self, spec: StepSpec, past: Past) -> Any:
        """What `recorded` gives for a plain receipt."""
        shape = spec.shape
        try:
            result = shape.decode(result_in(past.payload))
        except msgspec.DecodeError:  # there is more in it than a result, or that does not fit any more
            return self.recorded(StepCall(spec, past.call, "", {}, (), {}, Replay(past)), past)
        self.replayed += 1
        if not past.is_of(shape.code):
            self.code_changed.add(spec.name)
        self.endings.settled()
        return result

    def recorded(self, asked: StepCall, past: Past) -> Any:
        """The outcome that the flow was given before: its result, or the failure, raised again."""
        self.replayed += 1
        if not past.is_of(asked.spec.code):
            self.code_changed.add(asked.spec.name)
        raw = past.payload
        payload = decode_payload(raw) if raw else Payload()
        if payload.wrote:
            self._apply(asked, {name: bytes(value)[1:-1] for name, value in payload.wrote.items()})
        self.endings.settled()
        if past.status in GOOD:
            return self.result_of(payload, asked.spec)
        raise self.endings.failed(failure.rebuild(payload.error or {}, asked.spec.name), asked.call)

    def _apply(self, asked: StepCall, wrote: Mapping[str, bytes]) -> None:
        if asked.held:
            asked.wrote = wrote
        else:
            self.state.apply(wrote)

    def result_of(self, payload: Payload, spec: StepSpec) -> Any:
        """A recorded result, as the annotation of today names it."""
        raw = self.executor.home.blobs.get(payload.blob) if payload.blob else payload.result
        if raw is msgspec.UNSET:
            return None
        try:
            return spec.decode(raw)
        except msgspec.ValidationError as error:
            remedy = "annotate what it returned then, skip it with a result that fits, or rewind to it"
            raise errors.ValueRefused(f"the recorded result of {spec.name}", str(error), remedy) from error

    # -- the start and the end of an attempt -----------------------------------------------------

    def attempt(self, asked: StepCall, number: int, failures: int) -> Attempt:
        """A new attempt, unless the body must end."""
        self.refuse_ended()
        if asked.kept is None:  # before its body can change them
            asked.kept = self.inputs.of(asked)
        key = self.key_of(asked.call) if asked.spec.is_effect else ""
        return Attempt(asked, number, failures, key, self.clock.now(), self.ticks)

    def revived(self, asked: StepCall, past: Past) -> Attempt:
        """The attempt that was left in doubt, to record what became of it."""
        last = past.last
        key = last.key or self.key_of(asked.call)  # of one that no entry is left of
        began = last.started_at or self.clock.now()
        return Attempt(asked, past.attempts, past.failures, key, began, 0, recorded=True)

    def delay_of(self, attempt: Attempt) -> float:
        """Seconds to wait before the attempt after this one."""
        return attempt.asked.spec.retry.delay(attempt.failures, self.luck(attempt.asked.call, attempt.failures))

    def luck(self, call: Call, number: int) -> float:
        """A number from 0 to 1 for jitter: the same whoever asks, another one in another run and for another call."""
        return int(identity(encode([self.id, *call, number]))[:8], 16) / 2**32

    def key_of(self, call: Call) -> str:
        """The same on every attempt of this call, and on no other call's."""
        return f"{self.id}-{identity(encode(call))[:16]}"

    def begin(self, attempt: Attempt) -> Entries | None:
        """Register the start. What it gives must be on disk before the body runs.

        Values the body was told (a uuid it may use as a key) are safe before any step can show them to the world; and
        before it is noted: a body that is told others does not make this call again.
        """
        spec = attempt.asked.spec
        with self.writer.lock:
            self.open[attempt] = None
            if spec.is_effect or spec.work is not None or self.sync_start:
                self.sync_start = bool(self.suspects)
                return self.writer.queue(self._start_entry(attempt))
            if self.writer.owed:
                return self.writer.queue()
        self.take_note(attempt)
        return None

    def take_note(self, attempt: Attempt) -> None:
        """Tell who finds this process dead that it was at the attempt. One whose start is written needs no note."""
        if not attempt.recorded:
            attempt.noted = self.notes.begin(self.hold, attempt)

    @cached_property
    def notes(self) -> StepNotes:
        """Those of this process."""
        return self.executor.live.heartbeat.notes

    @cached_property
    def labels(self) -> Labels:
        """What people call its calls."""
        return Labels(self.store, self.hold.run_key)

    @property
    def fresh(self) -> list[Attempt]:
        """The attempts under way whose start is not in the journal."""
        return [attempt for attempt in list(self.open) if not attempt.recorded]

    def late_starts(self) -> Entries | None:
        """At each tick: starts (and events) that have waited for a whole one for a commit to ride with."""
        with self.writer.lock:
            self.ticks += 1
            late = [attempt for attempt in self.fresh if attempt.tick < self.ticks - 1]
            if not late and not self.writer.waiting:
                return None
            return self.writer.queue(*(self._start_entry(attempt) for attempt in late))

    def _start_entry(self, attempt: Attempt) -> JournalEntry:
        attempt.recorded = True
        if attempt.asked.spec.crashes:  # so that who only looks knows the limit too
            attempt.facts = {**(attempt.facts or {}), "crashes": attempt.asked.spec.crashes}
        return self.writer.receipt(attempt, "started", Payload(), mark=mark_of(attempt.asked.spec))

    def previous_of(self, asked: StepCall) -> Past | None:
        """What the journal knows of this call's last attempt, if that did not deliver."""
        past = self.ledger.calls.get(asked.call)
        if past is None and asked.spec.command:
            past = self._begun_on_other_reads(asked.call)
        return past if past is not None and past.attempts and not past.finished else None

    def _begun_on_other_reads(self, call: Call) -> Past | None:
        """The same command, begun when the files that it reads were others: what it left is there all the same."""
        if self._unfinished is None:
            self._unfinished = {past.call[:2] for past in self.ledger.unfinished() if past.attempts}
        if call[:2] not in self._unfinished:
            return None
        alike = [past for past in self.ledger.calls.values() if past.call[:2] == call[:2] and past.kind == "step"]
        return max(alike, key=lambda past: past.seq, default=None)  # one that was finished since leaves nothing

    def go_back(self, rewound: JournalEntry) -> None:
        """Forget what was done since an earlier step. What a mark calls over may be: the journal is read anew."""
        key = self.hold.run_key
        self.writer.commit_work(lambda tx: tx.set_run_mark(key, 0), rewound)
        self.marked = 0
        self.ledger = self.store.read(self._whole)

    def _whole(self, look: Reading) -> Ledger:
        run = look.run_by_id(self.id)
        assert run is not None
        rows, flaws, _ = journal.read(look, run)
        return fold(rows, flaws)

    def pack(self, attempt: Attempt, value: Any) -> tuple[Any, Payload] | Raised:
        """A body's value as it will come back, and the payload that keeps it. A refused one is a failure."""
        spec = attempt.asked.spec
        try:
            raw, copy = pack(value, spec.decode, f"{spec.name}()")
            blob = ""
            if len(raw) > self.settings.inline_bytes:
                blob = self.executor.home.blobs.put(raw)
            self.inputs.note_result(attempt.asked.call, raw, blob)
        except Unavailable as error:  # it is not the step that failed: nothing more can be kept
            self.writer.sever(error)
        except OutlastError as error:
            return Raised(error)
        kept: Any = msgspec.UNSET if blob or raw == b"null" else msgspec.Raw(raw)
        wrote = _wrapped(attempt.wrote) if attempt.wrote else None
        told = list(attempt.artifacts)
        return copy, Payload(result=kept, blob=blob, wrote=wrote, done=attempt.done, next=attempt.next, artifacts=told)

    def close(
        self, attempt: Attempt, status: str, payload: Payload, *, delivered: bool = False, mark: str = ""
    ) -> Entries:
        """The receipt of an attempt, queued with everything that waited to ride along.

        `delivered`: the flow is given this outcome, so it is final. `mark`: what its entry says besides.
        """
        with self.writer.lock:
            self.forget(attempt)
            self.cut_short = self.cut_short or status == "interrupted"
            if self.suspects:
                self.suspects.discard(attempt.asked.call)
            dirty, kept = self.state.take_dirty(), attempt.asked.kept
            if dirty or kept:
                state = _wrapped(dirty) if dirty else payload.state
                payload = msgspec.structs.replace(payload, state=state, inputs=kept or None)
            if status == "succeeded" and attempt.wrote:
                self._apply(attempt.asked, attempt.wrote)
            if delivered and status != "cancelled":
                self.endings.settled()
            return self.writer.queue_receipt(attempt, status, payload, delivered=delivered, mark=mark)

    def forget(self, attempt: Attempt) -> None:
        """It is over: another one may be noted in its place. With the writer's lock held."""
        attempt.closed = True
        self.open.pop(attempt, None)
        if attempt.noted >= 0:
            self.notes.end(attempt.noted)
            attempt.noted = -1

    def refuse_unrecorded(self, asked: StepCall, error: Exception) -> None:
        """End the body where the end of an attempt could not be made ready: no file could be opened any more, say.

        The flow must not go on with what nobody will find on record, nor the run wait for an end that never comes.
        """
        if any(attempt.asked is asked for attempt in tuple(self.open)):
            why = f"what became of step {asked.spec.name} could not be recorded ({type(error).__name__}: {error})"
            self.writer.sever(error if isinstance(error, OutlastError) else Unavailable(detail=f"{why}; run it again"))

    def cancelled_late(self, asked: StepCall, written: JournalEntry | None) -> None:
        """The flow cancelled a call while its entries were being written: that is what the flow was given.

        The last of them is in the journal before this one. An effect whose outcome is known keeps it.
        """
        with self.writer.lock:
            for attempt in [a for a in list(self.open) if a.asked is asked]:
                self.forget(attempt)
        self.cancelled_after(asked.call, written)

    def cancelled_after(self, call: Call, written: JournalEntry | None) -> None:
        """The same of a call that has no attempt under way any more."""
        last = decode_header(written.header) if written else None
        if last is None or last.kind not in CALLS or (last.kind == "effect" and last.status != "started"):
            return
        if self.ending and last.status != "started":
            return
        changed: dict[str, Any] = {"ended_at": self.clock.now(), "payload": ""}
        if self.ending or last.kind == "effect":
            status = "interrupted" if self.ending else "cancelled"
            changed |= {"status": status, "delivered": False, "mark": "not_done"}  # the body never began
        else:
            self.endings.cancelled(call)
            changed |= {"status": "cancelled", "delivered": True}
        self.writer.commit(JournalEntry(encode_header(msgspec.structs.replace(last, **changed)), None))

    def cancelled_between(self, attempt: Attempt) -> None:
        """The flow cancelled a call while it waited for its next attempt: that is what the flow was given."""
        if self.ending:
            return
        self.endings.cancelled(attempt.asked.call)
        mark = "not_done" if attempt.asked.spec.is_effect else ""
        self.writer.write(self.close(attempt, "cancelled", Payload(), delivered=True, mark=mark))

    def cancelled_in_doubt(self, attempt: Attempt) -> None:
        """The flow cancelled an effect of which nobody knows whether it happened: a person is asked."""
        asked = attempt.asked
        self.open_wait(asked.call, "in_doubt", {"attempt": attempt.number, **shown(asked)}, item=asked.item)
        log.say_waits(self, asked, "in_doubt", attempt.number)
        self.paused = True

    @contextmanager
    def asking(self, attempt: Attempt) -> Iterator[None]:
        """A probe is asked about this attempt."""
        label = attempt.asked.call.path
        self.probing[id(attempt)] = (label, time.monotonic())
        try:
            yield
        finally:
            del self.probing[id(attempt)]

    def only_asks(self) -> tuple[str, float] | None:
        """The step and the seconds, of a run that does nothing but ask a probe, itself or in its children."""
        live = self.executor.live.executions
        below = [found.only_asks() for child in self.children if (found := live.get(child.run_id)) is not None]
        asked = [*self.probing.values(), *(each for each in below if each is not None)]
        if self.open or None in below or not asked:
            return None
        step, since = max(asked, key=lambda each: each[1])
        return step, since

    # -- the body's own calls --------------------------------------------------------------------

    def value(self, frame: Frame, name: str, make: Callable[[], Any]) -> Any:
        """A value the body is told once: the same on replay."""
        return self.value_of_call(frame, name, lambda call: make())

    def value_of_call(self, frame: Frame, name: str, make: Callable[[Call | None], Any]) -> Any:
        """The same, made by who is told which call it is of; inside a step it is of none."""
        if frame.attempt is not None:
            return make(None)
        self.gate()
        call = self.numbered(frame, name, "")
        past = self.ledger.calls.get(call)
        if past is not None:
            past.asked = True
            self.come_to(past)
            return decode_payload(past.payload).facts if past.payload else None
        self.come_to_new()
        made = make(call)
        self.writer.tell(self.writer.fact("value", name, made, call))
        return made

    def emit(self, frame: Frame, name: str, body: Any, kind: str) -> None:
        """An event, without secrets. From the body it has an identity and is written once; from a step, per attempt."""
        seen = digest_inputs({"body": body}, f"emit({name!r})")
        body, masked = _masked(body, self.executor.home.secrets.rules, f"emit({name!r})")
        if frame.attempt is not None:
            said_in, place = frame.attempt, Call("", name, "!", 0)  # its name is not taken for a call of the body
            agent = said_in.asked.spec.name
            self.writer.note(self.writer.fact("emit", name, body, place, kind, agent, said_in=said_in, masked=masked))
            return
        self.gate()
        call = self.numbered(frame, name, f"!{seen}")
        past = self.ledger.calls.get(call)
        if past is not None:
            self.come_to(past)
        else:
            self.come_to_new()
            self.writer.note(self.writer.fact("emit", name, body, call, kind, masked=masked))

    def open_wait(
        self,
        call: Call,
        kind: str,
        payload: dict[str, Any],
        due: int | None = None,
        form: Mapping[str, Any] | None = None,
        signal: str | None = None,
        item: int = 0,
    ) -> tuple[str, str, str] | None:
        """Save a wait, with everything that led to it, before anyone can see it.

        A `signal` of that name which came before answers it at once: the wait's id, the signal's body and its sender.
        """
        self.waits[call] = kind
        wait = NewWait(
            kind,
            encode(list(call)).decode(),
            self.labels.of(call, item),
            encode(payload).decode(),
            self.clock.now(),
            due,
            encode(dict(form or {})).decode(),
        )

        notes = wait_notes.notes_of(self.executor.home, self.hold.epoch, self.trace_id)

        def work(tx: Writing) -> tuple[str, str, str] | None:
            return saved_waits.save(tx, self.hold, notes, self.executor.home.ids(), wait, signal)

        found: tuple[str, str, str] | None = self.writer.commit_work(work)
        return found

    def hear_answers(self, waits: Iterable[InterruptRow]) -> None:
        """Note how waits were closed by others while this run goes on: with the next commit."""
        for made in self.news_of(waits):
            self.writer.note(made)

    def news_of(self, waits: Iterable[InterruptRow]) -> list[JournalEntry]:
        """Entries about waits that others have closed, each once."""
        fresh = [
            wait for wait in waits if wait.status == "answered" and wait.id not in self.told and not damage_of(wait)
        ]
        self.told.update(wait.id for wait in fresh)
        notes = wait_notes.notes_of(self.executor.home, self.hold.epoch, self.trace_id)
        return [made for wait in fresh for made in notes.closed(wait)]

    def write_phase(self) -> None:
        """Show the phase to those who look at the run."""
        self.writer.commit_work(lambda tx: tx.set_run_phase(self.hold.run_key, self.phase))

    def last_entries(
        self,
        facts: dict[str, Any],
        ending: Ending,
        receiver: str,
        work: Callable[[Writing], list[JournalEntry]],
        stored: Payload,
    ) -> Entries:
        """The end of this execution, queued: what waited, what the body wrote last, and the run's own fact.

        `work` gives entries that come before that fact, which carries what is `stored`.
        """
        status = ending.status
        with self.writer.lock:
            dirty = self.state.take_dirty()
            if dirty:
                facts = facts | {"state": _wrapped(dirty)}
            fact = self.writer.fact("run", status, facts or None, blob=stored.blob, result=stored.result)
            let_go = status == "succeeded" and "signal" in self.waits.values()

            def last_work(tx: Writing) -> list[JournalEntry]:
                if let_go:  # signals that nobody in the flow waits for any more
                    tx.give_back_signals(self.hold.run_key)
                return [*work(tx), fact]

            return self.writer.queue_end(last_work, self._plain_end(fact, ending, receiver))

    def _plain_end(self, fact: JournalEntry, ending: Ending, receiver: str) -> PlainEnd | None:
        """The same end, where there is no more to it: of a run that succeeded, and did not say what it is at."""
        row = self.row
        if (
            row is None
            or ending.status != "succeeded"
            or self.waits
            or (self.phase, self.marked) != (row.phase, row.mark)
        ):
            return None
        return self.writer.plain_end(row, fact, ending, receiver)

    def unasked(self) -> list[Past]:
        """Receipts that this body never asked for."""
        left = []
        for past in self.ledger.calls.values():
            if past.asked:
                continue
            given = past.kind in CALLS and not past.reused and past.decided != REWOUND
            if given and not self.has_made(past.call):
                left.append(past)
        return left

    def has_made(self, call: Call) -> bool:
        """Whether the body has come to this one of equal calls."""
        return self._counts.get(call[:2], {}).get(call.inputs, 0) > call.occurrence

    def let_go(self) -> None:
        """Its part is over: nothing of a long journal is kept, whoever keeps this (the trace of an error does)."""
        self.ledger, self._counts = Ledger(), {}
        self.inputs.let_go()

    # -- resources -------------------------------------------------------------------------------

    def resource(self, key: str) -> Any:
        """A live object by its key. Raises ResourceMissing, ResourceNeedsLoop."""
        return self.needs.get(key)

    def arguments(self, attempt: Attempt) -> Mapping[str, Any]:
        """A body's keyword arguments, with key and resources filled in."""
        asked = attempt.asked
        signature = asked.spec.signature
        if not signature.is_filled:
            return asked.kwargs
        injected, keyed = signature.injected, signature.keyed
        given = dict(asked.kwargs)
        for name in keyed:
            given.setdefault(name, attempt.key)
        wanted = {name: key for name, key in injected.items() if name not in given}
        return given | self.needs.get_all(wanted, again=attempt.number > 1)


def _masked(body: Any, rules: tuple[SecretRule, ...], path: str) -> tuple[Any, int]:
    """What an event says, without its secrets, and how many they were. Raises ValueRefused for what is too large."""
    if body is None or isinstance(body, bool | int | float):
        return body, 0
    from outlast.secrets.find import counted

    return counted(decode(event_bytes(body, path)), rules)


def event_bytes(body: Any, path: str) -> bytes:
    """What an event says, as JSON. Raises ValueRefused for what is too large."""
    raw = encode(body)
    refuse_large(len(raw), path)
    return raw


def shown(asked: StepCall) -> dict[str, Any]:
    """A call's inputs for whoever has to decide about it, if they are small enough to be read."""
    if asked.spec.command:
        return {"inputs": {"run": asked.spec.command}}
    raw = encode(asked.inputs)
    return {"inputs": decode(raw)} if len(raw) <= SHOWN_BYTES else {"inputs": f"{len(raw)} bytes, not shown"}


def mark_of(spec: StepSpec) -> str:
    """What an effect's unfinished entries say: that its probe can be asked."""
    return PROBED if spec.confirm is not None else ""


def _wrapped(raw: Mapping[str, bytes]) -> dict[str, msgspec.Raw]:
    """State writes in a payload: `[value]`, or `[]` for a name that was deleted."""
    return {name: msgspec.Raw(b"[" + value + b"]") for name, value in raw.items()}
