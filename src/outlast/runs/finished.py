"""The outcome of a named task that has happened: given as it was, checked, and nothing is done for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from outlast.errors import InputsConflict, TaskAborted, TaskDeclined
from outlast.flows.spec import FlowSpec
from outlast.ledger.journal import decode_payload
from outlast.runs import recovery
from outlast.runs.journal import differences
from outlast.runs.recovery import FoundRun
from outlast.runs.run import Outcome
from outlast.store.contract import FinishedRow, NewRun, Reading, RunRow
from outlast.store.contract.damaged import refuse_damaged
from outlast.values.codec import decode

if TYPE_CHECKING:
    from outlast.home.caller import Caller
    from outlast.home.home import Home

CODE_CHANGED = "code_changed"  # the flow, or a step of it, is not what it was when it ran
RESULT_PRUNED = "result_pruned"  # the run was removed: that it succeeded is known, its result is not


def outcome_of(caller: Caller, spec: FlowSpec, new: NewRun, done: FinishedRow) -> Outcome[Any]:
    """How it ended. Raises TaskAborted, TaskDeclined, InputsConflict; IntegrityBroken when that cannot be trusted."""
    refuse_damaged(done, f"run {done.id}")
    if done.status == "aborted":
        declined = decode(done.error or "{}").get("type") == "declined"
        raise (TaskDeclined if declined else TaskAborted)(new.task, done.id)
    if done.inputs_digest != new.inputs_digest:
        raise InputsConflict(new.task, done.id, "finished")
    return pruned(done.id, "succeeded") if done.removed else succeeded(caller, spec, done.id)


def pruned(run_id: str, status: str) -> Outcome[Any]:
    """How a run ended that was removed since: its result is gone."""
    return Outcome(run_id, status, replayed=True, notes=(RESULT_PRUNED,) if status == "succeeded" else ())


def succeeded(caller: Caller, spec: FlowSpec, run_id: str) -> Outcome[Any]:
    """The outcome of a run that has succeeded. Raises IntegrityBroken."""
    found = proven(caller.home, run_id)
    notes = (CODE_CHANGED,) if _has_changed(caller, spec, found) else ()
    return Outcome(run_id, "succeeded", _result(caller.home, spec, found.run), replayed=True, notes=notes)


def proven(home: Home, run_id: str) -> FoundRun:
    """A finished run as it lies in the store. Raises IntegrityBroken: what was changed is nobody's outcome."""

    def look(reading: Reading) -> FoundRun:
        run, lease = reading.run_by_id(run_id), reading.lease_of(run_id)
        assert run is not None
        assert lease is not None
        found = recovery.find(reading, run, lease)
        broken = found.unaccepted or next(differences(run, found.rows, reading.interrupts_of(run.key)), None)
        if broken is not None:
            raise broken.as_error()
        return found

    return home.store.read(look)


def _has_changed(caller: Caller, spec: FlowSpec, found: FoundRun) -> bool:
    last = found.rows[-1].payload
    facts = decode_payload(last).facts if last else None
    body = facts.get("code", "") if isinstance(facts, dict) else ""
    return bool(body and spec.code and body != spec.code) or bool(recovery.changed_code(caller, found))


def _result(home: Home, spec: FlowSpec, run: RunRow) -> Any:
    """The result as the flow's annotation types it; plain when that is another one since."""
    kept = msgspec.json.decode(run.result or "{}", type=dict[str, msgspec.Raw])
    raw = home.blobs.get(decode(bytes(kept["blob"]))) if "blob" in kept else bytes(kept.get("value", b"null"))
    try:
        return spec.decode(raw)
    except msgspec.ValidationError:
        return decode(raw)
