"""The six questions about a run, answered from its records."""

from __future__ import annotations

import os
import shlex
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field

from outlast.care.audit.audit import unit_of
from outlast.care.audit.flow import AuditAnswer, AuditFinding
from outlast.care.audit.python import names_in, unrepeatable
from outlast.care.verify import DamagedRecord, verify
from outlast.errors import FlowNotFound, OutlastError
from outlast.flows.loading import function_in, is_flow_file, parse, why_missing
from outlast.flows.yaml.flow import FlowFileSpec
from outlast.flows.yaml.model import Command, FlowDefinition
from outlast.home.home import run_row
from outlast.ledger.journal import CALLS, Row, decode_header, decode_payload
from outlast.runs.call import GOOD, Call, Ledger, Past, fold, labels
from outlast.runs.journal import in_hand
from outlast.runs.look import record_now, run_attempts
from outlast.runs.outlook import plan as plan_of
from outlast.runs.outputs.files import Output
from outlast.runs.plan import Plan
from outlast.runs.receipt import Receipt
from outlast.runs.run import FINISHED, RunRecord
from outlast.runs.same_flow import file_now, flow_of_run, whereabouts
from outlast.store.contract import RunRow
from outlast.store.contract.workspace import ArtifactRow
from outlast.values.codec import decode
from outlast.workspace.artifact import ref_of

if TYPE_CHECKING:
    from outlast.home.caller import Caller
    from outlast.home.home import Home
    from outlast.runs.live import Executor

_ALL = 1_000_000
SHOWN = 20  # of the calls that are all alike; how many more there are is said
GIVEN_AGAIN = ("reuse", "raise_again")  # what a resume does with the others: their outcomes are given again
ACTIONS = {
    "retry": "is tried again",
    "confirm": "is in doubt: its probe is asked",
    "decide": "waits for a person's decision",
    "redo": "is done anew",
    "leave": "is not asked for any more",
}


class AuditedReceipts(Struct):
    """What the receipts of a run say together: each was looked at and let go of."""

    receipts: int = 0
    sources: dict[str, str] = field(default_factory=dict)  # blob of a result, and the step that gave it
    files: list[str] = field(default_factory=list)  # that were written, in words
    untraced: list[str] = field(default_factory=list)  # steps whose receipts have another trace id, or none

    def add(self, receipt: Receipt, trace_id: str) -> None:
        self.receipts += 1
        if receipt.blob:
            self.sources[receipt.blob] = receipt.label
        self.files += _files(receipt)
        if receipt.trace_id != trace_id and receipt.kind != "testimony":
            self.untraced.append(receipt.label)


class AuditedRun(Struct, frozen=True):
    """A run, looked at: what all six answers are made of."""

    run: RunRecord
    rows: Sequence[Row]
    readable: bool  # else nothing is known of its calls
    ledger: Ledger
    names: dict[Call, str]
    left: AuditedReceipts
    problems: tuple[DamagedRecord, ...]
    blobs: int
    plan: Plan | None
    definition: FlowDefinition | None
    artifacts: tuple[ArtifactRow, ...]  # that it saved in the workspace
    files: int  # of finished steps that were looked at
    outputs: tuple[Output, ...]  # those of them that are not as they were left
    missing_flow: str  # why the flow is not found; empty when it is

    @property
    def finished(self) -> bool:
        return self.run.status in FINISHED

    def label(self, past: Past) -> str:
        return self.names.get(past.call, past.call.path)


def look_at(executor: Executor, run_id: str) -> AuditedRun:
    """Read a run whole. Records that cannot be read are among the problems. Raises RunNotFound, AmbiguousPrefix.

    It is read several times, one after the other: of a long one there is no room for two readings.
    """
    row = run_row(executor.home, run_id)
    saved = executor.home.store.read(lambda look: look.artifacts_of_run(row.id, 0, _ALL))
    checked, plan = verify(executor.caller, row.id), None
    if row.status not in FINISHED:
        with suppress(OutlastError):
            plan = plan_of(executor, row, reused=False)
    ledger, names, left, readable = Ledger(), dict[Call, str](), None, False
    with suppress(OutlastError, msgspec.MsgspecError, ValueError, KeyError, TypeError):  # it is among the problems
        left = _left(executor.home, row)
    rows: list[Row] = []
    executor.home.store.read(lambda look: deque(in_hand(look, row.key, rows), maxlen=0))
    with suppress(OutlastError, msgspec.MsgspecError, ValueError, KeyError, TypeError):
        ledger = fold(rows)
        names = labels(rows, ledger.calls)
        readable = left is not None
    definition, missing = _flow_of(executor, row)
    return AuditedRun(
        run=record_now(executor.caller, row),
        rows=rows,
        readable=readable,
        ledger=ledger,
        names=names,
        left=left or AuditedReceipts(),
        problems=checked.problems,
        blobs=checked.blobs,
        plan=plan,
        definition=definition,
        artifacts=tuple(row for row in saved if not row.pending),
        files=checked.files,
        outputs=checked.outputs,
        missing_flow=missing,
    )


def _left(home: Home, run: RunRow) -> AuditedReceipts:
    left = AuditedReceipts()
    for receipt in run_attempts(home, run.id):
        left.add(receipt, run.trace_id)
    return left


def _flow_of(executor: Executor, run: RunRow) -> tuple[FlowDefinition | None, str]:
    """Its flow file, read; and why the flow is not found. A Python flow is looked for in its source: nothing is run."""
    if run.source.startswith("script:"):
        return None, ""
    if not is_flow_file(run.source):
        place, _, name = (whereabouts(executor.caller, run.source) or run.source).rpartition(":")
        return None, why_missing(place, name, executor.home.project or Path.cwd())
    try:
        spec = flow_of_run(executor, run)
    except OutlastError as error:
        return None, error.why if isinstance(error, FlowNotFound) else str(error)
    return (spec.definition if isinstance(spec, FlowFileSpec) else None), ""


def answers_of(executor: Executor, looked: AuditedRun) -> list[AuditAnswer]:
    """The six answers. What nobody can read, nobody can vouch for."""
    if not looked.readable:
        unread = AuditFinding("unreadable", looked.run.id, "its records cannot be read", "see question 6")
        return [AuditAnswer((), (unread,))] * 5 + [_debugged(looked)]
    return [
        _reruns(executor.caller, looked),
        protected(looked),
        _needs(executor, looked),
        _continues(looked),
        _artifacts(executor.home, looked),
        _debugged(looked),
    ]


# -- 1: which steps can rerun ------------------------------------------------------------------------


def _reruns(caller: Caller, looked: AuditedRun) -> AuditAnswer:
    told: list[str] = []
    found: list[AuditFinding] = []
    for past in looked.ledger.calls.values():
        again = past.kind == "step" and past.attempts > 0 and not past.finished and not looked.finished
        if past.kind != "step" or not (_ran(past) > 1 or again):
            continue
        label, times = looked.label(past), f"ran {_times(_ran(past))}" + (", and will again" if again else "")
        told.append(f"{label} {times}: {past.last.status}")
        signs = _signs_of(caller, looked, past)
        advice, looks = "see whether it was done twice, then mark it: @effect, or effect: true", "looks unrepeatable"
        found += [AuditFinding("ran_again", label, f"it {times}, and {looks}: {sign}", advice) for sign in signs]
    once = sum(1 for past in looked.ledger.calls.values() if past.kind == "step" and _ran(past) == 1)
    return AuditAnswer((*_shown(told), f"{once} steps ran once"), tuple(found))


def _ran(past: Past) -> int:
    """How often a call was tried: what a person gave in its place is an attempt in which nothing ran."""
    return past.attempts - (past.last.mark in ("decided", "reused"))


def _signs_of(caller: Caller, looked: AuditedRun, past: Past) -> tuple[str, ...]:
    """Signs in the code of a step, read from its file without importing it."""
    if looked.definition is not None:
        node = next((each for each in looked.definition.nodes() if each.id == past.call.step), None)
        return unit_of(node).signs if isinstance(node, Command) else ()
    place = looked.ledger.places.get(past.last.code)
    if not place or is_flow_file(place[0]):
        return ()
    try:
        tree = parse(file_now(caller, run_row(caller.home, looked.run.id), place[0]).read_bytes())
    except OSError:
        return ()
    node_of = function_in(tree, place[1]) if tree is not None else None
    if tree is None or node_of is None:
        return ()
    return tuple(f"{sign.what} (line {sign.line})" for sign in unrepeatable(node_of, names_in(tree, node_of)))


# -- 2: which steps cannot rerun ---------------------------------------------------------------------


def protected(looked: AuditedRun) -> AuditAnswer:
    """Every effect with its outcome, its key and how it was settled; every answer and who gave it."""
    told: list[str] = []
    found: list[AuditFinding] = []
    allowed = _allowed(looked.rows)
    for past in (past for each in looked.ledger.effects.values() for past in each):
        label = looked.label(past)
        told.append(f"effect {label}: {_outcome(past)}, key {past.last.key or 'none'}")
        if past.in_doubt:
            says, advice = "nobody knows whether it happened", f"decide: outlast retry {looked.run.id} {label}"
            found.append(AuditFinding("in_doubt", label, says, f"{advice}, skip, or abort", not looked.finished))
        if past.attempts > allowed.get(past.call, 1):
            times = f"ran {_times(past.attempts)}, allowed {_times(allowed.get(past.call, 1))}"
            found.append(AuditFinding("ran_again", label, times, "look whether it was done twice, and undo that"))
    waits = [past for past in looked.ledger.calls.values() if past.kind == "wait" and past.finished]
    told += [f"answer to {looked.label(past)}: {past.last.status}, {_answerer(past)}" for past in waits]
    return AuditAnswer(tuple(_shown(told)) or ("no effects and no answers",), tuple(found))


def _outcome(past: Past) -> str:
    if past.in_doubt:
        return "in doubt"
    how = {"confirmed": ", found by its probe", "decided": ", by a person's word", "reused": ", reused"}
    if past.finished:
        return f"{past.last.status}, delivered once, attempt {past.attempts}{how.get(past.last.mark, '')}"
    return f"{past.last.status}, not delivered: nothing was done"


def _allowed(rows: Sequence[Row]) -> dict[Call, int]:
    """How often each call may have run: once, and once more for every NOT_DONE and every decision."""
    found: dict[Call, int] = {}
    for row in rows:
        if row.header.startswith(b'["step"'):
            continue  # nobody asks it of those
        header = decode_header(row.header)
        call = Call(header.scope, header.name, header.inputs, header.occurrence)
        is_leave = header.kind == "decision" or header.mark in ("not_done", "decided", "reused")
        found[call] = found.get(call, 1) + is_leave
    return found


def _answerer(past: Past) -> str:
    facts = decode_payload(past.payload).facts if past.payload else None
    by = facts.get("by") if isinstance(facts, dict) else None
    return f"given by {by}" if by else "on record"


# -- 3: what live dependencies are needed ------------------------------------------------------------


def _needs(executor: Executor, looked: AuditedRun) -> AuditAnswer:
    keys, absent = sorted(looked.ledger.needs), executor.live.resources.missing(looked.ledger.needs)
    missing = {key: by for key, by in absent.items() if key not in _made_by_code(looked, absent)}
    secrets = looked.definition.secrets if looked.definition is not None else ()
    if looked.finished:
        told = f"needed while it ran: {', '.join((*keys, *secrets))}" if keys or secrets else "none was needed"
        return AuditAnswer((f"{told}; it is finished: nothing is restored",))
    told_all = [f"resource {key}: {_provided(key, absent, missing)}" for key in keys]
    found, lacks = list[AuditFinding](), "nobody provides it"
    for key, by in sorted(missing.items()):
        advice = f"outlast.resource({key!r}, …) before resuming"
        found.append(AuditFinding("resource_missing", key, f"{lacks}; {by} needs it" if by else lacks, advice))
    for name in secrets:
        is_set = bool(os.environ.get(name))
        told_all.append(f"secret {name}: {'set' if is_set else 'not set'}")
        if not is_set:
            advice = f"set it before resuming: export {name}=…"
            found.append(AuditFinding("secret_missing", name, "it is not set", advice))
    return AuditAnswer(tuple(told_all) or ("none: nothing live is needed",), tuple(found))


def _made_by_code(looked: AuditedRun, absent: Iterable[str]) -> set[str]:
    """Those that nobody provides here, and whose function is in its source still: whoever resumes loads that."""
    if looked.plan is None:
        return set()
    told = {reason.subject for reason in looked.plan.verdict.reasons if reason.code == "resource_missing"}
    return set(absent) - told


def _provided(key: str, absent: Mapping[str, str], missing: Mapping[str, str]) -> str:
    if key in missing:
        return "missing"
    return "made by the flow's code" if key in absent else "provided by this process"


# -- 4: where does execution continue ----------------------------------------------------------------


def _continues(looked: AuditedRun) -> AuditAnswer:
    if looked.finished:
        return AuditAnswer((f"nowhere: it is {looked.run.status}",))
    found = []
    if looked.missing_flow:
        advice = "put the flow back where it was, or finish the run where the flow is (outlast export --move)"
        found.append(AuditFinding("flow_not_found", looked.run.flow, looked.missing_flow, advice))
    return AuditAnswer(tuple(_next(looked)), tuple(found))


def _next(looked: AuditedRun) -> Iterator[str]:
    if looked.run.phase:
        yield f"phase {looked.run.phase}"
    if looked.run.flow.startswith("script:"):
        yield "run its script again: it continues"
    if looked.plan is None:
        return
    others = {step.label for step in looked.plan.steps if step.action not in GIVEN_AGAIN}  # those are left out of it
    given = [past for past in looked.ledger.calls.values() if past.kind in CALLS and looked.label(past) not in others]
    yield f"{len(given)} outcomes are given again"
    for action, what in ACTIONS.items():
        yield from _shown([f"{label} {what}" for label in looked.plan.of(action)])
    for wait in looked.plan.waits:
        yield f"wait: {wait}"
    if not any(looked.plan.of(action) for action in ACTIONS):
        yield "next is the first call without an outcome"


# -- 5: can artifacts be trusted ---------------------------------------------------------------------


def _artifacts(home: Home, looked: AuditedRun) -> AuditAnswer:
    sources = looked.left.sources
    spoilt = [problem for problem in looked.problems if problem.record.startswith("blob ")]
    told = [f"{looked.blobs} blobs, each named by its digest: {len(spoilt)} not what was stored"]
    told += _shown([f"blob {blob[:12]} is the result of {label}" for blob, label in sources.items()])
    told += _shown(looked.left.files)
    if looked.files:
        told.append(f"{looked.files} files of finished steps: {len(looked.outputs)} not as they were left")
    advice = "restore the blob from a copy, or rewind to the step that made it"
    found = [_output(looked, one) for one in looked.outputs]
    for problem in spoilt:
        short = problem.record.removeprefix("blob ")
        label = next((label for blob, label in sources.items() if blob.startswith(short)), "the run")
        found.append(AuditFinding("artifact_spoilt", problem.record, f"{problem.why} (of {label})", advice))
    told += _shown([f"{ref_of(row)} by {_source(row)}: {row.summary or 'no summary'}" for row in looked.artifacts])
    found += [finding for row in looked.artifacts for finding in _artifact(home, row)]
    return AuditAnswer(tuple(told), tuple(found))


def _output(looked: AuditedRun, one: Output) -> AuditFinding:
    """A file that is not as its step left it: it fails the question if it is gone and somebody still has to read it."""
    says = f"{one.found} ({one.now}), written by {one.step}"
    says += f", to be read by {', '.join(one.read_by)}" if one.read_by else ""
    ways = [f"outlast outputs {looked.run.id} --restore {shlex.quote(one.path)}"] if one.kept else []
    ways += [] if looked.finished else [f"outlast resume {looked.run.id} --from {shlex.quote(one.step)}"]
    advice = "; ".join(ways) or "it is not kept; look whether somebody needs it"
    return AuditFinding(f"output_{one.found}", one.path, says, advice, one.found == "missing" and bool(one.read_by))


def _artifact(home: Home, row: ArtifactRow) -> Iterator[AuditFinding]:
    """What is wrong with an artifact: every one says what it is, and its content is what was saved."""
    if not row.summary:
        yield AuditFinding("no_summary", ref_of(row), "it does not say what it is", "save it with summary=…")
    try:
        home.blobs.check(row.blob)
    except OutlastError as error:
        yield AuditFinding("artifact_spoilt", ref_of(row), str(error.facts.get("why", error)), "restore it from a copy")


def _source(row: ArtifactRow) -> str:
    source = decode(row.source)
    return str(source.get("step") or "the body") if isinstance(source, dict) else "the body"


def _files(receipt: Receipt) -> Iterator[str]:
    files = receipt.facts.get("files")
    if isinstance(files, dict) and receipt.status in GOOD:
        for path, digest in files.items():
            yield f"{path} was written by {receipt.label}: {str(digest)[:12]}"


# -- 6: how is failure debugged ----------------------------------------------------------------------


def _debugged(looked: AuditedRun) -> AuditAnswer:
    run, trace = looked.run, looked.run.trace_id
    told = [f"{len(looked.rows)} entries in one chain, {looked.left.receipts} receipts, all of run {run.id}"]
    told.append(f"trace id {trace} on every one" if trace else "no trace id was given: the run's id ties them together")
    if run.error:
        told.append(f"error: {run.error.get('type', '')}: {run.error.get('message', '')}")
    broken = [problem for problem in looked.problems if not problem.record.startswith("blob ")]
    advice = "restore the home from a copy; outlast verify names what is broken"
    found = [AuditFinding("integrity_broken", problem.record, problem.why, advice) for problem in broken]
    others = looked.left.untraced
    for label in others[:1] if trace else ():
        says = f"{len(others)} receipts have another trace id, or none"
        found.append(AuditFinding("untraced", label, says, "see outlast receipts", fails=False))
    return AuditAnswer(tuple(told), tuple(found))


def _shown(lines: list[str]) -> list[str]:
    more = [f"… and {len(lines) - SHOWN} more of the kind"] if len(lines) > SHOWN else []
    return lines[:SHOWN] + more


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
