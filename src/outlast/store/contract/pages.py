"""Pages of lists that go down, from the newest row on."""

from __future__ import annotations


def below(key: int) -> int:
    """Before which row the next page begins. 0 is the beginning of the list: a row has it by damage only."""
    return key or -1
