"""Whether the workspace is what was stored: the part of `verify` about artifacts, checkpoints, records and links."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from outlast.errors import OutlastError
from outlast.ledger.journal import Break
from outlast.store.blobs.intake import Taken, check_content
from outlast.store.contract import Reading
from outlast.store.contract.artifacts import ArtifactRow, CheckpointRow
from outlast.store.contract.damaged import damage_of
from outlast.store.contract.records import LinkRow, RecordRow, Shown
from outlast.values.codec import decode
from outlast.values.frozen import NamedTuple
from outlast.workspace import artifacts, checkpoints, links, records

if TYPE_CHECKING:
    from outlast.home.home import Runtime

PAGE = 100
CHANGED = "what it says of itself was changed"
UNNUMBERED = "its number among what everybody sees is missing"


class Checked(NamedTuple):
    """What a look at the workspace found."""

    artifacts: int = 0
    checkpoints: int = 0
    records: int = 0
    links: int = 0
    blobs: int = 0
    breaks: list[Break] = []  # noqa: RUF012  # never added to


def check_workspace(runtime: Runtime) -> Checked:
    """Check every row, and the content of every artifact; content that several share is read once.

    A row that is gone is noticed too: everything that everybody sees is numbered, without holes.
    """
    lost = runtime.store.read(lambda look: look.refs_without_artifact())
    breaks = [Break(f"artifact number {key}", "its row is missing") for key in lost]
    count, read = 0, dict[Taken, str]()
    for row, wrong in _artifacts(runtime):
        count += 1
        taken = artifacts.taken_of(row)
        if taken not in read:
            read[taken] = _spoilt(runtime, taken, artifacts.ref_of(row))
        told = read[taken]
        breaks += wrong + ([Break(artifacts.ref_of(row), told)] if told else [])
    pinned, broken = _counted(_paged(runtime, lambda look, after: look.checkpoints_after(after, PAGE), _of_checkpoint))
    recorded, torn = _counted(_paged(runtime, lambda look, after: look.records_after(after, PAGE), _of_record))
    linked, cut = _counted(_paged(runtime, lambda look, after: look.links_after(after, PAGE), _of_link))
    breaks += [*broken, *torn, *cut, *_out_of_order(runtime, lost)]
    return Checked(count, pinned, recorded, linked, len({taken.blob for taken in read}), breaks)


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
    yield from _unreadable(ref, row)
    if artifacts.proof_of_row(row) != row.proof:
        yield Break(ref, CHANGED)
    elif sorted(decode(row.tags)) != look.tags_of_artifact(row.key, row.scope):
        yield Break(ref, "the index of its tags was changed")
    if not row.pending and not look.is_shown("artifact", row.key):
        yield Break(ref, UNNUMBERED)
    if look.blobs_of_artifact(row.key) != sorted({row.blob, row.chunks} - {""}):
        yield Break(ref, "the reference that keeps its content is missing or was changed")


def _unreadable(name: str, row: object) -> Iterator[Break]:
    if why := damage_of(row):
        yield Break(name, why)


def _spoilt(runtime: Runtime, taken: Taken, ref: str) -> str:
    """Why the content is not what was saved; nothing when it is."""
    try:
        check_content(runtime.blobs, taken, ref)
    except OutlastError as error:
        return str(error.facts.get("why", error))
    return ""


# -- rows without content ----------------------------------------------------------------------------

Keyed = TypeVar("Keyed", CheckpointRow, RecordRow, LinkRow)


def _paged(
    runtime: Runtime,
    page: Callable[[Reading, int], list[Keyed]],
    check: Callable[[Reading, Keyed], Iterator[Break]],
) -> Iterator[list[Break]]:
    """What is wrong with each row, page by page."""
    after = 0

    def following(look: Reading) -> list[tuple[int, list[Break]]]:
        return [(row.key, list(check(look, row))) for row in page(look, after)]

    while found := runtime.store.read(following):
        yield from (breaks for _, breaks in found)
        after = found[-1][0]


def _counted(found: Iterator[list[Break]]) -> tuple[int, list[Break]]:
    every = list(found)
    return len(every), [each for breaks in every for each in breaks]


def _of_checkpoint(look: Reading, row: CheckpointRow) -> Iterator[Break]:
    name = f"checkpoint {row.id} ({row.name})"
    yield from _unreadable(name, row)
    if checkpoints.proof_of_row(row) != row.proof:
        yield Break(name, CHANGED)
    if not look.is_shown("checkpoint", row.key):
        yield Break(name, UNNUMBERED)


def _of_record(look: Reading, row: RecordRow) -> Iterator[Break]:
    name = f"record:{row.id}"
    yield from _unreadable(name, row)
    if records.proof_of_row(row) != row.proof:
        yield Break(name, CHANGED)
    elif sorted(decode(row.tags)) != look.tags_of_record(row.key, row.scope):
        yield Break(name, "the index of its tags was changed")
    elif sorted(decode(row.refs)) != look.refs_of_record(row.key):
        yield Break(name, "the index of its refs was changed")
    if not row.pending and not look.is_shown("record", row.key):
        yield Break(name, UNNUMBERED)


def _of_link(look: Reading, row: LinkRow) -> Iterator[Break]:
    name = f"link {row.id} ({row.source} {row.relation} {row.target})"
    yield from _unreadable(name, row)
    if links.proof_of_row(row) != row.proof:
        yield Break(name, CHANGED)
    if not row.pending and not look.is_shown("link", row.key):
        yield Break(name, UNNUMBERED)


# -- the order of what everybody sees ----------------------------------------------------------------


def _out_of_order(runtime: Runtime, told: Collection[int]) -> Iterator[Break]:
    """Numbers that are missing, and those whose row is; `told` are the keys of artifacts that are known to be gone."""
    before, found = 0, 0
    for shown, there in _order(runtime):
        yield from _missing(before, shown.number)
        before = found = shown.number
        if not there and not (shown.noun == "artifact" and shown.row in told):
            yield Break(f"{shown.noun} number {shown.row} of scope {shown.scope}", "its row is missing")
    yield from _missing(found, runtime.store.read(lambda look: look.highest_shown()) + 1)


def _missing(before: int, number: int) -> Iterator[Break]:
    if number > before + 1:
        which = f"entry {before + 1}" if number == before + 2 else f"entries {before + 1} to {number - 1}"
        yield Break(f"{which} of the workspace", "what was put there, and that it was, is missing")


def _order(runtime: Runtime) -> Iterator[tuple[Shown, bool]]:
    after = 0

    def page(look: Reading) -> list[tuple[Shown, bool]]:
        return [(shown, _is_there(look, shown)) for shown in look.shown_after(after, PAGE)]

    while found := runtime.store.read(page):
        yield from found
        after = found[-1][0].number


def _is_there(look: Reading, shown: Shown) -> bool:
    find: dict[str, Callable[[int], object]] = {
        "artifact": look.artifact_by_key,
        "checkpoint": look.checkpoint_by_key,
        "record": look.record_by_key,
        "link": look.link_by_key,
    }
    return find[shown.noun](shown.row) is not None or _is_removed(look, shown)


def _is_removed(look: Reading, shown: Shown) -> bool:
    """Whether `gc` put a stone in its place."""
    return shown.noun == "artifact" and look.removed_by_key(shown.row) is not None
