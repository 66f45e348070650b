"""The rare knobs, as one frozen value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from outlast.values.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """Defaults fit nearly everyone; tests shorten the times."""

    lease_seconds: float = 30.0  # silence after which another worker may take over
    claim_seconds: float = 15 * 60.0  # how long a handoff is claimed without being used
    beat_seconds: float = 5.0  # how often a process says that it lives
    inline_bytes: int = 32 * 1024  # larger results live in the blob store
    close_seconds: float = 30.0  # how long closing waits for runs that were asked to stop
    grace_seconds: float = 30.0  # for the step under way, after the first signal
    patience_seconds: float = 5.0  # between TERM and KILL, for a command that is to end
    state_bytes: int = 64 * 1024
    crashes_before_asking: int = 3  # in one step, before a person is asked
    sleep_in_place_seconds: float = 60.0  # longer sleeps end the process's part and leave a timer
    redeliver_seconds: float = 3600.0  # how long an outcome that nobody received is kept for an equal call; 0: not
    mirror_seconds: float = 1.0  # how far behind the mirror of a Python flow may be; 0: none until asked for
    secret_patterns: Mapping[str, str | Mapping[str, str]] = field(default_factory=dict)  # rules of one's own, by name
