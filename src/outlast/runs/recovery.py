"""How far a run may be trusted, as reasons: its records, blobs, code, resources, effects in doubt, work left half done.

The run as it lies in the store: `found.py`. What a resume comes to by all of it: `outlook.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from outlast import errors
from outlast.errors import OutlastError
from outlast.flows.loading import digest_function, is_flow_file, parse, said_by_source
from outlast.ledger.journal import RESULT, decode_payload
from outlast.ledger.verdict import Reason
from outlast.runs.call import PROBED, Call, Past, labels, spoil
from outlast.runs.found import FoundRun, broken_reasons
from outlast.runs.heard import LabelsOf
from outlast.runs.same_flow import file_now
from outlast.store.contract import Reading, RunRow
from outlast.values.frozen import NamedTuple
from outlast.values.late import late

if TYPE_CHECKING:
    from outlast.flows import needs
    from outlast.flows.yaml import flow as flow_files
    from outlast.flows.yaml import model
    from outlast.home.caller import Caller
    from outlast.home.home import Home
    from outlast.runs.live import Executor
    from outlast.runs.outputs import files
    from outlast.workspace import why
else:
    needs = late("outlast.flows.needs")  # of resources
    flow_files, model = late("outlast.flows.yaml.flow"), late("outlast.flows.yaml.model")
    files = late("outlast.runs.outputs.files")
    why = late("outlast.workspace.why")


GONE = "no step"  # of that id is in the flow file


class BodySource(NamedTuple):
    """Where the body of a Python flow is: its file, and its qualified name in there."""

    file: Path
    name: str


def reasons(
    executor: Executor, found: FoundRun, source: BodySource | None, names: LabelsOf, *, loaded: bool
) -> list[Reason]:
    """Every reason that a run's records, its code and its resources give.

    `source` is where its body is, if that is Python; `loaded`: its module is, so what it provides is known.
    `names`: the labels of its calls.
    """
    given = broken_reasons(found) + _blobs(executor.home, found)
    unfinished = found.ledger.unfinished()
    given += reasons_of(unfinished, names(unfinished), found.run.id)
    given += changed_code(executor.caller, found) + _changed_body(found, source) + _workspace(executor.home, found.run)
    given += files.reasons_of(executor.caller, found) if found.may_have_left_files else []
    return given + _imported(found) + _resources(executor, found, source, loaded)


def _imported(found: FoundRun) -> list[Reason]:
    """A run that came in as a file: proven to be whole, and not by whom it was written. It is never trusted."""
    moves = sum(name == "moved" for name, _ in found.ledger.endings)
    if moves <= (found.run.seal == "moved") and found.run.seal not in ("copy", "testimony"):
        return []
    advice = "look at its receipts before you rely on them: a file is proven to be whole, not to come from someone"
    return [Reason("imported", found.run.id, "made here", "came in as a file", advice)]


def changed_code(caller: Caller, found: FoundRun) -> list[Reason]:
    """Code of finished steps that is not what it was, read from the source without importing it."""
    changed = []
    for code, step in found.ledger.codes.items():
        place = found.ledger.places.get(code)
        now = _code_now(file_now(caller, found.run, place[0]), place[1]) if place else ""
        if now is not None and now != code and now != "":
            changed.append(Reason("code_changed", step, code[:12], now[:12], _about(step, now)))
    return changed


def _changed_body(found: FoundRun, source: BodySource | None) -> list[Reason]:
    """That the body of a Python flow is not what it was: which calls it makes is known only when it runs."""
    now = _code_now(source.file, source.name) if source is not None and found.ledger.body else None
    if not source or not now or now == found.ledger.body:
        return []
    advice = "a call that it makes with other inputs, or that is new, is run; receipts that it asks for are reused"
    return [Reason("code_changed", source.name, found.ledger.body[:12], now[:12], advice)]


def _about(step: str, found: str) -> str:
    if found == GONE:
        return "the flow has no such step any more: what it did stands, and one that took its place is done anew"
    return f"its receipts are reused as they are; rewind to {step} to do it again"


def _code_now(path: Path, qualname: str) -> str | None:
    """The digest of a function as its file has it now; None when file or function are elsewhere."""
    return said_by_source(("code", path, qualname), lambda: _read_code(path, qualname))


def _read_code(path: Path, qualname: str) -> str | None:
    if is_flow_file(path.name):
        try:
            definition = flow_files.find_flow_file(path.name, path.parent).definition
            return model.code_of_step(definition, qualname) or GONE
        except OutlastError:
            return None
    try:
        tree = parse(path.read_bytes())
    except OSError:
        return None
    return digest_function(tree, qualname) if tree else None


def _blobs(home: Home, found: FoundRun) -> list[Reason]:
    """Results that live in blobs and are not what was stored. What only people read is left to `verify`.

    Such a receipt is of no use to a resume: its step is done again, an effect is in doubt, once that is accepted.
    """
    holding = [
        past
        for past in found.ledger.calls.values()
        if past.entry is not None
        and type(kept := past.entry.kept) is bytes
        and not kept.startswith(RESULT)  # it is there, or in a blob
        and kept.find(b'"blob":"') >= 0
    ]
    spoilt = [(past, reason) for past in holding if past.finished for reason in _blob(home, past)]
    names = labels(found.rows) if spoilt else {}
    for past, _ in spoilt:
        spoil(past)
    return [replace(reason, subject=names.get(past.call, past.call.path)) for past, reason in spoilt]


def _blob(home: Home, past: Past) -> list[Reason]:
    name = decode_payload(past.payload or b"{}").blob
    if not name:
        return []
    then = "is asked about" if past.kind == "effect" else "is done again"
    advice = f"restore blob {name[:12]} from a copy; accepted, {past.call.step} {then}"
    if not home.blobs.has(name):
        return [Reason("artifact_missing", past.call.step, name, f"no blob {name[:12]}", advice)]
    try:
        home.blobs.get(name)
    except errors.IntegrityBroken as error:
        return [Reason("artifact_corrupt", past.call.step, name, f"blob {name[:12]}: {error.why}", advice)]
    return []


def _workspace(home: Home, run: RunRow) -> list[Reason]:
    """What others say against what the run saved and pinned, and content of it that is not what was saved."""

    def something(look: Reading) -> bool:
        pinned = look.checkpoints_of_run(run.id, 0, 1) or look.artifacts_of_run(run.id, 0, 1)
        return bool(pinned or look.links_after(0, 1))

    if not home.store.read(something):
        return []
    return why.against_run(home, run)


def needs_of(found: FoundRun, source: BodySource | None) -> set[str]:
    """The resources that a run has asked for, and those that its flow will ask for by its source."""
    return found.ledger.needs | (needs.needs_of(source.file, source.name) if source else set())


def _resources(executor: Executor, found: FoundRun, source: BodySource | None, loaded: bool) -> list[Reason]:
    """Every resource that nobody provides. While nothing is loaded, its function is looked for in the source."""
    needed = needs_of(found, source)
    missing = executor.live.resources.missing(needed) if needed else {}
    if missing and not loaded:
        missing = _not_in_source(executor, found, source, missing)
    how = "@resource({0!r}) on a function in the flow's module, or outlast.resource({0!r}, …), before resuming"
    reasons = []
    for key, by in sorted(missing.items()):
        why = f"nothing (resource {by!r} needs it)" if by else "nothing"
        reasons.append(Reason("resource_missing", key, "provided", why, how.format(key)))
    return reasons


def _not_in_source(
    executor: Executor, found: FoundRun, source: BodySource | None, missing: dict[str, str]
) -> dict[str, str]:
    """Those of them that no function of the flow's modules provides; and what such a function needs and nobody has."""
    provided = needs.provided_by(source.file) if source else {}
    left, still, seen = dict(missing), dict[str, str](), set[str]()
    while left:
        key, needed_by = left.popitem()
        seen.add(key)
        if key in provided:
            below = executor.live.resources.missing(provided[key])
            left |= {each: by or key for each, by in below.items() if each not in seen}
        else:
            place = found.ledger.makers.get(key)  # whose file may register it still: whoever resumes will load it
            if place is None or not needs.registers(file_now(executor.caller, found.run, place[0]), key):
                still[key] = needed_by
    return still


def reasons_of(unfinished: Iterable[Past], names: Mapping[Call, str], run_id: str) -> list[Reason]:
    """The reasons that the calls themselves give: effects in doubt, and work that stopped half way."""
    reasons = []
    for past in unfinished:
        label, found = names.get(past.call, ""), f"attempt {past.attempts} {past.last.status}"
        if past.in_doubt and past.last.mark != PROBED:
            advice = f"decide: outlast.retry, outlast.skip or outlast.abort for {run_id} {label}"
            reasons.append(Reason("effect_in_doubt", label, "an outcome", found, advice))
        elif past.kind == "step" and (past.open or past.last.status == "interrupted"):
            reasons.append(Reason("partial_work", label, "an outcome", found, "resuming tries the step again"))
    return reasons
