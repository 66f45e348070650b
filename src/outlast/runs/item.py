"""The items of a map: by which key each is known, and what became of one when failures are collected."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from outlast.errors import MapKeyTaken, NameInvalid
from outlast.values.frozen import dataclass

if TYPE_CHECKING:
    from typing import TypeAlias

T = TypeVar("T")
KEY_LENGTH = 200


@dataclass(frozen=True, slots=True)
class Ok(Generic[T]):
    """An item of a map whose call returned, or was skipped with a result."""

    value: T
    item: int = 0  # which one, counted from 1
    key: str = ""  # what `key=` gave for it

    def unwrap(self) -> T:
        """The value."""
        return self.value


@dataclass(frozen=True, slots=True)
class Failed:
    """An item of a map whose call failed for good. The error is the same on replay."""

    error: Exception
    item: int = 0  # which one, counted from 1
    key: str = ""  # what `key=` gave for it

    def unwrap(self) -> NoReturn:
        """Raises the error. If that ends the run, a resume tries this item again."""
        raise self.error


Item: TypeAlias = "Ok[T] | Failed"


def unwrap_all(results: Iterable[Ok[T] | Failed]) -> list[T]:
    """The values of a map whose items are all well, in order.

    Raises ExceptionGroup with the errors of all that failed. If that ends the run, a resume tries all of those again,
    and nothing else.
    """
    found = list(results)
    failed = [one.error for one in found if isinstance(one, Failed)]
    if failed:
        raise ExceptionGroup(f"{len(failed)} of {len(found)} items failed", failed)
    return [one.value for one in found if isinstance(one, Ok)]


def keys_of(step: str, items: Sequence[Any], key: Callable[[Any], Any]) -> list[str]:
    """The key of each item. Raises MapKeyTaken for two items of one key, NameInvalid for what cannot be one."""
    seen: dict[str, int] = {}
    for number, item in enumerate(items, 1):
        made = _checked(step, number, key(item))
        if made in seen:
            raise MapKeyTaken(step, made, seen[made], number)
        seen[made] = number
    return list(seen)


def _checked(step: str, number: int, made: Any) -> str:
    kind = f"key of item {number} of map {step}:"
    if isinstance(made, bool) or not isinstance(made, str | int):
        raise NameInvalid(kind, repr(made), "a key is a text or a whole number")
    text = str(made)
    if not text or len(text) > KEY_LENGTH or not text.isprintable():
        raise NameInvalid(kind, text, f"a key is printable, of 1 to {KEY_LENGTH} characters")
    return text
