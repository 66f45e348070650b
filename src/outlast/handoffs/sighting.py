"""What the files of a handoff are now: looked at here (`observe`), or as a request says (`Sighting`), checked.

Of a request only what the handoff names counts, and only content that is here. A bound file that is gone is looked for
by its content alone, so that it does not matter how it was moved; what was there already when the handoff was stored
is no new place of anything.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from posixpath import basename, normpath
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from outlast.errors import HandoffInvalid
from outlast.files import git
from outlast.files.ask_git import one_look, real
from outlast.files.changes import path_of, text
from outlast.files.patterns import Patterns, never
from outlast.files.snapshot import ABSENT, Binding, Bound, Relation, sight
from outlast.handoffs.binding import (
    FOLDER_FILES,
    _binding,
    _seen_now,
    broken_musts,
    had_then,
    members_of,
    seen_musts,
    walked,
)
from outlast.handoffs.evidence import DIGEST, LONGEST, NOTE, Ran
from outlast.handoffs.handoff import Contract, Handoff, must_key, rule_of
from outlast.handoffs.musts import pattern_of, rule_of_must
from outlast.handoffs.verdict import Observed

if TYPE_CHECKING:
    from outlast.home.caller import Caller
    from outlast.home.home import Home


@one_look()
def observe(handoff: Handoff, root: Path) -> Observed:
    """What the bound files, the repository and the files of musts to keep are now. Nothing is kept or written.

    A file that is not one any more, or that only a link out of the root would reach, is `special` and was not opened.
    """
    root, bound = real(root), handoff.binding or Binding(root="", host="")
    if handoff.binding is not None:  # else there is nothing to compare it with
        git.look_ahead(root)
    files = {path: _seen_now(root, path_of(path)) for path in bound.files}
    state = git.look(root) if handoff.binding is not None else None
    for folder in bound.folders:
        files |= _new_files(root, path_of(folder), files, bound, in_git=bool(state or bound.commit))
    environment = {path: _seen_now(root, path_of(path)) for path in bound.environment}
    now = replace(_binding(root, state, files, bound.folders, environment), musts=seen_musts(handoff, root))
    return Observed(
        now, _relation(root, bound, state), broken_musts(handoff, root), renamed=_renamed(root, bound, files)
    )


def _renamed(root: Path, was: Binding, now: Mapping[str, Bound]) -> dict[str, tuple[str, ...]]:
    if not any(bound.mode != "absent" and now[path].mode == "absent" for path, bound in was.files.items()):
        return {}
    return renames(root, was, now)


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


class Sighting(Struct, frozen=True, kw_only=True):
    """How the files of one handoff were found. An empty root: they were looked for, and are not `here`."""

    handoff_id: str
    root: str = ""
    here: str = ""
    binding: Binding | None = None
    relation: Relation = "none"
    renamed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of bound files that are gone: where now
    musts: Mapping[str, str] = field(default_factory=dict)  # of every rule about a file, by key: "" or what is wrong
    ran: tuple[Ran, ...] | None = None  # None: no check_sighting was run


FILES = 20_000
MARKS = 100  # of what a repository is known by
PLACES = 5  # of one file that was renamed
_GIT_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_ALL = "send what was found of each of them, or look again"


# -- a binding ---------------------------------------------------------------------------------------


def checked_binding(caller: Caller, bound: Binding, contract: Contract) -> Binding:
    """A binding as it may be stored: of the contract's files and no others, its content here. Raises HandoffInvalid."""
    targets = {text(normpath(path)) for _, path in contract.targets}
    environment = {text(normpath(path)) for path in contract.environment}
    refuse_odd(bound, "binding")
    _refuse_missing({*bound.files, *bound.folders}, targets, "binding.files")
    _refuse_missing(bound.environment, environment, "binding.environment")
    _refuse_others(bound.folders, targets, "binding.folders")
    _refuse_others(bound.environment, environment, "binding.environment")
    _refuse_unmeant(bound, contract, "binding")
    for path in bound.files:
        if path not in targets and not any(_is_below(path, folder) for folder in bound.folders):
            raise _other(f"binding.files[{path!r}]")
    for name in bound.blobs:
        if not (caller.has_content(name) and caller.home.blobs.renew(name)):
            why = f"the content {name[:12]}… is not here"
            raise HandoffInvalid("binding", why, f"send it first: PUT /v1/handoff/blobs/{name}")
    return _without_own_secrets(caller.home, bound)


def _refuse_unmeant(bound: Binding, contract: Contract, field: str) -> None:
    """Raises HandoffInvalid for files and musts that no must of the contract is about."""
    meant = Patterns.of(filter(None, (pattern_of(form) for _, form in contract.musts)))
    named = {rule.file.rstrip("/") for _, form in contract.musts if (rule := rule_of(form))}
    for path in bound.musts:
        if path not in named and not meant.matches(path_of(path)):
            raise _other(f"{field}.musts[{path!r:.200}]")
    _refuse_others(bound.unkept, {must_key("must_keep", form) for form in contract.must_keep}, f"{field}.unkept")
    if any(len(said) > NOTE for said in bound.unkept.values()):
        raise HandoffInvalid(f"{field}.unkept", f"more than {NOTE:,} characters", "send less")


def _is_below(path: str, folder: str) -> bool:
    return folder in (".", "./") or path.startswith(f"{folder}/")


def _refuse_missing(found: object, wanted: set[str], field: str) -> None:
    assert isinstance(found, dict | set)
    if lacking := sorted(wanted - set(found)):
        raise HandoffInvalid(field, f"{lacking[0]!r} is missing", _ALL)


def _refuse_others(found: object, wanted: set[str], field: str) -> None:
    assert isinstance(found, dict | tuple)
    if others := sorted(set(found) - wanted):
        raise _other(f"{field}[{others[0]!r}]")


def _other(field: str) -> HandoffInvalid:
    return HandoffInvalid(field, "it is no file that the handoff names", "send what was found of its own files")


def refuse_odd(bound: Binding, field: str) -> None:
    """Raises HandoffInvalid for what no look at files could have found."""
    for name, files in (("files", bound.files), ("environment", bound.environment), ("musts", bound.musts)):
        if len(files) > FILES:
            raise HandoffInvalid(f"{field}.{name}", f"has {len(files)} files; the limit is {FILES:,}", "name fewer")
        for path, each in files.items():
            _refuse_odd_file(f"{field}.{name}[{path!r:.200}]", path, each)
    for folder in bound.folders:
        _refuse_odd_path(f"{field}.folders[{folder!r:.200}]", folder)
    for name, said, form in (("commit", bound.commit, _GIT_ID), ("dirty", bound.dirty, DIGEST)):
        if said and not form.fullmatch(said):
            raise HandoffInvalid(f"{field}.{name}", "it is no digest", "send what git says, or leave it out")
    if bound.patch and not DIGEST.fullmatch(bound.patch):
        raise HandoffInvalid(f"{field}.patch", "it is no digest of content", "send the content's SHA-256")
    if bound.prefix:
        _refuse_odd_path(f"{field}.prefix", bound.prefix)
    if len(bound.known_by) > MARKS or any(len(each) > LONGEST for each in bound.known_by):
        raise HandoffInvalid(f"{field}.known_by", f"it has more than {MARKS}, or too long ones", "send fewer")
    for name in ("root", "host", "branch", "patch_why"):
        if len(getattr(bound, name)) > LONGEST:
            raise HandoffInvalid(f"{field}.{name}", f"it has more than {LONGEST} characters", "send a shorter one")


def _refuse_odd_file(field: str, path: str, bound: Bound) -> None:
    _refuse_odd_path(field, path)
    if bound.kept and bound.kept != bound.digest:
        raise HandoffInvalid(f"{field}.kept", "it is not the content's digest", "send the same as digest")
    for name, form in (("digest", DIGEST), ("blob", _GIT_ID)):
        if (said := getattr(bound, name)) and not form.fullmatch(said):
            raise HandoffInvalid(f"{field}.{name}", "it is no digest", "send the digest in lower-case hex")
    if bound.size < 0 or max(len(bound.why), len(bound.leads)) > 2 * LONGEST:
        raise HandoffInvalid(field, "its size, why or leads cannot be", "send what was found")


def _refuse_odd_path(field: str, path: str) -> None:
    real = path_of(path)
    parts = real.split("/")
    wrong = not real or len(real) > LONGEST or real.startswith("/") or "\0" in real
    if wrong or ".." in parts or any(map(never, parts)):
        raise HandoffInvalid(field, "it is no path inside the root", "name files from the root, without `..`")


def _without_own_secrets(home: Home, bound: Binding) -> Binding:
    """Content in which a rule of this home's own finds a secret is not kept: who sent it did not know the rule."""
    if not home.secrets.own:
        return bound
    files = {path: _kept_if_clean(home, each) for path, each in bound.files.items()}
    clean = not bound.patch or _is_clean(home, bound.patch)
    return replace(
        bound, files=files, patch=bound.patch if clean else "", patch_why=bound.patch_why if clean else "secret"
    )


def _kept_if_clean(home: Home, bound: Bound) -> Bound:
    return bound if not bound.kept or _is_clean(home, bound.kept) else replace(bound, kept="", why="secret")


def _is_clean(home: Home, name: str) -> bool:
    return not home.secrets.are_in(home.blobs.get(name), own=True)


# -- a sighting --------------------------------------------------------------------------------------


def lacks(sighting: Sighting, handoff: Handoff) -> bool:
    """Whether something of the handoff was not looked at."""
    return bool(sighting.root) and any(True for _ in _lacking(sighting, handoff))


def check_sighting(sighting: Sighting, handoff: Handoff) -> None:
    """Raises HandoffInvalid for a sighting that is not of this handoff's files, all of them and no others."""
    field = f"observed[{handoff.id!r}]"
    for name, said in (("root", sighting.root), ("here", sighting.here)):
        if len(said) > LONGEST:
            raise HandoffInvalid(f"{field}.{name}", f"it has more than {LONGEST} characters", "send a shorter one")
    if not sighting.root:
        return
    for what in _lacking(sighting, handoff):
        raise HandoffInvalid(field, f"{what} is missing", _ALL)
    if sighting.binding is not None:
        refuse_odd(sighting.binding, f"{field}.binding")
        _refuse_unmeant(sighting.binding, handoff, f"{field}.binding")
        was = handoff.binding or Binding(root="", host="")
        for path in sighting.binding.files:
            if path not in was.files and not any(path == each or _is_below(path, each) for each in was.folders):
                raise _other(f"{field}.binding.files[{path!r:.200}]")
        _refuse_odd_renames(sighting, was, field)


def _refuse_odd_renames(sighting: Sighting, was: Binding, field: str) -> None:
    for path, places in sighting.renamed.items():
        if path not in was.files or not 0 < len(places) <= PLACES:
            raise _other(f"{field}.renamed[{path!r:.200}]")
        for place in places:
            _refuse_odd_path(f"{field}.renamed[{path!r:.200}]", place)


def _lacking(sighting: Sighting, handoff: Handoff) -> Iterator[str]:
    bound, seen = handoff.binding, sighting.binding
    if seen is None:
        yield "binding"
        return
    if bound is not None:
        yield from sorted({*bound.files} - {*seen.files})
        yield from sorted({*bound.environment} - {*seen.environment})
    for name, form in handoff.musts:
        if rule_of_must(name, form, bound) is not None and must_key(name, form) not in sighting.musts:
            yield f"{name} {must_key(name, form)}"


# -- renamed files -----------------------------------------------------------------------------------


LOOKS = 200  # so many files of the right size are read


def renames(root: Path, was: Binding, now: Mapping[str, Bound]) -> dict[str, tuple[str, ...]]:
    """Of each bound file that is gone, where the same content is now and was not then: one place, if one has its name.

    An empty file is everywhere, and nobody can tell what became of one.
    """
    gone = {path: bound for path, bound in was.files.items() if bound.size and _is_gone(bound, now.get(path, ABSENT))}
    if not gone:
        return {}
    there = _candidates(root, was, {bound.size for bound in gone.values()})
    old = had_then(root, there, was)
    new = {name: bound for name, bound in there.items() if name not in old and not _was_new(name, was)}
    found = {
        path: _places(path, [name for name, each in new.items() if each.same(bound)]) for path, bound in gone.items()
    }
    return {path: places for path, places in found.items() if places}


def _was_new(name: str, was: Binding) -> bool:
    """Whether it was there, uncommitted, when the handoff was stored."""
    return any(name == each or (each.endswith("/") and name.startswith(each)) for each in was.dirty_files)


def _is_gone(was: Bound, now: Bound) -> bool:
    return was.mode in ("file", "exec") and now.mode == "absent"


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
        yield from (name for name in listed if not any(map(never, name.split("/"))))
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
