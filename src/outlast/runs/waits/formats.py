"""Texts of a given format in an answer: moments, ids, numbers kept as text. Each is read as its type will read it."""

from __future__ import annotations

import re
from functools import cache
from typing import Annotated, Any

import msgspec

FORMATS = {
    "date-time": "a moment with its time zone, such as 2026-01-31T09:30:00Z",
    "date": "a date, such as 2026-01-31",
    "time": "a time of day, such as 09:30:00",
    "duration": "a duration, such as PT90S or P2D",
    "uuid": "a UUID",
    "decimal": "a decimal number as text, such as 9.90",
    "email": "an e-mail address",
    "uri": "a URI, such as https://example.org/page",
}
_PATTERNS = {"email": r"[^@\s]+@[^@\s]+", "uri": r"[A-Za-z][A-Za-z0-9+.-]*:\S+"}


def is_of_format(name: str, text: str) -> bool:
    """Whether a text is what its format says."""
    if name in _PATTERNS:
        return re.fullmatch(_PATTERNS[name], text) is not None
    try:
        msgspec.convert(text, _types()[name])
    except msgspec.ValidationError:
        return False
    return True


@cache
def _types() -> dict[str, Any]:
    from datetime import date, datetime, time, timedelta  # late: most answers have no format
    from decimal import Decimal
    from uuid import UUID

    aware = Annotated[datetime, msgspec.Meta(tz=True)]
    return {"date-time": aware, "date": date, "time": time, "duration": timedelta, "uuid": UUID, "decimal": Decimal}
