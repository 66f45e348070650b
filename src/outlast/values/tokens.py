"""Who counts the tokens of a text: a function of the caller's, one that OUTLAST_TOKENIZER names, or the estimate.

The estimate is pure, and needs no vocabulary. It is fitted to the byte-pair ones in use: `bench/recall.py` compares it
with one of them, by kinds of text. Counted in quarters of a token and rounded up for each line:

- a word of up to six letters: one token; longer ones a quarter to all of one more, up to 15 letters; what is longer is
  no word, and capitals are rarer: one for two letters. camelCase counts by its parts;
- up to three digits: one; of signs in a row one and a half for two, two for three; a tab is a sign;
- a single space: nothing, since it belongs to the word after it; several: one;
- beyond ASCII by script: an accented, Cyrillic or Greek letter three quarters, a Chinese sign one and a
  quarter, an emoji two and a half.

It is the sum over the lines, and one for each line end.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sized
from functools import lru_cache
from typing import Any

from outlast.errors import TokenizerInvalid

TokensOf = Callable[[str], int]
VARIABLE = "OUTLAST_TOKENIZER"
_REMEDY = "name a function from a text to its tokens or their number, such as `mytokens:count`"


def counter(given: Any, path: str = "tokens_of") -> TokensOf:
    """What counts: a function (of the number, or of the tokens themselves), MODULE:FUNCTION, or nothing: the default.

    The default is what OUTLAST_TOKENIZER names, else the estimate. Raises TokenizerInvalid, also while counting.
    """
    if given is None:
        named = os.environ.get(VARIABLE, "")
        return counter(named, VARIABLE) if named else tokens_about
    if isinstance(given, str):
        return _named(given, path)
    if not callable(given):
        raise TokenizerInvalid(path, "it cannot be called", "give a function from a text to the number of its tokens")
    return given if given is tokens_about else _checked(given, path)


def _checked(tokens_of: Callable[[str], Any], path: str) -> TokensOf:
    def counted(text: str) -> int:
        found = tokens_of(text)
        number = len(found) if isinstance(found, Sized) and not isinstance(found, str) else found
        if type(number) is not int or number < 0:
            raise TokenizerInvalid(path, f"it gave {found!r:.100}", "let it give the number of tokens of a text")
        return number

    return counted


@lru_cache(maxsize=8)  # a vocabulary takes long to load
def _named(name: str, path: str) -> TokensOf:
    from importlib import import_module

    module, _, function = name.partition(":")
    if not module or not function:
        raise TokenizerInvalid(path, f"{name!r:.100} names no function", _REMEDY)
    try:
        found: Any = import_module(module)
        for part in function.split("."):
            found = getattr(found, part)
    except Exception as error:
        raise TokenizerInvalid(path, f"{name!r:.100} cannot be loaded: {error}", _REMEDY) from error
    return _told_of(name, counter(found, path), path)


def _told_of(name: str, tokens_of: TokensOf, path: str) -> TokensOf:
    """The same; what goes wrong in it names it, for who gave no more than a name."""

    def counted(text: str) -> int:
        try:
            return tokens_of(text)
        except TokenizerInvalid:
            raise
        except Exception as error:
            why = f"{name!r:.100} failed: {type(error).__name__}: {error}"
            raise TokenizerInvalid(path, why, "mend it, or count without it") from error

    return counted


# -- the estimate ------------------------------------------------------------------------------------

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]{1,3}")
_SIGNS = re.compile(r"[!-/:-@\[-^`{-\x7f\x00-\x09\x0b-\x1f]+")  # of ASCII, neither letter, digit, space nor `_`
_GAPS = re.compile(r" {2,}")
_SCRIPTS = (  # up to which character, and the quarters of one
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
