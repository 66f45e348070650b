"""Where a session works: its work tree, its branch, and the home that all work trees of the repository share.

Read from git's own files, since asking git takes longer than all the rest. Where these do not tell (reftable, files
that cannot be read) the answer is empty, and whoever has time asks git.
"""

from __future__ import annotations

import os
from typing import NamedTuple

FOLDER = ".outlast"
_POINTER_BYTES = 4096


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
    top = _top_of(here)
    if top is None:
        return Place(here, _home_of(here))
    own = _git_folder(top)
    return Place(top, _home_of(_main_of(top, own)), own, _branch_in(own))


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


def _top_of(here: str) -> str | None:
    while True:
        inner = os.path.join(here, ".git")
        if os.path.isfile(inner) or os.path.lexists(os.path.join(inner, "HEAD")):
            return here
        above = os.path.dirname(here)
        if above == here:
            return None
        here = above


def _git_folder(top: str) -> str:
    inner = os.path.join(top, ".git")
    pointed = _pointer(inner).removeprefix("gitdir: ") if os.path.isfile(inner) else ""
    return os.path.join(top, pointed) if pointed else inner


def _main_of(top: str, own: str) -> str:
    """The main work tree, whose home all others use. Of a bare repository, which has none: its own folder."""
    common = shared_git(own)
    if common == own:
        return top
    return os.path.dirname(common) if os.path.basename(common) == ".git" else common


def shared_git(own: str) -> str:
    """The git folder that all work trees share, of which a linked one has only a part."""
    shared = _pointer(os.path.join(own, "commondir"))
    return os.path.realpath(os.path.join(own, shared)) if shared else own


def _branch_in(own: str) -> str:
    """The branch that is checked out, or that is being rebased."""
    for name in ("HEAD", "rebase-merge/head-name", "rebase-apply/head-name"):
        said = _pointer(os.path.join(own, name)).removeprefix("ref: ")
        branch = said.removeprefix("refs/heads/")
        if branch != said and branch != ".invalid":
            return branch
    return ""


def _pointer(path: str) -> str:
    """The one line of a file of git's."""
    try:
        with open(path, "rb") as file:
            return os.fsdecode(file.read(_POINTER_BYTES)).strip("\n\r ")
    except OSError:
        return ""
