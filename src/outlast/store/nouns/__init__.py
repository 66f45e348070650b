"""What is looked up and written of every noun, on one connection: the rows of `contract/`, by named statements.

How a statement is run is each database's own, and so is how journals grow.
"""

from __future__ import annotations

from collections.abc import Sequence

from outlast.ledger.journal import JournalEntry
from outlast.store.contract.runs import Hold
from outlast.store.nouns.handoffs import HandoffReader, HandoffWriter
from outlast.store.nouns.queues import QueueReader, QueueWriter
from outlast.store.nouns.rows import Proofs
from outlast.store.nouns.runs import RunReader, RunWriter
from outlast.store.nouns.workspace import WorkspaceReader, WorkspaceWriter


class Reading(RunReader, QueueReader, HandoffReader, WorkspaceReader, Proofs):
    """Lookups, each by an index, all seeing one moment of the store. `memo` is what was read before."""


class Writing(RunWriter, QueueWriter, HandoffWriter, WorkspaceWriter, Reading):
    """One transaction: all of it becomes durable, or none of it."""

    def append(self, hold: Hold, entries: Sequence[JournalEntry]) -> None:
        """Chain entries to a journal. Raises LeaseLost when the epoch is over."""
        raise NotImplementedError

    def append_last(self, hold: Hold, entries: Sequence[JournalEntry]) -> None:
        """The same for the last that its holder writes: the lease is let go of with it."""
        raise NotImplementedError
