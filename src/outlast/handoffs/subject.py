"""What a call is about: an explicit handoff or, when the task's unfinished run has gone on since, what that gives."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from outlast.clock import moment
from outlast.errors import Finished, HandoffNotFound
from outlast.handoffs import anchor as anchors
from outlast.handoffs import find as handoffs
from outlast.handoffs.anchor import FoundHandoff
from outlast.handoffs.find import HandoffQuery
from outlast.handoffs.handoff import Handoff
from outlast.handoffs.task_anchor import task_of
from outlast.home.claimer import asker
from outlast.store.contract import Reading
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.handoffs.compose import Composed
    from outlast.runs.live import Executor


_LAST_EVENTS = 50  # a completed task takes only that it was opened by other sessions


class Completion(NamedTuple):
    """Who said that the work of a task is done, and when."""

    by: str
    at: int


def completion(look: Reading, scope: str, task: str) -> Completion | None:
    """How a task was completed, by whatever way; None when it is not, or was opened again since."""
    row = look.task_of(scope, task)
    if row is None or row.state != "completed":
        return None
    events = look.task_events_after(row.key, max(row.head - _LAST_EVENTS, 0), _LAST_EVENTS)
    done = next((event for event in reversed(events) if event.kind == "completed"), None)
    return Completion(done.actor, done.at) if done else Completion(row.actor, row.updated_at)


class Subject(NamedTuple):
    """What was asked for: an explicit handoff, or what is composed from a run (then `found` is None)."""

    found: FoundHandoff | None
    composed: Composed | None
    explicit: FoundHandoff | None  # also when the run has gone on since

    @property
    def instead(self) -> Composed | None:
        """What is composed from a run, where that takes the place of what was stored."""
        return self.composed if self.found is None else None

    @property
    def handoff(self) -> Handoff:
        about = self.found or self.composed
        assert about is not None
        return about.handoff


def subject_of(executor: Executor, asked: HandoffQuery) -> Subject:
    """The explicit handoff, unless the task's unfinished run has gone on since: then what is composed from that."""
    asked = handoffs.named(executor.caller, asked)
    found, task, done = executor.home.store.read(lambda look: _explicit(look, asked))
    composed = _composed(executor, asked, task, found, done) if task is not None else None
    if found is None and composed is None:
        raise _over(asked, done) if done is not None else handoffs.not_found(executor.home, asked)
    if composed is None or found is None:
        return Subject(found, composed, found)
    explicit_is_newer = found.anchor.status == "open" and found.handoff.stored_us >= composed.handoff.stored_us
    is_base = explicit_is_newer or found.broken is not None  # a broken record lends nothing
    if not is_base and found.anchor.status == "open":
        composed = replace(composed, beside=found)
    return Subject(found if is_base else None, composed, found)


class _Explicit(NamedTuple):
    """What was stored, the task it is of if that has a run which is not finished, and how its work was completed."""

    found: FoundHandoff | None
    task: str | None = None
    done: Completion | None = None


def _explicit(look: Reading, asked: HandoffQuery) -> _Explicit:
    place = handoffs.named_place(look, asked)
    if place is not None and place.anchor.scope != asked.scope:
        raise HandoffNotFound(f"{asked.words} in scope {asked.scope!r}")
    found = anchors.find(look, *place) if place else None
    anchor = found.anchor.anchor if found else asked.anchor
    task = task_of(anchor) if anchor is not None else None
    if task is None or asked.revision is not None or asked.handoff_id is not None:
        return _Explicit(found)
    done = _completion(look, asked.scope, task, found)
    return _Explicit(found, task if look.unfinished_of_task(asked.scope, task) else None, done)


def _completion(look: Reading, scope: str, task: str, found: FoundHandoff | None) -> Completion | None:
    """How the work of a task was completed, by settling its handoff or without one; None when something is open."""
    row = look.task_of(scope, task)
    if (found is not None and found.anchor.status == "open") or (row is not None and row.state != "completed"):
        return None
    return _settled(found) if found is not None else completion(look, scope, task)


def _settled(found: FoundHandoff) -> Completion:
    done = next((one for one in reversed(found.since) if one.name == "settled"), None)
    return Completion(str(done.facts.get("by", "")), done.at) if done else Completion("", found.handoff.stored_us)


def _over(asked: HandoffQuery, done: Completion) -> Finished:
    """The error for a task that was completed without a handoff."""
    then = "open it again: outlast.tasks.open(TASK, reopen=True) (`outlast task open TASK --reopen`)"
    assert asked.anchor is not None
    return Finished(asked.anchor, done.by, f"{moment(done.at):%Y-%m-%d %H:%M} UTC", then)


def claimed_subject(executor: Executor, asked: HandoffQuery, claim_id: str | None, actor: str) -> Subject:
    """What a claim is about: as recovering chooses, but the explicit handoff while the claim is one on that."""
    subject = subject_of(executor, asked)
    explicit = subject.explicit
    if subject.found is not None or explicit is None or explicit.anchor.status == "finished":
        return subject
    if claim_id is not None:
        return subject._replace(found=explicit) if explicit.lease.holder == claim_id else subject
    holder = executor.home.store.read(
        lambda look: anchors.holder_of(executor.caller, look, explicit, asker(executor.caller, actor))
    )
    return subject._replace(found=explicit) if holder is not None and holder.mine else subject


def _composed(
    executor: Executor, asked: HandoffQuery, task: str, found: FoundHandoff | None, done: Completion | None
) -> Composed | None:
    """What the unfinished run of the task gives; None when it has none that could go on here."""
    from outlast.handoffs.compose import compose

    return compose(executor, asked.scope, task, found.handoff if found else None, done.at if done else 0)


def finished(found: FoundHandoff) -> Finished:
    """The error for an anchor whose work was completed."""
    done = _settled(found)
    return Finished(found.anchor.anchor, done.by or "somebody", f"{moment(done.at):%Y-%m-%d %H:%M} UTC")
