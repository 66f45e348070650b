"""Where work is done: a work tree with its branch, what changed in it, and the home that all its work trees share.

Read from git's own files, since asking git takes longer than all the rest, and only from plain ones that lie where they
should (`files/repository.py`). Where these do not tell (reftable, files that cannot be read) the answer is empty, and
whoever has time asks git. A repository that leads out of itself tells nothing here, unless git's own settings call it
safe. Hooks load this at every event: it imports next to nothing.

And that home as hooks ask about it, and opened for a short use in which nothing runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from outlast.files import repository
from outlast.files.repository import LeadsOut, Repository, line_of
from outlast.home.ours import check_found, remember, why_not
from outlast.values import private
from outlast.values.late import late

if TYPE_CHECKING:
    import pathlib

    from outlast.files.git import GitChange
    from outlast.home.caller import Caller as Caller
    from outlast.home.home import Home as Home
    from outlast.runs.live import Executor as Executor
else:
    pathlib = late("pathlib")

FOLDER = ".outlast"


class WorkTree(NamedTuple):
    """A work tree, or a folder outside of git."""

    top: str  # the top of the work tree; the folder itself outside of git
    home: str
    git: str = ""  # the work tree's own git folder; "" outside of git
    branch: str = ""

    @property
    def exists(self) -> bool:
        """Whether there is a home: hooks make none, so that they act only where somebody wanted them."""
        return is_in_database() or os.path.isdir(self.home)

    @property
    def name(self) -> str:
        """By which a command finds the home: its folder, or the URL of its database without a password."""
        if not is_in_database():
            return self.home
        from outlast.home.place import without_password

        return without_password(url_or(self.home))

    @property
    def finds_home(self) -> bool:
        """Whether a command that is run in the work tree finds the home by itself."""
        if is_in_database():
            return True
        found = repository.nearest(self.top, FOLDER)
        if os.path.isdir(found):
            return os.path.realpath(found) == os.path.realpath(self.home)
        return "OUTLAST_HOME" in os.environ

    def asked(self) -> WorkTree:
        """The same with its branch; where git's own files do not tell it, git is asked."""
        if self.branch or not self.git:
            return self
        from outlast.files.git import branch_of

        return self._replace(branch=branch_of(pathlib.Path(self.top)))

    def changed(self) -> tuple[GitChange, ...]:
        """What git sees changed since the last commit, and what it does not know yet."""
        from outlast.files.git import look

        found = look(pathlib.Path(self.top)) if self.git else None
        return tuple(found.changed) if found else ()


def work_tree_of(cwd: str) -> WorkTree:
    """Where a folder is. Raises OSError when it cannot be reached."""
    here = os.path.realpath(cwd or os.getcwd())
    top, home = repository.top_of(here), _home_of(here)
    found = _repository(top) if top is not None else None
    if found is None:
        return WorkTree(top or here, home)
    return WorkTree(found.top, home, found.own, _branch_in(found.own))


def content_of(root: str, path: str, most_bytes: int) -> list[str]:
    """What a file is now, so that two looks can be compared: its mode, and its content by digest or size."""
    from outlast.files.snapshot import sight

    bound = sight(pathlib.Path(root), path, most_bytes).bound
    return [bound.mode, bound.blob or bound.digest or str(bound.size)]


def can_be_handed_over(path: str) -> bool:
    """Whether a handoff can name it: text, and no file of git's or ours."""
    from outlast.files.changes import is_hidden

    return path.encode("utf-8", "replace").decode() == path and not is_hidden(path)


def is_in_database() -> bool:
    """Whether the home that is named has its ledger in a database, which others may have written to."""
    return os.environ.get("OUTLAST_HOME", "").startswith(("postgresql://", "postgres://"))


def url_or(home: str) -> str:
    """What a home is opened by: the URL of its database where one is named, else its folder."""
    return os.environ["OUTLAST_HOME"] if is_in_database() else home


def may_have_ledger(home: str) -> bool:
    """Whether anything may have been stored: there is a ledger, or it is in a database, which is not asked here."""
    return is_in_database() or os.path.isfile(os.path.join(home, "default", "outlast.db"))


def _home_of(folder: str) -> str:
    named = os.environ.get("OUTLAST_HOME", "")
    if is_in_database():
        from outlast.home.place import folder_beside

        return str(folder_beside(named))
    return os.path.abspath(os.path.expanduser(named)) if named else repository.nearest(folder, FOLDER)


def _repository(top: str) -> Repository | None:
    """The repository, if it may be read; only for one that leads out git is asked whether it is safe all the same."""
    try:
        found = repository.find(top)
        try:
            repository.check(found)
        except LeadsOut as error:
            from outlast.files.ask_git import is_safe

            if error.always or not is_safe(top):
                return None
    except (LeadsOut, OSError):
        return None
    return found


def _branch_in(own: str) -> str:
    """The branch that is checked out, or that is being rebased."""
    for name in ("HEAD", "rebase-merge/head-name", "rebase-apply/head-name"):
        said = line_of(os.path.join(own, name)).removeprefix("ref: ")
        branch = said.removeprefix("refs/heads/")
        if branch != said and branch != ".invalid":
            return branch
    return ""


# -- the home ----------------------------------------------------------------------------------------

BUSY_SECONDS = 30.0  # that is waited for others who write


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


def make_folder_of(place: WorkTree) -> None:
    """The folder beside a database, which is missing where that was never used; hooks note in it. Raises OSError."""
    if is_in_database():
        private.make_home(place.home)


@contextmanager
def opened(home: str, actor: str, *, busy_seconds: float = BUSY_SECONDS) -> Iterator[Executor]:
    """The home, for one short use; nothing runs here, so there is nothing to end. Raises OutlastError."""
    from outlast.home.caller import Caller
    from outlast.home.home import open_home
    from outlast.home.place import check_name
    from outlast.python.rooms import load_commands
    from outlast.runs.live import Executor, Live

    who = check_name("actor", actor)
    place = open_home(url_or(home), store_options={"busy_seconds": busy_seconds})
    claims = set(filter(None, [os.environ.get("OUTLAST_CLAIM")]))
    try:
        caller = Caller(place, who, "default", tokens=claims, door="hook")
        yield Executor(caller, Live(place, load_commands=load_commands))
    finally:
        place.store.close()
