"""A new run beside an unfinished one of the same flow, only because a default was edited: whoever started it is told.

What the caller gives is meant. What is a default of the flow may have been edited since: then the same call is another
task, and that may not be meant.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from outlast.runs import claim as claims
from outlast.runs import same_flow
from outlast.store.contract import Reading, RunRow
from outlast.values.codec import decode, jsonable

if TYPE_CHECKING:
    from outlast.flows.spec import FlowSpec
    from outlast.home.caller import Caller

MISSING = object()
LOOKED_AT = 8  # of the newest unfinished runs of a flow


def beside(caller: Caller, spec: FlowSpec, run: RunRow) -> tuple[str, ...]:
    """What to tell who started this run; nothing when it has a name of its own, or no unfinished one lies idle."""
    if run.named:
        return ()
    defaults = {each.name: each.default for each in spec.signature.parameters if each.default is not each.empty}
    return caller.home.store.read(lambda look: _told(caller, look, run, defaults)) if defaults else ()


def _is_edited(defaults: Mapping[str, Any], before: dict[str, Any], now: dict[str, Any]) -> bool:
    """Whether inputs differ only where a default of today stands."""
    other = [name for name in {*before, *now} if before.get(name, MISSING) != now.get(name, MISSING)]
    return all(name not in now or (name in defaults and now[name] == jsonable(defaults[name])) for name in other)


def _told(caller: Caller, look: Reading, run: RunRow, defaults: Mapping[str, Any]) -> tuple[str, ...]:
    inputs = decode(run.inputs)
    rows = look.unfinished_of_flow(run.scope, run.identity, LOOKED_AT)
    others = [row for row in rows if row.id != run.id and not (row.seal or row.named or row.parent)]
    for other in others:
        lease = look.lease_of(other.id)
        is_idle = lease is not None and not claims.holder_of(caller, look, other.id, lease)
        is_edited = _is_edited(defaults, decode(other.inputs), inputs)
        if is_idle and is_edited and same_flow.compared(caller.home.project, other, run) == "same":
            status = "crashed" if other.status == "running" else other.status
            return (
                f"run {other.id} of this flow is {status}, with other inputs; run {run.id} was started beside it. "
                f"To continue that one: outlast resume {other.id}",
            )
    return ()
