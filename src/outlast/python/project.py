"""A project's own files, for a door whose caller names them: a model that may have been talked into it.

What is named must lie inside the project (the top of the work tree, or the folder that the door was opened in), be a
plain file, and none that is named like a secret or belongs to git or Outlast. A link may stay inside, never lead out.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

from outlast.errors import HandoffInvalid, ValueRefused
from outlast.files import git, repository
from outlast.files.patterns import never
from outlast.files.place import folder_at
from outlast.home.place import project_of
from outlast.secrets.find import is_secret_file

_CONTENT = {"contains", "sha256"}  # rules that tell of content
INSIDE = "name a file of this project, or give the content itself"


class Project:
    """The folder that paths are in, found when a door opens. In `/` or a user's own folder only a home's counts."""

    def __init__(self, home: Path | None = None) -> None:
        self.here = Path(os.path.realpath(os.getcwd()))
        top = git.top_of(self.here)
        own = project_of(home) if home is not None else None
        is_wide = top is None and self.here in (Path("/"), Path(os.path.realpath(os.path.expanduser("~"))))
        self.root = own if is_wide else top or self.here

    def open(self, given: str) -> IO[bytes]:
        """A file of the project, to be read: the very file that was checked. Raises ValueRefused."""
        names = self._names(given)
        try:
            assert self.root is not None
            with folder_at(self.root, names[:-1]) as folder:
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
                handle = os.open(names[-1], flags, dir_fd=folder)
        except OSError as error:
            raise ValueRefused(given, f"it cannot be read: {error.strerror or error}", INSIDE) from error
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise ValueRefused(given, "it is no plain file", INSIDE)
        return os.fdopen(handle, "rb")

    def _names(self, given: str) -> list[str]:
        """The way to a file from the root, without a link in it. Raises ValueRefused."""
        root = self.root
        real = self._real(given)
        if root is None or real == root or not real.is_relative_to(root):
            where = root if root is not None else "any project: the server was started outside of one"
            raise ValueRefused(given, f"it is not inside {where}", INSIDE)
        names = list(real.relative_to(root).parts)
        if is_secret_file(given) or is_secret_file(names[-1]):
            raise ValueRefused(given, "it is named like a file with secrets, which are never kept", INSIDE)
        if any(map(never, names)):
            raise ValueRefused(given, "it belongs to git or Outlast", INSIDE)
        return names

    def _real(self, given: str) -> Path:
        try:
            return Path(os.path.realpath(self.here / given))
        except (OSError, ValueError) as error:
            raise ValueRefused("path", f"{given!r:.200} cannot be a file's name", INSIDE) from error

    def folder(self, given: str) -> str:
        """A folder of the project, or of another work tree of its repository. Raises HandoffInvalid."""
        try:
            real = os.path.realpath(self.here / given)
        except (OSError, ValueError):
            real = ""
        if not real or not (self._is_inside(real) or self._is_work_tree(real)):
            remedy = "give a folder of it, or of another work tree of its repository; or leave it out"
            raise HandoffInvalid("repo_root", f"{given!r:.200} is not inside {self.root or 'any project'}", remedy)
        return real

    def check_forms(self, field: str, forms: Iterable[object], root: str) -> None:
        """No form tells what is in a secrets file, guess by guess. Raises HandoffInvalid."""
        for place, form in enumerate(forms):
            file = str(form.get("file", "")) if isinstance(form, Mapping) and {*form} & _CONTENT else ""
            if file and (
                is_secret_file(file) or is_secret_file(str(self._real(os.path.join(root or str(self.root), file))))
            ):
                remedy = "check that it exists, or name another file"
                raise HandoffInvalid(
                    f"{field}[{place}].file", f"{file!r:.200} is named like a file with secrets", remedy
                )

    def _is_inside(self, real: str) -> bool:
        return self.root is not None and repository.is_below(real, str(self.root))

    def _is_work_tree(self, real: str) -> bool:
        shared = _shared(str(self.root)) if self.root is not None else None
        return shared is not None and _shared(real) == shared


def _shared(folder: str) -> str | None:
    """The git folder that the work trees of a repository share; None where there is none that can be believed."""
    top = repository.top_of(folder)
    with suppress(repository.LeadsOut, OSError):
        if top is not None:
            found = repository.find(top)
            repository.check(found)
            return found.common
    return None
