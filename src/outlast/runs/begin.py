"""What a call of a flow begins: a new run, its task's unfinished one, or nothing because it only waits."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from outlast.errors import InputsConflict, RunFinished
from outlast.flows.spec import FlowSpec
from outlast.home.once import Operation
from outlast.home.place import check_name
from outlast.runs import claim as claims
from outlast.runs.claim import Claim
from outlast.runs.options import AS_EVER, Options
from outlast.runs.run import Outcome
from outlast.runs.waits.interrupt import OF_A_CALL
from outlast.store.contract import NewRun, RunRow
from outlast.values.codec import pack_json
from outlast.values.digest import identity

if TYPE_CHECKING:
    from outlast.home.home import Runtime


def new_run(
    runtime: Runtime, spec: FlowSpec, raw: bytes, options: Options = AS_EVER, *, task: str = "", parent: str = ""
) -> NewRun:
    """The run that would be added. `task` is its name where the caller gave none. Raises NameInvalid."""
    found = identity(raw)
    given = task or f"{spec.name}-{found[:12]}" if options.task is None else check_name("task", options.task)
    return NewRun(
        id=runtime.ids(),
        scope=runtime.scope,
        flow=runtime.name_of(spec),
        task=given,
        inputs=raw.decode(),
        inputs_digest=found,
        parent=parent,
        session=check_name("session", options.session) if options.session != "" else "",
        trace_id=check_name("trace_id", options.trace_id) if options.trace_id != "" else "",
        meta=pack_json(dict(options.meta or {}), "meta").decode(),
        actor=runtime.actor,
        at=runtime.clock.now(),
    )


def begin(
    runtime: Runtime, spec: FlowSpec, new: NewRun, options: Options = AS_EVER, operation: Operation | None = None
) -> Claim | Outcome[Any]:
    """A new run, or the task's unfinished one, claimed; or how it stands when it only waits.

    Raises InputsConflict, RunHeld.
    """
    started = claims.begin(runtime, new, operation)
    if isinstance(started, Claim):
        return started
    if options.fresh:
        from outlast.runs import decisions

        with suppress(RunFinished):  # then there is nothing to give up
            decisions.abort(runtime, started.id, "given up for a fresh run", None, only_free=True, sealed=True)
        return begin(runtime, spec, new, operation=operation)
    claims.refuse_sealed(started)
    if started.inputs_digest != new.inputs_digest:
        raise InputsConflict(new.task, started.id)
    try:
        return standing(runtime, started) or claims.claim(runtime, started.id)
    except RunFinished:  # a moment ago, by whoever else was running it
        return begin(runtime, spec, new, operation=operation)


def standing(runtime: Runtime, row: RunRow) -> Outcome[Any] | None:
    """How a waiting run stands, when nothing has happened that lets it go on."""
    if row.status != "waiting":
        return None
    waits = runtime.waits(row.key)
    now = runtime.clock.now()
    rows = runtime.store.read(lambda look: look.waits_of(row.key))
    asks_again = any(
        wait.status == "answered"
        or (wait.due_at is not None and wait.due_at <= now)
        or wait.type == "child"
        or (wait.type in OF_A_CALL and '"probe"' in wait.payload)
        for wait in rows
    )
    untaken = runtime.store.read(lambda look: look.untaken(row.key))
    if asks_again or untaken or not rows:
        return None
    return Outcome(row.id, "waiting", interrupts=tuple(waits))
