"""`replay`: a run's body on its receipts, and every way in which it does not do what is recorded."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from outlast.errors import FlowNotFound, OutlastError, Paused, RunTimedOut
from outlast.flows.spec import FlowSpec
from outlast.flows.yaml.flow import RecipeSpec
from outlast.flows.yaml.inputs import bind_inputs
from outlast.ledger.journal import Row, decode_header, decode_payload
from outlast.runs import failure
from outlast.runs.call import Call, Ledger, Past, fold, labels
from outlast.runs.context import CURRENT, Frame
from outlast.runs.plan import state_of
from outlast.runs.replay.execution import OnReceipts, Replaying, counted
from outlast.runs.replay.model import Divergence, Replay, differences, diverged_calls
from outlast.runs.run import FINISHED
from outlast.runs.waits.interrupt import OF_THE_RUN, RETRY
from outlast.store.contract import Hold, Reading, RunRow
from outlast.values.codec import decode, encode, pack
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    import asyncio

    from outlast.home.home import Runtime

P = TypeVar("P", bound=OnReceipts)
SECONDS = 60.0  # for an async body that hangs
SHOWN_CHARACTERS = 200


class Recorded(NamedTuple):
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


class Ended(NamedTuple):
    """How a body came to its end."""

    how: str  # returned, raised, waits, stuck
    result: Any = None
    error: BaseException | None = None


class Came(NamedTuple):
    """What a body came to on the receipts: what is compared with the record."""

    execution: Replaying
    ended: Ended


def _by_itself(row: RunRow) -> str:
    """What it means to run the script of a run once more."""
    if row.status not in FINISHED:
        return "run that script again to continue it on its receipts"
    if row.named and row.status == "succeeded":
        return "run that script again to have it done on its receipts"
    return "it has no task that was named, so to run that script again starts a new run"


def recorded_run(runtime: Runtime, run_id: str) -> Recorded:
    """A run of this home. Raises RunNotFound, FlowNotFound for a script's, IntegrityBroken for changed records."""
    from outlast.runs import recovery

    row = runtime.row(run_id)
    if row.flow.startswith("script:"):
        raise FlowNotFound(row.flow, f"its body is the script's: {_by_itself(row)}")
    record = runtime.record(row)

    def look(reading: Reading) -> recovery.Found:
        lease = reading.lease_of(row.id)
        assert lease is not None
        return recovery.find(reading, row._replace(mark=0), lease)

    found = runtime.store.read(look)
    if found.broken is not None:
        raise found.broken.as_error()
    waits = runtime.store.read(lambda reading: reading.waits_of(row.key))
    calls = [Call(*decode(wait.call)) for wait in waits if wait.status == "open"]
    asleep = any(call.step == RETRY for call in calls)  # it failed, and is tried again
    inputs: dict[str, Any] = decode(row.inputs)
    return Recorded(
        row.id,
        row.flow,
        "failed" if asleep else record.status,
        row.phase,
        inputs,
        found.rows,
        record.result,
        _last_failure(found.rows).get("error") if asleep else record.error,
        tuple(call for call in calls if call.step not in OF_THE_RUN),
        row.trace_id,
    )


def _last_failure(rows: Sequence[Row]) -> dict[str, Any]:
    """What is recorded of the failure that ended the body last, for good or until the next try."""
    names = (b'["run","failed"', b'["run","retrying"')
    ends = [row for row in rows if row.header.startswith(names) and row.payload]
    return (decode_payload(ends[-1].payload or b"{}").facts or {}) if ends else {}


def replay_run(runtime: Runtime, run_id: str) -> Replay:
    """A run's body on its receipts only: nothing is executed and nothing is written. Raises SyncInLoop too."""
    from outlast.home.home import refuse_loop

    recorded = recorded_run(runtime, run_id)
    spec = runtime.flow(runtime.row(run_id))
    if spec.is_async:
        refuse_loop(f"replaying the async flow {spec.name}")
    return replay(runtime, recorded, spec)


async def replay_run_async(runtime: Runtime, run_id: str) -> Replay:
    """The same on the running event loop. A plain flow runs in a thread."""
    from outlast.runs.call_async import in_thread

    recorded = recorded_run(runtime, run_id)
    spec = runtime.flow(runtime.row(run_id))
    if spec.is_async:
        return compared(recorded, spec, await _come_to_async(runtime, recorded, spec))
    found: Replay = await in_thread(lambda: replay(runtime, recorded, spec))
    return found


# -- running -----------------------------------------------------------------------------------------


def replay(runtime: Runtime, recorded: Recorded, spec: FlowSpec) -> Replay:
    """Run a body on receipts only. Nothing is executed and nothing is written; an async body has a loop of its own."""
    return compared(recorded, spec, come_to(runtime, recorded, spec))


def come_to(runtime: Runtime, recorded: Recorded, spec: FlowSpec) -> Came:
    """What a body comes to on the receipts."""
    import asyncio

    if spec.is_async:
        return asyncio.run(_come_to_async(runtime, recorded, spec))
    execution = _execution(runtime, recorded)
    with counted():
        token = CURRENT.set(Frame(execution))
        try:
            ended = _plain_end(_body(execution, runtime, recorded, spec))
        finally:
            CURRENT.reset(token)
            execution.over = True
    return Came(execution, ended)


async def _come_to_async(runtime: Runtime, recorded: Recorded, spec: FlowSpec) -> Came:
    """A body that hangs is given up after some time."""
    import asyncio

    from outlast.runs.branches import Branches, run_body, watch_tasks

    watch_tasks(asyncio.get_running_loop())
    execution = _execution(runtime, recorded)
    branches = execution.branches = Branches(execution.turns())
    with counted():
        made: Coroutine[Any, Any, Any] = _body(execution, runtime, recorded, spec)()
        running = asyncio.ensure_future(run_body(execution, branches, made, Frame(execution)))
        ended = await _async_end(running, SECONDS)
        execution.over = True
    return Came(execution, ended)


def _execution(runtime: Runtime, recorded: Recorded) -> Replaying:
    ledger = fold(recorded.rows)
    if recorded.status == "failed":
        _deliver_the_end(ledger, recorded.rows)
    last = recorded.rows[-1] if recorded.rows else None
    hold = Hold(0, recorded.run_id, 0, 0, last.seq if last else 0, last.hash if last else b"")
    is_over = recorded.status == "succeeded"
    return Replaying(runtime, hold, ledger, recorded.trace_id, is_over=is_over)


def _deliver_the_end(ledger: Ledger, rows: Sequence[Row]) -> None:
    """A resume tries the failure that ended the run again; here it is an outcome like any other."""
    for ended in _last_failure(rows).get("ended_by", ()):
        past = ledger.calls.get(Call(*ended))
        if past is not None:
            past.decided = ""


def _body(execution: Replaying, runtime: Runtime, recorded: Recorded, spec: FlowSpec) -> Callable[[], Any]:
    if isinstance(spec, RecipeSpec):
        return recipe_body(execution, runtime, recorded.inputs, spec, OnReceipts).perform
    inputs = spec.typed(recorded.inputs)
    run = runtime._facade(execution, spec.is_async)
    return lambda: spec.function(run, **inputs)


def recipe_body(execution: Replaying, runtime: Runtime, inputs: dict[str, Any], spec: RecipeSpec, kind: type[P]) -> P:
    """A flow file's, gone through on receipts. Its secrets are not asked for: no command is run."""
    from outlast.commands.step import Setting

    assert spec.recipe is not None
    setting = Setting(runtime, spec.recipe, spec.file, bind_inputs(spec.recipe, inputs), {})
    return kind(execution, spec.recipe, setting, spec.source)


def _plain_end(body: Callable[[], Any]) -> Ended:
    try:
        return Ended("returned", body())
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except Paused:
        return Ended("waits")
    except BaseException as error:  # SystemExit too: a body may end so
        return Ended("raised", error=error)


async def _async_end(running: asyncio.Future[Any], seconds: float) -> Ended:
    import asyncio

    try:
        done, _ = await asyncio.wait({running}, timeout=seconds)
    finally:
        if not running.done():
            running.cancel()
            await asyncio.wait({running})
    if not done:
        return Ended("stuck")
    try:
        return Ended("returned", running.result())
    except Paused:
        return Ended("waits")
    except (Exception, SystemExit) as error:
        return Ended("raised", error=error)


# -- comparing ---------------------------------------------------------------------------------------


def compared(recorded: Recorded, spec: FlowSpec, came: Came) -> Replay:
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
    found += [
        Divergence("code_changed", name, "its code then", "other code") for name in sorted(execution.code_changed)
    ]
    if as_recorded or reached:
        found += [*_state(recorded, execution), *_phase(recorded, execution)]
    return Replay(
        recorded.run_id,
        recorded.flow,
        recorded.status,
        ended.how,
        execution.replayed,
        tuple(found),
        tuple(one.label for one in execution.lacking.values() if one.kind != "emit") if waits and as_recorded else (),
        0 if reached else len(rest),
    )


def _uses(execution: Replaying) -> list[Divergence]:
    """Live objects that the body used by itself: what they would say is on no record, so it ended there."""
    return [Divergence("resource_used", key, "used in steps only", how) for key, how in sorted(execution.uses.items())]


def _left_before(recorded: Recorded) -> set[str]:
    """Receipts of which the run itself said at its end that they were not asked for."""
    last = recorded.rows[-1].payload if recorded.rows else None
    facts = decode_payload(last).facts if last and recorded.status == "succeeded" else None
    return set(facts.get("unasked", ())) if isinstance(facts, dict) else set()


def _unasked(past: Past, names: dict[Call, str]) -> Divergence:
    label = names.get(past.call, past.call.path)
    return Divergence("unasked", label, f"{past.kind} {past.last.status}".strip(), "not asked for")


def _end(recorded: Recorded, spec: FlowSpec, came: Came) -> list[Divergence]:
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


def end_of(spec: FlowSpec, ended: Ended) -> End:
    """How a body ended. A result that cannot be kept fails a run too."""
    if ended.error is not None:
        return End.of_error(failure.record(ended.error))
    if ended.how != "returned":
        return End(ended.how)
    try:
        return End("returned", decode(pack(ended.result, spec.decode, "the flow's result")[0]))
    except OutlastError as error:
        return End.of_error(failure.record(error))


def _waiting(recorded: Recorded, spec: FlowSpec, execution: Replaying, ended: Ended) -> list[Divergence]:
    missed = [call for call in recorded.waits if call not in execution.lacking]
    if not missed and ended.how == "waits":
        return []
    expected = "waits at " + (", ".join(call.path for call in missed) or "a call")
    others = ", ".join(one.label for one in execution.lacking.values())
    found = f"waits at {others}" if ended.how == "waits" else end_of(spec, ended).told
    return [Divergence("end_differs", spec.name, expected, found)]


def _state(recorded: Recorded, execution: Replaying) -> list[Divergence]:
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


def _unwritten(recorded: Recorded, execution: Replaying, name: str, was: Any) -> bool:
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


def _phase(recorded: Recorded, execution: Replaying) -> list[Divergence]:
    if recorded.status in ("crashed", "running", "aborted") or recorded.phase == execution.phase:
        return []
    return [Divergence("phase_differs", "phase", recorded.phase or "none", execution.phase or "none")]


def _shown(value: Any) -> str:
    text = encode(value).decode()
    if len(text) <= SHOWN_CHARACTERS:
        return text
    return f"{text[:SHOWN_CHARACTERS]}… ({len(text):,} characters)"
