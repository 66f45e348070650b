"""Failures as records: what is kept of an exception, and the same exception again on replay.

An exception whose type can be imported and whose arguments are JSON comes back as itself. Any other is
raised as StepFailed, live and on replay alike, so that a flow's `except` works the same both times.

What goes wrong in runs, said by Python's `logging` to whoever listens there: the logger is `outlast.runs`.

An ERROR is a run that failed; a WARNING is a retry, a takeover, an effect in doubt, a crash loop. Run, task, flow, step
and attempt are fields of the record. Nothing of it holds a secret. Handlers are the program's: without any
it is silent.
"""

from __future__ import annotations

import functools
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from outlast import errors
from outlast.errors import OutlastError
from outlast.flows.loading import script_named, type_name
from outlast.values.ambient import text_of
from outlast.values.codec import decode, encode
from outlast.values.late import late

if TYPE_CHECKING:
    import logging
    from logging import Logger

    from outlast.home.home import Home
    from outlast.runs.attempt import Attempt, StepCall
    from outlast.runs.execution import Execution
    from outlast.secrets import find
    from outlast.store.contract import RunRow
else:
    logging = late("logging")
    find = late("outlast.secrets.find")  # its patterns are compiled then


TRACE_CHARACTERS = 8_000


def record(error: BaseException) -> dict[str, Any]:
    """What a receipt keeps of an exception."""
    kind = type(error)
    kept: dict[str, Any] = {"type": type_name(kind), "message": _text(error), "trace": _trace(error)}
    if isinstance(error, OutlastError):
        kept["code"] = error.code
    arguments = _arguments(error)
    if arguments is not None:
        kept["args"] = arguments
    return kept


def deliverable(error: BaseException, step: str) -> BaseException:
    """The exception to raise in the flow: itself if replay can rebuild it, else StepFailed."""
    if isinstance(error, errors.loaded("StepFailed", "StepTimedOut")):
        return error
    kept = record(error)
    if type(rebuild(kept, step)) is type(error):
        return error
    wrapped = errors.StepFailed(step, type(error).__qualname__, kept["message"])
    wrapped.__cause__ = error
    return wrapped


def rebuild(kept: dict[str, Any], step: str) -> BaseException:
    """The exception that a receipt recorded."""
    again = _made_again(kept) if "args" in kept else None
    if again is not None and _text(again) == kept["message"]:
        return again
    return errors.StepFailed(step, str(kept["type"]).rpartition(":")[2], kept["message"])


def _made_again(kept: dict[str, Any]) -> BaseException | None:
    """By its kind and arguments; None where these do not make one any more."""
    try:
        kind = _find(kept["type"])
        return kind(**kept["args"]) if issubclass(kind, OutlastError) else kind(*kept["args"])
    except Exception:
        return None


def _arguments(error: BaseException) -> Any:
    """The JSON arguments that make an equal exception; None when there are none."""
    if not isinstance(error, Exception) or isinstance(error, StopIteration | StopAsyncIteration):
        return None  # those two mean something else to the generators and loops they pass through
    if isinstance(error, OutlastError):
        return _same(error.facts)
    try:
        made = error.__reduce__()
    except Exception:
        return None
    if not isinstance(made, tuple) or made[0] is not type(error):
        return None
    arguments = _same(list(made[1]))
    carries_more = len(made) > 2 and bool(made[2])
    return None if carries_more and not _makes(error, arguments) else arguments


def _makes(error: Exception, arguments: Any) -> bool:
    """Whether these arguments alone give the exception its attributes, notes included."""
    try:
        return arguments is not None and bool(vars(type(error)(*arguments)) == vars(error))
    except Exception:
        return False


def _same(value: Any) -> Any:
    try:
        back = decode(encode(value))
    except Exception:
        return None
    return back if back == value else None


def _find(name: str) -> type[BaseException]:
    module, _, qualname = name.rpartition(":")
    found: Any = script_named(module) or sys.modules.get(module)
    if found is None and module.endswith(".py"):
        raise LookupError(name)  # a script that is not here: importing its name would run it
    found = found or import_module(module)
    for part in qualname.split("."):
        found = getattr(found, part)
    if not (isinstance(found, type) and issubclass(found, Exception)):
        raise TypeError(name)
    return found


def _text(error: BaseException) -> str:
    try:
        return str(error).encode("utf-8", "backslashreplace").decode()
    except Exception as broken:
        return f"<{type(error).__qualname__} whose text cannot be had: {type(broken).__name__}>"


def _trace(error: BaseException) -> str:
    text = text_of(error).encode("utf-8", "backslashreplace").decode()
    if len(text) <= TRACE_CHARACTERS:
        return text
    left_out = len(text) - TRACE_CHARACTERS
    half = TRACE_CHARACTERS // 2
    return f"{text[:half]}\n[… {left_out} characters left out …]\n{text[-half:]}"


# -- what goes wrong, told by logging --------------------------------------------------------------


NAME = "outlast.runs"
IN_DOUBT = "an effect is in doubt: nobody knows whether {step} happened; the run waits for a person"
CRASH_LOOP = "the process died in step {step} again and again; the run waits for a person"
OF_WAITS = {"in_doubt": IN_DOUBT, "crash_loop": CRASH_LOOP}


def say_failed(execution: Execution, kept: dict[str, Any]) -> None:
    """A run has failed: with what is recorded of the error, trace and all."""
    said = f"the run failed: {_told(kept['type'], kept['message'])}"
    _say_of(execution, "ERROR", said, trace=str(kept.get("trace", "")).rstrip())


def say_retried(execution: Execution, attempt: Attempt, error: BaseException) -> None:
    """An attempt has failed, and there will be another one."""
    spec = attempt.asked.spec
    said = f"attempt {attempt.number} of {spec.kind} {spec.name} failed and is retried"
    said += f": {_told(type(error).__name__, str(record(error)['message']))}"
    _say_of(execution, "WARNING", said, spec.name, attempt.number)


def say_tried_again(execution: Execution, kept: dict[str, Any], number: int, of: int) -> None:
    """A run has failed and will go on by itself, as its flow says."""
    said = f"the run failed and is tried again ({number} of {of}): {_told(kept['type'], kept['message'])}"
    _say_of(execution, "WARNING", said, attempt=number)


def say_waits(execution: Execution, asked: StepCall, kind: str, attempt: int) -> None:
    """A call has come to wait for a person who knows, if it is of a kind that one should hear of."""
    if kind in OF_WAITS:
        said = OF_WAITS[kind].format(step=asked.spec.name)
        _say_of(execution, "WARNING", said, asked.spec.name, attempt)


def say_taken(home: Home, run: RunRow, holder: str, why: str) -> None:
    """A run goes on here that was another process's: it died, or the run was taken from it."""
    gone = "the run is taken over: the process that ran it is gone"
    said = f"the run is taken from {holder}: {why}" if holder else gone
    _say(home, "WARNING", said, {"run": run.id, "task": run.task, "flow": run.flow, "step": "", "attempt": 0})


def _say_of(execution: Execution, level: str, said: str, step: str = "", attempt: int = 0, trace: str = "") -> None:
    of = {"run": execution.id, "task": execution.task, "flow": execution.flow}
    _say(execution.executor.home, level, said, {**of, "step": step, "attempt": attempt}, trace)


def _told(kind: str, message: str) -> str:
    short = kind.rpartition(":")[2]
    return f"{short}: {message}" if message else short


@functools.cache
def _logger() -> Logger:
    found = logging.getLogger(NAME)
    found.addHandler(logging.NullHandler())  # else Python itself would print what no handler takes
    return found


def _is_heard(logger: Logger) -> bool:
    """Whether anybody takes what is said: to mask it for nobody takes longer than to say it."""
    told: Logger | None = logger
    while told is not None and all(isinstance(handler, logging.NullHandler) for handler in told.handlers):
        told = told.parent if told.propagate else None
    return told is not None


def _say(home: Home, level: str, said: str, fields: dict[str, Any], trace: str = "") -> None:
    """One record, masked. The trace is text and no exception: that could not be masked."""
    if "logging" not in sys.modules:
        return  # nobody in this process can have asked to hear it
    logger, number = _logger(), getattr(logging, level)
    if not logger.isEnabledFor(number) or not _is_heard(logger):
        return

    def clean(value: Any) -> Any:
        return find.mask(value, home.secrets.rules) if isinstance(value, str) else value

    told = {name: clean(value) for name, value in fields.items()}
    text = f"{clean(said)} (run {told['run']}, task {told['task']})"
    record = logger.makeRecord(NAME, number, __file__, 0, text, (), None, func=None, extra=told)
    record.exc_text = clean(trace) or None
    logger.handle(record)
