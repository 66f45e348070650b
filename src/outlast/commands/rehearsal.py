"""A flow file gone through as a resume goes through it, up to what it would run: nothing is run and nothing written.

The calls are asked for by the code that a resume asks for them with, so what is found here is what happens then: as
far as the file and the receipts tell. A command is taken to succeed, a condition that is asked again to say what it
said, and one that was never asked, or whose no has ended the run, to hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import copy_context
from functools import cached_property
from typing import Any, NoReturn, TypeVar

from outlast.commands.flow import Lane, Performance
from outlast.commands.leftovers import previous, why_asked
from outlast.commands.step import CommandSpec, Setting
from outlast.errors import OutlastError, Paused
from outlast.flows.yaml.flow import FlowFileSpec, bind_inputs
from outlast.flows.yaml.model import Foreach, Pause, SubFlow
from outlast.home.home import run_row
from outlast.ledger.journal import CALLS, JournalEntry, Row, decode_payload
from outlast.runs import journal
from outlast.runs.attempt import CURRENT, Frame, StepCall
from outlast.runs.call import GOOD, Call, Changed, Doubtful, Fresh, Ledger, Past, Poisoned, Replay, copy_of, fold
from outlast.runs.execution import Execution
from outlast.runs.found import FoundRun
from outlast.runs.live import Executor
from outlast.runs.outlook import plan
from outlast.runs.plan import READS, Action, Rehearsed
from outlast.runs.replay.execution import Replaying
from outlast.runs.rewind import LINES
from outlast.runs.run import FINISHED
from outlast.runs.step import StepSpec
from outlast.runs.waits.stored import waits_now
from outlast.store.contract import Hold, RunRow
from outlast.values.codec import decode

P = TypeVar("P", bound="OnReceipts")
STOPS = (Paused, OutlastError, OSError)  # what ends a flow file, or a branch of it: no mistake of ours
OTHER_LINES = "the file has other lines"
KEPT = "the run of another flow is kept as it is; to do it again, fork this run from before it, or go back in that run"
OF_STEPS = ("in_doubt", "crash_loop", "inputs_changed", "partial")  # questions that a plan names by their step: decide
BACK = "a step that was left unfinished says resume_to"


def rehearse(
    executor: Executor, found: FoundRun, spec: FlowFileSpec, silent_at: int, partial_work: str = ""
) -> Rehearsed:
    """Go through the flow file of a run. `partial_work`: keep, restore, as it is said for a resume."""
    execution = Rehearsing(executor, found, silent_at)
    execution.partial = partial_work
    body = body_on_receipts(execution, spec, decode(found.run.inputs), Rehearsal)
    token = CURRENT.set(Frame(execution))
    try:
        body.perform()
    except STOPS:  # it waits there, or a failure that it was given before ends it again
        body.is_through = False
    finally:
        CURRENT.reset(token)
        execution.over = True
    return Rehearsed(body.all_actions(found.ledger), tuple(dict.fromkeys(body.ahead)))


def body_on_receipts(execution: Replaying, spec: FlowFileSpec, inputs: dict[str, Any], kind: type[P]) -> P:
    """A flow file's body, to be gone through on receipts. Its secrets are not asked for: no command is run."""
    setting = Setting(execution.executor, spec.definition, spec.file, bind_inputs(spec.definition, inputs), {})
    return kind(execution, spec.definition, setting, spec.source)


class _NoMirror:
    def catch_up(self) -> None:
        """No receipt is new."""


class OnReceipts(Performance):
    """A flow file, gone through on receipts: no process is looked for, no file or folder touched."""

    looks_at_files = False
    mirror: Any = _NoMirror()

    def perform(self) -> dict[str, Any]:
        frame = CURRENT.get()
        assert frame is not None
        return self._walk(Lane(frame, self.setting))

    def _tidy(self, asked: StepCall) -> None:
        """There is nothing to tidy up."""

    def _close(self, path: str, number: int, last: StepCall | None) -> None:
        """No marks are made."""

    def _end_declined(self, node: Pause) -> NoReturn:
        """The run was given up here: that is on record, and not done again."""
        self.execution.paused = True
        raise Paused


class Rehearsing(Replaying):
    """An execution that finds out what each call would do."""

    def __init__(self, executor: Executor, found: FoundRun, silent_at: int) -> None:
        run, last = found.run, found.rows[-1] if found.rows else Row(0, b"", b"", None)
        hold = Hold(run.key, run.id, 0, 0, last.seq, last.hash)
        super().__init__(executor, hold, copy_of(found.ledger), run.trace_id, is_over=False)
        self.silent_at, self.marked = silent_at, run.mark
        self.found = found

    def ask(self, frame: Frame, spec: StepSpec, args: tuple[Any, ...], kwargs: Any, call_id: str | None) -> StepCall:
        return Execution.ask(self, frame, spec, args, kwargs, call_id)

    def open_wait(self, call: Call, kind: str, *asked: Any, **__: Any) -> tuple[str, str, str] | None:
        """The call waits, unless the signal that it waits for came before."""
        super().open_wait(call, kind)
        if kind != "signal":
            return None
        came = self.executor.home.store.read(lambda look: look.untaken_signals(self.found.run))
        return ("", "null", "") if asked[0]["name"] in came else None

    def go_back(self, rewound: JournalEntry) -> None:
        known, rows, flaws = self.ledger.calls, self.found.rows, self.found.flaws
        if self.marked:
            rows, flaws, _ = self.executor.home.store.read(lambda look: journal.read(look, self.found.run))
            ahead = [row for row in self.found.rows if row.seq > self.found.lease.head]  # that are still to be written
            rows = [*rows, *ahead]
        self.ledger = fold([*rows, Row(self.hold.head + 1, rewound.header, b"", rewound.payload)], flaws)
        for call, past in self.ledger.calls.items():  # deaths of its process that are not on the record yet
            if call in known:
                past.crashes, past.shared = known[call].crashes, known[call].shared
        self.marked = 0


class Rehearsal(OnReceipts):
    """A flow file, gone through without running it."""

    looks_at_files = True

    def __init__(self, execution: Rehearsing, *rest: Any) -> None:
        super().__init__(execution, *rest)
        self.rehearsing = execution
        self.actions: dict[Call, Action] = {}
        self.ahead: list[str] = []
        self.is_through = True

    def perform(self) -> dict[str, Any]:
        return self._go_on()

    def all_actions(self, ledger: Ledger) -> dict[Call, Action]:
        """With the calls that it did not come to: they come later, or in a flow that ended without them not at all."""
        calls = [past.call for past in ledger.calls.values() if past.kind in CALLS]
        met = {call: self.actions[call] for call in calls if call in self.actions}
        if self.closed:  # of a loop that is partly over the mark has what it did
            return met
        other = Action("leave", "the flow does not ask for it any more") if self.is_through else Action("later")
        return {call: met.get(call, other) for call in calls}

    # -- calls -----------------------------------------------------------------------------------

    def _drive(self, asked: StepCall, lane: Lane) -> Any:
        asked.lane = lane
        found = self._meets(asked)
        lane.before = asked
        if isinstance(asked.next, Replay):
            return self.execution.recorded(asked, asked.next.past)
        if found.word == "decide":
            raise Paused
        return {"holds": self._would_hold(asked)} if _is_condition(asked) else None

    def _would_hold(self, asked: StepCall) -> bool:
        """What a condition is taken to say: as it did, if it was set aside after it had said it."""
        past = _begun(self.execution.ledger, asked.call)
        if past is None or not (past.aside and past.payload and past.last.status in GOOD):
            return True
        return self._is_yes(self.execution.result_of(decode_payload(past.payload), asked.spec))

    def _meets(self, asked: StepCall) -> Action:
        """What a resume does at this call."""
        match asked.next:
            case Replay(past):
                return self._acts(past, Action("raise_again" if past.ended_badly else "reuse"))
            case Doubtful(past):
                return self._acts(past, Action("confirm" if asked.spec.confirm is not None else "decide"))
            case Poisoned(past):
                return self._acts(past, Action("decide", "its process died in it too often"))
            case Changed(past):
                return self._acts(past, Action("decide", f"{READS}, or it is asked for elsewhere in the flow"))
            case Fresh():
                return self._tried(asked)

    def _tried(self, asked: StepCall) -> Action:
        """One that is run: again, anew, or for the first time."""
        same = _begun(self.execution.ledger, asked.call)
        found = _begun(self.rehearsing.found.ledger, asked.call)  # before anything was set aside here
        past = found or same or self._other_inputs(asked.call)
        before = previous(self.execution, asked, asks_git=False)
        why = why_asked(self.execution, asked.spec, before)
        if past is None:
            if not _is_condition(asked):
                self.ahead.append(asked.call.path)
            return Action("decide") if why else Action("retry")
        if why:
            return self._acts(past, Action.about_files(why, before.left.shared if before.left else ""))
        is_set_aside = found is not None and not found.aside and (same is None or same.aside)
        because = BACK if is_set_aside else "" if same else READS
        return self._acts(past, Action("redo" if past.finished else "retry", because))

    def _other_inputs(self, call: Call) -> Past | None:
        """The newest call of this step in this scope, if it had other inputs and nobody has asked for it."""
        alike = [past for past in self._by_step.get(call[:2], ()) if not past.asked]
        return max(alike, key=lambda past: past.seq, default=None)

    @cached_property
    def _by_step(self) -> dict[tuple[str, str], list[Past]]:
        found: dict[tuple[str, str], list[Past]] = {}
        for past in self.execution.ledger.calls.values():
            if past.kind in CALLS:
                found.setdefault(past.call[:2], []).append(past)
        return found

    def _acts(self, past: Past, action: Action) -> Action:
        self.actions[past.call] = action
        return action

    def _note(self, asked: StepCall, status: str, facts: dict[str, Any], result: Any = None) -> None:
        """Nothing is written."""

    def _remark(self, lane: Lane, name: str, status: str, facts: dict[str, Any], result: Any = None) -> StepCall:
        asked = self.execution.ask(lane.frame, self._remark_spec(name), ({},), {}, None)
        before = _begun(self.execution.ledger, asked.call)
        if isinstance(asked.next, Replay):
            self._meets(asked)
        elif before is not None:
            self._acts(before, Action("leave", facts["why"]) if status == "skipped" else Action("retry"))
        return asked

    def _over(self, node: Foreach | SubFlow, lane: Lane, facts: dict[str, Any], result: Any) -> None:
        """A node that stands for many: what it did is done, or will be; the run of another flow is kept as it is."""
        before = max(self._by_step.get((lane.frame.scope or "", node.id), ()), key=lambda past: past.seq, default=None)
        super()._over(node, lane, facts, result)
        if before is not None and isinstance(node, SubFlow) and self.actions.get(before.call) != Action("reuse"):
            self._acts(before, Action("reuse", KEPT))

    def _items(self, node: Foreach, lane: Lane) -> Sequence[Any]:
        """The items; and whether their lines are those on the record."""
        place = lane.frame.scope or "", f"{node.id}{LINES}"
        before = max(self._by_step.get(place, ()), key=lambda past: past.seq, default=None)
        items = super()._items(node, lane)
        if before is not None:
            is_same = Action("reuse") if before.finished else Action("retry")
            self._acts(before, is_same if before.asked or not before.finished else Action("redo", OTHER_LINES))
        return items

    def _together(self, what: str, works: Sequence[Callable[[], None]], limit: int) -> None:
        """One after another what a resume does side by side: each goes as far as it gets."""
        stopped = False
        for work in works:
            try:
                copy_context().run(work)
            except STOPS:
                stopped = True
        if stopped:
            raise Paused

    def _subflow(self, node: SubFlow, lane: Lane) -> None:
        """One that was begun is as its parent knows it; one that was not is taken to succeed."""
        scope = lane.frame.within(node.id).scope
        begun = [past for call, past in self.execution.ledger.calls.items() if call.scope == scope]
        if begun and not self._goes_on(begun[-1], scope or ""):
            super()._subflow(node, lane)
            return
        if not begun:
            self.ahead.append(f"{lane.frame.scope}{node.id}")
        self._over(node, lane, {}, None)

    def _goes_on(self, spawned: Past, scope: str) -> bool:
        """Whether a resume goes on with a run that this one began: what it runs there is ahead. Raises Paused."""
        facts = decode_payload(spawned.payload).facts if spawned.payload else {}
        executor = self.rehearsing.executor
        row = executor.home.store.read(lambda look: look.run_by_id(str(facts.get("child", ""))))
        if row is None or spawned.given or row.status == "aborted":
            return False
        if row.status in FINISHED:
            return True
        there = plan(executor, row)
        if there.refused is not None:
            raise Paused
        self.ahead += [f"{scope}{label}" for word in ("retry", "redo", "confirm") for label in there.of(word)]
        self.ahead += [f"{scope}{label}" for label in there.ahead]
        if there.of("decide") or _waits(executor, row):
            raise Paused
        return True


def _waits(executor: Executor, row: RunRow) -> bool:
    """Whether a run waits for what its flow, or that of a child, asked for: what people decide of steps is planned."""
    waits = [wait for wait in waits_now(executor.home, row.key) if wait.type not in OF_STEPS]
    found = [run_row(executor.home, str(wait.payload["child"])) for wait in waits if wait.type == "child"]
    if len(found) < len(waits):
        return True
    going_on = [child for child in found if child.status not in FINISHED]
    return any(plan(executor, child).of("decide") or _waits(executor, child) for child in going_on)


def _is_condition(asked: StepCall) -> bool:
    return isinstance(asked.spec, CommandSpec) and asked.spec.work.is_condition


def _begun(ledger: Ledger, call: Call) -> Past | None:
    """What is known of a call, but of one that was only decided on: it has no label of its own yet."""
    past = ledger.calls.get(call)
    return past if past is not None and past.kind != "decision" else None
