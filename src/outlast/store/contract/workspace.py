"""The workspace: artifacts, checkpoints, records, links, and the order in which everybody came to see them.

And the index that recall searches: given documents with their words, it finds passages. It does not say what counts.
Derived data: it may be deleted at any time, and the ledger owns what it was made from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.store.contract.protocols.workspace import RecallIndex as RecallIndex
else:
    RecallIndex = object  # nobody asks while a program runs


class ArtifactRow(NamedTuple):
    key: int
    scope: str
    name: str
    version: int
    digest: str
    size: int
    media_type: str
    summary: str
    tags: str
    source: str
    run_id: str
    stored_at: int
    blob: str
    codec: str
    pending: int
    proof: bytes
    chunks: str = ""


class CheckpointRow(NamedTuple):
    key: int
    id: str
    scope: str
    task: str
    run_id: str
    name: str
    summary: str
    refs: str
    state: str
    phase: str
    position: int
    actor: str
    at: int
    proof: bytes


class RemovedRow(NamedTuple):
    key: int
    scope: str
    name: str
    version: int
    digest: str
    size: int
    stored_at: int
    removed_at: int
    by: str


class ArtifactCounts(NamedTuple):
    """How many artifacts there are, and how many of them wait for the end of the attempt that saved them."""

    artifacts: int
    pending: int


class RecordRow(NamedTuple):
    key: int
    id: str
    scope: str
    kind: str
    text: str
    refs: str
    tags: str
    source: str
    run_id: str
    task: str
    at: int
    stored_at: int
    masked: str
    pending: int
    pinned: int
    pinned_by: str
    proof: bytes


class LinkRow(NamedTuple):
    key: int
    id: str
    scope: str
    source: str
    relation: str
    target: str
    note: str
    by: str
    run_id: str
    stored_at: int
    masked: str
    pending: int
    proof: bytes


class ShownRow(NamedTuple):
    """Something of the workspace that everybody sees: the how manieth it is, what it is, and its key there."""

    number: int
    noun: str  # artifact, checkpoint, record, link
    scope: str
    row: int


class WorkspaceKeys(NamedTuple):
    """Keys of what an attempt put into the workspace: everybody sees it, or nobody ever, when the attempt ends."""

    artifacts: tuple[int, ...] = ()
    records: tuple[int, ...] = ()
    links: tuple[int, ...] = ()


NOTHING = WorkspaceKeys()


class CountedRecords(NamedTuple):
    """How many records and links everybody sees."""

    records: int
    links: int


FAMILIES = ("record", "artifact", "checkpoint", "handoff")  # of documents; their order is part of every index


class IndexedPassage(NamedTuple):
    """A piece of a document: where it is, and the terms it is found by."""

    piece: int
    start: int
    end: int
    terms: list[str]
    asks: bool


class IndexedDocument(NamedTuple):
    """A document to be taken in."""

    family: str
    key: int  # its key in the ledger: grows, never comes again
    kind: str
    stream: str  # what its neighbours have in common with it
    voice: str  # who speaks in it
    voice_words: Sequence[str]  # by which that one may be named
    day: int | None
    passages: Iterable[IndexedPassage]


class FoundPassage(NamedTuple):
    """A passage as it is kept."""

    number: int  # orders passages the same in every index
    family: str
    key: int
    piece: int
    start: int
    end: int
    kind: str
    stream: int
    place: int  # in its stream, without gaps
    voice: int
    day: int | None
    length: int
    asks: bool
    terms: str  # a blank between two


class Tally(NamedTuple):
    passages: int
    terms: int
    documents: int
