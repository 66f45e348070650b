"""Preparing the briefing for the next session, after something was stored and while nobody waits."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outlast.doors.hooks import briefing, sessions
from outlast.doors.hooks.events import HookEvent
from outlast.doors.hooks.opening import opened
from outlast.doors.hooks.place import Place, anchor_of, place_of
from outlast.doors.hooks.start import recovered_for, shown
from outlast.handoffs.handoff import Handoff

if TYPE_CHECKING:
    from outlast.handoffs.recovered import Recovered
    from outlast.home.home import Runtime

DIRTY_FILES = 100  # with more the verdict looks at some by their size only
QUIET_SECONDS, TRIES = 0.05, 40  # a write within one tick of the file system's clock leaves no trace in its time


def prepare(home: str, event: HookEvent) -> bool:
    """Keep what the next session under the event's anchor would be told now. Whether that can be known at a glance.

    Raises OutlastError, OSError.
    """
    place = place_of(event.cwd)
    anchor = anchor_of(place, event.task)
    if not anchor or any(each.event.session != event.session for each in sessions.of_anchor(home, anchor)):
        return False
    if briefing.holding(place, anchor) is not None:
        return True
    _wait_for_quiet(home)
    before = briefing.ledger_of(home)
    with opened(home, event.client) as runtime:
        made = _made(runtime, event, place, anchor)
    if made is None or made["facts"] is None or made["facts"][0] != before or briefing.ledger_of(home) != before:
        return False
    briefing.write(place, anchor, made)
    return True


def _wait_for_quiet(home: str) -> None:
    for _ in range(TRIES):
        newest = max((each[2] for each in briefing.ledger_of(home)), default=0)
        if time.time_ns() - newest > QUIET_SECONDS * 1e9:
            return
        time.sleep(QUIET_SECONDS)


def _made(runtime: Runtime, event: HookEvent, place: Place, anchor: str) -> dict[str, Any] | None:
    """The briefing with what it rests on, seen alike before and after; None when it rests on more."""
    recovered = recovered_for(runtime, event, place, anchor)
    looked = _looked_at(runtime, recovered, place)
    if looked is None:
        return None
    facts = briefing.facts(place, looked)
    again = recovered_for(runtime, event, place, anchor)  # what is kept was found between two looks that agree
    if again != recovered or briefing.facts(place, looked) != facts:
        return None
    until = recovered.handoff.expires_us if recovered else 1 << 62
    text = shown(recovered, place) if recovered else ""
    return {"until": until, "looked": looked, "facts": facts, "text": text}


def _looked_at(runtime: Runtime, recovered: Recovered | None, place: Place) -> list[str] | None:
    """Every file that the verdict rests on; None when it rests on a process, a folder or too many files as well."""
    from outlast.files import git

    state = git.look(Path(place.top)) if place.git else None
    changed = [each.path for each in state.changed] if state else []
    handoff = recovered.handoff if recovered else None
    bound = list(handoff.binding.files) if handoff and handoff.binding else []
    if (recovered and not _is_plain(recovered)) or len(changed) > DIRTY_FILES or (place.git and state is None):
        return None
    names = dict.fromkeys([*bound, *(path for path in changed if not path.endswith("/"))])
    if len(names) > briefing.MOST_FILES or any(name.startswith("bytes:") for name in names):
        return None
    blobs = [str(runtime.blobs.path(name)) for name in handoff.blobs] if handoff else []
    return [*(os.path.join(place.top, name) for name in names), *blobs]


def _is_plain(recovered: Recovered) -> bool:
    """Whether nothing but the ledger, git and the bound files decides: no claim, no run, no rule, no folder."""
    handoff: Handoff = recovered.handoff
    if recovered.run is not None or recovered.standing == "claimed" or recovered.claim is not None:
        return False
    rules = handoff.must_keep or handoff.environment or (handoff.binding and handoff.binding.folders)
    return not rules and recovered.root in ("", os.path.realpath(recovered.root))
