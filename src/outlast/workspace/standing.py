"""What the workspace says against going on: refs that do not stand any more, and content that is not what was saved."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from shlex import quote
from typing import TYPE_CHECKING

from outlast.errors import OutlastError
from outlast.ledger.verdict import Reason
from outlast.store.blobs.intake import content
from outlast.store.contract import Reading, RunRow
from outlast.store.contract.artifacts import ArtifactRow
from outlast.values.codec import decode
from outlast.values.frozen import NamedTuple
from outlast.workspace.artifact import parse_ref
from outlast.workspace.artifacts import ref_of, taken_of
from outlast.workspace.evidence import Standing
from outlast.workspace.refs import whole
from outlast.workspace.why_tree import standings

if TYPE_CHECKING:
    from outlast.handoffs.verdict import Known
    from outlast.home.home import Runtime

SHOWN = 5
READ_BYTES = 256 << 20  # of content that is read for a verdict; of what is larger only that it is there
_ALL = 1 << 40


class Spoilt(NamedTuple):
    """An artifact whose content is not what was saved."""

    code: str  # artifact_missing, artifact_corrupt
    ref: str
    why: str


def against_run(runtime: Runtime, run: RunRow) -> list[Reason]:
    """What bears on resuming a run: how it, what it saved and what its checkpoints refer to stand now.

    What the run itself linked it knows; only what others say counts.
    """
    refs, fallen = runtime.store.read(lambda look: _of_run(look, run))
    accept = f"outlast resume {run.id} --accept {{}} --why WHY"
    found = [_contradicted(ref, told, accept) for ref, told in fallen.items()]
    return found + [_spoilt(each, accept) for each in spoilt(runtime, refs)]


def against_handoff(runtime: Runtime, known: Known) -> Known:
    """The recorded facts about a handoff, with what became of what it refers to and rests on."""
    handoff = known.handoff
    refs, own = handoff.refs, () if known.composed else (f"handoff:{handoff.id}",)
    gone = runtime.store.read(lambda look: [ref for ref in refs if not _is_here(look, ref)])
    there = [ref for ref in refs if ref not in gone]
    down = runtime.store.read(lambda look: fallen(look, [*own, *there]))
    lost = [Spoilt("artifact_missing", ref, "it is not in this home") for ref in gone]
    return replace(known, fallen=down, lost=(*lost, *spoilt(runtime, there)))


def _is_here(look: Reading, ref: str) -> bool:
    try:
        return whole(look, ref, "refs", "") == ref
    except OutlastError:
        return False


def _of_run(look: Reading, run: RunRow) -> tuple[list[str], dict[str, str]]:
    pinned = [ref for row in look.checkpoints_of_run(run.id, 0, _ALL) for ref in decode(row.refs)]
    refs = [*dict.fromkeys([*pinned, *(ref_of(row) for row in look.artifacts_of_run(run.id, 0, _ALL))])]
    return refs, fallen(look, [f"run:{run.id}", *refs], but=run.id)


def fallen(look: Reading, refs: Iterable[str], but: str = "") -> dict[str, str]:
    """The refs of these that do not stand, and why. `but`: links that this run made do not count."""
    if not look.links_after(0, 1):
        return {}
    found = standings(look, refs, but)
    return {ref: told(standing) for ref, standing in found.items() if not standing.stands}


def told(standing: Standing) -> str:
    """Why something does not stand, in a line; what is left out is counted."""
    causes = [str(cause) for cause in standing.causes]
    more = f"; and {len(causes) - SHOWN} more" if len(causes) > SHOWN else ""
    return "; ".join(causes[:SHOWN]) + more


def _contradicted(ref: str, why: str, accept: str) -> Reason:
    code = "evidence_contradicted"
    advice = f"outlast workspace why {quote(ref)}; or accept it: {accept.format(quote(f'{code}:{ref}'))}"
    return Reason(code, ref, "stands", why, advice)


def _spoilt(each: Spoilt, accept: str) -> Reason:
    advice = f"restore its content from a copy; or accept it: {accept.format(quote(f'{each.code}:{each.ref}'))}"
    return Reason(each.code, each.ref, "what was saved", each.why, advice)


def spoilt(runtime: Runtime, refs: Sequence[str]) -> list[Spoilt]:
    """The artifacts of these whose content is missing or was changed. The smallest are read first, 256 MiB in all."""
    if not any(ref.startswith("artifact:") for ref in refs):
        return []
    rows = runtime.store.read(lambda look: list(_rows(look, refs)))
    left, found = READ_BYTES, []
    for row in sorted(rows, key=lambda row: (row.size, row.key)):
        left -= row.size
        code, why = _wrong(runtime, row, read=left >= 0)
        if code:
            found.append(Spoilt(code, ref_of(row), why))
    return found


def _rows(look: Reading, refs: Iterable[str]) -> Iterator[ArtifactRow]:
    for ref in refs:
        place = parse_ref(ref)
        row = look.artifact_at(*place) if place else None
        if row is not None:
            yield row


def _wrong(runtime: Runtime, row: ArtifactRow, *, read: bool) -> tuple[str, str]:
    """What is wrong with an artifact's content; nothing when it is as it was saved, as far as was looked."""
    if not runtime.blobs.has(row.blob):
        return "artifact_missing", "nothing"
    if read:
        try:
            deque(content(runtime.blobs, taken_of(row), ref_of(row)), maxlen=0)
        except OutlastError as error:
            return "artifact_corrupt", str(error.facts.get("why", error))
    return "", ""
