"""Who looks at a page: by a cookie that stands for a key, or on this machine without one while nobody has a key.

The cookie is no key: it ends after some hours, and with its key. Every post carries a token that only a page of ours
has, and comes from an origin of ours: another site can make a visitor's browser send a form, and read nothing of ours.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from http.cookies import SimpleCookie
from typing import TYPE_CHECKING

from outlast.doors.http.exchange import CONSOLE, COOKIE, cookies_of
from outlast.errors import Forbidden

if TYPE_CHECKING:
    from outlast.doors.http.exchange import Exchange
    from outlast.doors.http.identity import Identity

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
