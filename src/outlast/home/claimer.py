"""Who claims a handoff: the process that a claim is bound to, so that its death sets the claim free at once.

In a library that is this process (`home.process`). On the command line every command is a process of its own, so it
is the leader of the terminal's session: the shell that somebody sits at. Whoever has neither is bound to nobody, and
only time ends the claim. When a claim is over is decided in `ledger/lease.py`.

Claims by token: a lease whose holder is a random word. Whoever can show the word is the claimer, from any process.

Its sign of life is a row as a process has one, renewed by use, with the pid of the claiming process where there is one:
when that is dead, or after the claim's time, somebody else may take it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from outlast.home.process import machine_id, started_at, this_place
from outlast.ledger.lease import Beat, Process
from outlast.values.codec import identity

if TYPE_CHECKING:
    from outlast.home.caller import Caller
    from outlast.home.home import Home
    from outlast.store.contract import Writing


_TERMINAL = 4  # where a process's terminal stands in its stat, after the name


def terminal_leader() -> Process | None:
    """The process that leads this terminal's session, for as long as which a person is there.

    None without a terminal, when the leader is gone or in another PID namespace, and when it is this very process: a
    claim must outlive the command that made it.
    """
    leader = os.getsid(0) if _has_terminal() else 0
    started = started_at(leader) if leader not in (0, os.getpid()) else None
    return None if started is None else Process("", *this_place(), leader, started, machine_id())


def nobody() -> Process:
    """A holder at this place that cannot be looked up: only its silence ends what it holds."""
    return Process("", *this_place(), pid=0, started=0, machine_id=machine_id())


def same_claimer(a: Process, b: Process) -> bool:
    """Whether both are one process for certain. Nobody is not even itself, and nor is who is nowhere."""
    where_a, where_b = (a.boot_id, a.pid_namespace), (b.boot_id, b.pid_namespace)
    return all(where_a) and where_a == where_b and a.pid > 0 and (a.pid, a.started) == (b.pid, b.started)


def _has_terminal() -> bool:
    try:
        text = Path("/proc/self/stat").read_bytes()
    except OSError:
        return False
    return int(text.rpartition(b")")[2].split()[_TERMINAL]) != 0


def is_ours(caller: Caller, holder: str, beat: Beat) -> bool:
    """Whether who acts is the claimer: he knows the word, or acts for the same process."""
    if holder in caller.tokens:
        return True
    return caller.claimer is not None and same_claimer(caller.claimer, beat.process)


def asker(caller: Caller, actor: str, *, alone: bool = False) -> str | None:
    """Whose claims count as his own; None: all that the caller knows, since he acts for one worker or a terminal."""
    return None if alone or caller.claimer is not None else actor


def print_of(token: str | None) -> str:
    """What records say of a claim: enough to tell it from others, and not the word itself."""
    return identity(token.encode())[:16] if token else ""


def named(token: str) -> str:
    """A claim as messages name it. Only its beginning: whoever has all of it may use it."""
    return f"{token[:6]}…" if len(token) > 6 else token


def beat_of(caller: Caller, token: str, known: Beat | None = None) -> Beat:
    """The first sign of life of a claim that is made now; or of one that is known the next, bound to whom it was."""
    process = known.process if known else msgspec.structs.replace(caller.claimer or caller.home.process, id=token)
    return _now(caller.home, process)


def renew(home: Home, tx: Writing, token: str) -> Beat:
    """The claim was used: its time begins anew."""
    known = tx.beat_of(token)
    beat = _now(home, known.process if known else msgspec.structs.replace(home.process, id=token))
    tx.beat_claim(beat)
    return beat


def renewal(home: Home, token: str | None) -> Callable[[], None] | None:
    """What keeps a claim alive while something takes long; it does nothing for one that was taken meanwhile."""
    if token is None:
        return None

    def use(tx: Writing) -> None:
        if tx.beat_of(token) is not None:
            renew(home, tx, token)

    return lambda: home.store.write(use)


def until(beat: Beat) -> int:
    """When the claim's time is over."""
    return beat.wall_us + int(beat.lease_seconds * 1_000_000)


def _now(home: Home, process: Process) -> Beat:
    clock = home.clock
    return Beat(process, clock.boot(), clock.now(), home.settings.claim_seconds)
