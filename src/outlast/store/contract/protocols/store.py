"""The whole of a store, its API keys, and a ledger as plain tables."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from outlast.ledger.journal import Break, JournalEntry
from outlast.store.contract import DatabaseRoom, KeyRow, Plain, Row, Table, Ticket
from outlast.store.contract.protocols.handoffs import HandoffReading, HandoffWriting
from outlast.store.contract.protocols.queues import QueueReading, QueueWriting
from outlast.store.contract.protocols.runs import RunReading, RunWriting
from outlast.store.contract.protocols.workspace import WorkspaceReading, WorkspaceWriting
from outlast.store.contract.runs import Hold
from outlast.values.frozen import Protocol

T = TypeVar("T")


class Reading(RunReading, QueueReading, HandoffReading, WorkspaceReading, Protocol):
    """Lookups, each by an index, all seeing one moment of the store."""

    @property
    def memo(self) -> dict[Any, Any] | None:
        """What was read before (`Store.remember`)."""

    def unproven(self, table: str, after: int, limit: int) -> tuple[int, list[Break]]:
        """What is wrong with the rows of a table after a key, and the key to go on from; 0 when that was all."""

    def unproven_row(self, table: str, key: int) -> Break | None:
        """What is wrong with one row."""


class Writing(Reading, RunWriting, QueueWriting, HandoffWriting, WorkspaceWriting, Protocol):
    """One transaction: all of it becomes durable, or none of it."""

    def append(self, hold: Hold, entries: Sequence[JournalEntry]) -> None:
        """Chain entries to a journal. Raises LeaseLost when the epoch is over."""

    def append_last(self, hold: Hold, entries: Sequence[JournalEntry]) -> None:
        """The same for the last that its holder writes: the lease is let go of with it."""


class Store(Protocol):
    """A tenant's ledger."""

    place: str  # where it is, for people
    live: int  # runs being executed on it here: an event loop commits inline only while it is one

    def put(self, hold: Hold, entries: Sequence[JournalEntry]) -> Ticket:
        """Queue entries. They are committed in the order in which they were queued, once `finish` is called."""

    def append_now(self, hold: Hold, entry: JournalEntry) -> bool:
        """Make one entry durable that names no blob, if nobody else is writing; False, and nothing done, otherwise."""

    def append(self, hold: Hold, entry: JournalEntry) -> None:
        """Make one durable that names no blob, with all that others have queued meanwhile."""

    def append_later(self, hold: Hold, entry: JournalEntry) -> Awaitable[None]:
        """Queue one on an event loop: what to await until it is durable, with all that is queued meanwhile."""

    def put_work(self, work: Callable[[Writing], Any], plain: Plain | None = None) -> Ticket:
        """Queue a piece of work, in the same order. `plain` is what it mostly comes to; that may be done instead."""

    def finish(self, ticket: Ticket) -> Any:
        """Make what was queued durable and give the work's result. Raises LeaseLost when the epoch is over."""

    def finish_soon(self, ticket: Ticket) -> Awaitable[None] | None:
        """The same on an event loop: None when it was done at once, else what to await."""

    def finish_surely(self, ticket: Ticket) -> Awaitable[None] | None:
        """The same for one task, which awaits it at once: if it is cancelled meanwhile, then once that is over."""

    def write(self, work: Callable[[Writing], T], plain: Plain | None = None) -> T:
        """Run `work` in a transaction and give its result once that is durable. `plain`: as of `put_work`."""

    def write_soon(self, work: Callable[[Writing], Any]) -> None:
        """Run `work` in a transaction that no disk is waited for: with the next one, or now without a sync.

        It survives the death of the process, and may be lost with the power. What it raises is not told.
        """

    def read(self, look: Callable[[Reading], T]) -> T:
        """Run `look` on one moment of the store."""

    def ask(self, question: Callable[[Reading], T]) -> T:
        """The same for one question alone, which is of one moment by itself."""

    def read_also(self, look: Callable[[Reading], T]) -> T:
        """The same, also while another look of this thread is under way: then on that moment."""

    def remember(self) -> None:
        """Read each journal but once from now on, as long as it does not grow: for a process of one short look."""

    def version(self) -> int:
        """Another number once anybody, in whatever process, has committed something since. Cheap: it reads no rows."""

    def when_written(self, tell: Callable[[], None]) -> Callable[[], None]:
        """Call `tell` after each piece of work that this process writes, in some thread; what is given ends that."""

    def wakes(self) -> bool:
        """Whether `tell` is called for what every other process writes too: then nobody has to ask often."""

    def content(self, name: str) -> bytes | None:
        """Small content of that digest, committed with what refers to it; also while `look` runs. None: not here."""

    def listen(self, tell: Callable[[str], None]) -> None:
        """Tell of every row that is read and damaged, once: what it is called, and what cannot be read of it."""

    @property
    def ahead(self) -> Callable[[], int] | None:
        """By how many microseconds its clock is ahead of this machine's, whenever asked; None: it has none."""

    def still_there(self, *, after_commit: bool = False) -> None:
        """Raises StoreFailed when what was opened has been removed or replaced: what is written goes nowhere.

        After a commit one look does for all that was in it.
        """

    def facts(self) -> dict[str, Any]:
        """What `doctor` prints: versions, settings, sizes."""

    def check(self) -> list[str]:
        """What is wrong with the file itself; empty when nothing is."""

    def room(self) -> DatabaseRoom:
        """How large the database is."""

    def copy_to(self, place: Path) -> None:
        """Write the store as it is now into a new file, while others go on writing. Raises DiskFull, StoreFailed."""

    def vacuum(self) -> None:
        """Give free pages back to the disk. Nobody can write meanwhile."""

    def close(self) -> None: ...


class KeyStore(Protocol):
    """The keys of a home, the oldest first. None is ever removed; of two ends of one the first counts."""

    def add(self, row: KeyRow) -> None: ...
    def find(self, key_id: str) -> KeyRow | None: ...
    def all(self) -> list[KeyRow]: ...
    def is_any(self) -> bool: ...
    def revoke(self, row: KeyRow, at: int) -> None: ...
    def use(self, key_id: str, at: int) -> None: ...

    def lost(self) -> str:
        """What is wrong, when there were keys and they are gone; else nothing."""

    def copy_to(self, place: Path) -> bool:
        """Write the keys as they are now into a new file; whether there are any to write."""

    def close(self) -> None: ...


class Tables(Protocol):
    """Reads the rows of a ledger, one moment of it; nobody else writes meanwhile."""

    place: str

    def tables(self) -> list[Table]:
        """Every table, each after those that it refers to."""

    def rows(self, table: Table, after: Row, limit: int) -> list[Row]:
        """Rows by their keys, beyond one; all that there are where `after` is empty."""

    def last_numbers(self) -> dict[str, int]:
        """The last key that was given, of tables whose keys are never given twice."""

    def sealed(self) -> str:
        """Where it was moved to; nothing for one that was not."""

    def seal(self, to: str) -> None:
        """Let nobody write any more, in whatever process, also one that is open: durable when this returns."""

    def close(self) -> None: ...


class NewTables(Tables, Protocol):
    """A ledger that is being made, beside its place."""

    def put(self, table: Table, rows: Sequence[Row]) -> None:
        """Add rows, durably together."""

    def clear(self, tables: Sequence[Table], first: Table, after: Row) -> None:
        """Remove all rows of these tables; of the first of them only those beyond a key."""

    def set_last_numbers(self, numbers: dict[str, int]) -> None:
        """Go on counting there."""

    def publish(self) -> None:
        """Give it its name. From now on it is found, whole."""
