"""API keys: who may ask a server for what. Pure.

A key reads `ol_<id>_<secret>`. The id names it in lists and logs; the secret is shown once and kept only as a digest.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from datetime import datetime
from typing import Literal

from outlast.home.place import check_name
from outlast.values.frozen import dataclass

Role = Literal["read", "write", "approve", "admin"]
ROLES: tuple[Role, ...] = ("read", "write", "approve", "admin")
UNPROVEN = " (unproven)"  # after the name of an actor who had no key to prove it
_KEY = re.compile(r"ol_([a-z0-9]{12})_([A-Za-z0-9_-]{43})")


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as lists show it: all but its secret."""

    id: str
    tenant: str
    actor: str
    roles: tuple[Role, ...]
    created_at: datetime
    expires_at: datetime | None = None
    last_used_at: datetime | None = None  # to the minute
    revoked_at: datetime | None = None

    def usable(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key that was just made, with the text that opens the door: it is never shown again."""

    key: ApiKey
    text: str


def text_of(key_id: str, secret: str) -> str:
    return f"ol_{key_id}_{secret}"


def parts_of(text: str) -> tuple[str, str] | None:
    """The id and the secret of a key; None when it is no key."""
    found = _KEY.fullmatch(text)
    return (found[1], found[2]) if found else None


def print_of(secret: str) -> str:
    """What is kept of a secret. It is random and long, so that a plain digest cannot be guessed."""
    return hashlib.sha256(secret.encode()).hexdigest()


def matches(secret: str, kept: str) -> bool:
    """Whether this is the secret, compared in constant time."""
    return hmac.compare_digest(print_of(secret), kept)


def unproven(actor: str) -> str:
    """How records name an actor whom a request named without a key. No key's actor is ever called so.

    Raises NameInvalid.
    """
    checked = check_name("actor", actor)
    return checked if checked.endswith(UNPROVEN) else checked + UNPROVEN


def allows(roles: tuple[Role, ...], wanted: Role) -> bool:
    """Whether roles suffice. Every role may read; `admin` may do everything."""
    return "admin" in roles or wanted in roles or (wanted == "read" and bool(roles))
