"""What goes wrong in runs, said by Python's `logging` to whoever listens there: the logger is `outlast.runs`.

An ERROR is a run that failed; a WARNING is a retry, a takeover, an effect in doubt, a crash loop. Run, task, flow, step
and attempt are fields of the record. Nothing of it holds a secret. Handlers are the program's: without any
it is silent.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from outlast.runs.failure import record
from outlast.secrets.find import mask

if TYPE_CHECKING:
    from logging import Logger

    from outlast.home.home import Home
    from outlast.runs.attempt import Attempt, StepCall
    from outlast.runs.execution import Execution
    from outlast.store.contract import RunRow

NAME = "outlast.runs"
IN_DOUBT = "an effect is in doubt: nobody knows whether {step} happened; the run waits for a person"
CRASH_LOOP = "the process died in step {step} again and again; the run waits for a person"
OF_WAITS = {"in_doubt": IN_DOUBT, "crash_loop": CRASH_LOOP}


def say_failed(execution: Execution, kept: dict[str, Any]) -> None:
    """A run has failed: with what is recorded of the error, trace and all."""
    fields = {**_of(execution), "step": "", "attempt": 0}
    said = f"the run failed: {_told(kept['type'], kept['message'])}"
    _say(execution.executor.home, "ERROR", said, fields, str(kept.get("trace", "")).rstrip())


def say_retried(execution: Execution, attempt: Attempt, error: BaseException) -> None:
    """An attempt has failed, and there will be another one."""
    spec = attempt.asked.spec
    said = f"attempt {attempt.number} of {spec.kind} {spec.name} failed and is retried"
    fields = {**_of(execution), "step": spec.name, "attempt": attempt.number}
    _say(execution.executor.home, "WARNING", f"{said}: {_told(type(error).__name__, _text(error))}", fields)


def say_tried_again(execution: Execution, kept: dict[str, Any], number: int, of: int) -> None:
    """A run has failed and will go on by itself, as its flow says."""
    fields = {**_of(execution), "step": "", "attempt": number}
    said = f"the run failed and is tried again ({number} of {of}): {_told(kept['type'], kept['message'])}"
    _say(execution.executor.home, "WARNING", said, fields)


def say_waits(execution: Execution, asked: StepCall, kind: str, attempt: int) -> None:
    """A call has come to wait for a person who knows, if it is of a kind that one should hear of."""
    if kind in OF_WAITS:
        said = OF_WAITS[kind].format(step=asked.spec.name)
        fields = {**_of(execution), "step": asked.spec.name, "attempt": attempt}
        _say(execution.executor.home, "WARNING", said, fields)


def say_taken(home: Home, run: RunRow, holder: str, why: str) -> None:
    """A run goes on here that was another process's: it died, or the run was taken from it."""
    said = (
        f"the run is taken from {holder}: {why}" if holder else "the run is taken over: the process that ran it is gone"
    )
    _say(home, "WARNING", said, {"run": run.id, "task": run.task, "flow": run.flow, "step": "", "attempt": 0})


def _of(execution: Execution) -> dict[str, Any]:
    return {"run": execution.id, "task": execution.task, "flow": execution.flow}


def _told(kind: str, message: str) -> str:
    short = kind.rpartition(":")[2]
    return f"{short}: {message}" if message else short


def _text(error: BaseException) -> str:
    return str(record(error)["message"])


@functools.cache
def _logger() -> Logger:
    import logging  # late: a run in which nothing goes wrong never needs it

    found = logging.getLogger(NAME)
    found.addHandler(logging.NullHandler())  # else Python itself would print what no handler takes
    return found


def _say(home: Home, level: str, said: str, fields: dict[str, Any], trace: str = "") -> None:
    """One record, masked. The trace is text and no exception: that could not be masked."""
    import logging

    logger, number = _logger(), getattr(logging, level)
    if not logger.isEnabledFor(number):
        return

    def clean(value: Any) -> Any:
        return mask(value, home.secrets.rules) if isinstance(value, str) else value

    told = {name: clean(value) for name, value in fields.items()}
    text = f"{clean(said)} (run {told['run']}, task {told['task']})"
    record = logger.makeRecord(NAME, number, __file__, 0, text, (), None, func=None, extra=told)
    record.exc_text = clean(trace) or None
    logger.handle(record)
