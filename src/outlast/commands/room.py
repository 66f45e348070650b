"""What commands do for runs, in one value: whoever opens a home hands it to what executes there (`runs/live.py`).

A Python flow that goes on asks here too, what its steps left: where they left nothing, nothing more is loaded for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from outlast.values.late import late

if TYPE_CHECKING:
    from outlast.commands import flow, guard, leftovers, rehearsal
    from outlast.files.changes import LeftFiles
    from outlast.flows.yaml.flow import FlowFileSpec
    from outlast.home.home import Home
    from outlast.runs.call import Ledger, Past
    from outlast.runs.execution import Execution
    from outlast.runs.found import FoundRun
    from outlast.runs.live import Executor
    from outlast.runs.plan import Rehearsed
    from outlast.runs.replay.execution import Replaying
else:
    flow = late("outlast.commands.flow")
    guard = late("outlast.commands.guard")
    leftovers = late("outlast.commands.leftovers")
    rehearsal = late("outlast.commands.rehearsal")


class CommandRoom:
    """The room of commands, as runs ask it (`runs.live.Commands` says what each gives)."""

    def new_guard(self, home: Home) -> guard.Guard:
        return guard.Guard(home.settings.patience_seconds)

    def perform(self, execution: Execution, spec: FlowFileSpec, inputs: dict[str, Any]) -> dict[str, Any]:
        return flow.perform(execution, spec, inputs)

    def on_receipts(self, execution: Replaying, spec: FlowFileSpec, inputs: dict[str, Any]) -> Callable[[], Any]:
        return rehearsal.body_on_receipts(execution, spec, inputs, rehearsal.OnReceipts).perform

    def rehearse(
        self, executor: Executor, found: FoundRun, spec: FlowFileSpec, silent_at: int, partial_work: str
    ) -> Rehearsed:
        return rehearsal.rehearse(executor, found, spec, silent_at, partial_work)

    def still_running(self, home: Home, ledger: Ledger) -> list[tuple[Past, int]]:
        if not any(past.header is not None and _says(past, b'"group"') for past in ledger.calls.values()):
            return []
        return [(orphan.past, orphan.group.pgid) for orphan in guard.orphans_of(home, ledger)]

    def left_by(self, home: Home, run_id: str, past: Past) -> LeftFiles | None:
        return leftovers.previous_of(home, run_id, past, asks_git=False) if _has_facts(past) else None

    def asked_about(self, home: Home, run_id: str, past: Past) -> str:
        return leftovers.asked_by_declaration(home, run_id, past) if _has_facts(past) else ""


def _has_facts(past: Past) -> bool:
    """Whether an attempt of it said anything of files or processes."""
    return past.begun is not None or past.payload is not None


def _says(past: Past, mark: bytes) -> bool:
    return past.told is not None and mark in past.told
