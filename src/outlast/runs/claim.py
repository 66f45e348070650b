"""Adding and claiming runs: one transaction decides who goes on."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from outlast.errors import LeaseLost, RunFinished, RunHeld, RunNotFound, RunSealed
from outlast.flows.loading import refuse_while_loading
from outlast.home.process import is_alive, is_stopped
from outlast.home.tokens import is_ours, print_of
from outlast.ledger.damage import read_facts, read_header
from outlast.ledger.journal import NOTES, Entry, Header, Payload, Row, entry
from outlast.ledger.lease import SILENT_LEASES, Beat, is_over
from outlast.runs import deaths
from outlast.runs.call import Call, Ledger
from outlast.runs.run import FINISHED
from outlast.runs.standing import row_digest
from outlast.runs.unproven import refuse_unproven
from outlast.runs.waits.interrupt import BY_DEADLINE, OF_THE_RUN, is_told
from outlast.store.contract import Hold, InterruptRow, LeaseRow, NewRun, Reading, RunRow, Writing
from outlast.store.contract.damaged import refuse_damaged
from outlast.values.codec import decode, encode
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.home.home import Runtime


DAY_US = 86_400_000_000
BESIDE = (("run", "checked"), ("run", "displaced"))  # entries that say nothing about who holds a run
HERE = "this process"  # who holds a run that is executed right here


class Claim(NamedTuple):
    """A run in hand, and the status it was found in."""

    hold: Hold
    run: RunRow
    found: str
    silent_at: int = 0  # by when the owner before was surely dead, if it died
    token: str = ""  # the claim that it was taken under
    notes: tuple[str, ...] = ()  # what who started it should know
    death: str = ""  # of one that was found crashed: why that is no step's doing alone (`deaths.py`)
    taken_from: str = ""  # who held it, and may live


def run_fact(name: str, facts: Any, *, epoch: int, at: int, trace_id: str = "") -> Entry:
    """An entry about the run itself."""
    header = Header("run", name, delivered=True, started_at=at, ended_at=at, epoch=epoch, trace_id=trace_id)
    return entry(header, Payload(facts=facts))


def add(
    runtime: Runtime, tx: Writing, run: NewRun, start: bytes, facts: dict[str, Any], more: Sequence[Entry] = ()
) -> Claim:
    """Add a run that this process owns from the start."""
    _sign_in(runtime, tx)
    hold = tx.add_run(run, start, runtime.process.id)
    began = facts | ({"named": True} if run.named else {}) | {"row": row_digest(run)}
    tx.append(hold, [run_fact("started", began, epoch=1, at=run.at, trace_id=run.trace_id), *more])
    row = tx.run_by_id(run.id)
    assert row is not None
    runtime.claimed.add(run.id)
    return Claim(hold, row, "new")


def _sign_in(runtime: Runtime, tx: Writing) -> None:
    """This process is alive, and those that left without a word a day ago are forgotten."""
    beat = runtime.beat()
    tx.beat(beat)
    tx.forget_silent_processes(beat.wall_us - DAY_US)


def claim(runtime: Runtime, run_id: str, take: str = "") -> Claim:
    """Take a run over. Raises RunHeld while its owner lives, RunFinished when there is nothing to go on with.

    `take` says why it is taken from an owner that may live: that is on the record, and the owner is fenced.
    """
    refuse_while_loading()

    def work(tx: Writing) -> Claim:
        row, lease = tx.run_by_id(run_id), tx.lease_of(run_id)
        if row is None or lease is None:
            raise RunNotFound(run_id)
        if row.status in FINISHED:
            raise RunFinished(run_id, row.status)
        held = refuse_taken(runtime, tx, row, lease, take)
        _sign_in(runtime, tx)
        token = _our_token(runtime, tx, row, lease)
        death = deaths.death_of(runtime, tx, lease) if is_executing(row) else ""
        deaths.note_death(tx, lease, death)
        tx.take_lease(lease, runtime.process.id)
        silent_at = silent_since(runtime, tx, row, lease)
        if lease.holder and lease.holder not in (runtime.process.id, token):
            tx.forget_process(lease.holder)
        found = "crashed" if row.status == "running" else row.status
        tx.set_run_status(row.key, "running", runtime.clock.now())
        hold = Hold(row.key, run_id, lease.key, lease.epoch + 1, lease.head, lease.hash)
        if held:
            tx.append(hold, [_taken(runtime, hold, row, held, take)])
            death = deaths.TAKEN if found == "crashed" else ""
        runtime.claimed.add(run_id)
        return Claim(hold, row, found, silent_at, token, death=death, taken_from=held)

    claimed = runtime.store.write(work)
    if claimed.found == "crashed" or claimed.taken_from:
        from outlast.runs import log  # late: most runs never need it

        log.say_taken(runtime, claimed.run, claimed.taken_from, take)
    return claimed


def refuse_taken(runtime: Runtime, look: Reading, run: RunRow, lease: LeaseRow, take: str = "") -> str:
    """Who holds a run that may be taken; nobody, mostly. Raises RunSealed, RunHeld, IntegrityBroken."""
    refuse_sealed(run)
    held = holder_of(runtime, look, run.id, lease)
    if held and (held == HERE or not take):
        raise RunHeld(run.id, held, lease.epoch)
    refuse_unproven(look, run, lease)
    return held


def _taken(runtime: Runtime, hold: Hold, run: RunRow, holder: str, why: str) -> Entry:
    """That somebody took a run from who held it, and why."""
    facts = {"from": holder, "by": runtime.actor, "why": why}
    return run_fact("taken", facts, epoch=hold.epoch, at=runtime.clock.now(), trace_id=run.trace_id)


def silent_since(runtime: Runtime, look: Reading, run: RunRow, lease: LeaseRow) -> int:
    """When the next sign of life of a dead owner was overdue. Who only claimed the run since was never its owner."""
    claimed = _claimed(look, run, lease)
    if claimed:
        return int(claimed.get("silent_at", 0))
    beat = look.beat_of(lease.holder) if lease.holder and is_executing(run) else None
    return beat.wall_us + int((runtime.settings.beat_seconds + 1) * 1_000_000) if beat else 0


def refuse_sealed(run: RunRow) -> None:
    """Raises RunSealed for a run that only stands for one elsewhere, IntegrityBroken for one that cannot be read."""
    refuse_damaged(run, f"run {run.id}")
    if run.seal:
        raise RunSealed(run.id, run.seal)


def refuse_held(runtime: Runtime, look: Reading, run_id: str, lease: LeaseRow) -> None:
    """Raises RunHeld while another worker (or this one) holds the run."""
    holder = holder_of(runtime, look, run_id, lease)
    if holder:
        raise RunHeld(run_id, holder, lease.epoch)


def holder_of(runtime: Runtime, look: Reading, run_id: str, lease: LeaseRow) -> str:
    """Who holds the run now; empty when it may be taken, by us at least."""
    if lease.holder is None:
        return ""
    if lease.holder == runtime.process.id:
        return HERE if run_id in runtime.live or run_id in runtime.claimed else ""
    beat = look.beat_of(lease.holder)
    if beat is None:
        return ""
    run = look.run_by_id(run_id)
    executing = run is None or is_executing(run)
    if _is_over(runtime, beat, executing=executing):
        return ""
    if run is None or executing:
        return str(beat.process)
    return "" if is_ours(runtime, lease.holder, beat) else _claimer(look, run, lease, beat)


def _is_over(runtime: Runtime, beat: Beat, *, executing: bool) -> bool:
    """Whether a holder's lease may be taken. One that only claimed the run says nothing between two uses."""
    me, clock = runtime.process, runtime.clock
    return is_over(
        beat,
        me,
        alive=is_alive(beat.process, me),
        stopped=is_stopped(beat.process, me),
        boot_us=clock.boot(),
        wall_us=clock.now(),
        leases=SILENT_LEASES if executing else 1,
    )


def is_executing(run: RunRow) -> bool:
    """Whether the holder of the run's lease is, or was, executing it. Else it is only claimed."""
    return run.status == "running"


def _our_token(runtime: Runtime, look: Reading, run: RunRow, lease: LeaseRow) -> str:
    """The claim that lets this runtime take the run; empty when it needs none."""
    beat = look.beat_of(lease.holder) if lease.holder and not is_executing(run) else None
    return str(lease.holder) if beat is not None and is_ours(runtime, beat.process.id, beat) else ""


def _claimer(look: Reading, run: RunRow, lease: LeaseRow, beat: Beat) -> str:
    """A claim in words. Only the beginning of its token is shown: whoever has all of it may use it."""
    by = claimed_by(look, run, lease)
    place = str(beat.process) if beat.process.pid else f"on {beat.process.host}"
    return f"claim {str(lease.holder)[:6]}{f' of {by}' if by else ''} ({place})"


def claimed_by(look: Reading, run: RunRow, lease: LeaseRow) -> str:
    """Who made the claim that holds the lease; empty when no claim does, or nobody was named."""
    return str(_claimed(look, run, lease).get("by", ""))


def _claimed(look: Reading, run: RunRow, lease: LeaseRow) -> dict[str, Any]:
    """What was noted when the claim that holds the lease was made; nothing when no claim does."""
    last = _last_fact(look, run, lease.head) if lease.holder and not is_executing(run) else None
    if last is None or read_header(last.header).name != "claimed":
        return {}
    facts = read_facts(last)
    return facts if facts.get("claim") == print_of(lease.holder) else {}


def _last_fact(look: Reading, run: RunRow, seq: int) -> Row | None:
    """The last entry of a run, but for checks and answers that came meanwhile: they say nothing about who holds it."""
    for row in (row for at in range(seq, 0, -1) for row in look.entries_of(run.key, [at])):
        header = read_header(row.header)
        if (header.kind, header.name) not in BESIDE and header.kind not in NOTES:
            return row
    return None


def refuse_lost(look: Reading, hold: Hold) -> None:
    """Raises LeaseLost when another worker has taken the run: for writes that are no entries of its journal."""
    lease = look.lease_of(hold.run_id)
    if lease is None or lease.epoch != hold.epoch:
        raise LeaseLost(hold.run_id, hold.epoch)


def release(runtime: Runtime, claimed: Claim, status: str) -> None:
    """Give a run back as it was found, unless somebody has taken it or ended it meanwhile."""

    def work(tx: Writing) -> None:
        tx.append(claimed.hold, [])  # the guard
        tx.set_run_status(claimed.run.key, status, runtime.clock.now())
        if not claimed.token:
            tx.release_lease(claimed.hold)
        else:  # who claimed it keeps the claim until the run has gone on
            hold = claimed.hold
            tx.take_lease(LeaseRow(hold.lease_key, hold.epoch, hold.head, hold.hash, None), claimed.token)

    runtime.claimed.discard(claimed.run.id)
    with suppress(LeaseLost):
        runtime.store.write(work)


# -- what people decided, taken under the new owner's epoch ------------------------------------------


class Decided(NamedTuple):
    """What was decided and nobody has taken yet: as entries, and what is used up by them."""

    entries: list[Entry]
    waits: list[str]
    requests: list[int]
    goes_back: bool  # what a mark calls over may have to be done again


def decided(runtime: Runtime, look: Reading, run: RunRow, ledger: Ledger, epoch: int) -> Decided:
    """What whoever goes on with the run has to take into its journal first."""
    from outlast.runs.waits.notes import notes_of

    at, notes = runtime.clock.now(), notes_of(runtime, epoch, run.trace_id)
    entries: list[Entry] = []
    waits: list[str] = []
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
            entries.append(_decision(call, kind, answer, decode(wait.payload), ledger, epoch, at))
            waits.append(wait.id)
        elif call.step in OF_THE_RUN:
            waits.append(wait.id)
        elif past is not None and past.finished:
            known = "what it asked about is known by now"
            entries += notes.closed(wait, known) if wait.id not in ledger.closed else []
            waits.append(wait.id)
    untaken = look.untaken(run.key)
    asked = [(kind, decode(body) | {"by": actor}) for _, kind, body, actor in untaken if kind != "pause"]
    entries += [_request(kind, body, ledger, epoch, at) for kind, body in asked]
    return Decided(entries, waits, [key for key, *_ in untaken], any(kind == "rewind" for kind, _ in asked))


def take_decisions(runtime: Runtime, claimed: Claim, ledger: Ledger) -> bool:
    """Write answers and requests into the journal. True if there were any: the ledger is to be read again."""
    hold = claimed.hold

    def work(tx: Writing) -> bool:
        made = decided(runtime, tx, claimed.run, ledger, hold.epoch)
        for wait in made.waits:
            tx.use_interrupt(wait)
        for key in made.requests:
            tx.take(key)
        if made.goes_back:
            tx.set_run_mark(hold.run_key, 0)
        tx.append(hold, made.entries)  # also when there are none: it is the guard
        return bool(made.entries)

    return runtime.store.write(work)


def _told(call: Call, wait: InterruptRow, epoch: int, at: int) -> Entry:
    """An answer that the flow itself is given, or that there will be none."""
    from outlast.runs.waits.ask import told_entry

    began, by, why = wait.opened_at, wait.answered_by, wait.reason
    return told_entry(call, wait.id, wait.type, wait.answer, by, epoch, at, why=why, began=began)


def is_late(wait: InterruptRow, at: int) -> bool:
    """Whether nobody has answered and the deadline has passed."""
    return wait.status == "open" and wait.due_at is not None and wait.due_at <= at and is_told(wait.type)


def in_time(wait: InterruptRow, at: int) -> InterruptRow:
    """The wait; one whose deadline has passed is answered by its default, or by nothing."""
    if not is_late(wait, at):
        return wait
    form = decode(wait.form)
    default = encode(form["default"]).decode() if "default" in form else None
    return wait._replace(status="answered", answer=default, answered_by=BY_DEADLINE)


def _place(call: Call) -> tuple[str, str, str, int, int]:
    """The fields of a header that name a call, and its attempt: the first."""
    return call.step, call.scope, call.inputs, call.occurrence, 1


def _request(kind: str, body: dict[str, Any], ledger: Ledger, epoch: int, at: int) -> Entry:
    if kind == "rewind":
        return run_fact("rewound", {"to": body["to"], "by": body["by"], "why": body["why"]}, epoch=epoch, at=at)
    answer: dict[str, Any] = {name: body[name] for name in ("why", "by", "result") if name in body}
    answer["choice"] = kind
    return _decision(Call(*body["call"]), body["kind"], answer, {}, ledger, epoch, at)


def _decision(
    call: Call, kind: str, answer: dict[str, Any], asked: dict[str, Any], ledger: Ledger, epoch: int, at: int
) -> Entry:
    import msgspec

    choice = answer["choice"]
    past = ledger.calls.get(call)
    tried, settles = past.attempts if past else 0, choice in ("skip", "reuse")
    facts: dict[str, Any] = {name: answer[name] for name in ("why", "by", "interrupt") if name in answer}
    header = Header(
        kind if settles else "decision",
        call.step,
        call.scope,
        call.inputs,
        call.occurrence,
        attempt=tried + 1 if settles else max(tried, 1),  # what was tried keeps its receipt
        mark="reused" if choice == "reuse" else "decided",
        started_at=at,
        ended_at=at,
        key=past.last.key if past else "",
        epoch=epoch,
    )
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
