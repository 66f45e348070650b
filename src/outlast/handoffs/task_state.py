"""A task moves with its handoff, in the same transaction: both are as they were, or both have moved.

Whoever uses handoffs directly moves a task that was opened just as the bridge does. Only the bridge makes the task's
row if need be, and refuses a move that the table of states, which is here, does not have. CHECKs and docs/tasks.md
repeat that table.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, cast

from outlast.clock import moment
from outlast.errors import HandoffClaimed, TaskRefused
from outlast.handoffs.handoff import anchor_of, task_of
from outlast.home import claimer
from outlast.ledger.journal import link
from outlast.store.contract import Hold, Reading, RunRow, TaskEventRow, TaskRow, Writing
from outlast.values.codec import encode
from outlast.values.frozen import NamedTuple
from outlast.values.late import late

if TYPE_CHECKING:
    from outlast.handoffs.handoff import Handoff, Settlement
    from outlast.home.caller import Caller
    from outlast.home.home import Home
    from outlast.runs import holder as holders
    from outlast.runs import look as looks
else:  # most tasks that are looked at have no run
    holders, looks = late("outlast.runs.holder"), late("outlast.runs.look")

State = Literal["active", "paused", "resumed", "completed"]
STATES: tuple[State, ...] = ("active", "paused", "resumed", "completed")
FIRST: State = "active"

# A task moves to its own state again when it is paused anew, or taken over from somebody.
MOVES: dict[State, tuple[State, ...]] = {
    "active": ("paused", "resumed", "completed"),
    "paused": ("paused", "resumed", "completed"),
    "resumed": ("paused", "resumed", "completed"),
    "completed": ("active",),
}

# What each move makes of a task, under the name by which it is written down; what a host records moves nothing.
STATE_AFTER: dict[str, State] = {
    "opened": "active",
    "paused": "paused",
    "resumed": "resumed",
    "completed": "completed",
    "reopened": "active",
}


def may_move(before: State, after: State) -> bool:
    """Whether a task may go from one state to another."""
    return after in MOVES[before]


def genesis_of_task(scope: str, task: str) -> bytes:
    """The hash before the first event: it ties the chain to its task."""
    return sha256(b"outlast task\n" + encode([scope, task])).digest()


def event_header(seq: int, kind: str, name: str, digest: bytes, masked: int, actor: str, at: int) -> bytes:
    """What the chain proves about an event."""
    return encode([seq, kind, name, masked, actor, at, digest.hex()])


class TaskEntry(NamedTuple):
    """What is written down about a task."""

    kind: str
    actor: str
    body: Any = None
    name: str = ""
    masked: int = 0


def made(tx: Writing, scope: str, task: str, entry: TaskEntry, at: int, session: str = "", meta: str = "{}") -> TaskRow:
    """A task that was unknown so far: active, with the event that opened it."""
    start = genesis_of_task(scope, task)
    row = tx.add_task(TaskRow(0, scope, task, FIRST, session, meta, entry.actor, at, at, 0, start))
    return write(tx, row, entry, at)


def write(tx: Writing, row: TaskRow, entry: TaskEntry, at: int, session: str | None = None) -> TaskRow:
    """The next event of a task, and the state that follows from it. Gives the task as it is then."""
    body = encode(entry.body).decode()
    digest, seq = sha256(body.encode()).digest(), row.head + 1
    hash_ = link(row.hash, event_header(seq, entry.kind, entry.name, digest, entry.masked, entry.actor, at))
    event = TaskEventRow(seq, entry.kind, entry.name, body, digest, entry.masked, entry.actor, at, hash_)
    state = STATE_AFTER.get(entry.kind, row.state) if entry.kind != "opened" or row.head == 0 else row.state
    opened_at = at if entry.kind == "reopened" else row.opened_at
    tx.add_task_event(row, event, state, row.session if session is None else session, opened_at)
    found = tx.task_of(row.scope, row.task)
    assert found is not None
    return found


def refuse_completed(row: TaskRow | None, action: str) -> None:
    """Raises TaskRefused for a task whose work is over."""
    if row is not None and row.state == "completed":
        raise TaskRefused(row.task, action, completed(row), "open it again: open(task, reopen=True) (--reopen)")


def completed(row: TaskRow) -> str:
    return f"it was completed by {row.actor} on {moment(row.updated_at):%Y-%m-%d %H:%M} UTC"


# -- with a handoff ----------------------------------------------------------------------------------


def stored(home: Home, tx: Writing, handoff: Handoff, *, pause: bool) -> None:
    """A revision was stored: through the bridge the task is paused; else a completed one is open again."""
    task = task_of(handoff.anchor)
    row = tx.task_of(handoff.scope, task) if task is not None else None
    body = {"handoff_id": handoff.id, "revision": handoff.revision, "summary": handoff.summary}
    if pause:
        _move(home, tx, handoff.scope, handoff.anchor, TaskEntry("paused", handoff.actor, body), "pause")
    elif row is not None and row.state == "completed":
        write(tx, row, TaskEntry("reopened", handoff.actor, body), handoff.stored_us)


def resumed(home: Home, tx: Writing, scope: str, anchor: str, entry: TaskEntry, *, anew: bool, bridge: bool) -> None:
    """The claim is somebody's. `anew`: it was not that one's before. A claim opens no completed task again."""
    task = task_of(anchor)
    row = tx.task_of(scope, task) if task is not None else None
    if row is not None and row.state == "completed" and not bridge:
        return
    if anew or (row is not None and row.state != "resumed"):
        _move(home, tx, scope, anchor, entry, "resume" if bridge else "")


def settled(home: Home, tx: Writing, scope: str, done: Settlement, *, bridge: bool) -> None:
    """The handoff was settled: with that the task is completed, or may be resumed by somebody else."""
    body = {"handoff_id": done.handoff_id, "revision": done.revision, "outcome": done.outcome}
    body |= {name: said for name, said in (("override", done.override), ("note", done.note)) if said}
    kind = "completed" if done.outcome == "completed" else "paused"
    _move(home, tx, scope, done.anchor, TaskEntry(kind, done.by, body), "complete" if bridge else "")


def _move(home: Home, tx: Writing, scope: str, anchor: str, entry: TaskEntry, action: str) -> None:
    """Move the task of an anchor. `action`: what is asked of it through the bridge; "" when it only follows."""
    task = task_of(anchor)
    row = tx.task_of(scope, task) if task is not None else None
    if task is None or (row is None and not action):
        return
    at = home.clock.now()
    if action:
        refuse_completed(row, action)
    row = row or made(tx, scope, task, TaskEntry("opened", entry.actor, {}), at)
    if not may_move(cast(State, row.state), STATE_AFTER[entry.kind]):
        row = write(tx, row, TaskEntry("reopened", entry.actor, {}), at)
    write(tx, row, entry, at)


# -- with its runs -----------------------------------------------------------------------------------


def unfinished(look: Reading, scope: str, task: str) -> list[RunRow]:
    """The runs of a task that could go on here."""
    return [row for row in look.unfinished_of_task(scope, task) if not row.seal]


def give_back_runs(caller: Caller, tx: Writing, scope: str, task: str) -> None:
    """End our claims on the task's runs. Raises HandoffClaimed when somebody else holds one, and executes nothing."""
    for row in unfinished(tx, scope, task):
        lease = tx.lease_of(row.id)
        beat = tx.beat_of(lease.holder) if lease and lease.holder else None
        if lease is None or lease.holder is None or beat is None or holders.is_executing(row):
            continue
        holder = holders.holder_of(caller, tx, row.id, lease)
        if holder:
            raise HandoffClaimed(anchor_of(task), holder, f"{moment(claimer.until(beat)):%Y-%m-%d %H:%M} UTC")
        tx.release_lease(Hold(row.key, row.id, lease.key, lease.epoch, lease.head, lease.hash))
        tx.forget_holder(lease.holder)


def words_of(caller: Caller, look: Reading, rows: list[RunRow]) -> tuple[str, ...]:
    """Unfinished runs, each as a reason why the task is not completed."""
    return tuple(f"run {row.id} of it is {looks.record_in(caller, look, row.id).status}" for row in rows)


_LAST_EVENTS = 50  # a completed task takes only that it was opened by other sessions


class Completion(NamedTuple):
    """Who said that the work of a task is done, and when."""

    by: str
    at: int


def completion(look: Reading, scope: str, task: str) -> Completion | None:
    """How a task was completed, by whatever way; None when it is not, or was opened again since."""
    row = look.task_of(scope, task)
    if row is None or row.state != "completed":
        return None
    events = look.task_events_after(row.key, max(row.head - _LAST_EVENTS, 0), _LAST_EVENTS)
    done = next((event for event in reversed(events) if event.kind == "completed"), None)
    return Completion(done.actor, done.at) if done else Completion(row.actor, row.updated_at)
