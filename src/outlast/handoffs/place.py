"""Where the files of a handoff are, for whoever looks: the folder given, else where he stands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from outlast.files.root import Stand, root_from
from outlast.handoffs.handoff import Handoff

if TYPE_CHECKING:
    from outlast.home.caller import Caller


def root_of(caller: Caller, given: str | None) -> Path:
    """The folder that paths are relative to, for who acts: see `root_from`. Raises HandoffInvalid."""
    return root_from(given, caller.stands, caller.home.project)


def place_of(caller: Caller, handoff: Handoff, given: str | None) -> Path | None:
    """Where the files of a handoff are looked at: the folder given, else where we are, if that is the same work.

    Nothing else is looked at, wherever it was stored: None when where we are is not known to be its repository. Raises
    HandoffInvalid for a given folder that is not there.
    """
    here, bound = root_of(caller, given), handoff.binding
    return here if given is not None or bound is None else Stand(here).place_of(bound)
