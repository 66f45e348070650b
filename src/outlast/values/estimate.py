"""About how many tokens a text is for a language model, without its vocabulary. Pure.

Fitted to the byte-pair vocabularies in use: `bench/recall.py` compares it with one of them, by kinds of text. Counted
in quarters of a token and rounded up for each line:

- a word of up to six letters: one token; longer ones a quarter to all of one more, up to 15 letters; what is longer is
  no word, and capitals are rarer: one for two letters. camelCase counts by its parts;
- up to three digits: one; of signs in a row one and a half for two, two for three; a tab is a sign;
- a single space: nothing, since it belongs to the word after it; several: one;
- beyond ASCII by script: an accented, Cyrillic or Greek letter three quarters, a Chinese sign one and a
  quarter, an emoji two and a half.

It is the sum over the lines, and one for each line end.
"""

from __future__ import annotations

import re
from functools import lru_cache

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]{1,3}")
_SIGNS = re.compile(r"[!-/:-@\[-^`{-\x7f\x00-\x09\x0b-\x1f]+")  # of ASCII, neither letter, digit, space nor `_`
_GAPS = re.compile(r" {2,}")
_SCRIPTS = (  # up to which character, and the quarters of one
    ("\u024f", 3),
    ("\u07ff", 3),
    ("\u1fff", 8),
    ("\u206f", 5),
    ("\u2fff", 8),
    ("\u30ff", 4),
    ("\u9fff", 5),
    ("\uabff", 8),
    ("\ud7a3", 6),
    ("\uffff", 8),
)


def tokens_about(text: str) -> int:
    """About how many tokens a text is."""
    lines = text.split("\n")
    return sum(map(_line, lines)) + len(lines) - 1


def _line(text: str) -> int:
    quarters = sum(map(_word, _WORDS.findall(text))) + text.count("_")
    quarters += sum(2 + 2 * len(signs) for signs in _SIGNS.findall(text)) + 4 * len(_GAPS.findall(text))
    if not text.isascii():
        quarters += sum(_beyond(char) for char in text if char > "\x7f")
    return -(-quarters // 4)


@lru_cache(maxsize=16_384)  # the same words come again and again
def _word(word: str) -> int:
    size = len(word)
    if size > 15 or (size > 3 and word.isupper()):
        return 2 * size
    return 4 if size <= 6 else 5 if size <= 8 else 6 if size <= 10 else 8


def _beyond(char: str) -> int:
    return next((quarters for last, quarters in _SCRIPTS if char <= last), 10)
