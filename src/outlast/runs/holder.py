"""Who holds a run: its owner while it executes, whoever has claimed it, or nobody any more. Nothing is taken here."""

from __future__ import annotations

from typing import Any

from outlast import errors
from outlast.home.caller import Caller
from outlast.home.claimer import is_ours, print_of
from outlast.home.home import Home
from outlast.home.process import is_alive, is_stopped
from outlast.ledger.journal import NOTES, Row, read_facts, read_header
from outlast.ledger.lease import SILENT_LEASES, Beat, is_over
from outlast.store.contract import Hold, LeaseRow, Reading, RunRow
from outlast.store.contract.runs import refuse_damaged

BESIDE = (("run", "checked"), ("run", "displaced"))  # entries that say nothing about who holds a run
HERE = "this process"  # who holds a run that is executed right here


def silent_since(home: Home, look: Reading, run: RunRow, lease: LeaseRow) -> int:
    """When the next sign of life of a dead owner was overdue. Who only claimed the run since was never its owner."""
    claimed = _claimed(look, run, lease)
    if claimed:
        return int(claimed.get("silent_at", 0))
    beat = look.beat_of(lease.holder) if lease.holder and is_executing(run) else None
    return beat.wall_us + int((home.settings.beat_seconds + 1) * 1_000_000) if beat else 0


def refuse_sealed(run: RunRow) -> None:
    """Raises RunSealed for a run that only stands for one elsewhere, IntegrityBroken for one that cannot be read."""
    refuse_damaged(run, f"run {run.id}")
    if run.seal:
        raise errors.RunSealed(run.id, run.seal)


def refuse_held(caller: Caller, look: Reading, run_id: str, lease: LeaseRow) -> None:
    """Raises RunHeld while another worker (or this one) holds the run."""
    holder = holder_of(caller, look, run_id, lease)
    if holder:
        raise errors.RunHeld(run_id, holder, lease.epoch)


def holder_of(caller: Caller, look: Reading, run_id: str, lease: LeaseRow) -> str:
    """Who holds the run now; empty when it may be taken, by us at least."""
    if lease.holder is None:
        return ""
    if lease.holder == caller.home.process.id:
        return HERE if run_id in caller.home.held.executing or run_id in caller.home.held.claimed else ""
    beat = look.beat_of(lease.holder)
    if beat is None:
        return ""
    run = look.run_by_id(run_id)
    executing = run is None or is_executing(run)
    if _is_over(caller.home, beat, executing=executing):
        return ""
    if run is None or executing:
        return str(beat.process)
    return "" if is_ours(caller, lease.holder, beat) else _claimer(look, run, lease, beat)


def _is_over(home: Home, beat: Beat, *, executing: bool) -> bool:
    """Whether a holder's lease may be taken. One that only claimed the run says nothing between two uses."""
    me, clock, leases = home.process, home.clock, SILENT_LEASES if executing else 1
    alive, stopped = is_alive(beat.process, me), is_stopped(beat.process, me)
    return is_over(beat, me, alive=alive, stopped=stopped, boot_us=clock.boot(), wall_us=clock.now(), leases=leases)


def is_dead(home: Home, look: Reading, process_id: str) -> bool:
    """Whether a process that holds something is dead, by the rule for leases."""
    if process_id == home.process.id:
        return False
    beat = look.beat_of(process_id)
    return beat is None or _is_over(home, beat, executing=True)


def is_executing(run: RunRow) -> bool:
    """Whether the holder of the run's lease is, or was, executing it. Else it is only claimed."""
    return run.status == "running"


def token_of(caller: Caller, look: Reading, run: RunRow, lease: LeaseRow) -> str:
    """The claim that lets this runtime take the run; empty when it needs none."""
    beat = look.beat_of(lease.holder) if lease.holder and not is_executing(run) else None
    return str(lease.holder) if beat is not None and is_ours(caller, beat.process.id, beat) else ""


def _claimer(look: Reading, run: RunRow, lease: LeaseRow, beat: Beat) -> str:
    """A claim in words. Only the beginning of its token is shown: whoever has all of it may use it."""
    by = claimed_by(look, run, lease)
    place = str(beat.process) if beat.process.pid else f"on {beat.process.host}"
    return f"claim {str(lease.holder)[:6]}{f' of {by}' if by else ''} ({place})"


def claimed_by(look: Reading, run: RunRow, lease: LeaseRow) -> str:
    """Who made the claim that holds the lease; empty when no claim does, or nobody was named."""
    return str(_claimed(look, run, lease).get("by", ""))


def _claimed(look: Reading, run: RunRow, lease: LeaseRow) -> dict[str, Any]:
    """What was noted when the claim that holds the lease was made; nothing when no claim does."""
    last = _last_fact(look, run, lease.head) if lease.holder and not is_executing(run) else None
    if last is None or read_header(last.header).name != "claimed":
        return {}
    facts = read_facts(last)
    return facts if facts.get("claim") == print_of(lease.holder) else {}


def _last_fact(look: Reading, run: RunRow, seq: int) -> Row | None:
    """The last entry of a run, but for checks and answers that came meanwhile: they say nothing about who holds it."""
    for row in (row for at in range(seq, 0, -1) for row in look.entries_of(run.key, [at])):
        header = read_header(row.header)
        if (header.kind, header.name) not in BESIDE and header.kind not in NOTES:
            return row
    return None


def refuse_lost(look: Reading, hold: Hold) -> None:
    """Raises LeaseLost when another worker has taken the run: for writes that are no entries of its journal."""
    lease = look.lease_of(hold.run_id)
    if lease is None or lease.epoch != hold.epoch:
        raise errors.LeaseLost(hold.run_id, hold.epoch)
