"""What people call the calls of a run that is executed: the journal is read once, and then what is new in it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from itertools import islice

from outlast.ledger.journal import Row, read_header
from outlast.runs.call import Call, Naming, id_of, label
from outlast.store.contract import Store


class Labels:
    """The labels of a run's calls, as `call.labels` numbers them."""

    def __init__(self, store: Store, run_key: int) -> None:
        self._store, self._run_key = store, run_key
        self._lock = threading.Lock()
        self._seq = 0  # how far the journal was read
        self._named = Naming()
        self._by_id: dict[str, str] = {}
        self._told: dict[Call, tuple[int, str]] = {}  # of calls that have no entry yet

    def of(self, call: Call, item: int = 0) -> str:
        """What people call this call (of a map: of this item): as its receipts do, or will."""
        with self._lock:
            self._catch_up()
            known = self._named.names.get(call)
            if known is not None or call.step.startswith("run."):
                return known or call.path
            if call not in self._told:  # it has no entry yet: branches that come here at the same time differ too
                others = [number for each, (number, _) in self._told.items() if each.path == call.path]
                number = self._named.number(call, item, others)
                self._told[call] = number, label(call, item, number)
            return self._told[call][1]

    def among(self, rows: Sequence[Row]) -> Mapping[Call, str]:
        """The labels of all calls up to these rows, which are the next of the journal."""
        with self._lock:
            self._add(rows)
            return self._named.names

    def of_id(self, call_id: str) -> str:
        """The label of the call with this id (`id_of`); nothing when the journal does not know it."""
        with self._lock:
            if call_id not in self._by_id:
                self._catch_up()
                new = islice(self._named.names.items(), len(self._by_id), None)
                self._by_id |= {id_of(call): name for call, name in new}
            return self._by_id.get(call_id, "")

    def _catch_up(self) -> None:
        self._add(self._store.read(lambda look: look.journal_of(self._run_key, self._seq)))

    def _add(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self._seq = row.seq
            self._named.add(read_header(row.header))
        if self._told:
            self._told = {call: told for call, told in self._told.items() if call not in self._named.names}
