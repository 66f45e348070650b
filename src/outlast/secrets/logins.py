"""Secrets that are told by where they stand: logins of curl and netrc, base64 logins, cookies, signed URLs. Pure.

Every pattern reads a bounded number of characters, or begins at a sign that what it repeats does not have.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Iterator

from outlast.secrets.real import LOOKED_AT, SHORTEST, is_mixed, is_url_password, looks_real, stands_for_one
from outlast.secrets.words import places

Span = tuple[int, int]

_NEAR = 400  # characters behind `curl` in which its options are looked for
_USER = re.compile(r"(?<=[\s\"'])(?:-u|-U|--user|--proxy-user)[ \t=]{0,3}[\"']?[^\s:\"'$<{]{1,64}:([^\s\"'`]{3,200})")
_PASSWORD = re.compile(r"password[ \t]{1,9}(\S{3,200})([ \t]{0,9}$)?", re.MULTILINE)
_LOGIN = re.compile(r"\b(?:machine[ \t]{1,9}\S{1,128}|default)[ \t]{1,9}login[ \t]{1,9}\S{1,128}[ \t]{1,9}\Z")


def look_for_logins(text: str) -> Iterator[Span]:
    """The password behind `curl -u USER:`, and those of netrc."""
    for place in places(text, ("curl",)):
        found = _USER.finditer(text, place, place + _NEAR)
        yield from (each.span(1) for each in found if is_url_password(each[1]))
    for place in places(text, ("password",)):
        netrc = _PASSWORD.match(text, place)
        if netrc is not None and _is_netrc(text, netrc):
            yield netrc.span(1)


def _is_netrc(text: str, found: re.Match[str]) -> bool:
    """Behind a login any password counts; on a line of its own, as netrc may have it, one that looks real."""
    if _LOGIN.search(text, max(0, found.start() - 320), found.start()):
        return len(found[1]) >= SHORTEST and is_url_password(found[1])
    begins = text[text.rfind("\n", max(0, found.start() - 20), found.start()) + 1 : found.start()]
    alone = found[2] is not None and len(begins) < 20 and not begins.strip(" \t")
    return alone and looks_real(found[1], password=True, quoted=False)


# -- logins in base64 --------------------------------------------------------------------------------

_BASIC = re.compile(
    r"(?:(?<![A-Za-z0-9].)(?i:asic)[ \t]{1,3}|(?i:auth)\\?[\"']?\s{0,9}[:=]\s{0,9}\\?[\"']?)"
    r"([A-Za-z0-9+/]{8,400}={0,2})(?![A-Za-z0-9+/])"
)
BASIC_HINTS = ("asic", "ASIC", "auth", "AUTH")


def look_for_basic(text: str) -> Iterator[Span]:
    """`Basic dXNlcjpwYXNz…`, and `"auth": "…"` as Docker and npm keep it."""
    for place in places(text, BASIC_HINTS):
        found = _BASIC.match(text, place)
        if found is not None and is_login(found[1]):
            yield found.span(1)


def is_login(coded: str) -> bool:
    """Whether base64 stands for `USER:PASSWORD`."""
    try:
        said = b64decode(coded + "=" * (-len(coded) % 4), validate=True).decode("ascii")
    except (Error, UnicodeDecodeError, ValueError):
        return False
    user, separator, password = said.partition(":")
    return bool(user and separator) and said.isprintable() and is_url_password(password)


# -- cookies -----------------------------------------------------------------------------------------

_COOKIES = re.compile(
    r"(?i:ookie)(?:\\?[\"']?[ \t]{0,3}[:=]|(?<=--cookie)[ \t])[ \t]{0,3}\\?[\"']?(?=[^\s=;:,\"']{1,128}=)"
)
_COOKIE = re.compile(r"([^\s=;,\"'\\]{1,128})=([^\s;,\"'\\]{0,4096})(?:;[ \t]{0,3})?")
_OF_COOKIES = ("expires", "max-age", "domain", "path", "samesite", "version", "comment", "priority")
COOKIE_HINTS = ("ookie", "OOKIE")


def look_for_cookies(text: str) -> Iterator[Span]:
    """The values of `Cookie:` and `Set-Cookie:` that look drawn by chance."""
    at = 0
    for place in places(text, COOKIE_HINTS):
        header = _COOKIES.match(text, place) if place >= at else None
        at = header.end() if header is not None else at
        while header is not None and (pair := _COOKIE.match(text, at)) is not None:
            if pair[1].lower() not in _OF_COOKIES and _is_cookie(pair[2][:LOOKED_AT]):
                yield pair.span(2)
            at = pair.end()


def _is_cookie(value: str) -> bool:
    return len(value) >= 12 and looks_real(value)


# -- signed URLs -------------------------------------------------------------------------------------

_SIGNED = re.compile(r"(?:ignature|sig|hmac)=([A-Za-z0-9%+/_~.-]{16,1000}={0,2})")
_IN_QUERY = re.compile(r"[?&;](?:(?i:x-amz-|x-goog-))?[Ss]?\Z")
SIGNED_HINTS = ("ignature=", "sig=", "hmac=")


def look_for_signed(text: str) -> Iterator[Span]:
    """What makes a URL one that lets whoever has it in."""
    for place in places(text, SIGNED_HINTS):
        found = _SIGNED.match(text, place) if _IN_QUERY.search(text, max(0, place - 10), place) else None
        if found is not None and is_mixed(found[1][:LOOKED_AT]) and not stands_for_one(found[1][:LOOKED_AT]):
            yield found.span(1)
