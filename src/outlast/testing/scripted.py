"""An Outlast for tests: its clock moves when told to, and its waits are answered from a script."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from outlast.clock import ManualClock
from outlast.python.decorators import Flow, FlowFile
from outlast.python.outlast import Outlast
from outlast.runs.effect import NOT_DONE, Happened
from outlast.runs.run import Outcome
from outlast.runs.waits.interrupt import Interrupt, is_told

T = TypeVar("T")
Reply = Any  # Happened(result), NOT_DONE, a choice, or the whole answer


class ScriptedOutlast(Outlast):
    """What the fixture `outlast` is. `clock.advance(seconds)` lets time pass; `script` answers waits."""

    def __init__(self, home: str | Path, **options: Any) -> None:
        self.clock = ManualClock()
        self._answers: dict[str, list[Reply]] = {}
        super().__init__(home, clock=self.clock, **options)

    def script(self, answers: Mapping[str, Reply | list[Reply]]) -> None:
        """Answer waits by the name of their step, each answer once, in order.

        About an effect an answer is `Happened(result)` or `NOT_DONE`, as a probe would give it, a choice such as
        `"retry"`, or the whole answer, `{"choice": "skip", "result": …}`. What a flow asks by `pause_for("approval")`
        is answered under that name, by whatever fits; what it waits for by `wait_for("paid")` is a signal's body. Give
        a list to answer several times. A wait without an answer stays open.
        """
        for step, given in answers.items():
            self._answers.setdefault(step, []).extend(given if isinstance(given, list) else [given])

    def run(self, flow: Flow[..., T] | FlowFile, *args: Any, **options: Any) -> Outcome[T]:
        """Run a flow, answering its waits from the script, until it ends or waits for something else."""
        outcome = super().run(flow, *args, **options)
        while outcome.status == "waiting" and self._answer(outcome):
            outcome = super().resume(outcome.run_id)
        return outcome

    def _answer(self, outcome: Outcome[Any]) -> bool:
        answerable = [wait for wait in outcome.interrupts if wait.choices or is_told(wait.type)]
        scripted = [wait for wait in answerable if self._answers.get(wait.name)]
        for wait in scripted:
            self._give(wait, self._answers[wait.name].pop(0))
        return bool(scripted)

    def _give(self, wait: Interrupt, reply: Reply) -> None:
        if wait.type == "signal":
            self.signal(wait.payload["name"], reply, run_id=wait.run_id)
        else:
            self.answer(wait.id, _answer(wait, reply) if wait.choices else reply)


def _answer(wait: Interrupt, given: Reply) -> dict[str, Any]:
    match given:
        case Happened(value=value):
            return {"choice": "skip", "result": value}
        case str():
            return {"choice": given}
        case Mapping():
            return dict(given)
        case _ if given is NOT_DONE:
            return {"choice": "retry"}
        case _:
            raise TypeError(f"{given!r} answers nothing: {wait.step} needs one of {', '.join(wait.choices)}")
