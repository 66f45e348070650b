"""Putting files of finished steps back from what was kept of them.

What is missing is put back; a file that is there and was changed only if somebody names it, and then what gives way is
kept and on the record of the run before it is touched. Where nothing can be recorded (the run is over, or its process
died and nobody has taken it up) nothing gives way.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from outlast.errors import NotRestorable, OutputNotFound, OutputNotKept
from outlast.files.changes import SeenFile
from outlast.files.partial import put_back
from outlast.flows.loading import lasting
from outlast.home.caller import Caller
from outlast.home.home import Home, run_row
from outlast.ledger.journal import JournalEntry, decode_header
from outlast.runs import claim as claims
from outlast.runs import holder as holders
from outlast.runs.found import FoundRun, find_run
from outlast.runs.outputs.files import Output, RecordedOutput, flow_file_of, look, recorded
from outlast.runs.run import FINISHED
from outlast.runs.waits.stored import append_notes
from outlast.store.contract import Reading, RunRow, Writing
from outlast.values.codec import text

_NAMED = 20  # that many files are spelled out in an error


class RestoredOutputs(Struct, frozen=True):
    """What was put back, and what was not since nobody kept it."""

    run_id: str
    restored: tuple[Output, ...]
    not_kept: tuple[Output, ...]
    displaced: tuple[str, ...] = ()  # paths whose content gave way: `displaced` has it


def restore_outputs(caller: Caller, run_id: str, step: str | None, paths: Collection[str]) -> RestoredOutputs:
    """Put back what finished steps left and is missing; of what was changed only `paths`.

    Raises OutputNotFound for a path or step that left none, OutputNotKept when nothing of it is kept, NotRestorable
    when something is in the way, RunHeld while somebody executes the run.
    """
    row = run_row(caller.home, run_id)
    holders.refuse_sealed(row)
    caller.home.store.read(lambda reading: _refuse_held(caller, reading, row.id))
    found = find_run(caller.home, row.id)
    if found.unaccepted is not None:
        raise found.unaccepted.as_error()
    wanted = _wanted(caller.home, row.id, look(caller, found), step, paths)
    kept, lost = [one for one in wanted if one.kept], [one for one in wanted if not one.kept]
    if lost and (paths or not kept):
        raise OutputNotKept(row.id, lost[0].step, _listed(f"{one.path} ({one.why})" for one in lost))
    chosen = {one.path for one in kept}
    by_root: dict[Path, list[RecordedOutput]] = {}
    for one in recorded(caller, found):
        if one.shown in chosen:
            by_root.setdefault(one.root, []).append(one)
    _refuse_outside(caller.home, found, by_root)
    displaced = [path for root, files in by_root.items() for path in _put_back(caller, found, root, files)]
    return RestoredOutputs(row.id, tuple(kept), tuple(lost), tuple(displaced))


def _refuse_held(caller: Caller, reading: Reading, run_id: str) -> None:
    lease = reading.lease_of(run_id)
    assert lease is not None
    holders.refuse_held(caller, reading, run_id, lease)


def _wanted(home: Home, run_id: str, known: Sequence[Output], step: str | None, paths: Collection[str]) -> list[Output]:
    files = [one for one in known if step in (None, one.step)]
    if step is not None and not files:
        raise OutputNotFound(run_id, f"of step {step}", _listed(dict.fromkeys(one.step for one in known)) or "none")
    if paths:
        here, named = {one.path for one in files}, {lasting(path, home.project) for path in paths}
        for path in sorted(named - here):
            raise OutputNotFound(run_id, repr(path), _listed(sorted(here)) or "none")
        return [one for one in files if one.path in named and one.found != "same"]
    return [one for one in files if one.found == "missing"]


def _listed(names: Iterable[str]) -> str:
    found = list(names)
    more = f" and {len(found) - _NAMED:,} more" if len(found) > _NAMED else ""
    return ", ".join(found[:_NAMED]) + more


def _refuse_outside(home: Home, found: FoundRun, roots: Iterable[Path]) -> None:
    """Raises NotRestorable for a folder that only the record of another place names: it writes nowhere here."""
    if not any(row.header.startswith(b'["run",') and decode_header(row.header).name == "moved" for row in found.rows):
        return
    for root in roots:
        if home.project is None or not root.resolve().is_relative_to(home.project.resolve()):
            raise NotRestorable(f"{str(root)!r} (the run came from elsewhere, and it is not inside of this project)")


def _put_back(caller: Caller, found: FoundRun, root: Path, files: Sequence[RecordedOutput]) -> list[str]:
    """Put files below one folder back; gives the paths of those that gave way."""
    wanted: dict[str, SeenFile] = {one.path: replace(one.seen, kept=one.seen.digest) for one in files}
    names = {one.path: one for one in files}
    gave_way: list[str] = []

    def record(saved: Mapping[str, str]) -> None:
        if saved:
            _note(caller, found.run.id, {names[path]: blob for path, blob in saved.items()})
            gave_way.extend(names[path].shown for path in saved)

    put_back(root, wanted, caller.home.blobs, secrets=_secrets(caller, found), record=record)
    return gave_way


def _secrets(caller: Caller, found: FoundRun) -> list[str]:
    """What the flow file names as secrets, as far as it is known here: files with them are never kept."""
    spec = flow_file_of(caller, found.run)
    names = spec.definition.secrets if spec is not None else ()
    return [value for name in names if (value := os.environ.get(name))]


def _note(caller: Caller, run_id: str, saved: Mapping[RecordedOutput, str]) -> None:
    """What gives way is on the record before any file is touched, in an entry for each step."""

    def work(tx: Writing) -> None:
        run, lease = tx.run_by_id(run_id), tx.lease_of(run_id)
        assert run is not None
        assert lease is not None
        if run.status in (*FINISHED, "running"):
            why = "something else is there, and the run cannot keep it as it stands; move it away first"
            raise NotRestorable(_listed(f"{one.shown!r} ({why})" for one in saved))
        holders.refuse_held(caller, tx, run_id, lease)
        steps = dict.fromkeys(one.step for one in saved)
        append_notes(tx, run, lease, [_entry(caller, run, lease.epoch, step, saved) for step in steps])

    caller.home.store.write(work)


def _entry(caller: Caller, run: RunRow, epoch: int, step: str, saved: Mapping[RecordedOutput, str]) -> JournalEntry:
    files = {text(one.path): blob for one, blob in saved.items() if one.step == step}
    facts = {"step": step, "files": files, "by": caller.actor}
    made = claims.run_fact("displaced", facts, epoch=epoch, at=caller.home.clock.now(), trace_id=run.trace_id)
    return made._replace(blobs=tuple(files.values()))
