"""What is said of files of which nobody knows who wrote them. Pure."""

from __future__ import annotations


def doubt_of(shared: str) -> str:
    """To be said after the files that an item left, if items that are done at once declare the same; else nothing."""
    return f" (of this or another item of {shared}: they are done at once and declare the same)" if shared else ""
