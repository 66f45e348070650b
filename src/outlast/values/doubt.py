"""What is said of files of which nobody knows who wrote them. Pure."""

from __future__ import annotations


def doubt_of(shared: str) -> str:
    """To be said after files that were left, if parts of `shared` that are done at once declare the same."""
    return f" (of this or another part of {shared}: they are done at once and declare the same)" if shared else ""
