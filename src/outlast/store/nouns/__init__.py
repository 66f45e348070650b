"""Every noun on one connection: what each database does of the protocols of `contract/`.

How a statement is run there is each database's own, and so is how journals grow.
"""

from __future__ import annotations

from outlast.store.nouns.handoffs import HandoffReader, HandoffWriter
from outlast.store.nouns.queues import QueueReader, QueueWriter
from outlast.store.nouns.rows import Proofs
from outlast.store.nouns.runs import RunReader, RunWriter
from outlast.store.nouns.workspace import WorkspaceReader, WorkspaceWriter


class Nouns(RunReader, QueueReader, HandoffReader, WorkspaceReader, Proofs):
    """Lookups."""


class WrittenNouns(RunWriter, QueueWriter, HandoffWriter, WorkspaceWriter, Nouns):
    """The same inside a transaction, with the writes."""
