"""Which calls a body's end undoes: the failures that it is made of, and what was cancelled with them."""

from __future__ import annotations

from outlast.runs.call import Call

REMEMBERED = 1_000  # failures that a body caught long ago cannot end it any more


class Endings:
    """Failures and cancellations that the flow was given, in order."""

    def __init__(self) -> None:
        self._failed: dict[int, tuple[BaseException, list[Call], int]] = {}
        self._room = REMEMBERED
        self._cancelled: list[Call] = []
        self._settled = 0  # how many of the cancelled ones another outcome followed

    def failed(self, error: BaseException, call: Call) -> BaseException:
        """Remember which call a failure came from, in case it ends the run."""
        known = self._failed.get(id(error))
        if known is not None:  # one exception that several calls ended with
            known[1].append(call)
            return error
        if len(self._failed) >= self._room:
            del self._failed[next(iter(self._failed))]
        self._failed[id(error)] = (error, [call], len(self._cancelled))
        return error

    def make_room(self, calls: int) -> None:
        """So many calls may fail, and all of their failures end the run together."""
        self._room = max(self._room, calls)

    def knows(self, error: BaseException) -> bool:
        """Whether this is a failure that a call ended with."""
        return id(error) in self._failed

    def cancelled(self, call: Call) -> None:
        """The flow cancelled a call, now or again."""
        self._cancelled.append(call)

    def settled(self) -> None:
        """The flow was given another outcome: what it cancelled before stays cancelled."""
        self._settled = len(self._cancelled)

    def ended_by(self, error: BaseException) -> list[Call]:
        """The calls to try again after this exception ended the run.

        Those whose failures it is, wraps or was raised while handling; and those that were cancelled with it: after
        the first of these failures, or, when the body itself failed, with no other outcome after them.
        """
        found: list[Call] = []
        since = self._settled
        seen: set[int] = set()
        todo: list[BaseException | None] = [error]
        while todo:
            one = todo.pop()
            if one is None or id(one) in seen:
                continue
            seen.add(id(one))
            known = self._failed.get(id(one))
            if known is not None:
                since = min(known[2], since) if found else known[2]
                found += known[1]
                continue  # what it was raised while handling, the flow had caught: that is an outcome
            todo += [one.__cause__, one.__context__]
            if isinstance(one, BaseExceptionGroup):
                todo += one.exceptions
        return found + [call for call in self._cancelled[since:] if call not in found]
