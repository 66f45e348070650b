"""What a session that starts is told: the handoff under its anchor, verdict first, within 1,500 tokens.

First what earlier sessions left is stored: events that still wait, and what a session that died without an end had
done by then. Nothing is claimed: that is for the agent, or the person, to decide.
"""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote
from typing import TYPE_CHECKING

from outlast.doors.hooks import spool
from outlast.doors.hooks.spool import CLIENT_NAMES, HookEvent, HookSession, note, words_of
from outlast.errors import OutlastError
from outlast.operations.reading import PROMPT_TOKENS, prompt_or_headline, tokens_of
from outlast.python.automatic import AutomaticHandoffs, automatic_handoffs
from outlast.python.work_tree import WorkTree

if TYPE_CHECKING:
    from outlast import Recovered

WAIT_SECONDS = 2.0  # for somebody else who takes the waiting events in
BUSY_SECONDS = 1.0  # for others who write


def begin(event: HookEvent, place: WorkTree, anchor: str) -> str:
    """What the session is told; nothing when nothing is handed over. Raises OutlastError, OSError."""
    with automatic_handoffs(place.home, event.client, busy_seconds=BUSY_SECONDS) as handoffs:
        take_in(handoffs, place.home, event, anchor)
        beside = (each for each in spool.sessions_of(place.home, anchor) if each.event.session != event.session)
        others = tuple(each for each in beside if not spool.is_over(each, handoffs.now))  # at the same work now
        recovered = handoffs.recover(anchor, event.client, place.top, or_branch=not event.task)
        return shown(recovered, place, others) if recovered else ""


def take_in(handoffs: AutomaticHandoffs, home: str, event: HookEvent, anchor: str) -> None:
    """Store what earlier sessions left. What cannot be stored is noted."""
    with spool.alone(home, WAIT_SECONDS) as granted:
        if not granted:
            note(home, f"{event.name} start: somebody else still stores what earlier sessions left")
            return
        if spool.waiting(home):
            from outlast.doors.hooks.leave import drain

            drain(home, handoffs)
        for session in left_without_end(home, event, anchor, handoffs.now):
            _compose(handoffs, home, session)


def left_without_end(home: str, event: HookEvent, anchor: str, now: int) -> list[HookSession]:
    """The sessions under the anchor that nobody runs any more and that never said so; also this one's earlier life."""
    return [
        each for each in spool.sessions_of(home, anchor) if each.event.agent != event.agent and spool.is_over(each, now)
    ]


def _compose(handoffs: AutomaticHandoffs, home: str, session: HookSession) -> None:
    from outlast.doors.hooks.leave import leave

    try:
        leave(handoffs, home, session.event, died=True)
    except (OutlastError, OSError) as error:
        note(home, f"{session.event.name} left no end, and what it did cannot be stored: {words_of(error)}")
        spool.forget_session(home, session.event)


# -- the answer --------------------------------------------------------------------------------------


def shown(recovered: Recovered, place: WorkTree, others: tuple[HookSession, ...] = ()) -> str:
    """What was handed over, as the agent reads it, within the tokens that a start may take."""
    reach = () if place.finds_home else ("--home", place.name)
    beside = "\n".join(_beside(place, others))
    room = PROMPT_TOKENS - (tokens_of(beside) + 2 if beside else 0)
    told = prompt_or_headline(recovered, room, reach)
    return f"{told}\n\n{beside}" if beside else told


def _beside(place: WorkTree, others: tuple[HookSession, ...]) -> Iterator[str]:
    """What the agent must know beside the handoff."""
    if not place.finds_home:
        yield f"- Outlast commands need the home here: export OUTLAST_HOME={quote(place.name)}"
    for each in others[:3]:
        name = CLIENT_NAMES[each.event.client]
        yield f"- Another {name} session is open on the same work, in {quote(each.top)}."
