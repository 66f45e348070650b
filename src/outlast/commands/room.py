"""What commands do for runs, in one value: whoever opens a home hands it to what executes there (`runs/live.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from outlast.commands import flow, leftovers, rehearsal
from outlast.commands.guard import Guard, orphans_of
from outlast.flows.yaml.flow import FlowFileSpec
from outlast.home.home import Home
from outlast.runs.call import Ledger, Past
from outlast.runs.replay.execution import Replaying


class CommandRoom:
    """The room of commands, as runs ask it (`runs.live.Commands` says what each gives)."""

    perform = staticmethod(flow.perform)
    rehearse = staticmethod(rehearsal.rehearse)
    left_by = staticmethod(leftovers.previous_of)
    asked_about = staticmethod(leftovers.asked_by_declaration)

    def new_guard(self, home: Home) -> Guard:
        return Guard(home.settings.patience_seconds)

    def on_receipts(self, execution: Replaying, spec: FlowFileSpec, inputs: dict[str, Any]) -> Callable[[], Any]:
        return rehearsal.body_on_receipts(execution, spec, inputs, rehearsal.OnReceipts).perform

    def still_running(self, home: Home, ledger: Ledger) -> list[tuple[Past, int]]:
        return [(orphan.past, orphan.group.pgid) for orphan in orphans_of(home, ledger)]
