"""Who asks: by key, or on this machine without one while nobody has a key; and whether they are let in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from outlast.errors import Forbidden, Unauthenticated
from outlast.home.key import ROLES, ApiKey, Role, allows, unproven

if TYPE_CHECKING:
    from outlast.home.keys import Keys

LOCAL = "local"


@dataclass(frozen=True, slots=True)
class Identity:
    """In whose name a request is answered."""

    tenant: str
    actor: str
    roles: tuple[Role, ...]
    key: ApiKey | None = None  # None: somebody on this machine, who may also say who he is

    def may(self, role: Role) -> bool:
        """Whether who asks has this role."""
        return allows(self.roles, role)

    def refuse_without(self, *roles: Role) -> None:
        """Raises Forbidden for who has none of these."""
        if not any(map(self.may, roles)):
            needed, has = " or ".join(roles), ", ".join(self.roles)
            raise Forbidden(f"this needs the role {needed}, and the key has {has}", "use a key that has it")

    def actor_named(self, actor: str | None) -> str:
        """Who acts: the key's actor; without a key whoever is named, marked as unproven. Raises Forbidden."""
        if self.key is None:
            return self.actor if actor in (None, self.actor) else unproven(actor)
        if actor not in (None, self.actor):
            raise Forbidden(f"the key is {self.actor}'s, and the request names another actor", "leave the actor out")
        return self.actor

    def tenant_named(self, tenant: str | None) -> str:
        """Whose home is meant: the key's tenant; without a key the one that is named. Raises Forbidden."""
        if self.key is not None and tenant not in (None, self.tenant):
            raise Forbidden("the key is of another tenant than the request names", "leave the tenant out")
        return tenant or self.tenant


class Doorkeeper:
    """Says who asks, and whether a key is needed for it."""

    def __init__(self, keys: Keys, *, loopback: bool, tenant: str, require_key: bool = False) -> None:
        self.keys, self._loopback, self._require = keys, loopback, require_key
        self._local = Identity(tenant, LOCAL, (ROLES[-1],))

    def who(self, authorization: str | None, forwarded: str = "") -> Identity:
        """Whose request this is. Raises Unauthenticated: a key that is given is checked wherever it comes from.

        `forwarded` names a header by which a proxy says that it passes on what others sent.
        """
        if authorization is None:
            if why := self._needs_key(forwarded):
                raise Unauthenticated(why)
            return self._local
        scheme, _, text = authorization.partition(" ")
        if scheme.lower() != "bearer":
            raise Unauthenticated("the Authorization header is no bearer token")
        key = self.keys.check(text.strip())
        return Identity(key.tenant, key.actor, key.roles, key)

    def _needs_key(self, forwarded: str) -> str:
        """Why nobody is let in without a key; nothing when somebody is."""
        if not self._loopback:
            return "this server is not on loopback, and the request has no key"
        if self._require:
            return "this server was started with --require-key, and the request has no key"
        if forwarded:
            return f"the request came through a proxy (it has the header {forwarded}), and has no key"
        if self.keys.is_any():
            return "this home has keys, and the request has none"
        return ""
