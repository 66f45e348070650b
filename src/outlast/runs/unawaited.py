"""What a body has made and not begun to await: a call that nobody awaits would be left out without a word.

Only the place in the code is noted when a call is made; which line that is, is found out when it is told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Coroutine
from inspect import CO_COROUTINE
from pathlib import Path
from sys import _getframe, getrefcount
from types import CodeType
from typing import Any

from outlast import errors
from outlast.flows.loading import lasting
from outlast.values.late import asyncio

_OURS_ALONE = 3  # references to a coroutine that nobody but us can await: the note, a local name, a call's argument
QUESTION = "run.pause_for"
IN_PLAIN = "a plain function cannot await it: call run.step({step}, …), or make the flow `async def`; then resume it"
_NAMED = 5  # of many, this many are named
Noted = tuple[Coroutine[Any, Any, Any], str, CodeType, int]


class Unawaited:
    """The calls of one execution that were made and have not ended."""

    def __init__(self, run_id: str, project: Path | None) -> None:
        self._run_id, self._project = run_id, project
        self._left: deque[Noted] = deque()
        self.last: Noted | None = None
        self._questions: list[tuple[Noted, object]] = []  # those that were not begun when looked at last, by their task

    def add(self, made: Coroutine[Any, Any, Any], what: str, depth: int) -> Coroutine[Any, Any, Any]:
        """The call that was made `depth` frames above, noted. Those that have ended are forgotten on the way."""
        left = self._left
        while left:
            first = left.popleft()
            if first[0].cr_frame is None:  # type: ignore[attr-defined]
                continue
            left.append(first)
            break
        caller = _getframe(depth)
        self.last = noted = (made, what, caller.f_code, caller.f_lasti)
        left.append(noted)
        if what == QUESTION:
            self._questions.append((noted, _task()))
        return made

    def has_question(self) -> bool:
        """Whether this task has made a question that is not asked yet."""
        return bool(self._questions) and bool(self._unasked())

    def refuse_before_effect(self) -> None:
        """Raises NeverAwaited if this task has made a question and not asked it: no effect goes before it."""
        if unasked := self._unasked():
            self._refuse(unasked)

    def _unasked(self) -> list[Noted]:
        self._questions = [(noted, task) for noted, task in self._questions if _is_new(noted[0])]
        now = _task()
        return [noted for noted, task in self._questions if task is now]

    def refuse_dropped(self) -> None:
        """Raises NeverAwaited if the call made before was let go of: nothing is done after a gate that was left out."""
        if self.last is not None:
            made = self.last[0]
            if made.cr_frame is None:  # type: ignore[attr-defined]  # nearly always: it has ended
                self.last = None
            elif getrefcount(made) <= _OURS_ALONE and _is_new(made):
                self._refuse([self.last])

    def refuse_left(self) -> None:
        """Raises NeverAwaited if anything was made that has not begun, at the end of the body."""
        left = [noted for noted in self._left if _is_new(noted[0])]
        if left:
            self._refuse(left)

    def close(self) -> None:
        """Let go of what was never begun: who was told so needs no warning."""
        self.last = None
        self._questions.clear()
        while self._left:
            made = self._left.popleft()[0]
            if _is_new(made):
                made.close()

    def _refuse(self, left: list[Noted]) -> None:
        named = "; ".join(f"{what} at {self._place(code, at)}" for _, what, code, at in left[:_NAMED])
        more = f"; and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
        if left[0][2].co_flags & CO_COROUTINE:
            raise errors.NeverAwaited(self._run_id, named + more)
        raise errors.NeverAwaited(self._run_id, named + more, IN_PLAIN.format(step=left[0][1]))

    def _place(self, code: CodeType, at: int) -> str:
        line = next((line for start, end, line in code.co_lines() if start <= at < end and line), code.co_firstlineno)
        return f"{lasting(code.co_filename, self._project)}:{line}"


def _task() -> object:
    """The task that this is done in; None outside of any."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def _is_new(made: Any) -> bool:
    """Whether it was never begun, nor closed or cancelled before it began."""
    return not made.cr_running and not made.cr_suspended and made.cr_frame is not None
