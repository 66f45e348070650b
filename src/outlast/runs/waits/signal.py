"""Signals: named messages to a run, or to whatever run of a task comes to wait for them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from outlast.values.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Signal:
    """A message that was sent. It is consumed once."""

    id: str
    name: str
    body: Any
    task: str
    run_id: str  # the run it was sent to, or the one that it let go on; "" while nobody waits for it
    interrupt: str  # the wait that it answered; "" while it is kept for one to come
    actor: str
    sent_at: datetime
    replayed: bool = False
