"""Writes that carry an operation_id: an exact repeat gets the first answer and writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from outlast.errors import OperationConflict
from outlast.home.place import check_name
from outlast.store.contract import Reading, Writing
from outlast.values.codec import encode, identity
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.home.home import Home

T = TypeVar("T")


def check_id(operation_id: str | None) -> None:
    """Raises NameInvalid for what is no name of an operation: printable text of at most 500 characters."""
    if operation_id is not None:
        check_name("operation_id", operation_id)


class DoneBefore(NamedTuple):
    """What was remembered of a write that was done before. It is read when the transaction is over."""

    answer: str


class Repeated(Exception):
    """Raised inside a write that was done before, for a caller who gives the first answer his own way."""

    def __init__(self, answer: str) -> None:
        super().__init__(answer)
        self.answer = answer


class Repeatable:
    """One write by its id (None: it can be repeated freely), with a print of what was asked for."""

    def __init__(self, operation_id: str | None, kind: str, content: Any) -> None:
        self.id, self.kind = operation_id, kind
        self.print = identity(encode([kind, content])) if operation_id is not None else ""

    def answered(self, look: Reading) -> str | None:
        """The first answer, if it was done before. Raises OperationConflict when the id was used for another one."""
        before = look.operation(self.id) if self.id is not None else None
        if before is None:
            return None
        if before[:2] != (self.kind, self.print):
            raise OperationConflict(str(self.id), before[0])
        return before[2]

    def note(self, tx: Writing, answer: str, at: int) -> None:
        """Remember the answer, in the transaction that did it."""
        if self.id is not None:
            tx.add_operation(self.id, self.kind, self.print, answer, at)


def once(
    home: Home, operation: Repeatable, work: Callable[[Writing], tuple[T, str | None]], again: Callable[[str], T]
) -> T:
    """Do `work` in one transaction and give its value; it says what to remember, and `again` makes the value of that.

    With nothing to remember (None) the same may be asked for again.
    `again` looks after the commit: what it reads may have been written in that same one.
    """

    def guarded(tx: Writing) -> tuple[T | None, str | None]:
        before = operation.answered(tx)
        if before is not None:
            return None, before
        value, answer = work(tx)
        if answer is not None:
            operation.note(tx, answer, home.clock.now())
        return value, None

    value, before = home.store.write(guarded)
    return again(before) if before is not None else cast(T, value)
