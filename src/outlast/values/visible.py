"""Text of others on a line of ours: what would steer a terminal or begin a line is written out. Pure."""

from __future__ import annotations


def visible(text: object, keep: str = "") -> str:
    """The text with control and direction characters as visible escapes, but for those to keep; else one line."""
    shown = str(text)
    if shown.isprintable():
        return shown
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in shown)
