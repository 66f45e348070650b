"""Secrets that are told by where they stand: logins of curl and netrc, base64 logins, cookies, signed URLs. Pure.

Every pattern reads a bounded number of characters, or begins at a sign that what it repeats does not have.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Iterator

from outlast.secrets.real import LOOKED_AT, is_mixed, is_sent, is_url_password, looks_real, stands_for_one

Span = tuple[int, int]

_NEAR = 400  # characters before an option in which its command stands
_USER = re.compile(r"(?<=[\s\"'])(?:-u|-U|--user|--proxy-user)[ \t=]{0,3}[\"']?[^\s:\"'$<{]{1,64}:([^\s\"'`]{3,200})")
_NETRC = re.compile(
    r"\blogin[ \t]{1,9}\S{1,128}[ \t]{1,9}password[ \t]{1,9}(\S{3,200})"
    r"|^[ \t]{0,20}password[ \t]{1,9}(\S{6,200})[ \t]{0,9}$",
    re.MULTILINE,
)


def look_for_logins(text: str) -> Iterator[Span]:
    """The password behind `curl -u USER:`, and those of netrc."""
    if "curl" in text:
        for found in _USER.finditer(text):
            near = text[max(0, found.start() - _NEAR) : found.start()]
            if "curl" in near and is_url_password(found[1][:LOOKED_AT]):
                yield found.span(1)
    if "password" in text:
        for found in _NETRC.finditer(text):
            group = 1 if found[1] else 2
            if looks_real(found[group], password=True, quoted=False) if group == 2 else is_url_password(found[1]):
                yield found.span(group)


# -- logins in base64 --------------------------------------------------------------------------------

_BASIC = re.compile(
    r"(?:(?<![A-Za-z0-9])[Bb][Aa][Ss][Ii][Cc][ \t]{1,3}|\b_?(?:auth|AUTH)\\?[\"']?\s{0,9}[:=]\s{0,9}\\?[\"']?)"
    r"([A-Za-z0-9+/]{8,400}={0,2})(?![A-Za-z0-9+/])"
)


def look_for_basic(text: str) -> Iterator[Span]:
    """`Basic dXNlcjpwYXNz…`, and `"auth": "…"` as Docker and npm keep it."""
    yield from (found.span(1) for found in _BASIC.finditer(text) if is_login(found[1]))


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
    r"(?:(?:[Cc]ookie|COOKIE)\\?[\"']?[ \t]{0,3}[:=]|--cookie[ \t])[ \t]{0,3}\\?[\"']?(?=[^\s=;:,\"']{1,128}=)"
)
_COOKIE = re.compile(r"([^\s=;,\"'\\]{1,128})=([^\s;,\"'\\]{0,4096})(?:;[ \t]{0,3})?")
_OF_COOKIES = ("expires", "max-age", "domain", "path", "samesite", "version", "comment", "priority")


def look_for_cookies(text: str) -> Iterator[Span]:
    """The values of `Cookie:` and `Set-Cookie:` that look drawn by chance."""
    at = 0
    for header in _COOKIES.finditer(text):
        if header.end() < at:
            continue
        at = header.end()
        while (pair := _COOKIE.match(text, at)) is not None:
            if pair[1].lower() not in _OF_COOKIES and _is_cookie(pair[2][:LOOKED_AT]):
                yield pair.span(2)
            at = pair.end()


def _is_cookie(value: str) -> bool:
    return len(value) >= 12 and is_sent(value)


# -- signed URLs -------------------------------------------------------------------------------------

_SIGNED = re.compile(r"[?&;](?:[Xx]-(?:[Aa]mz|[Gg]oog)-)?(?:[Ss]ignature|sig|hmac)=([A-Za-z0-9%+/_~.-]{16,1000}={0,2})")


def look_for_signed(text: str) -> Iterator[Span]:
    """What makes a URL one that lets whoever has it in."""
    for found in _SIGNED.finditer(text):
        if is_mixed(found[1][:LOOKED_AT]) and not stands_for_one(found[1][:LOOKED_AT]):
            yield found.span(1)
