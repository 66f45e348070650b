"""Binding: what the files and the repository were when a handoff was stored, and what they are now.

`bind` looks and keeps, `observe` looks again at exactly those paths. Where to look is `files/root.py`, one file is
looked at by `files/snapshot.py`, git is asked by `files/git.py`, and what to think of a difference is `verdict.py`.
Paths that are not UTF-8 stand in a binding as `files/changes.py` writes them: `bytes:` and percent-encoded.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from shlex import quote
from typing import TYPE_CHECKING

from outlast.errors import HandoffInvalid
from outlast.files import git
from outlast.files.changes import path_of, text
from outlast.files.patterns import never
from outlast.files.root import relative_to
from outlast.files.snapshot import ALL_BYTES, FILE_BYTES, Sight, sight
from outlast.handoffs.handoff import Binding, Bound, Contract, Handoff
from outlast.handoffs.place import place_of, root_of
from outlast.handoffs.verdict import Observed, Relation
from outlast.home.process import this_place
from outlast.values.digest import digest
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.home.home import Home
    from outlast.secrets.rules import SecretRule
    from outlast.store.contract.blobs import Blobs

__all__ = ["bind", "observe", "place_of", "relative_to", "root_of"]

FOLDER_FILES = 5_000
PATCH_BYTES = 20 << 20
DIRTY_FILES = 100  # so many other files are named
DIRTY_READ = 500  # and so many read, if they are small
_BYTE_CODE = (".pyc", ".pyo")  # changes with the time of its source
_KEEPERS = 8  # threads: syncing many small files one after the other would take seconds


# -- binding -----------------------------------------------------------------------------------------


def bind(home: Home, contract: Contract, root: Path) -> Binding:
    """What the contract's files and the repository are now. Content that is kept is durable when this returns.

    Bound are the target files, of a folder those that git tracks or would add (outside of git all), and the file to
    begin with. Raises HandoffInvalid, naming the field, for a file that is not inside the root, cannot be read or is
    left out by a sparse checkout.
    """
    root = Path(os.path.realpath(root))
    ours = Path(os.path.realpath(home.path))
    seeing = _Seeing(root, Path(os.path.realpath(home.folder)) if root.is_relative_to(ours) else ours)
    targets, folders = seeing.targets(contract)
    environment = {text(path): bare.bound for path, bare in seeing.environment(contract)}
    files = _keep(home.blobs, targets, home.secrets.rules)
    state = git.look(root)
    unknown = git.why_unknown() if not state and git.top_of(root) else ""
    patch, patch_why = _patch(home.blobs, state, home.secrets.rules) if state else ("", unknown)
    bound = _binding(root, state, files, folders, environment)
    bound = _with_musts(replace(bound, patch=patch, patch_why=patch_why), contract, root)
    untracked = _untracked(root, state, files) if state else ()
    return replace(bound, prefix=_prefix(root), known_by=git.known_by(root), untracked=untracked)


def _prefix(root: Path) -> str:
    top = git.top_of(root)
    return text(str(root.relative_to(top))) if top and top != root else ""


def _with_musts(bound: Binding, contract: Contract, root: Path) -> Binding:
    """With the files that musts are about, and what does not hold of them now."""
    if not contract.musts:
        return bound
    from outlast.handoffs.must_files import bound_musts, unkept_at_store

    bound = replace(bound, musts=bound_musts(contract, root))
    return replace(bound, unkept=unkept_at_store(contract, bound, root))


def _binding(
    root: Path,
    state: git.GitState | None,
    files: dict[str, Bound],
    folders: tuple[str, ...],
    environment: dict[str, Bound],
) -> Binding:
    dirty, names = _dirty(root, state, files) if state else ("", ())
    return Binding(
        root=text(str(root)),
        host=this_place()[0],
        files=files,
        folders=folders,
        environment=environment,
        commit=state.commit if state else "",
        branch=state.branch if state else "",
        dirty=dirty,
        dirty_files=names,
    )


class _Seeing(NamedTuple):
    """Looking at named files on behalf of somebody who wants them bound: what cannot be bound is refused by name."""

    root: Path
    home: Path  # what is Outlast's own

    def targets(self, contract: Contract) -> tuple[Iterator[tuple[str, Sight]], tuple[str, ...]]:
        """Each target file as it is looked at, and which of the targets are folders. Names are checked at once."""
        paths: dict[str, str] = {}
        folders: dict[str, None] = {}
        for field, given in contract.targets:
            path = self._checked(field, given)
            if sight(self.root, path, -1).bound.why == "folder":
                folders[text(path)] = None
                paths |= {each: field for each in self._members(field, path) if each not in paths}
            else:
                paths.setdefault(path, field)
        return self._each(paths), tuple(folders)

    def _each(self, paths: Mapping[str, str]) -> Iterator[tuple[str, Sight]]:
        for path, field in paths.items():
            seen = self._seen(field, path)
            if seen.bound.mode == "link":  # it may be one that a folder stands for, and nobody named
                self._refuse_leaving(field, path)
                seen = seen._replace(bound=_with_end(self.root, path, seen.bound))
            if seen.bound.why != "folder":  # a submodule that is not checked out is tracked, and no file
                yield path, seen

    def environment(self, contract: Contract) -> Iterator[tuple[str, Sight]]:
        for place, given in enumerate(contract.environment):
            field = f"environment[{place}]"
            path = self._checked(field, given)
            seen = self._seen(field, path)
            if seen.bound.why == "folder":
                raise HandoffInvalid(field, f"{path!r} is a folder", "name the files in it that matter")
            yield path, seen._replace(bound=_with_end(self.root, path, seen.bound))

    def _checked(self, field: str, given: str) -> str:
        """The path, once its own link, if it is one, is known to stay inside."""
        path = relative_to(self.root, given, field)
        self._refuse_leaving(field, path)
        if sight(self.root, path, -1).bound.mode == "absent" and git.left_out(self.root, path):
            why = f"{path!r} is tracked, and left out by the sparse checkout here"
            raise HandoffInvalid(field, why, f"check it out: git sparse-checkout add {quote(path)}; or leave it out")
        return path

    def _refuse_leaving(self, field: str, path: str) -> None:
        real = Path(os.path.realpath(self.root / path))
        if not real.is_relative_to(self.root):
            remedy = "name what it leads to by a repo_root that holds it, or only files that stay inside"
            raise HandoffInvalid(field, f"{path!r} is, or goes through, a link that leaves {self.root}", remedy)
        if real.is_relative_to(self.home) or any(map(never, real.relative_to(self.root).parts)):
            why = f"{path!r} is in a folder that git or Outlast owns"
            raise HandoffInvalid(field, why, "name files of the work itself")

    def _seen(self, field: str, path: str) -> Sight:
        seen = sight(self.root, path)
        if seen.bound.mode == "special" and seen.bound.why != "folder":
            why, remedy = _REFUSED[seen.bound.why]
            raise HandoffInvalid(field, f"{path!r} {why}", remedy)
        return seen

    def _members(self, field: str, folder: str) -> list[str]:
        try:
            found = members_of(self.root, folder, in_git=False)
        except OSError as error:
            why = f"{folder!r} cannot be read: {error.strerror}"
            raise HandoffInvalid(field, why, "give yourself permission to read it, or name files") from error
        if len(found) > FOLDER_FILES:
            why = f"{folder!r} stands for more than {FOLDER_FILES:,} files"
            remedy = "name the files or smaller folders that the work is about, or have git ignore what is made"
            raise HandoffInvalid(field, why, remedy)
        return found


_REFUSED = {
    "outside": ("goes through a link that leaves the root", "name a file inside repo_root"),
    "hidden": ("is in a folder that git or Outlast owns", "name files of the work itself"),
    "special": ("is a device, a pipe or a socket", "name plain files, or leave it out"),
    "unreadable": ("cannot be read", "give yourself permission to read it, or leave it out"),
}


def members_of(root: Path, folder: str, *, in_git: bool) -> list[str]:
    """The files that a folder stands for, from the root: what git tracks or would add, outside of git all.

    Raises OSError. Where git cannot tell, all of them too, unless it is known to be `in_git`: then there are none.
    """
    names = git.files(root / folder)
    if names is None:
        return [] if in_git else list(walked(root, folder))
    return [normpath(f"{folder}/{name}") for name in names if not _is_hidden(name)]


def walked(root: Path, folder: str) -> Iterator[str]:
    """All plain files and links below a folder, one more at most than a folder may have."""
    left, waiting = FOLDER_FILES + 1, [folder]
    while waiting:
        here = waiting.pop()
        with os.scandir(root / here) as entries:
            for entry in entries:
                path = normpath(f"{here}/{entry.name}")
                if never(entry.name):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(path)
                elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
                    yield path
                    left -= 1
                    if not left:
                        return


# -- keeping -----------------------------------------------------------------------------------------


def _keep(blobs: Blobs, looks: Iterable[tuple[str, Sight]], rules: tuple[SecretRule, ...]) -> dict[str, Bound]:
    """The files as they are, content durable as blobs (`kept`) or `why` says why not. The same content counts once."""
    from concurrent.futures import Future, ThreadPoolExecutor

    found: dict[str, Bound] = {}
    puts: dict[str, Future[str]] = {}
    room = ALL_BYTES
    with ThreadPoolExecutor(_KEEPERS) as keepers:
        for path, (bound, content) in looks:
            need = 0 if bound.digest in puts else bound.size
            why = "" if bound.mode == "absent" else _why_not(path, content, rules, fits=need <= room)
            if content is not None and not why and bound.digest not in puts:
                puts[bound.digest] = keepers.submit(blobs.put, content)
                room -= need
            found[text(path)] = replace(bound, kept=bound.digest if bound.digest in puts and not why else "", why=why)
        for put in puts.values():
            put.result()
    return found


def _why_not(path: str, content: bytes | None, rules: tuple[SecretRule, ...], *, fits: bool) -> str:
    from outlast.secrets.find import is_secret_file

    if is_secret_file(path):
        return "secret"
    if content is None:
        return "too_large"
    if not fits:
        return "over_budget"
    return "secret" if _holds_secret(content, rules) else ""


def _holds_secret(content: bytes, rules: tuple[SecretRule, ...]) -> bool:
    from outlast.secrets.find import find

    return any(True for _ in find(content.decode("utf-8", "replace"), rules))


def _patch(blobs: Blobs, state: git.GitState, rules: tuple[SecretRule, ...]) -> tuple[str, str]:
    """The blob with what is uncommitted in tracked files, or why there is none."""
    from outlast.secrets.find import is_secret_file

    paths = [each.path for each in state.changed if each.kind != "untracked" and not _is_hidden(each.path)]
    if not paths:
        return "", ""
    if not state.commit:
        return "", "no_commit"
    if any(map(is_secret_file, paths)):
        return "", "secret"
    content, why = git.patch(state.top, paths, PATCH_BYTES)
    if not why and _holds_secret(content, rules):
        why = "secret"
    return (blobs.put(content) if content and not why else ""), why


def _is_hidden(path: str) -> bool:
    return any(map(never, path.split("/")))


# -- other files -------------------------------------------------------------------------------------


def _dirty(root: Path, state: git.GitState, mine: Collection[str]) -> tuple[str, tuple[str, ...]]:
    """A digest of the other files that differ from the commit, and the names of the first hundred of them.

    Content counts of the first ones, up to 1 MiB each; of larger and further ones only kind and size. Of an untracked
    folder the files in it count, and its name is told unless one of the bound files is in it. Line ends do not count.
    """
    paths = sorted({each.path for each in state.changed if not _is_hidden(each.path)})
    names = [name for path in paths if (name := _from(root, state, path)) not in {*mine, *_above(mine)}]
    others = {path: name for path in _opened(state, paths) if (name := _from(root, state, path)) not in mine}
    words = [f"{name}\0{_word(state.top, path, at)}" for at, (path, name) in enumerate(others.items())]
    return digest("\0\0".join(words).encode()) if words else "", tuple(names[:DIRTY_FILES])


def _opened(state: git.GitState, paths: list[str]) -> list[str]:
    """The paths, and at last, instead of untracked folders, the files in them; folders if those are too many."""
    folders = tuple(path for path in paths if path.endswith("/"))
    inside = [path for path in git.new_files(state.top) if path.startswith(folders)] if folders else []
    if not inside or len(inside) > FOLDER_FILES:
        return paths
    shut = [path for path in paths if path not in folders]
    return [*shut, *sorted(path for path in inside if not _is_hidden(path) and not path.endswith(_BYTE_CODE))]


def _from(root: Path, state: git.GitState, path: str) -> str:
    """A path from the top as bindings name it: from the root."""
    return text(relpath(f"/{path}", f"/{relpath(root, state.top)}") + "/" * path.endswith("/"))


def _above(paths: Iterable[str]) -> set[str]:
    return {f"{folder}/" for path in paths for folder in PurePosixPath(path).parents}


def _untracked(root: Path, state: git.GitState, mine: Collection[str]) -> tuple[str, ...]:
    """The first hundred other files and folders that git does not know; of a folder with a bound file in it, files."""
    new = [each.path for each in state.changed if each.kind == "untracked" and not _is_hidden(each.path)]
    shared = [path for path in new if _from(root, state, path) in _above(mine)]
    inside = [f"{folder}{name}" for folder in shared for name in git.new_files(state.top / folder)]
    names = (_from(root, state, path) for path in sorted({*new, *inside} - {*shared}))
    return tuple(name for name in names if name not in mine)[:DIRTY_FILES]


def _word(top: Path, path: str, at: int) -> str:
    if path.endswith("/"):
        return "folder"
    if at >= DIRTY_READ:
        return _kind_and_size(top / path)
    now = sight(top, path, FILE_BYTES).bound
    commit = git.commit_of(top / path) if now.why == "folder" else ""  # a submodule
    return f"{now.mode} {now.blob or now.digest or now.size} {now.why} {commit}"


def _kind_and_size(path: Path) -> str:
    try:
        found = os.lstat(path)
    except OSError as error:
        return str(error.errno)
    return f"{found.st_mode} {found.st_size}"


# -- observing ---------------------------------------------------------------------------------------


def observe(handoff: Handoff, root: Path) -> Observed:
    """What the bound files, the repository and the files of musts to keep are now. Nothing is kept or written.

    A file that is not one any more, or that only a link out of the root would reach, is `special` and was not opened.
    """
    root = Path(os.path.realpath(root))
    bound = handoff.binding or Binding(root="", host="")
    state = git.look(root) if handoff.binding is not None else None  # else there is nothing to compare it with
    files = {path: _seen_now(root, path_of(path)) for path in bound.files}
    for folder in bound.folders:
        files |= _new_files(root, path_of(folder), files, bound, in_git=bool(state or bound.commit))
    environment = {path: _seen_now(root, path_of(path)) for path in bound.environment}
    now = replace(_binding(root, state, files, bound.folders, environment), musts=_seen_musts(root, handoff))
    return Observed(
        now, _relation(root, bound, state), _broken_musts(root, handoff), renamed=_renamed(root, bound, files)
    )


def _seen_now(root: Path, path: str) -> Bound:
    return _with_end(root, path, sight(root, path).bound)


def _with_end(root: Path, path: str, bound: Bound) -> Bound:
    """The same; of a link with what it leads to in the end, inside of the root."""
    if bound.mode != "link":
        return bound
    real = relpath(os.path.realpath(root / path), root)
    end = Bound("special", why="outside") if real.split("/")[0] == ".." else sight(root, real).bound
    return replace(bound, leads=f"{text(real)} {end.word}")


def _renamed(root: Path, was: Binding, now: Mapping[str, Bound]) -> dict[str, tuple[str, ...]]:
    if not any(bound.mode != "absent" and now[path].mode == "absent" for path, bound in was.files.items()):
        return {}
    from outlast.handoffs.renames import renames

    return renames(root, was, now)


def _broken_musts(root: Path, handoff: Handoff) -> dict[str, str]:
    """What is wrong with the files of each must to keep that is about some, by key; "" where it holds."""
    if not handoff.must_keep:
        return {}
    from outlast.handoffs.must_files import broken_musts

    return broken_musts(handoff, root)


def _seen_musts(root: Path, handoff: Handoff) -> dict[str, Bound]:
    if not handoff.musts:
        return {}
    from outlast.handoffs.must_files import seen_musts

    return seen_musts(handoff, root)


def _relation(root: Path, bound: Binding, state: git.GitState | None) -> Relation:
    if not bound.commit or git.top_of(root) is None:
        return "none"
    return git.relation(root, bound.commit, state.commit) if state else "unknown"


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


def had_then(root: Path, found: Mapping[str, Bound], was: Binding) -> set[str]:
    """Those that are as the bound commit has them: if they were not there, a sparse checkout had left them out."""
    from outlast.files.patch import entries, is_entry

    top = git.top_of(root)
    if not (top and was.commit):
        return set()
    above = relpath(root, top)
    paths = {name: normpath(f"{above}/{path_of(name)}") for name in found if name not in was.dirty_files}
    had = entries(top, was.commit, sorted(paths.values()))
    return {name for name, path in paths.items() if path in had and is_entry(top, path, found[name], had[path])}
