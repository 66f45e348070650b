"""What the rooms above may ask of a store, whichever database is behind it: the rows that it takes and gives, noun by
noun. What is asked, `protocols/` says, for each noun too.

A store commits appends (the hot path) and pieces of work (everything else), many callers' at once in one
synced transaction. Each append guards itself by epoch and head; a stale one fails alone.

Beside it: API keys, of every tenant; and a ledger as plain tables, by which a home is taken from one database to
another, row by row. What arrives is made in a place where nobody looks for it, and gets its name at the end, whole.
What it was taken from is sealed before that: it can be read, and nobody can write to it any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from outlast.store.contract.handoffs import *
from outlast.store.contract.handoffs import PlainStore
from outlast.store.contract.queues import *
from outlast.store.contract.runs import *
from outlast.store.contract.runs import LAST, PlainEnd, PlainStart
from outlast.values.codec import sha256
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.store.contract.protocols.store import KeyStore as KeyStore
    from outlast.store.contract.protocols.store import NewTables as NewTables
    from outlast.store.contract.protocols.store import Reading as Reading
    from outlast.store.contract.protocols.store import Store as Store
    from outlast.store.contract.protocols.store import Tables as Tables
    from outlast.store.contract.protocols.store import Writing as Writing
else:
    Reading = Writing = Store = KeyStore = Tables = NewTables = object  # nobody asks while a program runs

Plain = PlainStart | PlainEnd | PlainStore  # what a piece of work mostly comes to

T = TypeVar("T")
Ticket = Any  # what a store gives for something queued; only the store knows what it is

# What is proven row by row, because it is no entry of a chain.
PROVEN = (
    *("runs", "chains", "claims", "processes", "interrupts", "inbox", "operations", "deliveries", "tombstones"),
    *("anchors", "handoffs", "signals", "schedules", "acts"),
    *("sessions", "tasks", "artifacts", "artifact_names", "artifact_dropped", "artifact_removed", "checkpoints"),
    *("records", "links", "stored_by", "workspace_shown"),
)


class DatabaseRoom(NamedTuple):
    """How large the database is, and how much of it is free to be used again."""

    size_bytes: int
    free_bytes: int


def every_row(page: Callable[[int], Sequence[T]], place: Callable[[T], int], begin: int = 0) -> Iterator[T]:
    """Every row, a page at a time as they are used: `page` gives those beyond a place, `place` is that of a row."""
    while rows := page(begin):
        yield from rows
        begin = place(rows[-1])


def below(key: int) -> int:
    """Before which row the next page begins, from the newest on. 0 is the list's beginning: a row has it by damage."""
    return key or -1


# -- API keys ----------------------------------------------------------------------------------------

KEYS = "keys.db"  # its name in a home


class KeyRow(NamedTuple):
    """A key as it is stored. Times are microseconds; 0: never."""

    id: str
    print: str
    tenant: str
    actor: str
    roles: str
    scopes: str
    created_at: int
    expires_at: int
    last_used_at: int
    revoked_at: int
    proof: bytes = b""  # set when it is stored

    def proven(self) -> KeyRow:
        """The same with the proof of what it says."""
        return self._replace(proof=self._proof())

    def is_sound(self) -> bool:
        """Whether it says what was stored. When it was used last only has to be a time."""
        return self.proof == self._proof() and 0 <= self.last_used_at <= LAST

    def _proof(self) -> bytes:
        said = (*self[:8], self.revoked_at)  # when it was used last moves by itself
        return sha256(msgspec.msgpack.encode(("keys", *said))).digest()[:16]


# -- a ledger as plain tables ------------------------------------------------------------------------

Row = tuple[Any, ...]


class Table(NamedTuple):
    """A table: its columns in their order, and those that a row is known by."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]

    def key_of(self, row: Row) -> Row:
        """By what a row is known."""
        return tuple(row[self.columns.index(name)] for name in self.key)
