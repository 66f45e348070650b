"""Ids: short, random, safe in paths and shells. Tests replace the source."""

from __future__ import annotations

import secrets
from collections.abc import Callable

Ids = Callable[[], str]
_LETTERS = "abcdefghjkmnpqrstvwxyz0123456789"


def random_id() -> str:
    """Twelve letters, 59 bits: unique prefixes stay short, and a double is refused by the store."""
    return "".join(secrets.choice(_LETTERS) for _ in range(12))


def counted(prefix: str) -> Ids:
    """Ids that count up, for tests that compare text."""
    number = 0

    def following() -> str:
        nonlocal number
        number += 1
        return f"{prefix}{number:04d}"

    return following
