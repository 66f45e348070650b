"""The words of an automatic handoff, from what a session left. Pure: nothing is looked up, and nothing is invented."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from outlast.clock import moment
from outlast.doors.hooks.events import CLIENT_NAMES, HookEvent
from outlast.doors.hooks.transcript import TranscriptFacts, TranscriptStep
from outlast.python.automatic import COMPOSED, MAX_FILES
from outlast.values.text import one_line

if TYPE_CHECKING:
    from outlast import Handoff

STEPS, GOAL_CHARACTERS, STEP_CHARACTERS = 100, 2_000, 500
_ENDED = {
    "start": "began",
    "stop": "finished a turn",
    "compact": "was about to be compacted",
    "end": "ended",
}
_MARKS = {"completed": "x", "in_progress": ">", "pending": " ", "cancelled": "-"}
# What an explicit handoff asks for goes on to hold in the automatic ones that follow it.
INHERITED = (
    "acceptance_checks",
    "must_change",
    "must_remove",
    "must_keep",
    "rollback",
    "environment",
    "risk",
    "refs",
    "creates",
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
    yield from _about(base)
    at = f"{moment(work.event.at):%Y-%m-%d %H:%M} UTC"
    yield f"Taken from session {work.event.name} at {at} by a hook; nobody wrote it for a handover."


def _first(plan: tuple[TranscriptStep, ...]) -> tuple[TranscriptStep, ...]:
    """The steps that are shown: of a long plan those that are open."""
    if len(plan) <= STEPS:
        return plan
    return tuple(sorted(plan, key=lambda step: not step.open)[:STEPS])


def _about(base: dict[str, Any]) -> Iterator[str]:
    if base:
        yield f"It goes on from revision {base['revision']}, written by {base['by']}: {one_line(base['summary'], 400)}"
        if base["next"]:
            yield f"What that one asked for next: {one_line(base['next'], 400)}"


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
