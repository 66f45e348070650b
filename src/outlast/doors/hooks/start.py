"""What a session that starts is told: the handoff under its anchor, verdict first, within 1,500 tokens.

First what earlier sessions left is stored: events that still wait, and what a session that died without an end had
done by then. Nothing is claimed: that is for the agent, or the person, to decide.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from outlast.doors.hooks import sessions, spool
from outlast.doors.hooks.events import CLIENT_NAMES, COMPOSED, HookEvent
from outlast.doors.hooks.log import note, words_of
from outlast.doors.hooks.opening import opened
from outlast.doors.hooks.place import Place, is_found
from outlast.doors.hooks.sessions import Session
from outlast.errors import Finished, HandoffInvalid, HandoffNotFound, OutlastError
from outlast.handoffs.reading import PROMPT_TOKENS, headline, prompt, tokens_of
from outlast.handoffs.recovered import Recovered
from outlast.handoffs.verdict import command
from outlast.ledger.verdict import Reason, judge

if TYPE_CHECKING:
    from outlast.home.home import Runtime

WAIT_SECONDS = 2.0  # for somebody else who takes the waiting events in
BUSY_SECONDS = 1.0  # for others who write


def begin(event: HookEvent, place: Place, anchor: str) -> str:
    """What the session is told; nothing when nothing is handed over. Raises OutlastError, OSError."""
    with opened(place.home, event.client, busy_seconds=BUSY_SECONDS) as runtime:
        take_in(runtime, place.home, event, anchor)
        others = tuple(_others(place.home, event, anchor, runtime.clock.now()))
        recovered = recovered_for(runtime, event, place, anchor)
        return shown(recovered, place, others) if recovered else ""


def branch_by_git(place: Place) -> Place:
    """The place with its branch, where git's own files do not tell it."""
    from outlast.files import git

    return place._replace(branch=git.branch_of(Path(place.top)))


def take_in(runtime: Runtime, home: str, event: HookEvent, anchor: str) -> None:
    """Store what earlier sessions left. What cannot be stored is noted."""
    with spool.alone(home, WAIT_SECONDS) as granted:
        if not granted:
            note(home, f"{event.name} start: somebody else still stores what earlier sessions left")
            return
        if spool.waiting(home):
            from outlast.doors.hooks.leave import drain

            drain(home, runtime)
        for session in left_without_end(home, event, anchor, runtime.clock.now()):
            _compose(runtime, home, session)


def left_without_end(home: str, event: HookEvent, anchor: str, now: int) -> list[Session]:
    """The sessions under the anchor that nobody runs any more and that never said so; also this one's earlier life."""
    return [
        each
        for each in sessions.of_anchor(home, anchor)
        if each.event.agent != event.agent and sessions.is_over(each, now)
    ]


def _compose(runtime: Runtime, home: str, session: Session) -> None:
    from outlast.doors.hooks.leave import leave

    try:
        leave(runtime, home, session.event, died=True)
    except (OutlastError, OSError) as error:
        note(home, f"{session.event.name} left no end, and what it did cannot be stored: {words_of(error)}")
        sessions.forget(home, session.event)


# -- the answer --------------------------------------------------------------------------------------


def _others(home: str, event: HookEvent, anchor: str, now: int) -> Iterator[Session]:
    """Other sessions that are at the same work now."""
    for each in sessions.of_anchor(home, anchor):
        if each.event.session != event.session and not sessions.is_over(each, now):
            yield each


def shown(recovered: Recovered, place: Place, others: tuple[Session, ...] = ()) -> str:
    """What was handed over, as the agent reads it."""
    return _within(recovered, "\n".join(_beside(place, others)))


def recovered_for(runtime: Runtime, event: HookEvent, place: Place, anchor: str) -> Recovered | None:
    """The handoff under the anchor with its verdict; else the newest that is bound to this branch."""
    from outlast.handoffs.find import Asked
    from outlast.handoffs.recover import Recovering, recover

    how = Recovering(actor=event.client)
    wanted = [Asked(runtime.scope, anchor=anchor, repo_root=place.top)]
    if not event.task:
        wanted.append(Asked(runtime.scope, repo_root=place.top))
    for asked in wanted:
        try:
            return _judged(recover(runtime, asked, how))
        except HandoffNotFound:
            continue
        except Finished:
            return None
    return None


def _judged(recovered: Recovered) -> Recovered:
    """The same, weakened when the session did not leave the handoff itself."""
    handoff = recovered.handoff
    if handoff.source != "hook" or COMPOSED not in handoff.tags:
        return recovered
    advice = f"compare it with the files: {command(handoff, 'diff')}; or run checks: {command(handoff, 'verify')}"
    reason = Reason(COMPOSED, handoff.anchor, "left by the session", "composed from what it left", advice)
    known = {each.code for each in recovered.reasons}
    return recovered if COMPOSED in known else replace(recovered, verdict=judge([*recovered.reasons, reason]))


def _within(recovered: Recovered, beside: str) -> str:
    """The prompt, and what stands beside it, within the tokens that a start may take."""
    room = PROMPT_TOKENS - (tokens_of(beside) + 2 if beside else 0)
    try:
        shown = prompt(recovered, room)
    except HandoffInvalid:  # what must not be left out is longer than that: say where it is
        shown = f"# Verdict: {headline(recovered)}\nAll of it: {command(recovered.handoff, 'recover', '--prompt')}"
    return f"{shown}\n\n{beside}" if beside else shown


def _beside(place: Place, others: tuple[Session, ...]) -> Iterator[str]:
    """What the agent must know beside the handoff."""
    if not is_found(place):
        yield f"- Outlast commands need the home here: export OUTLAST_HOME={quote(place.home)}"
    for each in others[:3]:
        name = CLIENT_NAMES[each.event.client]
        yield f"- Another {name} session is open on the same work, in {quote(each.top)}."
