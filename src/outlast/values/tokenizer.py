"""Who counts tokens: a function of the caller's, one that OUTLAST_TOKENIZER names, or the estimate."""

from __future__ import annotations

import os
from collections.abc import Callable, Sized
from functools import lru_cache
from typing import Any

from outlast.errors import TokenizerInvalid
from outlast.values.estimate import tokens_about

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
