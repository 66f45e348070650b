"""What going back to a step sets aside: one rule for `rewind`, `resume --from`, `resume_to` and a fork.

Every call has a place: the entry at which the body last came to it. Going back to a call sets aside that call and every
one whose place is not before it:

- a step is done again, as its next attempt;
- a value, a sleep, an event or an answer is forgotten, and made or asked for anew;
- an effect that surely did not happen is tried again;
- any other effect, and a child run, is kept, since it cannot be undone.

None of them has a place until the body comes to it again: going back to it meanwhile sets aside nothing more.

A `foreach`, a `repeat` and another flow are noted when they are over; they begin with the first call inside of them,
and that is where going back to them leads, also when the note was set aside and that call was not.
When a call gets a new place, steps, effects and child runs that the body has not come to by then stand behind it: they
come later, or not at all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from outlast.runs.call import Call, Ledger, Past

NOT_REACHED = 1 << 62  # the place of a call that the body has not come to since the run went back
BEHIND = 1 << 60  # added to the place of a call that the body had not come to when others got new places
REWOUND = "rewound"  # what was decided of a step that was set aside
LINES = "@lines"  # after the id of a `foreach`: the note of the lines that were read for it
BY_THE_FLOW = "flow"  # the mark of what a flow file notes of itself
PLACED = ("step", "effect", "spawn")  # kinds that stay behind when others get new places
FORGOTTEN = ("value", "sleep", "emit", "wait")
NOT_DONE = ("failed", "timed_out", "cancelled")  # outcomes of an effect that the flow was given: it did not happen


def place_of(ledger: Ledger, call: Call) -> int:
    """Where to go back to for a call: its place; after all there is, also what stands behind, when it has none."""
    past = ledger.calls.get(call)
    if past is None:
        return NOT_REACHED
    begins = _beginning(ledger, call) if past.last.mark == BY_THE_FLOW else past.first
    return min(past.first, begins)


def inside(ledger: Ledger, path: str) -> Iterator[Past]:
    """The calls that were made inside of what is called `path`, as far as they have a place."""
    within = (f"{path}[", f"{path}/")
    return (past for call, past in ledger.calls.items() if call.scope.startswith(within) and not past.aside)


def _beginning(ledger: Ledger, call: Call) -> int:
    """Where the body came to what a flow file noted when it was over: with the lines that were read for it."""
    path = call.path if not call.occurrence else f"{call.path}~{call.occurrence + 1}"
    first = min((past.first for past in inside(ledger, path)), default=NOT_REACHED)
    lines = (past.first for past in ledger.calls.values() if past.call[:2] == (call.scope, f"{call.step}{LINES}"))
    return max((place for place in lines if place < first), default=first)


def leave_behind(ledger: Ledger, after: int, over: Collection[list[Any]]) -> None:
    """The body got new places from here on: what it had not come to stands behind them, in the order that it had."""
    for call, past in ledger.calls.items():
        if past.kind in PLACED and past.first < BEHIND and (past.first > after or list(call) in over):
            past.first += BEHIND


def set_aside(ledger: Ledger, start: int) -> None:
    """Set aside every call whose place is `start` or later."""
    ledger.mark = None
    for call, past in list(ledger.calls.items()):
        if past.first >= start:
            past.first = NOT_REACHED
            _set_aside(ledger, call, past)


def _set_aside(ledger: Ledger, call: Call, past: Past) -> None:
    if past.kind == "step":
        past.decided, past.open, past.went_back = REWOUND, False, True
        past.failures = past.crashes = past.shared = 0
        ledger.in_flight.pop(call, None)
    elif past.kind == "effect" and past.last.delivered and past.last.status in NOT_DONE:
        past.decided, past.failures = "retry", 0
    elif past.kind in FORGOTTEN:
        del ledger.calls[call]
        if past.kind == "wait" and past.last.status == "succeeded" and ":" in call.inputs:  # bound to what was shown
            ledger.answers[call] = past
