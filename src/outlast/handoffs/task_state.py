"""A task moves with its handoff, in the same transaction: both are as they were, or both have moved.

Whoever uses handoffs directly moves a task that was opened just as the bridge does. Only the bridge makes the task's
row if need be, and refuses a move that the table of states, which is here, does not have. CHECKs and docs/tasks.md
repeat that table.

Unfinished runs that nobody handed over are found here without knowing the name of their task. Each task counts once, by
its run that was heard of last. Left out are children, which go on with their parents, what moved away, and what was
part of a task that was completed since. What is told of one is `compose.py`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from outlast.clock import moment
from outlast.errors import HandoffClaimed, TaskRefused
from outlast.handoffs.handoff import Near, anchor_of, task_of
from outlast.home import claimer
from outlast.ledger.journal import Row, link, read_header
from outlast.store.contract import Hold, Reading, RunRow, TaskEventRow, TaskRow, Writing
from outlast.values.codec import encode
from outlast.values.frozen import NamedTuple
from outlast.values.late import late

if TYPE_CHECKING:
    from outlast.files import git
    from outlast.flows import loading
    from outlast.handoffs.handoff import Handoff, Settlement
    from outlast.home.caller import Caller
    from outlast.home.home import Home
    from outlast.runs import holder as holders
    from outlast.runs import look as looks
    from outlast.runs import same_flow
    from outlast.runs.live import Executor
else:  # most tasks that are looked at have no run
    git, loading = late("outlast.files.git"), late("outlast.flows.loading")
    holders, looks, same_flow = map(late, ("outlast.runs.holder", "outlast.runs.look", "outlast.runs.same_flow"))

State = Literal["active", "paused", "resumed", "completed"]
STATES: tuple[State, ...] = ("active", "paused", "resumed", "completed")
FIRST: State = "active"
_TAIL = 8  # entries: the last one that tells something is nearly always among them
_LAST_EVENTS = 50  # a completed task takes only that it was opened by other sessions

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


# -- unfinished runs that nobody handed over ---------------------------------------------------------

PREFIX = "run:"  # of the id that what is composed from a run has
_FIRST = 1 << 53  # no anchor has such a place: runs come before all of them


def run_of(handoff_id: str | None) -> str | None:
    """The run that the id of a composed handoff names; None when it is the id of a stored one."""
    return handoff_id.removeprefix(PREFIX) if handoff_id is not None and handoff_id.startswith(PREFIX) else None


def of_scope(look: Reading, scope: str) -> list[RunRow]:
    """The run of each task that could go on here, those that began last first."""
    rows = [row for row in look.unfinished_of_scope(scope) if not row.seal]
    ids = {row.id for row in rows}
    newest: dict[str, RunRow] = {}
    for row in sorted(rows, key=lambda row: (row.updated_at, row.key)):
        if row.parent not in ids and not _is_over(look, row):
            newest[row.task] = row
    return sorted(newest.values(), key=lambda row: -row.key)


def _is_over(look: Reading, row: RunRow) -> bool:
    done = completion(look, row.scope, row.task)
    return done is not None and row.created_at <= done.at


def tasks_of(home: Home, scope: str) -> list[RunRow]:
    """The same, read now."""
    return home.store.read(lambda look: of_scope(look, scope))


def unfinished_of(look: Reading, scope: str, task: str, after: int = 0) -> list[RunRow]:
    """The runs of a task that could go on here and began after that moment, the one heard of last at the end."""
    rows = [row for row in look.unfinished_of_task(scope, task) if not row.seal and row.created_at > after]
    return sorted(rows, key=lambda row: (row.updated_at, row.key))


def is_surely_before(look: Reading, row: RunRow, at: int) -> bool:
    """Whether a run that nobody executes was heard of before a moment, by its last entries alone."""
    lease = look.lease_of(row.id)
    if row.status == "running" or lease is None:
        return False
    last = look.journal_of(row.key, max(lease.head - _TAIL, 0))
    heard = next(filter(None, map(told_at, reversed(last))), None)
    return heard is not None and max(heard, row.updated_at) <= at


def told_at(row: Row) -> int:
    """When an entry was written. A claim is no progress, and a handoff of the run's own stands for itself."""
    header = read_header(row.header)
    facts = [("run", name) for name in ("claimed", "released", "checked")]
    is_none = (header.kind, header.name) in (*facts, ("value", "run.handoff"))
    return 0 if is_none else max(header.started_at, header.ended_at)


# -- which may be meant ------------------------------------------------------------------------------


def about(caller: Caller, scope: str, path: str, root: Path | None = None) -> list[RunRow]:
    """The runs whose steps left this file, or were to write it. `root`: only those that work there."""
    rows = tasks_of(caller.home, scope)
    return [row for row in rows if _is_about(caller, row, path, root) and (root is None or is_here(caller, root, row))]


def _is_about(caller: Caller, row: RunRow, path: str, root: Path | None) -> bool:
    from outlast.handoffs.compose import files_of_run  # who asks by a file has the runs' side loaded

    place = os.path.realpath(os.path.join(root or _folder_of(caller.home, row) or os.curdir, path))
    return any(os.path.realpath(each) == place for each in files_of_run(caller, row))


def is_here(caller: Caller, root: Path, row: RunRow) -> bool:
    """Whether a run works in this folder: in the same work tree, of the same project. Who cannot look cannot tell."""
    if not caller.looks:
        return True
    if row.worktree or same_flow.worktree_of(str(root)):
        return os.path.realpath(row.worktree or os.sep) == os.path.realpath(root)
    folders, here = _folders_of(caller.home, row), root.resolve()
    return not folders or any(each == here or each in here.parents or here in each.parents for each in folders)


def place_of(caller: Caller, handoff: Handoff, here: Path) -> Path | None:
    """Where the files of what is composed from a run are looked at: here, if it works here or in a clone of this."""
    run_id = run_of(handoff.id) or ""
    row = caller.home.store.read(lambda look: look.run_by_id(run_id))
    if row is None or (is_here(caller, here, row) and _is_within(caller.home, row, here)):
        return here
    folder, known = _folder_of(caller.home, row), git.known_by(here)
    return here if folder and not {*git.known_by(folder)}.isdisjoint(known) else None


def _is_within(home: Home, row: RunRow, here: Path) -> bool:
    """Whether no other repository, nor a folder above the project, is taken for where a run works."""
    top, folders = git.top_of(here), _folders_of(home, row)
    is_above = home.project is not None and here in home.project.resolve().parents
    return not is_above and (not folders or any(git.top_of(each) == top for each in folders))


def _folders_of(home: Home, row: RunRow) -> list[Path]:
    """Where a run may work: in the project, and where its flow lies if the home is elsewhere."""
    file = loading.path_of(row.source, home.project)
    flow = [Path(file).resolve().parent] if file else []
    return [*flow, *([home.project] if home.project is not None else [])]


def _folder_of(home: Home, row: RunRow) -> Path | None:
    if row.worktree or home.project is not None:
        return Path(row.worktree or str(home.project)).resolve()
    file = loading.path_of(row.source, None)
    return Path(file).resolve().parent if file else None


def near(caller: Caller, scope: str, path: str | None, *, before: int = 0) -> Iterator[Near]:
    """Those that may be meant by who stands somewhere, or by a file; where each works tells who has the files."""
    if before and before < _FIRST:
        return
    for row in about(caller, scope, path) if path is not None else tasks_of(caller.home, scope):
        if not before or _FIRST + row.key < before:
            yield near_of(caller, row)


def near_of(caller: Caller, row: RunRow) -> Near:
    """A run as one of what may be meant."""
    root = _folder_of(caller.home, row)
    told = (_FIRST + row.key, moment(row.updated_at), looks.record_now(caller, row).status)
    return Near(anchor_of(row.task), f"{PREFIX}{row.id}", "", str(root) if root else "", "", "", (), *told)


def after_runs(before: int) -> int:
    """The place before which anchors come, where a list of both goes on."""
    return 0 if before >= _FIRST else before


def meant(found: Iterable[Near]) -> Near | None:
    """The newest of these: the first that was stored, or the run heard of last; one that runs if there is no other."""
    runs: list[Near] = []
    stored: list[Near] = []
    for each in found:
        (runs if each.run else stored).append(each)
        if stored:
            break
    stopped = [each for each in runs if each.run != "running"]
    return max(stopped + stored or runs, key=lambda each: each.at, default=None)


# -- what is told of one -----------------------------------------------------------------------------


def command_of(executor: Executor, row: RunRow, status: str) -> str:
    """What to type to go on; or what else has to be done, where nothing can be typed. One that runs is looked at."""
    place, _, name = row.source.rpartition(":")
    if status == "running":
        return f"outlast show {row.id}"
    if place == "script":
        return f"run the script that opens {name!r} again"
    if row.parent:
        return f"outlast resume {row.parent}"  # a child goes on with its parent
    if not same_flow.is_found(executor, row):
        return f"put {place} back, then outlast resume {row.id}; or outlast resume {row.id} --flow PATH"
    return f"outlast resume {row.id}"
