"""A flow file gone through as a resume goes through it, up to what it would run: nothing is run and nothing written.

The calls are asked for by the code that a resume asks for them with, so what is found here is what happens then: as
far as the file and the receipts tell. A command is taken to succeed, a condition that was never asked to hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from outlast.commands.items import labelled
from outlast.errors import Paused
from outlast.flows.spec import StepSpec
from outlast.flows.yaml.flow import RecipeSpec
from outlast.flows.yaml.model import Foreach, Parallel, SubFlow
from outlast.ledger.journal import CALLS, Entry, Row
from outlast.runs import journal
from outlast.runs.attempt import Asked
from outlast.runs.call import Call, Changed, Doubtful, Fresh, Ledger, Past, Poisoned, Replay, copy_of, fold
from outlast.runs.context import CURRENT, Frame
from outlast.runs.execution import Execution
from outlast.runs.plan import Action
from outlast.runs.recovery import Found
from outlast.runs.replay.execution import Lane, OnReceipts, Replaying
from outlast.runs.replay.replay import recipe_body
from outlast.store.contract import Hold
from outlast.values.codec import decode
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.home.home import Runtime

Asks = Callable[[Execution, Asked], str]  # why a person would be asked before this call is tried again
READS = "what it reads has changed"
BACK = "a step that was left unfinished says resume_to"


class Rehearsed(NamedTuple):
    """What a resume will do: with each call that the ledger knows, and which steps follow that have no receipt."""

    actions: dict[Call, Action]
    ahead: tuple[str, ...]


def rehearse(runtime: Runtime, found: Found, spec: RecipeSpec, silent_at: int, asks: Asks) -> Rehearsed:
    """Go through the flow file of a run."""
    execution = Rehearsing(runtime, found, silent_at)
    body = recipe_body(execution, runtime, decode(found.run.inputs), spec, Rehearsal)
    body.asks = asks
    token = CURRENT.set(Frame(execution))
    try:
        body.perform()
    except AssertionError:  # nothing that a flow file does: it is ours, and no plan is better than a wrong one
        raise
    except (Paused, Exception):  # it waits there, or a failure that it was given before ends it again
        body.is_through = False
    finally:
        CURRENT.reset(token)
        execution.over = True
    return Rehearsed(body.all_actions(found.ledger), tuple(dict.fromkeys(body.ahead)))


class Rehearsing(Replaying):
    """An execution that finds out what each call would do."""

    def __init__(self, runtime: Runtime, found: Found, silent_at: int) -> None:
        run, last = found.run, found.rows[-1] if found.rows else Row(0, b"", b"", None)
        hold = Hold(run.key, run.id, 0, 0, last.seq, last.hash)
        super().__init__(runtime, hold, copy_of(found.ledger), run.trace_id, is_over=False)
        self.silent_at, self.marked = silent_at, run.mark
        self.found = found

    def ask(self, frame: Frame, spec: StepSpec, args: tuple[Any, ...], kwargs: Any, call_id: str | None) -> Asked:
        return Execution.ask(self, frame, spec, args, kwargs, call_id)

    def open_wait(
        self,
        call: Call,
        kind: str,
        payload: dict[str, Any],
        due: int | None = None,
        form: Mapping[str, Any] | None = None,
        signal: str | None = None,
        item: int = 0,
    ) -> tuple[str, str, str] | None:
        """The call waits, unless the signal that it waits for came before."""
        super().open_wait(call, kind, payload, due, form, signal, item)
        came = self.runtime.store.read(lambda look: look.untaken_signals(self.found.run)) if signal else []
        return ("", "null", "") if signal in came else None

    def go_back(self, rewound: Entry) -> None:
        known, rows, flaws = self.ledger.calls, self.found.rows, self.found.flaws
        if self.marked:
            rows, flaws, _ = self.runtime.store.read(lambda look: journal.read(look, self.found.run))
            rows += [row for row in self.found.rows if row.seq > self.found.lease.head]  # that are still to be written
        self.ledger = fold([*rows, Row(self.hold.head + 1, rewound.header, b"", rewound.payload)], flaws)
        for call, past in self.ledger.calls.items():  # deaths of its process that are not on the record yet
            if call in known:
                past.crashes, past.shared = known[call].crashes, known[call].shared
        self.marked = 0


class Rehearsal(OnReceipts):
    """A flow file, gone through without running it."""

    asks: Asks
    looks_at_files = True

    def __init__(self, execution: Rehearsing, *rest: Any) -> None:
        super().__init__(execution, *rest)
        self.rehearsing = execution
        self.actions: dict[Call, Action] = {}
        self.ahead: list[str] = []
        self.is_through = True

    def perform(self) -> dict[str, Any]:
        self.without_mirror()
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

    def _drive(self, asked: Asked, lane: Lane) -> Any:
        asked.lane = lane
        found = self._meets(asked)
        lane.before = asked
        if isinstance(asked.next, Replay):
            return self.execution.recorded(asked, asked.next.past)
        if found.word == "decide":
            raise Paused
        return {"holds": True} if asked.spec.work.is_condition else None

    def _meets(self, asked: Asked) -> Action:
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

    def _tried(self, asked: Asked) -> Action:
        """One that is run: again, anew, or for the first time."""
        same = self.execution.ledger.calls.get(asked.call)
        set_aside = self.rehearsing.found.ledger.calls.get(asked.call) if same is None else None
        past = same or set_aside or self._other_inputs(asked.call)
        why = self.asks(self.execution, asked)
        if past is None:
            if not asked.spec.work.is_condition:
                self.ahead.append(asked.call.path)
            return Action("decide") if why else Action("retry")
        if why:
            return self._acts(past, Action("decide", f"what it left: {why}"))
        because = "" if same else BACK if set_aside else READS
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

    def _note(self, asked: Asked, status: str, facts: dict[str, Any], result: Any = None) -> None:
        """Nothing is written."""

    def _remark(self, lane: Lane, name: str, status: str, facts: dict[str, Any], result: Any = None) -> Asked:
        asked = self.execution.ask(lane.frame, self._remark_spec(name), ({},), {}, None)
        if isinstance(asked.next, Replay):
            self._meets(asked)
        return asked

    def _parallel(self, node: Parallel, lane: Lane) -> None:
        lanes = [lane.branch() for _ in node.branches]
        self._each([partial(self._do, branch, own) for branch, own in zip(node.branches, lanes, strict=True)])
        lane.before = lanes[-1].before

    def _foreach(self, node: Foreach, lane: Lane) -> None:
        name, items = self._pass_of(node, lane), labelled(self._items(node, lane))
        lanes = [lane.for_item(f"{name}[{label}]", item) for label, item in items]
        self._each([partial(self._do, step, own) for own in lanes for step in node.steps])
        self._over(node, lane, {}, None)

    def _each(self, works: Sequence[Callable[[], object]]) -> None:
        """One after another what a resume does side by side: each goes as far as it gets."""
        stopped = False
        for work in works:
            try:
                work()
            except (Paused, Exception):
                stopped = True
        if stopped:
            raise Paused

    def _subflow(self, node: SubFlow, lane: Lane) -> None:
        """One that was begun is as its parent knows it; one that was not is taken to succeed."""
        scope = lane.frame.within(node.id).scope
        if any(call.scope == scope for call in self.execution.ledger.calls):
            super()._subflow(node, lane)
            return
        self.ahead.append(f"{lane.frame.scope}{node.id}")
        self._over(node, lane, {}, None)
