"""Roots: the folder that the paths of a handoff are relative to, and where its files are now."""

from __future__ import annotations

import os
from functools import cache, partial
from pathlib import Path
from posixpath import normpath, relpath

from outlast.errors import HandoffInvalid
from outlast.files import git
from outlast.files.changes import path_of, text
from outlast.files.patterns import never
from outlast.files.snapshot import Binding, can_be_a_path


def root_from(given: str | None, stands: str = "", project: Path | None = None) -> Path:
    """The folder that paths are relative to: the one given, else the project's, else the top of the repository.

    We are where we `stand`: without it, in the current folder.

    The project (where `.outlast` lies) counts only when we are in it and it is no larger than the repository.
    Raises HandoffInvalid when there is no such folder.
    """
    if given is not None:
        return _given(given)
    here = _here(stands)
    top = git.top_of(here)
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


def _here(stands: str) -> Path:
    try:
        return Path(os.path.realpath(stands or os.getcwd()))
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


class Stand:
    """A folder that somebody is in, and its repository, of which git is asked each thing once."""

    def __init__(self, here: Path) -> None:
        self._here, self._top = here, git.top_of(here)
        self._state, self._has = cache(partial(git.look, here)), cache(partial(git.has_commit, here))
        self._known_by = cache(partial(git.known_by, here))

    def place_of(self, bound: Binding) -> Path | None:
        """The bound root in the repository here; None when that is not known to be the same one.

        It is the same if it has the bound commit, an equal first commit or an equal remote; where git tells nothing of
        it, if it is the same folder.
        """
        top, there = self._top, Path(path_of(bound.root))
        if top is None:
            return there if self._here.is_relative_to(there) and there != there.parent else None
        has = self._has_commit(bound.commit) if bound.commit else None
        if has or self._is_marked(top, bound):
            return _inside(top, bound.prefix)
        if bound.commit and (has is False or not _is_ours(bound)):
            return None
        return _inside(top, bound.prefix) if text(str(top)) == _top_of(bound) else None

    def _has_commit(self, commit: str) -> bool | None:
        """Most often it is the one that is checked out, which whoever looks at files asks for anyway."""
        state = self._state()
        return True if state is not None and state.commit == commit else self._has(commit)

    def _is_marked(self, top: Path, bound: Binding) -> bool:
        """Whether both are known by the same, or one was cloned from where the other is."""
        found, here, there = self._known_by(), text(str(top)), _top_of(bound)
        is_clone = here != there and (there in found or here in bound.known_by)
        return is_clone or not {*found}.isdisjoint(bound.known_by)


def _top_of(bound: Binding) -> str:
    """The top of the repository that it was bound in."""
    return bound.root.removesuffix(f"/{bound.prefix}") if bound.prefix else bound.root


def _inside(top: Path, prefix: str) -> Path | None:
    """The folder of a repository; None for one that is not inside, or git's: it is only somebody's word."""
    if prefix and not can_be_a_path(path_of(prefix)):
        return None
    root = Path(os.path.realpath(top / path_of(prefix)))
    is_ours = root.is_relative_to(top) and not any(map(never, root.relative_to(top).parts))
    return root if is_ours else None


def _is_ours(bound: Binding) -> bool:
    """Whether the bound root is a folder of this host: elsewhere the same path is another folder."""
    return bound.host == os.uname().nodename
