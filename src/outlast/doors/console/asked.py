"""What a page asks for: operations by name, in the name of who looks; and who that is.

Somebody is known by a cookie that stands for a key, or on this machine without one while nobody has a key. The cookie
is no key: it ends after some hours, and with its key. Every post carries a token that only a page of ours has, and
comes from an origin of ours: another site can make a visitor's browser send a form, and read nothing of ours.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from http.cookies import SimpleCookie
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, urlencode

import msgspec

from outlast.doors.http import calls
from outlast.doors.http.exchange import CONSOLE, COOKIE, cookies_of
from outlast.doors.http.handlers import HANDLERS, resume_here
from outlast.errors import Forbidden, OutlastError, RequestInvalid
from outlast.operations.table import OPERATIONS

if TYPE_CHECKING:
    from outlast import RunRecord
    from outlast.doors.http.calls import CallRequest
    from outlast.doors.http.exchange import Exchange
    from outlast.doors.http.identity import Identity
    from outlast.operations.operation import Role
    from outlast.python.outlast import Outlast
    from outlast.python.shared import RunsSoFar

T = TypeVar("T")
MOST_FIELDS = 500  # of a form
LOOKED_AT = 1000  # runs that a page compares with what is asked for: then it says so, and leads on
KEPT = 16  # things that were made for pages lately


_made: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
_lock = threading.Lock()


def _once(key: tuple[Any, ...], make: Callable[[], T]) -> T:
    """What was made for pages lately, or is made now."""
    with _lock:
        if key in _made:
            _made.move_to_end(key)
            found: T = _made[key]
            return found
    made = make()
    with _lock:
        _made[key] = made
        while len(_made) > KEPT:
            _made.popitem(last=False)
    return made


class PageRequest:
    """A page that is asked for, or a form that was sent: runs in a thread of the server."""

    def __init__(
        self, visit: Visit, form: Mapping[str, str] | None = None, many: Mapping[str, list[str]] | None = None
    ):
        self.visit, self.exchange = visit, visit.exchange
        self.path = self.exchange.path
        self.query = {name: value for name, value in fields(self.exchange.scope["query_string"]) if value}
        self.form, self.many = form or {}, many or {}

    def may(self, role: Role) -> bool:
        """Whether who looks has a role."""
        assert self.exchange.identity is not None
        return self.exchange.identity.may(role)

    def kept(self, what: tuple[Any, ...], make: Callable[[], T]) -> T:
        """What is made once for who looks, and is the same whenever he asks for it by these words."""
        identity = self.exchange.identity
        assert identity is not None
        whose = (identity.tenant, identity.actor, identity.key.id if identity.key else "")
        return _once((self.exchange.state, *whose, *what), make)

    @property
    def scope(self) -> str | None:
        """The scope that is looked at; None: all, or the visitor's own."""
        return self.query.get("scope")

    @property
    def in_scope(self) -> dict[str, Any]:
        """The same as what an operation is given."""
        return {"scope": self.scope} if self.scope else {}

    def __call__(self, name: str, /, **given: Any) -> Any:
        """What an operation gives. Raises what it raises, Forbidden, RequestInvalid."""
        outlast, asked = self._opened(name, given)
        return calls.done(HANDLERS.get(name, calls.by_name), outlast, asked)

    def maybe(self, name: str, /, **given: Any) -> Any:
        """The same; None where it is refused, or there is none."""
        try:
            return self(name, **given)
        except OutlastError:
            return None

    def some_runs(self, limit: int, most: int, cursor: str | None, **given: Any) -> RunsSoFar:
        """The next runs that are so, among so many that are looked at."""
        return self.outlast("run_list", **given)._some_runs(limit, most, cursor, **given)

    def newest_runs(self, limit: int, **given: Any) -> list[RunRecord]:
        """The newest runs that are so; they are looked for among so many that a page is there at once."""
        return self.some_runs(limit, LOOKED_AT, None, **given).runs

    def outlast(self, name: str, /, **given: Any) -> Outlast:
        """The home, for what one who may do this operation looks at or does beside it."""
        return self._opened(name, given)[0]

    def resume(self, run_id: str, **given: Any) -> str:
        """Let a run go on, in the server's background; why it does not, if it does not."""
        outlast, asked = self._opened("run_resume", {"run_id": run_id, **given})
        try:
            resume_here(self.exchange, outlast, asked)
        except OutlastError as error:
            return said_of(error)
        return ""

    def _opened(self, name: str, given: dict[str, Any]) -> tuple[Outlast, CallRequest]:
        call = OPERATIONS[name]
        try:
            request = msgspec.convert(given, call.request, strict=False)
        except msgspec.ValidationError as error:
            raise RequestInvalid(name, str(error)) from error
        outlast, asked = self.exchange.opened_for(call, request)
        return (outlast._acting() if self.exchange.state.settings.looks_here else outlast), asked

    def link(self, **change: Any) -> str:
        """This page with other words in its query; None takes one out."""
        query = {name: value for name, value in (self.query | change).items() if value not in (None, "")}
        return str(self.exchange.scope["path"]) + (f"?{urlencode(query)}" if query else "")


def said_of(error: OutlastError) -> str:
    """What went wrong, and what to do."""
    return f"{error.detail} {error.what_next}".strip()


def word(value: str) -> str:
    """A word as a shell takes it."""
    plain = value.translate({ord(sign): None for sign in "/-_:.@~"})
    return value if plain.isalnum() and plain.isascii() else "'" + value.replace("'", "'\\''") + "'"


def fields(raw: bytes) -> list[tuple[str, str]]:
    """The fields of a query or a form. Raises RequestInvalid."""
    try:
        return parse_qsl(raw.decode(), keep_blank_values=True, strict_parsing=False, max_num_fields=MOST_FIELDS)
    except ValueError as error:
        raise RequestInvalid("form", str(error)) from error


# -- who looks -----------------------------------------------------------------------------------------------


PAGE_COOKIE = "outlast_page"  # of who needs no key: what his forms are bound to
SAID_COOKIE = "outlast_said"  # what came of a post, for the page that follows it
SIGNED_IN_SECONDS = 12 * 3600


class Visit:
    """One request for a page: who makes it, and the cookies to set in the answer."""

    def __init__(self, exchange: Exchange) -> None:
        self.exchange, self.cookies = exchange, cookies_of(exchange.headers)
        for name in (b"outlast-tenant", b"outlast-actor", b"outlast-scope", b"outlast-claims"):
            exchange.headers.pop(name, None)  # no page sends these: who looks is who signed in
        self.sets: list[tuple[bytes, bytes]] = []

    def enter(self) -> Identity:
        """Who looks. Raises Unauthenticated."""
        found = self.exchange.cookie_identity()
        if found is not None and found.key is not None:
            self.exchange.state.note_use(found.key)
        found = found or self.exchange.state.enter(self.exchange.headers)
        self.exchange.identity = found
        return found

    def sign_in(self, text: str) -> Identity:
        """Let the holder of a key in. Raises Unauthenticated."""
        state = self.exchange.state
        found = state.door.who(f"Bearer {text.strip()}")
        assert found.key is not None
        token = state.keys.token(found.key.id, CONSOLE, SIGNED_IN_SECONDS)
        self._set(COOKIE, token, SIGNED_IN_SECONDS)
        return found

    def sign_out(self) -> None:
        self._set(COOKIE, "", 0)

    # -- forms -----------------------------------------------------------------------------------

    @property
    def token(self) -> str:
        """What every form of this visitor carries."""
        bound = self.cookies.get(COOKIE) or self.cookies.get(PAGE_COOKIE)
        if not bound:
            bound = self.cookies[PAGE_COOKIE] = secrets.token_urlsafe(24)
            self._set(PAGE_COOKIE, bound, SIGNED_IN_SECONDS * 60)
        return hashlib.sha256(f"form {bound}".encode()).hexdigest()[:40]

    def check_post(self, given: str) -> None:
        """Raises Forbidden for a post that no page of ours sent."""
        own = self.exchange.header("origin") is not None or self.exchange.header("sec-fetch-site") == "same-origin"
        bound = COOKIE in self.cookies or PAGE_COOKIE in self.cookies
        if not own or not bound or not hmac.compare_digest(given, self.token):
            raise Forbidden("this form was not sent by a page of this console", "open the page anew and try again")

    # -- what was done -----------------------------------------------------------------------------

    def say(self, text: str) -> None:
        """Tell something on the next page."""
        self._set(SAID_COOKIE, text[:500].encode().hex(), 30)

    def said(self) -> str:
        """What the last post had to say; told once, on a page that somebody opens, not by one that looks again."""
        found = self.cookies.get(SAID_COOKIE, "")
        if not found or self.exchange.header("hx-request"):
            return ""
        self._set(SAID_COOKIE, "", 0)
        try:
            return bytes.fromhex(found).decode()
        except ValueError:
            return ""

    def _set(self, name: str, value: str, seconds: int) -> None:
        cookie: SimpleCookie = SimpleCookie()
        cookie[name] = value
        cookie[name].update({"path": "/", "httponly": "yes", "samesite": "Lax", "max-age": str(seconds)})
        if self.exchange.state.settings.public_url.startswith("https:"):
            cookie[name]["secure"] = "yes"
        self.sets.append((b"set-cookie", cookie[name].OutputString().encode()))
