"""How often and when something that failed is tried again by itself: a step, an effect, a whole run. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from outlast.errors import StepTimedOut
from outlast.values.frozen import dataclass

BACKOFF_SECONDS = 0.5
MAX_DELAY_SECONDS = 60.0
JITTER = 0.5
_DOUBLINGS = 64  # more would be no number that a clock knows

Errors = type[BaseException] | Iterable[type[BaseException]]


@dataclass(frozen=True, slots=True)
class Retry:
    """Further attempts after a failure, and the waits before them."""

    retries: int = 0
    backoff: float = BACKOFF_SECONDS  # before the first of them; doubles
    max_delay: float = MAX_DELAY_SECONDS  # no wait is longer
    jitter: float = JITTER  # up to this part of a wait is left out, by chance
    retry_on: tuple[type[BaseException], ...] = ()  # none: whatever it was

    def takes(self, error: BaseException) -> bool:
        """Whether a failure of this type is worth another attempt. A step's timeout counts as a TimeoutError."""
        if not self.retry_on or isinstance(error, self.retry_on):
            return True
        return isinstance(error, StepTimedOut) and any(issubclass(TimeoutError, kind) for kind in self.retry_on)

    def delay(self, failures: int, luck: float) -> float:
        """Seconds before the next attempt after so many failures; `luck`, from 0 to 1, decides about the jitter."""
        full = self.backoff * 2.0 ** min(failures - 1, _DOUBLINGS)
        return (1.0 - luck * self.jitter) * min(full, self.max_delay)

    def wrong(self) -> str:
        """What of it cannot be; empty when all of it can."""
        given: tuple[Any, ...] = (self.retries, self.jitter, *self.retry_on)  # whatever the caller wrote
        retries, jitter, *kinds = given
        if type(retries) is not int or retries < 0:
            return f"retries must be 0 or more, not {retries!r}"
        if type(jitter) not in (int, float) or not 0 <= jitter <= 1:
            return f"jitter must be from 0 to 1, not {jitter!r}"
        wrong = [kind for kind in kinds if not (isinstance(kind, type) and issubclass(kind, BaseException))]
        return f"retry_on takes types of exceptions, not {wrong[0]!r}" if wrong else ""


NO_RETRY = Retry()


def types_of(given: Any) -> tuple[Any, ...]:
    """What retry_on names: one type, or several."""
    return (given,) if isinstance(given, type) or not isinstance(given, Iterable) else tuple(given)
