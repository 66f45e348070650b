"""Where a session works: its work tree, its branch, and the home that all work trees of the repository share.

Read from git's own files, since asking git takes longer than all the rest, and only from plain ones that lie where they
should (`files/repository.py`). Where these do not tell (reftable, files that cannot be read) the answer is empty, and
whoever has time asks git. A repository that leads out of itself tells nothing here, unless git's own settings call it
safe.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from outlast.files import repository
from outlast.files.repository import LeadsOut, Repository, line_of

FOLDER = ".outlast"


class Place(NamedTuple):
    """A work tree, or a folder outside of git."""

    top: str  # the top of the work tree; the folder itself outside of git
    home: str
    git: str = ""  # the work tree's own git folder; "" outside of git
    branch: str = ""

    @property
    def exists(self) -> bool:
        """Whether there is a home: hooks make none, so that they act only where somebody wanted them."""
        return os.path.isdir(self.home)


def place_of(cwd: str) -> Place:
    """Where a folder is. Raises OSError when it cannot be reached."""
    here = os.path.realpath(cwd or os.getcwd())
    top = repository.top_of(here)
    if top is None:
        return Place(here, _home_of(here))
    found = _repository(top)
    if found is None:
        return Place(top, _home_of(top))
    return Place(top, _home_of(_main_of(found)), found.own, _branch_in(found.own))


def anchor_of(place: Place, task: str) -> str:
    """The name under which the work is handed over: the task's, else the branch's; "" when there is neither."""
    if task:
        return f"task:{task}"
    return f"branch:{place.branch}" if place.branch else ""


def is_found(place: Place) -> bool:
    """Whether a command that is run in the work tree finds the home by itself."""
    here = place.top
    while True:
        found = os.path.join(here, FOLDER)
        if os.path.isdir(found):
            return os.path.realpath(found) == os.path.realpath(place.home)
        if os.path.dirname(here) == here:
            return "OUTLAST_HOME" in os.environ
        here = os.path.dirname(here)


def _home_of(folder: str) -> str:
    named = os.environ.get("OUTLAST_HOME", "")
    if named:
        return os.path.abspath(os.path.expanduser(named))
    return os.path.join(folder, FOLDER)


def _repository(top: str) -> Repository | None:
    """The repository, if it may be read; only for one that leads out git is asked whether it is safe all the same."""
    try:
        found = repository.find(top)
        try:
            repository.check(found)
        except LeadsOut as error:
            if error.always or not _is_safe(top):
                return None
    except (LeadsOut, OSError):
        return None
    return found


def _is_safe(top: str) -> bool:
    from outlast.files.ask_git import is_safe

    return is_safe(top)


def _main_of(found: Repository) -> str:
    """The main work tree, whose home all others use. Of a bare repository, which has none: its own folder."""
    if found.common == found.own:
        return found.top
    return os.path.dirname(found.common) if os.path.basename(found.common) == ".git" else found.common


def _branch_in(own: str) -> str:
    """The branch that is checked out, or that is being rebased."""
    for name in ("HEAD", "rebase-merge/head-name", "rebase-apply/head-name"):
        said = line_of(os.path.join(own, name)).removeprefix("ref: ")
        branch = said.removeprefix("refs/heads/")
        if branch != said and branch != ".invalid":
            return branch
    return ""
