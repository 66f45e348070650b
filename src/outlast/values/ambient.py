"""What stands around a piece of work: whether anybody still waits for it, what they are to be told, a thread to do
it on, which functions of ours call the user's, and what whoever wrote those reads of an error: their own frames.

Ours are folded: the frames of this package, and those of asyncio and threads that stand between them. What an error of
ours says needs none of them; another error that was raised in our code keeps the frames that lead there.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from types import CodeType, TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from outlast import errors
from outlast.errors import OutlastError, Stopped

if TYPE_CHECKING:
    from traceback import FrameSummary, TracebackException


F = TypeVar("F", bound=Callable[..., Any])

CALLERS: set[CodeType] = set()
STOP: ContextVar[Callable[[], bool] | None] = ContextVar("outlast_stop", default=None)
CURRENT: ContextVar[Any] = ContextVar("outlast_frame", default=None)  # the place in a run; its type is runs' Frame
_noticed: ContextVar[dict[str, None] | None] = ContextVar("noticed", default=None)


def refuse_stopped() -> None:
    """Raises Stopped when nobody waits for the outcome any more."""
    stop = STOP.get()
    if stop is not None and stop():
        raise Stopped


class Noticing:
    """What is met here while this is entered, a line for each, in order."""

    __slots__ = ("_before",)

    def __enter__(self) -> dict[str, None]:
        lines: dict[str, None] = {}
        self._before = _noticed.set(lines)
        return lines

    def __exit__(self, *_: object) -> None:
        _noticed.reset(self._before)


def notice(line: str) -> None:
    """Tell whoever notices what is met here."""
    lines = _noticed.get()
    if lines is not None:
        lines[line] = None


def begin(thread: threading.Thread, what: str) -> threading.Thread:
    """The thread, started. Raises NoThread; then nothing of its work was done, and whoever claimed gives back."""
    try:
        thread.start()
    except RuntimeError as error:
        raise errors.NoThread(what, str(error)) from error
    return thread


def calls_user_code(function: F) -> F:
    """Mark a function that itself calls the user's code: a signal that comes while it waits for that may raise there.

    The innermost decorator: it marks the `def` right below it.
    """
    CALLERS.add(function.__code__)
    return function


# -- tracebacks --------------------------------------------------------------------------------------

E = TypeVar("E", bound=BaseException)

_OURS = f"{Path(__file__).parents[1]}{os.sep}"
_LIBRARY = os.path.dirname(os.__file__)
_CARRIERS = tuple(os.path.join(_LIBRARY, name) for name in (f"asyncio{os.sep}", "threading.py", "contextlib.py"))


_INNER_NAME = r"(?m)^outlast_file_[0-9a-f]{16}\."  # of a module that was loaded from a file


def is_ours(filename: str) -> bool:
    """Whether a file is part of this package."""
    return filename.startswith(_OURS)


def folded(error: E) -> E:
    """The same error, with the frames of whoever wrote the flow alone, and so are its causes."""
    for each in _chain(error):
        frames = list(_frames(each.__traceback__))
        kept = _kept([frame.tb_frame.f_code.co_filename for frame in frames], each)
        if not all(kept):
            each.__traceback__ = _linked([frame for frame, keep in zip(frames, kept, strict=True) if keep])
    return error


def text_of(error: BaseException) -> str:
    """An error with its traceback, as Python prints it; a line stands for the calls of ours that are folded."""
    from traceback import TracebackException

    made = TracebackException.from_exception(error)
    for each, told in _pairs(error, made, set()):
        told.stack = _Folded(told.stack, each)  # type: ignore[assignment]
    return re.sub(_INNER_NAME, "", "".join(made.format()))


def own_place(error: BaseException | None) -> str:
    """The innermost line of whoever wrote the flow: `file:line in name`; empty when there is none."""
    found = ""
    for frame in _frames(error.__traceback__) if error is not None else ():
        code = frame.tb_frame.f_code
        found = found if is_ours(code.co_filename) else f"{code.co_filename}:{frame.tb_lineno} in {code.co_name}"
    return found


def _kept(files: Sequence[str], error: BaseException) -> list[bool]:
    """Which frames are shown."""
    folds, before = [], False
    for file in files:
        before = is_ours(file) or (before and file.startswith(_CARRIERS))
        folds.append(before)
    if False not in folds:
        return [True] * len(folds)
    last = len(folds) - folds[::-1].index(False)  # what comes from here on is ours
    own_error = isinstance(error, OutlastError)
    return [not fold or (place >= last and not own_error) for place, fold in enumerate(folds)]


def _frames(found: TracebackType | None) -> Iterator[TracebackType]:
    while found is not None:
        yield found
        found = found.tb_next


def _linked(frames: Iterable[TracebackType]) -> TracebackType | None:
    made: TracebackType | None = None
    for frame in reversed([*frames]):
        made = TracebackType(made, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return made


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error, its causes and contexts, and the members of groups: each once."""
    left, seen = [error], set()
    while left:
        each = left.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        left += [found for found in (each.__cause__, each.__context__) if found is not None]
        left += each.exceptions if isinstance(each, BaseExceptionGroup) else ()


def _pairs(error: Any, told: Any, seen: set[int]) -> Iterator[tuple[BaseException, TracebackException]]:
    """Each error of a chain with what Python would print of it."""
    if error is None or told is None or id(told) in seen:
        return
    seen.add(id(told))
    yield error, told
    yield from _pairs(error.__cause__, told.__cause__, seen)
    yield from _pairs(error.__context__, told.__context__, seen)
    for each, one in zip(getattr(error, "exceptions", ()), told.exceptions or (), strict=False):
        yield from _pairs(each, one, seen)


class _Folded:
    """A stack as Python prints it, with a line in place of our frames between theirs."""

    def __init__(self, stack: Any, error: BaseException) -> None:
        self._stack = stack
        self._kept = _kept([frame.filename for frame in stack], error)

    def __iter__(self) -> Iterator[FrameSummary]:
        return iter(self._stack)

    def format(self, **how: Any) -> list[str]:
        lines: list[str] = []
        hidden = 0
        for frame, keep in zip(self._stack, self._kept, strict=True):
            if not keep:
                hidden += 1
                continue
            if hidden and lines:
                lines.append(f"  [{hidden} {'call' if hidden == 1 else 'calls'} inside outlast]\n")
            hidden = 0
            lines += type(self._stack).from_list([frame]).format()
        return lines
