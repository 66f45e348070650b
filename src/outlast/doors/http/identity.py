"""Who asks: by key, or on this machine without one; and whether they are let in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from outlast.errors import Forbidden, Unauthenticated
from outlast.home.key import ROLES, ApiKey, Role, allows

if TYPE_CHECKING:
    from outlast.home.keys import Keys

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, slots=True)
class Identity:
    """In whose name a request is answered."""

    tenant: str
    actor: str
    roles: tuple[Role, ...]
    key: ApiKey | None = None  # None: somebody on this machine, who may also say who he is

    def refuse_without(self, role: Role) -> None:
        """Raises Forbidden."""
        if not allows(self.roles, role):
            has = ", ".join(self.roles)
            raise Forbidden(f"this needs the role {role}, and the key has {has}", "use a key that has it")


class Doorkeeper:
    """Lets requests in: by Host and Origin first, then by key."""

    def __init__(self, keys: Keys, *, loopback: bool, tenant: str, hosts: tuple[str, ...] = ()) -> None:
        self.keys, self._loopback = keys, loopback
        self._local = Identity(tenant, "local", (ROLES[-1],))
        self._hosts = frozenset(host.lower() for host in (*LOOPBACK, *hosts)) if loopback or hosts else None

    def check_place(self, host: str, origin: str | None) -> None:
        """Raises Forbidden for a request that a web page of another place may have sent."""
        if self._hosts is not None and _name(host) not in self._hosts:
            raise Forbidden(
                f"the host {host[:200]!r} is not this server's", "use its own, or `outlast serve --allow-host`"
            )
        if origin is not None and not self._is_ours(origin, host):
            raise Forbidden(f"pages of {origin[:200]!r} are not let in", "allow its host: `outlast serve --allow-host`")

    def _is_ours(self, origin: str, host: str) -> bool:
        scheme, _, place = origin.partition("://")
        if scheme not in ("http", "https"):
            return False
        return place.lower() == host.lower() if self._hosts is None else _name(place) in self._hosts

    def who(self, authorization: str | None) -> Identity:
        """Whose request this is. Raises Unauthenticated: a key that is given is checked wherever it comes from."""
        if authorization is None:
            if self._loopback:
                return self._local
            raise Unauthenticated("this server is not on loopback, and the request has no key")
        scheme, _, text = authorization.partition(" ")
        if scheme.lower() != "bearer":
            raise Unauthenticated("the Authorization header is no bearer token")
        key = self.keys.check(text.strip())
        return Identity(key.tenant, key.actor, key.roles, key)


def _name(place: str) -> str:
    """A host without its port."""
    place = place.lower()
    if place.startswith("["):
        return place.partition("]")[0] + "]"
    return place.partition(":")[0]
