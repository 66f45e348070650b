"""Processes in words. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def ended_line(stragglers: Sequence[Mapping[str, object]], number: int = 0) -> str:
    """What was left in the background and is ended, in a line."""
    known = ", ".join(f"{each.get('pid')} ({each.get('command')})" for each in stragglers)
    more = f" and {number - len(stragglers)} more" if number > len(stragglers) else ""
    return f"ended what it left in the background: {known}{more}"
