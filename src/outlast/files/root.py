"""Roots: the folder that the paths of a handoff are relative to, and where its files are now."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from posixpath import normpath, relpath
from typing import TYPE_CHECKING

from outlast.errors import HandoffInvalid
from outlast.files import git
from outlast.files.bound import can_be_a_path, sight
from outlast.files.changes import path_of, text
from outlast.handoffs.handoff import Binding, Handoff
from outlast.home.process import this_place

if TYPE_CHECKING:
    from outlast.home.home import Runtime


def root_of(runtime: Runtime, given: str | None) -> Path:
    """The folder that paths are relative to: the one given, else the project's, else the top of the repository.

    The project (where `.outlast` lies) counts only when we are in it and it is no larger than the repository.
    Raises HandoffInvalid when there is no such folder.
    """
    if given is not None:
        return _given(given)
    here = _here()
    top, project = git.top_of(here), runtime.project
    if project and here.is_relative_to(project) and (top is None or project.is_relative_to(top)):
        return project
    return top or here


def _given(given: str) -> Path:
    remedy = "give the folder that the files are in, or leave it out to use the repository you are in"
    if not can_be_a_path(given):
        raise HandoffInvalid("repo_root", f"{given!r} cannot be a folder's name", remedy)
    if not os.path.isdir(given):
        why = "is a file" if os.path.lexists(given) else "does not exist"
        raise HandoffInvalid("repo_root", f"{given!r} {why}", remedy)
    return Path(os.path.realpath(given))


def _here() -> Path:
    try:
        return Path(os.path.realpath(os.getcwd()))
    except FileNotFoundError as error:
        remedy = "go to a folder that exists, or give repo_root (--repo DIR)"
        raise HandoffInvalid("repo_root", "the current folder does not exist any more", remedy) from error


def relative_to(root: Path, given: str, field: str) -> str:
    """A path as bindings name it: from the root, in its one spelling. Raises HandoffInvalid when it is not inside."""
    if not can_be_a_path(given):
        raise HandoffInvalid(field, f"{given!r} cannot be a file's name", "name a file inside repo_root")
    if ".." in given.split("/"):
        raise HandoffInvalid(field, f"{given!r} has `..` in it", f"name it from {root}, without `..`")
    if not given.startswith("/"):
        return normpath(given)
    above, _, name = given.rstrip("/").rpartition("/")
    path = relpath(os.path.join(os.path.realpath(above or "/"), name), root)
    if path.split("/")[0] == "..":
        remedy = "name a file inside it, or give another repo_root"
        raise HandoffInvalid(field, f"{given!r} is not inside {root}", remedy)
    return path


def place_of(runtime: Runtime, handoff: Handoff, given: str | None) -> Path | None:
    """Where the files of a handoff can be looked at; None when nothing here is known to be that work.

    The folder given, else here if this is the same work (also in another folder, clone or worktree), else where it was
    bound on this host. Raises HandoffInvalid for a given folder that is not there.
    """
    here = root_of(runtime, given)
    bound = handoff.binding
    if given is not None or bound is None:
        return here
    there = Path(path_of(bound.root))
    if bound.commit:
        places = (_likewise(here, bound, there), there)
        return next((each for each in places if _has_work(each, bound, there)), None)
    if _is_ours(bound) and there.is_dir():
        return there
    files = (path_of(path) for path, was in bound.files.items() if was.mode != "absent")
    return here if any(sight(here, path, -1).bound.mode != "absent" for path in files) else None


def own_place_of(runtime: Runtime, handoff: Handoff, given: str | None, own: Collection[Path]) -> Path | None:
    """The same for a handoff that came from elsewhere: what it says of its root opens no folder of this host.

    Only the folder given, the one we are in and what is below, and those that are our `own` by an earlier word. Whoever
    is in `/` is nowhere.
    """
    here, bound = root_of(runtime, given), handoff.binding
    if given is not None:
        return here
    if here == here.parent:
        return None
    if bound is not None and not _is_own(Path(path_of(bound.root)), here, own):
        handoff = replace(handoff, binding=replace(bound, root=text(str(here)), host=""))
    return place_of(runtime, handoff, None)


def _is_own(there: Path, here: Path, own: Collection[Path]) -> bool:
    if there in own:
        return True
    if not (there.is_relative_to(here) and os.path.isdir(there)):
        return False
    return Path(os.path.realpath(there)).is_relative_to(here)


def _likewise(here: Path, bound: Binding, there: Path) -> Path:
    """The folder of the repository here that the bound root is of its own; here where that is not known."""
    top, other = git.top_of(here), git.top_of(there) if there.is_dir() else None
    alike = top / there.relative_to(other) if top and other and there.is_relative_to(other) else here
    return alike if alike != here and alike.is_dir() and git.has_commit(there, bound.commit) else here


def _has_work(place: Path, bound: Binding, there: Path) -> bool:
    """Whether a folder's repository has the bound commit. Where git cannot tell, the bound root is believed."""
    has = git.has_commit(place, bound.commit) if place.is_dir() else False
    return place == there and _is_ours(bound) if has is None else has


def _is_ours(bound: Binding) -> bool:
    """Whether the bound root is a folder of this host: elsewhere the same path is another folder."""
    return bound.host == this_place()[0]
