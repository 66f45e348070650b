"""`open(…, task=T)` after its success: the block runs once more on its receipts, and nothing is done or written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from outlast.clock import moment
from outlast.errors import Finished
from outlast.runs.attempt import Asked, Attempt
from outlast.runs.branches import Branches
from outlast.runs.call import Call, fold
from outlast.runs.context import CURRENT, Frame
from outlast.runs.execution import Execution
from outlast.runs.finished import RESULT_PRUNED, proven
from outlast.runs.replay.execution import Replaying, counted
from outlast.runs.run import Outcome
from outlast.store.contract import Hold

if TYPE_CHECKING:
    from outlast.home.home import Runtime


class OnRecord(Replaying):
    """An execution of a finished run: a call without a receipt is refused, and so is everything that would wait."""

    def __init__(self, runtime: Runtime, outcome: Outcome[Any], task: str) -> None:
        removed = RESULT_PRUNED in outcome.notes
        ledger = fold(()) if removed else proven(runtime, outcome.run_id).ledger
        super().__init__(runtime, Hold(0, outcome.run_id, 0, 0, 0, b""), ledger, "", is_over=True)
        self.store = runtime.store
        self._task, self._at = task, "" if removed else f"{moment(runtime.row(outcome.run_id).updated_at):%Y-%m-%d}"

    def attempt(self, asked: Asked, number: int, failures: int) -> Attempt:
        self._refuse(f"{asked.spec.kind} {asked.call.path}")

    def emit(self, frame: Frame, name: str, body: Any, kind: str) -> None:
        """What is said once more is on record already, or is said to nobody."""
        self.gate()

    def open_wait(self, call: Call, *_: Any, **__: Any) -> None:
        self._refuse(call.path)

    def end_at(self, call: Call, kind: str) -> NoReturn:
        self._refuse(call.path)

    def resource(self, key: str) -> Any:
        return Execution.resource(self, key)

    def _refuse(self, call: str) -> NoReturn:
        raise Finished.task(self._task, self.id, self._at or "some day", call)


@contextmanager
def body_on_record(runtime: Runtime, outcome: Outcome[Any], task: str, *, is_async: bool) -> Iterator[Any]:
    """What the block is given. What it raises goes on to the caller."""
    execution = OnRecord(runtime, outcome, task)
    if is_async:
        execution.branches = Branches(execution.turns(), can_park=False)
    with counted():
        token = CURRENT.set(Frame(execution))
        try:
            yield runtime._facade(execution, is_async)
        finally:
            CURRENT.reset(token)
            execution.over = True
