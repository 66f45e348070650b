"""Runs that were started and go on in the background."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

from outlast.runs.run import Outcome

T = TypeVar("T")


class Started(Generic[T]):
    """A run that goes on in the background."""

    def __init__(self, run_id: str, notes: tuple[str, ...] = ()) -> None:
        self.run_id, self.notes = run_id, notes
        self._done = threading.Event()
        self._outcome: Outcome[T] | None = None
        self._error: BaseException | None = None
        self._told: list[Callable[[], object]] = []

    def when_done(self, tell: Callable[[], object]) -> None:
        """Call it once the run has ended or waits, in whatever thread that is; perhaps more than once."""
        self._told.append(tell)
        if self._done.is_set():
            tell()

    def outcome(self, timeout: float | None = None) -> Outcome[T]:
        """Wait for the run to end or wait. Raises TimeoutError, or what stopped it."""
        if not self._done.wait(timeout):
            raise TimeoutError(f"run {self.run_id} has not ended within {timeout} s")
        if self._error is not None:
            raise self._error
        assert self._outcome is not None
        return self._outcome

    def _work(self, go_on: Callable[[], Outcome[T]]) -> None:
        try:
            self._outcome = go_on()
        except BaseException as error:
            self._error = error
        finally:
            self._done.set()
            for tell in self._told:
                tell()


class AsyncStarted(Generic[T]):
    """A run that goes on in a background task. Await it for its outcome."""

    def __init__(self, run_id: str, future: Any) -> None:
        self.run_id = run_id
        self._future = future

    def __await__(self) -> Generator[Any, None, Outcome[T]]:
        awaited: Generator[Any, None, Outcome[T]] = self._future.__await__()
        return awaited
