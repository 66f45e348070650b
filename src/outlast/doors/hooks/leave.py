"""Storing what a session left: the next automatic revision under its anchor, if files, plan or checks changed.

It never stands in anybody's way: while somebody holds the claim, what changes is that one's progress and nothing is
stored; an explicit handoff is only followed once the work has gone on; a finished one is opened again only by a plan
that was made since.

Looking at what a session left: its transcript, its files, and what git sees changed. Nothing is written. The words of
the handoff are made of that alone: nothing is invented.

`python -m outlast.doors.hooks.leave HOME` is the process that a hook starts in a session of its own, and that stores
what waits. It lives for two minutes at most.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from outlast.clock import moment
from outlast.doors.hooks import spool
from outlast.doors.hooks import transcript as plans
from outlast.doors.hooks.spool import CLIENT_NAMES, HookEvent, HookSession, NotAnEvent, note, words_of
from outlast.doors.hooks.transcript import TranscriptFacts, TranscriptStep
from outlast.errors import HandoffInvalid, RevisionConflict
from outlast.python.automatic import (
    COMPOSED,
    MAX_FILES,
    AutomaticHandoffs,
    NewestRevision,
    Withheld,
    automatic_handoffs,
)
from outlast.python.work_tree import WorkTree, can_be_handed_over, content_of, work_tree_of
from outlast.values.codec import digest, encode
from outlast.values.text import one_line

if TYPE_CHECKING:
    from outlast import Handoff

EDITED = 100  # files of the session itself that are named, the last edited first
NEW_FILE_BYTES = 20 << 20  # a larger file that git does not know is no work to hand over


def look(place: WorkTree, event: HookEvent, *, late: bool = False) -> SessionWork:
    """What a session left, as it is now. A transcript that cannot be read tells nothing, and that is said."""
    anchor = event.anchor_on(place.asked().branch)
    told, trouble = _told(event)
    targets, others = _targets(place, event, told)
    work = SessionWork(event, anchor, place.top, told, targets, (*trouble, *others), late=late)
    return work._replace(signature=signature_of(work))


def _told(event: HookEvent) -> tuple[TranscriptFacts, tuple[str, ...]]:
    try:
        return plans.read(_transcript(event)), ()
    except OSError as error:
        return TranscriptFacts(), (f"Its transcript could not be read: {error.strerror}.",)


def _transcript(event: HookEvent) -> str:
    """The session's transcript; of Codex, which may not name it, by the session's id."""
    if event.transcript or event.client != "codex" or not event.session.replace("-", "").isalnum():
        return event.transcript
    folder = Path(os.environ.get("CODEX_HOME") or os.path.expanduser("~/.codex")) / "sessions"
    found = sorted(folder.glob(f"*/*/*/rollout-*-{event.session}.jsonl"))
    return str(found[-1]) if found else ""


def _targets(place: WorkTree, event: HookEvent, told: TranscriptFacts) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The files that the work is about, from the root: those edited in the session, then all that git sees changed."""
    root, changed = Path(place.top), place.changed()
    inside, outside = [], 0
    for path in told.files:
        found = _inside(root, os.path.join(event.cwd, path))
        outside += found is None
        inside += [found] if found else []
    large = [each.path for each in changed if each.kind == "untracked" and _is_large(root / each.path)]
    seen = [each.path for each in changed if not each.path.endswith("/") and each.path not in large]
    there = [path for path in inside if path in seen or os.path.lexists(root / path)]  # else nothing came of the edit
    names = dict.fromkeys(path for path in (*there[:EDITED], *seen) if can_be_handed_over(path))
    others = [f"{outside} files that it edited lie elsewhere."] if outside else []
    if large:
        others.append(f"New files too large to hand over: {', '.join(large[:5])}.")
    return tuple(names), tuple(others)


def _inside(root: Path, path: str) -> str | None:
    try:
        real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    except ValueError:  # a NUL
        return None
    found = os.path.relpath(real, root)
    return None if found == "." or found.split(os.sep)[0] == ".." else found


def _is_large(path: Path) -> bool:
    try:
        return path.lstat().st_size > NEW_FILE_BYTES
    except OSError:
        return False


def signature_of(work: SessionWork) -> str:
    """What must differ for a new revision: the plan, and the files with their content."""
    files = [[path, *content_of(work.root, path, NEW_FILE_BYTES)] for path in sorted(work.targets[:MAX_FILES])]
    return digest(encode([work.told.plan, files, len(work.targets)]))


LATE_SECONDS = 60  # an event that waited longer speaks of files that others may have changed since
CONFLICTS = 5


class LeftRevision(NamedTuple):
    """What became of an event: a revision, or why there is none."""

    handoff: Handoff | None
    why: str = ""


def drain(home: str, handoffs: AutomaticHandoffs | None = None) -> list[HookEvent]:
    """Store all that waits in the spool, the oldest first. Who calls holds the lock; what fails is noted.

    Gives the events that were dealt with, the last one of each session.
    """
    dealt: list[HookEvent] = []
    while names := spool.waiting(home):
        for name, event in _latest(home, names):
            if not _take(home, name, event, handoffs):
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


def _take(home: str, name: str, event: HookEvent | None, handoffs: AutomaticHandoffs | None) -> bool:
    """Store one event. Whether it is dealt with."""
    try:
        if event is not None:
            opened = automatic_handoffs(home, event.client) if handoffs is None else nullcontext(handoffs)
            with opened as storing:
                left = leave(storing, home, event)
            if left.why:
                note(home, f"{event.name} {event.kind}: nothing stored: {left.why}")
        spool.done(home, name)
        return True
    except Exception as error:
        given_up = spool.failed(home, name)
        what = f"{event.name} {event.kind}" if event else name
        note(home, f"{what}: {words_of(error)}{'; given up' if given_up else ''}")
        return False


def leave(handoffs: AutomaticHandoffs, home: str, event: HookEvent, *, died: bool = False) -> LeftRevision:
    """Store what a session left, if there is anything new; then remember the session, or forget one that has ended.

    Raises OutlastError, OSError.
    """
    place = work_tree_of(event.cwd)
    before = spool.known_session(home, event)
    late = died or handoffs.now - event.at > LATE_SECONDS * 1_000_000
    work = look(place, event, late=late)
    try:
        stored = _store(handoffs, work, before)
        left = LeftRevision(stored)
    except Withheld as why:
        left = LeftRevision(None, str(why))
    if died or event.kind == "end":
        spool.forget_session(home, event)
    elif event.session:
        began = before.began if before else event.at
        spool.write_session(home, HookSession(event, work.anchor, place.top, work.signature, began))
    return left


# -- storing -----------------------------------------------------------------------------------------


def _store(handoffs: AutomaticHandoffs, work: SessionWork, before: HookSession | None) -> Handoff:
    """Raises Withheld, OutlastError."""
    if not work.anchor:
        raise Withheld("no branch is checked out; set OUTLAST_TASK to name the work")
    for _ in range(CONFLICTS):
        newest = handoffs.newest(work.anchor)
        left = with_plan(work, newest.handoff) if newest else work
        why_not = "" if _is_known(work, before) else _why_not(handoffs, left, newest)
        if why_not is not None:
            raise Withheld(why_not)
        try:
            return _stored(handoffs, left, newest)
        except RevisionConflict:
            continue  # somebody stored meanwhile: look again
    raise Withheld("others store under the same anchor all the time")


def with_plan(work: SessionWork, newest: Handoff) -> SessionWork:
    """The work with the plan that holds: where this event tells of none, the one that the same session had told of.

    Who tells nothing at all (no transcript) changes no plan either. Another session that keeps no plan has none; the
    open one before it is named in the text.
    """
    known = hook_state(newest)
    steps = tuple(_steps(known.get("plan")))
    if work.told.plan or not steps:
        return work
    if work.told.found and known.get("session") != work.event.session:
        left = TranscriptFacts(steps).next_action
        line = f"The plan of revision {newest.revision}, of another session, has this left: {one_line(left or '', 400)}"
        return work._replace(others=(*work.others, line)) if left else work
    held = work._replace(told=work.told._replace(plan=steps))
    return held._replace(signature=signature_of(held))


def _steps(plan: Any) -> Iterator[TranscriptStep]:
    for each in plan if isinstance(plan, list) else ():
        if isinstance(each, dict) and isinstance(each.get("step"), str):
            yield TranscriptStep(each["step"], each.get("status", "pending"))


def _is_known(work: SessionWork, before: HookSession | None) -> bool:
    """Whether the session has nothing to tell, or nothing since it was stored last."""
    if not (work.told.plan or work.targets):
        return True
    return before is not None and before.anchor == work.anchor and before.stored == work.signature


def _why_not(handoffs: AutomaticHandoffs, work: SessionWork, newest: NewestRevision | None) -> str | None:
    """Why there is nothing to store, "" where that is usual and nobody needs to be told; None to store."""
    if newest is None:
        return None
    if newest.is_broken:
        return f"the record under {work.anchor} is broken; see `outlast verify`"
    if newest.holder:
        return f"{newest.holder} holds the claim on {work.anchor}"
    # something left to do that was planned after the work was completed
    if newest.is_finished and not (work.told.next_action is not None and work.told.plan_at > newest.settled_at):
        return ""
    if newest.handoff.source == "hook":
        return "" if hook_state(newest.handoff).get("signature") == work.signature else None
    return None if _gone_on(handoffs, work, newest.handoff) else ""


def _gone_on(handoffs: AutomaticHandoffs, work: SessionWork, explicit: Handoff) -> bool:
    """Whether the work has gone on since somebody wrote the handoff."""
    if work.told.plan_at > explicit.stored_us:
        return True
    if explicit.binding is None:
        return work.told.edited_at > explicit.stored_us
    return handoffs.has_changed(explicit, work.root)


def _stored(handoffs: AutomaticHandoffs, work: SessionWork, newest: NewestRevision | None) -> Handoff:
    """The next revision. A file that cannot be bound is left out, and the text says so."""
    base, expected = (newest.handoff, newest.handoff.revision) if newest else (None, 0)
    while True:
        try:
            return handoffs.store(fields_of(work, base), work.event.client, expected)
        except HandoffInvalid as error:
            # the same without the target that was refused
            place = str(error.facts.get("path", "")).removeprefix("target_files[").partition("]")[0]
            if not place.isdigit() or int(place) >= len(work.targets):
                raise error
            name = work.targets[int(place)]
            why = str(error.facts.get("why", ""))
            line = f"Left out: {why if repr(name) in why else f'{name!r} {why}'}."
            kept = tuple(path for path in work.targets if path != name)
            work = work._replace(targets=kept, others=(*work.others, line))


# -- the process that stores ---------------------------------------------------------------------------


LIFE_SECONDS = 120


def main(home: str) -> None:
    """Take in all events that wait, unless another such process does."""
    signal.alarm(LIFE_SECONDS)  # it kills: what is not stored then stays in the spool
    os.closerange(3, 1024)  # what the agent had open is none of ours
    try:
        with spool.alone(home, LIFE_SECONDS) as granted:
            if granted and spool.waiting(home):
                drain(home)
    except Exception as error:
        note(home, f"the process that stores: {words_of(error)}")


# -- the words of the handoff ------------------------------------------------------------------------

STEPS, GOAL_CHARACTERS, STEP_CHARACTERS = 100, 2_000, 500
_ENDED = {"start": "began", "stop": "finished a turn", "compact": "was about to be compacted", "end": "ended"}
_MARKS = {"completed": "x", "in_progress": ">", "pending": " ", "cancelled": "-"}
# What an explicit handoff asks for goes on to hold in the automatic ones that follow it.
INHERITED = (
    *("acceptance_checks", "must_change", "must_remove", "must_keep", "rollback"),
    *("environment", "risk", "refs", "creates"),
)


class SessionWork(NamedTuple):
    """What a session left, looked at now."""

    event: HookEvent
    anchor: str
    root: str
    told: TranscriptFacts
    targets: tuple[str, ...] = ()
    others: tuple[str, ...] = ()  # what could not be named as a target, and why
    signature: str = ""
    late: bool = False  # the session did not leave this itself


def fields_of(work: SessionWork, base: Handoff | None) -> dict[str, Any]:
    """The fields of the next revision. `base`: the newest one, whose checks and musts still hold."""
    inherited = {name: getattr(base, name) for name in INHERITED} if base else {}
    return {
        **inherited,
        "anchor": work.anchor,
        "summary": _summary(work),
        "handoff_text": "\n".join(_text(work, explicit_in(base))),
        "target_files": work.targets[:MAX_FILES],
        "next_action": work.told.next_action,
        "repo_root": work.root,
        "tags": ("hook", COMPOSED) if work.late else ("hook",),
        "execution_state_v1": {"hook": _state(work, base)},
    }


def _summary(work: SessionWork) -> str:
    event, plan = work.event, work.told.plan
    what = _ENDED[event.kind] + (f" ({event.why})" if event.why else "")
    if work.late:
        what = "left no end; this was composed from what it left"
    steps = f": {work.told.done} of {len(plan)} steps of its plan are done" if plan else "; it kept no plan"
    return f"A {CLIENT_NAMES[event.client]} session {what}{steps}."


def _text(work: SessionWork, base: dict[str, Any]) -> Iterator[str]:
    told = work.told
    if told.goal:
        yield f"It was asked for this last: {one_line(told.goal, GOAL_CHARACTERS)}"
    if told.plan:
        yield "Its plan (x done, > under way, - given up):"
        yield from (f"[{_MARKS[step.status]}] {one_line(step.text, STEP_CHARACTERS)}" for step in _first(told.plan))
    if len(told.plan) > STEPS:
        yield f"… and {len(told.plan) - STEPS} more steps"
    if not told.plan:
        yield "Decide what to do next from the files and the request: the session kept no plan."
    if len(work.targets) > MAX_FILES:
        yield f"{len(work.targets) - MAX_FILES} more files are changed than a handoff names."
    yield from work.others
    if base:
        yield f"It goes on from revision {base['revision']}, written by {base['by']}: {one_line(base['summary'], 400)}"
        if base["next"]:
            yield f"What that one asked for next: {one_line(base['next'], 400)}"
    at = f"{moment(work.event.at):%Y-%m-%d %H:%M} UTC"
    yield f"Taken from session {work.event.name} at {at} by a hook; nobody wrote it for a handover."


def _first(plan: tuple[TranscriptStep, ...]) -> tuple[TranscriptStep, ...]:
    """The steps that are shown: of a long plan those that are open."""
    if len(plan) <= STEPS:
        return plan
    return tuple(sorted(plan, key=lambda step: not step.open)[:STEPS])


def _state(work: SessionWork, base: Handoff | None) -> dict[str, Any]:
    event = work.event
    return {
        "client": event.client,
        "session": event.session,
        "event": event.kind,
        "why": event.why,
        "signature": work.signature,
        "plan": [{"step": step.text, "status": step.status} for step in work.told.plan],
        "after": explicit_in(base) or None,
    }


def explicit_in(base: Handoff | None) -> dict[str, Any]:
    """The newest revision that somebody wrote, as the automatic ones after it carry it on; empty when there is none."""
    if base is None:
        return {}
    if base.source != "hook":
        return {
            "revision": base.revision,
            "by": base.actor,
            "summary": base.summary,
            "next": base.next_action or "",
        }
    known = hook_state(base).get("after")
    return known if isinstance(known, dict) and {"revision", "by", "summary", "next"} <= {*known} else {}


def hook_state(handoff: Handoff) -> dict[str, Any]:
    """What a hook noted with a revision; empty when none did."""
    state = handoff.state
    noted = state.get("hook") if isinstance(state, dict) and handoff.source == "hook" else None
    return noted if isinstance(noted, dict) else {}


if __name__ == "__main__":
    main(sys.argv[1])
