"""Storing what a session left: the next automatic revision under its anchor, if files, plan or checks changed.

It never stands in anybody's way: while somebody holds the claim, what changes is that one's progress and nothing is
stored; an explicit handoff is only followed once the work has gone on; a finished one is opened again only by a plan
that was made since.

Looking at what a session left: its transcript, its files, and what git sees changed. Nothing is written.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from outlast.doors.hooks import sessions, spool
from outlast.doors.hooks import transcript as plans
from outlast.doors.hooks.compose import SessionWork, fields_of, hook_state
from outlast.doors.hooks.events import HookEvent, NotAnEvent
from outlast.doors.hooks.place import WorkPlace, anchor_of, note, place_of, words_of
from outlast.doors.hooks.sessions import HookSession
from outlast.doors.hooks.transcript import TranscriptFacts, TranscriptStep
from outlast.errors import HandoffInvalid, OutlastError, RevisionConflict
from outlast.files import git
from outlast.files.patterns import never
from outlast.files.snapshot import sight
from outlast.handoffs import anchor as anchors
from outlast.handoffs import binding
from outlast.handoffs.handoff import MAX_FILES, Handoff
from outlast.handoffs.store import Storing, store
from outlast.python.opening import opened
from outlast.values.codec import encode
from outlast.values.digest import digest
from outlast.values.text import one_line

if TYPE_CHECKING:
    from outlast.files.git import GitChange
    from outlast.handoffs.anchor import FoundHandoff
    from outlast.python.opening import Caller, Executor


EDITED = 100  # files of the session itself that are named, the last edited first
NEW_FILE_BYTES = 20 << 20  # a larger file that git does not know is no work to hand over


def look(place: WorkPlace, event: HookEvent, *, late: bool = False) -> SessionWork:
    """What a session left, as it is now. A transcript that cannot be read tells nothing, and that is said."""
    root = Path(place.top)
    branch = place.branch or (git.branch_of(root) if place.git else "")
    told, trouble = _told(event)
    state = git.look(root) if place.git else None
    targets, others = _targets(root, event, told, state.changed if state else ())
    anchor = anchor_of(place._replace(branch=branch), event.task)
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


def _targets(
    root: Path, event: HookEvent, told: TranscriptFacts, changed: Iterable[GitChange]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The files that the work is about, from the root: those edited in the session, then all that git sees changed."""
    inside, outside = [], 0
    for path in told.files:
        found = _inside(root, os.path.join(event.cwd, path))
        outside += found is None
        inside += [found] if found else []
    large = [each.path for each in changed if each.kind == "untracked" and _is_large(root / each.path)]
    seen = [each.path for each in changed if not each.path.endswith("/") and each.path not in large]
    there = [path for path in inside if path in seen or os.path.lexists(root / path)]  # else nothing came of the edit
    names = dict.fromkeys(path for path in (*there[:EDITED], *seen) if _is_ours(path))
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


def _is_ours(path: str) -> bool:
    """Whether a handoff can name it: text, and no file of git's or ours."""
    return path.encode("utf-8", "replace").decode() == path and not any(map(never, path.split("/")))


def _is_large(path: Path) -> bool:
    try:
        return path.lstat().st_size > NEW_FILE_BYTES
    except OSError:
        return False


def signature_of(work: SessionWork) -> str:
    """What must differ for a new revision: the plan, and the files with their content."""
    files = []
    for path in sorted(work.targets[:MAX_FILES]):
        bound = sight(Path(work.root), path, NEW_FILE_BYTES).bound
        files.append([path, bound.mode, bound.blob or bound.digest or str(bound.size)])
    return digest(encode([work.told.plan, files, len(work.targets)]))


LATE_SECONDS = 60  # an event that waited longer speaks of files that others may have changed since
CONFLICTS = 5


class Withheld(Exception):
    """Nothing is to be stored, and why."""


class LeftRevision(NamedTuple):
    """What became of an event: a revision, or why there is none."""

    handoff: Handoff | None
    why: str = ""


def drain(home: str, executor: Executor | None = None) -> list[HookEvent]:
    """Store all that waits in the spool, the oldest first. Who calls holds the lock; what fails is noted.

    Gives the events that were dealt with, the last one of each session.
    """
    dealt: list[HookEvent] = []
    while names := spool.waiting(home):
        for name, event in _latest(home, names):
            if not _take(home, name, event, executor):
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


def _take(home: str, name: str, event: HookEvent | None, executor: Executor | None) -> bool:
    """Store one event. Whether it is dealt with."""
    try:
        if event is not None:
            left = _leave_in(home, event, executor)
            if left.why:
                note(home, f"{event.name} {event.kind}: nothing stored: {left.why}")
        spool.done(home, name)
        return True
    except Exception as error:
        given_up = spool.failed(home, name)
        what = f"{event.name} {event.kind}" if event else name
        note(home, f"{what}: {words_of(error)}{'; given up' if given_up else ''}")
        return False


def _leave_in(home: str, event: HookEvent, executor: Executor | None) -> LeftRevision:
    if executor is not None:
        return leave(executor, home, event)
    with opened(home, event.client) as made:
        return leave(made, home, event)


def leave(executor: Executor, home: str, event: HookEvent, *, died: bool = False) -> LeftRevision:
    """Store what a session left, if there is anything new; then remember the session, or forget one that has ended.

    Raises OutlastError, OSError.
    """
    place = place_of(event.cwd)
    before = sessions.known(home, event)
    now = executor.home.clock.now()
    late = died or now - event.at > LATE_SECONDS * 1_000_000
    work = look(place, event, late=late)
    try:
        stored = _store(executor, work, before)
        left = LeftRevision(stored)
    except Withheld as why:
        left = LeftRevision(None, str(why))
    if died or event.kind == "end":
        sessions.forget(home, event)
    elif event.session:
        began = before.began if before else event.at
        sessions.write(home, HookSession(event, work.anchor, place.top, work.signature, began))
    return left


# -- storing -----------------------------------------------------------------------------------------


def _store(executor: Executor, work: SessionWork, before: HookSession | None) -> Handoff:
    """Raises Withheld, OutlastError."""
    if not work.anchor:
        raise Withheld("no branch is checked out; set OUTLAST_TASK to name the work")
    for _ in range(CONFLICTS):
        found = executor.home.store.read(lambda look: _newest(executor.caller, look, work.anchor))
        left = with_plan(work, found.handoff) if found else work
        why_not = "" if _is_known(work, before) else _why_not(executor.caller, left, found)
        if why_not is not None:
            raise Withheld(why_not)
        try:
            return _stored(executor, left, found)
        except RevisionConflict:
            continue  # somebody stored meanwhile: look again
    raise Withheld("others store under the same anchor all the time")


def _newest(caller: Caller, look: Any, anchor: str) -> FoundHandoff | None:
    row = look.anchor_of(caller.scope, anchor)
    revision = look.handoff_at(row.key, row.revision) if row else None
    return anchors.find(look, row, revision) if row and revision else None


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


def _why_not(caller: Caller, work: SessionWork, found: FoundHandoff | None) -> str | None:
    """Why there is nothing to store, "" where that is usual and nobody needs to be told; None to store."""
    if found is None:
        return None
    if found.broken is not None:
        return f"the record under {work.anchor} is broken; see `outlast verify`"
    if holder := caller.home.store.read(lambda look: _holder(caller, look, found)):
        return f"{holder} holds the claim on {work.anchor}"
    if found.anchor.status == "finished" and not _is_new_work(work, found):
        return ""
    if found.handoff.source == "hook":
        return "" if hook_state(found.handoff).get("signature") == work.signature else None
    return None if _gone_on(work, found.handoff) else ""


def _holder(caller: Caller, look: Any, found: FoundHandoff) -> str:
    """Who else holds the claim; "" when nobody does."""
    holder = anchors.holder_of(caller, look, found)
    return holder.who if holder is not None and not holder.mine else ""


def _is_new_work(work: SessionWork, found: FoundHandoff) -> bool:
    """Whether there is something left to do that was planned after the work was completed."""
    settled_at = max((one.at for one in found.since), default=found.handoff.stored_us)
    return work.told.next_action is not None and work.told.plan_at > settled_at


def _gone_on(work: SessionWork, explicit: Handoff) -> bool:
    """Whether the work has gone on since somebody wrote the handoff."""
    if work.told.plan_at > explicit.stored_us:
        return True
    if explicit.binding is None:
        return work.told.edited_at > explicit.stored_us
    now = binding.observe(explicit, Path(work.root)).binding
    if now.dirty != explicit.binding.dirty:
        return True
    return any(not was.same(now.files[path]) for path, was in explicit.binding.files.items() if path in now.files)


def _stored(executor: Executor, work: SessionWork, found: FoundHandoff | None) -> Handoff:
    """The next revision. A file that cannot be bound is left out, and the text says so."""
    how = Storing(
        scope=executor.caller.scope,
        actor=work.event.client,
        redact=True,
        expected_revision=found.anchor.revision if found else 0,
        source="hook",
        guard=lambda look: _refuse_claimed(executor.caller, look, work.anchor),
    )
    while True:
        try:
            return store(executor, fields_of(work, found.handoff if found else None), how)
        except HandoffInvalid as error:
            work = _without(work, error)


def _refuse_claimed(caller: Caller, look: Any, anchor: str) -> None:
    found = _newest(caller, look, anchor)
    if found is not None and (holder := _holder(caller, look, found)):
        raise Withheld(f"{holder} holds the claim on {anchor}")


def _without(work: SessionWork, error: OutlastError) -> SessionWork:
    """The same without the target that was refused. Raises the error again when it is about something else."""
    place = str(error.facts.get("path", "")).removeprefix("target_files[").partition("]")[0]
    if not place.isdigit() or int(place) >= len(work.targets):
        raise error
    name = work.targets[int(place)]
    why = str(error.facts.get("why", ""))
    line = f"Left out: {why if repr(name) in why else f'{name!r} {why}'}."
    kept = tuple(path for path in work.targets if path != name)
    return work._replace(targets=kept, others=(*work.others, line))
