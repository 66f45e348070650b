"""The modules that only some calls need, each loaded when it is first asked for: `rooms.decisions.abort(…)`.

To look at runs takes next to nothing of what executes, moves or removes them. This is the one place that says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.values.late import modules_in

if TYPE_CHECKING:
    from outlast.care import acts as acts
    from outlast.care import backup as backup
    from outlast.care import verify as verify
    from outlast.care.audit import audit as audit
    from outlast.care.gc import gc as gc
    from outlast.care.travel import export_run as export_run
    from outlast.care.travel import handoff as handoff
    from outlast.care.travel import import_run as import_run
    from outlast.commands import logs as logs
    from outlast.commands import mirror as mirror
    from outlast.commands import mirrors as mirrors
    from outlast.commands import room as room
    from outlast.flows.yaml import flow as flow
    from outlast.handoffs import carry as carry
    from outlast.handoffs import compose as compose
    from outlast.handoffs import difference as difference
    from outlast.handoffs import lint as lint
    from outlast.handoffs import store as store
    from outlast.home import act as act
    from outlast.home import caller as caller
    from outlast.home import claimer as claimer
    from outlast.home import home as home
    from outlast.home import place as place
    from outlast.python import awaited as awaited
    from outlast.python import handoffs as handoffs
    from outlast.python import named_flows as named_flows
    from outlast.python import queues as queues
    from outlast.python import sessions as sessions
    from outlast.python import tasks as tasks
    from outlast.python import workspace as workspace
    from outlast.resources import provider as provider
    from outlast.runs import begin as begin
    from outlast.runs import body as body
    from outlast.runs import branches as branches
    from outlast.runs import call_async as call_async
    from outlast.runs import call_plain as call_plain
    from outlast.runs import decisions as decisions
    from outlast.runs import effect as effect
    from outlast.runs import events as events
    from outlast.runs import find as find
    from outlast.runs import fork as fork
    from outlast.runs import journal as journal
    from outlast.runs import look as look
    from outlast.runs import os_signals as os_signals
    from outlast.runs import outcomes as outcomes
    from outlast.runs import outlook as outlook
    from outlast.runs import same_flow as same_flow
    from outlast.runs import start as start
    from outlast.runs.live import Commands
    from outlast.runs.outputs import files as files
    from outlast.runs.outputs import restore as restore
    from outlast.runs.queues import engine as engine
    from outlast.runs.queues import limit as limit
    from outlast.runs.queues import queue as queue
    from outlast.runs.queues import workers as workers
    from outlast.runs.replay import replay as replay
    from outlast.runs.waits import ask as ask
    from outlast.sessions import session as session

_PLACES = {
    "outlast.care": "acts backup verify",
    "outlast.care.audit": "audit",
    "outlast.care.gc": "gc",
    "outlast.care.travel": "export_run handoff import_run",
    "outlast.commands": "logs mirror mirrors room",
    "outlast.flows.yaml": "flow",
    "outlast.handoffs": "carry compose difference lint store",
    "outlast.home": "act caller claimer home place",
    "outlast.python": "awaited handoffs named_flows queues sessions tasks workspace",
    "outlast.resources": "provider",
    "outlast.runs": """
        begin body branches call_async call_plain decisions effect events find fork journal look os_signals
        outcomes outlook same_flow start
    """,
    "outlast.runs.outputs": "files restore",
    "outlast.runs.queues": "engine limit queue workers",
    "outlast.runs.replay": "replay",
    "outlast.runs.waits": "ask",
    "outlast.sessions": "session",
}
_load = modules_in(globals(), _PLACES)


def load_commands() -> Commands:
    """What runs commands: loaded with the first of them, or when somebody asks what one left."""
    found: Commands = _load("room").CommandRoom()
    return found


if not TYPE_CHECKING:  # a checker sees the imports above, and misses a name that is not among them
    __getattr__ = _load
