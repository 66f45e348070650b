"""A project's own files, for a door whose caller names them: a model that may have been talked into it.

What is named must lie inside the project (the top of the work tree, or the folder that the door was opened in), be a
plain file, and none that is named like a secret or belongs to git or Outlast. A link may stay inside, never lead out.

The flows that others may start here by name: those of the modules and files that were given, and no others.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from outlast.errors import FlowInvalid, FlowNotFound, HandoffInvalid, InputsInvalid, NoFlows, ValueRefused
from outlast.files import git, repository
from outlast.files.changes import never
from outlast.files.place import folder_at
from outlast.flows.loading import here, is_flow_file, lasting, load, load_module
from outlast.home.place import FoundHome as FoundHome
from outlast.home.place import check_tenant as check_tenant
from outlast.home.place import has_tenant as has_tenant
from outlast.home.place import look_up as look_up
from outlast.home.place import near, project_of
from outlast.home.place import tenants_of as tenants_of
from outlast.python.decorators import Flow, FlowFile, flow_file
from outlast.secrets.find import is_secret_file

if TYPE_CHECKING:
    from outlast.python.shared import Shared
    from outlast.runs.run import RunRecord


_CONTENT = {"contains", "sha256"}  # rules that tell of content
NOT_A_FLOW = "it is not a flow (decorate it with @flow)"
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
                why = f"{file!r:.200} is named like a file with secrets"
                raise HandoffInvalid(f"{field}[{place}].file", why, "check that it exists, or name another file")

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


Served = Flow[..., Any] | FlowFile


class Flows:
    """Flows by their names, and by the sources that runs record."""

    def __init__(self, places: tuple[str, ...], home: Path) -> None:
        self._places = places
        self._project = project_of(home)
        self._by_name: dict[str, Served] = {}
        self._sources: dict[str, Served] = {}
        for place in places:
            for flow in self._of(place):
                self._add(flow)

    def _of(self, place: str) -> Iterator[Served]:
        """Every flow of a module, a `file.py` or a `flow.yaml`; the one that is named after a colon.

        Raises FlowNotFound, RecipeInvalid.
        """
        folders = [here(), *([self._project] if self._project else [])]
        if is_flow_file(place):
            yield flow_file(place, *folders)
            return
        named = [load(place, *folders)] if ":" in place else vars(load_module(place, *folders)).values()
        found = [each for each in named if isinstance(each, Flow)]
        if not found:
            raise FlowNotFound(place, NOT_A_FLOW if ":" in place else "it has no flows (decorate functions with @flow)")
        yield from {id(each): each for each in found}.values()

    def _add(self, flow: Served) -> None:
        source, before = lasting(flow.spec.source, self._project), self._by_name.get(flow.spec.name)
        if before is not None and lasting(before.spec.source, self._project) != source:
            why = f"{before.spec.source} and {flow.spec.source} have the same name"
            raise FlowInvalid(flow.spec.name, f"{why}; rename one: @flow(name=…)")
        self._by_name[flow.spec.name] = self._sources[source] = flow

    def named(self, name: str) -> Served:
        """A flow by its name, or by its source. Raises NoFlows."""
        found = self._by_name.get(name) or self._sources.get(name)
        if found is None:
            raise NoFlows(name, self._given())
        return found

    def refuse_unserved(self, outlast: Shared, run: RunRecord, name: str | None = None) -> None:
        """Raises NoFlows for a run whose flow this server was not given, FlowElsewhere where somebody must name it."""
        if name is not None:
            self.named(name)
        elif not outlast._is_of_given(run):
            raise NoFlows(run.source, self._given())

    @property
    def all(self) -> list[Served]:
        return list(self._sources.values())

    @property
    def names(self) -> list[str]:
        return sorted(self._by_name)

    def _given(self) -> str:
        return f"the flows {', '.join(self.names)}" if self._by_name else "no flows"


def flows_of(places: tuple[str, ...], home: str | None) -> Flows | None:
    """The flows of these modules and files, looked for from the home too; None without any. Raises FlowNotFound."""
    named = home or os.environ.get("OUTLAST_HOME")
    at = Path(named).absolute() if named and "://" not in named else near()
    return Flows(places, at) if places else None


def inputs_of(flow: Served, given: dict[str, Any]) -> dict[str, Any]:
    """The inputs as the flow's annotations type them. Raises InputsInvalid."""
    if isinstance(flow, FlowFile):
        return flow.inputs(given)
    flow.spec.bind((), given)
    try:
        return flow.spec.typed(given)
    except InputsInvalid as error:
        raise InputsInvalid(flow.spec.name, str(error.__cause__), str(error.signature)) from error
