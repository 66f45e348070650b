"""A flow file, performed: its nodes become calls of one run, identified, recorded and resumed like any other.

A step is known by its id (in a repeat: by its iteration too) and the digests of the files it reads. Files that the
flow itself writes are no part of that: a step is not done again because a later one changed what it had read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property, partial
from itertools import chain
from posixpath import join, normpath
from typing import TYPE_CHECKING, Any, NoReturn, cast

from msgspec import UNSET, Struct
from msgspec.structs import replace

from outlast import errors
from outlast.commands import loops as marks
from outlast.commands.environment import hand_over
from outlast.commands.guard import settle
from outlast.commands.loops import labelled, raise_first, read_lines, side_by_side
from outlast.commands.step import Setting, command_spec, condition_spec, remark_spec
from outlast.errors import Paused
from outlast.files.changes import Patterns
from outlast.files.snapshot import look
from outlast.flows.yaml.flow import FlowFileSpec, below_top, demand_secrets, find_flow_file, given_inputs
from outlast.flows.yaml.model import (
    Command,
    FlowDefinition,
    Foreach,
    Node,
    Parallel,
    Pause,
    Repeat,
    SubFlow,
    Wait,
    walk,
)
from outlast.ledger.journal import Payload, decode_payload
from outlast.runs.attempt import CURRENT, Frame, Raised, StepCall
from outlast.runs.call import Call, Fresh, Past, Replay, known_scope
from outlast.runs.call_plain import drive_plain
from outlast.runs.execution import Execution
from outlast.runs.rewind import BY_THE_FLOW, LINES
from outlast.runs.step import StepSpec
from outlast.runs.waits.interrupt import BY_DEADLINE, NO_DEFAULT
from outlast.values.codec import encode, identity, text
from outlast.values.frozen import NamedTuple
from outlast.values.late import late

if TYPE_CHECKING:
    from outlast.commands import mirror as mirrored
    from outlast.runs import child as children
    from outlast.runs import decisions
    from outlast.runs.waits import ask as questions
else:
    mirrored = late("outlast.commands.mirror")  # with the first receipt
    children = late("outlast.runs.child")
    decisions = late("outlast.runs.decisions")
    questions = late("outlast.runs.waits.ask")

UNMIRRORED = 64  # receipts that a crash may have kept from the mirror: written again, if they were not


class Beside(NamedTuple):
    """What is done at once with the rest of a lane."""

    path: str  # of a `foreach` or a `parallel`
    writes: tuple[str, ...] | None = None  # what other branches declare; None of items: they declare the same


class Lane(Struct, eq=False):
    """A place in the flow: its scope, the step before, and whether others run beside it."""

    frame: Frame
    setting: Setting
    before: StepCall | None = None
    iteration: int = 0
    beside: bool = False
    answer: questions.GivenAnswer | None = None  # the last one that a wait was given
    result: Any = None  # of the last step
    others: tuple[Beside, ...] = ()  # what is done at once with it, the outermost first

    def inner(self, name: str, iteration: int) -> Lane:
        return replace(self, frame=self.frame.within(name), iteration=iteration)

    def branch(self, *others: Beside) -> Lane:
        frame = Frame(self.frame.execution, self.frame.scope)
        return replace(self, frame=frame, beside=True, others=self.others + others)

    def path_of(self, node: Node) -> str:
        return f"{known_scope(self.frame.scope or '')}{node.id}"

    def for_item(self, name: str, item: Any, others: tuple[Beside, ...]) -> Lane:
        frame, setting = self.frame.within(name), self.setting._replace(item=item)
        return replace(self, frame=frame, setting=setting, beside=True, result=None, others=self.others + others)

    def shares(self, writes: tuple[str, ...]) -> str:
        """Among whose branches or items others declare a file that these patterns mean; empty where none does."""
        own = Patterns.of(writes)
        shared = (each for each in self.others if each.writes is None or own.meets(Patterns.of(each.writes)))
        return next((each.path for each in shared), "")


class Performance:
    """One execution of a flow file."""

    looks_at_files = True

    def __init__(self, execution: Execution, definition: FlowDefinition, setting: Setting, source: str) -> None:
        self.execution, self.definition, self.setting, self._source = execution, definition, setting, source
        self.results: dict[str, Any] = {}
        self.closed: dict[str, int] = {}  # how many iterations of each loop are over
        self._passes: dict[str, int] = {}  # how often each loop was come to: again when a way led back
        self._went_back = False  # one did: from then on no marks are made
        self._specs: dict[str, StepSpec] = {}
        newest = max(execution.marked, execution.hold.head - UNMIRRORED)
        self._since = 0 if execution.ledger.damaged else newest

    @cached_property
    def mirror(self) -> mirrored.Mirror:
        execution = self.execution
        return mirrored.Mirror(execution.executor.home, execution.id, execution.hold.run_key, self._source, self._since)

    def perform(self) -> dict[str, Any]:
        """Run the flow from where it stands. Gives the results of its steps, by id."""
        self.execution.guarded = self
        settle(self.execution)
        return self._go_on()

    def _go_on(self) -> dict[str, Any]:
        marks.go_back(self.execution, self.definition)
        marks.take_state(self.execution)
        before = self._before(marks.take_last(self.execution))
        self.execution.replayed += marks.count_over(self.execution)
        self.closed = marks.loops_of(self.execution.ledger)
        frame = CURRENT.get()
        assert frame is not None
        return self._walk(Lane(frame, self.setting, before))

    def _walk(self, lane: Lane) -> dict[str, Any]:
        """Go through the nodes, by the ways that lead from one to another."""
        steps = self.definition.steps
        places = {node.id: at for at, node in enumerate(steps)}
        at = 0
        while at < len(steps):
            goto = self._do(steps[at], lane)
            self._went_back = self._went_back or bool(goto)
            at = places[goto] if goto else at + 1
        return self.results

    def _before(self, past: Past | None) -> StepCall | None:
        """A step of an iteration that is over, as the one that comes next knows it."""
        node = next((each for each in self.definition.nodes() if past is not None and each.id == past.call.step), None)
        if past is None or node is None:
            return None
        spec = command_spec(node, self.setting) if isinstance(node, Command) else remark_spec(node.id, self.setting)
        return StepCall(spec, past.call, "", {}, (), {}, Replay(past))

    # -- nodes -----------------------------------------------------------------------------------

    def _do(self, node: Node, lane: Lane) -> str:
        """Do a node. Gives the id of the step to go to, when that is not the next one."""
        if node.when and not self._when(node, lane):
            self._remark(lane, node.id, "skipped", {"why": f"its condition does not hold: {node.when}"})
            return ""
        match node:
            case Command():
                self._command(node, lane)
            case Parallel():
                self._parallel(node, lane)
            case Repeat():
                self._repeat(node, lane)
            case Pause():
                return self._pause(node, lane)
            case Wait():
                asked = questions.signal(node.signal, node.deadline, default_of(node))
                lane.answer = self._wait(lane, questions.in_file(node.id, asked))
            case Foreach():
                self._foreach(node, lane)
            case SubFlow():
                self._subflow(node, lane)
        return ""

    def _command(self, node: Command, lane: Lane) -> None:
        asked = self.execution.ask(lane.frame, self._spec_of(node, lane), (self._read(node),), {}, None)
        asked.shared = lane.shares(self._patterns(node)) if node.writes and lane.others else ""
        self._give(node, lane, self._drive(asked, lane))

    def _give(self, node: Node, lane: Lane, result: Any) -> None:
        lane.result = result
        if result is not None and not lane.frame.scope:
            self.results[node.id] = result

    def _spec_of(self, node: Command, lane: Lane) -> StepSpec:
        """One for all calls of a command; but a probe is told its item, and by nobody but its own."""
        if node.confirm and lane.setting.has_item:
            return command_spec(node, lane.setting)
        return self._made_once(node.id, partial(command_spec, node, self.setting))

    def _made_once(self, place: str, make: Callable[[], StepSpec]) -> StepSpec:
        if place not in self._specs:
            self._specs[place] = make()
        return self._specs[place]

    def _read(self, node: Command) -> dict[str, str]:
        """The digests of the files that a step reads and the flow does not write."""
        if not node.reads:
            return {}
        seen = look(self.setting.folder_of(node), node.reads)
        paths = {self.definition.path_of(node, path): one for path, one in seen.items()}
        return {text(path): one.digest for path, one in paths.items() if not self._is_own(path)}

    def _is_own(self, path: str) -> bool:
        """Whether the flow itself declares to write a file, named by its path from the flow's folder."""
        return self._written.matches(normpath(join(self._above, path)))

    @cached_property
    def _above(self) -> str:
        """What leads from the top of the repository to the flow's folder, if commands run above that."""
        return below_top(self.setting.folder) if self.definition.goes_up else ""

    @cached_property
    def _written(self) -> Patterns:
        return Patterns.of(normpath(join(self._above, each)) for each in self.definition.written())

    def _patterns(self, node: Node) -> tuple[str, ...]:
        """What a node and all inside of it declare to write, seen from where every path begins."""
        commands = [each for each in walk((node,)) if isinstance(each, Command)]
        paths = (self.definition.path_of(each, pattern) for each in commands for pattern in each.writes)
        return tuple(normpath(join(self._above, path)) for path in paths)

    def _drive(self, asked: StepCall, lane: Lane) -> Any:
        asked.lane = lane
        try:
            result = drive_plain(self.execution, asked, park=not lane.beside)
        finally:
            if not isinstance(asked.next, Replay):
                self._tidy(asked)
        lane.before = asked
        return result

    def _tidy(self, asked: StepCall) -> None:
        """The mirror shows the receipt. The work folder goes, unless it has all that is known of a crashed attempt."""
        self.mirror.catch_up()
        is_open = asked.left is None and asked.call in self.execution.waits
        if self.execution.writer.severed is None and not is_open:
            self.setting.forget(self.execution.id, asked.call)

    def _when(self, node: Node, lane: Lane) -> bool:
        place, shell = f"{node.id}/when", node.shell if isinstance(node, Command) else ""
        return self._holds(lane.frame.within(node.id), lane, place, node.when, node.when_timeout, shell)[1]

    def _holds(
        self, frame: Frame, lane: Lane, place: str, command: str, timeout: float | None, shell: str = ""
    ) -> tuple[Call, bool]:
        """A condition: a command that says yes by exit 0. It leaves a receipt, so it is asked once."""
        spec = self._made_once(place, partial(condition_spec, place, command, self.setting, timeout, shell))
        asked = self.execution.ask(frame, spec, ({},), {}, None)
        before = lane.before
        answer = self._drive(asked, lane)
        lane.before = before  # a condition hands nothing over
        return asked.call, self._is_yes(answer)

    @staticmethod
    def _is_yes(answer: Any) -> bool:
        """Whether a condition holds by its receipt; by what a person gave who skipped it, if that is true or not."""
        return bool(answer["holds"] if isinstance(answer, dict) and "holds" in answer else answer)

    def _remark(self, lane: Lane, name: str, status: str, facts: dict[str, Any], result: Any = None) -> StepCall:
        """A receipt of the flow's own: a step that was left out, a loop that is over, a way that was taken."""
        asked = self.execution.ask(lane.frame, self._remark_spec(name), ({},), {}, None)
        if isinstance(asked.next, Replay):
            self.execution.recorded(asked, asked.next.past)
        else:
            self._note(asked, status, facts, result)
        return asked

    def _note(self, asked: StepCall, status: str, facts: dict[str, Any], result: Any = None) -> None:
        attempt = self.execution.attempt(asked, asked.next.attempt if isinstance(asked.next, Fresh) else 1, 0)
        attempt.facts = facts
        packed = self.execution.pack(attempt, result)
        if isinstance(packed, Raised):
            raise packed.error
        self.execution.writer.write(self.execution.close(attempt, status, packed[1], delivered=True, mark=BY_THE_FLOW))

    def _remark_spec(self, name: str) -> StepSpec:
        return self._made_once(f"={name}", partial(remark_spec, name, self.setting))

    # -- loops -----------------------------------------------------------------------------------

    def _repeat(self, node: Repeat, lane: Lane) -> None:
        name = self._pass_of(node, lane)
        path = f"{lane.frame.scope}{name}"
        number, limit = self.closed.get(path, 0), node.max
        while not self._iterate(node, lane, f"{name}[{number + 1}]", number := number + 1, limit):
            while number >= limit:
                more = self._beyond(node, lane, number)
                if not more:
                    self._remark(lane, node.id, "succeeded", {"iterations": number, "accepted": False})
                    return
                limit += more
            if not lane.beside and not self._went_back:
                self._close(path, number, lane.before)
        self._remark(lane, node.id, "succeeded", {"iterations": number, "accepted": True})

    def _pass_of(self, node: Repeat | Foreach, lane: Lane) -> str:
        """The loop's name in scopes; `fix~2` when a way led back and it begins anew: other calls, with other keys."""
        path = f"{lane.frame.scope}{node.id}"
        count = self._passes[path] = self._passes.get(path, 0) + 1
        return node.id if count == 1 else f"{node.id}~{count}"

    def _close(self, path: str, number: int, last: StepCall | None) -> None:
        """An iteration is over, and with it the loops inside."""
        self.closed = {each: count for each, count in self.closed.items() if not each.startswith(f"{path}[")}
        self.closed[path] = number
        marks.mark(self.execution, self.closed, last.call if last is not None else None)

    def _iterate(self, node: Repeat, lane: Lane, scope: str, number: int, limit: int) -> bool:
        """Do one iteration. Raises LimitReached when it was the last one, and that fails the flow."""
        inner = lane.inner(scope, number)
        for step in node.steps:
            self._do(step, inner)
        lane.before, lane.result = inner.before, inner.result
        call, holds = self._holds(inner.frame, inner, f"{node.id}/until", node.until, node.until_timeout)
        if not holds and number >= limit and node.on_limit == "fail":
            raise self.execution.endings.failed(errors.LimitReached(node.id, number, node.until), call)
        return holds

    def _beyond(self, node: Repeat, lane: Lane, number: int) -> int:
        """How many more iterations there are beyond the limit."""
        if node.on_limit != "pause":
            return 0
        asked = questions.Question("limit", {"iterations": number, "until": node.until}, {}, None, step=node.id)
        return node.max if self._wait(lane, asked).value["choice"] == "more" else 0

    # -- branches --------------------------------------------------------------------------------

    def _parallel(self, node: Parallel, lane: Lane) -> None:
        """Do every branch in a thread of its own. All of them end before the flow goes on, or waits, or fails."""
        self.mirror.catch_up()  # it is there before several threads ask for it
        lanes = self._branches(node, lane)
        works = [partial(self._in_branch, each, (step,)) for each, step in zip(lanes, node.branches, strict=True)]
        self._together(f"branches of {node.id}", works, node.limit)
        lane.before = lanes[-1].before

    def _together(self, what: str, works: Sequence[Callable[[], None]], limit: int) -> None:
        with self.execution.side_by_side():
            raise_first(what, side_by_side(works, limit))

    def _branches(self, node: Parallel, lane: Lane) -> list[Lane]:
        """A lane for each branch, which knows what the others declare if they are done at once."""
        if node.limit == 1:
            return [lane.branch() for _ in node.branches]
        declared = [self._patterns(each) for each in node.branches]
        others = [declared[:at] + declared[at + 1 :] for at in range(len(declared))]
        return [lane.branch(Beside(lane.path_of(node), tuple(chain.from_iterable(each)))) for each in others]

    def _in_branch(self, lane: Lane, steps: tuple[Node, ...]) -> None:
        CURRENT.set(lane.frame)
        for step in steps:
            self._do(step, lane)

    def _foreach(self, node: Foreach, lane: Lane) -> None:
        """Do the nodes for every item. One that fails or waits keeps no other from being done."""
        items = list(labelled(self._items(node, lane)))  # each with the name that its scope bears
        self.mirror.catch_up()
        name = self._pass_of(node, lane)
        given: list[Any] = [None] * len(items)
        others = (Beside(lane.path_of(node)),) if node.limit != 1 and len(items) > 1 else ()  # done at once with one

        def work(at: int, label: str, item: Any) -> None:
            inner = lane.for_item(f"{name}[{label}]", item, others)
            self._in_branch(inner, node.steps)
            given[at] = inner.result

        works = [partial(work, at, *each) for at, each in enumerate(items)]
        self._together(f"items of {node.id}", works, node.limit)
        result = given if any(each is not None for each in given) else None
        self._over(node, lane, {"items": len(items)}, result)

    def _over(self, node: Foreach | SubFlow, lane: Lane, facts: dict[str, Any], result: Any) -> None:
        """A node that stands for many is done: like a command, it hands its result over."""
        asked = self._remark(lane, node.id, "succeeded", facts, result)
        hand_over(asked, result)
        lane.before = asked
        self._give(node, lane, result)

    def _items(self, node: Foreach, lane: Lane) -> Sequence[Any]:
        """The items as they are now. Lines are on the record: when the file is gone, they are what they were."""
        if not node.lines:
            return node.items
        spec = remark_spec(f"{node.id}{LINES}", self.setting)
        before = self._lines_before(lane, spec)
        file = self.setting.folder / self.definition.cwd / node.lines
        if before is not None and not (self.looks_at_files and file.exists()):
            return cast(Sequence[Any], self._recorded(lane, before, spec))
        lines = read_lines(node.id, file, node.lines)
        is_own = self._is_own(normpath(join(self.definition.cwd, node.lines)))
        seen = {} if is_own else {node.lines: identity(encode(lines))}
        asked = self.execution.ask(lane.frame, spec, (seen,), {}, None)
        if isinstance(asked.next, Replay):
            return cast(Sequence[Any], self.execution.recorded(asked, asked.next.past))
        self._note(asked, "succeeded", {"items": len(lines)}, lines)
        return lines

    def _lines_before(self, lane: Lane, spec: StepSpec) -> Past | None:
        """The lines that were read last in this place."""
        pasts = self.execution.ledger.calls.values()
        found = [past for past in pasts if (past.call.scope, past.call.step) == (lane.frame.scope, spec.name)]
        return max((past for past in found if past.finished), key=lambda past: past.seq, default=None)

    def _recorded(self, lane: Lane, past: Past, spec: StepSpec) -> Any:
        self.execution.numbered(lane.frame, spec.name, past.call.inputs)
        past.asked = True
        return self.execution.result_of(decode_payload(past.payload) if past.payload else Payload(), spec)

    # -- other flows -----------------------------------------------------------------------------

    def _subflow(self, node: SubFlow, lane: Lane) -> None:
        """Another flow file, as a child run: its outcome is this node's."""
        spec = find_flow_file(node.flow, self.setting.folder)
        given = given_inputs(node, self.setting.inputs, lane.setting.item)
        child = children.spawn(lane.frame.within(node.id), spec, (), given)
        self._over(node, lane, {"run": child.run_id, "flow": node.flow}, child.take(park=not lane.beside))

    # -- waits -----------------------------------------------------------------------------------

    def _pause(self, node: Pause, lane: Lane) -> str:
        """Wait for a person. A decline that the flow does not handle has ended the run when it was given."""
        shown = {**node.payload, "on_decline": node.on_decline} if node.type == "approval" else node.payload
        asked = questions.question(node.type, shown, node.schema, node.deadline, default_of(node), node.assignee)
        told = lane.answer = self._wait(lane, questions.in_file(node.id, asked))
        if node.type != "approval" or told.value["approved"]:
            return ""
        if told.by == BY_DEADLINE and not node.on_decline:
            self._end_declined(node)
        way = node.on_decline or "continue"
        comment = told.value.get("comment", "")
        self._remark(lane, f"{node.id}@declined", "succeeded", {"goes_to": way, "comment": comment})
        return "" if way == "continue" else way

    def _end_declined(self, node: Pause) -> NoReturn:
        """Nobody answered in time and the default is no: that ends the run as a person's no does."""
        execution, writer = self.execution, self.execution.writer
        caller = execution.executor.caller
        why = f"nobody answered {node.id} in time, and its default is no"
        with writer.lock:  # under this worker's epoch: one that was taken over ends nothing
            end = partial(decisions.abort_in, caller, run_id=execution.id, why=why, kind="declined", by=BY_DEADLINE)
            queued = writer.queue_work(end)
        writer.write(queued)
        writer.sever(errors.LeaseLost(execution.id, execution.hold.epoch))

    def _wait(self, lane: Lane, asked: questions.Question) -> questions.GivenAnswer:
        """What a wait was given. Until there is an answer, the run waits: for a branch, when the others have ended."""
        told = questions.ask(lane.frame, asked)
        if told is not None:
            return told
        self.execution.paused = self.execution.paused or not lane.beside
        raise Paused


def perform(execution: Execution, spec: FlowFileSpec, inputs: dict[str, Any]) -> dict[str, Any]:
    """Perform a flow file as the body of a run. Gives the results of its steps, by id."""
    secrets = demand_secrets(spec.definition, os.environ)
    setting = Setting(execution.executor, spec.definition, spec.file, inputs, secrets)
    performance = Performance(execution, spec.definition, setting, spec.source)
    try:
        return performance.perform()
    finally:
        performance.mirror.catch_up()
        with suppress(OSError):  # it stays while something is in it
            (execution.executor.home.folder / "work" / execution.id).rmdir()


def default_of(node: Pause | Wait) -> Any:
    """What counts once the deadline of a wait has passed, as questions are told it."""
    return NO_DEFAULT if node.default is UNSET else node.default
