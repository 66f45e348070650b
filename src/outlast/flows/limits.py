"""Through which queue a flow's runs go, how many of them at once, and at which times. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from outlast.values.codec import encode
from outlast.values.text import duration

_RATE = re.compile(r"([1-9][0-9]{0,8})\s*/\s*([smhd])\w*")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
LANE = "\x1f"  # between a flow and a value in the name of a lane: it cannot be printed, and names can


class FlowLimits(Struct, frozen=True):
    """What `@flow` says about queues and times."""

    queue: str = ""  # in which its runs wait; empty: `start` begins them at once
    concurrency: int = 0  # at once, over all workers; 0: however many
    per: str = ""  # an input or a tag: the limits hold for each value of it
    rate: str = ""  # how many may begin, such as 30/m
    schedule: str = ""  # a line of cron: workers that have the flow run it at these times
    timezone: str = "UTC"
    queue_timeout: float | str = 0  # a run ends that waits in its queue for longer; 0: it waits for ever

    def wrong(self) -> str:
        """What of it cannot be; empty when all of it can."""
        given: Any = self.concurrency
        if type(given) is not int or given < 0:
            return f"concurrency must be a whole number from 1 on, not {given!r}"
        if self.rate and rate_of(self.rate) is None:
            return f"rate must be a number a second, minute, hour or day, such as 30/m, not {self.rate!r}"
        if duration(self.queue_timeout) is None:
            return f"queue_timeout must be seconds, or text such as 90s, 10m, 48h, not {self.queue_timeout!r}"
        return ""

    def lane(self, identity: str, inputs: Mapping[str, Any], tags: Sequence[str]) -> str:
        """What limits hold for together: the flow, and the value of `per` where that is said."""
        return identity + LANE + (self._value(inputs, tags) if self.per else "")

    def _value(self, inputs: Mapping[str, Any], tags: Sequence[str]) -> str:
        if self.per in inputs:
            value = inputs[self.per]
            return value if isinstance(value, str) else encode(value).decode()
        found = (tag.removeprefix(self.per)[1:] for tag in tags if tag.startswith((f"{self.per}:", f"{self.per}=")))
        return next(found, "")


NO_LIMITS = FlowLimits()


def rate_of(text: str) -> tuple[int, int] | None:
    """How many in how many microseconds; None when that is none."""
    found = _RATE.fullmatch(text.strip()) if isinstance(text, str) else None
    return (int(found[1]), _UNITS[found[2]] * 1_000_000) if found else None
