"""Storing what a session left: the next automatic revision under its anchor, if files, plan or checks changed.

It never stands in anybody's way: while somebody holds the claim, what changes is that one's progress and nothing is
stored; an explicit handoff is only followed once the work has gone on; a finished one is opened again only by a plan
that was made since.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from outlast.doors.hooks import sessions, spool
from outlast.doors.hooks.compose import Work, fields_of, hook_state, short
from outlast.doors.hooks.events import HookEvent, NotAnEvent
from outlast.doors.hooks.log import note, words_of
from outlast.doors.hooks.look import look, signature_of
from outlast.doors.hooks.opening import opened
from outlast.doors.hooks.place import place_of
from outlast.doors.hooks.sessions import Session
from outlast.doors.hooks.transcript import Step, Told
from outlast.errors import HandoffInvalid, OutlastError, RevisionConflict
from outlast.handoffs.handoff import Handoff

if TYPE_CHECKING:
    from outlast.handoffs.anchor import Found
    from outlast.home.home import Runtime

LATE_SECONDS = 60  # an event that waited longer speaks of files that others may have changed since
CONFLICTS = 5


class Withheld(Exception):
    """Nothing is to be stored, and why."""


class Left(NamedTuple):
    """What became of an event: a revision, or why there is none."""

    handoff: Handoff | None
    why: str = ""


def drain(home: str, runtime: Runtime | None = None) -> list[HookEvent]:
    """Store all that waits in the spool, the oldest first. Who calls holds the lock; what fails is noted.

    Gives the events that were dealt with, the last one of each session.
    """
    dealt: list[HookEvent] = []
    while names := spool.waiting(home):
        for name, event in _latest(home, names):
            if not _take(home, name, event, runtime):
                return dealt  # what could not be stored now is tried again by the next one
            dealt += [event] if event else []
    return dealt


def _latest(home: str, names: list[str]) -> Iterator[tuple[str, HookEvent | None]]:
    """Each waiting event; None where a later one of the same session tells more."""
    events: dict[str, HookEvent] = {}
    for name in names:
        try:
            events[name] = spool.read(home, name)
        except (OSError, NotAnEvent) as error:
            note(home, f"an event cannot be read: {words_of(error)}")
            spool.done(home, name)
    last = {(event.client, event.session, event.cwd): name for name, event in events.items()}
    for name, event in events.items():
        yield name, event if last[event.client, event.session, event.cwd] == name else None


def _take(home: str, name: str, event: HookEvent | None, runtime: Runtime | None) -> bool:
    """Store one event. Whether it is dealt with."""
    try:
        if event is not None:
            left = _leave_in(home, event, runtime)
            if left.why:
                note(home, f"{event.name} {event.kind}: nothing stored: {left.why}")
        spool.done(home, name)
        return True
    except Exception as error:
        given_up = spool.failed(home, name)
        what = f"{event.name} {event.kind}" if event else name
        note(home, f"{what}: {words_of(error)}{'; given up' if given_up else ''}")
        return False


def _leave_in(home: str, event: HookEvent, runtime: Runtime | None) -> Left:
    if runtime is not None:
        return leave(runtime, home, event)
    with opened(home, event.client) as runtime:
        return leave(runtime, home, event)


def leave(runtime: Runtime, home: str, event: HookEvent, *, died: bool = False) -> Left:
    """Store what a session left, if there is anything new; then remember the session, or forget one that has ended.

    Raises OutlastError, OSError.
    """
    place = place_of(event.cwd)
    before = sessions.known(home, event)
    now = runtime.clock.now()
    late = died or now - event.at > LATE_SECONDS * 1_000_000
    work = look(place, event, late=late)
    try:
        stored = _store(runtime, work, before)
        left = Left(stored)
    except Withheld as why:
        left = Left(None, str(why))
    if died or event.kind == "end":
        sessions.forget(home, event)
    elif event.session:
        began = before.began if before else event.at
        sessions.write(home, Session(event, work.anchor, place.top, work.signature, began))
    return left


# -- storing -----------------------------------------------------------------------------------------


def _store(runtime: Runtime, work: Work, before: Session | None) -> Handoff:
    """Raises Withheld, OutlastError."""
    if not work.anchor:
        raise Withheld("no branch is checked out; set OUTLAST_TASK to name the work")
    for _ in range(CONFLICTS):
        found = runtime.store.read(lambda look: _newest(runtime, look, work.anchor))
        left = with_plan(work, found.handoff) if found else work
        why_not = "" if _is_known(work, before) else _why_not(runtime, left, found)
        if why_not is not None:
            raise Withheld(why_not)
        try:
            return _stored(runtime, left, found)
        except RevisionConflict:
            continue  # somebody stored meanwhile: look again
    raise Withheld("others store under the same anchor all the time")


def _newest(runtime: Runtime, look: Any, anchor: str) -> Found | None:
    from outlast.handoffs import anchor as anchors

    row = look.anchor_of(runtime.scope, anchor)
    revision = look.handoff_at(row.key, row.revision) if row else None
    return anchors.find(look, row, revision) if row and revision else None


def with_plan(work: Work, newest: Handoff) -> Work:
    """The work with the plan that holds: where this event tells of none, the one that the same session had told of.

    Who tells nothing at all (no transcript) changes no plan either. Another session that keeps no plan has none; the
    open one before it is named in the text.
    """
    known = hook_state(newest)
    steps = tuple(_steps(known.get("plan")))
    if work.told.plan or not steps:
        return work
    if work.told.found and known.get("session") != work.event.session:
        left = Told(steps).next_action
        line = f"The plan of revision {newest.revision}, of another session, has this left: {short(left or '', 400)}"
        return work._replace(others=(*work.others, line)) if left else work
    held = work._replace(told=work.told._replace(plan=steps))
    return held._replace(signature=signature_of(held))


def _steps(plan: Any) -> Iterator[Step]:
    for each in plan if isinstance(plan, list) else ():
        if isinstance(each, dict) and isinstance(each.get("step"), str):
            yield Step(each["step"], each.get("status", "pending"))


def _is_known(work: Work, before: Session | None) -> bool:
    """Whether the session has nothing to tell, or nothing since it was stored last."""
    if not (work.told.plan or work.targets):
        return True
    return before is not None and before.anchor == work.anchor and before.stored == work.signature


def _why_not(runtime: Runtime, work: Work, found: Found | None) -> str | None:
    """Why there is nothing to store, "" where that is usual and nobody needs to be told; None to store."""
    if found is None:
        return None
    if found.broken is not None:
        return f"the record under {work.anchor} is broken; see `outlast verify`"
    if holder := runtime.store.read(lambda look: _holder(runtime, look, found)):
        return f"{holder} holds the claim on {work.anchor}"
    if found.anchor.status == "finished" and not _is_new_work(work, found):
        return ""
    if found.handoff.source == "hook":
        return "" if hook_state(found.handoff).get("signature") == work.signature else None
    return None if _gone_on(runtime, work, found.handoff) else ""


def _holder(runtime: Runtime, look: Any, found: Found) -> str:
    """Who else holds the claim; "" when nobody does."""
    from outlast.handoffs import anchor as anchors

    holder = anchors.holder_of(runtime, look, found)
    return holder.who if holder is not None and not holder.mine else ""


def _is_new_work(work: Work, found: Found) -> bool:
    """Whether there is something left to do that was planned after the work was completed."""
    settled_at = max((one.at for one in found.since), default=found.handoff.stored_us)
    return work.told.next_action is not None and work.told.plan_at > settled_at


def _gone_on(runtime: Runtime, work: Work, explicit: Handoff) -> bool:
    """Whether the work has gone on since somebody wrote the handoff."""
    from outlast.handoffs import binding

    if work.told.plan_at > explicit.stored_us:
        return True
    if explicit.binding is None:
        return work.told.edited_at > explicit.stored_us
    now = binding.observe(explicit, Path(work.root)).binding
    if now.dirty != explicit.binding.dirty:
        return True
    return any(not was.same(now.files[path]) for path, was in explicit.binding.files.items() if path in now.files)


def _stored(runtime: Runtime, work: Work, found: Found | None) -> Handoff:
    """The next revision. A file that cannot be bound is left out, and the text says so."""
    from outlast.handoffs.store import Storing, store

    how = Storing(
        scope=runtime.scope,
        actor=work.event.client,
        redact=True,
        expected_revision=found.anchor.revision if found else 0,
        source="hook",
        guard=lambda look: _refuse_claimed(runtime, look, work.anchor),
    )
    while True:
        try:
            return store(runtime, fields_of(work, found.handoff if found else None), how)
        except HandoffInvalid as error:
            work = _without(work, error)


def _refuse_claimed(runtime: Runtime, look: Any, anchor: str) -> None:
    found = _newest(runtime, look, anchor)
    if found is not None and (holder := _holder(runtime, look, found)):
        raise Withheld(f"{holder} holds the claim on {anchor}")


def _without(work: Work, error: OutlastError) -> Work:
    """The same without the target that was refused. Raises the error again when it is about something else."""
    place = str(error.facts.get("path", "")).removeprefix("target_files[").partition("]")[0]
    if not place.isdigit() or int(place) >= len(work.targets):
        raise error
    name = work.targets[int(place)]
    why = str(error.facts.get("why", ""))
    line = f"Left out: {why if repr(name) in why else f'{name!r} {why}'}."
    kept = tuple(path for path in work.targets if path != name)
    return work._replace(targets=kept, others=(*work.others, line))
