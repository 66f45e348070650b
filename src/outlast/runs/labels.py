"""What people call the calls of a run that is executed: the journal is read once, and then what is new in it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from outlast.ledger.journal import CALLS, TESTIMONY, Row, decode_header
from outlast.runs.call import Call
from outlast.store.contract import Store


class Labels:
    """The labels of a run's calls, as `domain.call.labels` numbers them."""

    def __init__(self, store: Store, run_key: int) -> None:
        self._store, self._run_key = store, run_key
        self._lock = threading.Lock()
        self._seq = 0  # how far the journal was read
        self._names: dict[Call, str] = {}
        self._counts: dict[tuple[str, str], int] = {}

    def of(self, call: Call) -> str:
        """What people call this call: as its receipts do, or will."""
        with self._lock:
            self._catch_up()
            known = self._names.get(call)
            if known is not None or call.step.startswith("run."):
                return known or f"{call.scope}{call.step}"
            return _label(call, self._counts.get((call.scope, call.step), 0) + 1)

    def among(self, rows: Sequence[Row]) -> Mapping[Call, str]:
        """The labels of all calls up to these rows, which are the next of the journal."""
        with self._lock:
            self._add(rows)
            return self._names

    def _catch_up(self) -> None:
        self._add(self._store.read(lambda look: look.journal_of(self._run_key, self._seq)))

    def _add(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self._seq = row.seq
            header = decode_header(row.header)
            call = Call(header.scope, header.name, header.inputs, header.occurrence)
            if header.kind in (*CALLS, TESTIMONY) and call not in self._names:
                place = (header.scope, header.name)
                self._counts[place] = self._counts.get(place, 0) + 1
                self._names[call] = _label(call, self._counts[place])


def _label(call: Call, number: int) -> str:
    return f"{call.scope}{call.step}" + (f"~{number}" if number > 1 else "")
