"""The home, opened for one event: for the clerk that stores what a session left, and for a start that looks it up."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from outlast.home.home import Runtime

BUSY_SECONDS = 30.0  # that the clerk waits for others who write


@contextmanager
def opened(home: str, actor: str, *, busy_seconds: float = BUSY_SECONDS) -> Iterator[Runtime]:
    """The home, for one short use; nothing runs here, so there is nothing to end. Raises OutlastError."""
    from outlast.home.home import Runtime

    runtime = Runtime(home, facade=_no_flow, actor=actor, store_options={"busy_seconds": busy_seconds})
    runtime.tokens.update(filter(None, [os.environ.get("OUTLAST_CLAIM")]))
    try:
        yield runtime
    finally:
        runtime.store.close()


def _no_flow(*_: object) -> None:
    raise AssertionError("a hook runs no flow")
