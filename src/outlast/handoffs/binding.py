"""Binding: what the files and the repository were when a handoff was stored, and what they are now.

`bind` looks and keeps, `observe` looks again at exactly those paths. Where to look is `files/root.py`, one file is
looked at by `files/bound.py`, git is asked by `files/git.py`, and what to think of a difference is `verdict.py`.
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
from outlast.files.bound import Sight, sight
from outlast.files.changes import path_of, text
from outlast.files.patterns import never
from outlast.files.root import place_of, relative_to, root_of
from outlast.files.snapshot import ALL_BYTES, FILE_BYTES
from outlast.handoffs.handoff import Binding, Bound, Contract, Handoff, key_of
from outlast.handoffs.verdict import Observed, Relation
from outlast.home.process import this_place
from outlast.store.blobs.folder import Blobs
from outlast.values.digest import digest
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.home.home import Runtime
    from outlast.secrets.rules import Rule

__all__ = ["bind", "observe", "place_of", "relative_to", "root_of"]

FOLDER_FILES = 5_000
PATCH_BYTES = 20 << 20
DIRTY_FILES = 100  # so many other files are named, and read if they are small
_KEEPERS = 8  # threads: syncing many small files one after the other would take seconds


# -- binding -----------------------------------------------------------------------------------------


def bind(runtime: Runtime, contract: Contract, root: Path) -> Binding:
    """What the contract's files and the repository are now. Content that is kept is durable when this returns.

    Bound are the target files, of a folder those that git tracks or would add (outside of git all), and the file to
    begin with. Raises HandoffInvalid, naming the field, for a file that is not inside the root, cannot be read or is
    left out by a sparse checkout.
    """
    root = Path(os.path.realpath(root))
    home = Path(os.path.realpath(runtime.home))
    seeing = _Seeing(root, Path(os.path.realpath(runtime.folder)) if root.is_relative_to(home) else home)
    targets, folders = seeing.targets(contract)
    environment = {text(path): bare.bound for path, bare in seeing.environment(contract)}
    files = _keep(runtime.blobs, targets, runtime.secret_rules)
    state = git.look(root)
    unknown = git.why_unknown() if not state and git.top_of(root) else ""
    patch, patch_why = _patch(runtime.blobs, state, runtime.secret_rules) if state else ("", unknown)
    bound = _binding(root, state, files, folders, environment)
    return replace(bound, patch=patch, patch_why=patch_why)


def _binding(
    root: Path,
    state: git.State | None,
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
        named = {f"target_files[{place}]": path for place, path in enumerate(contract.target_files)}
        if contract.file_path is not None:
            named["file_path"] = contract.file_path
        paths: dict[str, str] = {}
        folders: dict[str, None] = {}
        for field, given in named.items():
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
            if seen.bound.why != "folder":  # a submodule that is not checked out is tracked, and no file
                yield path, seen

    def environment(self, contract: Contract) -> Iterator[tuple[str, Sight]]:
        for place, given in enumerate(contract.environment):
            field = f"environment[{place}]"
            path = self._checked(field, given)
            seen = self._seen(field, path)
            if seen.bound.why == "folder":
                raise HandoffInvalid(field, f"{path!r} is a folder", "name the files in it that matter")
            yield path, seen

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
            found = _members(self.root, folder, in_git=False)
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


def _members(root: Path, folder: str, *, in_git: bool) -> list[str]:
    """The files that a folder stands for, from the root: what git tracks or would add, outside of git all.

    Raises OSError. Where git cannot tell, all of them too, unless it is known to be `in_git`: then there are none.
    """
    names = git.files(root / folder)
    if names is None:
        return [] if in_git else list(_walked(root, folder))
    return [normpath(f"{folder}/{name}") for name in names if not _is_hidden(name)]


def _walked(root: Path, folder: str) -> Iterator[str]:
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


def _keep(blobs: Blobs, looks: Iterable[tuple[str, Sight]], rules: tuple[Rule, ...]) -> dict[str, Bound]:
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


def _why_not(path: str, content: bytes | None, rules: tuple[Rule, ...], *, fits: bool) -> str:
    from outlast.secrets.find import is_secret_file

    if is_secret_file(path):
        return "secret"
    if content is None:
        return "too_large"
    if not fits:
        return "over_budget"
    return "secret" if _holds_secret(content, rules) else ""


def _holds_secret(content: bytes, rules: tuple[Rule, ...]) -> bool:
    from outlast.secrets.find import find

    return any(True for _ in find(content.decode("utf-8", "replace"), rules))


def _patch(blobs: Blobs, state: git.State, rules: tuple[Rule, ...]) -> tuple[str, str]:
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


def _dirty(root: Path, state: git.State, mine: Collection[str]) -> tuple[str, tuple[str, ...]]:
    """A digest of the other files that differ from the commit, and the names of the first hundred of them.

    Content counts of the first hundred, up to 1 MiB each; of larger and further ones only kind and size. An untracked
    folder counts by its name alone, and not at all when one of the bound files is in it. Line ends do not count.
    """
    above = f"/{relpath(root, state.top)}"
    ours = {*mine, *(f"{folder}/" for path in mine for folder in PurePosixPath(path).parents)}
    paths = sorted({each.path for each in state.changed if not _is_hidden(each.path)})
    others = {path: text(relpath(f"/{path}", above) + "/" * path.endswith("/")) for path in paths}
    others = {path: name for path, name in others.items() if name not in ours}
    words = [f"{name}\0{_word(state.top, path, at)}" for at, (path, name) in enumerate(others.items())]
    return digest("\0\0".join(words).encode()) if words else "", tuple(others.values())[:DIRTY_FILES]


def _word(top: Path, path: str, at: int) -> str:
    if path.endswith("/"):
        return "folder"
    if at >= DIRTY_FILES:
        return _kind_and_size(top / path)
    now = sight(top, path, FILE_BYTES).bound
    return f"{now.mode} {now.blob or now.digest or now.size} {now.why}"


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
    files = {path: sight(root, path_of(path)).bound for path in bound.files}
    for folder in bound.folders:
        files |= _new_files(root, path_of(folder), files, bound, in_git=bool(state or bound.commit))
    environment = {path: sight(root, path_of(path)).bound for path in bound.environment}
    now = _binding(root, state, files, bound.folders, environment)
    return Observed(now, _relation(root, bound, state), _broken_musts(root, handoff))


def _broken_musts(root: Path, handoff: Handoff) -> dict[str, str]:
    """What is wrong with the file of each must to keep that is about one, by key; "" where it holds."""
    if not handoff.must_keep:
        return {}
    from outlast.files.rules import broken_rule
    from outlast.handoffs.contract import rule_of

    rules = {key_of(form): rule for form in handoff.must_keep if (rule := rule_of(form))}
    return {key: broken_rule(root, rule) for key, rule in rules.items()}


def _relation(root: Path, bound: Binding, state: git.State | None) -> Relation:
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
        names = _members(root, folder, in_git=in_git)
    new = [name for name in names if text(name) not in known]
    if len(names) > FOLDER_FILES:
        return {text(folder): Bound("special", why=f"more than {FOLDER_FILES:,} files")}
    found = {text(name): sight(root, name).bound for name in new}
    old = _left_out_then(root, found, was)
    return {name: bound for name, bound in found.items() if bound.why != "folder" and name not in old}


def _left_out_then(root: Path, found: Mapping[str, Bound], was: Binding) -> set[str]:
    """Those that are as the bound commit has them: a sparse checkout left them out, for nobody had removed them."""
    from outlast.files.patch import entries, is_entry

    top = git.top_of(root)
    if not (top and was.commit):
        return set()
    above = relpath(root, top)
    paths = {name: normpath(f"{above}/{path_of(name)}") for name in found if name not in was.dirty_files}
    had = entries(top, was.commit, sorted(paths.values()))
    return {name for name, path in paths.items() if path in had and is_entry(top, path, found[name], had[path])}
