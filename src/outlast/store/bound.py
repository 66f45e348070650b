"""A store as somebody sees it who is bound to some scopes: what is of another scope is not there.

What a lookup by ref, id, prefix or key finds is left out unless it is of these scopes, so that it is missing in the
very words in which something is missing that never was. Who names another scope to look into, or to write to, is
refused; so is what counts or checks the whole tenant. Ids of operations are those of these scopes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from functools import cache
from typing import Any, TypeVar

from outlast.errors import Forbidden
from outlast.store.contract import (
    MARK,
    HandoffRow,
    InterruptRow,
    Plain,
    PlainStore,
    Reading,
    Store,
    Tombstone,
    below,
)
from outlast.store.contract.protocols.store import Writing
from outlast.store.contract.workspace import LinkRow

T = TypeVar("T")

# A ref says its scope by itself: nobody named one to look into.
BY_REF = frozenset({"artifact_at", "removed_artifact", "removed_before"})
WHOLE = frozenset(  # of the tenant
    {
        *("queues", "queue_depth", "pause_queue", "limits", "put_limit", "remove_limit", "workers"),
        *("told", "add_told", "take_told", "keep_told"),
        *("entries_in", "runs_asked", "set_engine"),
        *("count_runs", "count_processes", "count_anchors", "count_artifacts", "count_checkpoints", "count_records"),
        *("unproven", "kin_of_status", "anchors_after", "handoffs_after", "sessions_after", "tasks_after"),
        *("artifacts_after", "records_after", "checkpoints_after", "shown_after"),
    }
)
LINKS = 100  # that are read at a time, while none of these scopes was met
# Lists over several scopes, page by page: the place of where a page begins and of its size among what is given, and
# whether the list goes up.
PAGES = {
    "newest_runs": (2, 1, False),
    "runs_where": (3, 2, False),
    "records_of_ref": (1, 2, False),
    "links_from": (2, 3, True),
    "links_to": (2, 3, True),
    "open_waits": (0, 1, True),
    "entries_between": (0, 2, True),
}


def refuse_other(scope: str, scopes: Collection[str]) -> None:
    """Raises Forbidden for a scope that is none of these."""
    if scope not in scopes:
        known = ", ".join(sorted(scopes))
        why = f"the key is bound to the scopes {known}, and {scope!r:.100} is none of them"
        raise Forbidden(why, "name one of them")


class BoundStore:
    """The same store, for who sees these scopes only."""

    _store: Store
    _scopes: frozenset[str]

    def __init__(self, store: Store, scopes: Collection[str]) -> None:
        self.__dict__.update(_store=store, _scopes=frozenset(scopes))

    def read(self, look: Callable[[Reading], T]) -> T:
        return self._store.read(lambda reading: look(self._bound(reading)))

    def write(self, work: Callable[[Writing], T], plain: Plain | None = None) -> T:
        return self._store.write(lambda tx: work(self._bound(tx)), self._allowed(plain))

    def write_soon(self, work: Callable[[Writing], Any]) -> None:
        self._store.write_soon(lambda tx: work(self._bound(tx)))

    def put_work(self, work: Callable[[Writing], Any], plain: Plain | None = None) -> Any:
        return self._store.put_work(lambda tx: work(self._bound(tx)), self._allowed(plain))

    def _allowed(self, plain: Plain | None) -> Plain | None:
        """Nothing for a run or a handoff of another scope: the work will be refused."""
        if plain is None:
            return None
        scope = plain.scope if isinstance(plain, PlainStore) else plain.run.scope
        return plain if scope in self._scopes else None

    def _bound(self, look: Any) -> Any:
        return Bounded(look, self._scopes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._store, name, value)


class Bounded:
    """Lookups and writes of one moment, of these scopes only."""

    def __init__(self, look: Any, scopes: frozenset[str]) -> None:
        self._look, self._scopes = look, scopes

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._look, name)
        if name in WHOLE:
            why = "this is about the whole tenant, and the key is bound to some of its scopes"
            raise Forbidden(why, "use a key of the whole tenant")
        place = _scope_places().get(name)

        def asked(*given: Any) -> Any:
            if name not in BY_REF:
                self._refuse_others(given, place)
            if name in PAGES:
                return self._page(method, list(given), *PAGES[name])
            return self._seen(method(*given))

        return asked

    memo = None  # nobody who is bound to some scopes looks but once

    def operation(self, operation_id: str) -> Any:
        return self._look.operation(self._own(operation_id))

    def add_operation(self, operation_id: str, *what: Any) -> None:
        self._look.add_operation(self._own(operation_id), *what)

    def links_after(self, key: int, limit: int) -> list[LinkRow]:
        """Those that are seen: whether there is any tells whether anything can speak against a run or a handoff."""
        return self._page(self._look.links_after, [key, max(limit, LINKS)], 0, 1, up=True)[:limit]

    def _own(self, operation_id: str) -> str:
        """An id as these scopes know it: what others use it for is neither found nor in the way."""
        if operation_id.startswith(MARK):
            return operation_id
        return MARK.join((operation_id, *sorted(self._scopes)))

    def _refuse_others(self, given: tuple[Any, ...], place: int | None) -> None:
        named = [given[place]] if place is not None and place < len(given) else []
        named += [one.scope for one in given if isinstance(getattr(one, "scope", None), str)]
        for scope in named:
            refuse_other(scope, self._scopes)

    def _page(self, method: Any, given: list[Any], begins: int, size: int, up: bool) -> list[Any]:
        """A page of what is seen, as full as one of everything would be."""
        limit, kept = given[size] if size < len(given) else None, list[Any]()
        while rows := method(*given):
            kept += [row for row in rows if self._is_seen(row)]
            if limit is None or len(rows) < limit or len(kept) >= limit:
                break
            given[begins] = rows[-1].key if up else below(rows[-1].key)
        return kept if limit is None else kept[:limit]

    def _seen(self, found: Any) -> Any:
        if isinstance(found, list):
            return [row for row in found if self._is_seen(row)]
        return found if found is None or self._is_seen(found) else None

    def _is_seen(self, row: Any) -> bool:
        match row:
            case LinkRow():
                return row.scope in self._scopes and all(map(self._is_seen_ref, (row.source, row.target)))
            case HandoffRow():
                return self.anchor_by_key(row.anchor) is not None
            case InterruptRow():
                return self.run_by_id(row.run_id) is not None
            case Tombstone():
                return False  # it does not say of which scope the run was
            case _:
                scope = getattr(row, "scope", None)
                return not isinstance(scope, str) or scope in self._scopes

    def _is_seen_ref(self, ref: str) -> bool:
        """Whether a whole ref is of something that can be seen here, or is gone."""
        kind, _, name = ref.partition(":")
        if kind == "artifact":
            return name.partition("/")[0].replace("%2F", "/").replace("%25", "%") in self._scopes
        if kind == "run":
            return self.run_by_id(name) is not None
        found = getattr(self, f"{kind}s_by_prefix", None)
        return found is not None and any(row.id == name for row in found(name))


@cache
def _scope_places() -> dict[str, int]:
    """Where a scope stands among what is given to each lookup and write."""
    named = {
        name: [*inspect.signature(how).parameters] for name, how in inspect.getmembers(Writing, inspect.isfunction)
    }
    return {name: given.index("scope") - 1 for name, given in named.items() if "scope" in given}  # without self
