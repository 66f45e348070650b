"""Unfinished runs that nobody handed over: found without knowing the name of their task.

Each task counts once, by its run that was heard of last. Left out are children, which go on with their parents, what
moved away, and what was part of a task that was completed since. What is told of one is `compose.py`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from outlast.clock import moment
from outlast.files import git
from outlast.handoffs.handoff import Near, anchor_of
from outlast.handoffs.task_state import completion
from outlast.ledger.journal import Row, read_header
from outlast.store.contract import Reading, RunRow
from outlast.values.late import late

if TYPE_CHECKING:
    from outlast.flows import loading
    from outlast.handoffs.handoff import Handoff
    from outlast.home.caller import Caller
    from outlast.home.home import Home
    from outlast.runs import look as looks
    from outlast.runs import same_flow
    from outlast.runs.live import Executor
else:  # most who look find no run
    loading, looks, same_flow = map(late, ("outlast.flows.loading", "outlast.runs.look", "outlast.runs.same_flow"))

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
    for row in rows:
        if row.parent not in ids and not _is_over(look, row) and _is_later(row, newest.get(row.task)):
            newest[row.task] = row
    return sorted(newest.values(), key=lambda row: -row.key)


def _is_later(row: RunRow, known: RunRow | None) -> bool:
    return known is None or (row.updated_at, row.key) > (known.updated_at, known.key)


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


_TAIL = 8  # entries: the last one that tells something is nearly always among them


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
    """The folder that a run works in, if that is known."""
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
