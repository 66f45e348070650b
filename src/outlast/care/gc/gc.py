"""`gc`: removing finished runs by age, count and size, and everything that nobody needs any more.

An unfinished run, its family and what they need are never touched, nor is any handoff, nor the newest version of an
artifact. What is chosen is decided by the pure rules of `care/gc/runs.py`; how runs go is `runs.py`, how old
versions of artifacts, blobs and files go is `blobs.py`.

One at a time: what removes blobs of a tenant, and what must find all of them.
"""

from __future__ import annotations

import errno
import fcntl
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from outlast.care.gc import blobs
from outlast.care.gc import runs as removal
from outlast.care.gc.blobs import Mentions, SweptVersion, VersionChoice, VersionRule
from outlast.care.gc.runs import REASONS, Choice, Family, Progress, SweepRule, choose
from outlast.clock import moment
from outlast.errors import GcRunning, HomeReadOnly, IntegrityBroken, Invalid, StoreFailed
from outlast.runs.holder import holder_of
from outlast.runs.run import STATUSES
from outlast.store.contract import Kin, Reading, Weight, below, every_row
from outlast.store.contract.workspace import ArtifactCounts
from outlast.values.private import open_file
from outlast.values.text import counted

if TYPE_CHECKING:
    from outlast.home.caller import Caller
    from outlast.home.home import Home


FILE = "gc.lock"


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """No gc meanwhile in a tenant's folder: the lock goes with the process that holds it. Raises GcRunning."""
    path = folder / FILE
    try:
        handle = open_file(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        why = error.strerror or str(error)
        refused = HomeReadOnly if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM) else StoreFailed
        raise refused(str(path), why) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise GcRunning(str(folder)) from error
        yield
    finally:
        os.close(handle)


ENTRY_BYTES, RUN_BYTES = 80, 300  # what rows cost beside their content, about
_PAGE = 1000


class SweptRun(Struct, frozen=True):
    """A run that goes, and about how much room it gives back."""

    id: str
    flow: str
    task: str
    status: str
    ended_at: datetime
    size_bytes: int


class Swept(Struct, frozen=True):
    """What gc removed, or would remove."""

    dry_run: bool
    runs: tuple[SweptRun, ...]
    kept: dict[str, int]  # how many runs stay, by reason
    blobs: int  # moved to the trash
    blob_bytes: int
    trash: int  # gone from the trash
    trash_bytes: int
    restored: int  # back from the trash: somebody needs them after all
    files: int  # temporary files and work folders
    unswept: int  # removals that an earlier gc had left half done
    size_before: int  # database and blobs, with the trash
    size_after: int
    free_bytes: int  # inside the database file: new records use it; `vacuum` gives it back to the disk
    vacuumed: bool
    troubles: tuple[str, ...]  # what could not be done, and why
    proof: tuple[str, ...]  # what was left alone, for people
    artifacts: tuple[SweptVersion, ...] = ()  # old versions

    @property
    def nothing(self) -> bool:
        """Whether there was nothing to do."""
        done = (self.runs, self.artifacts, self.blobs, self.trash, self.restored, self.files, self.unswept)
        return not any(done)


class Planned(Struct, frozen=True):
    """What is to go, decided and weighed; nothing is done yet."""

    choice: Choice
    weights: dict[int, Weight]  # of the runs that go, by key
    sizes: dict[int, int]  # the same with the blobs that only they need
    freed: frozenset[str]  # those blobs
    needed: frozenset[str]  # blobs that unfinished runs and their families need, and have
    handoffs: int = 0  # anchors; none of them goes
    artifacts: int = 0  # that everybody sees
    records: int = 0  # none of these goes
    versions: VersionChoice | None = None  # old ones of these that go, if they were asked for
    mentions: Mentions | None = None

    @property
    def runs(self) -> list[Kin]:
        return [member for family in self.choice.going for member in family.members]


def sweep(
    caller: Caller,
    *,
    older_than: float | None = None,
    keep: int | None = None,
    max_bytes: int | None = None,
    scope: str | None = None,
    artifacts: bool = False,
    dry_run: bool = True,
    vacuum: bool = False,
    batch: int = 40,  # runs buried in one transaction: 10 ms or so
    progress: Progress = lambda done, total: None,
) -> Swept:
    """Remove finished runs and what nobody needs; a dry run only says what would go.

    `older_than` are seconds since a run ended; `keep` leaves the newest of each flow; `max_bytes` removes the oldest
    until the tenant's data is smaller. Several narrow each other; without any, no run goes. With `artifacts` old
    versions of artifacts that nothing needs go too, by age and count. Raises GcRunning.
    """
    rule = _rule(older_than, keep, max_bytes, scope)
    versions = _version_rule(caller.home, rule, keep) if artifacts else VersionRule()
    if batch < 1:
        raise Invalid(detail=f"batch is {batch}; give 1 or more")
    if dry_run:
        return _foreseen(caller, rule, versions)
    with alone(removal.tenant_folder(caller.home)):
        return _swept(caller, rule, versions, batch, vacuum, progress)


def _rule(older_than: float | None, keep: int | None, max_bytes: int | None, scope: str | None) -> SweepRule:
    for name, value in (("older_than", older_than), ("keep", keep), ("max_bytes", max_bytes)):
        if value is not None and not 0 <= value < math.inf:
            raise Invalid(detail=f"{name} is {value}; give 0 or more")
    return SweepRule(None if older_than is None else int(older_than * 1_000_000), keep, max_bytes, scope)


def _version_rule(home: Home, rule: SweepRule, keep: int | None) -> VersionRule:
    before = None if rule.older_than_us is None else home.clock.now() - rule.older_than_us
    return VersionRule(before, keep, rule.scope)


# -- deciding ----------------------------------------------------------------------------------------


def plan(caller: Caller, rule: SweepRule, versions: VersionRule | None = None) -> Planned:
    """Decide and weigh what goes."""
    old, mentions = blobs.plan(caller.home, versions or VersionRule())
    choice, needed = caller.home.store.read(partial(_choose, caller=caller, rule=rule))
    weighed = _Weighing(caller.home)
    choice = _fit(caller.home, choice, rule, weighed)
    there = frozenset(name for name in needed if caller.home.blobs.has(name))
    handoffs, artifacts, records = caller.home.store.read(_counted)
    seen = artifacts.artifacts - artifacts.pending
    freed = frozenset(weighed.freed)
    return Planned(choice, weighed.weights, weighed.sizes, freed, there, handoffs, seen, records, old, mentions)


def _counted(look: Reading) -> tuple[int, ArtifactCounts, int]:
    return sum(look.count_anchors().values()), look.count_artifacts(), look.count_records().records


def _choose(look: Reading, caller: Caller, rule: SweepRule) -> tuple[Choice, set[str]]:
    """Which families go, and the blobs that unfinished ones need; all seen at one moment.

    One moment matters: a parent that changes its status between two looks would be in neither, and its finished
    children would seem to be without it.
    """
    runs = [run for status in STATUSES for run in _of_status(look, status)]
    choice = choose(runs, rule, caller.home.clock.now(), _held(caller, look, runs))
    return choice, {name for run in choice.unfinished for name in look.blobs_of(run.key)}


def _of_status(look: Reading, status: str) -> Iterator[Kin]:
    return every_row(lambda before: look.kin_of_status(status, _PAGE, before), lambda run: below(run.key))


def _held(caller: Caller, look: Reading, runs: Sequence[Kin]) -> frozenset[str]:
    maybe = [(run.id, look.lease_of(run.id)) for run in runs if run.holder is not None]
    return frozenset(run_id for run_id, lease in maybe if lease and holder_of(caller, look, run_id, lease))


class _Weighing:
    """What families take up, one after the other: a blob counts where its last reference goes."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self.weights: dict[int, Weight] = {}
        self.sizes: dict[int, int] = {}
        self.freed: set[str] = set()

    def add(self, family: Family) -> int:
        return sum(self._home.store.read(partial(self._add, run=run)) for run in family.members)

    def _add(self, look: Reading, run: Kin) -> int:
        weight = self.weights[run.key] = look.weight_of(run.key)
        ours = (name for name in look.blobs_of(run.key) if look.chains_of_blob(name) <= self.weights.keys())
        freed = {name for name in ours if not look.artifacts_of_blob(name)}  # that only runs that go need
        self.freed |= freed
        size = weight.entry_bytes + weight.row_bytes + weight.entries * ENTRY_BYTES + RUN_BYTES
        self.sizes[run.key] = size + sum(self._home.blobs.size_of(name) for name in freed)
        return self.sizes[run.key]


def _fit(home: Home, choice: Choice, rule: SweepRule, weighed: _Weighing) -> Choice:
    """Weigh what goes; with a size, only the oldest until the rest fits."""
    size = _data_bytes(home) if rule.max_bytes is not None else 0
    going, kept = [], choice.kept.copy()
    for family in choice.going:
        if rule.max_bytes is not None and size <= rule.max_bytes:
            kept["fits"] += len(family.members)
            continue
        size -= weighed.add(family)
        going.append(family)
    return replace(choice, going=tuple(going), kept=kept)


def _data_bytes(home: Home) -> int:
    """The tenant's records and blobs, without free pages and without what nobody refers to."""
    room, found = home.store.room(), blobs.find_unneeded(home)
    return room.size_bytes - room.free_bytes + found.blob_bytes - sum(blob.size_bytes for blob in found.blobs)


# -- doing -------------------------------------------------------------------------------------------


def _foreseen(caller: Caller, rule: SweepRule, versions: VersionRule) -> Swept:
    planned = plan(caller, rule, versions)
    found = blobs.find_unneeded(caller.home, planned.freed)
    size = _disk_bytes(caller.home.store.room().size_bytes, found)
    old = tuple(blob for blob in found.trash if blob.old)
    cleared = blobs.Cleared(found.blobs, old, files=len(found.half_written) + len(found.folders))
    left = caller.home.store.read(lambda look: len(look.unswept()))
    return _report(caller.home, planned, cleared, size, size, dry_run=True, unswept=left)


def _swept(
    caller: Caller, rule: SweepRule, versions: VersionRule, batch: int, vacuum: bool, progress: Progress
) -> Swept:
    database = caller.home.store.room().size_bytes
    left = caller.home.store.read(lambda look: look.unswept())
    troubles = removal.finish(caller.home, left) if left else []
    blobs.drop_abandoned(caller.home)
    planned = plan(caller, rule, versions)
    assert planned.versions is not None
    assert planned.mentions is not None
    removed, still = blobs.remove(caller, planned.versions, planned.mentions)
    gone, more = removal.remove_runs(caller, planned.runs, planned.weights, batch, progress)
    found = blobs.find_unneeded(caller.home)
    cleared = blobs.clear(caller.home, found)
    troubles += [*still, *more, *cleared.troubles]
    stayed = [run.id for run in planned.runs if run.id not in gone]
    if stayed:
        troubles.append(f"{len(stayed)} runs changed meanwhile and stay: {', '.join(stayed[:5])}")
    for name in planned.needed:
        if not caller.home.blobs.has(name):
            raise IntegrityBroken(f"blob {name[:12]}", "an unfinished run needs it, and it is gone after this gc")
    refusal = _vacuum(caller.home) if vacuum else ""
    after = _disk_bytes(caller.home.store.room().size_bytes, found) - sum(blob.size_bytes for blob in cleared.trash)
    size = _disk_bytes(database, found)
    report = _report(caller.home, planned, cleared, size, after, dry_run=False, unswept=len(left))
    runs = tuple(run for run in report.runs if run.id in gone)
    vacuumed = vacuum and not refusal
    report = replace(report, artifacts=tuple(removed))
    return replace(report, runs=runs, vacuumed=vacuumed, troubles=tuple(filter(None, [*troubles, refusal])))


def _vacuum(home: Home) -> str:
    """Give free pages back to the disk, unless somebody is at work; then, why not."""
    holders = home.store.read(lambda look: look.holders())
    if home.held.executing or any(blobs.is_at_work(home, beat) for beat in holders):
        return "the database was not vacuumed: runs are being executed now; try again when none is"
    home.store.vacuum()
    return ""


def _disk_bytes(database: int, found: blobs.Unneeded) -> int:
    """What a database of this size takes with the blobs that were found, which a bucket is asked for once."""
    return database + found.blob_bytes + sum(blob.size_bytes for blob in found.trash)


def _report(
    home: Home, planned: Planned, cleared: blobs.Cleared, before: int, after: int, *, dry_run: bool, unswept: int
) -> Swept:
    runs = (SweptRun(run.id, run.flow, run.task, run.status, moment(run.ended_at), planned.sizes[run.key])
            for run in planned.runs)  # fmt: skip
    return Swept(
        dry_run=dry_run,
        runs=tuple(runs),
        kept={reason: planned.choice.kept[reason] for reason in REASONS if planned.choice.kept[reason]},
        blobs=len(cleared.blobs),
        blob_bytes=sum(blob.size_bytes for blob in cleared.blobs),
        trash=len(cleared.trash),
        trash_bytes=sum(blob.size_bytes for blob in cleared.trash),
        restored=cleared.restored,
        files=cleared.files,
        unswept=unswept,
        size_before=before,
        size_after=after,
        free_bytes=home.store.room().free_bytes,
        vacuumed=False,
        troubles=cleared.troubles,
        proof=tuple(_proof(planned)),
        artifacts=tuple(map(blobs.swept, planned.versions.going)) if planned.versions else (),
    )


def _proof(planned: Planned) -> Iterator[str]:
    """What is left alone, and why."""
    kept = planned.choice.kept
    if kept["unfinished"]:
        needed = counted(len(planned.needed), "blob")
        yield f"{counted(kept['unfinished'], 'unfinished run')} and {needed} that they need: untouched"
    for reason, words in REASONS.items():
        if reason != "unfinished" and kept[reason]:
            yield f"{counted(kept[reason], 'run')} {words}: kept"
    if planned.handoffs:
        yield f"{counted(planned.handoffs, 'handoff')}, with their history and all blobs that it needs: untouched"
    if planned.records:
        yield f"{counted(planned.records, 'record')}, pinned or not, and what they name: untouched"
    going = len(planned.versions.going) if planned.versions else 0
    if planned.artifacts > going:
        yield f"{counted(planned.artifacts - going, 'artifact')}, whoever saved them, with their content: untouched"
    if planned.versions:
        yield from blobs.proof(planned.versions)
