"""Adding and claiming runs: one transaction decides who goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from outlast import errors
from outlast.clock import moment
from outlast.flows.loading import refuse_while_loading
from outlast.ledger.journal import Header, JournalEntry, Payload, entry
from outlast.runs import failure as log
from outlast.runs import heartbeat
from outlast.runs.call import Call, Ledger, header_of
from outlast.runs.found import refuse_unproven
from outlast.runs.holder import HERE, holder_of, is_executing, refuse_sealed, silent_since, token_of
from outlast.runs.journal import row_digest
from outlast.runs.run import FINISHED
from outlast.runs.waits.interrupt import OF_THE_RUN, in_time, is_late, is_told
from outlast.store.contract import (
    Hold,
    InterruptRow,
    LeaseRow,
    NewRun,
    PlainStart,
    QueueEntry,
    Reading,
    RunRow,
    Writing,
)
from outlast.store.contract.runs import refuse_damaged, status_of_new
from outlast.values.codec import decode, encode
from outlast.values.frozen import NamedTuple
from outlast.values.late import late

if TYPE_CHECKING:
    from outlast.home.caller import Caller
    from outlast.home.home import Home
    from outlast.runs import under_way
    from outlast.runs.waits import ask as questions
    from outlast.runs.waits import stored as wait_notes
else:
    questions = late("outlast.runs.waits.ask")
    wait_notes = late("outlast.runs.waits.stored")
    under_way = late("outlast.runs.under_way")


DAY_US = 86_400_000_000
REFUSED_US = 60_000_000  # before one that could not go on is taken out of its queue again


class RunClaim(NamedTuple):
    """A run in hand, and the status it was found in."""

    hold: Hold
    run: RunRow
    found: str
    silent_at: int = 0  # by when the owner before was surely dead, if it died
    token: str = ""  # the claim that it was taken under
    notes: tuple[str, ...] = ()  # what who started it should know
    death: str = ""  # of one that was found crashed: why that is no step's doing alone (`heartbeat.py`)
    taken_from: str = ""  # who held it, and may live
    left: tuple[under_way.StepNote, ...] = ()  # what its owner before noted of the steps it was at (`under_way.py`)
    delivers: bool = True  # that its outcome is to be received may be noted (`outcomes.py`)
    reason: str = "queued"  # of one that was taken out of a queue: why it could go on


def run_fact(name: str, facts: Any, *, epoch: int, at: int, trace_id: str = "") -> JournalEntry:
    """An entry about the run itself."""
    header = Header("run", name, delivered=True, started_at=at, ended_at=at, epoch=epoch, trace_id=trace_id)
    return entry(header, Payload(facts=facts))


def add(
    home: Home, tx: Writing, run: NewRun, start: bytes, facts: dict[str, Any], more: Sequence[JournalEntry] = ()
) -> RunClaim:
    """Add a run that this process owns from the start."""
    return add_begun(home, tx, run, start, [started(run, facts), *more])


def add_begun(home: Home, tx: Writing, run: NewRun, start: bytes, entries: Sequence[JournalEntry]) -> RunClaim:
    """The same with its first entries as they are."""
    _sign_in(home, tx)
    return _taken_from_start(home, RunClaim(*_added(tx, run, start, entries, home.process.id), "new"))


def plain_start(home: Home, run: NewRun, start: bytes, began: JournalEntry, receiver: str) -> PlainStart:
    """The same of a run without tags, for a store that adds many at once where nothing is known of their tasks."""
    now, fresh = home.clock.boot(), _fresh_us(home)

    def given(hold: Hold, row: RunRow) -> RunClaim:
        return _taken_from_start(home, RunClaim(hold, row, "new", delivers=bool(receiver)))

    return PlainStart(run, start, began, home.process.id, now - fresh, now + fresh, receiver, given)


def _taken_from_start(home: Home, claimed: RunClaim) -> RunClaim:
    home.held.claimed.add(claimed.run.id)
    return claimed


def add_queued(
    tx: Writing, run: NewRun, start: bytes, facts: dict[str, Any], more: Sequence[JournalEntry], place: QueueEntry
) -> RunRow:
    """Add a run that waits in a queue, which is there, and belongs to nobody yet."""
    times = {"not_before": place.due_at if place.state == "delayed" else 0, "take_by": place.expires_at}
    queued: dict[str, Any] = {"queue": place.queue} | ({"priority": place.priority} if place.priority else {})
    queued |= {name: moment(at).isoformat() for name, at in times.items() if at}
    _, row = _added(tx, run, start, [started(run, facts | queued), *more], None)
    tx.add_entry(place._replace(run=row.key))
    return row


def started(run: NewRun, facts: dict[str, Any]) -> JournalEntry:
    """The first entry of a run."""
    began = facts | ({"named": True} if run.named else {}) | ({"tags": list(run.tags)} if run.tags else {})
    began |= {"row": row_digest(run)}
    return run_fact("started", began, epoch=1, at=run.at, trace_id=run.trace_id)


def _added(
    tx: Writing, run: NewRun, start: bytes, entries: Sequence[JournalEntry], holder: str | None
) -> tuple[Hold, RunRow]:
    hold = tx.add_run(run, start, holder)
    tx.append(hold, entries)
    return hold, run.as_row(hold.run_key, status_of_new(holder))


def _sign_in(home: Home, tx: Writing) -> None:
    """This process is alive, and those that left without a word a day ago are forgotten.

    A sign of life that another claim, or the heartbeat, gave a moment ago will do: whether it stands, the store says.
    """
    beat, before = home.beat(), tx.beaten_at(home.process.id)
    if before is not None and 0 <= beat.boot_us - before < _fresh_us(home):
        return
    tx.beat(beat)
    tx.forget_silent_processes(beat.wall_us - DAY_US)


def _fresh_us(home: Home) -> int:
    """How old a sign of life may be that will do."""
    return int(min(home.settings.beat_seconds, home.settings.lease_seconds / 2) * 1_000_000)


def claim(caller: Caller, run_id: str, take: str = "") -> RunClaim:
    """Take a run over. Raises RunHeld while its owner lives, RunFinished when there is nothing to go on with.

    `take` says why it is taken from an owner that may live: that is on the record, and the owner is fenced.
    """
    claimed = caller.home.store.write(lambda tx: claim_in(caller, tx, run_id, take))
    tell_taken(caller.home, claimed, take)
    return claimed


def claim_in(caller: Caller, tx: Writing, run_id: str, take: str = "") -> RunClaim:
    """The same inside a transaction. Nothing is written unless it is claimed."""
    refuse_while_loading()
    row, lease = tx.run_by_id(run_id), tx.lease_of(run_id)
    if row is None or lease is None:
        raise errors.RunNotFound(run_id)
    if row.status in FINISHED:
        raise errors.RunFinished(run_id, row.status)
    held = refuse_taken(caller, tx, row, lease, take)
    _sign_in(caller.home, tx)
    token = token_of(caller, tx, row, lease)
    death = heartbeat.death_of(caller.home, tx, lease) if is_executing(row) else ""
    if death == heartbeat.SHARED:  # kept with the dead process: its runs that are taken up later would not see it
        tx.note_shared(str(lease.holder))
    left = under_way.left_by_owner(caller.home, row, lease) if is_executing(row) else ()
    tx.take_lease(lease, caller.home.process.id)
    silent_at = silent_since(caller.home, tx, row, lease)
    if lease.holder and lease.holder not in (caller.home.process.id, token):
        tx.forget_holder(lease.holder)
    found = "crashed" if row.status == "running" else row.status
    tx.set_run_status(row.key, "running", caller.home.clock.now())
    tx.set_entry(row.key, "taken")
    hold = Hold(row.key, run_id, lease.key, lease.epoch + 1, lease.head, lease.hash)
    if held:
        tx.append(hold, [_taken(caller, hold, row, held, take)])
        death = heartbeat.TAKEN if found == "crashed" else ""
    caller.home.held.claimed.add(run_id)
    return RunClaim(hold, row, found, silent_at, token, death=death, taken_from=held, left=left)


def tell_taken(home: Home, claimed: RunClaim, take: str = "") -> None:
    """Log that a run was taken over from who had it."""
    if claimed.found == "crashed" or claimed.taken_from:
        log.say_taken(home, claimed.run, claimed.taken_from, take)


def refuse_taken(caller: Caller, look: Reading, run: RunRow, lease: LeaseRow, take: str = "") -> str:
    """Who holds a run that may be taken; nobody, mostly. Raises RunSealed, RunHeld, IntegrityBroken."""
    refuse_sealed(run)
    held = holder_of(caller, look, run.id, lease)
    if held and (held == HERE or not take):
        raise errors.RunHeld(run.id, held, lease.epoch)
    refuse_unproven(look, run, lease)
    return held


def _taken(caller: Caller, hold: Hold, run: RunRow, holder: str, why: str) -> JournalEntry:
    """That somebody took a run from who held it, and why."""
    facts = {"from": holder, "by": caller.actor, "why": why}
    return run_fact("taken", facts, epoch=hold.epoch, at=caller.home.clock.now(), trace_id=run.trace_id)


def release(home: Home, claimed: RunClaim, status: str) -> None:
    """Give a run back as it was found, a new one as interrupted, unless somebody has taken it or ended it meanwhile."""
    at, trace = home.clock.now(), claimed.run.trace_id
    is_new = claimed.found == "new"

    def work(tx: Writing) -> None:  # to append is the guard
        tx.append(claimed.hold, [run_fact(status, {}, epoch=1, at=at, trace_id=trace)] if is_new else [])
        tx.set_run_status(claimed.run.key, status, at)
        tx.set_entry(claimed.run.key, "delayed", home.clock.now() + REFUSED_US)  # in its queue, if it is in one
        if not claimed.token:
            tx.release_lease(claimed.hold)
        else:  # who claimed it keeps the claim until the run has gone on
            hold = claimed.hold
            tx.take_lease(LeaseRow(hold.lease_key, hold.epoch, hold.head, hold.hash, None), claimed.token)

    home.held.claimed.discard(claimed.run.id)
    with suppress(errors.LeaseLost):
        home.store.write(work)


# -- what people decided, taken under the new owner's epoch ------------------------------------------


class Decided(NamedTuple):
    """What was decided and nobody has taken yet: as entries, and what is used up by them."""

    entries: list[JournalEntry]
    waits: list[str]
    requests: list[int]
    goes_back: bool  # what a mark calls over may have to be done again


def decided(
    home: Home,
    look: Reading,
    run: RunRow,
    ledger: Ledger,
    epoch: int,
    supposed: Iterable[tuple[str, dict[str, Any]]] = (),
) -> Decided:
    """What whoever goes on with the run has to take into its journal first; also what is `supposed` to be asked."""
    at, notes = home.clock.now(), wait_notes.notes_of(home, epoch, run.trace_id)
    entries: list[JournalEntry] = []
    waits: list[str] = []
    settled = Counter[Call]()  # attempts that these decisions are
    for wait in look.waits_of(run.key):
        refuse_damaged(wait, f"wait {wait.id}")
        call = Call(*decode(wait.call))
        past = ledger.calls.get(call)
        if is_told(wait.type) and (wait.status == "answered" or is_late(wait, at)):
            now = in_time(wait, at)
            entries += notes.closed(now) if wait.id not in ledger.closed else []
            entries.append(_told(call, now, epoch, at))
            waits.append(wait.id)
        elif wait.status == "answered" and wait.answer:
            entries += notes.closed(wait) if wait.id not in ledger.closed else []
            answer = decode(wait.answer) | {"by": wait.answered_by, "interrupt": wait.id}
            kind = past.kind if past else "effect"
            entries.append(_decision(call, kind, answer, decode(wait.payload), ledger, settled, epoch, at))
            waits.append(wait.id)
        elif call.step in OF_THE_RUN:
            waits.append(wait.id)
        elif past is not None and past.finished:
            known = "what it asked about is known by now"
            entries += notes.closed(wait, known) if wait.id not in ledger.closed else []
            waits.append(wait.id)
    untaken = look.untaken(run.key)
    sent = [(kind, decode(body) | {"by": actor}) for _, kind, body, actor in untaken if kind != "pause"]
    asked = [*sent, *supposed]
    entries += [_request(kind, body, ledger, settled, epoch, at) for kind, body in asked]
    return Decided(entries, waits, [key for key, *_ in untaken], any(kind == "rewind" for kind, _ in asked))


def take_decisions(home: Home, claimed: RunClaim, ledger: Ledger) -> bool:
    """Write answers and requests into the journal. True if there were any: the ledger is to be read again."""
    hold = claimed.hold

    def work(tx: Writing) -> bool:
        made = decided(home, tx, claimed.run, ledger, hold.epoch)
        for wait in made.waits:
            tx.use_interrupt(wait)
        for key in made.requests:
            tx.take(key)
        if made.goes_back:
            tx.set_run_mark(hold.run_key, 0)
        tx.append(hold, made.entries)  # also when there are none: it is the guard
        return bool(made.entries)

    return home.store.write(work)


def _told(call: Call, wait: InterruptRow, epoch: int, at: int) -> JournalEntry:
    """An answer that the flow itself is given, or that there will be none."""
    began, by, why = wait.opened_at, wait.answered_by, wait.reason
    return questions.told_entry(call, wait.id, wait.type, wait.answer, by, epoch, at, why=why, began=began)


def _request(
    kind: str, body: dict[str, Any], ledger: Ledger, settled: Counter[Call], epoch: int, at: int
) -> JournalEntry:
    if kind == "rewind":
        return run_fact("rewound", {"to": body["to"], "by": body["by"], "why": body["why"]}, epoch=epoch, at=at)
    answer: dict[str, Any] = {name: body[name] for name in ("why", "by", "result") if name in body}
    answer["choice"] = kind
    return _decision(Call(*body["call"]), body["kind"], answer, {}, ledger, settled, epoch, at)


def _decision(
    call: Call,
    kind: str,
    answer: dict[str, Any],
    asked: dict[str, Any],
    ledger: Ledger,
    settled: Counter[Call],
    epoch: int,
    at: int,
) -> JournalEntry:
    choice = answer["choice"]
    past = ledger.calls.get(call)
    tried, settles = (past.attempts if past else 0) + settled[call], choice in ("skip", "reuse")
    settled[call] += settles
    facts: dict[str, Any] = {name: answer[name] for name in ("why", "by", "interrupt") if name in answer}
    attempt = tried + 1 if settles else max(tried, 1)  # what was tried keeps its receipt
    mark, key = "reused" if choice == "reuse" else "decided", past.last.key if past else ""
    header = header_of(kind if settles else "decision", call, attempt=attempt, mark=mark, key=key, epoch=epoch)
    header = msgspec.structs.replace(header, started_at=at, ended_at=at)
    if choice == "skip":
        payload = Payload(result=msgspec.Raw(encode(answer["result"])), facts=facts)
        return entry(msgspec.structs.replace(header, status="skipped", delivered=True), payload)
    if choice == "reuse":
        was = ledger.calls[Call(*asked["was"])]
        kept = msgspec.json.decode(was.payload, type=Payload) if was.payload else Payload()
        facts |= {"was": asked["was"]}
        payload = Payload(result=kept.result, blob=kept.blob, wrote=kept.wrote, facts=facts)
        seen = str(asked.get("seen", ""))
        return entry(msgspec.structs.replace(header, status="succeeded", delivered=True, seen=seen), payload)
    return entry(msgspec.structs.replace(header, status=choice), Payload(facts=facts))
