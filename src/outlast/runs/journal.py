"""Reading the journal of a run: every entry that can be read, and what is wrong with the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.ledger.damage import LOST, PAYLOAD, UNDAMAGED, Flaws, breaks_of, examine, legible
from outlast.ledger.journal import CALLS, Break, Row, check, decode_header, genesis
from outlast.runs.call import Call, labels
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.store.contract import FinishedRow, LeaseRow, Reading, RunRow


class Journal(NamedTuple):
    """The entries of a run in order. Of a damaged one only what is safe to read is there, and what is wrong with it."""

    rows: list[Row]
    flaws: Flaws = UNDAMAGED
    breaks: tuple[Break, ...] = ()  # each damaged record by its name


def read(look: Reading, run: RunRow | FinishedRow, lease: LeaseRow | None = None) -> Journal:
    """All of a run's journal. One damaged entry does not hide the others."""
    rows, lease = look.journal_of(run.key), lease or look.lease_of(run.id)
    if lease is None:
        return Journal(rows)
    start = genesis(run.id, run.flow, run.task, run.inputs_digest)
    if check(run.id, start, rows, lease.head, lease.hash) is None:
        return Journal(rows)
    flaws = examine(start, rows, lease.head, lease.hash)
    readable = legible(rows, flaws)
    return Journal(readable, flaws, tuple(_named(run.id, readable, flaws)))


def _named(run_id: str, rows: list[Row], flaws: Flaws) -> list[Break]:
    """The damaged records, with the step that each is of, as far as that is known."""
    known, names = {row.seq: row for row in rows}, labels(rows)
    told = []
    for seq, broken in breaks_of(run_id, flaws):
        of = _about(known[seq], names)
        says = of if flaws[seq].kind == PAYLOAD else f"it says that it is {of}"
        told.append(broken._replace(why=f"{broken.why} ({says})") if of else broken)
    return told


def _about(row: Row, names: dict[Call, str]) -> str:
    """What an entry is about, in words; empty when nobody knows."""
    header = decode_header(row.header)
    if header.kind in CALLS:
        label = names[Call(header.scope, header.name, header.inputs, header.occurrence)]
        word = "the start" if header.status == "started" else "the receipt"
        return f"{word} of {header.kind} {label}, attempt {header.attempt}"
    return "" if header.kind == LOST else f"{header.kind} {header.name}"
