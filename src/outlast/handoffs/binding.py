"""Binding: what the files and the repository were when a handoff was stored.

`bind` looks and keeps; `observer.py` looks again at exactly those paths. Where to look is `files/git.py`. Paths that
are not UTF-8 stand in a binding as `values/codec.py` writes them: `bytes:` and percent-encoded.

What must be kept is kept from the revision that first said so: the next one that repeats it does not begin anew. It
begins anew, as it is then, once somebody has accepted that it is not as it was, or has left it out of one revision;
when the work was completed; and in another repository.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from msgspec.structs import replace

from outlast.errors import HandoffInvalid
from outlast.files import git
from outlast.files.ask_git import one_look, real
from outlast.files.changes import is_hidden
from outlast.files.git import FOLDER_FILES, members_of, relative_to
from outlast.files.repository import is_below
from outlast.files.snapshot import Binding, Bound, ContentKeeper, Sight, sight
from outlast.handoffs.handoff import Contract, Handoff, must_key
from outlast.handoffs.musts import SINCE, MustName, PathRule, bound_musts, broken_path, rule_of_must, unkept_at_store
from outlast.handoffs.observer import DIRTY_FILES, binding_of, folders_above, from_root, in_commit, with_end
from outlast.handoffs.verdict import must_violated
from outlast.values.codec import digest, text
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.home.home import Home
    from outlast.secrets import SecretRules

PATCH_BYTES = 20 << 20


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
        bound = binding_of(root, state, files, tuple(folders), environment)
        return _with_repository(_with_musts(bound, contract, root), root, state, keeper, home.secrets)


def _with_repository(
    bound: Binding, root: Path, state: git.GitState | None, keeper: ContentKeeper, secrets: SecretRules
) -> Binding:
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
    if not contract.musts:
        return bound
    bound = replace(bound, musts=bound_musts(contract, root))
    return replace(bound, unkept=unkept_at_store(contract, bound, root))


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
        if is_below(where, str(self.home)) or is_hidden(where.removeprefix(root)):
            why = f"{path!r} is in a folder that git or Outlast owns"
            raise HandoffInvalid(field, why, "name files of the work itself")

    def _seen(self, field: str, path: str) -> Sight:
        seen = sight(self.root, path)
        if seen.bound.mode == "special" and seen.bound.why != "folder":
            why, remedy = _REFUSED[seen.bound.why]
            raise HandoffInvalid(field, f"{path!r} {why}", remedy)
        return seen._replace(bound=with_end(self.root, path, seen.bound)) if seen.bound.mode == "link" else seen

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
    paths = [each.path for each in state.changed if each.kind != "untracked" and not is_hidden(each.path)]
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


# -- other files -------------------------------------------------------------------------------------


def _untracked(root: Path, state: git.GitState, mine: Collection[str]) -> tuple[str, ...]:
    """The first hundred other files and folders that git does not know; of a folder with a bound file in it, files."""
    new = [each.path for each in state.changed if each.kind == "untracked" and not is_hidden(each.path)]
    shared = [path for path in new if from_root(root, state, path) in folders_above(mine)]
    inside = [f"{folder}{name}" for folder in shared for name in git.new_files(state.top / folder)]
    names = (from_root(root, state, path) for path in sorted({*new, *inside} - {*shared}))
    return tuple(name for name in names if name not in mine)[:DIRTY_FILES]


# -- kept since an earlier revision ------------------------------------------------------------------


def bound_since(
    name: MustName, contract: Contract, before: Handoff, now: Binding, accepted: Collection[str] = ()
) -> Binding:
    """What was bound now, with the files of musts that the revision before has too as they were bound there.

    What must change has changed already if it did since then. `accepted`: the fingerprints of what somebody accepted of
    that one. A must that is violated just so begins anew.
    """
    then = before.binding
    if then is None or not _same_place(then, now):
        return now
    musts, unkept = dict(now.musts), dict(now.unkept)
    for form in getattr(contract, name):
        rule = rule_of_must(name, form, then) if form in getattr(before, name) else None
        if not isinstance(rule, PathRule):
            continue
        if name == "must_keep" and (wrong := broken_path(rule, then.musts, now.musts)):
            if must_violated(before, form, wrong).fingerprint in accepted:
                continue
            unkept[must_key(name, form)] = SINCE + wrong.removeprefix("is not as it was")
        meant = rule.of(musts)
        musts = {path: each for path, each in musts.items() if path not in meant} | rule.of(then.musts)
    return replace(now, musts=musts, unkept=unkept)


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
    if root is None or git.top_of(root) is None:
        return True
    there = {path: each for path, each in bound.files.items() if each.mode != "absent"}
    return in_commit(root, bound, there, unchanged=False) == {*there}  # what is changed of them would be in the patch
