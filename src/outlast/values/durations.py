"""Durations as people write them: seconds, or text such as `90s`, `10m`, `48h`. Pure."""

from __future__ import annotations

import re
from typing import Any

FOREVER = 1e11  # seconds: 3,000 years, still a time that a calendar can name
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?")
_UNITS = {"ms": 0.001, None: 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def duration(value: Any) -> float | None:
    """The seconds that a number or a text stands for; None when it is no duration."""
    found = -1.0
    if isinstance(value, int | float) and not isinstance(value, bool):
        found = float(min(value, FOREVER))
    elif isinstance(value, str) and (match := _DURATION.fullmatch(value.strip())):
        found = float(match[1]) * _UNITS[match[2]]
    return found if 0 <= found < FOREVER else None  # NaN is neither
