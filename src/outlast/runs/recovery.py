"""Finding out how far a run may be trusted: its chain, its blobs, its code, what was left half done."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from outlast.errors import IntegrityBroken, OutlastError
from outlast.flows import needs
from outlast.flows.code import digest_function, parse
from outlast.flows.loading import is_recipe
from outlast.ledger.journal import (
    BEYOND,
    OTHER_END,
    UNDAMAGED,
    Break,
    Flaws,
    Row,
    check,
    decode_header,
    decode_payload,
    print_of,
)
from outlast.ledger.verdict import Reason
from outlast.runs import journal, outputs
from outlast.runs.call import Call, Ledger, Past, fold, labels, spoil
from outlast.runs.reasons import reasons_of
from outlast.runs.same_flow import file_now
from outlast.store.contract import LeaseRow, Reading, RunRow
from outlast.store.contract.damaged import damage_of
from outlast.values.digest import digest, identity
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.home.caller import Caller
    from outlast.home.home import Home
    from outlast.runs.live import Executor


GONE = "no step"  # of that id is in the flow file
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
    def broken(self) -> Break | None:
        """The first record that is not what was stored."""
        return self.breaks[0] if self.breaks else None

    @property
    def unaccepted(self) -> Break | None:
        """The first of those that nobody has taken upon himself."""
        known = {each["fingerprint"] for each in self.ledger.accepted}
        return next((one for one in self.breaks if _broken(one).fingerprint not in known), None)


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
    assert newer[1].payload is not None
    facts = decode_payload(newer[1].payload).facts
    keep: dict[str, str] = facts.get("keep", {}) if isinstance(facts, dict) else {}
    outputs: dict[str, str] = facts.get("outputs", {}) if isinstance(facts, dict) else {}
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


class BodySource(NamedTuple):
    """Where the body of a Python flow is: its file, and its qualified name in there."""

    file: Path
    name: str


def reasons(executor: Executor, found: FoundRun, source: BodySource | None, *, loaded: bool) -> list[Reason]:
    """Every reason that a run's records, its code and its resources give.

    `source` is where its body is, if that is Python; `loaded`: its module is, so what it provides is known.
    """
    given = broken_reasons(found) + _blobs(executor.home, found)
    if _interesting(found.ledger):
        given += reasons_of(found.ledger, labels(found.rows), found.run.id)
    given += changed_code(executor.caller, found) + _changed_body(found, source) + _workspace(executor.home, found.run)
    given += outputs.reasons_of(executor.caller, found)
    return given + _imported(found) + _resources(executor, found, source, loaded)


def broken_reasons(found: FoundRun) -> list[Reason]:
    """The records that are not what was stored. Who accepts one has what it was about done again, or asked about."""
    return list(map(_broken, found.breaks))


def _broken(broken: Break) -> Reason:
    advice = (
        "restore the store from a copy; accepted, what it was about is done again, an effect is asked about; "
        "or start the task anew: outlast.run(…, fresh=True)"
    )
    return Reason("integrity_broken", broken.record, "what was stored", broken.why, advice)


def refuse_unknown_end(found: FoundRun) -> None:
    """Nobody goes on with a run whose journal ends elsewhere: what is written next would follow nothing known."""
    for broken in found.breaks:
        if broken.why.startswith((BEYOND, OTHER_END)):
            raise broken.as_error()


def _imported(found: FoundRun) -> list[Reason]:
    """A run that came in as a file: proven to be whole, and not by whom it was written. It is never trusted."""
    moves = sum(name == "moved" for name, _ in found.ledger.endings)
    if moves <= (found.run.seal == "moved") and found.run.seal not in ("copy", "testimony"):
        return []
    advice = "look at its receipts before you rely on them: a file is proven to be whole, not to come from someone"
    return [Reason("imported", found.run.id, "made here", "came in as a file", advice)]


def _interesting(ledger: Ledger) -> bool:
    return any(not past.finished for past in ledger.calls.values())


def changed_code(caller: Caller, found: FoundRun) -> list[Reason]:
    """Code of finished steps that is not what it was, read from the source without importing it."""
    changed = []
    for code, step in found.ledger.codes.items():
        place = found.ledger.places.get(code)
        now = _code_now(file_now(caller, found.run, place[0]), place[1]) if place else ""
        if now is not None and now != code and now != "":
            changed.append(Reason("code_changed", step, code[:12], now[:12], _about(step, now)))
    return changed


def _changed_body(found: FoundRun, source: BodySource | None) -> list[Reason]:
    """That the body of a Python flow is not what it was: which calls it makes is known only when it runs."""
    now = _code_now(source.file, source.name) if source is not None and found.ledger.body else None
    if not source or not now or now == found.ledger.body:
        return []
    advice = "a call that it makes with other inputs, or that is new, is run; receipts that it asks for are reused"
    return [Reason("code_changed", source.name, found.ledger.body[:12], now[:12], advice)]


def _about(step: str, found: str) -> str:
    if found == GONE:
        return "the flow has no such step any more: what it did stands, and one that took its place is done anew"
    return f"its receipts are reused as they are; rewind to {step} to do it again"


def _code_now(path: Path, qualname: str) -> str | None:
    """The digest of a function as its file has it now; None when file or function are elsewhere."""
    if is_recipe(path.name):
        return _command_now(path, qualname)
    try:
        tree = parse(path.read_bytes())
    except OSError:
        return None
    return digest_function(tree, qualname) if tree else None


def _command_now(path: Path, step: str) -> str | None:
    from outlast.flows.yaml.flow import find_recipe
    from outlast.flows.yaml.model import code_of_step

    try:
        recipe = find_recipe(path.name, path.parent).recipe
        return (code_of_step(recipe, step) or GONE) if recipe is not None else None
    except OutlastError:
        return None


def _blobs(home: Home, found: FoundRun) -> list[Reason]:
    """Results that live in blobs and are not what was stored. What only people read is left to `verify`.

    Such a receipt is of no use to a resume: its step is done again, an effect is in doubt, once that is accepted.
    """
    holding = [past for past in found.ledger.calls.values() if past.payload and b'"blob":"' in past.payload]
    spoilt = [(past, reason) for past in holding if past.finished for reason in _blob(home, past)]
    names = labels(found.rows) if spoilt else {}
    for past, _ in spoilt:
        spoil(past)
    return [replace(reason, subject=_subject(past.call, names)) for past, reason in spoilt]


def _subject(call: Call, names: dict[Call, str]) -> str:
    return names.get(call, call.path)


def _blob(home: Home, past: Past) -> list[Reason]:
    name = decode_payload(past.payload or b"{}").blob
    if not name:
        return []
    then = "is asked about" if past.kind == "effect" else "is done again"
    advice = f"restore blob {name[:12]} from a copy; accepted, {past.call.step} {then}"
    if not home.blobs.has(name):
        return [Reason("artifact_missing", past.call.step, name, f"no blob {name[:12]}", advice)]
    try:
        home.blobs.get(name)
    except IntegrityBroken as error:
        return [Reason("artifact_corrupt", past.call.step, name, f"blob {name[:12]}: {error.why}", advice)]
    return []


def _workspace(home: Home, run: RunRow) -> list[Reason]:
    """What others say against what the run saved and pinned, and content of it that is not what was saved."""

    def something(look: Reading) -> bool:
        pinned = look.checkpoints_of_run(run.id, 0, 1) or look.artifacts_of_run(run.id, 0, 1)
        return bool(pinned or look.links_after(0, 1))

    if not home.store.read(something):
        return []
    from outlast.workspace.why import against_run

    return against_run(home, run)


def needs_of(found: FoundRun, source: BodySource | None) -> set[str]:
    """The resources that a run has asked for, and those that its flow will ask for by its source."""
    return found.ledger.needs | (needs.needs_of(source.file, source.name) if source else set())


def _resources(executor: Executor, found: FoundRun, source: BodySource | None, loaded: bool) -> list[Reason]:
    """Every resource that nobody provides. While nothing is loaded, its function is looked for in the source."""
    missing = executor.live.resources.missing(needs_of(found, source))
    if missing and not loaded:
        missing = _not_in_source(executor, found, source, missing)
    how = "@resource({0!r}) on a function in the flow's module, or outlast.resource({0!r}, …), before resuming"
    return [
        Reason("resource_missing", key, "provided", f"nothing{_for(missing[key])}", how.format(key))
        for key in sorted(missing)
    ]


def _not_in_source(
    executor: Executor, found: FoundRun, source: BodySource | None, missing: dict[str, str]
) -> dict[str, str]:
    """Those of them that no function of the flow's modules provides; and what such a function needs and nobody has."""
    provided = needs.provided_by(source.file) if source else {}
    left, still, seen = dict(missing), dict[str, str](), set[str]()
    while left:
        key, needed_by = left.popitem()
        seen.add(key)
        if key in provided:
            below = executor.live.resources.missing(provided[key])
            left |= {each: by or key for each, by in below.items() if each not in seen}
        elif not _is_made_by_code(executor.caller, found.run, key, found.ledger.makers.get(key)):
            still[key] = needed_by
    return still


def _for(needed_by: str) -> str:
    return f" (resource {needed_by!r} needs it)" if needed_by else ""


def _is_made_by_code(caller: Caller, run: RunRow, key: str, place: list[str] | None) -> bool:
    """Whether the file that registered it does so still: whoever resumes will load it."""
    return place is not None and needs.registers(file_now(caller, run, place[0]), key)
