"""Where a session works: its work tree, its branch, and the home that all work trees of the repository share.

Read from git's own files, since asking git takes longer than all the rest, and only from plain ones that lie where they
should (`files/repository.py`). Where these do not tell (reftable, files that cannot be read) the answer is empty, and
whoever has time asks git. A repository that leads out of itself tells nothing here, unless git's own settings call it
safe.

`hooks.log` in the home: what a hook could not do, a line each. It stays small, and says nothing of the session.
"""

from __future__ import annotations

import os
import time
from typing import NamedTuple

from outlast.files import repository
from outlast.files.repository import LeadsOut, Repository, line_of
from outlast.values.plain import open_plain
from outlast.values.private import open_file, write_file

FOLDER = ".outlast"


class WorkPlace(NamedTuple):
    """A work tree, or a folder outside of git."""

    top: str  # the top of the work tree; the folder itself outside of git
    home: str
    git: str = ""  # the work tree's own git folder; "" outside of git
    branch: str = ""

    @property
    def exists(self) -> bool:
        """Whether there is a home: hooks make none, so that they act only where somebody wanted them."""
        return os.path.isdir(self.home)


def place_of(cwd: str) -> WorkPlace:
    """Where a folder is. Raises OSError when it cannot be reached."""
    here = os.path.realpath(cwd or os.getcwd())
    top, home = repository.top_of(here), _home_of(here)
    found = _repository(top) if top is not None else None
    if found is None:
        return WorkPlace(top or here, home)
    return WorkPlace(found.top, home, found.own, _branch_in(found.own))


def anchor_of(place: WorkPlace, task: str) -> str:
    """The name under which the work is handed over: the task's, else the branch's; "" when there is neither."""
    if task:
        return f"task:{task}"
    return f"branch:{place.branch}" if place.branch else ""


def is_found(place: WorkPlace) -> bool:
    """Whether a command that is run in the work tree finds the home by itself."""
    found = repository.nearest(place.top, FOLDER)
    if os.path.isdir(found):
        return os.path.realpath(found) == os.path.realpath(place.home)
    return "OUTLAST_HOME" in os.environ


def _home_of(folder: str) -> str:
    named = os.environ.get("OUTLAST_HOME", "")
    return os.path.abspath(os.path.expanduser(named)) if named else repository.nearest(folder, FOLDER)


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


def _branch_in(own: str) -> str:
    """The branch that is checked out, or that is being rebased."""
    for name in ("HEAD", "rebase-merge/head-name", "rebase-apply/head-name"):
        said = line_of(os.path.join(own, name)).removeprefix("ref: ")
        branch = said.removeprefix("refs/heads/")
        if branch != said and branch != ".invalid":
            return branch
    return ""


LOG = "hooks.log"
MOST_BYTES = 64 << 10


def note(home: str, words: str) -> None:
    """Add a line. Where that cannot be done there is nobody to tell."""
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    line = f"{at} {' '.join(words.split())[:500]}\n".encode("utf-8", "backslashreplace")
    path = os.path.join(home, LOG)
    try:
        _make_room(path)
        handle = open_file(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            os.write(handle, line)
        finally:
            os.close(handle)
    except OSError:
        return


def _make_room(path: str) -> None:
    """Keep the newer half of a log that is full."""
    if not os.path.isfile(path) or os.path.getsize(path) < MOST_BYTES:
        return
    with open_plain(path) as file:
        file.seek(-MOST_BYTES // 2, os.SEEK_END)
        kept = file.read().partition(b"\n")[2]
    beside = f"{path}.{os.getpid()}"
    write_file(beside, kept)
    os.replace(beside, path)


def words_of(error: BaseException) -> str:
    """An error as the log has it. What others' errors quote is left out: it may be a line of the session."""
    code = getattr(error, "code", None)
    if isinstance(code, str):
        return f"{code}: {getattr(error, 'detail', '')}"
    if isinstance(error, OSError):
        return f"{type(error).__name__}: {error.strerror or error.errno}"
    own = type(error).__module__.startswith("outlast.")
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f" at {os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}" if trace else ""
    return f"{type(error).__name__}: {error}" if own else f"{type(error).__name__}{where}"
