"""Who asks: by key, or on this machine without one while nobody has a key; and whether they are let in.

What a key keeps open ends with the key: streams, downloads and uploads of one that was revoked or has expired.

A request is let in once. What lasts longer is looked at every few seconds, one look for each key that has something
open, and none while there is nothing.

Before anything else it is judged where a request comes from: by its framing, Host, Origin and what browsers add.
A web page can make a visitor's browser send requests here. It cannot choose the headers that are looked at: `Host` must
be a name of this server, `Origin` this server's own or one that was allowed, each by scheme, host and port.

And where the server itself listens: on a socket, with keys where others can reach it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Iterable, Mapping
from functools import lru_cache, partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from outlast.errors import (
    AddressTaken,
    Forbidden,
    KeysNeeded,
    NameInvalid,
    OutlastError,
    RequestMalformed,
    TenantNotFound,
    Unauthenticated,
)
from outlast.operations.operation import LOCAL, ROLES, ApiKey, Keys, Role, allows, unproven
from outlast.python.project import FoundHome

if TYPE_CHECKING:
    from outlast.doors.http.exchange import Exchange
    from outlast.doors.http.state import ServerState


BACKLOG = 512


class Identity(Struct, frozen=True):
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
        """Whose home is meant: the key's tenant; without a key the one that is named.

        Raises TenantNotFound for another one, whether it is there or not.
        """
        if self.key is not None and tenant not in (None, self.tenant):
            raise TenantNotFound(str(tenant))
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

    def of_token(self, token: str, purpose: str, roles: tuple[Role, ...] = ()) -> Identity:
        """Whose token this is; with `roles` it opens no more than those. Raises Unauthenticated."""
        key = self.keys.check_token(token, purpose)
        return Identity(key.tenant, key.actor, roles or key.roles, key)

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


class KeyWatch:
    """The exchanges under way, and whether their keys still open the door."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self.under_way: set[Exchange] = set()

    async def live(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(self._state.settings.key_seconds)
            try:
                await self.look()
            except Exception as error:  # for want of a thread, say: the next look may fare better
                self._state.log.failed(error, keys="look")

    async def look(self) -> None:
        """End what is kept open by keys that are over."""
        for key_id in {found for exchange in self.under_way if (found := key_of(exchange))}:
            error = await self._state.in_thread(partial(self._over, key_id))
            if error is not None:
                self._end_all(key_id, error)

    def _over(self, key_id: str) -> OutlastError | None:
        try:
            self._state.keys.check_usable(key_id)
        except Unauthenticated as error:
            return error
        except OutlastError:  # the keys cannot be read now: whoever is in stays until they can
            return None
        return None

    def _end_all(self, key_id: str, error: OutlastError) -> None:
        for exchange in list(self.under_way):
            if key_of(exchange) == key_id:
                exchange.end_for(error)


def key_of(exchange: Exchange) -> str:
    """The id of the key that keeps something open; nothing when it has none, or was told to end."""
    who = exchange.identity
    return who.key.id if who is not None and who.key is not None and exchange.ended is None else ""


LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
PORTS = {"http": 80, "https": 443}
HEAD_BYTES = 64 << 10
READS = ("GET", "HEAD", "OPTIONS")
ONCE = {  # a header that is there twice says two things: neither is chosen
    *(b"host", b"origin", b"authorization", b"content-length", b"content-type", b"content-encoding"),
    *(b"transfer-encoding", b"idempotency-key", b"last-event-id", b"range", b"sec-fetch-site"),
    *(b"outlast-tenant", b"outlast-actor", b"outlast-scope", b"outlast-claims"),
}
_PLACE = re.compile(r"([a-z0-9](?:[a-z0-9._-]{0,252}[a-z0-9.])?|\[[0-9a-f:.]{2,45}\])(?::([0-9]{1,5}))?")
_CONTROLS = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_ODD_PERCENT = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_FORWARDED = (b"forwarded", b"x-real-ip", b"via")


class Origin(NamedTuple):
    """A scheme, a host and a port, which is always a number."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}" + ("" if PORTS[self.scheme] == self.port else f":{self.port}")


@lru_cache(maxsize=64)
def place_of(text: str, scheme: str = "http") -> Origin | None:
    """What a Host header names, in a scheme; None when it is malformed. Most requests have the same one."""
    found = _PLACE.fullmatch(text.lower())
    if found is None or not _is_address(found[1]):
        return None
    port = int(found[2]) if found[2] else PORTS[scheme]
    return Origin(scheme, found[1], port) if 0 < port < 65536 else None


def origin_of(text: str) -> Origin | None:
    """What an Origin header names; None when it is malformed."""
    scheme, mark, place = text.partition("://")
    return place_of(place, scheme.lower()) if mark and scheme.lower() in PORTS else None


def origin_given(option: str, text: str) -> Origin:
    """An origin as an option gives it. Raises NameInvalid."""
    found = origin_of(text.removesuffix("/"))
    if found is None:
        raise NameInvalid(option, text, "give an origin, such as https://box.example")
    return found


def name_given(option: str, text: str) -> str:
    """A host's name as an option gives it. Raises NameInvalid."""
    found = place_of(text)
    if found is None or (":" in text and not text.endswith("]")):
        raise NameInvalid(option, text, "give the name of a host, without scheme and port")
    return found.host


def _is_address(host: str) -> bool:
    if not host.startswith("["):
        return ".." not in host
    try:
        return ipaddress.ip_address(host[1:-1]).version == 6
    except ValueError:
        return False


# -- how it is said ----------------------------------------------------------------------------------


def check_framing(scope: Mapping[str, Any]) -> None:
    """Raises RequestMalformed for a request that two readers could take for two, or that is none of HTTP/1."""
    headers = scope["headers"]
    said = b"".join(chain.from_iterable(headers))
    if scope["http_version"] not in ("1.0", "1.1"):
        raise RequestMalformed(f"HTTP/{scope['http_version']} is not spoken here", "speak HTTP/1.1")
    if len(said) + 4 * len(headers) + len(scope["raw_path"]) + len(scope["query_string"]) > HEAD_BYTES:
        raise RequestMalformed(f"path and headers have more than {HEAD_BYTES:,} bytes", "say less there")
    if _CONTROLS.search(said):
        raise RequestMalformed("a header has a control character", "leave it out")
    _refuse_doubles([name.lower() for name, _ in headers])


def check_path(raw_path: bytes) -> None:
    """Raises RequestMalformed for a path that is no text."""
    if b"%" in raw_path and not _is_text(raw_path):
        raise RequestMalformed("the path is not percent-encoded UTF-8", "encode it anew")


def _refuse_doubles(names: list[bytes]) -> None:
    if len(set(names)) < len(names):
        doubled = next((name for name in names if name in ONCE and names.count(name) > 1), None)
        if doubled is not None:
            raise RequestMalformed(f"the header {doubled.decode()} is there twice", "send it once")
    if b"content-length" in names and b"transfer-encoding" in names:
        raise RequestMalformed("it has Content-Length and Transfer-Encoding", "send one of them")


def _is_text(raw_path: bytes) -> bool:
    try:
        unquote_to_bytes(raw_path).decode()
    except UnicodeDecodeError:
        return False
    return _ODD_PERCENT.search(raw_path) is None


def forwarded_by(headers: Mapping[bytes, bytes]) -> str:
    """A header that only a proxy adds; nothing when there is none."""
    for name in map(bytes.lower, headers):
        if name in _FORWARDED or name.startswith(b"x-forwarded"):
            return name.decode("latin-1")
    return ""


# -- from where --------------------------------------------------------------------------------------


class Places:
    """The names and origins of a server, and those that it lets in."""

    def __init__(
        self, *, loopback: bool, hosts: Iterable[str] = (), public_url: str = "", origins: Iterable[str] = ()
    ) -> None:
        self._public = origin_given("--public-url", public_url) if public_url else None
        self._allowed = frozenset(origin_given("--allow-origin", each) for each in origins)
        named = {name_given("--allow-host", each) for each in hosts} | ({self._public.host} if self._public else set())
        self._hosts = frozenset({*LOOPBACK, *named}) if loopback or named else None

    def check(self, method: str, host: str | None, origin: str | None, site: str | None) -> Origin | None:
        """The other origin whose pages may read the answer; None for all else that is let in.

        Raises RequestMalformed for a Host or Origin that is none, Forbidden for what a page of another place sent.
        """
        own = self._own(self._host(host))
        if origin is None:
            self._refuse_cross_site(method, site)
            return None
        asked = self._origin(origin)
        if asked in self._allowed and asked != own:
            return asked
        if asked != own:
            raise Forbidden(f"pages of {asked} are not let in", "allow them: `outlast serve --allow-origin ORIGIN`")
        self._refuse_cross_site(method, site)
        return None

    def _host(self, host: str | None) -> Origin:
        found = place_of(host or "")
        if found is None:
            raise RequestMalformed(f"the Host {(host or '')[:200]!r} is none", "send the name that the server has")
        if self._hosts is not None and found.host not in self._hosts:
            raise Forbidden(
                f"the host {found.host[:200]!r} is not this server's", "use its own, or `outlast serve --allow-host`"
            )
        return found

    def _own(self, host: Origin) -> Origin:
        """This server's own origin under the name that it was asked by: behind a proxy the public one."""
        public = self._public
        return public if public is not None and public.host == host.host else host

    def _origin(self, text: str) -> Origin:
        if text == "null":
            raise Forbidden("pages without an origin (`null`) are not let in", "open the page from a server")
        found = origin_of(text)
        if found is None:
            raise RequestMalformed(f"the Origin {text[:200]!r} is none", "send scheme, host and port, or none at all")
        return found

    def _refuse_cross_site(self, method: str, site: str | None) -> None:
        if site in ("cross-site", "same-site") and method not in READS:
            raise Forbidden(f"a page of another place sent this (Sec-Fetch-Site: {site})", "send it from its own")


# -- where the server listens ------------------------------------------------------------------------


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0: on a free one. Raises AddressTaken."""
    host = "127.0.0.1" if host == "localhost" else host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # named: asyncio sets TCP_NODELAY by it
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind((host, port))
        opened.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        opened.close()
        why = getattr(error, "strerror", None) or str(error)
        raise AddressTaken(f"{host}:{port}", why.lower()) from error
    opened.setblocking(False)
    return opened


def address_of(opened: socket.socket) -> str:
    """Where a listening socket can be reached, as a URL."""
    host, port = opened.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def refuse_open_door(home: FoundHome, host: str, *, require_key: bool = False) -> None:
    """Raises KeysNeeded for a server that needs keys, as one that others can reach does, while nobody has one."""
    why = f"{host} can be reached from other machines" if not is_loopback(host) else "--require-key was given"
    keys = Keys(home)
    try:
        if (require_key or not is_loopback(host)) and not keys.is_any_usable():
            raise KeysNeeded(why, home.name)
    finally:
        keys.close()
