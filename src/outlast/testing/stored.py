"""What a run's body stored beside its receipts, frozen for a case: artifacts, checkpoints, records, links, handoffs.

On replay a body is given back what it stored, from the home it is in: a case brings that with it.
"""

from __future__ import annotations

import base64
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outlast.ledger.journal import Row, decode_header, decode_payload, genesis
from outlast.store.contract import NewRun, Reading, RunRow, Writing
from outlast.store.contract.workspace import ArtifactRow, CheckpointRow, LinkRow, RecordRow
from outlast.values.codec import decode
from outlast.workspace.artifact import PREFIX, parse_ref
from outlast.workspace.refs import RECORD as RECORD

if TYPE_CHECKING:
    from outlast.python.outlast import Outlast

_ALL = 1_000_000
_MARK = re.compile(rb'"(?:artifact|record):')


def freeze(outlast: Outlast, run: RunRow, rows: Sequence[Row]) -> dict[str, Any]:
    """The run's own row, and what it stored, as JSON."""

    def look(reading: Reading) -> tuple[list[Any], ...]:
        pinned, named = reading.checkpoints_of_run(run.id, 0, _ALL), _refs_in(rows, run.inputs)
        saved = _artifacts(reading, run, [*named, *_pinned(pinned)])
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
    ids = [facts for facts in _answers(rows, "run.workspace.link") if isinstance(facts, str)]
    given = [row for one in ids if (row := look.link_by_id(one)) is not None]
    return sorted({*look.links_of_run(run.id, 0, _ALL), *given})


def _answers(rows: Sequence[Row], name: str) -> list[Any]:
    """What the body was answered by calls of that name."""
    headers = [(decode_header(row.header), row.payload) for row in rows]
    return [decode_payload(raw).facts for header, raw in headers if header.name == name and raw]


def _pinned(checkpoints: Sequence[CheckpointRow]) -> list[str]:
    return [ref for row in checkpoints for ref in decode(row.refs)]


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
    return list(dict.fromkeys(outlast.handoff.get(handoff_id).anchor for handoff_id in _answers(rows, "run.handoff")))


def _bundle(outlast: Outlast, scope: str, anchor: str) -> str:
    with tempfile.TemporaryDirectory(prefix="outlast-case-") as folder:
        file = Path(folder) / "handoff"
        outlast.handoff.export(anchor, file, scope=scope)
        return base64.b64encode(file.read_bytes()).decode()
