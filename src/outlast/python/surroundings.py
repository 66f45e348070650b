"""What stands around a home and is not sound: who else may read it, and a repository that git is not asked about."""

from __future__ import annotations

import os
from pathlib import Path

from outlast.files.git import why_refused
from outlast.home.privacy import too_open

_NAMED = 5


def problems_around(home: Path) -> list[str]:
    """Each with what to do about it. Nothing is changed."""
    return [*_open_to_others(home), *_refused(Path(os.getcwd()))]


def _open_to_others(home: Path) -> list[str]:
    found = too_open(home)
    if not found:
        return []
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    named = ", ".join(found[:_NAMED])
    return [f"more people than should may read or change {named}{more}: let the owner run a command here, or chmod"]


def _refused(here: Path) -> list[str]:
    why = why_refused(here)
    return [f"git is not asked about this repository: {why}"] if why else []
