"""What people do that no journal has, put on record: who, when, by which door, what was changed, from what to what.

A change of the ledger is recorded in its own transaction. What is kept elsewhere, keys and targets of notifications, is
recorded as begun before it is done and as done after it: who dies between the two leaves it on record as begun.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal

from outlast import failpoints
from outlast.errors import OutlastError
from outlast.store.contract import ActRow
from outlast.values.codec import digest, encode

if TYPE_CHECKING:
    from outlast.home.caller import Caller
    from outlast.store.contract import Writing

Noun = Literal["run", "schedule", "queue", "limit", "key", "target"]
LONGEST = 200  # characters of a value; a longer one is told by its digest


def note(
    caller: Caller,
    tx: Writing,
    noun: Noun,
    name: str,
    verb: str,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    *,
    scope: str = "",
    done: bool = True,
) -> int:
    """Record what a transaction does, in it. `before` and `after`: what it says that may have changed; no secret."""
    changes = encode(changes_of(before or {}, after or {})).decode()
    whence, at = caller.whence, caller.home.clock.now()
    who = (caller.actor, whence["host"], whence["door"])
    return tx.add_act(ActRow(0, 0, at, *who, scope, noun, name, verb, changes, int(done)))


@contextmanager
def noting(
    caller: Caller,
    noun: Noun,
    name: str,
    verb: str,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    *,
    even_unrecorded: bool = False,
) -> Iterator[None]:
    """Record what is done in this block, outside of the ledger: as begun, then as done.

    `even_unrecorded`: it is done also where the ledger cannot be written, such as the end of a key that was stolen.
    """
    write, number = caller.home.store.write, 0
    forgiven = (OutlastError,) if even_unrecorded else ()
    with suppress(*forgiven):
        number = write(lambda tx: note(caller, tx, noun, name, verb, before, after, done=False))
    failpoints.reached("act.begun")
    yield
    failpoints.reached("act.ended")
    with suppress(*forgiven):
        write(lambda tx: tx.finish_act(number))


def changes_of(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """What is not the same in the two, each from what to what; None where it was not, or is no more."""
    names = [*after, *(name for name in before if name not in after)]
    pairs = {name: (before.get(name), after.get(name)) for name in names}
    return {name: (_short(was), _short(now)) for name, (was, now) in pairs.items() if was != now}


def _short(value: Any) -> Any:
    raw = encode(value)
    return value if len(raw) <= LONGEST else f"sha256:{digest(raw)[:12]}"
