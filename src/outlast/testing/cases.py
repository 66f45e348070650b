"""A run frozen as a test case: inputs, answers, recorded outcomes, and what must come of them again.

A case is one JSON file to keep in a repository. Checking it runs the flow's body on the frozen outcomes, in a home that
is thrown away: no step, effect, probe or command is executed. Values are in the file as they are in the receipts: one
that must not be in a repository must not be in a case. So is what the body stored beside its receipts: on replay it is
given that back, from the home it is in.

An Outlast for tests: its clock moves when told to, and its waits are answered from a script.
"""

from __future__ import annotations

import base64
import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from outlast.clock import ManualClock
from outlast.errors import Invalid
from outlast.flows.loading import is_flow_file, load
from outlast.flows.spec import FlowSpec
from outlast.flows.yaml.flow import find_flow_file
from outlast.home.home import run_row
from outlast.ledger.journal import Header, Payload, Row, decode_header, decode_payload, encode_header, genesis
from outlast.python.decorators import Flow, FlowFile
from outlast.python.outlast import FlowCall, Outlast
from outlast.runs.call import Call, Past, fold, labels
from outlast.runs.effect import NOT_DONE, Happened
from outlast.runs.plan import state_of
from outlast.runs.replay.replay import Came, Divergence, RecordedRun, come_to, compared, differences, recorded_run
from outlast.runs.run import Outcome
from outlast.runs.waits.interrupt import Interrupt, is_told
from outlast.store.contract import NewRun, Reading, RunRow, Writing
from outlast.store.contract.workspace import ArtifactRow, CheckpointRow, LinkRow, RecordRow
from outlast.values.codec import decode, digest, encode
from outlast.workspace.refs import PREFIX, parse_ref
from outlast.workspace.refs import RECORD as RECORD

Reply = Any  # Happened(result), NOT_DONE, a choice, or the whole answer


class ScriptedOutlast(Outlast):
    """What the fixture `outlast` is. `clock.advance(seconds)` lets time pass; `script` answers waits."""

    def __init__(self, home: str | Path, **options: Any) -> None:
        self.clock = ManualClock()
        self._answers: dict[str, list[Reply]] = {}
        super().__init__(home, clock=self.clock, **options)

    def script(self, answers: Mapping[str, Reply | list[Reply]]) -> None:
        """Answer waits by the name of their step, each answer once, in order.

        About an effect an answer is `Happened(result)` or `NOT_DONE`, as a probe would give it, a choice such as
        `"retry"`, or the whole answer, `{"choice": "skip", "result": …}`. What a flow asks by `pause_for("approval")`
        is answered under that name, by whatever fits; what it waits for by `wait_for("paid")` is a signal's body. Give
        a list to answer several times. A wait without an answer stays open.
        """
        for step, given in answers.items():
            self._answers.setdefault(step, []).extend(given if isinstance(given, list) else [given])

    def _run(self, call: FlowCall) -> Outcome[Any]:
        """Run a flow, answering its waits from the script, until it ends or waits for something else."""
        outcome = super()._run(call)
        while outcome.status == "waiting" and self._answer(outcome):
            outcome = super().resume(outcome.run_id)
        return outcome

    def _answer(self, outcome: Outcome[Any]) -> bool:
        answerable = [wait for wait in outcome.interrupts if wait.choices or is_told(wait.type)]
        scripted = [wait for wait in answerable if self._answers.get(wait.name)]
        for wait in scripted:
            self._give(wait, self._answers[wait.name].pop(0))
        return bool(scripted)

    def _give(self, wait: Interrupt, reply: Reply) -> None:
        if wait.type == "signal":
            self.signal(wait.payload["name"], reply, run_id=wait.run_id)
        else:
            self.answer(wait.id, _answer(wait, reply) if wait.choices else reply)


def _answer(wait: Interrupt, given: Reply) -> dict[str, Any]:
    match given:
        case Happened(value=value):
            return {"choice": "skip", "result": value}
        case str():
            return {"choice": given}
        case Mapping():
            return dict(given)
        case _ if given is NOT_DONE:
            return {"choice": "retry"}
        case _:
            raise TypeError(f"{given!r} answers nothing: {wait.step} needs one of {', '.join(wait.choices)}")


FORMAT = "outlast case 1"
RULES = ("status", "result", "error", "state", "phase", "effects", "waits")


class Case(Struct, frozen=True):
    """A run, frozen. `accept` are the rules: leave one out, and it is not asked for."""

    flow: str
    run_id: str
    inputs: dict[str, Any]
    answers: list[dict[str, Any]]  # what people and signals said, for whoever reads the file
    entries: list[dict[str, Any]]  # the journal: what the body is given
    blobs: dict[str, str] = field(default_factory=dict)  # large results, by digest, as base64
    stored: dict[str, Any] = field(default_factory=dict)  # what the body stored: artifacts, checkpoints, handoffs
    accept: dict[str, Any] = field(default_factory=dict)

    def save(self, path: str | Path) -> Path:
        """Write the case to a file, whole or not at all. Values are in it as they are in the receipts."""
        made = {"format": FORMAT} | {name: getattr(self, name) for name in self.__struct_fields__}
        text = json.dumps(made, indent=1, ensure_ascii=False) + "\n"
        place = Path(path)
        handle, name = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name[:100]}.")
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(name, 0o644)
        os.replace(name, place)
        return place

    @classmethod
    def load(cls, path: str | Path) -> Case:
        """A case that was saved. Raises Invalid for anything else."""
        try:
            found = json.loads(Path(path).read_text("utf-8"))
        except ValueError as error:
            raise Invalid(detail=f"{path} is no case: {error}; make it anew: case_from_run(RUN).save(PATH)") from error
        names = {"format", *cls.__struct_fields__}
        if not isinstance(found, dict) or set(found) != names or found.pop("format") != FORMAT:
            raise Invalid(detail=f"{path} is no case of this version; make it anew: case_from_run(RUN).save(PATH)")
        return _checked(cls(**found), str(path))

    def divergences(
        self, flow: Flow[..., Any] | FlowFile | None = None, *, folder: str | Path | None = None, code: bool = False
    ) -> tuple[Divergence, ...]:
        """Every way in which the flow's body does not do what the case says. See `check`."""
        spec = flow.spec if flow is not None else _find(self.flow, Path(folder) if folder is not None else Path.cwd())
        recorded = self._recorded()
        with tempfile.TemporaryDirectory(prefix="outlast-case-") as home, closing(Outlast(home)) as outlast:
            for name, kept in self.blobs.items():
                if outlast._executor.home.blobs.put(base64.b64decode(kept)) != name:
                    raise Invalid(detail=f"blob {name[:12]} of the case was changed; make it anew: case_from_run(RUN)")
            try:
                thaw(outlast, self.run_id, self.flow, encode(self.inputs).decode(), self.stored)
            except (KeyError, TypeError, ValueError) as error:
                raise Invalid(detail=f"what the case has stored cannot be read: {error!r}; make it anew") from error
            came = come_to(outlast._executor, recorded, spec)
        found = [one for one in compared(recorded, spec, came).divergences if self._asks_for(one, code)]
        return (*found, *self._effects(came, {one.subject for one in found}))

    def check(
        self, flow: Flow[..., Any] | FlowFile | None = None, *, folder: str | Path | None = None, code: bool = False
    ) -> None:
        """Run the flow's body on the frozen outcomes. Raises AssertionError with the list of what diverged.

        The flow is found by its recorded name from `folder` (here), or given. Changed code of steps counts only with
        `code`: their outcomes are frozen, whatever their code is.
        """
        found = self.divergences(flow, folder=folder, code=code)
        if found:
            lines = [f"  {one.code} {one.subject}: expected {one.expected}, found {one.found}" for one in found]
            raise AssertionError("\n".join([f"{self.flow} does not do what run {self.run_id} did:", *lines]))

    # -- what is asked for -----------------------------------------------------------------------

    def _recorded(self) -> RecordedRun:
        """The run as the rules have it: they are compared, not what the journal ends with."""
        rules = self.accept
        waits = tuple(Call(*call) for call in rules.get("waits", ()))
        rows = [_row(one) for one in self.entries]
        stands = (self.run_id, self.flow, rules["status"], rules.get("phase", ""))
        came = (rules.get("result"), rules.get("error"), waits)
        return RecordedRun(*stands, self.inputs, rows, *came, state=rules.get("state"))

    def _asks_for(self, found: Divergence, code: bool) -> bool:
        if found.code == "code_changed":
            return code
        if found.code == "end_differs":
            by = {"succeeded": "result", "failed": "error", "waiting": "waits"}
            rule = by.get(self.accept["status"], "status")
            return rule in self.accept or found.found.split()[0] != found.expected.split()[0]
        return {"state_differs": "state", "phase_differs": "phase"}.get(found.code, "status") in self.accept

    def _effects(self, came: Came, said: set[str]) -> list[Divergence]:
        """Effects that the rules name and that did not happen so, or the other way round; but for those `said`."""
        names = labels([_row(one) for one in self.entries])
        wanted = {one["label"]: (one["status"], one["inputs"]) for one in self.accept.get("effects", ())}
        happened = came.execution.effects if "effects" in self.accept else []
        found = {names[past.call]: (past.last.status, past.call.inputs) for past in happened}
        return [
            Divergence("effects_differ", label, _happened(was), _happened(now))
            for label, was, now in differences(wanted, found)
            if label not in said
        ]


def _happened(effect: tuple[str, str] | None) -> str:
    return f"{effect[0]} with inputs {effect[1][:12]}" if effect is not None else "no such effect"


def case_from_run(run_id: str, home: str | Path | Outlast | None = None, *, tenant: str = "default") -> Case:
    """Freeze a run: its inputs, what people answered, every recorded outcome, and what it came to.

    `home` is a folder, or an open Outlast. Raises RunNotFound, FlowNotFound for a script's run, IntegrityBroken. What
    the receipts hold is in the case as it is; nothing is masked.
    """
    opened = nullcontext(home) if isinstance(home, Outlast) else closing(Outlast(home, tenant=tenant))
    with opened as outlast:
        caller = outlast._executor.caller
        recorded = recorded_run(caller, run_id)
        beside = freeze(outlast, run_row(caller.home, recorded.run_id), recorded.rows)
        spare = {name for row in recorded.rows if row.payload for name in _blobs(row.payload)} | blobs_of(beside)
        kept = {name: base64.b64encode(caller.home.blobs.get(name)).decode() for name in sorted(spare)}
    entries = [_told(row) for row in recorded.rows if decode_header(row.header).kind != "testimony"]
    answers, rules = _answers(recorded), _rules(recorded)
    return Case(recorded.flow, recorded.run_id, recorded.inputs, answers, entries, kept, beside, rules)


# -- freezing ----------------------------------------------------------------------------------------


def _rules(recorded: RecordedRun) -> dict[str, Any]:
    names, ledger = labels(recorded.rows), fold(recorded.rows)
    done = sorted((past for each in ledger.effects.values() for past in each), key=lambda past: past.first)
    rules: dict[str, Any] = {"status": recorded.status, "phase": recorded.phase, "state": state_of(recorded.rows)}
    if recorded.status == "succeeded":
        rules["result"] = recorded.result
    if recorded.status == "failed":
        rules["error"] = {name: (recorded.error or {}).get(name) for name in ("type", "message")}
    if recorded.waits:
        rules["waits"] = [list(call) for call in recorded.waits]
    return rules | {"effects": [_effect(past, names[past.call]) for past in done if past.last.delivered]}


def _effect(past: Past, label: str) -> dict[str, Any]:
    return {"label": label, "inputs": past.call.inputs, "status": past.last.status}


def _answers(recorded: RecordedRun) -> list[dict[str, Any]]:
    """What was said from outside: to the flow's questions, and about its calls."""
    found = []
    for row in recorded.rows:
        header = decode_header(row.header)
        payload = decode_payload(row.payload) if row.payload else Payload()
        told = {} if payload.result is msgspec.UNSET else {"answer": decode(bytes(payload.result))}
        if header.kind in ("wait", "decision"):
            said = {"kind": header.kind, "step": f"{header.scope}{header.name}", "status": header.status}
            found.append(said | told | ({"facts": payload.facts} if payload.facts else {}))
    return found


def _told(row: Row) -> dict[str, Any]:
    """An entry for a file: its fields by name, those that say nothing left out."""
    header = decode_header(row.header)
    nothing = Header("", "")
    kept = {name: getattr(header, name) for name in Header.__struct_fields__ if name not in ("payload", "epoch")}
    said = {name: value for name, value in kept.items() if value != getattr(nothing, name)}
    return {"seq": row.seq, "header": said} | ({"payload": _without_trace(row.payload)} if row.payload else {})


def _without_trace(raw: bytes) -> Any:
    """A payload. The trace of a failure speaks of folders of the machine it happened on, and decides nothing."""
    payload = decode(raw)
    if isinstance(payload.get("error"), dict):
        payload["error"].pop("trace", None)
    return payload


def _row(told: Mapping[str, Any]) -> Row:
    """An entry as `_told` wrote it. Raises ValueError, TypeError, KeyError for what is none."""
    said, nothing = dict(told["header"]), Header("", "")
    fields = [said.pop(name, getattr(nothing, name)) for name in Header.__struct_fields__]
    if said:
        raise ValueError(f"entry {told['seq']} has an unknown field {next(iter(said))!r}")
    header = encode_header(msgspec.convert(fields, Header))
    return Row(int(told["seq"]), header, b"", encode(told["payload"]) if "payload" in told else None)


def _blobs(raw: bytes) -> list[str]:
    """The results of a payload that are blobs. What only people read, such as transcripts, is left out."""
    payload = decode_payload(raw) if b'"blob":"' in raw else Payload()
    return [payload.blob] if payload.blob else []


def _checked(case: Case, path: str) -> Case:
    """The case, if what is in it can be read back. Raises Invalid."""
    unknown = sorted(set(case.accept) - set(RULES))
    if unknown or "status" not in case.accept:
        why = f"unknown rule {unknown[0]!r}" if unknown else "its rules have no status"
        raise Invalid(detail=f"{path}: {why}; the rules are {', '.join(RULES)}")
    try:
        rows = [_row(one) for one in case.entries]
        fold(rows)
        wrong = [name for name, kept in case.blobs.items() if digest(base64.b64decode(kept, validate=True)) != name]
    except (ValueError, TypeError, KeyError, AttributeError, msgspec.MsgspecError) as error:
        raise Invalid(detail=f"{path}: {error}; make it anew: case_from_run(RUN).save(PATH)") from error
    if wrong:
        raise Invalid(detail=f"{path}: blob {wrong[0][:12]} was changed; make it anew: case_from_run(RUN).save(PATH)")
    return case


def _find(source: str, folder: Path) -> FlowSpec:
    """The flow that a case is about. Raises FlowNotFound."""
    if is_flow_file(source):
        return find_flow_file(source, folder)
    found = load(source, folder)
    spec = getattr(found, "spec", None)
    if not isinstance(spec, FlowSpec):
        raise Invalid(detail=f"{source} is no flow any more; give it: case.check(flow)")
    return spec


# -- what its body stored ----------------------------------------------------------------------------

_ALL = 1_000_000
_MARK = re.compile(rb'"(?:artifact|record):')


def freeze(outlast: Outlast, run: RunRow, rows: Sequence[Row]) -> dict[str, Any]:
    """The run's own row, and what it stored, as JSON."""

    def look(reading: Reading) -> tuple[list[Any], ...]:
        pinned, named = reading.checkpoints_of_run(run.id, 0, _ALL), _refs_in(rows, run.inputs)
        saved = _artifacts(reading, run, [*named, *(ref for row in pinned for ref in decode(row.refs))])
        return saved, pinned, _records(reading, run, named), _links(reading, run, rows)

    artifacts, checkpoints, records, links = outlast._executor.home.store.read(look)
    kept = {name: getattr(run, name) for name in ("scope", "task", "actor")}
    return kept | {
        "artifacts": [_plain(row) for row in artifacts],
        "checkpoints": [_plain(row) for row in reversed(checkpoints)],
        "records": [_plain(row) for row in records],
        "links": [_plain(row) for row in links],
        "handoffs": {anchor: _bundle(outlast, run.scope, anchor) for anchor in _anchors(outlast, rows)},
    }


def _artifacts(look: Reading, run: RunRow, refs: Sequence[str]) -> list[ArtifactRow]:
    """What the run saved and what its records name, whoever saved it, in the order in which it was saved."""
    places = [place for ref in refs if (place := parse_ref(ref))]
    named = [row for place in places if (row := look.artifact_at(*place)) is not None and not row.pending]
    found = {row.key: row for row in (*look.artifacts_of_run(run.id, 0, _ALL), *named)}
    return [found[key] for key in sorted(found)]


def _records(look: Reading, run: RunRow, refs: Sequence[str]) -> list[RecordRow]:
    """What the run recorded and what its entries name, in the order in which it was recorded."""
    ids = [ref.removeprefix(RECORD) for ref in refs if ref.startswith(RECORD)]
    named = [row for one in ids for row in look.records_by_prefix(one) if row.id == one and not row.pending]
    return sorted({*look.records_of_run(run.id, 0, _ALL), *named})


def _links(look: Reading, run: RunRow, rows: Sequence[Row]) -> list[LinkRow]:
    """What the run linked, and the links that it was given because they were there."""
    ids = [facts for facts in _facts_of(rows, "run.workspace.link") if isinstance(facts, str)]
    given = [row for one in ids if (row := look.link_by_id(one)) is not None]
    return sorted({*look.links_of_run(run.id, 0, _ALL), *given})


def _facts_of(rows: Sequence[Row], name: str) -> list[Any]:
    """What the body was answered by calls of that name."""
    headers = [(decode_header(row.header), row.payload) for row in rows]
    return [decode_payload(raw).facts for header, raw in headers if header.name == name and raw]


def _refs_in(rows: Sequence[Row], inputs: str) -> list[str]:
    """Every ref of an artifact or a record in a run's inputs and entries: saved, returned, kept in the state."""
    found: dict[str, None] = {}
    left = [decode(inputs), *(decode(row.payload) for row in rows if row.payload and _MARK.search(row.payload))]
    while left:
        one = left.pop()
        if isinstance(one, str) and one.startswith((PREFIX, RECORD)):
            found[one] = None
        elif isinstance(one, dict | list):
            left += one.values() if isinstance(one, dict) else one
    return list(found)


def blobs_of(stored: Mapping[str, Any]) -> set[str]:
    """The blobs that hold the content of these artifacts."""
    return {str(name) for row in stored["artifacts"] for name in (row["blob"], row.get("chunks")) if name}


def thaw(outlast: Outlast, run_id: str, flow: str, inputs: str, stored: Mapping[str, Any]) -> None:
    """Put what was frozen into a home. Its blobs are there already."""
    home = outlast._executor.home
    at = home.clock.now()
    mine = (stored["scope"], flow, stored["task"], inputs, "", "", "", "", "{}", stored["actor"], at)

    def work(tx: Writing) -> None:
        tx.add_run(NewRun(run_id, *mine), genesis(run_id, flow, stored["task"], ""), home.process.id)
        for row in stored["artifacts"]:
            tx.add_artifact(ArtifactRow(**_with_proof(row)), decode(row["tags"]))
        for row in stored["checkpoints"]:
            tx.add_checkpoint(CheckpointRow(**_with_proof(row)))
        for row in stored.get("records", ()):  # cases from before there were any have none
            tx.add_record(RecordRow(**_with_proof(row)), decode(row["tags"]), decode(row["refs"]))
        for row in stored.get("links", ()):
            tx.add_link(LinkRow(**_with_proof(row)))

    home.store.write(work)
    for bundle in stored["handoffs"].values():
        with tempfile.TemporaryDirectory(prefix="outlast-case-") as folder:
            file = Path(folder) / "handoff"
            file.write_bytes(base64.b64decode(bundle))
            outlast.handoff.import_(file)


def _plain(row: ArtifactRow | CheckpointRow | RecordRow | LinkRow) -> dict[str, Any]:
    return row._asdict() | {"key": 0, "proof": row.proof.hex()}


def _with_proof(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "proof": bytes.fromhex(row["proof"])}


def _anchors(outlast: Outlast, rows: Sequence[Row]) -> list[str]:
    """The anchors under which the body stored handoffs."""
    return list(dict.fromkeys(outlast.handoff.get(handoff_id).anchor for handoff_id in _facts_of(rows, "run.handoff")))


def _bundle(outlast: Outlast, scope: str, anchor: str) -> str:
    with tempfile.TemporaryDirectory(prefix="outlast-case-") as folder:
        file = Path(folder) / "handoff"
        outlast.handoff.export(anchor, file, scope=scope)
        return base64.b64encode(file.read_bytes()).decode()
