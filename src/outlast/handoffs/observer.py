"""Who looks at files and runs checks for a caller, and what the files of a handoff are now (`observe`).

Where the files are, it is this process: `LOCAL`. A server looks at nothing: it knows what a request carries
(`RequestObserver` in `sighting.py`).

Looked at are exactly the paths that were bound (`binding.py`). One file is looked at by `files/snapshot.py`, git is
asked by `files/git.py`, and what to think of a difference is `verdict.py`. A bound file that is gone is looked for by
its content alone, so that it does not matter how it was moved; what was there already when the handoff was stored is no
new place of anything.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from posixpath import basename, normpath, relpath
from shlex import quote
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from outlast.errors import HandoffInvalid, OtherPlace, RunsOnHost
from outlast.files import git
from outlast.files.ask_git import one_look, real
from outlast.files.changes import is_hidden
from outlast.files.git import FOLDER_FILES, Stand, members_of, root_from, walked
from outlast.files.snapshot import ABSENT, FILE_BYTES, UNBOUND, Binding, Bound, Relation, sight
from outlast.handoffs.foreign import digest_of
from outlast.handoffs.handoff import Handoff
from outlast.handoffs.musts import broken_must, broken_musts, seen_musts
from outlast.handoffs.task_state import place_of
from outlast.handoffs.verdict import Observed, command
from outlast.ledger.verdict import Reason
from outlast.values.ambient import STOP
from outlast.values.codec import digest, path_of, text
from outlast.values.late import late

if TYPE_CHECKING:  # whoever only runs flows looks at no handoff
    from outlast.files.snapshot import ContentKeeper
    from outlast.handoffs import binding, checks
    from outlast.handoffs.evidence import When
    from outlast.handoffs.foreign import Leave
    from outlast.handoffs.handoff import Contract, Evidence, Form
    from outlast.handoffs.sighting import FileObserver
    from outlast.home.caller import Caller
    from outlast.home.home import Home
    from outlast.runs.live import Executor
else:
    binding = late("outlast.handoffs.binding")  # whoever only recovers binds nothing
    checks = late("outlast.handoffs.checks")  # to look at files takes nothing of what runs commands

Between = Callable[[], None] | None
DIRTY_FILES = 100  # so many other files are named
DIRTY_READ = 500  # and so many read, if they are small
PLACES = 5  # of one file that was renamed
_BYTE_CODE = (".pyc", ".pyo")  # changes with the time of its source


class LocalObserver:
    """This process looks, and runs the checks."""

    looks = True  # files can be looked at, to tell one place of work from another
    knows_runs = True  # where each of the home works

    def root(self, caller: Caller, given: str | None) -> Path:
        """The folder that paths are relative to, for who acts: see `root_from`. Raises HandoffInvalid."""
        return root_from(given, caller.stands, caller.home.project)

    def place(self, caller: Caller, handoff: Handoff, given: str | None) -> Path | None:
        """Where the files of a handoff are looked at: the folder given, else where we are, if that is the same work.

        Nothing else is looked at, wherever it was stored: None when where we are is not known to be its repository.
        Raises HandoffInvalid for a given folder that is not there.
        """
        here, bound = self.root(caller, given), handoff.binding
        if given is None and bound is None and handoff.source == "run" and self.knows_runs:
            return place_of(caller, handoff, here)
        return here if given is not None or bound is None else Stand(here).place_of(bound)

    def elsewhere(self, caller: Caller, handoff: Handoff) -> str:
        """Where whoever looked is instead, when that is not known to be the handoff's place; "" when nobody did."""
        return text(str(self.root(caller, None)))

    def not_here(self, handoff: Handoff) -> HandoffInvalid | RunsOnHost:
        """The error for checks of a handoff whose files are not here."""
        why = f"the files of {handoff.anchor!r} are not here, so its checks cannot be run"
        return HandoffInvalid("repo_root", why, "name where they are: repo_root=DIR (--repo DIR)")

    def bind(
        self, caller: Caller, contract: Contract, root: Path, keeper: ContentKeeper | None = None
    ) -> Binding | None:
        """What the contract's files are now; the keeper, or the blobs, have their content."""
        return binding.bind(caller.home, contract, root, keeper)

    def observe(self, home: Home, handoff: Handoff, root: Path) -> Observed:
        """What the files of a handoff are now."""
        if handoff.binding is None and not handoff.musts:  # there is nothing to look at
            return Observed(Binding(root=text(str(root)), host=home.process.host))
        return observe(handoff, root)

    def broken(self, home: Home, handoff: Handoff, must: tuple[str, Form], root: Path) -> str:
        """What is wrong with a must, by its field and form, that is a rule about files; "" when it is kept."""
        return broken_must(*must, handoff.binding, root)

    def run_checks(
        self,
        executor: Executor,
        about: Contract,
        root: Path,
        *,
        leave: Leave,
        when: When,
        by: str,
        between: Between = None,
    ) -> list[Evidence]:
        """What comes of each check. Nothing runs without leave for exactly these."""
        if leave.digest != digest_of(about):
            raise AssertionError("the checks are not those for which there is leave")
        forms, stop = about.acceptance_checks, STOP.get()
        return checks.run_checks(executor, forms, root, when=when, by=by, stop=stop, between=between)


LOCAL = LocalObserver()


def observer_of(caller: Caller) -> FileObserver:
    """Who looks at files for a caller: this process, unless whoever made him said otherwise."""
    return LOCAL if caller.observer is None else cast("FileObserver", caller.observer)


# -- the files now -----------------------------------------------------------------------------------


@one_look()
def observe(handoff: Handoff, root: Path) -> Observed:
    """What the bound files, the repository and the files of musts to keep are now. Nothing is kept or written.

    A file that is not one any more, or that only a link out of the root would reach, is `special` and was not opened.
    """
    root, bound = real(root), handoff.binding or UNBOUND
    if handoff.binding is not None:  # else there is nothing to compare it with
        git.look_ahead(root)
    files = {path: _seen_now(root, path_of(path)) for path in bound.files}
    state = git.look(root) if handoff.binding is not None else None
    for folder in bound.folders:
        files |= _new_files(root, path_of(folder), files, bound, in_git=bool(state or bound.commit))
    environment = {path: _seen_now(root, path_of(path)) for path in bound.environment}
    now, wrong = binding_of(root, state, files, bound.folders, environment), dict[str, str]()
    if handoff.musts:
        now, wrong = replace(now, musts=seen_musts(handoff, root)), broken_musts(handoff, root)
    return Observed(now, _relation(root, bound, state), wrong, renamed=renames(root, bound, files))


def _relation(root: Path, bound: Binding, state: git.GitState | None) -> Relation:
    if bound.commit and state:
        return git.relation(root, bound.commit, state.commit)
    return "none" if not bound.commit or git.top_of(root) is None else "unknown"


def _new_files(root: Path, folder: str, known: Collection[str], was: Binding, *, in_git: bool) -> dict[str, Bound]:
    """The files that a bound folder has now and had not then. Where git cannot tell which count, there are none.

    A folder that became something else, or has more files than can be looked at, is told as one file of that name.
    """
    itself = sight(root, folder, -1).bound
    if itself.why != "folder":
        return {} if itself.mode == "absent" else {text(folder): sight(root, folder).bound}
    names: list[str] = []
    with suppress(OSError):  # what cannot be read is seen at its bound files
        names = members_of(root, folder, in_git=in_git)
    new = [name for name in names if text(name) not in known]
    if len(names) > FOLDER_FILES:
        return {text(folder): Bound("special", why=f"more than {FOLDER_FILES:,} files")}
    found = {text(name): sight(root, name).bound for name in new}
    old = had_then(root, found, was)
    return {name: bound for name, bound in found.items() if bound.why != "folder" and name not in old}


def binding_of(
    root: Path,
    state: git.GitState | None,
    files: dict[str, Bound],
    folders: tuple[str, ...],
    environment: dict[str, Bound],
) -> Binding:
    dirty, names = _dirty(root, state, files) if state else ("", ())
    return Binding(
        root=text(str(root)),
        host=os.uname().nodename,
        files=files,
        folders=folders,
        environment=environment,
        commit=state.commit if state else "",
        branch=state.branch if state else "",
        dirty=dirty,
        dirty_files=names,
    )


def _dirty(root: Path, state: git.GitState, mine: Collection[str]) -> tuple[str, tuple[str, ...]]:
    """A digest of the other files that differ from the commit, and the names of the first hundred of them.

    Content counts of the first ones, up to 1 MiB each; of larger and further ones only kind and size. Of an untracked
    folder the files in it count, and its name is told unless one of the bound files is in it. Line ends do not count.
    """
    paths = sorted({each.path for each in state.changed if not is_hidden(each.path)})
    names = [name for path in paths if (name := from_root(root, state, path)) not in {*mine, *folders_above(mine)}]
    others = {path: name for path in _opened(state, paths) if (name := from_root(root, state, path)) not in mine}
    words = [f"{name}\0{_word(state.top, path, at)}" for at, (path, name) in enumerate(others.items())]
    return digest("\0\0".join(words).encode()) if words else "", tuple(names[:DIRTY_FILES])


def _opened(state: git.GitState, paths: list[str]) -> list[str]:
    """The paths, and at last, instead of untracked folders, the files in them; folders if those are too many."""
    folders = tuple(path for path in paths if path.endswith("/"))
    inside = [path for path in git.new_files(state.top) if path.startswith(folders)] if folders else []
    if not inside or len(inside) > FOLDER_FILES:
        return paths
    shut = [path for path in paths if path not in folders]
    return [*shut, *sorted(path for path in inside if not is_hidden(path) and not path.endswith(_BYTE_CODE))]


def from_root(root: Path, state: git.GitState, path: str) -> str:
    """A path from the top as bindings name it: from the root."""
    return text(relpath(f"/{path}", f"/{relpath(root, state.top)}") + "/" * path.endswith("/"))


def folders_above(paths: Iterable[str]) -> set[str]:
    return {f"{folder}/" for path in paths for folder in PurePosixPath(path).parents}


def _word(top: Path, path: str, at: int) -> str:
    if path.endswith("/"):
        return "folder"
    if at >= DIRTY_READ:
        try:
            found = os.lstat(top / path)
        except OSError as error:
            return str(error.errno)
        return f"{found.st_mode} {found.st_size}"
    now = sight(top, path, FILE_BYTES).bound
    commit = git.commit_of(top / path) if now.why == "folder" else ""  # a submodule
    return f"{now.mode} {now.blob or now.digest or now.size} {now.why} {commit}"


def _seen_now(root: Path, path: str) -> Bound:
    bound = sight(root, path).bound
    return with_end(root, path, bound) if bound.mode == "link" else bound


def with_end(root: Path, path: str, bound: Bound) -> Bound:
    """A link with what it leads to in the end, inside of the root."""
    where = relpath(os.path.realpath(root / path), root)
    end = Bound("special", why="outside") if where.split("/")[0] == ".." else sight(root, where).bound
    return replace(bound, leads=f"{text(where)} {end.word}")


def had_then(root: Path, found: Mapping[str, Bound], was: Binding) -> set[str]:
    """Those that are as the bound commit has them: if they were not there, a sparse checkout had left them out."""
    mine = {name: each for name, each in found.items() if name not in was.dirty_files}
    return in_commit(root, was, mine, unchanged=True)


def in_commit(root: Path, bound: Binding, files: Mapping[str, Bound], *, unchanged: bool) -> set[str]:
    """Those of the files that the bound commit has; `unchanged`: and just so."""
    from outlast.files.patch import entries, is_entry  # who only looks at bound files asks git for no content

    top = git.top_of(root)
    if not (top and bound.commit):
        return set()
    above = relpath(root, top)
    paths = {name: normpath(f"{above}/{path_of(name)}") for name in files}
    had = entries(top, bound.commit, sorted(paths.values()))
    there = {name: path for name, path in paths.items() if path in had}
    return {name for name, path in there.items() if not unchanged or is_entry(top, path, files[name], had[path])}


# -- renamed files -----------------------------------------------------------------------------------


LOOKS = 200  # so many files of the right size are read


def renames(root: Path, was: Binding, now: Mapping[str, Bound]) -> dict[str, tuple[str, ...]]:
    """Of each bound file that is gone, where the same content is now and was not then: one place, if one has its name.

    An empty file is everywhere, and nobody can tell what became of one.
    """
    there_then = {path: bound for path, bound in was.files.items() if bound.size and bound.mode in ("file", "exec")}
    gone = {path: bound for path, bound in there_then.items() if now.get(path, ABSENT).mode == "absent"}
    if not gone:
        return {}
    there = _candidates(root, was, {bound.size for bound in gone.values()})
    old = had_then(root, there, was)
    new = {name: bound for name, bound in there.items() if name not in old and not _was_new(name, was)}
    found = {path: [name for name, each in new.items() if each.same(bound)] for path, bound in gone.items()}
    return {path: _places(path, names) for path, names in found.items() if names}


def _was_new(name: str, was: Binding) -> bool:
    """Whether it was there, uncommitted, when the handoff was stored."""
    return any(name == each or (each.endswith("/") and name.startswith(each)) for each in was.dirty_files)


def _places(path: str, names: list[str]) -> tuple[str, ...]:
    with_its_name = [name for name in names if basename(path_of(name)) == basename(path_of(path))]
    return tuple(sorted(with_its_name or names)[:PLACES])


def _candidates(root: Path, was: Binding, sizes: set[int]) -> dict[str, Bound]:
    """The files of those sizes below the root that were not bound, as they are."""
    known = {path for path, bound in was.files.items() if bound.mode != "absent"}
    names = (name for name in _names(root) if text(name) not in known and _size_of(root, name) in sizes)
    return {text(name): sight(root, name).bound for name, _ in zip(names, range(LOOKS), strict=False)}


def _names(root: Path) -> Iterator[str]:
    """What git tracks or would add; outside of git every file, as many as a folder may stand for."""
    listed = git.files(root)
    if listed is not None:
        yield from (name for name in listed if not is_hidden(name))
    elif git.top_of(root) is None:
        try:
            yield from walked(root, ".")
        except OSError:  # what cannot be read is no place to offer
            return


def _size_of(root: Path, name: str) -> int:
    try:
        return os.lstat(root / name).st_size
    except OSError:
        return -1


# -- elsewhere ---------------------------------------------------------------------------------------


def other_place(handoff: Handoff, here: str) -> Reason:
    """The reason that it gives: it weakens, since nobody looked."""
    named = f"name where its files are: {command(handoff, 'recover', '--repo', 'DIR')}"
    advice = f"go there: cd {quote(path_of(_root(handoff)))}; or {named}" if _root(handoff) else named
    return Reason("other_place", handoff.anchor, _place(handoff), here, advice)


def refused(handoff: Handoff, here: str) -> OtherPlace:
    """The error for what would write there."""
    return OtherPlace(handoff.anchor, _place(handoff), here)


def _place(handoff: Handoff) -> str:
    """The repository, as people know it: by a remote, and by where it was."""
    bound = handoff.binding
    if bound is None:
        return f"where its run works{f': {_root(handoff)}' if _root(handoff) else ''}"
    names = [each for each in bound.known_by if "/" in each]
    return f"the repository of {_root(handoff)}" + (f" ({names[0]})" if names else "")


def _root(handoff: Handoff) -> str:
    return handoff.binding.root if handoff.binding else handoff.repo_root or ""
