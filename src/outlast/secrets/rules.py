"""What a secret looks like: named rules, each of which finds one kind in a text. Pure, and linear in the text.

Every pattern begins at a place where no earlier attempt can still be reading, or reads a bounded number of characters,
so that no text makes it slow. What only stands for a secret (`***`, `<token>`, `$VAR`, `changeme`, code) is none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from outlast.secrets.placed import (
    BASIC_HINTS,
    COOKIE_HINTS,
    LOOKED_AT,
    SHORTEST,
    SIGNED_HINTS,
    is_passphrase,
    is_sent,
    is_url_password,
    look_for_basic,
    look_for_cookies,
    look_for_logins,
    look_for_signed,
    looks_real,
)
from outlast.secrets.text import places
from outlast.secrets.tokens import TOKENS, Token, more_tokens

Span = tuple[int, int]
Look = Callable[[str], Iterable[Span]]


@dataclass(frozen=True, slots=True, eq=False)
class SecretRule:
    """One kind of secret. `look` gives where each begins and ends in a text."""

    name: str
    kind: str  # as messages say it: "a GitHub token"
    look: Look
    hints: tuple[str, ...] = ()  # a text without any of these holds none; (): ask `look`
    cased: bool = False  # the hints are in it just so; else in large or small letters
    in_word: bool = False  # it has no blank in it, at least `WORD` characters, and one of the hints
    pattern: str = ""  # of a token: it says how much follows a hint
    offsets: tuple[int, ...] = (0,)  # how many characters of a token come before the hint


def by_pattern(
    name: str, kind: str, pattern: str, *hints: str, real: Callable[[str], bool] | None = None
) -> SecretRule:
    """A rule that looks for a pattern; the secret is its group 1, else all of it."""
    compiled = re.compile(pattern)
    group, judge = min(compiled.groups, 1), real or _is_no_filler

    def look(text: str) -> Iterator[Span]:
        if not hints or any(hint in text for hint in hints):
            yield from (found.span(group) for found in compiled.finditer(text) if judge(found[group]))

    return SecretRule(name, kind, look, hints, cased=True)


def by_token(token: Token) -> SecretRule:
    """A rule that looks for a kind of token where its hints are, and nowhere else."""

    def look(text: str) -> Iterator[Span]:
        compiled = _compiled(token.pattern)
        group = min(compiled.groups, 1)
        at = 0  # where the last one ended: what begins within it is part of it
        for place in (place - offset for place in places(text, token.hints) for offset in token.offsets):
            found = compiled.match(text, place) if place >= at else None
            if found is None:
                continue
            at = found.end()
            if _is_no_filler(found[group]):
                yield found.span(group)

    made = SecretRule(token.name, token.kind, look, token.hints, cased=True, in_word=True)
    return replace(made, pattern=token.pattern, offsets=token.offsets)


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)  # when it is first needed: most are never


def _is_no_filler(text: str) -> bool:
    """Not the end of `ghp_xxxxxxxxxxxxxxxx`."""
    return len(set(text[-16:])) > 1 or text[-1] not in "xX0*."


# -- named values: password=…, "client_secret": "…", --token … ---------------------------------------

_PASSWORD = r"pass(?:word|wd|phrase|code|(?<=[_-]pass))|pwd"
_OWNER = r"(?:api|access|private|encryption|signing|auth|account|master|storage|shared)[_ -]?"  # of a key
_OTHER = rf"{_PASSWORD}|secret(?:[_-]?access)?(?:[_-]?key)?|token|credentials?"
_NAMED = rf"(?:{_OTHER}|{_OWNER}key)"
_TYPE = r":[ \t]*[a-z_][\w.\[\]]{0,30}(?:[ \t]*\|[ \t]*none)?[ \t]*=(?!=)"  # password: str | None = "…"
_ASSIGNED = re.compile(rf"({_OTHER}|key)(?:\\?[\"'`])?\]?[ \t]*(?:{_TYPE}|=>|:=|[=:](?![=:]))[ \t]*")
_FLAG = re.compile(rf"({_OTHER}|key)[ \t]+(?!-)")
_FLAG_BEGIN = re.compile(r"--(?:[a-z0-9]{1,20}-){0,3}\Z")
_KEY_OWNER = re.compile(rf"{_OWNER}\Z")
_SECRET_NAME = re.compile(rf"{_NAMED}\Z")
_WORDS = ("pass", "pwd", "secret", "token", "credential", "key")
_HARMLESS = re.compile(r"(?:next|page|continuation|cancel|cancellation|pad|eos|bos|unk|sep|cls|stop|public)[_ -]?\Z")
_SPACED = re.compile(r"[ \t:]=[ \t]+\Z|=>")  # as code is written; shells and settings leave no blanks
_OPENING = re.compile(r"[bBrRuUfF]{0,2}(\\?[\"'`])")
_BODIES = {
    '"': re.compile(r'(?:[^"\\\n]|\\.)*'),
    "'": re.compile(r"(?:[^'\\\n]|\\.)*"),
    "`": re.compile(r"[^`\n]*"),
    "\\": re.compile(r"[^\"'`\\\n]*"),  # quoted inside of a text that is quoted itself
    "": re.compile(r"(?:[^\s\"'`<>()\[\]{},;&\\]|[,;&](?!\s|[\w.-]{1,40}[=:]|\Z))*"),
}


def name_kind(name: str) -> str:
    """What a value of this name is, if the name says that it is secret: `a password`, `a token`; else ""."""
    end = _lowered(name[-80:])
    found = _SECRET_NAME.search(end)
    return "" if not found or _HARMLESS.search(end, 0, found.start()) else _kind_of(found[0])


def has_secret_word(text: str) -> bool:
    """Whether one of the words is in it that every name of a secret ends with."""
    return any(map(_lowered(text).__contains__, _WORDS))


def is_password(kind: str) -> bool:
    return kind == "a password"


def _kind_of(word: str) -> str:
    kinds = {"pas": "a password", "pwd": "a password", "tok": "a token", "sec": "a secret", "cre": "a credential"}
    return kinds.get(word[:3], "a key")


def _look_for_named(text: str) -> Iterator[Span]:
    has_flags = "--" in text
    if not has_flags and ":" not in text and "=" not in text:  # nothing has a value
        return
    lowered, at = _lowered(text), 0
    for place in places(lowered, _WORDS):
        name = _name_at(lowered, place, has_flags) if place >= at else None
        span = _value_at(text, name) if name is not None else None
        if span is not None:
            yield span
            at = span[1]


def _name_at(lowered: str, place: int, has_flags: bool) -> re.Match[str] | None:
    """The name that has one of the words there, with what sets its value apart; None where it names no secret."""
    name, begin = _ASSIGNED.match(lowered, place), place
    if name is None:
        name = _FLAG.match(lowered, place) if has_flags else None
        if name is None:
            return None
    if name[1] == "key":
        owner = _KEY_OWNER.search(lowered, max(0, place - 11), place)
        if owner is None:
            return None
        begin = owner.start()
    if _HARMLESS.search(lowered, max(0, begin - 16), begin):
        return None
    is_flag = name.re is _FLAG
    return None if is_flag and not _FLAG_BEGIN.search(lowered, max(0, begin - 66), begin) else name


def _lowered(text: str) -> str:
    return text.replace("İ", "i").lower()  # the only character whose small form is longer: places must stay


def _value_at(text: str, name: re.Match[str]) -> Span | None:
    """Where the value behind a name is, if it looks real."""
    opening = _OPENING.match(text, name.end())
    start, mark = (opening.end(), opening[1][0]) if opening else (name.end(), "")
    if not mark and is_password(_kind_of(name[1])) and (phrase := _phrase_at(text, start)):
        return phrase
    seen = _BODIES[mark].match(text, start, start + LOOKED_AT)
    if seen is None or len(seen[0]) < SHORTEST:
        return None
    if not looks_real(seen[0], password=is_password(_kind_of(name[1])), quoted=bool(mark)):
        return None
    whole = _BODIES[mark].match(text, start)
    return (start, whole.end()) if whole and (mark or not _is_code(text, name, seen)) else None


def _phrase_at(text: str, start: int) -> Span | None:
    """Words to the end of the line that are a passphrase."""
    line = text[start : start + LOOKED_AT].partition("\n")[0].rstrip()
    return (start, start + len(line)) if is_passphrase(line.split()) else None


def _is_code(text: str, name: re.Match[str], seen: re.Match[str]) -> bool:
    """Whether a value without quotes is a call, an index, or an identifier in a line of code."""
    spaced = _SPACED.search(name[0]) is not None
    return text[seen.end() : seen.end() + 1] in ("(", "[", "{") or (spaced and seen[0].rstrip(";,").isidentifier())


def _look_for_pem(text: str) -> Iterator[Span]:
    yield from (found.span() for found in _PEM.finditer(text) if _PEM_BODY.search(found[1]))


_PEM = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----((?:[A-Za-z0-9+/=\s\\:,.]|-(?!----))*)"
    r"(?:-----END [A-Z0-9 ]{0,50}-----)?"
)
_PEM_BODY = re.compile(r"[A-Za-z0-9+/=]{16}")


# -- the rules ---------------------------------------------------------------------------------------

_SENT = r"(?i:authorization)\\?[\"']?[ \t]*[:=][ \t]*\\?[\"']?(?i:bearer|basic|token)[ \t]+([\w.~+/=-]{8,})"
_IN_URL = r"://[^\s/?#:@\"'<>]{0,128}:([^\s/?#\"'<>]{1,256})@(?!sha\d)"


RULES: tuple[SecretRule, ...] = (
    SecretRule("private_key", "a private key", _look_for_pem, ("PRIVATE KEY",), cased=True),
    *map(by_token, (*TOKENS, *more_tokens())),
    by_pattern("authorization", "an Authorization header", _SENT, "uthorization", "UTHORIZATION", real=is_sent),
    by_pattern("bearer", "a bearer token", r"\b[Bb]earer[ \t]+([\w.~+/=-]{20,})", "earer", real=is_sent),
    by_pattern("url_password", "a password in a URL", _IN_URL, "://", real=is_url_password),
    SecretRule("basic", "a login in base64", look_for_basic, BASIC_HINTS, cased=True),
    SecretRule("login", "a login", look_for_logins, ("curl", "password"), cased=True),
    SecretRule("cookie", "a cookie", look_for_cookies, COOKIE_HINTS, cased=True),
    SecretRule("signed_url", "a signature", look_for_signed, SIGNED_HINTS, cased=True),
    SecretRule("named", "a password, token or key", _look_for_named, _WORDS),
)
