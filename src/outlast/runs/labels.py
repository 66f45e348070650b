"""What people call the calls of a run that is executed: the journal is read once, and then what is new in it."""

from __future__ import annotations

import threading

from outlast.ledger.journal import decode_header
from outlast.runs.call import Call, Naming
from outlast.store.contract import Store


class Labels:
    """The labels of a run's calls, as `call.labels` numbers them."""

    def __init__(self, store: Store, run_key: int) -> None:
        self._store, self._run_key = store, run_key
        self._lock = threading.Lock()
        self._seq = 0  # how far the journal was read
        self._named = Naming()

    def of(self, call: Call, item: int = 0) -> str:
        """What people call this call (of a map: of this item): as its receipts do, or will."""
        with self._lock:
            self._catch_up()
            known = self._named.names.get(call)
            if known is not None or call.step.startswith("run."):
                return known or f"{call.scope}{call.step}"
            return self._named.of(call, item)

    def _catch_up(self) -> None:
        for row in self._store.read(lambda look: look.journal_of(self._run_key, self._seq)):
            self._seq = row.seq
            self._named.add(decode_header(row.header))
