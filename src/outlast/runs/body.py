"""From a claim to an outcome: running a flow's body, and writing how it ended.

Whatever ends a body, the last thing written is one transaction: everything that waited, the run's fact, its
status, its result, and the release of the lease. A crash before it leaves a run that is found `crashed`.

A run that failed is tried again by itself, at the failure, as often as its flow says (`@flow(retries=…)`).

Between two tries it waits for a time, as in a sleep: nobody holds it, and whoever wakes runs that are due wakes it too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import msgspec

from outlast import errors, failpoints
from outlast.clock import moment
from outlast.errors import OutlastError, Paused, Severed, Stopped
from outlast.home.caller import Acceptance as Acceptance
from outlast.ledger.journal import JournalEntry, Payload
from outlast.ledger.verdict import Reason, Verdict, judge
from outlast.runs import call_plain as calls
from outlast.runs import claim as claims
from outlast.runs import failure, journal, journal_writer
from outlast.runs.attempt import CURRENT, Frame
from outlast.runs.call import Call, Past, count_death, fold, labels
from outlast.runs.call_logic import is_ours
from outlast.runs.claim import RunClaim
from outlast.runs.execution import Execution
from outlast.runs.found import FoundRun, broken_reasons, find, find_newer, refuse_unknown_end
from outlast.runs.journal import wait_digest
from outlast.runs.journal_writer import Entries
from outlast.runs.run import Outcome, RecordStatus, RunError
from outlast.runs.stops import PERSON
from outlast.runs.under_way import unrecorded
from outlast.runs.waits.interrupt import DEADLINE, RETRY, is_for_people, is_told
from outlast.runs.waits.stored import notes_of, waits_now
from outlast.store.contract import Ending, InterruptRow, Writing
from outlast.values.ambient import folded
from outlast.values.codec import Decode, decode, digest, encode, pack
from outlast.values.frozen import NamedTuple
from outlast.values.late import asyncio, late

if TYPE_CHECKING:
    from outlast.flows.spec import FlowSpec
    from outlast.home.home import Home
    from outlast.runs import branches, call_async
    from outlast.runs import child as children
    from outlast.runs import outlook as planning
    from outlast.runs.live import Executor
    from outlast.runs.queues import queue
    from outlast.workspace.recall import search
else:
    branches = late("outlast.runs.branches")
    call_async = late("outlast.runs.call_async")
    children = late("outlast.runs.child")
    planning = late("outlast.runs.outlook")
    queue = late("outlast.runs.queues.queue")
    search = late("outlast.workspace.recall.search")


_RETRY_LOOK_SECONDS = 0.2


def try_later(execution: Execution, error: BaseException) -> bool:
    """Whether a run that this ended is tried again: that, and when, is on disk then."""
    number = execution.ledger.retried + 1
    call = Call("", RETRY, "", number)
    due = execution.clock.now() + int(execution.retry.delay(number, execution.luck(call, number)) * 1_000_000)
    if not _is_worth_it(execution, error, number, due):
        return False
    kept, undone = failure.record(error), execution.endings.ended_by(error)
    facts = {"retry": number, "of": execution.retry.retries, "due": due, "error": kept}
    facts["ended_by"] = [list(call) for call in undone]
    execution.writer.note(execution.writer.fact("run", "retrying", facts))
    shown = {"due": moment(due).isoformat(timespec="seconds"), "retry": number, "of": execution.retry.retries}
    shown["error"] = f"{kept['type'].rpartition(':')[2]}: {kept['message'][:200]}"
    execution.open_wait(call, "timer", shown, due)
    failure.say_tried_again(execution, kept, number, execution.retry.retries)
    return True


def _is_worth_it(execution: Execution, error: BaseException, number: int, due: int) -> bool:
    """Not when it was called off or stopped, nor when it would be too late, nor for what would be refused again."""
    if number > execution.retry.retries or not execution.retry.takes(error) or is_ours(error):
        return False
    return not execution.stopping and not (execution.deadline_at and due >= execution.deadline_at)


def seconds_left(executor: Executor, outcome: Outcome[Any]) -> float | None:
    """How long to wait here before the next try; None when there is none, or it is so long that others see to it."""
    if outcome.status != "waiting" or not executor.waits_for_retries:
        return None
    home = executor.home
    waits = [wait.due_at for wait in outcome.interrupts if wait.step == RETRY and wait.due_at is not None]
    left = min(((due - moment(home.clock.now())).total_seconds() for due in waits), default=None)
    return None if left is None or left > home.settings.sleep_in_place_seconds else max(left, 0.0)


def wait(executor: Executor, seconds: float) -> bool:
    """Until the next try. False when this process was asked to stop meanwhile: the run stays asleep."""
    stops = executor.live.stops
    while seconds > 0 and executor.live.stops == stops:
        executor.home.clock.sleep(min(seconds, _RETRY_LOOK_SECONDS))
        seconds -= _RETRY_LOOK_SECONDS
    return executor.live.stops == stops


async def wait_async(executor: Executor, seconds: float) -> bool:
    """The same on an event loop."""
    stops = executor.live.stops
    while seconds > 0 and executor.live.stops == stops:
        await executor.home.clock.sleep_async(min(seconds, _RETRY_LOOK_SECONDS))
        seconds -= _RETRY_LOOK_SECONDS
    return executor.live.stops == stops


def prepare(
    executor: Executor, claimed: RunClaim, accept: Acceptance, spec: FlowSpec | None = None
) -> tuple[Execution, Verdict | None]:
    """Make a claimed run ready to go on. Raises Contested, giving the run back, when it may not."""
    is_new = claimed.found == "new"
    verdict: Verdict | None
    try:
        executor.live.heartbeat.start()  # first: without it the lease would run out while the run goes on
        if is_new:
            execution = Execution(executor, claimed.hold, fold(()), claimed.run.trace_id, resumed=False)
            execution.row, verdict = claimed.run, None
        else:
            execution, verdict = _recover(executor, claimed, accept, spec)
        execution.flow_code = spec.code if spec is not None else ""
    except BaseException:
        claims.release(executor.home, claimed, "interrupted" if is_new else claimed.found)
        raise
    execution.task, execution.flow = claimed.run.task, claimed.run.flow
    return execution, verdict


def _recover(
    executor: Executor, claimed: RunClaim, accept: Acceptance, spec: FlowSpec | None
) -> tuple[Execution, Verdict]:
    hold = claimed.hold
    found = _find(executor.home, claimed)
    refuse_unknown_end(found)
    _accepted(found, planning.standing(found, judge(broken_reasons(found))), accept)
    found = _with_starts(executor.home, claimed, found)
    if claims.take_decisions(executor.home, claimed, found.ledger):  # nothing is added to a record that nobody accepts
        found = _find(executor.home, claimed)
    suspects = _count_death(found, claimed)
    outlook = planning.outlook(executor, found, spec, claimed.silent_at, partial=accept.partial)
    verdict = outlook.verdict
    taken = _accepted(found, outlook.standing, accept)
    if refused := planning.unmatched(found, verdict, accept):
        raise refused
    execution = Execution(executor, hold, found.ledger, claimed.run.trace_id, resumed=True)
    execution.suspects, execution.row = suspects, found.run
    execution.silent_at, execution.partial, execution.marked = claimed.silent_at, accept.partial, found.run.mark
    for reason in taken:
        facts: dict[str, Any] = {"fingerprint": reason.fingerprint, "why": accept.why, "actor": executor.caller.actor}
        facts |= reason.to_dict()
        execution.writer.note(execution.writer.fact("run", "accepted", facts))
    facts = {"from": claimed.found, "verdict": verdict.word, "reasons": [r.to_dict() for r in verdict.reasons]}
    facts |= {"by": accept.by} if accept.by else {}
    facts |= {"death": claimed.death} if claimed.death else {}
    facts |= {"code": spec.code} if spec is not None and spec.code else {}
    execution.writer.note(execution.writer.fact("run", "resumed", facts))
    return execution, verdict


def _with_starts(home: Home, claimed: RunClaim, found: FoundRun) -> FoundRun:
    """The run, with what was under way when its owner died: from now on its journal says so."""
    if not claimed.left:
        return found
    starts = home.store.read(lambda look: unrecorded(look, found, claimed.left, claimed.hold.epoch))
    if not starts:
        return found
    home.store.write(lambda tx: tx.append(claimed.hold, starts))
    return home.store.read(lambda look: find_newer(look, found))


def _accepted(found: FoundRun, standing: Iterable[Reason], accept: Acceptance) -> tuple[Reason, ...]:
    """What contests the run and is accepted only now. Raises Contested when something of it is not."""
    standing = tuple(standing)
    if not all(accept.takes(reason.code, reason.subject) for reason in standing):
        raise planning.contested(found.run.id, standing)
    return standing


def _count_death(found: FoundRun, claimed: RunClaim) -> set[Call]:
    """The calls that were under way when the owner before died; each of them knows it from now on."""
    suspects = set(found.ledger.in_flight) if claimed.found == "crashed" else set()
    if suspects:
        count_death(found.ledger, claimed.death)
    return suspects


def _find(home: Home, claimed: RunClaim) -> FoundRun:

    def look(reading: Any) -> FoundRun:
        lease = reading.lease_of(claimed.run.id)
        return find(reading, reading.run_by_id(claimed.run.id), lease)

    return home.store.read(look)


# -- running a body ----------------------------------------------------------------------------------


class Living:
    """The run is live in this process: its lease is renewed, its threads are known."""

    def __init__(self, executor: Executor, execution: Execution) -> None:
        self._executor, self._execution = executor, execution

    def __enter__(self) -> Frame:
        self._executor.live.enter(self._execution)
        calls.enter_process()
        return Frame(self._execution)

    def __exit__(self, *_: object) -> None:
        calls.leave_process()
        self._executor.live.leave(self._execution)
        self._execution.let_go()
        if self._executor.home.recall_due:  # something was recorded
            search.keep_up_all(self._executor.home)


def run_plain(executor: Executor, execution: Execution, body: Callable[[], Any], back: Decode) -> Outcome[Any]:
    """Run a plain body to its end and write the end. Raises what stopped it from outside."""
    with Living(executor, execution) as frame:
        token = CURRENT.set(frame)
        try:
            result = body()
            execution.made.refuse_left()
            for child in execution.children:
                child.settle()
            ended: Any = None
        except BaseException as error:
            result, ended = None, error
        finally:
            CURRENT.reset(token)
        if execution.children:
            children.let_end(execution, ended)
        # threads of the body may be inside a call: a run is not over while something is done in its name
        while execution.open and isinstance(ended, Exception | None) and execution.writer.severed is None:
            time.sleep(0.005)
        return end(executor.home, execution, result, ended, back)


async def run_async(
    executor: Executor, execution: Execution, body: Callable[[], Coroutine[Any, Any, Any]], back: Decode
) -> Outcome[Any]:
    """The same for an async body, on the running loop."""
    branches.watch_tasks(asyncio.get_running_loop())
    with Living(executor, execution) as frame:
        tasks = execution.branches = branches.Branches(execution.turns())
        try:
            result = await branches.run_body(execution, tasks, body(), frame)
            for child in execution.children:
                await child.settle_async()
            ended: Any = None
        except BaseException as error:
            result, ended = None, error
        if execution.children:
            await call_async.in_thread(lambda: children.let_end(execution, ended))
        return await end_async(executor.home, execution, result, ended, back)


def end(home: Home, execution: Execution, result: Any, error: BaseException | None, back: Decode) -> Outcome[Any]:
    """Write how a body ended. What asked it to stop from outside is raised again afterwards."""
    ending = _end(home, execution, result, error, back)
    try:
        last = next(ending)
        try:
            home.store.finish(last.ticket)
        except OutlastError as refused:
            ending.throw(refused)
        next(ending)
    except StopIteration as done:
        return cast("Outcome[Any]", done.value)
    raise AssertionError("a run ends once")


async def end_async(
    home: Home, execution: Execution, result: Any, error: BaseException | None, back: Decode
) -> Outcome[Any]:
    """The same on an event loop: runs that end at once share a commit."""
    ending, cancelled = _end(home, execution, result, error, back), None
    try:
        last = next(ending)
        try:
            _, cancelled = await journal_writer.finish(home.store, last.ticket)
        except OutlastError as refused:
            ending.throw(refused)
        next(ending)
    except StopIteration as done:
        if cancelled is not None:
            raise cancelled from None
        return cast("Outcome[Any]", done.value)
    raise AssertionError("a run ends once")


Ends = Generator[Entries, None, Outcome[Any]]  # yields what is to be written, once


def _end(home: Home, execution: Execution, result: Any, error: BaseException | None, back: Decode) -> Ends:
    execution.over = True
    execution.made.close()
    if failpoints.armed:
        failpoints.armed("run.ended")
    try:
        if execution.writer.severed is not None:
            raise execution.writer.severed
        outcome = yield from _finish(home, execution, _waiting(execution, _ended(execution, result, error, back)))
        home.store.still_there(after_commit=True)
    except errors.LeaseLost as lost:
        return _aborted(home, execution, lost)
    except Severed as cut:
        severed = execution.writer.severed
        if not isinstance(severed, errors.LeaseLost):
            raise severed or cut from None
        return _aborted(home, execution, severed)
    if outcome.status == "interrupted" and error is not None and not _is_stop(error):
        raise error
    return outcome


def _is_stop(error: BaseException) -> bool:
    """Whether it is our own word that ended a body; `asyncio.TaskGroup` puts what its tasks end with into a group."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_stop, error.exceptions))
    return isinstance(error, Stopped | Severed)


class BodyEnd(NamedTuple):
    """How a body ended, before it is written."""

    status: str
    raw: bytes | None = None
    result: Any = None
    error: BaseException | None = None


def _ended(execution: Execution, result: Any, error: BaseException | None, back: Decode) -> BodyEnd:
    """Succeeded only if nothing is left in doubt: a flow cannot cancel or catch its way past a question.

    One that was asked to stop and came to its end all the same has succeeded.
    """
    if execution.called_off is not None and not isinstance(error, Exception) and (error or execution.cut_short):
        return BodyEnd("failed", error=execution.called_off)
    if execution.paused or isinstance(error, Paused):
        return BodyEnd("waiting")
    if isinstance(error, Exception):
        return BodyEnd("failed", error=error)
    if execution.cut_short or error is not None:
        return BodyEnd("interrupted", error=error)
    if any(is_for_people(kind) for kind in execution.waits.values()):
        return BodyEnd("waiting")
    try:
        raw, copy = pack(result, back, "the flow's result")
    except OutlastError as refused:
        return BodyEnd("failed", error=refused)
    return BodyEnd("succeeded", raw, copy)


def _waiting(execution: Execution, ended: BodyEnd) -> BodyEnd:
    """The same end; of a run that is tried again later a wait for that. What waits is woken for its deadline too."""
    if ended.status == "failed" and ended.error is not None and try_later(execution, ended.error):
        ended = BodyEnd("waiting")
    if ended.status == "waiting" and execution.deadline_at:
        shown = {"due": moment(execution.deadline_at).isoformat(timespec="seconds")}
        execution.open_wait(Call("", DEADLINE, "", 0), "timer", shown, execution.deadline_at)
    return ended


def _aborted(home: Home, execution: Execution, lost: errors.LeaseLost) -> Outcome[Any]:
    """The lease is gone: given up by somebody (then that is the outcome), or taken by another worker."""
    row = home.store.read(lambda look: look.run_by_id(execution.id))
    if row is None or row.status != "aborted":
        raise lost
    return Outcome(execution.id, "aborted", error=RunError(decode(row.error)) if row.error else None)


def _finish(home: Home, execution: Execution, ended: BodyEnd) -> Ends:
    error = ended.error
    left = _left_over(execution) if ended.status == "succeeded" else {}
    changed = [label for label, past in left.items() if past.call.step in execution.ran]
    kept = failure.record(error) if error is not None and not _is_stop(error) else None
    undone = execution.endings.ended_by(error) if ended.status == "failed" and error is not None else []
    stored = _stored_result(home, ended.raw) if ended.raw is not None else None
    by = execution.stopped_by or (
        PERSON if isinstance(error, KeyboardInterrupt) else ""
    )  # its flow, its loop: not known
    stopped_by = by if ended.status == "interrupted" else ""
    waits = _waits(home, execution) if ended.status == "waiting" else []
    facts = {
        "unasked": list(left),
        "inputs_changed": changed,
        "ended_by": [list(call) for call in undone],
        "error": kept,
        "code_changed": sorted(execution.code_changed),
        "result": digest(stored.encode()) if stored is not None else None,
        "code": execution.flow_code if ended.status == "succeeded" else "",
        "waits": {row.id: wait_digest(row) for row in waits},  # in short: so that nobody can move or change it unseen
        "interrupts": [{"id": row.id, "type": row.type, "step": row.step} | _child(row) for row in waits],
        "by": stopped_by,
    }
    told = {name: fact for name, fact in facts.items() if fact}
    yield _last_entries(home, execution, ended.status, stored, kept, told)
    if ended.status == "failed" and kept is not None:
        failure.say_failed(execution, kept)
    return Outcome(
        execution.id,
        cast(RecordStatus, ended.status),
        ended.result,
        tuple(waits_now(home, execution.hold.run_key)) if ended.status == "waiting" else (),
        RunError.of(kept),
        replayed_steps=execution.replayed,
        unasked=tuple(left),
        inputs_changed=tuple(changed),
        stopped_by=stopped_by,
        exception=folded(error) if isinstance(error, Exception) else None,
    )


def _child(row: InterruptRow) -> dict[str, str]:
    return {"child": str(decode(row.payload)["child"])} if row.type == "child" else {}


def _waits(home: Home, execution: Execution) -> list[InterruptRow]:
    key, calls = execution.hold.run_key, {encode(list(call)).decode() for call in execution.waits}
    return [row for row in home.store.read(lambda look: look.waits_of(key)) if row.call in calls]


def _last_entries(
    home: Home,
    execution: Execution,
    status: str,
    stored: str | None,
    error: dict[str, Any] | None,
    facts: dict[str, Any],
) -> Entries:
    hold = execution.hold
    kept = encode(error).decode() if error else None
    ending = Ending(status, execution.phase, stored, kept, home.clock.now())
    is_awaited = status == "succeeded" and hold.run_id in home.held.receiving  # by somebody here
    receiver = home.process.id if is_awaited else ""

    def work(tx: Writing) -> list[JournalEntry]:
        waits = tx.waits_of(hold.run_key)
        told = execution.news_of(waits) if waits else []
        for wait in waits:
            call = Call(*decode(wait.call))
            is_open = wait.status == "open"
            is_given_up = status == "waiting" and is_open and is_told(wait.type) and call not in execution.waits
            if status == "succeeded" or call in execution.settled or is_given_up:
                tx.use_interrupt(wait.id)
                if is_open:  # nobody needs to answer it any more
                    known = call in execution.settled
                    why = "its probe knows what became of it" if known else "it is not asked any more"
                    told += notes_of(home, hold.epoch, execution.trace_id).closed(wait, why)
        tx.end_run(hold.run_key, ending)
        tx.set_receiver(hold.run_key, receiver)
        queue.note_end(tx, hold.run_key, status, execution.stopped_by)
        return told

    return execution.last_entries(facts, ending, receiver, work, _kept(stored))


def _kept(stored: str | None) -> Payload:
    """A result, or where it is, for the entry with which the run ends."""
    if stored is None:
        return Payload()
    found = msgspec.json.decode(stored, type=dict[str, msgspec.Raw])
    return Payload(blob=decode(bytes(found["blob"]))) if "blob" in found else Payload(result=found["value"])


def _stored_result(home: Home, raw: bytes) -> str:
    if len(raw) > home.settings.inline_bytes:
        return encode({"blob": home.blobs.put(raw)}).decode()
    return '{"value":' + raw.decode() + "}"


def _left_over(execution: Execution) -> dict[str, Past]:
    """Receipts that the body never asked for, by their names for people."""
    left = execution.unasked()
    if not left:
        return {}

    def look(reading: Any) -> dict[Call, str]:
        return labels(journal.read(reading, reading.run_by_id(execution.id)).rows)

    names = execution.store.read(look)
    return {names[past.call]: past for past in left if past.call in names}


# -- a body that is the user's own code, not a function ----------------------------------------------


class OpenBody:
    """How a `with outlast.open(…)` block ended."""

    outcome: Outcome[Any] | None = None


@contextmanager
def body(executor: Executor, execution: Execution) -> Iterator[OpenBody]:
    """The block is the body: its end is written like any other, and its exceptions go on to the caller."""
    ended = OpenBody()
    with Living(executor, execution) as frame:
        token = CURRENT.set(frame)
        error: BaseException | None = None
        try:
            yield ended
            execution.made.refuse_left()
            for child in execution.children:
                child.settle()
        except BaseException as raised:
            error = raised
        finally:
            CURRENT.reset(token)
        if execution.children:
            children.let_end(execution, error)
        ended.outcome = end(executor.home, execution, None, error, decode)
    if error is not None and not isinstance(error, Paused | Stopped | Severed):
        raise error
