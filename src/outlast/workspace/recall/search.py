"""Searching the index of a scope: what everybody came to see since is taken in first, what was replaced is taken out.

So an index that grew gives what one built anew from the same ledger gives.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from outlast.store.contract import Reading
from outlast.store.sqlite.recall_file import index_path, with_index
from outlast.store.sqlite.recall_index import Found, RecallIndex
from outlast.values.cancel import refuse_stopped
from outlast.values.frozen import NamedTuple
from outlast.workspace.recall.documents import Row, document_of, row_of, size_of, version_before
from outlast.workspace.recall.passages import FAMILIES
from outlast.workspace.recall.query import Query

if TYPE_CHECKING:
    from outlast.home.home import Runtime

CHUNK, CHUNK_BYTES = 500, 16 << 20  # documents taken into the index in one transaction, and about their size


def search(runtime: Runtime, scope: str, query: Query, kinds: Collection[str] | None, limit: int) -> Found:
    """The documents of a scope that a goal asks for, of everything that everybody sees by now."""
    path = index_path(runtime.folder, scope)
    return with_index(path, lambda index: _search(runtime, index, scope, query, kinds, limit))


def _search(
    runtime: Runtime, index: RecallIndex, scope: str, query: Query, kinds: Collection[str] | None, limit: int
) -> Found:
    while _take_in(runtime, index, scope):
        refuse_stopped()
    found = index.search(query, kinds, limit)
    if stale := runtime.store.read(lambda look: _stale(look, found)):  # left by two that took in at the same time
        index.remove("artifact", stale)
        found = index.search(query, kinds, limit)
    return found


def _stale(look: Reading, found: Found) -> list[int]:
    keys = [match.key for match in found.matches if match.family == "artifact"]
    return [key for key in keys if row_of(look, "artifact", key) is None]


class _Chunk(NamedTuple):
    """Some of what everybody came to see, in that order."""

    upto: int  # the number of the last one; 0 when there was none
    rows: list[Row]
    replaced: list[int]  # keys of artifacts that are not the newest of their name any more


def _take_in(runtime: Runtime, index: RecallIndex, scope: str) -> bool:
    """Take in some of what everybody came to see since, and out what that replaces; False when there was none.

    The mark of a family is a number in the order of that. Killed between two families, the next one begins at the
    smaller mark, and what is in the index already is skipped.
    """
    at = min(index.mark(family) for family in FAMILIES)
    chunk = runtime.store.read(lambda look: _chunk(look, scope, at))
    docs = [document_of(runtime, row).document for row in chunk.rows]
    if chunk.replaced:
        index.remove("artifact", chunk.replaced)
    for family in FAMILIES if chunk.upto else ():
        index.add(family, [one for one in docs if one.family == family], chunk.upto)
    return chunk.upto > 0


def _chunk(look: Reading, scope: str, at: int) -> _Chunk:
    upto, size, rows, replaced = 0, 0, list[Row](), list[int]()
    for one in look.shown_of_scope(scope, at, CHUNK):
        upto = one.number
        if one.noun == "artifact" and (before := version_before(look, one.row)) is not None:
            replaced.append(before)
        if one.noun in FAMILIES and (row := row_of(look, one.noun, one.row)) is not None:
            rows.append(row)
            size += size_of(row)
        if size >= CHUNK_BYTES:
            break
    return _Chunk(upto, rows, replaced)
