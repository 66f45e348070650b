"""Where words are in a text. Pure."""

from __future__ import annotations

from collections.abc import Iterable


def places(text: str, words: Iterable[str]) -> list[int]:
    """Where each of these words begins in a text, in order."""
    found = []
    for word in words:
        at = text.find(word)
        while at >= 0:
            found.append(at)
            at = text.find(word, at + 1)
    return sorted(found)
