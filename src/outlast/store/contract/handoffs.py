"""Handoffs: anchors, their revisions, and what each is found by. Tasks that a host opened, and sessions.

What happened to a task is a chain; so are the messages of a session, and its memos.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from outlast.ledger.journal import JournalEntry
from outlast.values.frozen import NamedTuple


class AnchorRow(NamedTuple):
    """An anchor and how its newest revision stands. Its key is that of its chain."""

    key: int
    id: str
    scope: str
    anchor: str
    status: str
    outcome: str
    revision: int
    newest: int
    branch: str
    root: str
    symbol: str
    score: int
    stored_at: int
    expires_at: int
    arrived: int  # the last entry that came by import: up to it, others say so; 0 when all was written here


class HandoffRow(NamedTuple):
    """Where a revision is: its anchor, and the entry that carries its content."""

    key: int
    id: str
    anchor: int
    revision: int
    seq: int
    supersedes: str


class NewHandoff(NamedTuple):
    """A revision to add, and what its anchor is found by from now on."""

    id: str
    revision: int
    supersedes: str
    branch: str
    root: str
    symbol: str
    score: int
    stored_at: int
    expires_at: int
    files: tuple[str, ...]


class FirstRevision(NamedTuple):
    """All of an anchor that is to be added with its first revision, which supersedes none."""

    anchor_id: str
    start: bytes  # what its chain begins with
    entry: JournalEntry
    handoff: NewHandoff
    contents: Mapping[str, bytes]  # small ones, to be kept with it
    given: Any  # what the work would have given


class PlainStore(NamedTuple):
    """A handoff as it is stored where nothing is known of its anchor and of its task."""

    scope: str
    anchor: str
    task: str | None  # that the anchor is of
    make: Callable[[], FirstRevision]  # asked by who writes, once it is known to be plain
    has_content: bool  # content is kept with it, or referred to: that is more than one statement


class TaskRow(NamedTuple):
    """A task that somebody opened, and where its chain of events ends. To be added it has key 0 and no event."""

    key: int
    scope: str
    task: str
    state: str
    session: str
    meta: str
    actor: str
    opened_at: int
    updated_at: int
    head: int
    hash: bytes


class TaskEventRow(NamedTuple):
    seq: int
    kind: str
    name: str
    body: str
    digest: bytes
    masked: int
    actor: str
    at: int
    hash: bytes


class SessionRow(NamedTuple):
    """A session, and where its chains of messages and memos end. To be added it has key 0 and the starts of these."""

    key: int
    scope: str
    id: str
    meta: str
    actor: str
    head: int
    hash: bytes
    memos: int
    memo_hash: bytes
    created_at: int
    updated_at: int


class MessageRow(NamedTuple):
    seq: int
    role: str
    content: str
    digest: bytes
    meta: str
    run_id: str
    actor: str
    at: int
    hash: bytes


class MemoRow(NamedTuple):
    version: int
    upto: int
    text: str
    digest: bytes
    actor: str
    at: int
    hash: bytes
