"""Ids: short, random, safe in paths and shells. Tests replace the source. And plain chance."""

from __future__ import annotations

import os
from collections.abc import Callable

Ids = Callable[[], str]
_LETTERS = "abcdefghjkmnpqrstvwxyz0123456789"
_LETTER_OF = (_LETTERS * 8).encode()  # of each byte


def random_id() -> str:
    """Twelve letters, 60 bits: unique prefixes stay short, and a double is refused by the store."""
    return os.urandom(12).translate(_LETTER_OF).decode()


def chance() -> float:
    """A number from 0 to 1, for jitter."""
    return int.from_bytes(os.urandom(4), "big") / 2**32


def counted(prefix: str) -> Ids:
    """Ids that count up, for tests that compare text."""
    number = 0

    def following() -> str:
        nonlocal number
        number += 1
        return f"{prefix}{number:04d}"

    return following
