"""Claims by token: a lease whose holder is a random word. Whoever can show the word is the claimer, from any process.

Its sign of life is a row like a process's own, renewed by use, with the pid of the claiming process where there is one:
when that is dead, or after the claim's time, somebody else may take it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from outlast.home.claimer import same_claimer
from outlast.ledger.lease import Beat, Process
from outlast.store.contract import Writing
from outlast.values.digest import identity

if TYPE_CHECKING:
    from outlast.home.home import Runtime


def is_ours(runtime: Runtime, holder: str, beat: Beat) -> bool:
    """Whether this runtime is the claimer: it knows the word, or acts for the same process."""
    if holder in runtime.tokens:
        return True
    return runtime.claimer is not None and same_claimer(runtime.claimer, beat.process)


def asker(runtime: Runtime, actor: str, *, alone: bool = False) -> str | None:
    """Whose claims count as his own; None: all that this runtime knows, since it acts for one worker or a terminal."""
    return None if alone or runtime.claimer is not None else actor


def print_of(token: str | None) -> str:
    """What records say of a claim: enough to tell it from others, and not the word itself."""
    return identity(token.encode())[:16] if token else ""


def named(token: str) -> str:
    """A claim as messages name it. Only its beginning: whoever has all of it may use it."""
    return f"{token[:6]}…" if len(token) > 6 else token


def beat_of(runtime: Runtime, token: str, known: Beat | None = None) -> Beat:
    """The first sign of life of a claim that is made now; or of one that is known the next, bound to whom it was."""
    process = known.process if known else msgspec.structs.replace(runtime.claimer or runtime.process, id=token)
    return _now(runtime, process)


def renew(runtime: Runtime, tx: Writing, token: str) -> Beat:
    """The claim was used: its time begins anew."""
    known = tx.beat_of(token)
    beat = _now(runtime, known.process if known else msgspec.structs.replace(runtime.process, id=token))
    tx.beat(beat)
    return beat


def renewal(runtime: Runtime, token: str | None) -> Callable[[], None] | None:
    """What keeps a claim alive while something takes long; it does nothing for one that was taken meanwhile."""
    if token is None:
        return None

    def use(tx: Writing) -> None:
        if tx.beat_of(token) is not None:
            renew(runtime, tx, token)

    return lambda: runtime.store.write(use)


def until(beat: Beat) -> int:
    """When the claim's time is over."""
    return beat.wall_us + int(beat.lease_seconds * 1_000_000)


def _now(runtime: Runtime, process: Process) -> Beat:
    clock = runtime.clock
    return Beat(process, clock.boot(), clock.now(), runtime.settings.claim_seconds)
