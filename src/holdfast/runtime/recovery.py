"""Finding out how far a run may be trusted: its chain, its blobs, its code, what was left half done."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from holdfast.domain.call import Call, Ledger, fold, labels
from holdfast.domain.code import digest_function, parse
from holdfast.domain.digest import identity
from holdfast.domain.interrupt import Interrupt
from holdfast.domain.journal import Break, Row, check, genesis
from holdfast.domain.plan import Plan, plan_steps, reasons_of, state_of
from holdfast.domain.verdict import Reason, Verdict, judge
from holdfast.errors import IntegrityBroken
from holdfast.store.contract import LeaseRow, Reading, RunRow

if TYPE_CHECKING:
    from holdfast.runtime import Runtime


class Found(NamedTuple):
    """A run as it lies in the store."""

    run: RunRow
    lease: LeaseRow
    rows: list[Row]
    broken: Break | None
    ledger: Ledger


def find(look: Reading, run: RunRow, lease: LeaseRow) -> Found:
    """Read and check a run's whole journal."""
    rows = look.journal_of(run.key)
    start = genesis(run.id, run.flow, run.task, run.inputs_digest)
    broken = check(run.id, start, rows, lease.head, lease.hash)
    if broken is None and identity(run.inputs.encode()) != run.inputs_digest:
        broken = Break(f"run {run.id}", "its inputs were changed")
    return Found(run, lease, rows, broken, fold(rows) if broken is None else Ledger())


def reasons(runtime: Runtime, found: Found) -> list[Reason]:
    """Every reason that bears on resuming this run."""
    run = found.run
    if found.broken:
        advice = "restore the store from a copy, or start the task anew: hold.run(…, fresh=True)"
        broken = found.broken
        return [Reason("integrity_broken", broken.record, "what was stored", broken.why, advice)]
    given = reasons_of(found.ledger, labels(found.rows), run.id) if _interesting(found.ledger) else []
    return given + _code(runtime, found.ledger) + _blobs(runtime, run) + _resources(runtime, found.ledger)


def verdict_of(runtime: Runtime, found: Found) -> Verdict:
    return judge(reasons(runtime, found))


def _interesting(ledger: Ledger) -> bool:
    return any(not past.finished for past in ledger.calls.values())


def _code(runtime: Runtime, ledger: Ledger) -> list[Reason]:
    """Code of finished steps that is not what it was, read from the source without importing it."""
    changed = []
    for code, step in ledger.codes.items():
        place = ledger.places.get(code)
        found = _code_now(runtime.project, *place) if place else ""
        if found is not None and found != code and found != "":
            advice = f"its receipts are reused as they are; rewind to {step} to do it again"
            changed.append(Reason("code_changed", step, code[:12], found[:12], advice))
    return changed


def _code_now(folder: Path | None, file: str, qualname: str) -> str | None:
    """The digest of a function as its file has it now; None when file or function are elsewhere."""
    path = (folder or Path()) / file
    try:
        tree = parse(path.read_bytes())
    except OSError:
        return None
    return digest_function(tree, qualname) if tree else None


def _blobs(runtime: Runtime, run: RunRow) -> list[Reason]:
    names = runtime.store.read(lambda look: look.blobs_of(run.key))
    return [reason for name in names for reason in _blob(runtime, name)]


def _blob(runtime: Runtime, name: str) -> list[Reason]:
    advice = "restore the blob from a copy, or rewind to the step that made it"
    if not runtime.blobs.has(name):
        return [Reason("artifact_missing", f"blob {name[:12]}", name, "nothing", advice)]
    try:
        runtime.blobs.get(name)
    except IntegrityBroken as error:
        return [Reason("artifact_corrupt", f"blob {name[:12]}", name, error.why, advice)]
    return []


def _resources(runtime: Runtime, ledger: Ledger) -> list[Reason]:
    missing = [key for key in sorted(ledger.needs) if not runtime.resources.has(key)]
    return [
        Reason("resource_missing", key, "provided", "nothing", f"hold.resource({key!r}, …) before resuming")
        for key in missing
    ]


def plan_of(runtime: Runtime, found: Found, waits: list[Interrupt], extra: list[Reason]) -> Plan:
    """What resuming would do. Nothing is run or written."""
    names = labels(found.rows)
    given = [*reasons(runtime, found), *extra]
    asked = {Call(*wait.payload["was"]) for wait in waits if wait.type == "inputs_changed"}
    return Plan(
        run_id=found.run.id,
        flow=found.run.flow,
        status=found.run.status,
        verdict=judge(given),
        steps=plan_steps(found.ledger, names, runtime.settings.crashes_before_asking, asked),
        resources=tuple(sorted(found.ledger.needs)),
        code_changed=tuple(sorted(reason.subject for reason in given if reason.code == "code_changed")),
        waits=tuple(wait.says for wait in waits),
        state=state_of(found.rows),
    )
