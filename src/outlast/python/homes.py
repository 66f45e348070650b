"""Homes as doors and hooks ask about them. Hooks load this at every event: it imports next to nothing."""

from __future__ import annotations

import os
from collections.abc import Callable

from outlast.home.ours import check_found, remember, why_not
from outlast.values import private


def why_unused(home: str) -> str:
    """Why a hook uses nothing of the home that it found; "" when it is ours. One that is named by OUTLAST_HOME is."""
    return "" if os.environ.get("OUTLAST_HOME") else why_not(home)


def check_home(home: str, tell: Callable[[str], None]) -> None:
    """Make sure, for a command, that a home is ours; one that is not known yet is adopted. Raises HomeNotOurs."""
    if not os.environ.get("OUTLAST_HOME"):
        check_found(home, tell)


def make_home(home: str) -> None:
    """The folder of a home; that it was made here is remembered. Raises OSError."""
    if private.make_home(home):
        remember(home, "made")
