"""Masking what comes in pieces: secrets that look like secrets, in bytes that are printed, wherever they are cut.

Every kind of secret is within one line, but for private keys. So whole lines are let through as they come, and a line
that has not ended is held back: to its end, or as long as more of it may come and make a secret of it. Memory is
bounded: of a line without end only its last part is held, with a little of what came before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from string import ascii_letters, digits
from typing import TYPE_CHECKING

from outlast.secrets.find import find, hints_of, without_colours
from outlast.secrets.rules import RULES
from outlast.values.frozen import NamedTuple
from outlast.values.late import late

if TYPE_CHECKING:
    from outlast.secrets import sieve as _sieve
    from outlast.secrets.rules import SecretRule
else:
    _sieve = late("outlast.secrets.sieve")  # little is printed as a rule

Span = tuple[int, int]

LINE_BYTES = 64 * 1024  # of a line, or of a private key, that are held back at most
NEAR_BYTES = 16 * 1024  # of a longer one: a secret of this length is seen whole
BEFORE_BYTES = 256  # of what was let through in the same line: the name of a value may be there
LONG_WORD = 16  # characters of a word that may become a token, whatever it begins with
SIEVED_BYTES = 8 * 1024  # from here on it pays to look for hints first
_MASK = b"***"
_SETS_APART = (":", "=", "--")  # a value from its name
_OF_WORDS = f"{ascii_letters}{digits}_+/.~%=:-\x1b[;"  # characters that tokens have, and colours within them
_KEY_BEGINS = b"-----BEGIN "
_OPEN_KEY = re.compile(
    rb"-----BEGIN [A-Z0-9 ]{0,40}"
    rb"(?:PRIVATE KEY(?: BLOCK)?-----(?:[A-Za-z0-9+/=\s\\:,.]|-(?!----))*(?:-----[A-Z0-9 ]*-*)?)?\Z"
)


def spans_in(data: bytes, rules: tuple[SecretRule, ...] | None = None) -> Iterator[Span]:
    """Where secrets are in bytes. What is no text is passed over; of much text only lines with a hint are read."""
    rules = rules or RULES
    if len(data) < SIEVED_BYTES:
        return iter(_spans_of(data, rules))
    return iter(_sieve.spans_of_suspects(data, rules, _spans_of))


def has_any(data: bytes, words: tuple[bytes, ...]) -> bool:
    """Whether one of these words is in the data."""
    if len(data) < SIEVED_BYTES:
        return any(map(data.__contains__, words))
    return _sieve.has_any(data, words)


def _spans_of(data: bytes, rules: tuple[SecretRule, ...]) -> list[Span]:
    text = data.decode("utf-8", "surrogateescape")
    if text.isascii():
        return [(found.start, found.end) for found in find(text, rules)]
    spans, seen, at = [], 0, 0
    for found in find(text, rules):
        start = at + len(text[seen : found.start].encode("utf-8", "surrogateescape"))
        at = start + len(text[found.start : found.end].encode("utf-8", "surrogateescape"))
        seen = found.end
        spans.append((start, at))
    return spans


class Masking:
    """Masks a stream as if it came in one piece. `feed` it, say when it pauses, and ask for the `rest`."""

    def __init__(self, rules: tuple[SecretRule, ...]) -> None:
        self.count = 0  # secrets that were masked
        self._rules = rules
        self._held = b""
        self._before = b""  # what was let through of the line that is held
        self._goes_on = False  # a secret began there: what follows is the rest of it

    def feed(self, chunk: bytes) -> bytes:
        """What can be shown now."""
        data = self._held + chunk
        cut = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        cut = min(cut, _begin_of_key(data))
        if len(data) - cut > LINE_BYTES:
            return self._let_through(data, len(data) - NEAR_BYTES)
        return self._let_through(data, cut) if cut else self._hold(data)

    def pause(self) -> bytes:
        """What can be shown of a line that has not ended, when nothing comes for a while."""
        if not self._held:
            return b""
        cut = len(self._held) - _open_bytes((self._before + self._held).decode("utf-8", "replace"), self._rules)
        return self._let_through(self._held, cut) if cut > 0 else b""

    def rest(self) -> bytes:
        """What was held back, when nothing more comes."""
        return self._let_through(self._held, len(self._held))

    def _hold(self, data: bytes) -> bytes:
        self._held = data
        return b""

    def _let_through(self, data: bytes, cut: int) -> bytes:
        """The data up to there, masked. A secret that lies across is masked whole; the rest is held."""
        whole = self._before + data
        cut += (shift := len(self._before))
        parts, at, goes_on = [], shift, False
        for start, stop in spans_in(whole if cut < len(whole) else whole[:cut], self._rules):
            if start >= cut or stop <= shift:
                continue
            parts += [whole[at : max(at, start)], *self._mask(start < shift)]
            at, cut = stop, max(cut, stop)
            if stop == len(whole):
                goes_on = True
                before = whole[max(0, start - BEFORE_BYTES) : start + BEFORE_BYTES]
        parts.append(whole[at:cut])
        self._held, self._goes_on = whole[cut:], goes_on
        ended = whole[:cut].endswith((b"\n", b"\r"))
        self._before = before if goes_on else b"" if ended else whole[max(0, cut - BEFORE_BYTES) : cut]
        return b"".join(parts)

    def _mask(self, goes_on: bool) -> list[bytes]:
        """The mask of a secret; nothing when it is the rest of one that was masked before."""
        if goes_on and self._goes_on:
            return []
        self.count += 1
        return [_MASK]


def _open_bytes(line: str, rules: tuple[SecretRule, ...]) -> int:
    """How many bytes at the end of a line have to be seen with what follows: all of it once a value may be secret by
    what stands before it; else a word that may be one, or the beginning of one. A name alone can be shown."""
    hints, lowered = _hints(rules), line.lower()
    has_value = any(map(line.__contains__, _SETS_APART))
    if any(map(line.__contains__, hints.cased)) or (has_value and any(map(lowered.__contains__, hints.other))):
        return len(line.encode())
    end = line[len(line.rstrip(_OF_WORDS)) :]
    if len(end) >= LONG_WORD or any(map(end.__contains__, hints.in_words)):
        return len(end)
    plain = without_colours(line[-160:]).text if "\x1b[" in line else line
    word = plain[len(plain.rstrip(_OF_WORDS)) :]
    return max(_begun(word, hints.in_words), _begun(plain[-80:], hints.cased))


def _begun(end: str, hints: tuple[str, ...]) -> int:
    """How many characters at the end may be the beginning of a hint; a single one counts at the begin of a word."""
    ends = (
        n for n in range(min(len(end), max(map(len, hints), default=0)), 0, -1) if n > 1 or not end[-2:-1].isalnum()
    )
    return next((n for n in ends if any(hint.startswith(end[-n:]) for hint in hints)), 0)


class _HintWords(NamedTuple):
    """What a text has that has a secret in it: just so, in large or small letters, or just so in one word."""

    cased: tuple[str, ...]
    other: tuple[str, ...]
    in_words: tuple[str, ...]


@lru_cache(maxsize=8)
def _hints(rules: tuple[SecretRule, ...]) -> _HintWords:
    cased, other, in_words = (tuple(hint for hint, _ in pairs) for pairs in hints_of(rules))
    return _HintWords((_KEY_BEGINS.decode(), *cased), other, in_words)


def _begin_of_key(data: bytes) -> int:
    """Where a private key begins that has not ended; else the end of the data."""
    start = data.rfind(_KEY_BEGINS)
    return start if start >= 0 and _OPEN_KEY.match(data, start) else len(data)
