"""What somebody may have meant by a word that is not known. Pure."""

from __future__ import annotations

from collections.abc import Iterable

LONGEST = 100  # characters that are compared


def closest(word: str, known: Iterable[str]) -> list[str]:
    """The known word that somebody may have meant; none when none is close."""
    from difflib import get_close_matches  # late: nobody needs it who makes no mistake

    return get_close_matches(word[:LONGEST], list(known), 1)


def meant(word: str, known: Iterable[str]) -> str:
    """`did you mean …?`; empty when no known word is close."""
    close = closest(word, known)
    return f"did you mean `{close[0]}`?" if close else ""


def nearest(word: str, known: Iterable[str], what: str) -> str:
    """The advice for a word that is not known: the one that was meant, else all there are."""
    names = list(known)
    return meant(word, names) or f"{what}: {', '.join(names)}"
