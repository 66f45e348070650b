"""API keys: made, listed, revoked; who holds one, and what they may ask a server for.

A key reads `ol_<id>_<secret>`. The id names it in lists and logs; the secret is shown once and kept only as a digest.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, cast

from msgspec import Struct

from outlast.clock import Clock, SystemClock, micros, moment
from outlast.errors import IntegrityBroken, KeyNotFound, NameInvalid, Unauthenticated
from outlast.home.place import FoundHome, check_name, check_tenant, keep_out_of_git, look_up
from outlast.ids import Ids, random_id
from outlast.store import open_keys
from outlast.store.contract import KeyRow
from outlast.values.codec import decode, encode
from outlast.values.text import duration

Role = Literal["read", "write", "approve", "admin"]
ROLES: tuple[Role, ...] = ("read", "write", "approve", "admin")
UNPROVEN = " (unproven)"  # after the name of an actor who had no key to prove it
_KEY = re.compile(r"ol_([a-z0-9]{12})_([A-Za-z0-9_-]{43})")  # its id and its secret


class ApiKey(Struct, frozen=True):
    """A key as lists show it: all but its secret."""

    id: str
    tenant: str
    actor: str
    roles: tuple[Role, ...]
    created_at: datetime
    expires_at: datetime | None = None
    last_used_at: datetime | None = None  # to the minute
    revoked_at: datetime | None = None
    scopes: tuple[str, ...] = ()  # those that it is bound to; without any it is of the whole tenant

    def usable(self, now: datetime) -> bool:
        """Whether it opens anything at that time: it is neither revoked nor over."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class NewKey(Struct, frozen=True):
    """A key that was just made, with the text that opens the door: it is never shown again."""

    key: ApiKey
    text: str


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


Noting = Callable[[ApiKey], AbstractContextManager[Any]]
USED_US = 60_000_000  # that a key was used is written once a minute at most


def _unnoted(key: ApiKey) -> AbstractContextManager[Any]:
    return nullcontext()


class Keys:
    """The keys of a home, for every tenant."""

    def __init__(self, home: Path | FoundHome, *, clock: Clock | None = None, ids: Ids = random_id) -> None:
        self._found = look_up(home)
        self.home = self._found.path
        self._file = open_keys(self.home, self._found.database)
        self._clock = clock or SystemClock()
        self._ids = ids
        self._any = False  # once there was one, there is

    def create(
        self,
        actor: str,
        *,
        tenant: str = "default",
        roles: Iterable[str] = ("read", "write"),
        expires: object = None,
        scopes: Iterable[str] = (),
        noting: Noting = _unnoted,
    ) -> NewKey:
        """A new key, of the whole tenant unless it is bound to scopes; the first of them is where it is by itself.

        Its text is shown here and never again. `noting` is what it is made in, once it is known. Raises NameInvalid.
        """
        now, secret = self._clock.now(), secrets.token_urlsafe(32)
        row = KeyRow(
            id=self._ids(),
            print=print_of(secret),
            tenant=check_tenant(tenant),
            actor=_actor(actor),
            roles=encode(_roles(roles)).decode(),
            scopes=encode(_scopes(scopes)).decode(),
            created_at=now,
            expires_at=_expiry(expires, now),
            last_used_at=0,
            revoked_at=0,
        )
        with noting(_key(row)):
            self._file.add(row)
        if not self._found.database:
            keep_out_of_git(self.home)
        return NewKey(_key(row), f"ol_{row.id}_{secret}")

    def list(self) -> list[ApiKey]:
        """Every key, the oldest first, also those that are over; not those that are damaged, which nobody can use."""
        return [_key(row) for row in self._file.all() if row.is_sound()]

    def damaged(self) -> tuple[str, ...]:
        """The ids of keys whose record is not what was stored."""
        return tuple(str(row.id) for row in self._file.all() if not row.is_sound())

    def are_gone(self) -> bool:
        """Whether a key was made here, and there is none: a key that is over stays on the list."""
        return self._file.is_any() and not self._file.all()

    def is_any(self) -> bool:
        """Whether there is or ever was a key here: one that was revoked or has expired opens no door again."""
        self._any = self._any or self._file.is_any()
        return self._any

    def is_any_usable(self) -> bool:
        """Whether somebody can be let in by a key now."""
        now = moment(self._clock.now())
        return any(key.usable(now) for key in self.list())

    def revoke(self, key_id: str, noting: Noting = _unnoted) -> ApiKey:
        """End a key, at once and for good; one that was ended stays as it is.

        `noting` is what it is ended in. Raises KeyNotFound, or IntegrityBroken for one that ended by damage.
        """
        row = self._file.find(key_id)
        if row is None:
            raise KeyNotFound(key_id, self._found.name)
        if not row.is_sound():
            raise IntegrityBroken(f"key {key_id}", "its record was changed, and nobody can use it")
        if not row.revoked_at:
            with noting(_key(row)):
                self._file.revoke(row, self._clock.now())
        return _key(cast(KeyRow, self._file.find(key_id)))

    def check(self, text: str) -> ApiKey:
        """Whose key this is. Raises Unauthenticated; why it is refused is told only to who has the secret."""
        found = _KEY.fullmatch(text)
        row = self._file.find(found[1]) if found else None
        if found is None or row is None or not matches(found[2], row.print):
            raise Unauthenticated("the key is not known here")
        return self._usable(row)

    def check_usable(self, key_id: str) -> ApiKey:
        """A key that was checked before, as it is now. Raises Unauthenticated when it is over."""
        row = self._file.find(key_id)
        if row is None:
            raise Unauthenticated(f"the key {key_id} is not known here any more")
        return self._usable(row)

    def _usable(self, row: KeyRow) -> ApiKey:
        if not row.is_sound():
            raise Unauthenticated(f"the record of key {row.id} is not what was stored; see `outlast verify`")
        key = _key(row)
        if key.revoked_at is not None:
            raise Unauthenticated(f"the key {key.id} was revoked")
        if not key.usable(moment(self._clock.now())):
            raise Unauthenticated(f"the key {key.id} has expired")
        return key

    def token(self, key_id: str, purpose: str, seconds: int) -> str:
        """What stands for a key for one purpose and for a while, without its secret. Raises Unauthenticated.

        It is made of what is kept of the secret, so that it ends with the key and nothing has to be kept of it.
        """
        row = self._file.find(key_id)
        if row is None:
            raise Unauthenticated(f"the key {key_id} is not known here any more")
        until = self._clock.now() // 1_000_000 + seconds
        return f"{key_id}.{until}.{_seal(row.print, purpose, until)}"

    def check_token(self, text: str, purpose: str) -> ApiKey:
        """Whose token this is. Raises Unauthenticated."""
        key_id, until, seal = (*text.split("."), "", "")[:3]
        row = self._file.find(key_id) if until.isascii() and until.isdigit() and len(until) < 16 else None
        if row is None or not hmac.compare_digest(_seal(row.print, purpose, int(until)), seal):
            raise Unauthenticated("the token is not known here")
        if int(until) * 1_000_000 < self._clock.now():
            raise Unauthenticated("the token is over")
        return self._usable(row)

    def used(self, key: ApiKey) -> None:
        """Note that a key was used now, unless that was noted a moment ago."""
        if not self.is_noted(key):
            self._file.use(key.id, self._clock.now())

    def is_noted(self, key: ApiKey) -> bool:
        """Whether its use was written within the last minute."""
        return key.last_used_at is not None and self._clock.now() - micros(key.last_used_at) < USED_US

    def close(self) -> None:
        """No key can be made, listed or asked for any more."""
        self._file.close()


def _seal(kept: str, purpose: str, until: int) -> str:
    return hmac.new(kept.encode(), f"{purpose} {until}".encode(), hashlib.sha256).hexdigest()


def _actor(given: str) -> str:
    if check_name("actor", given).endswith(UNPROVEN):
        raise NameInvalid("actor", given, f"names that end in{UNPROVEN} are of those who had no key")
    return given


def _roles(given: Iterable[str]) -> list[Role]:
    """The roles, each once, in their own order. Raises NameInvalid."""
    wanted = {given} if isinstance(given, str) else set(given)
    for role in wanted:
        if role not in ROLES:
            raise NameInvalid("role", str(role), f"use one of {', '.join(ROLES)}")
    if not wanted:
        raise NameInvalid("role", "", f"name at least one of {', '.join(ROLES)}")
    return [role for role in ROLES if role in wanted]


def _scopes(given: Iterable[str]) -> list[str]:
    """The scopes, each once, in the order in which they were given. Raises NameInvalid."""
    return list(dict.fromkeys(check_name("scope", each) for each in ((given,) if isinstance(given, str) else given)))


def _expiry(given: object, now: int) -> int:
    if given is None:
        return 0
    seconds = duration(given)
    if not seconds:
        raise NameInvalid("expires", str(given), "say how long it is good for, such as 12h or 90d")
    return now + int(seconds * 1_000_000)


def _key(row: KeyRow) -> ApiKey:
    roles: tuple[Role, ...] = tuple(decode(row.roles))
    scopes: tuple[str, ...] = tuple(decode(row.scopes))
    expires, used, revoked = (moment(at) if at else None for at in (row.expires_at, row.last_used_at, row.revoked_at))
    return ApiKey(row.id, row.tenant, row.actor, roles, moment(row.created_at), expires, used, revoked, scopes)
