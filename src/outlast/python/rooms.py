"""The modules that only some calls need, each loaded when it is first asked for: `rooms.decisions.abort(…)`.

To look at runs takes next to nothing of what executes, moves or removes them. This is the one place that says so.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from outlast.care import backup as backup
    from outlast.care import verify as verify
    from outlast.care.audit import audit as audit
    from outlast.care.gc import gc as gc
    from outlast.care.travel import export_run as export_run
    from outlast.care.travel import handoff as handoff
    from outlast.care.travel import import_run as import_run
    from outlast.commands import logs as logs
    from outlast.commands import mirror as mirror
    from outlast.commands import room as room
    from outlast.flows.yaml import flow as flow
    from outlast.handoffs import carry as carry
    from outlast.handoffs import compose as compose
    from outlast.handoffs import difference as difference
    from outlast.handoffs import lint as lint
    from outlast.handoffs import store as store
    from outlast.home import claimer as claimer
    from outlast.python import named_flows as named_flows
    from outlast.runs import begin as begin
    from outlast.runs import body as body
    from outlast.runs import branches as branches
    from outlast.runs import call_async as call_async
    from outlast.runs import decisions as decisions
    from outlast.runs import due as due
    from outlast.runs import fork as fork
    from outlast.runs import journal as journal
    from outlast.runs import look as look
    from outlast.runs import outcomes as outcomes
    from outlast.runs import outlook as outlook
    from outlast.runs import outputs as outputs
    from outlast.runs import restored_outputs as restored_outputs
    from outlast.runs import same_flow as same_flow
    from outlast.runs import start as start
    from outlast.runs import timeline as timeline
    from outlast.runs import workspace as workspace
    from outlast.runs.live import Commands
    from outlast.runs.replay import replay as replay
    from outlast.runs.waits import ask as ask
    from outlast.runs.waits import signal as signal
    from outlast.sessions import session as session

_PLACES = {
    "care": "backup verify",
    "care.audit": "audit",
    "care.gc": "gc",
    "care.travel": "export_run handoff import_run",
    "commands": "logs mirror room",
    "flows.yaml": "flow",
    "handoffs": "carry compose difference lint store",
    "home": "claimer",
    "python": "named_flows",
    "runs": """
        begin body branches call_async decisions due fork journal look outcomes outlook outputs
        restored_outputs same_flow start timeline workspace
    """,
    "runs.replay": "replay",
    "runs.waits": "ask signal",
    "sessions": "session",
}
ROOM_OF = {name: room for room, names in _PLACES.items() for name in names.split()}


def load_commands() -> Commands:
    """What runs commands: loaded with the first of them, or when somebody asks what one left."""
    found: Commands = _load("room").CommandRoom()
    return found


def _load(name: str) -> ModuleType:
    if name not in ROOM_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = import_module(f"outlast.{ROOM_OF[name]}.{name}")
    return found


if not TYPE_CHECKING:  # a checker sees the imports above, and misses a name that is not among them
    __getattr__ = _load
