"""Which functions of ours call the user's: they say so themselves, with `@calls_user_code`.

A signal that comes while one of them waits for the user's code may raise there; anywhere else of ours it may not.
"""

from collections.abc import Callable
from types import CodeType
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

CALLERS: set[CodeType] = set()


def calls_user_code(function: F) -> F:
    """Mark a function that itself calls the user's code. The innermost decorator: it marks the `def` right below it."""
    CALLERS.add(function.__code__)
    return function
