"""Processes that a dead runtime left behind: ended, or for an effect waited for, before anything else goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from outlast.commands.leftovers import facts_of
from outlast.commands.process import Group, alive, end_group
from outlast.errors import OrphanAlive
from outlast.ledger.journal import CALLS
from outlast.runs.call import Ledger, Past
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.home.home import Home
    from outlast.runs.execution import Execution

_LOOK_SECONDS = 0.1


class Orphan(NamedTuple):
    """An attempt that nobody finished, and its process group."""

    past: Past
    group: Group

    @property
    def label(self) -> str:
        return self.past.call.path


def orphans_of(home: Home, ledger: Ledger) -> list[Orphan]:
    """The groups of unfinished attempts that are still alive here."""
    return [orphan for orphan in _unfinished(home, ledger) if alive(orphan.group, home.process)]


def _unfinished(home: Home, ledger: Ledger) -> list[Orphan]:
    found: list[Orphan] = []
    for past in ledger.calls.values():
        if past.kind in CALLS and past.last.status == "started" and past.payload and b'"group"' in past.payload:
            group: dict[str, Any] | None = facts_of(home, past.payload).get("group")
            if group is not None:
                found.append(Orphan(past, Group.from_facts(group)))
    return found


def settle(execution: Execution) -> None:
    """See that nothing of an earlier attempt works on: a step's processes are ended, an effect's are waited for."""
    home = execution.executor.home
    for orphan in orphans_of(home, execution.ledger):
        if orphan.past.kind == "effect":
            _wait_for(execution, orphan)
        elif not end_group(orphan.group, home.process, execution.settings.patience_seconds):
            raise OrphanAlive(orphan.label, orphan.group.pgid)


def _wait_for(execution: Execution, orphan: Orphan) -> None:
    """An effect that is under way is not disturbed: what it does is known when it has ended."""
    told = {"step": orphan.label, "pgid": orphan.group.pgid}
    execution.writer.note(execution.writer.fact("run", "still_running", told))
    execution.executor.home.tell(
        f"waiting for {orphan.label}, which an earlier process left running ({orphan.group.pgid})"
    )
    while alive(orphan.group, execution.executor.home.process):
        execution.gate()
        execution.clock.sleep(_LOOK_SECONDS)
