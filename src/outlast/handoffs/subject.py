"""What a call is about: an explicit handoff or, when the task's unfinished run has gone on since, what that gives."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from outlast.clock import moment
from outlast.errors import Finished, HandoffNotFound
from outlast.handoffs import anchor as anchors
from outlast.handoffs import find as handoffs
from outlast.handoffs.anchor import Found
from outlast.handoffs.find import Asked, Place
from outlast.handoffs.handoff import Handoff
from outlast.handoffs.task_anchor import task_of
from outlast.home.tokens import asker
from outlast.store.contract import Reading
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.handoffs.compose import Composed
    from outlast.home.home import Runtime


class Subject(NamedTuple):
    """What was asked for: an explicit handoff, or what is composed from a run (then `found` is None)."""

    found: Found | None
    composed: Composed | None
    explicit: Found | None  # also when the run has gone on since

    @property
    def handoff(self) -> Handoff:
        about = self.found or self.composed
        assert about is not None
        return about.handoff


def subject_of(runtime: Runtime, asked: Asked) -> Subject:
    """The explicit handoff, unless the task's unfinished run has gone on since: then what is composed from that."""
    place = None if handoffs.is_named(asked) else handoffs.place_of(runtime, asked)
    found, task = runtime.store.read(lambda look: _explicit(look, asked, place))
    composed = _composed(runtime, asked, task, found) if task is not None else None
    if found is None and composed is None:
        raise handoffs.not_found(runtime, asked)
    if composed is None or found is None:
        return Subject(found, composed, found)
    explicit_is_newer = found.anchor.status == "open" and found.handoff.stored_us >= composed.handoff.stored_us
    is_base = explicit_is_newer or found.broken is not None  # a broken record lends nothing
    if not is_base and found.anchor.status == "open":
        composed = replace(composed, beside=found)
    return Subject(found if is_base else None, composed, found)


def _explicit(look: Reading, asked: Asked, place: Place | None) -> tuple[Found | None, str | None]:
    """The explicit handoff, and the task it is of if that has a run which is not finished."""
    place = place or handoffs.named_place(look, asked)
    if place is not None and place.anchor.scope != asked.scope:
        raise HandoffNotFound(f"{asked.words} in scope {asked.scope!r}")
    found = anchors.find(look, *place) if place else None
    anchor = found.anchor.anchor if found else asked.anchor
    task = task_of(anchor) if anchor is not None else None
    if task is None or asked.revision is not None or asked.handoff_id is not None:
        return found, None
    return found, task if look.unfinished_of_task(asked.scope, task) else None


def claimed_subject(runtime: Runtime, asked: Asked, claim_id: str | None, actor: str) -> Subject:
    """What a claim is about: as recovering chooses, but the explicit handoff while the claim is one on that."""
    subject = subject_of(runtime, asked)
    explicit = subject.explicit
    if subject.found is not None or explicit is None or explicit.anchor.status == "finished":
        return subject
    if claim_id is not None:
        return subject._replace(found=explicit) if explicit.lease.holder == claim_id else subject
    holder = runtime.store.read(lambda look: anchors.holder_of(runtime, look, explicit, asker(runtime, actor)))
    return subject._replace(found=explicit) if holder is not None and holder.mine else subject


def _composed(runtime: Runtime, asked: Asked, task: str, found: Found | None) -> Composed | None:
    """What the unfinished run of the task gives; None when it has none that could go on here."""
    from outlast.handoffs.compose import compose

    return compose(runtime, asked.scope, task, found.handoff if found else None)


def finished(found: Found) -> Finished:
    """The error for an anchor whose work was completed."""
    done = next((one for one in reversed(found.since) if one.name == "settled"), None)
    by, at = (str(done.facts.get("by", "")), done.at) if done else ("somebody", found.handoff.stored_us)
    return Finished(found.anchor.anchor, by, f"{moment(at):%Y-%m-%d %H:%M} UTC")
