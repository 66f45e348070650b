"""What came of running a flow's body on the receipts of a run: whether it does what it did, and where it does not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from outlast.runs.call import Call, Past

CODES = (
    "no_receipt",
    "inputs_changed",
    "unasked",
    "code_changed",
    "end_differs",
    "state_differs",
    "phase_differs",
    "stuck",
    "resource_used",
    "effects_differ",  # of a case
)
OWN = ("decision", "testimony", "run")  # kinds of entries that no body asks for


class Divergence(Struct, frozen=True):
    """One thing that the body does otherwise than it is recorded."""

    code: str  # one of CODES
    subject: str  # the call, the name in the state, …
    expected: str  # what is recorded
    found: str  # what the body does


class RunReplay(Struct, frozen=True):
    """A body, run on receipts only: nothing was executed and nothing written."""

    run_id: str
    flow: str
    status: str  # of the run, as recorded
    ended: str  # how the body ended on the receipts: returned, raised, waits (for what is not recorded), stuck
    replayed: int  # outcomes that it was given again
    divergences: tuple[Divergence, ...] = ()
    next: tuple[str, ...] = ()  # of an unfinished run: the calls it would go on with
    not_reached: int = 0  # receipts after the place where the body came to its end

    @property
    def ok(self) -> bool:
        """Whether nothing diverged."""
        return not self.divergences


class Lacking(Struct, frozen=True):
    """A call that the body asked for and that has no outcome on record."""

    call: Call
    kind: str
    inputs: str = ""  # digest
    recorded: str = ""  # digest that is recorded for the same id

    @property
    def label(self) -> str:
        return self.call.path


def lane_of(scope: str) -> str:
    """What of a scope can run beside others: up to its last task or thread (`~…/`)."""
    parts = scope.split("/")[:-1]
    last = max((at for at, part in enumerate(parts) if part.startswith("~")), default=-1)
    return "".join(f"{part}/" for part in parts[: last + 1])


def diverged_calls(
    lacking: Iterable[Lacking], left: Iterable[Past], *, is_over: bool
) -> tuple[list[Divergence], list[Past]]:
    """Which calls without a receipt are divergences, and what is left over beside them.

    In a run that is over all of them are. In an unfinished one a call without a receipt is where it goes on, unless a
    receipt of the same lane is left over: then the body took another way.
    """
    rest = list(left)
    found: list[Divergence] = []
    for one in lacking:
        if one.recorded:
            found.append(Divergence("inputs_changed", one.label, one.recorded[:12], one.inputs[:12]))
            continue
        meant = next((past for past in rest if past.call[:2] == one.call[:2]), None)
        if meant is not None and one.kind in ("step", "effect"):
            rest.remove(meant)
            found.append(Divergence("inputs_changed", one.label, meant.call.inputs[:12], one.call.inputs[:12]))
        elif is_over or any(lane_of(past.call.scope) == lane_of(one.call.scope) for past in rest):
            found.append(Divergence("no_receipt", one.label, "nothing", _asked(one)))
    return found, rest


def _asked(one: Lacking) -> str:
    return f"asked for ({one.kind})" if not one.inputs else f"asked for ({one.kind}, inputs {one.inputs[:12]})"


def differences(recorded: dict[str, Any], found: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """Names whose values are not equal, with both; a value that is not there is None."""
    names = sorted(recorded.keys() | found.keys())
    return [
        (name, recorded.get(name), found.get(name))
        for name in names
        if name not in recorded or name not in found or recorded[name] != found[name]
    ]
