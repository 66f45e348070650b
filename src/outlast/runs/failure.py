"""Failures as records: what is kept of an exception, and the same exception again on replay.

An exception whose type can be imported and whose arguments are JSON comes back as itself. Any other is
raised as StepFailed, live and on replay alike, so that a flow's `except` works the same both times.
"""

from __future__ import annotations

import sys
from typing import Any

from outlast.errors import OutlastError, StepFailed, StepTimedOut
from outlast.flows.loading import script_named, type_name
from outlast.values.codec import decode, encode
from outlast.values.tracebacks import text_of

TRACE_CHARACTERS = 8_000


def record(error: BaseException) -> dict[str, Any]:
    """What a receipt keeps of an exception."""
    kind = type(error)
    kept: dict[str, Any] = {
        "type": type_name(kind),
        "message": _text(error),
        "trace": _trace(error),
    }
    if isinstance(error, OutlastError):
        kept["code"] = error.code
    arguments = _arguments(error)
    if arguments is not None:
        kept["args"] = arguments
    return kept


def deliverable(error: BaseException, step: str) -> BaseException:
    """The exception to raise in the flow: itself if replay can rebuild it, else StepFailed."""
    if isinstance(error, StepFailed | StepTimedOut):
        return error
    kept = record(error)
    if type(rebuild(kept, step)) is type(error):
        return error
    wrapped = StepFailed(step, type(error).__qualname__, kept["message"])
    wrapped.__cause__ = error
    return wrapped


def rebuild(kept: dict[str, Any], step: str) -> BaseException:
    """The exception that a receipt recorded."""
    short = str(kept["type"]).rpartition(":")[2]
    fallback = StepFailed(step, short, kept["message"])
    if "args" not in kept:
        return fallback
    try:
        kind = _find(kept["type"])
        if issubclass(kind, OutlastError):
            again: BaseException = kind(**kept["args"])
        else:
            again = kind(*kept["args"])
    except Exception:
        return fallback
    return again if _text(again) == kept["message"] else fallback


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
    from importlib import import_module

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
