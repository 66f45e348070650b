"""A run as it lies in the store: its journal read and checked, and what of it is not what was stored.

A chain proves its entries. Where a run's code is, what its waits were answered and what was asked of it lie in rows,
each with a proof of its own, which is made anew with every write: so they are looked at before the first one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from outlast import errors
from outlast.home.home import Home, run_row
from outlast.ledger.journal import (
    BEYOND,
    OTHER_END,
    UNDAMAGED,
    Break,
    Flaws,
    Row,
    check,
    decode_header,
    facts_in,
    print_of,
)
from outlast.ledger.verdict import Reason
from outlast.runs import journal
from outlast.runs.call import Ledger, fold
from outlast.runs.journal import differences_of_run
from outlast.store.contract import LeaseRow, Reading, RunRow
from outlast.store.contract.runs import damage_of
from outlast.values.codec import digest, identity
from outlast.values.frozen import NamedTuple

OUTPUTS = b'"outputs":'  # in what an entry carries: the files that a step left
_MARK, _REWOUND = b'["run","mark"', b'["run","rewound"'  # how the headers of such entries begin


class FoundRun(NamedTuple):
    """A run as it lies in the store."""

    run: RunRow
    lease: LeaseRow
    rows: list[Row]
    breaks: tuple[Break, ...]  # every record that is not what was stored
    ledger: Ledger  # of what is
    written: tuple[Row, ...] = ()  # older than the mark: by which files of finished steps are known
    flaws: Flaws = UNDAMAGED

    @property
    def may_have_left_files(self) -> bool:
        """Whether a step of it says which files it left, or it began other runs: else there are none to look at."""
        return tells_of_files(self.sound) or any([past.kind == "spawn" for past in self.ledger.calls.values()])

    @property
    def sound(self) -> list[Row]:
        """Its entries, also those older than the mark, without those that are flawed: they speak for nothing."""
        rows = [*self.written, *self.rows]
        return [row for row in rows if row.seq not in self.flaws] if self.flaws else rows

    @property
    def broken(self) -> Break | None:
        """The first record that is not what was stored."""
        return self.breaks[0] if self.breaks else None

    @property
    def unaccepted(self) -> Break | None:
        """The first of those that nobody has taken upon himself."""
        known = {each["fingerprint"] for each in self.ledger.accepted}
        return next((one for one in self.breaks if _broken(one).fingerprint not in known), None)


def tells_of_files(rows: list[Row]) -> bool:
    """Whether an entry says which files a step left. A mark only names such entries, and they are among these."""
    told = [row for row in rows if type(row.kept) is bytes and row.kept.find(OUTPUTS) >= 0]  # `says`, of every row
    return not all(row.header.startswith(_MARK) for row in told)


def find(look: Reading, run: RunRow, lease: LeaseRow) -> FoundRun:
    """Read and check a run's journal: all of it, or what matters since its newest mark.

    The number of the mark is no part of the chain. Where no mark is that a resume may start from, or something since
    it is damaged, all is read; the run is then given back without one.
    """
    if why := damage_of(run) or damage_of(lease):
        return FoundRun(run, lease, [], (Break(f"run {run.id}", why),), Ledger())
    newer = look.journal_of(run.key, run.mark - 2) if run.mark > 1 else []
    rows, written, broken = _since_mark(look, run, lease, newer) if is_mark(newer, run.mark) else ([], [], None)
    breaks: tuple[Break, ...] = ()
    flaws = UNDAMAGED
    if not rows or broken is not None:
        run, written = run._replace(mark=0), []
        rows, flaws, breaks = journal.read(look, run, lease)
    if identity(run.inputs.encode()) != run.inputs_digest:
        breaks = (*breaks, Break(f"run {run.id}", "its inputs were changed"))
    return FoundRun(run, lease, rows, breaks, folded(run, rows, flaws), tuple(written), flaws)


def find_newer(look: Reading, found: FoundRun) -> FoundRun:
    """The same run with the entries that its holder has added since: only those are read. Its ledger is used up.

    Where something in it is not what was stored, all is read again.
    """
    run, lease = look.run_by_id(found.run.id), look.lease_of(found.run.id)
    assert run is not None
    assert lease is not None
    known = found.rows[-1] if found.rows and not found.breaks else None
    newer = look.journal_of(run.key, known.seq) if known is not None and run.mark == found.run.mark else []
    if known is None or not newer or check(run.id, known.hash, newer, lease.head, lease.hash, first=known.seq + 1):
        return find(look, run, lease)
    return found._replace(run=run, lease=lease, rows=[*found.rows, *newer], ledger=fold(newer, ledger=found.ledger))


def find_run(home: Home, run_id: str) -> FoundRun:
    """A run with all of its journal, as it lies in the store."""
    row = run_row(home, run_id)

    def read(reading: Any) -> FoundRun:
        lease = reading.lease_of(row.id)
        assert lease is not None
        return find(reading, row._replace(mark=0), lease)

    return home.store.read(read)


def folded(run: RunRow, rows: list[Row], flaws: Flaws) -> Ledger:
    """What the entries of a run say, that much of it as is believed."""
    ledger = fold(rows, flaws)
    if not run.mark:
        ledger.mark = None  # every finished round is there: it is replayed, not skipped
    return ledger


def is_mark(rows: list[Row], seq: int) -> bool:
    """Whether the second of these entries, `seq`, is a mark that still counts: a rewind takes away those before it."""
    if len(rows) < 2 or rows[1].seq != seq or rows[1].payload is None or not rows[1].header.startswith(_MARK):
        return False
    return not any(row.header.startswith(_REWOUND) for row in rows)


Read = tuple[list[Row], list[Row], Break | None]


def _since_mark(look: Reading, run: RunRow, lease: LeaseRow, newer: list[Row]) -> Read:
    """The chain from the entry before the mark on, and the older entries that the mark vouches for."""
    place = f"entry {run.id}/{run.mark}"
    broken = check(run.id, newer[0].hash, newer[1:], lease.head, lease.hash, first=run.mark)
    if broken is not None:
        return [], [], broken
    facts = facts_in(newer[1])
    keep: dict[str, str] = facts.get("keep", {})
    outputs: dict[str, str] = facts.get("outputs", {})
    named = keep | outputs
    known = look.entries_of(run.key, [int(seq) for seq in named])
    broken = next((bad for row in known if (bad := _vouched(run.id, row, named[str(row.seq)]))), None)
    if broken is None and len(known) != len(named):
        broken = Break(place, "an entry that it names is missing")
    older = [row for row in known if str(row.seq) in keep]
    return [*older, *newer[1:]], [row for row in known if str(row.seq) in outputs], broken


def _vouched(run_id: str, row: Row, header_print: str) -> Break | None:
    place = f"entry {run_id}/{row.seq}"
    if print_of(row.header) != header_print:
        return Break(place, "its header was changed")
    proven = decode_header(row.header).payload
    if proven != (digest(row.payload) if row.payload is not None else ""):
        return Break(place, "its payload was changed")
    return None


def broken_reasons(found: FoundRun) -> list[Reason]:
    """The records that are not what was stored. Who accepts one has what it was about done again, or asked about."""
    return list(map(_broken, found.breaks))


def _broken(broken: Break) -> Reason:
    advice = (
        "restore the store from a copy; accepted, what it was about is done again, an effect is asked about; "
        "or start the task anew with fresh=True (`--fresh`)"
    )
    return Reason("integrity_broken", broken.record, "what was stored", broken.why, advice)


def refuse_unknown_end(found: FoundRun) -> None:
    """Nobody goes on with a run whose journal ends elsewhere: what is written next would follow nothing known."""
    for broken in found.breaks:
        if broken.why.startswith((BEYOND, OTHER_END)):
            raise broken.as_error()


def refuse_unproven(look: Reading, run: RunRow, lease: LeaseRow) -> None:
    """Raises IntegrityBroken for a row that is not what was stored. What the chain tells of it is judged later."""
    wrong = next(_unproven(look, run), None)
    if wrong is None:
        return
    if look.unproven_row("runs", run.key) != wrong:
        raise _changed(wrong)

    found = find(look, run, lease)
    if any(one.record in (wrong.record, f"entry {run.id}/1") for one in found.breaks):
        return  # its inputs, or what its first entry begins with
    is_only_mark = found.run.mark != run.mark and not any(differences_of_run(run, found.rows))  # then all is read
    if not is_only_mark:
        raise _changed(wrong)


def refuse_unproven_wait(look: Reading, key: int) -> None:
    """Raises IntegrityBroken for a question that is not the one that was asked."""
    wrong = look.unproven_row("interrupts", key)
    if wrong is not None:
        raise _changed(wrong)


def _changed(wrong: Break) -> errors.IntegrityBroken:
    return errors.IntegrityBroken(wrong.record, f"its row was changed ({wrong.why})")


def _unproven(look: Reading, run: RunRow) -> Iterator[Break]:
    waits = [("interrupts", wait.key) for wait in look.waits_of(run.key)]
    asked = [("inbox", key) for key, *_ in look.untaken(run.key)]
    for table, key in (*waits, *asked, ("runs", run.key)):
        if (wrong := look.unproven_row(table, key)) is not None:
            yield wrong
