"""`replay`: a run's body on its receipts, and every way in which it does not do what is recorded.

`open(…, task=T)` after its success: the block runs once more on its receipts, and nothing is done or written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from msgspec import Struct

from outlast.clock import moment
from outlast.errors import Finished, FlowNotFound, OutlastError, Paused, RunTimedOut
from outlast.flows.spec import FlowSpec
from outlast.flows.yaml.flow import FlowFileSpec
from outlast.home.caller import Caller
from outlast.home.home import refuse_loop, run_row
from outlast.ledger.journal import Row, decode_header, decode_payload, facts_in
from outlast.runs import failure
from outlast.runs.attempt import CURRENT, Attempt, Frame, StepCall
from outlast.runs.branches import Branches, run_body, watch_tasks
from outlast.runs.call import Call, Past, fold, labels
from outlast.runs.call_async import in_thread
from outlast.runs.execution import Execution
from outlast.runs.found import find_run
from outlast.runs.live import Executor
from outlast.runs.look import record_now
from outlast.runs.outcomes import RESULT_PRUNED, proven
from outlast.runs.plan import state_of
from outlast.runs.replay.execution import Lacking, Replaying, counted
from outlast.runs.run import FINISHED, Outcome
from outlast.runs.same_flow import flow_of_run
from outlast.runs.waits.interrupt import OF_THE_RUN, RETRY
from outlast.store.contract import Hold, RunRow
from outlast.values.codec import decode, encode, pack
from outlast.values.frozen import NamedTuple

SECONDS = 60.0  # for an async body that hangs
SHOWN_CHARACTERS = 200


class Divergence(Struct, frozen=True):
    """One thing that the body does otherwise than it is recorded.

    Its code: no_receipt, inputs_changed, unasked, code_changed, end_differs, state_differs, phase_differs, stuck,
    resource_used; of a case also effects_differ.
    """

    code: str
    subject: str  # the call, the name in the state, …
    expected: str  # what is recorded
    found: str  # what the body does


class RunReplay(Struct, frozen=True):
    """A body, run on receipts only: nothing was executed and nothing written."""

    run_id: str
    flow: str
    status: str  # of the run, as recorded
    ended: str  # how the body ended on the receipts: returned, raised, waits (for what is not recorded), stuck
    replayed: int  # outcomes that it was given again
    divergences: tuple[Divergence, ...] = ()
    next: tuple[str, ...] = ()  # of an unfinished run: the calls it would go on with
    not_reached: int = 0  # receipts after the place where the body came to its end

    @property
    def ok(self) -> bool:
        """Whether nothing diverged."""
        return not self.divergences


class RecordedRun(NamedTuple):
    """A run as it is recorded: what its body is run on, and what it must come to."""

    run_id: str
    flow: str
    status: str
    phase: str
    inputs: dict[str, Any]
    rows: Sequence[Row]
    result: Any = None
    error: dict[str, Any] | None = None
    waits: tuple[Call, ...] = ()  # that are open
    trace_id: str = ""
    state: dict[str, Any] | None = None  # None: as the journal has it


class ReplayedEnd(NamedTuple):
    """How a body came to its end."""

    how: str  # returned, raised, waits, stuck
    result: Any = None
    error: BaseException | None = None


class Came(NamedTuple):
    """What a body came to on the receipts: what is compared with the record."""

    execution: Replaying
    ended: ReplayedEnd


def _by_itself(row: RunRow) -> str:
    """What it means to run the script of a run once more."""
    if row.status not in FINISHED:
        return "run that script again to continue it on its receipts"
    if row.named and row.status == "succeeded":
        return "run that script again to have it done on its receipts"
    return "it has no task that was named, so to run that script again starts a new run"


def recorded_run(caller: Caller, run_id: str) -> RecordedRun:
    """A run of this home. Raises RunNotFound, FlowNotFound for a script's, IntegrityBroken for changed records."""
    row = run_row(caller.home, run_id)
    if row.flow.startswith("script:"):
        raise FlowNotFound(row.flow, f"its body is the script's: {_by_itself(row)}")
    record = record_now(caller, row)
    found = find_run(caller.home, row.id)
    if found.broken is not None:
        raise found.broken.as_error()
    waits = caller.home.store.read(lambda reading: reading.waits_of(row.key))
    calls = [Call(*decode(wait.call)) for wait in waits if wait.status == "open"]
    asleep = any(call.step == RETRY for call in calls)  # it failed, and is tried again
    stands = (row.id, row.flow, "failed" if asleep else record.status, row.phase)
    error = _last_failure(found.rows).get("error") if asleep else record.error
    asked = tuple(call for call in calls if call.step not in OF_THE_RUN)
    return RecordedRun(*stands, decode(row.inputs), found.rows, record.result, error, asked, row.trace_id)


def _last_failure(rows: Sequence[Row]) -> dict[str, Any]:
    """What is recorded of the failure that ended the body last, for good or until the next try."""
    names = (b'["run","failed"', b'["run","retrying"')
    ends = [row for row in rows if row.header.startswith(names) and row.payload]
    return (decode_payload(ends[-1].payload or b"{}").facts or {}) if ends else {}


def replay_run(executor: Executor, run_id: str) -> RunReplay:
    """A run's body on its receipts only: nothing is executed and nothing is written. Raises SyncInLoop too."""
    recorded = recorded_run(executor.caller, run_id)
    spec = flow_of_run(executor, run_row(executor.home, run_id))
    if spec.is_async:
        refuse_loop(f"replaying the async flow {spec.name}")
    return replay(executor, recorded, spec)


async def replay_run_async(executor: Executor, run_id: str) -> RunReplay:
    """The same on the running event loop. A plain flow runs in a thread."""
    recorded = recorded_run(executor.caller, run_id)
    spec = flow_of_run(executor, run_row(executor.home, run_id))
    if spec.is_async:
        return compared(recorded, spec, await _come_to_async(executor, recorded, spec))
    found: RunReplay = await in_thread(lambda: replay(executor, recorded, spec))
    return found


# -- running -----------------------------------------------------------------------------------------


def replay(executor: Executor, recorded: RecordedRun, spec: FlowSpec) -> RunReplay:
    """Run a body on receipts only. Nothing is executed and nothing is written; an async body has a loop of its own."""
    return compared(recorded, spec, come_to(executor, recorded, spec))


def come_to(executor: Executor, recorded: RecordedRun, spec: FlowSpec) -> Came:
    """What a body comes to on the receipts."""
    if spec.is_async:
        return asyncio.run(_come_to_async(executor, recorded, spec))
    execution = _execution(executor, recorded)
    with counted():
        token = CURRENT.set(Frame(execution))
        try:
            ended = _plain_end(_body(execution, executor, recorded, spec))
        finally:
            CURRENT.reset(token)
            execution.over = True
    return Came(execution, ended)


async def _come_to_async(executor: Executor, recorded: RecordedRun, spec: FlowSpec) -> Came:
    """A body that hangs is given up after some time."""
    watch_tasks(asyncio.get_running_loop())
    execution = _execution(executor, recorded)
    branches = execution.branches = Branches(execution.turns())
    with counted():
        made: Coroutine[Any, Any, Any] = _body(execution, executor, recorded, spec)()
        running = asyncio.ensure_future(run_body(execution, branches, made, Frame(execution)))
        ended = await _async_end(running, SECONDS)
        execution.over = True
    return Came(execution, ended)


def _execution(executor: Executor, recorded: RecordedRun) -> Replaying:
    ledger = fold(recorded.rows)
    if recorded.status == "failed":
        # A resume tries the failure that ended the run again; here it is an outcome like any other
        for ended in _last_failure(recorded.rows).get("ended_by", ()):
            past = ledger.calls.get(Call(*ended))
            if past is not None:
                past.decided = ""
    last = recorded.rows[-1] if recorded.rows else None
    hold = Hold(0, recorded.run_id, 0, 0, last.seq if last else 0, last.hash if last else b"")
    is_over = recorded.status == "succeeded"
    return Replaying(executor, hold, ledger, recorded.trace_id, is_over=is_over)


def _body(execution: Replaying, executor: Executor, recorded: RecordedRun, spec: FlowSpec) -> Callable[[], Any]:
    if isinstance(spec, FlowFileSpec):
        return executor.live.commands.on_receipts(execution, spec, recorded.inputs)
    inputs = spec.typed(recorded.inputs)
    run = executor.live.facade(execution, spec.is_async)
    return lambda: spec.function(run, **inputs)


def _plain_end(body: Callable[[], Any]) -> ReplayedEnd:
    try:
        return ReplayedEnd("returned", body())
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except Paused:
        return ReplayedEnd("waits")
    except BaseException as error:  # SystemExit too: a body may end so
        return ReplayedEnd("raised", error=error)


async def _async_end(running: asyncio.Future[Any], seconds: float) -> ReplayedEnd:
    try:
        done, _ = await asyncio.wait({running}, timeout=seconds)
    finally:
        if not running.done():
            running.cancel()
            await asyncio.wait({running})
    if not done:
        return ReplayedEnd("stuck")
    try:
        return ReplayedEnd("returned", running.result())
    except Paused:
        return ReplayedEnd("waits")
    except (Exception, SystemExit) as error:
        return ReplayedEnd("raised", error=error)


# -- comparing ---------------------------------------------------------------------------------------


def compared(recorded: RecordedRun, spec: FlowSpec, came: Came) -> RunReplay:
    """Compare what the body came to with what is recorded."""
    execution, ended = came.execution, came.ended
    names = labels(recorded.rows)
    known = _left_before(recorded)
    left = [past for past in execution.never_asked() if names.get(past.call) not in known]
    is_over = recorded.status == "succeeded"
    calls, rest = diverged_calls(execution.lacking.values(), left, is_over=is_over)
    end = _end(recorded, spec, came) if not execution.uses else []
    found = [*_uses(execution), *calls, *end]
    waits = ended.how == "waits"
    as_recorded = not end and not execution.uses and not (waits and (is_over or calls))
    reached = ended.how == "returned" or (as_recorded and not execution.was_cut)
    if reached:
        found += [_unasked(past, names) for past in rest]
    changed = sorted(execution.code_changed)
    found += [Divergence("code_changed", name, "its code then", "other code") for name in changed]
    if as_recorded or reached:
        found += [*_state(recorded, execution), *_phase(recorded, execution)]
    stands = (recorded.run_id, recorded.flow, recorded.status, ended.how, execution.replayed)
    lacking = execution.lacking.values() if waits and as_recorded else ()
    ahead = tuple(one.label for one in lacking if one.kind != "emit")
    return RunReplay(*stands, tuple(found), ahead, 0 if reached else len(rest))


def _uses(execution: Replaying) -> list[Divergence]:
    """Live objects that the body used by itself: what they would say is on no record, so it ended there."""
    return [Divergence("resource_used", key, "used in steps only", how) for key, how in sorted(execution.uses.items())]


def _left_before(recorded: RecordedRun) -> set[str]:
    """Receipts of which the run itself said at its end that they were not asked for."""
    last = recorded.rows[-1:] if recorded.status == "succeeded" else ()
    return {each for row in last for each in facts_in(row).get("unasked", ())}


def _unasked(past: Past, names: dict[Call, str]) -> Divergence:
    label = names.get(past.call, past.call.path)
    return Divergence("unasked", label, f"{past.kind} {past.last.status}".strip(), "not asked for")


def _end(recorded: RecordedRun, spec: FlowSpec, came: Came) -> list[Divergence]:
    """Whether the body ended as the run did. A run that was cut off may go on in any way."""
    execution, ended = came.execution, came.ended
    if ended.how == "stuck":
        return [Divergence("stuck", spec.name, "an end", f"none after {SECONDS:.0f} seconds: a call hangs")]
    if recorded.status == "waiting":
        return _waiting(recorded, spec, execution, ended)
    if recorded.status not in ("succeeded", "failed") or (recorded.error or {}).get("code") == RunTimedOut.code:
        return []
    if recorded.status == "succeeded" and ended.how == "waits":  # the call it waits for says it
        return []
    was, now = End("returned", recorded.result), end_of(spec, ended)
    if recorded.status == "failed":
        was = End.of_error(recorded.error or {})
    return [] if was == now else [Divergence("end_differs", spec.name, was.told, now.told)]


class End(NamedTuple):
    """An end that can be compared: a result as JSON, or the type and message of what was raised."""

    how: str
    what: Any = None

    @classmethod
    def of_error(cls, error: dict[str, Any]) -> End:
        return cls("raised", (str(error.get("type", "")), str(error.get("message", ""))))

    @property
    def told(self) -> str:
        if self.how == "raised":
            kind, message = self.what
            return f"raised {kind.rpartition(':')[2]}: {message}"
        return f"returned {_shown(self.what)}" if self.how == "returned" else self.how


def end_of(spec: FlowSpec, ended: ReplayedEnd) -> End:
    """How a body ended. A result that cannot be kept fails a run too."""
    if ended.error is not None:
        return End.of_error(failure.record(ended.error))
    if ended.how != "returned":
        return End(ended.how)
    try:
        return End("returned", decode(pack(ended.result, spec.decode, "the flow's result")[0]))
    except OutlastError as error:
        return End.of_error(failure.record(error))


def _waiting(recorded: RecordedRun, spec: FlowSpec, execution: Replaying, ended: ReplayedEnd) -> list[Divergence]:
    missed = [call for call in recorded.waits if call not in execution.lacking]
    if not missed and ended.how == "waits":
        return []
    expected = "waits at " + (", ".join(call.path for call in missed) or "a call")
    others = ", ".join(one.label for one in execution.lacking.values())
    found = f"waits at {others}" if ended.how == "waits" else end_of(spec, ended).told
    return [Divergence("end_differs", spec.name, expected, found)]


def _state(recorded: RecordedRun, execution: Replaying) -> list[Divergence]:
    """Names of the state whose values differ. What only an earlier execution wrote is not expected again."""
    now = dict(execution.state)
    kept = state_of(recorded.rows) if recorded.state is None else recorded.state
    headers = [decode_header(row.header) for row in recorded.rows]
    resumed = any(header.kind == "run" and header.name in ("resumed", "rewound") for header in headers)
    both = _written_by_both(recorded.rows) if resumed else set()
    found = []
    for name, was, is_now in differences(kept, now):
        excused = resumed and (name in both or name not in now)
        if not excused and not _unwritten(recorded, execution, name, was):
            found.append(Divergence("state_differs", name, _shown(was), _shown(is_now)))
    return found


def _unwritten(recorded: RecordedRun, execution: Replaying, name: str, was: Any) -> bool:
    """Of a run that was cut off, the body's last words to the state never reached the disk."""
    cut_off = recorded.status in ("crashed", "running", "aborted")
    return cut_off and execution.after_last.get(name) == was


def _written_by_both(rows: Sequence[Row]) -> set[str]:
    """Names that body and steps wrote: in which order, a run that was resumed does not tell."""
    body: set[str] = set()
    steps: set[str] = set()
    for row in rows:
        payload = decode_payload(row.payload) if row.payload else None
        if payload is not None:
            body |= set(payload.state or ())
            steps |= set(payload.wrote or ())
    return body & steps


def _phase(recorded: RecordedRun, execution: Replaying) -> list[Divergence]:
    if recorded.status in ("crashed", "running", "aborted") or recorded.phase == execution.phase:
        return []
    return [Divergence("phase_differs", "phase", recorded.phase or "none", execution.phase or "none")]


def _shown(value: Any) -> str:
    text = encode(value).decode()
    if len(text) <= SHOWN_CHARACTERS:
        return text
    return f"{text[:SHOWN_CHARACTERS]}… ({len(text):,} characters)"


def lane_of(scope: str) -> str:
    """What of a scope can run beside others: up to its last task or thread (`~…/`)."""
    parts = scope.split("/")[:-1]
    last = max((at for at, part in enumerate(parts) if part.startswith("~")), default=-1)
    return "".join(f"{part}/" for part in parts[: last + 1])


def diverged_calls(
    lacking: Iterable[Lacking], left: Iterable[Past], *, is_over: bool
) -> tuple[list[Divergence], list[Past]]:
    """Which calls without a receipt are divergences, and what is left over beside them.

    In a run that is over all of them are. In an unfinished one a call without a receipt is where it goes on, unless a
    receipt of the same lane is left over: then the body took another way.
    """
    rest = list(left)
    found: list[Divergence] = []
    for one in lacking:
        if one.recorded:
            found.append(Divergence("inputs_changed", one.label, one.recorded[:12], one.inputs[:12]))
            continue
        meant = next((past for past in rest if past.call[:2] == one.call[:2]), None)
        if meant is not None and one.kind in ("step", "effect"):
            rest.remove(meant)
            found.append(Divergence("inputs_changed", one.label, meant.call.inputs[:12], one.call.inputs[:12]))
        elif is_over or any(lane_of(past.call.scope) == lane_of(one.call.scope) for past in rest):
            found.append(Divergence("no_receipt", one.label, "nothing", _asked(one)))
    return found, rest


def _asked(one: Lacking) -> str:
    return f"asked for ({one.kind})" if not one.inputs else f"asked for ({one.kind}, inputs {one.inputs[:12]})"


def differences(recorded: dict[str, Any], found: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """Names whose values are not equal, with both; a value that is not there is None."""
    names = sorted(recorded.keys() | found.keys())
    return [
        (name, recorded.get(name), found.get(name))
        for name in names
        if name not in recorded or name not in found or recorded[name] != found[name]
    ]


# -- a finished run once more -------------------------------------------------------------------------


class OnRecord(Replaying):
    """An execution of a finished run: a call without a receipt is refused, and so is everything that would wait."""

    def __init__(self, executor: Executor, outcome: Outcome[Any], task: str) -> None:
        removed = RESULT_PRUNED in outcome.notes
        ledger = fold(()) if removed else proven(executor.home, outcome.run_id).ledger
        super().__init__(executor, Hold(0, outcome.run_id, 0, 0, 0, b""), ledger, "", is_over=True)
        self.store = executor.home.store
        self._task = task
        self._at = "" if removed else f"{moment(run_row(executor.home, outcome.run_id).updated_at):%Y-%m-%d}"

    def attempt(self, asked: StepCall, number: int, failures: int) -> Attempt:
        self._refuse(f"{asked.spec.kind} {asked.call.path}")

    def emit(self, frame: Frame, name: str, body: Any, kind: str) -> None:
        """What is said once more is on record already, or is said to nobody."""
        self.gate()

    def open_wait(self, call: Call, *_: Any, **__: Any) -> None:
        self._refuse(call.path)

    def end_at(self, call: Call, kind: str) -> NoReturn:
        self._refuse(call.path)

    def resource(self, key: str) -> Any:
        return Execution.resource(self, key)

    def _refuse(self, call: str) -> NoReturn:
        raise Finished.task(self._task, self.id, self._at or "some day", call)


@contextmanager
def body_on_record(executor: Executor, outcome: Outcome[Any], task: str, *, is_async: bool) -> Iterator[Any]:
    """What the block is given. What it raises goes on to the caller."""
    execution = OnRecord(executor, outcome, task)
    if is_async:
        execution.branches = Branches(execution.turns(), can_park=False)
    with counted():
        token = CURRENT.set(Frame(execution))
        try:
            yield executor.live.facade(execution, is_async)
        finally:
            CURRENT.reset(token)
            execution.over = True
