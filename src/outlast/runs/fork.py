"""A fork: a run of its own that takes over what another did before a step, and does the rest anew.

What is taken over is what going back to that step would keep (`rewind.py`); the other run is only read. All of a fork
is written in one transaction: it is there whole, or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

import msgspec

from outlast.errors import InputsInvalid, RunNotFound
from outlast.home.caller import Caller
from outlast.home.home import Home, run_row
from outlast.home.place import check_name
from outlast.ledger.journal import (
    CALLS,
    JournalEntry,
    Payload,
    Row,
    decode_header,
    decode_payload,
    entry,
    genesis,
)
from outlast.runs import claim as claims
from outlast.runs import holder as holders
from outlast.runs.call import PROBED, Call, Ledger, Past, labels
from outlast.runs.decisions import gone_back_to, look_ahead, once
from outlast.runs.effect import DoneEffect, agree, effects_of_run, effects_that
from outlast.runs.found import FoundRun, find
from outlast.runs.live import Executor
from outlast.runs.look import record_in
from outlast.runs.outputs.files import ODD
from outlast.runs.plan import Action, PlanStep, plan_steps
from outlast.runs.rewind import place_of
from outlast.runs.run import FORK, Options, RunRecord
from outlast.runs.same_flow import flow_of_run
from outlast.runs.start import pack_inputs
from outlast.runs.stops import PERSON
from outlast.store.contract import NewRun, Reading, RunRow, Writing
from outlast.values.codec import decode, identity, pack_json, pack_small
from outlast.values.frozen import NamedTuple

NAMED = 480  # characters of a task's name that its forks bear
OF_THE_OTHER = ("interrupt", "group")  # facts about rows and processes that are not the fork's


class Changes(NamedTuple):
    """What is to be another in the fork, and which effects may happen again."""

    inputs: Mapping[str, Any]
    state: Mapping[str, Any]
    reuse_effects: bool
    options: Options  # yes, effects
    why: str


class ForkDraft(NamedTuple):
    """A fork before it is written: of the other run as it was at a moment."""

    run: RunRow
    head: int
    step: str
    call: Call
    entries: list[JournalEntry]
    to: int  # the first entry of what is kept although it comes at the step or later
    effects: list[DoneEffect]  # that the fork repeats
    found: FoundRun
    taken: set[Call]  # whose outcomes it has


class ForkView(NamedTuple):
    """What a fork would be: nothing is written to see it."""

    steps: tuple[PlanStep, ...]
    effects: tuple[DoneEffect, ...]  # that it repeats


def view(executor: Executor, run_id: str, step: str, wanted: Changes) -> ForkView:
    """What a fork takes over and does anew. Raises StepNotFound, StepAmbiguous, RunSealed, IntegrityBroken."""
    draft = executor.home.store.read(lambda look: _drafted(executor.caller, look, run_id, step, wanted))
    ledger, poison = draft.found.ledger, executor.home.settings.crashes_before_asking
    anew = {call: Action("redo") for call in ledger.calls if call not in draft.taken}
    return ForkView(plan_steps(ledger, labels(draft.found.rows), poison, anew), tuple(draft.effects))


def fork(executor: Executor, run_id: str, step: str, wanted: Changes, operation_id: str | None) -> RunRecord:
    """A new run, which the next resume begins. Raises StepNotFound, RepeatsEffects, InputsInvalid, RunSealed."""
    pack_small({"state": dict(wanted.state), "why": wanted.why}, "fork")
    for name, value in wanted.state.items():
        pack_json(value, f"state[{check_name('state key', name)!r}]")
    inputs = _inputs(executor, run_id, wanted.inputs) if wanted.inputs else None
    seen = look_ahead(executor.home, lambda look: _drafted(executor.caller, look, run_id, step, wanted))
    new_id = executor.home.ids()

    def work(tx: Writing) -> None:
        is_new = seen is None or seen.head != _head(tx, run_id)
        draft = _drafted(executor.caller, tx, run_id, step, wanted) if seen is None or is_new else seen
        effects = agree("fork", draft.run.task, run_id, draft.effects, wanted.options)
        _write(executor.home, tx, draft, _new_run(executor.caller, tx, draft, new_id, inputs), wanted, effects)

    content = [run_id, step, dict(wanted.inputs), dict(wanted.state), wanted.reuse_effects]
    return once(executor.home, operation_id, "fork", content, work, lambda tx: record_in(executor.caller, tx, new_id))


def _inputs(executor: Executor, run_id: str, given: Mapping[str, Any]) -> bytes:
    """The other run's inputs with these in place of its own. Raises InputsInvalid, FlowNotFound, FlowElsewhere."""
    run = run_row(executor.home, run_id)
    spec = flow_of_run(executor, run)
    bound = spec.bind((), {**decode(run.inputs), **given})
    try:
        return pack_inputs(spec, spec.typed(bound))
    except InputsInvalid as error:
        raise InputsInvalid(spec.name, str(error.__cause__ or error.why), str(error.signature)) from error


# -- what is taken over ------------------------------------------------------------------------------


def _head(look: Reading, run_id: str) -> int:
    lease = look.lease_of(run_id)
    return lease.head if lease is not None else 0


def _drafted(caller: Caller, look: Reading, run_id: str, step: str, wanted: Changes) -> ForkDraft:
    run, lease = look.run_by_id(run_id), look.lease_of(run_id)
    if run is None or lease is None:
        raise RunNotFound(run_id)
    holders.refuse_sealed(run)
    found = find(look, run._replace(mark=0), lease)
    if found.unaccepted is not None:
        raise found.unaccepted.as_error()
    call, _ = gone_back_to(caller, look, run, found.rows, step, found.ledger)
    place = place_of(found.ledger, call)
    before = {past.call: past for past in found.ledger.calls.values() if past.first < place and _is_over(past)}
    kept_until = max((past.seq for past in before.values()), default=0)
    later_on = (past for past in found.ledger.calls.values() if past.first >= place and _stays(past, wanted))
    # Not a step that had been set aside before, of whose files something that is kept was made since: they are that's.
    after = {past.call: past for past in later_on if not (past.kind == "step" and past.aside and past.seq < kept_until)}
    refs = _refs(look, run)
    earlier = [*_needs(found.rows), *_taken(found, before, refs)]
    steps = {call: past for call, past in after.items() if past.kind == "step"}
    kept = {call: past for call, past in after.items() if call not in steps}
    later = [*map(_without_state, _taken(found, steps, refs)), *_taken(found, kept, refs)]
    taken = {*before, *kept}
    effects = list(_repeated(look, run, found.ledger, found.rows, taken))
    label = labels(found.rows).get(call, call.path)
    return ForkDraft(run, lease.head, label, call, [*earlier, *later], 2 + len(earlier), effects, found, taken)


def _is_over(past: Past) -> bool:
    """Whether a call that comes before the step is taken over: with its outcome, or in doubt as it is."""
    if past.kind == "decision" or (past.kind == "spawn" and not past.given):
        return False
    return past.kind not in (*CALLS, "wait") or past.finished or past.in_doubt


def _stays(past: Past, wanted: Changes) -> bool:
    """Whether a call that comes at the step or later is taken over: kept, or for the files that it left."""
    if past.kind == "step":
        return past.last.status != "started" and _writes(past.begun)
    return wanted.reuse_effects and past.kind in ("effect", "spawn") and _is_over(past)


def _writes(begun: bytes | None) -> bool:
    """Whether a step said when it began that it writes files: by that entry a fork knows how they were before it."""
    if begun is None or b'"declared":' not in begun:
        return False
    try:
        return bool(decode_payload(begun).facts["declared"]["writes"])
    except ODD:  # it was damaged, and somebody has accepted that
        return False


def _refs(look: Reading, run: RunRow) -> dict[int, tuple[str, ...]]:
    """The blobs that each entry of a run names."""
    found: dict[int, tuple[str, ...]] = {}
    for seq, name in look.blob_refs_upto(run.key, _head(look, run.id)):
        found[seq] = (*found.get(seq, ()), name)
    return found


def _taken(found: FoundRun, calls: Mapping[Call, Past], refs: Mapping[int, tuple[str, ...]]) -> list[JournalEntry]:
    """The last entry of each of these calls, and its start where that says more; by their places."""
    places, starts = {past.seq: past.first for past in calls.values()}, dict[Call, Row]()
    for row, header in ((row, decode_header(row.header)) for row in found.rows):
        call = Call(header.scope, header.name, header.inputs, header.occurrence)
        past = calls.get(call)
        says_more = header.kind == "step" or header.mark == PROBED  # how files were, or that a probe knows
        if past is not None and header.status == "started" and row.payload == past.begun and says_more:
            starts[call] = row
    places |= {row.seq: calls[call].first for call, row in starts.items()}
    chosen = sorted((row for row in found.rows if row.seq in places), key=lambda row: (places[row.seq], row.seq))
    return [
        _in_doubt(row, calls) if row.seq in found.flaws else _entry(row, found.ledger, refs.get(row.seq, ()))
        for row in chosen
    ]


def _in_doubt(row: Row, calls: Mapping[Call, Past]) -> JournalEntry:
    """A damaged receipt says nothing any more: that its effect was begun is all that the fork takes over."""
    header = decode_header(row.header)
    past = calls[Call(header.scope, header.name, header.inputs, header.occurrence)]
    begun = msgspec.structs.replace(past.last, status="started", delivered=False, ended_at=0, epoch=1, payload="")
    return entry(begun, Payload())


def _entry(row: Row, ledger: Ledger, blobs: tuple[str, ...]) -> JournalEntry:
    """An entry of the other run as one of the fork."""
    header = msgspec.structs.replace(decode_header(row.header), epoch=1, payload="")
    payload = decode_payload(row.payload) if row.payload is not None else Payload()
    payload = msgspec.structs.replace(payload, place=ledger.places.get(header.code, payload.place))
    if isinstance(payload.facts, dict):
        own = {name: value for name, value in payload.facts.items() if name not in OF_THE_OTHER}
        payload = msgspec.structs.replace(payload, facts=own)
    return entry(header, payload)._replace(blobs=blobs)


def _without_state(made: JournalEntry) -> JournalEntry:
    """The same of a step that is done anew: what it wrote is in no state."""
    if made.payload is None:
        return made
    payload = msgspec.structs.replace(decode_payload(made.payload), wrote=None, state=None)
    header = msgspec.structs.replace(decode_header(made.header), payload="")
    return entry(header, payload)._replace(blobs=made.blobs)


def _needs(rows: list[Row]) -> list[JournalEntry]:
    """What the steps of the other run asked for: a resume of the fork looks whether it is there."""
    wanted = (row for row in rows if row.header.startswith(b'["run","needs"'))
    return [_entry(row, Ledger(), ()) for row in wanted]


def _repeated(look: Reading, run: RunRow, ledger: Ledger, rows: list[Row], taken: set[Call]) -> Iterator[DoneEffect]:
    """The effects that the fork does again: its own, and those of child runs that it does not take over."""
    for each in effects_that(run.id, ledger, rows):
        if each[0] not in taken:
            yield each[1]
    spawned = (past for past in ledger.calls.values() if past.kind == "spawn" and past.call not in taken)
    for past in spawned:
        facts = decode_payload(past.payload).facts if past.payload else {}
        child = look.run_by_id(str(facts.get("child", "")))
        if child is not None:
            yield from (effect for _, effect in effects_of_run(look, child))


# -- writing -----------------------------------------------------------------------------------------


def _new_run(caller: Caller, look: Reading, draft: ForkDraft, new_id: str, inputs: bytes | None) -> NewRun:
    """The fork's own row: as the other's, under a task of its own."""
    run = draft.run
    raw = run.inputs if inputs is None else inputs.decode()
    return NewRun(
        id=new_id,
        scope=run.scope,
        flow=run.flow,
        task=_task(look, run),
        inputs=raw,
        inputs_digest=identity(raw.encode()),
        parent="",
        session=run.session,
        trace_id=run.trace_id,
        meta=run.meta,
        actor=caller.actor,
        at=caller.home.clock.now(),
        named=1,
        identity=run.identity,
        source=run.source,
        worktree=run.worktree,
        tags=tuple(look.tags_of(run.key)),
    )


def _task(look: Reading, run: RunRow) -> str:
    """The first name of a fork that nothing in this scope bears."""
    names = (f"{run.task[:NAMED]}{FORK}{number}" for number in count(1))
    free = (each for each in names if not look.unfinished_of_task(run.scope, each))
    return next(each for each in free if not look.finished_of_task(run.scope, each))


def _write(
    home: Home, tx: Writing, draft: ForkDraft, new: NewRun, wanted: Changes, effects: list[dict[str, Any]]
) -> None:
    """The fork, stopped before its first step."""
    began = {"flow": new.flow, "task": new.task, "actor": new.actor}
    origin = {"run": draft.run.id, "step": draft.step}
    facts = {
        **{"of": draft.run.id, "step": draft.step, "call": list(draft.call), "to": draft.to},
        **{"by": new.actor, "why": wanted.why, "effects": effects, "reuse_effects": wanted.reuse_effects},
        "inputs": sorted(wanted.inputs),
        "state": {name: [value] for name, value in wanted.state.items()},
    }

    def fact(name: str, told: dict[str, Any]) -> JournalEntry:
        return claims.run_fact(name, told, epoch=1, at=new.at, trace_id=new.trace_id)

    start = genesis(new.id, new.flow, new.task, new.inputs_digest)
    last = [fact("forked", facts), fact("interrupted", {"by": PERSON})]
    claimed = claims.add(home, tx, new, start, {**began, "origin": origin}, [*draft.entries, *last])
    home.held.claimed.discard(new.id)
    tx.set_run_status(claimed.hold.run_key, "interrupted", new.at)
    tx.release_lease(claimed.hold)
