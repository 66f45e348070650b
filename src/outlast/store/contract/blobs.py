"""Blobs: content named by its digest, wherever it is kept. Content goes in and out; nobody asks where its file is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Protocol, Self, runtime_checkable

from outlast.values.frozen import NamedTuple


class Stored(NamedTuple):
    """How content is stored: the blob that has it, how it is packed, and the blob that lists its chunks, if any."""

    blob: str
    codec: str
    chunks: str = ""


class TakenContent(NamedTuple):
    """Content that is durable in the folder: what it is, and under which name and how it is stored."""

    digest: str
    size: int
    blob: str
    codec: str
    chunks: str = ""


Known = Callable[[str], Stored | None]  # how content of this digest is stored already


Inside = Callable[[str], bytes | None]  # small content that the ledger itself keeps, by its digest


def nothing_inside(name: str) -> bytes | None:
    return None


def nothing_known(digest: str) -> Stored | None:
    return None


class BlobFile(NamedTuple):
    name: str
    size_bytes: int
    old: bool  # nobody has touched it for a grace period


class Shelf(NamedTuple):
    """A part of what is kept, as it was found by one look."""

    first: str  # how the names of its blobs begin
    blobs: list[BlobFile]  # in their places
    trash: list[BlobFile]  # of the trash
    half_written: list[str]  # what writers who died left unfinished, a grace period ago or more, by names for `clear`


IsNeeded = Callable[[str], bool]


def nothing() -> str:
    return ""


class BlobsWanted(NamedTuple):
    """What somebody who opens a ledger says of its content; all of it may be left out."""

    url: str = ""  # of a bucket
    restored: Callable[[], str] = nothing  # the id of the backup that the ledger was restored from
    beside: Callable[[], str] = nothing  # the bucket of the ledgers beside it, for one that is new


@runtime_checkable
class Intake(Protocol):
    """Content as it arrives. Closed without being settled, it leaves nothing behind."""

    size: int

    @property
    def digest(self) -> str: ...

    def write(self, piece: bytes) -> None:
        """Take the next piece. Raises DiskFull, StoreFailed."""

    def settle(self, known: Known = nothing_known, *, pack: bool = False) -> TakenContent:
        """Make what has arrived durable. What is there already is relied on, not written again."""

    def close(self) -> None:
        """Let go of it; what was not settled is gone."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *failed: object) -> None: ...


class Trash(Protocol):
    """Where blobs that nobody refers to wait before they are gone."""

    grace_seconds: float

    def shelves(self) -> Iterator[Shelf]:
        """All that is here, part by part, each looked at once: a bucket is listed but one time."""

    def refusal(self) -> str:
        """Why nothing may be removed here; nothing when it may."""

    def clear(self, name: str) -> str:
        """Remove what was left half-written; says why it could not be, else nothing."""

    def throw(self, name: str, is_needed: IsNeeded) -> bool:
        """Move a blob to the trash. False when somebody turned out to need it: then it is in its place."""

    def remove(self, blob: BlobFile, is_needed: IsNeeded) -> bool:
        """Remove a blob from the trash for good. False when it is needed, and back, or was put there lately."""


class Blobs(Protocol):
    """A tenant's content. A blob is durable before anything refers to it, and verified when it is read."""

    @property
    def place(self) -> str:
        """Where they are, for people."""

    def put(self, content: bytes) -> str:
        """Store content durably and give its digest."""

    def adopt(self, path: Path, known: str = "") -> str:
        """Store a file's content durably, in constant memory, and give its digest. Nobody writes to it any more.

        `known` is its digest where the caller has read it to its end already.
        """

    def keep(self, name: str, pieces: Iterable[bytes]) -> None:
        """Store content of a known digest durably, piece by piece. Raises IntegrityBroken if it is other content."""

    def get(self, name: str) -> bytes:
        """The content. Raises IntegrityBroken when it is missing or not what was stored."""

    def pieces(self, name: str) -> Iterator[bytes]:
        """The content piece by piece, for what need not fit in memory. IntegrityBroken comes after the last piece."""

    def check(self, name: str) -> None:
        """Raises IntegrityBroken unless the content is there, and what was stored."""

    def opened(self, name: str) -> BinaryIO:
        """The content to look into at any place, for who proves what he reads. Raises IntegrityBroken."""

    def has(self, name: str) -> bool: ...

    def renew(self, name: str) -> bool:
        """Whether it is there, whole; then it is young again, and no sweep takes it."""

    def size_of(self, name: str) -> int:
        """How many bytes it takes; 0 when it is missing or in the trash."""

    def intake(self) -> Intake:
        """Content that is about to arrive. Raises DiskFull, HomeReadOnly."""

    def trash(self) -> Trash: ...

    def probe(self) -> dict[str, str]:
        """What is found out of where they are by trying it, for `doctor`; nothing where there is nothing to try."""
