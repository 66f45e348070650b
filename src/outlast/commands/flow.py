"""A flow file, performed: its nodes become calls of one run, identified, recorded and resumed like any other.

A step is known by its id (in a repeat: by its iteration too) and the digests of the files it reads. Files that the
flow itself writes are no part of that: a step is not done again because a later one changed what it had read.
"""

from __future__ import annotations

import threading
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

from msgspec import UNSET

from outlast.commands import resume_point as marks
from outlast.commands.orphans import settle
from outlast.commands.step import Setting, command_spec, condition_spec, remark_spec
from outlast.errors import LeaseLost, LimitReached, NoThread, Paused, Severed, Stopped
from outlast.files import partial
from outlast.files.changes import text
from outlast.files.patterns import matching
from outlast.flows.spec import StepSpec
from outlast.flows.yaml.model import Command, Node, Parallel, Pause, Recipe, Repeat, Wait
from outlast.ledger.journal import Payload
from outlast.runs.attempt import Asked
from outlast.runs.call import Call, Past, Replay
from outlast.runs.call_plain import drive_plain
from outlast.runs.context import CURRENT, Frame
from outlast.runs.execution import Execution
from outlast.runs.waits import ask as questions
from outlast.runs.waits.ask import Question, Told
from outlast.runs.waits.interrupt import BY_DEADLINE, NO_DEFAULT
from outlast.values.threads import begin

if TYPE_CHECKING:
    from outlast.commands.mirror import Mirror

_LOOK_SECONDS = 0.1
UNMIRRORED = 64  # receipts that a crash may have kept from the mirror: written again, if they were not


class Lane:
    """A place in the flow: its scope, the step before, and whether others run beside it."""

    def __init__(self, frame: Frame, iteration: int = 0, before: Asked | None = None, beside: bool = False) -> None:
        self.frame, self.iteration, self.before, self.beside = frame, iteration, before, beside
        self.answer: Told | None = None  # the last one that a wait was given

    def inner(self, name: str, iteration: int) -> Lane:
        made = Lane(self.frame.within(name), iteration, self.before, self.beside)
        made.answer = self.answer
        return made

    def branch(self) -> Lane:
        made = Lane(Frame(self.frame.execution, self.frame.scope), self.iteration, self.before, beside=True)
        made.answer = self.answer
        return made


class Performance:
    """One execution of a flow file."""

    def __init__(self, execution: Execution, recipe: Recipe, setting: Setting, source: str) -> None:
        self.execution, self.recipe, self.setting, self._source = execution, recipe, setting, source
        self.results: dict[str, Any] = {}
        self.closed: dict[str, int] = {}  # how many iterations of each loop are over
        self._passes: dict[str, int] = {}  # how often each loop was come to: again when a way led back
        self._went_back = False  # one did: from then on no marks are made
        self._since = max(execution.marked, execution.hold.head - UNMIRRORED)
        self._specs: dict[str, StepSpec] = {}

    @cached_property
    def mirror(self) -> Mirror:
        from outlast.commands.mirror import Mirror  # late: the first step need not wait for it

        execution = self.execution
        return Mirror(execution.runtime, execution.id, execution.hold.run_key, self._source, self._since)

    def perform(self) -> dict[str, Any]:
        """Run the flow from where it stands. Gives the results of its steps, by id."""
        self.execution.guarded = self
        settle(self.execution)
        marks.go_back(self.execution, self.recipe)
        marks.take_state(self.execution)
        before = self._before(marks.take_last(self.execution))
        self.execution.replayed += marks.count_over(self.execution)
        self.closed = marks.loops_of(self.execution.ledger)
        frame = CURRENT.get()
        assert frame is not None
        return self._walk(Lane(frame, before=before))

    def _walk(self, lane: Lane) -> dict[str, Any]:
        """Go through the nodes, by the ways that lead from one to another."""
        steps = self.recipe.steps
        places = {node.id: at for at, node in enumerate(steps)}
        at = 0
        while at < len(steps):
            goto = self._do(steps[at], lane)
            self._went_back = self._went_back or bool(goto)
            at = places[goto] if goto else at + 1
        return self.results

    def _before(self, past: Past | None) -> Asked | None:
        """A step of an iteration that is over, as the one that comes next knows it."""
        node = next((each for each in self.recipe.nodes() if past is not None and each.id == past.call.step), None)
        if past is None or not isinstance(node, Command):
            return None
        return Asked(command_spec(node, self.setting), past.call, "", {}, (), {}, Replay(past))

    # -- nodes -----------------------------------------------------------------------------------

    def _do(self, node: Node, lane: Lane) -> str:
        """Do a node. Gives the id of the step to go to, when that is not the next one."""
        if node.when and not self._holds(lane.frame.within(node.id), lane, f"{node.id}/when", node.when)[1]:
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
        return ""

    def _command(self, node: Command, lane: Lane) -> None:
        spec = self._specs.get(node.id)
        if spec is None:
            spec = self._specs[node.id] = command_spec(node, self.setting)
        asked = self.execution.ask(lane.frame, spec, (self._read(node),), {}, None)
        result = self._drive(asked, lane)
        if result is not None and not lane.frame.scope:
            self.results[node.id] = result

    def _read(self, node: Command) -> dict[str, str]:
        """The digests of the files that a step reads and the flow does not write."""
        if not node.reads:
            return {}
        seen = partial.look(self.setting.folder_of(node), node.reads)
        paths = {self.recipe.path_of(node, path): one for path, one in seen.items()}
        own = matching(paths, self.recipe.written())
        return {text(path): one.digest for path, one in paths.items() if path not in own}

    def _drive(self, asked: Asked, lane: Lane) -> Any:
        asked.lane = lane
        try:
            result = drive_plain(self.execution, asked, park=not lane.beside)
        finally:
            if not isinstance(asked.next, Replay):
                self._tidy(asked)
        lane.before = asked
        return result

    def _tidy(self, asked: Asked) -> None:
        """The mirror shows the receipt. The work folder goes, unless it has all that is known of a crashed attempt."""
        self.mirror.catch_up()
        is_open = asked.left is None and asked.call in self.execution.waits
        if self.execution.pen.severed is None and not is_open:
            self.setting.forget(self.execution.id, asked.call)

    def _holds(self, frame: Frame, lane: Lane, place: str, command: str) -> tuple[Call, bool]:
        """A condition: a command that says yes by exit 0. It leaves a receipt, so it is asked once."""
        spec = self._specs.get(place)
        if spec is None:
            spec = self._specs[place] = condition_spec(place, command, self.setting)
        asked = self.execution.ask(frame, spec, ({},), {}, None)
        before = lane.before
        answer = self._drive(asked, lane)
        lane.before = before  # a condition hands nothing over
        return asked.call, bool(answer["holds"])

    def _remark(self, lane: Lane, name: str, status: str, facts: dict[str, Any]) -> None:
        """A receipt of the flow's own: a step that was left out, a loop that is over, a way that was taken."""
        spec = self._specs.get(f"={name}")
        if spec is None:
            spec = self._specs[f"={name}"] = remark_spec(name, self.setting)
        asked = self.execution.ask(lane.frame, spec, ({},), {}, None)
        if isinstance(asked.next, Replay):
            self.execution.recorded(asked, asked.next.past)
            return
        attempt = self.execution.attempt(asked, 1, 0)
        attempt.facts = facts
        self.execution.pen.write(self.execution.close(attempt, status, True, "flow", Payload()))

    # -- loops -----------------------------------------------------------------------------------

    def _repeat(self, node: Repeat, lane: Lane) -> None:
        name = self._pass_of(node, lane)
        path = f"{lane.frame.scope}{name}"
        number, limit = self.closed.get(path, 0), node.max
        while not self._iterate(node, lane, f"{name}[{number + 1}]", number := number + 1, limit):
            while number >= limit:
                more = self._beyond(node, lane, number)
                if not more:
                    return self._remark(lane, node.id, "succeeded", {"iterations": number, "accepted": False})
                limit += more
            if not lane.beside and not self._went_back:
                self._close(path, number, lane.before)
        self._remark(lane, node.id, "succeeded", {"iterations": number, "accepted": True})
        return None

    def _pass_of(self, node: Repeat, lane: Lane) -> str:
        """The loop's name in scopes; `fix~2` when a way led back and it begins anew: other calls, with other keys."""
        path = f"{lane.frame.scope}{node.id}"
        count = self._passes[path] = self._passes.get(path, 0) + 1
        return node.id if count == 1 else f"{node.id}~{count}"

    def _close(self, path: str, number: int, last: Asked | None) -> None:
        """An iteration is over, and with it the loops inside."""
        self.closed = {each: count for each, count in self.closed.items() if not each.startswith(f"{path}[")}
        self.closed[path] = number
        marks.mark(self.execution, self.closed, last.call if last is not None else None)

    def _iterate(self, node: Repeat, lane: Lane, scope: str, number: int, limit: int) -> bool:
        """Do one iteration. Raises LimitReached when it was the last one, and that fails the flow."""
        inner = lane.inner(scope, number)
        for step in node.steps:
            self._do(step, inner)
        lane.before = inner.before
        call, holds = self._holds(inner.frame, inner, f"{node.id}/until", node.until)
        if not holds and number >= limit and node.on_limit == "fail":
            raise self.execution.endings.failed(LimitReached(node.id, number, node.until), call)
        return holds

    def _beyond(self, node: Repeat, lane: Lane, number: int) -> int:
        """How many more iterations there are beyond the limit."""
        if node.on_limit != "pause":
            return 0
        asked = Question("limit", {"iterations": number, "until": node.until}, {}, None, step=node.id)
        return node.max if self._wait(lane, asked).value["choice"] == "more" else 0

    # -- branches --------------------------------------------------------------------------------

    def _parallel(self, node: Parallel, lane: Lane) -> None:
        """Do every branch in a thread of its own. All of them end before the flow goes on, or waits, or fails."""
        self.mirror.catch_up()  # it is there before several threads ask for it
        lanes = [lane.branch() for _ in node.branches]
        ended: list[BaseException | None] = [None] * len(lanes)

        def work(at: int) -> None:
            CURRENT.set(lanes[at].frame)
            try:
                self._do(node.branches[at], lanes[at])
            except BaseException as error:
                ended[at] = error

        threads = [threading.Thread(target=work, args=(at,), daemon=True) for at in range(len(lanes))]
        with self.execution.side_by_side():
            for at, thread in enumerate(threads):
                try:
                    begin(thread, "a branch")
                except NoThread as error:  # those that have begun end first
                    ended[at] = error
            for thread in threads:
                while thread.is_alive():  # in short waits: a signal must find the main thread awake
                    thread.join(_LOOK_SECONDS)
        _raise_first(node, [error for error in ended if error is not None])
        lane.before = lanes[-1].before

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
        from outlast.runs.decisions import decline

        execution, pen = self.execution, self.execution.pen
        why = f"nobody answered {node.id} in time, and its default is no"
        with pen.lock:  # under this worker's epoch: one that was taken over ends nothing
            queued = pen.queue_work(lambda tx: decline(execution.runtime, tx, execution.id, why, BY_DEADLINE))
        pen.write(queued)
        pen.sever(LeaseLost(execution.id, execution.hold.epoch))

    def _wait(self, lane: Lane, asked: Question) -> Told:
        """What a wait was given. Until there is an answer, the run waits: for a branch, when the others have ended."""
        told = questions.ask(lane.frame, asked)
        if told is not None:
            return told
        self.execution.paused = self.execution.paused or not lane.beside
        raise Paused


def default_of(node: Pause | Wait) -> Any:
    """What counts once the deadline of a wait has passed, as questions are told it."""
    return NO_DEFAULT if node.default is UNSET else node.default


def _raise_first(node: Parallel, errors: list[BaseException]) -> None:
    """What becomes of a flow whose branches ended so: taken from it, failed, asked to stop, or waiting."""
    for kind in (Severed, Exception, Stopped, Paused, BaseException):
        found = [error for error in errors if isinstance(error, kind)]
        if found and kind is Exception and len(found) > 1:
            failures = [error for error in found if isinstance(error, Exception)]
            raise ExceptionGroup(f"{len(failures)} branches of {node.id} failed", failures)
        if found:
            if isinstance(found[0], Paused):
                frame = CURRENT.get()
                if frame is not None:
                    frame.execution.paused = True
            raise found[0]
