"""Runs and waits by their ids, or by a unique prefix of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from outlast.clock import moment
from outlast.errors import AmbiguousPrefix, InterruptNotFound, RunNotFound, RunRemoved
from outlast.store.contract import InterruptRow, Reading, RunRow

if TYPE_CHECKING:
    from outlast.home.home import Home


def run_row(home: Home, run_id: str) -> RunRow:
    """A run by its id or a unique prefix of it. Raises RunNotFound, RunRemoved, AmbiguousPrefix."""
    rows = home.store.read(lambda look: look.runs_by_prefix(run_id)) if run_id else []
    if run_id and not rows:
        _refuse_removed(home, run_id)
    found: RunRow = _only(rows, run_id, RunNotFound(run_id))
    return found


def interrupt_row(look: Reading, interrupt_id: str) -> InterruptRow:
    """A wait by its id or a unique prefix of it. Raises InterruptNotFound, AmbiguousPrefix."""
    rows = look.interrupts_by_prefix(interrupt_id) if interrupt_id else []
    found: InterruptRow = _only(rows, interrupt_id, InterruptNotFound(interrupt_id))
    return found


def _refuse_removed(home: Home, prefix: str) -> None:
    """Raises RunRemoved when the run that is asked for was there once."""
    for stone in home.store.read(lambda look: look.tombstones_by_prefix(prefix))[:1]:
        at = f"{moment(stone.removed_at):%Y-%m-%d %H:%M} UTC"
        raise RunRemoved(stone.id, stone.status, stone.removed_by, at)


def _only(rows: list[Any], prefix: str, missing: Exception) -> Any:
    exact = [row for row in rows if row.id == prefix]
    if exact:
        return exact[0]
    if not rows:
        raise missing
    if len(rows) > 1:
        raise AmbiguousPrefix(prefix, ", ".join(row.id for row in rows))
    return rows[0]
