"""What a session that starts is told: the handoff under its anchor, verdict first, within 1,500 tokens.

First what earlier sessions left is stored: events that still wait, and what a session that died without an end had
done by then. Nothing is claimed: that is for the agent, or the person, to decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from outlast.doors.hooks import sessions, spool
from outlast.doors.hooks.events import CLIENT_NAMES, COMPOSED, HookEvent
from outlast.doors.hooks.place import WorkPlace, is_found, note, words_of
from outlast.doors.hooks.sessions import HookSession
from outlast.errors import Finished, HandoffInvalid, HandoffNotFound, OutlastError
from outlast.files import git
from outlast.handoffs.find import HandoffQuery
from outlast.handoffs.reading import PROMPT_TOKENS, headline, prompt, tokens_of
from outlast.handoffs.recover import Recovering, recover
from outlast.handoffs.recovered import Recovered
from outlast.handoffs.verdict import command
from outlast.ledger.verdict import Reason, judge
from outlast.python.opening import opened
from outlast.values.text import carry

if TYPE_CHECKING:
    from outlast.python.opening import Executor

WAIT_SECONDS = 2.0  # for somebody else who takes the waiting events in
BUSY_SECONDS = 1.0  # for others who write


def begin(event: HookEvent, place: WorkPlace, anchor: str) -> str:
    """What the session is told; nothing when nothing is handed over. Raises OutlastError, OSError."""
    with opened(place.home, event.client, busy_seconds=BUSY_SECONDS) as executor:
        take_in(executor, place.home, event, anchor)
        others = tuple(_others(place.home, event, anchor, executor.home.clock.now()))
        recovered = recovered_for(executor, event, place, anchor)
        return shown(recovered, place, others) if recovered else ""


def branch_by_git(place: WorkPlace) -> WorkPlace:
    """The place with its branch, where git's own files do not tell it."""
    return place._replace(branch=git.branch_of(Path(place.top)))


def take_in(executor: Executor, home: str, event: HookEvent, anchor: str) -> None:
    """Store what earlier sessions left. What cannot be stored is noted."""
    with spool.alone(home, WAIT_SECONDS) as granted:
        if not granted:
            note(home, f"{event.name} start: somebody else still stores what earlier sessions left")
            return
        if spool.waiting(home):
            from outlast.doors.hooks.leave import drain

            drain(home, executor)
        for session in left_without_end(home, event, anchor, executor.home.clock.now()):
            _compose(executor, home, session)


def left_without_end(home: str, event: HookEvent, anchor: str, now: int) -> list[HookSession]:
    """The sessions under the anchor that nobody runs any more and that never said so; also this one's earlier life."""
    return [
        each
        for each in sessions.of_anchor(home, anchor)
        if each.event.agent != event.agent and sessions.is_over(each, now)
    ]


def _compose(executor: Executor, home: str, session: HookSession) -> None:
    from outlast.doors.hooks.leave import leave

    try:
        leave(executor, home, session.event, died=True)
    except (OutlastError, OSError) as error:
        note(home, f"{session.event.name} left no end, and what it did cannot be stored: {words_of(error)}")
        sessions.forget(home, session.event)


# -- the answer --------------------------------------------------------------------------------------


def _others(home: str, event: HookEvent, anchor: str, now: int) -> Iterator[HookSession]:
    """Other sessions that are at the same work now."""
    for each in sessions.of_anchor(home, anchor):
        if each.event.session != event.session and not sessions.is_over(each, now):
            yield each


def shown(recovered: Recovered, place: WorkPlace, others: tuple[HookSession, ...] = ()) -> str:
    """What was handed over, as the agent reads it."""
    reach = () if is_found(place) else ("--home", place.home)
    return _within(recovered, "\n".join(_beside(place, others)), reach)


def recovered_for(executor: Executor, event: HookEvent, place: WorkPlace, anchor: str) -> Recovered | None:
    """The handoff under the anchor with its verdict; else the newest that is bound to this branch."""
    how, executor.caller.stands = Recovering(actor=event.client), place.top
    wanted = [HandoffQuery(executor.caller.scope, anchor=anchor)]
    if not event.task:
        wanted.append(HandoffQuery(executor.caller.scope))
    for asked in wanted:
        try:
            return _judged(recover(executor, asked, how))
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


def _within(recovered: Recovered, beside: str, reach: Sequence[str] = ()) -> str:
    """The prompt, and what stands beside it, within the tokens that a start may take."""
    room = PROMPT_TOKENS - (tokens_of(beside) + 2 if beside else 0)
    try:
        shown = prompt(recovered, room, reach)
    except HandoffInvalid:  # what must not be left out is longer than that: say where it is
        whole = carry(command(recovered.handoff, "recover", "--prompt"), reach)
        shown = f"# Verdict: {headline(recovered)}\nAll of it: {whole}"
    return f"{shown}\n\n{beside}" if beside else shown


def _beside(place: WorkPlace, others: tuple[HookSession, ...]) -> Iterator[str]:
    """What the agent must know beside the handoff."""
    if not is_found(place):
        yield f"- Outlast commands need the home here: export OUTLAST_HOME={quote(place.home)}"
    for each in others[:3]:
        name = CLIENT_NAMES[each.event.client]
        yield f"- Another {name} session is open on the same work, in {quote(each.top)}."
