"""Reading the journal of a run: as events, also while it grows, and as a timeline.

Every event by its name, and what its body carries: the table of docs/events.md, as code.

A name may end with `.*` (a word that the flow or a status gives). Of a body that is no object the table says `value`.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from outlast.errors import IntegrityBroken
from outlast.home.find import run_row
from outlast.ledger.journal import Row
from outlast.runs import journal
from outlast.runs.look import interrupt_of, record_now
from outlast.runs.receipt import Event, events_of
from outlast.store.contract import RunRow

if TYPE_CHECKING:
    from outlast.home.caller import Caller
    from outlast.home.home import Home
    from outlast.runs.timeline import TimelineItem


ERROR = ("type", "message", "trace", "code", "args")
WAIT = ("id", "type", "step")

EVENTS: Mapping[str, tuple[str, ...]] = {
    "run.started": ("flow", "task", "actor", "parent", "code", "origin"),
    "run.again": ("of", "by", "effects"),
    "run.fresh": ("of", "by", "effects"),
    "run.forked": ("of", "step", "call", "to", "by", "why", "effects", "reuse_effects", "inputs", "state"),
    "run.resumed": ("from", "verdict", "reasons", "code"),
    "run.accepted": ("fingerprint", "why", "actor", "code", "weight", "subject", "expected", "found", "advice"),
    "run.waiting": ("interrupts", "state", "removed", "code_changed"),
    "run.succeeded": ("result", "result_blob", "state", "removed", "unasked", "inputs_changed", "code_changed", "code"),
    "run.failed": ("error", "ended_by", "state", "removed", "code_changed"),
    "run.retrying": ("retry", "of", "due", "error", "ended_by"),
    "run.interrupted": ("by", "error", "state", "removed", "code_changed"),
    "run.aborted": ("why", "by"),
    "run.pausing": (),
    "run.rewound": ("to", "by", "why", "from"),
    "run.reached": ("call",),
    "run.needs": ("resource", "made_by"),
    "run.claimed": ("by", "claim", "why", "silent_at"),
    "run.released": ("by", "missing", "note"),
    "run.taken": ("from", "by", "why"),
    "run.checked": ("by", "evidence"),
    "run.moved": ("by",),
    "run.mark": ("loops", "keep", "state", "removed", "last", "done", "outputs"),
    "run.left": ("call", "attempt", "left", "transcript"),
    "run.displaced": ("step", "files", "by"),
    "run.still_running": ("step", "pgid"),
    "run.testimony": ("folder", "by"),
    "step.*": ERROR,
    "effect.*": ERROR,
    "testimony.*": (),
    "interrupt.opened": (
        *WAIT,
        "says",
        "payload",
        "digest",
        "assignee",
        "deadline",
        "choices",
        "schema",
        "default",
    ),
    "interrupt.answered": (*WAIT, "by", "answer", "answer_bytes"),
    "interrupt.expired": (*WAIT, "default"),
    "interrupt.cancelled": (*WAIT, "by", "why"),
    "wait.*": ("by", "interrupt", "type", "answer", "why"),
    "decision.*": ("by", "interrupt", "why", "was"),
    "child.started": ("child", "flow", "task"),
    "child.succeeded": ("child", "status", "cancelled"),
    "child.failed": ("child", "status", "cancelled"),
    "child.cancelled": ("child", "status", "cancelled"),
    "checkpoint.recorded": ("id", "name", "summary", "refs"),
    "artifact.saved": ("ref", "name", "summary", "digest", "media_type", "size"),
    "sleep.*": ("due", "over"),
    "value.*": ("value",),
    "phase": ("value",),
}


def fields_of(name: str) -> tuple[str, ...] | None:
    """What the body of an event of ours may carry; None for a name that is not in the table."""
    found = EVENTS.get(name)
    if found is not None:
        return found
    return next((fields for like, fields in EVENTS.items() if like.endswith("*") and fnmatchcase(name, like)), None)


PAGE = 1000
POLL_SECONDS = 0.2


def read(home: Home, row: RunRow, after: int, limit: int) -> list[Event]:
    """The events there are after `after`, the oldest first, `limit` at most."""
    rows = home.store.read(lambda look: look.journal_of(row.key, after, limit))
    try:
        return events_of(row.id, rows, row.trace_id)
    except (IntegrityBroken, ValueError, TypeError):
        return events_of(row.id, _legible(home, row, after, limit), row.trace_id)


def _legible(home: Home, row: RunRow, after: int, limit: int) -> list[Row]:
    """The entries of a run whose damage was accepted: without what the damaged ones carry. Raises IntegrityBroken."""
    from outlast.runs.outputs import find_run

    found = find_run(home, row.id)
    if found.unaccepted is not None:
        raise found.unaccepted.as_error()
    return [each for each in found.rows if each.seq > after][:limit]


class Following:
    """A reader of a run's events that knows how far it has come and whether more may follow."""

    def __init__(self, caller: Caller, run_id: str, after: int) -> None:
        self._caller, self._row, self._after = caller, run_row(caller.home, run_id), after
        self.going = True

    def news(self) -> Iterator[Event]:
        """Those that have come since. Of a run that nobody runs any more these are the last."""
        self.going = record_now(self._caller, self._row).status == "running"  # before its journal is read
        while page := read(self._caller.home, self._row, self._after, PAGE):
            self._after = page[-1].seq
            yield from page


def follow(following: Following) -> Iterator[Event]:
    """Events as they come, until a run that nobody runs any more has no further ones."""
    while True:
        yield from following.news()
        if not following.going:
            return
        time.sleep(POLL_SECONDS)


async def follow_async(following: Following) -> AsyncIterator[Event]:
    """The same on an event loop."""
    import asyncio

    while True:
        for event in following.news():
            yield event
        if not following.going:
            return
        await asyncio.sleep(POLL_SECONDS)


def timeline(caller: Caller, run_id: str) -> list[TimelineItem]:
    """Everything that happened in a run, in order, from the ledger alone."""
    from outlast.runs.timeline import timeline_of

    row = run_row(caller.home, run_id)
    status = record_now(caller, row).status  # before its journal is read
    kept, waits = caller.home.store.read(lambda look: (journal.read(look, row), look.interrupts_of(row.key)))
    return timeline_of(row.id, status, kept.rows, [interrupt_of(wait) for wait in waits])
