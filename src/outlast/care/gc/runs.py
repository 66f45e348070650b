"""Which runs may be removed, by pure rules over families; and removing them in short transactions.

A run and all the runs it spawned are a family, which goes as a whole or stays as a whole. A family with an
unfinished run in it stays, whatever the rules say. Several rules narrow each other: a family goes only if every
one of them lets it go. A crash between any two of these leaves a sound store:

1. *Bury.* One transaction puts a tombstone in the place of each run: its row, lease and waits are gone, its id
   answers `run_removed`, and its key is never given to another run. Killed after it: the journal is left, named by a
   tombstone that says so; `verify` knows, and the next gc goes on at 2.
2. *Folders.* The mirror and the work files of the run go. Killed half-way: the next gc removes the rest.
3. *Slices.* The journal and its references to blobs go, a few thousand rows at a time. Killed between two: as after 1,
   with fewer rows. The last slice marks the tombstone as swept in the same transaction: there is nothing left.

A run whose waits do not fit in one transaction loses them before 1: nothing reads the waits of a finished run.
"""

from __future__ import annotations

import math
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from outlast import failpoints
from outlast.home import act
from outlast.runs.holder import holder_of
from outlast.runs.run import FINISHED
from outlast.store.contract import KeptOutcome, Kin, Reading, Slice, Weight, Writing
from outlast.store.contract.runs import damage_of
from outlast.values.codec import decode, digest

if TYPE_CHECKING:
    from outlast.home.caller import Caller
    from outlast.home.home import Home

T = TypeVar("T")
SLICE_ROWS = 2000  # of one transaction; with the bytes, this keeps it well under 50 ms
SLICE_BYTES = 4 << 20
NAMED = 10  # runs that the record of a removal names

Progress = Callable[[int, int], None]  # runs removed so far, and in all


def remove_runs(
    caller: Caller, runs: Sequence[Kin], weights: Mapping[int, Weight], batch: int, progress: Progress
) -> tuple[set[str], list[str]]:
    """Remove runs in this order. Gives the ids that went, and what could not be removed of their folders."""
    going, gone, troubles = {run.id for run in runs}, set[str](), list[str]()
    weighed = ((run, weights[run.key].waits, weights[run.key].row_bytes) for run in runs)
    for some in _portions(weighed, batch):
        for run in some:
            _trim_waits(caller, run, weights[run.key].waits)
        buried = caller.home.store.write(partial(_bury, caller=caller, runs=some, going=going))
        gone |= {run_id for _, run_id in buried}
        troubles += finish(caller.home, buried)
        progress(len(gone), len(runs))
    return gone, troubles


def _portions(weighed: Iterable[tuple[T, int, int]], most: float = math.inf) -> Iterator[list[T]]:
    """What goes in one transaction: at most so many, and no more rows and bytes than one may have."""
    some: list[T] = []
    rows = size = 0
    for each, more_rows, more_bytes in weighed:
        if some and (len(some) >= most or rows + more_rows > SLICE_ROWS or size + more_bytes > SLICE_BYTES):
            yield some
            some, rows, size = [], 0, 0
        some.append(each)
        rows, size = rows + more_rows, size + more_bytes
    if some:
        yield some


def _trim_waits(caller: Caller, run: Kin, waits: int) -> None:
    for _ in range(waits // SLICE_ROWS):
        caller.home.store.write(lambda tx: tx.remove_waits(run.key, SLICE_ROWS) if _may_go(caller, tx, run) else None)


def _bury(tx: Writing, caller: Caller, runs: Sequence[Kin], going: set[str]) -> list[tuple[int, str]]:
    """Put tombstones in the places of runs that may still go, now that nobody can write but us."""
    buried = []
    for run in runs:
        if _may_go(caller, tx, run) and _family(tx, run) <= going:
            tx.bury(run.key, run.id, caller.home.clock.now(), caller.actor, _kept(tx, run))
            buried.append((run.key, run.id))
    _note(tx, caller, [run for run in runs if (run.key, run.id) in buried])
    return buried


def _note(tx: Writing, caller: Caller, runs: Sequence[Kin]) -> None:
    """Record who removed them: one by its id, several by how many they are."""
    for scope in dict.fromkeys(run.scope for run in runs):
        ids = [run.id for run in runs if run.scope == scope]
        told = {"runs": ids if len(ids) <= NAMED else len(ids)}
        act.note(caller, tx, "run", ids[0] if len(ids) == 1 else "", "removed", told, scope=scope)


def _kept(look: Reading, run: Kin) -> KeptOutcome:
    """What makes a named task happen once when its run is gone. A copy says nothing about what happened here."""
    row = look.run_by_id(run.id)
    assert row is not None
    declined = row.status == "aborted" and decode(row.error or "{}").get("type") == "declined"
    lived_here = row.named if row.seal not in COPIES else 0
    return KeptOutcome(lived_here, digest((row.result or "").encode()), '{"type":"declined"}' if declined else None)


def _family(look: Reading, run: Kin) -> set[str]:
    """The run's parent and children that are in the store."""
    parent = look.run_by_id(run.parent) if run.parent else None
    return {child.id for child in look.children_of(run.id)} | ({parent.id} if parent else set())


def _may_go(caller: Caller, look: Reading, run: Kin) -> bool:
    row, lease = look.run_by_id(run.id), look.lease_of(run.id)
    if row is None or lease is None or row.key != run.key:
        return False
    if look.unproven_row("runs", row.key) or look.unproven_row("chains", lease.key):  # it may not be over at all
        return False
    return (row.status in FINISHED or row.seal in COPIES) and not holder_of(caller, look, run.id, lease)


def finish(home: Home, buried: Sequence[tuple[int, str]]) -> list[str]:
    """Remove everything that is left of buried runs; what could not be removed, in words."""
    troubles = [remove_folder(folder) for _, run_id in buried for folder in folders_of(home, run_id)]
    failpoints.reached("sweep.folders")
    for pieces in _portions(_slices(home, [key for key, _ in buried])):  # small ones of several runs share one
        home.store.write(partial(_remove_slices, pieces=pieces))
    return [trouble for trouble in troubles if trouble]


def _remove_slices(tx: Writing, pieces: Sequence[Slice]) -> None:
    for piece in pieces:
        tx.remove_slice(piece)


def _slices(home: Home, keys: Iterable[int]) -> Iterator[tuple[Slice, int, int]]:
    """The journals of runs, cut into slices, each with its rows and bytes."""
    for key in keys:
        after, whole = 0, False
        while not whole:
            sizes = home.store.read(partial(_entry_sizes, key=key, after=after))
            rows, size = _fitting([size for _, size in sizes])
            whole = rows == len(sizes) < SLICE_ROWS
            upto = sizes[rows - 1][0] if rows else after
            yield Slice(key, after, upto, whole), rows, size
            after = upto


def _entry_sizes(look: Reading, key: int, after: int) -> list[tuple[int, int]]:
    return look.entry_sizes(key, after, SLICE_ROWS)


def _fitting(sizes: Sequence[int]) -> tuple[int, int]:
    """How many entries fit in one transaction, and their bytes; one at least."""
    total = 0
    for rows, size in enumerate(sizes):
        if rows and total + size > SLICE_BYTES:
            return rows, total
        total += size
    return len(sizes), total


# -- folders -----------------------------------------------------------------------------------------


def folders_of(home: Home, run_id: str) -> list[Path]:
    """What a run has on disk besides the database: its mirror for people, and its work files."""
    if run_id != Path(run_id).name or run_id in ("", ".", ".."):  # an id from elsewhere must not lead out of here
        return []
    mirror = home.path if home.tenant == "default" else tenant_folder(home)
    return [mirror / "runs" / run_id, tenant_folder(home) / "work" / run_id]


def tenant_folder(home: Home) -> Path:
    return home.path / home.tenant


def remove_folder(path: Path) -> str:
    """Remove a folder, or a file or link in its place but not what it leads to; why not, in words, if it cannot be."""
    try:
        if path.is_symlink() or path.is_file():
            path.unlink()
        else:
            with suppress(FileNotFoundError):
                shutil.rmtree(path)
    except OSError as error:
        return f"{path} could not be removed: {error.strerror or error}"
    return ""


# -- the rules ---------------------------------------------------------------------------------------

COPIES = ("copy", "testimony")  # nobody may continue these here, whatever their status says

# Why a run stays, in the order in which a report tells it.
REASONS = {
    "unfinished": "unfinished",
    "family": "in the family of an unfinished run",
    "held": "held by a worker, or in the family of one that is",
    "damaged": "damaged: see `outlast verify`",
    "scope": "in other scopes",
    "newest": "among the newest of their flow",
    "young": "not old enough",
    "fits": "within the size",
    "no_rule": "finished, and no rule was given",
}


class SweepRule(Struct, frozen=True):
    """What is asked for; None asks for nothing."""

    older_than_us: int | None = None
    keep: int | None = None
    max_bytes: int | None = None
    scope: str | None = None

    @property
    def given(self) -> bool:
        return not (self.older_than_us is None and self.keep is None and self.max_bytes is None)


class Family(Struct, frozen=True):
    """A run without a parent here, and everything below it; the root last."""

    members: tuple[Kin, ...]

    @property
    def root(self) -> Kin:
        return self.members[-1]

    @property
    def ended_at(self) -> int:
        return max(member.ended_at for member in self.members)


class Choice(Struct, frozen=True):
    """Families that go, the oldest first; how many runs stay, by reason; and those of families that are unfinished."""

    going: tuple[Family, ...]
    kept: Counter[str]
    unfinished: tuple[Kin, ...] = ()


def is_over(run: Kin) -> bool:
    """Whether nobody may ever continue it here."""
    return run.status in FINISHED or run.seal in COPIES


def families(runs: Iterable[Kin]) -> list[Family]:
    """Runs grouped with their parents and children. A parent that is not here any more has no say."""
    by_id = {run.id: run for run in runs}
    top = _tops(by_id)
    grouped: dict[str, list[Kin]] = {}
    for run in by_id.values():
        grouped.setdefault(top[run.id], []).append(run)
    for members in grouped.values():
        # the root last, the newest first: what is removed half-way leaves a root that the rules still speak about
        members.sort(key=lambda run: (run.parent not in by_id, -run.key))
    return [Family(tuple(members)) for members in grouped.values()]


def _tops(by_id: dict[str, Kin]) -> dict[str, str]:
    """The topmost ancestor of each run; of a circle, which only a damaged store has, any one of it."""
    top: dict[str, str] = {}
    for run_id in by_id:
        path: dict[str, None] = {}
        at = run_id
        while at not in top and at not in path and by_id[at].parent in by_id:
            path[at] = None
            at = by_id[at].parent
        found = top.get(at, at)
        top.update(dict.fromkeys((*path, at), found))
    return top


def choose(runs: Iterable[Kin], rule: SweepRule, now: int, held: frozenset[str] = frozenset()) -> Choice:
    """Which families go by age and count. `held` are ids of runs that a live worker holds."""
    kept: Counter[str] = Counter()
    free: list[Family] = []
    needed: list[Kin] = []
    for family in families(runs):
        reason = _standing(family, rule, held)
        if reason == "family":
            needed += family.members
            unfinished = sum(not is_over(member) for member in family.members)
            kept += Counter({"unfinished": unfinished, "family": len(family.members) - unfinished})
        elif reason:
            kept[reason] += len(family.members)
        else:
            free.append(family)
    going = []
    for family, reason in _by_rules(free, rule, now):
        if reason:
            kept[reason] += len(family.members)
        else:
            going.append(family)
    going.sort(key=lambda family: (family.ended_at, family.root.key))
    return Choice(tuple(going), kept, tuple(needed))


def _standing(family: Family, rule: SweepRule, held: frozenset[str]) -> str:
    """Why a family stays whatever the rules; empty when they decide."""
    if not all(is_over(member) for member in family.members):
        return "family"
    if any(member.id in held for member in family.members):
        return "held"
    if any(member.head is None or damage_of(member) for member in family.members):
        return "damaged"
    if rule.scope is not None and any(member.scope != rule.scope for member in family.members):
        return "scope"
    return "" if rule.given else "no_rule"


def _by_rules(free: list[Family], rule: SweepRule, now: int) -> Iterable[tuple[Family, str]]:
    """Each family with why it stays; count is by scope and flow, the newest first."""
    cutoff = now - (rule.older_than_us or 0)
    free = sorted(free, key=lambda family: (*_flow_of(family), -family.ended_at, -family.root.key))
    for _, of_flow in groupby(free, key=_flow_of):
        for place, family in enumerate(of_flow):
            if rule.keep is not None and place < rule.keep:
                yield family, "newest"
            elif rule.older_than_us is not None and family.ended_at > cutoff:
                yield family, "young"
            else:
                yield family, ""


def _flow_of(family: Family) -> tuple[str, str]:
    """Its scope and flow. Of files with the same name nobody knows that they are one flow: each place has its own."""
    root = family.root
    return root.scope, root.flow if root.identity.startswith("file:") else root.identity or root.flow
