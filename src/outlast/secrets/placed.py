"""Whether a value that is called or placed like a secret is one, and secrets that are told by where they stand. Pure.

What only stands for a secret (`***`, `<token>`, `$VAR`, `changeme`, a path, code) is none. By their place are told the
logins of curl and netrc, base64 logins, cookies and signed URLs. Every pattern reads a bounded number of characters, or
begins at a sign that what it repeats does not have.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Iterable, Iterator
from itertools import pairwise

SHORTEST = 6  # characters of a value that has only its name against it
LOOKED_AT = 200  # characters of a value that are judged; what was found real reaches to its end all the same

Span = tuple[int, int]
_PLACEHOLDER = re.compile(
    r"""[<\[({|>] | \$[A-Za-z_]\w*\Z | %\w*% | [!&*][a-z]+\Z   # <token>, $VAR, {{ value }}, code
    | (?:\.{1,2}|~)?/(?:[\w.@-]+/)*[\w.@-]*\Z | [\w.@-]*/[\w.@/-]*\.[a-z]{1,5}\Z   # a path
    | (?:arn|sha\d+|md5|vault|file|env|ref)[:-]               # says where it is, or what its digest is
    | \d{4}-\d\d-\d\d | (.)\1*\Z""",  # a date; one character over and over
    re.IGNORECASE | re.VERBOSE,
)
_FILLER = re.compile(  # only as long as nothing in the value looks drawn by chance
    r"""[\w.@-]+\.[a-z]{1,5}\Z                                # the name of a file or a host
    | (?:your|my|the|some|insert|replace|enter|put|set|change|need|not|no)[_ -]
    | (?:change_?me|placeholder|example|sample|dummy|fake|test|redacted|masked|hidden|removed|todo|none|null|xxx)""",
    re.IGNORECASE | re.VERBOSE,
)
_TEMPLATE = re.compile(r"\*\*|\.\.\.|…|••|\$[{(]|\{\{|\{[\w.]*\}|://|%\(|\(\?")  # filled in later, cut, a pattern
_CODE = re.compile(
    r"[A-Za-z_]\w*(?:(?:\.|->|::)[A-Za-z_]\w*)+|(?:password|passwd|pwd|secret|token|key)_?\d?", re.IGNORECASE
)
_NAMING = re.compile(r"(?:[A-Za-z]{2,}|\d{1,4}|v\d+)(?:[-_./:](?:[A-Za-z]{2,}|\d{1,4}|v\d+))+")
_SEPARATORS = re.compile(r"[-_./:\s]")

_PROSE = """
    about access account add after again all allow allowed also and another any are argument as asked at auth
    available back based be because been before being below between both but by call can cannot change changed
    changes char check code command config confirm connect connection contain contains could create created
    credential credentials current data database default delete did directory does don each email empty encrypted
    enter entered entry error every expected expired failed false field file find first following for forgot format
    found from generate get given has hash have hidden host how https identifier ignore ignored implementation
    incorrect input instead into invalid its key keys know known last leave length letters list local log login long
    longer make match matches maximum message method minimum missing more must name need needed needs never new next
    none not note number obtain old one only option optional other our output owner page parameter pass passed
    passphrase password passwords path per please plain port private prompt prompted protected provide provided
    public read require required requires reset return returned returns same save saved secret secrets see send sent
    server service session set shared should show shown sign simple specified specify start still storage store
    stored string such support supported text than that the their them then there these they this those through time
    token tokens too true try two type unless until update updated use used user username users using valid value
    values verify via wait want was way were what when where whether which while who will with within without work
    wrong yes yet you your
"""
_IN_PROSE = frozenset(_PROSE.split())  # words that a sentence about passwords has


def looks_real(value: str, *, password: bool = False, quoted: bool = True) -> bool:
    """Whether the value of something that is named like a secret looks like one."""
    core = _SEPARATORS.sub("", value.rstrip("*?!,;:"))
    words = value.split()
    if password and is_passphrase(words if len(words) > 1 else value.split("-")):
        return True
    if len(value) < SHORTEST or (core.isalpha() and not _is_jumbled(core)):
        return False
    if _is_template(value) if password and len(words) > 1 else stands_for_one(value):
        return False
    if not quoted and _CODE.fullmatch(value):
        return False
    if len(words) > 1:  # prose, unless one of its words is no word
        return any(is_mixed(word) and not stands_for_one(word) for word in words)
    if password:
        return len(core) >= 4
    return (is_mixed(value) and not _NAMING.fullmatch(value)) or _is_jumbled(core)


def stands_for_one(value: str) -> bool:
    """Whether a value only shows where a secret belongs, or where one is."""
    filler = _FILLER.match(value) is not None and not any(map(_is_drawn, _SEPARATORS.split(value)))
    return filler or _is_template(value)


def _is_template(value: str) -> bool:
    return _PLACEHOLDER.match(value) is not None or _TEMPLATE.search(value) is not None


def is_mixed(text: str) -> bool:
    """Letters and digits in one, as words seldom have them."""
    digits = sum(map(str.isdigit, text))
    return len(text) >= 8 and digits >= 2 and sum(map(str.isalpha, text)) >= 2


def _is_drawn(text: str) -> bool:
    """Letters and digits in turns, as no word and no number has them."""
    changes = sum(one.isdigit() != two.isdigit() for one, two in pairwise(text))
    return len(text) >= 8 and text.isalnum() and changes >= 4


def is_passphrase(words: list[str]) -> bool:
    """Four to ten small words that make no sentence: one always has a word such as `the` in it, or is about it."""
    if not 4 <= len(words) <= 10:
        return False
    return all(word.isalpha() and word.islower() and 3 <= len(word) <= 12 and word not in _IN_PROSE for word in words)


def _is_jumbled(text: str) -> bool:
    """Large and small letters without the order that a name has."""
    changes = sum(one.isupper() != two.isupper() for one, two in pairwise(text))
    return len(text) >= 16 and changes * 3 >= len(text)


def is_sent(text: str) -> bool:
    """What stands behind `Bearer`."""
    text = text[:LOOKED_AT]
    return not stands_for_one(text) and (is_mixed(text) or _is_jumbled(text))


def is_url_password(text: str) -> bool:
    words = ("pass", "passwd", "password", "secret", "pwd", "pw", "token")
    return len(text) >= 3 and not stands_for_one(text) and text.lower() not in words


def places(text: str, words: Iterable[str]) -> list[int]:
    """Where each of these words begins in a text, in order."""
    found = []
    for word in words:
        at = text.find(word)
        while at >= 0:
            found.append(at)
            at = text.find(word, at + 1)
    return sorted(found)


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
