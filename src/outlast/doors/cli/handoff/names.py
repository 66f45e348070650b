"""What a handoff is called on the command line: ANCHOR, ANCHOR@REVISION, or an id."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from outlast.doors.cli.door import Door

if TYPE_CHECKING:
    from outlast import Outlast

_REVISION = re.compile(r"(.+)@([0-9]{1,9})", re.DOTALL)


def revision_of(outlast: Outlast, word: str) -> tuple[str, int | None]:
    """The anchor and the revision that a word names. An anchor that is itself called so comes first."""
    from outlast.errors import HandoffNotFound, OutlastError

    named = _REVISION.fullmatch(word)
    if named is None:
        return word, None
    try:
        outlast.handoff._get(anchor=word)  # whether there is one: nobody has looked at it
    except HandoffNotFound:
        return named[1], int(named[2])
    except OutlastError:  # it is there, and whoever asks for it is told what is wrong
        pass
    return word, None


def command_for(door: Door, verb: str, anchor: str, *words: str) -> str:
    """A handoff command to show, ready to be copied, also for an anchor that looks like an option."""
    return door.about(("handoff", verb), anchor, *words)
