"""The worker as an application has it. What it does is in a room that builds on this one (`worker/`)."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from outlast.errors import ValueRefused
from outlast.values.text import duration

if TYPE_CHECKING:
    from outlast.python.decorators import Flow, FlowFile
    from outlast.python.outlast import Outlast

ROOM = "outlast.worker.worker"  # it cannot be imported here: it builds on this


class Worker(Protocol):
    """Goes on with what can go on by itself, from `start` to `stop`, or for as long as a block lasts."""

    @property
    def under_way(self) -> list[str]:
        """The ids of the runs that it has taken, and that go on."""

    def start(self) -> Self:
        """Begin to work, in the background. Raises NoThread."""

    def stop(self) -> None:
        """Take nothing any more; runs under way end their steps, and go on where somebody works next."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...


def make_worker(
    outlast: Outlast,
    flows: Sequence[Flow[..., Any] | FlowFile],
    concurrency: int | None = None,
    drain: float | str | None = None,
    **more: Any,
) -> Worker:
    """A worker on one home. Raises ValueRefused."""
    given = {"drain_seconds": seconds_of("drain", drain), "only_given": bool(flows), "notifies": True, **more}
    if concurrency is not None:
        given["concurrency"] = concurrency
    if flows:
        outlast._serve(flows)
    found: Worker = import_module(ROOM).Worker([outlast], **given)
    return found


def seconds_of(name: str, given: float | str | None) -> float | None:
    """A time that was given, in seconds. Raises ValueRefused."""
    found = None if given is None else duration(given)
    if given is not None and found is None:
        raise ValueRefused(name, f"{given!r:.100} is no time", "give seconds, or text such as 30s, 5m")
    return found
