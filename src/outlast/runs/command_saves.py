"""What a step's command saves by `outlast workspace save`, from a process of its own: it belongs to the attempt.

The command is told where it stands (`OUTLAST_SAVES`). The save adds the row at once, so that its ref is known, hidden
under the run's epoch, and notes it in a file of the attempt. When the command is over the attempt takes these rows as
its own: its receipt shows them to everybody, or drops them. What nobody took is dropped as saves.py says.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from outlast.errors import Invalid, LeaseLost, Refused
from outlast.runs.artifact_saves import about
from outlast.runs.saves import keep
from outlast.store.contract import RunRow, Writing
from outlast.store.contract.records import Kept
from outlast.values.private import open_file
from outlast.workspace import artifacts
from outlast.workspace.artifact import Artifact, Source
from outlast.workspace.artifacts import Added, Draft
from outlast.workspace.content import Given

if TYPE_CHECKING:
    from outlast.home.home import Runtime
    from outlast.runs.attempt import Attempt
    from outlast.runs.execution import Execution
    from outlast.store.contract.artifacts import ArtifactRow

SAVES = "OUTLAST_SAVES"
FILE = "saves"


class Standing(msgspec.Struct, frozen=True):
    """Where a command stands: of which home, in which attempt of which step of which run."""

    home: str
    file: str
    run: str
    step: str
    attempt: int
    epoch: int


class Saved(msgspec.Struct, frozen=True):
    """One save, as it is noted."""

    key: int
    is_new: bool


def standing_of(execution: Execution, attempt: Attempt, folder: Path) -> str:
    """What a command is told."""
    call, home = attempt.asked.call, str(execution.runtime.folder)
    step, epoch = f"{call.scope}{call.step}", execution.hold.epoch
    made = Standing(home, str(folder / FILE), execution.id, step, attempt.number, epoch)
    return msgspec.json.encode(made).decode()


def save_from_command(runtime: Runtime, told: str, given: Callable[[RunRow], Draft], content: Given) -> Artifact | None:
    """The artifact that a step's command saved; None when it is of another home, and so no part of that step.

    Raises Refused when its attempt is over, LeaseLost when its run was taken by somebody else.
    """
    try:
        place = msgspec.json.decode(told, type=Standing)
    except msgspec.DecodeError as error:
        raise Invalid(detail=f"{SAVES} is not what a step tells its command: {error}") from error
    if place.home != str(runtime.folder):
        return None
    draft = given(runtime.row(place.run))
    _refuse_over(place, draft.name)
    source = Source(draft.source.actor, place.run, place.step, place.attempt, draft.source.origin)
    draft = draft._replace(source=source)
    taken = artifacts.stage(runtime, draft, content)
    own = [saved.key for saved in _noted(Path(place.file))]

    def work(tx: Writing) -> Added:
        lease = tx.lease_of(place.run)
        if lease is None or lease.epoch != place.epoch:
            raise LeaseLost(place.run, place.epoch)
        return artifacts.add(runtime, tx, draft, taken, place.epoch, own=own)

    added = runtime.store.write(work)
    _note(place, draft.name, Saved(added.row.key, added.is_new))
    return artifacts.artifact_of(runtime, added.row, replayed=not added.is_new)


def _refuse_over(place: Standing, name: str) -> None:
    if not os.path.isdir(os.path.dirname(place.file)):
        raise Refused(detail=f"an attempt that is over cannot save {name!r}")


def _note(place: Standing, name: str, saved: Saved) -> None:
    try:
        file = open_file(Path(place.file), os.O_WRONLY | os.O_APPEND)
    except FileNotFoundError:
        _refuse_over(place, name)
        raise
    try:
        os.write(file, msgspec.json.encode(saved) + b"\n")
    finally:
        os.close(file)


def _noted(file: Path) -> Iterator[Saved]:
    try:
        lines = file.read_bytes().splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        yield msgspec.json.decode(line, type=Saved)


def take(execution: Execution, attempt: Attempt, folder: Path) -> None:
    """Let what the command of an attempt saved be the attempt's, whose receipt decides about it."""
    for saved in _noted(folder / FILE):
        row = execution.runtime.store.read(methodcaller("artifact_by_key", saved.key))
        if row is not None and (not saved.is_new or _is_of(row, execution)):
            fresh = Kept(artifacts=(row.key,)) if saved.is_new else Kept()
            keep(execution, attempt, fresh, repr(row.name), refs=(artifacts.ref_of(row),))
            attempt.saved = (*attempt.saved, about(row))


def _is_of(row: ArtifactRow, execution: Execution) -> bool:
    return (row.run_id, row.pending) == (execution.id, execution.hold.epoch)
