"""Binding: what the files and the repository were when a handoff was stored.

`bind` looks and keeps; `sighting.py` looks again at exactly those paths. Where to look is `files/git.py`, one file is
looked at by `files/snapshot.py`, git is asked by `files/git.py`, and what to think of a difference is `verdict.py`.
Paths that are not UTF-8 stand in a binding as `files/changes.py` writes them: `bytes:` and percent-encoded.

What must be kept is kept from the revision that first said so: the next one that repeats it does not begin anew. It
begins anew, as it is then, once somebody has accepted that it is not as it was, or has left it out of one revision;
when the work was completed; and in another repository.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from shlex import quote
from typing import TYPE_CHECKING

from msgspec.structs import replace

from outlast.errors import HandoffInvalid
from outlast.files import git
from outlast.files.ask_git import one_look, real
from outlast.files.changes import path_of, text
from outlast.files.git import relative_to
from outlast.files.patterns import never, one
from outlast.files.repository import is_below
from outlast.files.rules import broken_rule
from outlast.files.snapshot import FILE_BYTES, Binding, Bound, ContentKeeper, Sight, sight
from outlast.handoffs.handoff import Contract, Form, Handoff, must_key, rule_of
from outlast.handoffs.musts import SINCE, PathRule, broken_path, pattern_of, rule_of_must
from outlast.handoffs.verdict import must_violated
from outlast.values.codec import digest
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.home.home import Home
    from outlast.secrets import SecretRules

FOLDER_FILES = 5_000
PATCH_BYTES = 20 << 20
DIRTY_FILES = 100  # so many other files are named
DIRTY_READ = 500  # and so many read, if they are small
_BYTE_CODE = (".pyc", ".pyo")  # changes with the time of its source


# -- binding -----------------------------------------------------------------------------------------


def bind(home: Home, contract: Contract, root: Path, keeper: ContentKeeper | None = None) -> Binding:
    """What the contract's files and the repository are now. What a keeper is given is durable when that is left;
    without one, content is durable when this returns.

    Bound are the target files, of a folder those that git tracks or would add (outside of git all), and the file to
    begin with. Raises HandoffInvalid, naming the field, for a file that is not inside the root, cannot be read or is
    left out by a sparse checkout.
    """
    if keeper is None:
        with ContentKeeper(home.blobs) as keeper:
            return bind(home, contract, root, keeper)
    with one_look():
        root, ours = real(root), real(home.path)
        seeing = _Seeing(root, real(home.folder) if root.is_relative_to(ours) else ours)
        git.look_ahead(root, known_by=True)
        folders: dict[str, None] = {}
        files = _keep(keeper, seeing.targets(contract, folders), home.secrets)
        environment = {text(path): bare.bound for path, bare in seeing.environment(contract)}
        state = git.look(root)
        bound = _binding(root, state, files, tuple(folders), environment)
        return _with_repository(_with_musts(bound, contract, root), root, state, keeper, home.secrets)


def _with_repository(
    bound: Binding, root: Path, state: git.GitState | None, keeper: ContentKeeper, secrets: SecretRules
) -> Binding:
    """With what the repository is known by, and what of it is uncommitted."""
    top = git.top_of(root)
    if top is None:
        return bound
    patch, why = _patch(keeper, state, secrets) if state else ("", git.why_unknown())
    return replace(
        bound,
        patch=patch,
        patch_why=why,
        prefix=text(str(root.relative_to(top))) if top != root else "",
        known_by=git.known_by(root, bound.commit),
        untracked=_untracked(root, state, bound.files) if state else (),
    )


def _with_musts(bound: Binding, contract: Contract, root: Path) -> Binding:
    """With the files that musts are about, and what does not hold of them now."""
    if not contract.musts:
        return bound
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
        host=os.uname().nodename,
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

    def targets(self, contract: Contract, folders: dict[str, None]) -> Iterator[tuple[str, Sight]]:
        """Each target file once, looked at when it is asked for. Targets that are folders are added to `folders`."""
        done: set[str] = set()
        for field, given in contract.targets:
            path, seen = self._named(field, given)
            if seen.bound.why == "folder":
                folders[text(path)] = None
                members = [each for each in self._members(field, path) if each not in done]
                done.update(members)
                yield from self._inside(field, members)
            elif path not in done:
                done.add(path)
                yield path, seen

    def _inside(self, field: str, paths: list[str]) -> Iterator[tuple[str, Sight]]:
        """The files that a folder stands for, which nobody named."""
        for path in paths:
            seen = self._seen(field, path)
            if seen.bound.mode == "link":
                self._refuse_leaving(field, path)
            if seen.bound.why != "folder":  # a submodule that is not checked out is tracked, and no file
                yield path, seen

    def environment(self, contract: Contract) -> Iterator[tuple[str, Sight]]:
        for place, given in enumerate(contract.environment):
            field = f"environment[{place}]"
            path, seen = self._named(field, given)
            if seen.bound.why == "folder":
                raise HandoffInvalid(field, f"{path!r} is a folder", "name the files in it that matter")
            yield path, seen

    def _named(self, field: str, given: str) -> tuple[str, Sight]:
        """What somebody named, once its own link, if it is one, is known to stay inside."""
        path = relative_to(self.root, given, field)
        self._refuse_leaving(field, path)
        seen = self._seen(field, path)
        if seen.bound.mode == "absent" and git.left_out(self.root, path):
            why = f"{path!r} is tracked, and left out by the sparse checkout here"
            raise HandoffInvalid(field, why, f"check it out: git sparse-checkout add {quote(path)}; or leave it out")
        return path, seen

    def _refuse_leaving(self, field: str, path: str) -> None:
        root = str(self.root).rstrip("/")
        where = _led_to(root, path)
        if not is_below(where, root):
            remedy = "name what it leads to by a repo_root that holds it, or only files that stay inside"
            raise HandoffInvalid(field, f"{path!r} is, or goes through, a link that leaves {self.root}", remedy)
        if is_below(where, str(self.home)) or any(map(never, where.removeprefix(root).split("/"))):
            why = f"{path!r} is in a folder that git or Outlast owns"
            raise HandoffInvalid(field, why, "name files of the work itself")

    def _seen(self, field: str, path: str) -> Sight:
        seen = sight(self.root, path)
        if seen.bound.mode == "special" and seen.bound.why != "folder":
            why, remedy = _REFUSED[seen.bound.why]
            raise HandoffInvalid(field, f"{path!r} {why}", remedy)
        return seen._replace(bound=_with_end(self.root, path, seen.bound)) if seen.bound.mode == "link" else seen

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


def _led_to(root: str, path: str) -> str:
    """Where a path from a real root leads: only from a link on the way on it has to be followed."""
    here = root
    for name in path.split("/"):
        here = f"{here}/{name}"
        if os.path.islink(here):
            return os.path.realpath(f"{root}/{path}")
    return here


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


def _keep(keeper: ContentKeeper, looks: Iterable[tuple[str, Sight]], secrets: SecretRules) -> dict[str, Bound]:
    """The files as they are, their content kept or `why` says why not. The same content counts once."""
    found: dict[str, Bound] = {}
    for path, (bound, content) in looks:
        fits = keeper.has_room(bound.digest, bound.size)
        why = "" if bound.mode == "absent" else _why_not(path, content, secrets, fits=fits)
        kept = "" if why or content is None else keeper.keep(bound.digest, content)
        found[text(path)] = replace(bound, kept=kept, why=why)
    return found


def _why_not(path: str, content: bytes | None, secrets: SecretRules, *, fits: bool) -> str:
    if secrets.are_named(path):
        return "secret"
    if content is None:
        return "too_large"
    if not fits:
        return "over_budget"
    return "secret" if secrets.are_in(content) else ""


def _patch(keeper: ContentKeeper, state: git.GitState, secrets: SecretRules) -> tuple[str, str]:
    """The content with what is uncommitted in tracked files, or why there is none."""
    paths = [each.path for each in state.changed if each.kind != "untracked" and not _is_hidden(each.path)]
    if not paths:
        return "", ""
    if not state.commit:
        return "", "no_commit"
    if any(map(secrets.are_named, paths)):
        return "", "secret"
    content, why = git.patch(state.top, paths, PATCH_BYTES)
    if not why and secrets.are_in(content):
        why = "secret"
    return (keeper.keep(digest(content), content) if content and not why else ""), why


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


def _seen_now(root: Path, path: str) -> Bound:
    bound = sight(root, path).bound
    return _with_end(root, path, bound) if bound.mode == "link" else bound


def _with_end(root: Path, path: str, bound: Bound) -> Bound:
    """A link with what it leads to in the end, inside of the root."""
    where = relpath(os.path.realpath(root / path), root)
    end = Bound("special", why="outside") if where.split("/")[0] == ".." else sight(root, where).bound
    return replace(bound, leads=f"{text(where)} {end.word}")


def had_then(root: Path, found: Mapping[str, Bound], was: Binding) -> set[str]:
    """Those that are as the bound commit has them: if they were not there, a sparse checkout had left them out."""
    mine = {name: each for name, each in found.items() if name not in was.dirty_files}
    return _in_commit(root, was, mine, unchanged=True)


# -- the files of musts ------------------------------------------------------------------------------


def bound_musts(contract: Contract, root: Path) -> dict[str, Bound]:
    """The files that the musts of a contract mean, as they are. Raises HandoffInvalid for too many."""
    for name in ("must_change", "must_remove", "must_keep"):
        for place, form in enumerate(getattr(contract, name)):
            if len(_files_of(root, form)) > FOLDER_FILES:
                why = f"{form!r:.200} stands for more than {FOLDER_FILES:,} files"
                raise HandoffInvalid(f"{name}[{place}]", why, "name the files or smaller folders that matter")
    return seen_musts(contract, root)


def seen_musts(contract: Contract, root: Path) -> dict[str, Bound]:
    """The files that the musts of a contract mean, as they are."""
    root = real(root)
    return {path: bound for _, form in contract.musts for path, bound in _files_of(root, form).items()}


def _files_of(root: Path, form: Form) -> dict[str, Bound]:
    rule = rule_of(form)
    if rule is None:
        return _files(root, pattern_of(form))
    bound = sight(root, path := rule.file.rstrip("/")).bound
    return {text(path): bound} if bound.mode != "absent" else {}


def broken_must(name: str, form: Form, bound: Binding | None, root: Path) -> str:
    """What is wrong with a must that is a rule; "" when it holds, and for prose."""
    rule = rule_of_must(name, form, bound)
    if isinstance(rule, PathRule):
        root = real(root)
        return broken_path(rule, bound.musts if bound else {}, _files(root, rule.pattern))
    return broken_rule(root, rule) if rule is not None else ""


def broken_musts(handoff: Handoff, root: Path) -> dict[str, str]:
    """What is wrong with each must to keep that is a rule, by key; "" where it holds."""
    bound = handoff.binding
    rules = {must_key("must_keep", form): form for form in handoff.must_keep}
    rules = {key: form for key, form in rules.items() if rule_of_must("must_keep", form, bound)}
    return {key: broken_must("must_keep", form, bound, root) for key, form in rules.items()}


def unkept_at_store(contract: Contract, bound: Binding, root: Path) -> dict[str, str]:
    """The musts to keep that do not even hold when the handoff is stored, by key."""
    wrong = {
        must_key("must_keep", form): broken_must("must_keep", form, bound, root)
        for form in contract.must_keep
        if not isinstance(form, str)
    }
    return {key: each for key, each in wrong.items() if each}


def _files(root: Path, pattern: str) -> dict[str, Bound]:
    """The files that a path or pattern means now: of a folder what git tracks or would add, outside of git all."""
    if not pattern:
        return {}
    base = _base(pattern)
    itself = sight(root, base, -1).bound
    if itself.why != "folder":
        there = itself.mode != "absent" and one(pattern).matches(base)
        return {text(base): sight(root, base).bound} if there else {}
    names: list[str] = []
    with suppress(OSError):  # what cannot be read has no files that anybody could look at
        names = [name for name in members_of(root, base, in_git=False) if one(pattern).matches(name)]
    looked = {text(name): sight(root, name).bound for name in names[: FOLDER_FILES + 1]}
    found = {name: each for name, each in looked.items() if each.mode != "absent" and each.why != "folder"}
    return found or ({text(base): itself} if normpath(pattern) == base else {})


def _base(pattern: str) -> str:
    """The folder or file that a pattern begins with, up to its first sign."""
    parts = normpath(pattern).split("/")
    plain = next((at for at, part in enumerate(parts) if any(sign in part for sign in "*?[")), len(parts))
    return "/".join(parts[:plain]) or "."


# -- kept since an earlier revision ------------------------------------------------------------------


def kept_since(contract: Contract, before: Handoff, now: Binding, accepted: Collection[str] = ()) -> Binding:
    """What was bound now, with the files of musts that the revision before has too as they were bound there.

    `accepted`: the fingerprints of what somebody accepted of that one. A must that is violated just so begins anew.
    """
    then = before.binding
    if then is None or not _same_place(then, now):
        return now
    musts, unkept = dict(now.musts), dict(now.unkept)
    for form in contract.must_keep:
        rule = rule_of_must("must_keep", form, then) if form in before.must_keep else None
        if not isinstance(rule, PathRule):
            continue
        if wrong := broken_path(rule, then.musts, now.musts):
            if must_violated(before, form, wrong).fingerprint in accepted:
                continue
            unkept[must_key("must_keep", form)] = SINCE + wrong.removeprefix("is not as it was")
        musts = _as_then(rule, musts, then)
    return replace(now, musts=musts, unkept=unkept)


def changed_since(contract: Contract, before: Handoff, now: Binding) -> Binding:
    """The same of what must change: it has changed already if it did since the revision before was stored."""
    then, musts = before.binding, dict(now.musts)
    if then is None or not _same_place(then, now):
        return now
    for form in contract.must_change:
        rule = rule_of_must("must_change", form, then) if form in before.must_change else None
        if isinstance(rule, PathRule):
            musts = _as_then(rule, musts, then)
    return replace(now, musts=musts)


def _as_then(rule: PathRule, musts: Mapping[str, Bound], then: Binding) -> dict[str, Bound]:
    meant = rule.of(musts)
    return {path: each for path, each in musts.items() if path not in meant} | rule.of(then.musts)


def _same_place(then: Binding, now: Binding) -> bool:
    """Whether paths mean the same in both: the same repository, as every clone knows it, or the same folder."""
    if then.commit or now.commit:
        same = then.commit == now.commit or not {*then.known_by}.isdisjoint(now.known_by)
        return then.prefix == now.prefix and (same or _same_folder(then, now))
    return _same_folder(then, now)


def _same_folder(then: Binding, now: Binding) -> bool:
    return (then.host, then.root) == (now.host, now.root)


# -- as the commit has them --------------------------------------------------------------------------


def as_committed(root: Path | None, bound: Binding | None) -> bool:
    """Whether nobody has worked on a file: each is as the commit has it. Where git cannot tell, nobody knows."""
    if bound is None or not bound.files:
        return True
    if not bound.commit or bound.dirty or bound.patch or bound.patch_why:
        return False
    return root is None or not _uncommitted(root, bound)


def _uncommitted(root: Path, bound: Binding) -> bool:
    """Whether one of the files is not in the commit: changes of those that are would be in the patch."""
    there = {path: each for path, each in bound.files.items() if each.mode != "absent"}
    return git.top_of(root) is not None and _in_commit(root, bound, there, unchanged=False) != {*there}


def _in_commit(root: Path, bound: Binding, files: Mapping[str, Bound], *, unchanged: bool) -> set[str]:
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
