"""Whether the workspace is what was stored: the part of `verify` that is about artifacts and checkpoints."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from holdfast.domain.codec import decode
from holdfast.domain.journal import Break
from holdfast.errors import HoldfastError
from holdfast.runtime import artifacts, checkpoints
from holdfast.store.artifact_contract import ArtifactRow, CheckpointRow
from holdfast.store.contract import Reading
from holdfast.store.spool import Taken, content

if TYPE_CHECKING:
    from holdfast.runtime import Runtime

PAGE = 100
CHANGED = "what it says of itself was changed"


class Checked(NamedTuple):
    """What a look at the workspace found."""

    artifacts: int
    checkpoints: int
    blobs: int
    breaks: list[Break]


def check_workspace(runtime: Runtime) -> Checked:
    """Check every row, and the content of every artifact; content that several share is read once."""
    lost = runtime.store.read(lambda look: look.refs_without_artifact())
    breaks = [Break(f"artifact number {key}", "its row is missing") for key in lost]
    count, read = 0, dict[Taken, str]()
    for row, wrong in _artifacts(runtime):
        count += 1
        taken = Taken(row.digest, row.size, row.blob, row.codec)
        if taken not in read:
            read[taken] = _spoilt(runtime, taken, artifacts.ref_of(row))
        told = read[taken]
        breaks += wrong + ([Break(artifacts.ref_of(row), told)] if told else [])
    pinned = 0
    for checkpoint in _checkpoints(runtime):
        pinned += 1
        breaks += _of_checkpoint(checkpoint)
    return Checked(count, pinned, len({taken.blob for taken in read}), breaks)


def _artifacts(runtime: Runtime) -> Iterator[tuple[ArtifactRow, list[Break]]]:
    """Every artifact and what is wrong with its row, page by page: no read holds the store up for long."""
    after = 0
    while rows := runtime.store.read(partial(_page, after=after)):
        yield from rows
        after = rows[-1][0].key


def _page(look: Reading, after: int) -> list[tuple[ArtifactRow, list[Break]]]:
    return [(row, list(_of_artifact(look, row))) for row in look.artifacts_after(after, PAGE)]


def _of_artifact(look: Reading, row: ArtifactRow) -> Iterator[Break]:
    ref = artifacts.ref_of(row)
    if artifacts.proof_of_row(row) != row.proof:
        yield Break(ref, CHANGED)
    elif sorted(decode(row.tags)) != look.tags_of_artifact(row.key):
        yield Break(ref, "the index of its tags was changed")
    if look.blobs_of_artifact(row.key) != [row.blob]:
        yield Break(ref, "the reference that keeps its content is missing or was changed")


def _spoilt(runtime: Runtime, taken: Taken, ref: str) -> str:
    """Why the content is not what was saved; nothing when it is."""
    try:
        deque(content(runtime.blobs, taken, ref), maxlen=0)
    except HoldfastError as error:
        return str(error.facts.get("why", error))
    return ""


def _checkpoints(runtime: Runtime) -> Iterator[CheckpointRow]:
    after = 0

    def page(look: Reading) -> list[CheckpointRow]:
        return look.checkpoints_after(after, PAGE)

    while rows := runtime.store.read(page):
        yield from rows
        after = rows[-1].key


def _of_checkpoint(row: CheckpointRow) -> list[Break]:
    if checkpoints.proof_of_row(row) == row.proof:
        return []
    return [Break(f"checkpoint {row.id} ({row.name})", CHANGED)]
