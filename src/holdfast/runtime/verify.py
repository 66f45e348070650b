"""Checking a whole store offline: every chain, every payload, every blob that a run refers to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from holdfast.domain.digest import digest
from holdfast.domain.journal import decode_payload
from holdfast.domain.run import FINISHED
from holdfast.errors import HoldfastError
from holdfast.runtime.recovery import Found, find
from holdfast.store.contract import Reading, RunRow

if TYPE_CHECKING:
    from holdfast.runtime import Runtime


@dataclass(frozen=True, slots=True)
class Problem:
    """A record that is not what was stored."""

    run_id: str
    record: str
    why: str


@dataclass(frozen=True, slots=True)
class Verification:
    """What a check of the store found."""

    runs: int
    entries: int
    blobs: int
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        return not self.problems


def verify(runtime: Runtime, run_id: str | None = None) -> Verification:
    """Check one run, or the whole store. Nothing is changed."""
    problems = [Problem("", "the database file", line) for line in runtime.store.check()] if run_id is None else []
    runs = entries = blobs = 0
    if run_id is None:
        problems += runtime.store.read(_without_run)
    for row in runtime.rows() if run_id is None else [runtime.row(run_id)]:
        looked = runtime.store.read(partial(_look, row=row))
        if looked is None:  # removed since it was listed
            continue
        found, names = looked
        runs, entries, blobs = runs + 1, entries + len(found.rows) if found else entries, blobs + len(names)
        problems += _problems(runtime, row, found, names)
    return Verification(runs, entries, blobs, tuple(problems))


def _without_run(look: Reading) -> list[Problem]:
    """What is left of runs whose own rows are gone, but for those that are being removed: gc goes on with them."""
    going = {key for key, _ in look.unswept()}
    leases = [Problem(run_id, f"run {run_id}", "its row is missing") for run_id in look.leases_without_run()]
    keys = [key for key in look.journals_without_run() if key not in going]
    return leases + [Problem("", f"journal of run number {key}", "the run's row is missing") for key in keys]


def _look(look: Reading, row: RunRow) -> tuple[Found | None, set[str]] | None:
    """A run with its journal, and the blobs that it needs by its entries' own words or by the index of them."""
    if look.run_by_id(row.id) is None:
        return None
    lease = look.lease_of(row.id)
    found = find(look, row._replace(mark=0), lease) if lease else None  # all of it: a mark spares only a resume
    named = {_blob(entry.payload) for entry in found.rows} if found and not found.broken else set()
    return found, (named | set(look.blobs_of(row.key))) - {""}


def _blob(payload: bytes | None) -> str:
    return decode_payload(payload).blob if payload and b'"blob":"' in payload else ""


def _problems(runtime: Runtime, row: RunRow, found: Found | None, names: set[str]) -> Iterator[Problem]:
    if found is None:
        yield Problem(row.id, f"run {row.id}", "its lease row is missing")
        return
    if found.broken:
        yield Problem(row.id, found.broken.record, found.broken.why)
    elif row.status in FINISHED and found.ledger.endings[-1][0] != row.status:
        yield Problem(row.id, f"run {row.id}", f"its journal ends {found.ledger.endings[-1][0]}, not {row.status}")
    elif row.status == "succeeded" and _recorded_result(found) != digest((row.result or "").encode()):
        yield Problem(row.id, f"run {row.id}", "its result was changed")
    for name in sorted(names):
        try:
            runtime.blobs.get(name)
        except HoldfastError as error:
            yield Problem(row.id, f"blob {name[:12]}", str(error.facts.get("why", error)))


def _recorded_result(found: Found) -> str:
    """The digest of the result that the run's last entry proves."""
    payload = found.rows[-1].payload
    facts = decode_payload(payload).facts if payload else None
    return str(facts.get("result", "")) if isinstance(facts, dict) else ""
