"""Bringing a handoff's work to another clone, or lost files back: all of it, durably, or nothing (`apply`).

What is to be done to which file is decided before anything is touched. A file gives way only if nothing is lost by it:
it is not there, or it is what the clone's commit has, and no commit since has changed it (but that may be forced: it
is still in git). What both sides changed is merged three-way by git (`files/patch.py`); what cannot be merged is a
conflict, and says why. Files are put in place by `files/place.py`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import dropwhile
from pathlib import Path
from posixpath import normpath
from typing import TYPE_CHECKING

from msgspec.structs import replace

from outlast.errors import IntegrityBroken, NotApplicable
from outlast.files import ask_git, git
from outlast.files import patch as patching
from outlast.files.changes import never
from outlast.files.partial import files_below
from outlast.files.patch import NOTHING, GitEntry, Made, Section, has_marks, may_hold, merged, with_ends_of
from outlast.files.place import MODES, Put, interrupted, is_folder, place, undo_interrupted
from outlast.files.snapshot import Binding, Bound, Sight, can_be_a_path, sight
from outlast.handoffs.difference import Action, Applied, PlacedFile, names_in_words, why_not_kept
from outlast.handoffs.handoff import Handoff
from outlast.handoffs.observer import DIRTY_FILES, renames
from outlast.values.codec import digest, path_of, text
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.home.home import Home
    from outlast.store.contract.blobs import Blobs

_PLAIN = ("file", "exec")
_UNCLEAR = "it may have the work in it already, which lines that are there more than once do not tell: see for yourself"


class Side(NamedTuple):
    """A file on one side."""

    mode: str  # file, exec, link; absent
    content: bytes = b""


class MergeOutcome(NamedTuple):
    """What is done to a file, why, and what is to be put in its place."""

    action: Action
    why: str = ""
    put: Put | None = None


def merge(path: str, now: Sight, base: Side, work: Side, why: str, *, leave: bool) -> MergeOutcome:
    """What becomes of the file at a path. `why`: what stands against putting the work's there as it is."""
    if _is_same(base, work):
        return MergeOutcome("keep", "the work did not change it")
    if now.content is None or {now.bound.mode, work.mode} - {*_PLAIN} or base.mode not in (*_PLAIN, "absent"):
        return MergeOutcome("conflict", why)
    if has_marks(now.content):
        return MergeOutcome("conflict", "conflicts of an earlier apply are left in it: solve them first")
    found = merged(base.content, now.content, work.content)
    if found is None:
        return MergeOutcome("conflict", f"{why}; and it cannot be merged")
    if found.conflicts and not leave:
        how = "to have them in the file: --leave-conflicts"
        return MergeOutcome("conflict", f"{why}; {_counted(found.conflicts)} with the work, {how}")
    mode = now.bound.mode if base.mode in _PLAIN and base.mode == work.mode else work.mode
    put = Put(path, mode, found.content, now.bound)
    if found.conflicts:
        return MergeOutcome("conflict left", f"{_counted(found.conflicts)} to solve, from <<<<<<< to >>>>>>>", put)
    if (mode, digest(found.content)) == (now.bound.mode, now.bound.digest):
        return MergeOutcome("keep", "it has the work in it already")
    if may_hold(base.content, now.content, work.content):
        return MergeOutcome("conflict", _UNCLEAR)
    return MergeOutcome("merge", "changed here too", put)


def _is_same(one: Side, other: Side) -> bool:
    return one.mode == other.mode and one.content.replace(b"\r\n", b"\n") == other.content.replace(b"\r\n", b"\n")


def _counted(conflicts: int) -> str:
    return "1 conflict" if conflicts == 1 else f"{conflicts} conflicts"


_PATCH_WHY = {
    "too_large": "they were too large",
    "secret": "there was a secret in them",
    "no_commit": "there was no commit yet",
    "no_git": "git was not found",
    "unknown": "git could not tell",
}
_NO_GIT = "git was not found, so that nobody can tell"
_NEEDS_GIT = "its uncommitted changes are kept as a patch, which needs git, and git was not found"
_FORCED = "force it (--force) to put the handoff's in its place, the other stays in git"


class _Step(NamedTuple):
    """One file: what is told of it and, if there is anything to do, what."""

    told: PlacedFile
    put: Put | None = None


class _Outside(Exception):
    """A place that nothing is written to, and why."""


class _Clone(NamedTuple):
    """Where the work is brought to."""

    root: Path
    top: Path | None  # None outside of git
    commit: str  # "" when there is none, or git cannot tell
    branch: str
    home: Path

    @classmethod
    def at(cls, root: Path, home: Path) -> _Clone:
        state = git.look(root)
        return cls(root, git.top_of(root), state.commit if state else "", state.branch if state else "", home)

    @property
    def base(self) -> Path:
        """What paths are placed from: git's are from the top, and the root may be a folder inside."""
        return self.top or self.root

    def real(self, path: str) -> str:
        """A path from the root as one from the base, links on the way resolved. Raises _Outside."""
        if not can_be_a_path(path) or {"", ".", ".."} & {*path.split("/")}:
            raise _Outside("its path does not stay inside the root")
        above, _, name = path.rpartition("/")
        real = Path(os.path.realpath(self.root / above))
        if not real.is_relative_to(self.root):
            raise _Outside("a link on its way leaves the root")
        return self.checked(str((real / name).relative_to(self.base)))

    def checked(self, path: str) -> str:
        """A path from the base. Raises _Outside when it is not for anybody to write."""
        if any(never(part.lower()) for part in path.split("/")) or (self.base / path).is_relative_to(self.home):
            raise _Outside("git or Outlast owns this place")
        return path

    def holds(self, path: str) -> bool:
        """Whether a path from the base is below the root."""
        return Path(normpath(self.base / path)).is_relative_to(self.root)

    def link_refused(self, put: Put) -> str:
        """Why a link is not made at a path from the base; "" when it stays inside of the root, or is none.

        It is made in a plain folder, whatever is there now. Behind a name `..` may be anywhere, once there are links.
        """
        if put.mode != "link":
            return ""
        target = os.fsdecode(put.content)
        names = dropwhile(lambda name: name in ("", ".", ".."), target.split("/"))
        leads = normpath((self.base / put.path).parent / target)
        if ".." in names or not can_be_a_path(target) or not self.holds(leads):
            return "it is a link that leaves the root"
        real = Path(os.path.realpath(leads))
        if not real.is_relative_to(self.root):
            return "it is a link that leaves the root"
        owned = real.is_relative_to(self.home) or any(never(name.lower()) for name in real.relative_to(self.root).parts)
        return "it is a link to what git or Outlast owns" if owned else ""

    def shown(self, path: str) -> str:
        """A path from the base as bindings name it."""
        return text(os.path.relpath(self.base / path, self.root))

    def entries(self, commit: str, paths: Iterable[str]) -> dict[str, GitEntry]:
        """What a commit has at these paths from the base."""
        return patching.entries(self.top, commit, sorted(paths)) if self.top and commit else {}

    def is_unmodified(self, path: str, now: Sight, head: GitEntry) -> bool:
        """Whether a file is what the commit has, so that git can give it back."""
        top = self.top
        if top and head == NOTHING:
            inner = git.top_of((top / path).parent) or top
            path = os.path.relpath(top / path, inner)
            top, path, head = inner, path, patching.entries(inner, "HEAD", [path]).get(path, NOTHING)
        if top is None or head.mode != now.bound.mode:
            return False
        return now.bound.blob == head.id or patching.entry_now(top, path, now, head.id) == head

    def parting(self, bound: Binding) -> str | None:
        """The commit since which the clone's commits are not those of the work; None when nobody knows."""
        if not self.commit or bound.commit == self.commit:
            return self.commit
        return git.parting(self.root, bound.commit, self.commit) or None


def plan_of(
    home: Home, handoff: Handoff, root: Path, *, force: bool = False, leave_conflicts: bool = False
) -> tuple[list[Put], Applied]:
    """What is put where to bring the work below `root` (links resolved), and how that is told.

    By `force` it is put in place of later commits' files too. With `leave_conflicts` a text that cannot be merged
    cleanly has its conflicts in it.

    Raises IntegrityBroken for broken content, NotApplicable when there is none at all.
    """
    if (bound := handoff.binding) is None:
        raise NotApplicable(handoff.anchor, "nobody looked at the files when it was stored: no content is kept")
    if not root.is_dir():
        raise NotApplicable(handoff.anchor, f"there is no folder {str(root)!r}")
    clone = _Clone.at(root, Path(os.path.realpath(home.path)))
    sections = _sections(clone, bound, home.blobs)
    merging = _Merging(clone, bound, home.blobs, leave_conflicts)
    found = [*_bound_steps(merging, force), *_patch_steps(clone, bound, sections)]
    found = [merging.patched(step, sections or ()) if step.told.patched else step for step in found]
    found.sort(key=lambda step: (step.told.patched, step.told.path))
    steps = list(_unblocked(clone, [*_once(found)]))
    beside = sorted({clone.shown(section.path) for section in sections or () if not clone.holds(section.path)})
    applied = Applied(
        anchor=handoff.anchor,
        revision=handoff.revision,
        root=text(str(root)),
        files=tuple(step.told for step in steps),
        notes=tuple(_notes(clone, bound, steps, beside)),
    )
    return [step.put for step in steps if step.put], applied


# -- apply -------------------------------------------------------------------------------------------


def apply(
    home: Home,
    handoff: Handoff,
    root: Path,
    *,
    dry_run: bool = False,
    force: bool = False,
    leave_conflicts: bool = False,
) -> Applied:
    """Bring the work of a handoff into a clone, or put lost files back: all of it, durably, or nothing.

    Bound files become what they were when it was stored, other tracked files get their uncommitted changes. A file that
    was changed here too, by own changes or by commits since the work began, is merged three-way; by `force` what only
    commits have changed gives way instead. Conflicts hinder, unless `leave_conflicts` has them left in the file. Git's
    index is left alone. After a crash in the middle the same call undoes what was half done, and does all of it. With
    `dry_run` it says what it would do, hindrances too, and touches nothing.

    Raises NotApplicable naming every file that hinders, IntegrityBroken when kept content is broken.
    """
    root = Path(os.path.realpath(root))
    base = git.top_of(root) or root
    ours = Path(os.path.realpath(home.path))
    waits = interrupted(base, handoff.id) if dry_run else undo_interrupted(base, handoff.anchor, handoff.id, ours)
    puts, applied = plan_of(home, handoff, root, force=force, leave_conflicts=leave_conflicts)
    applied = replace(applied, notes=(*applied.notes, *filter(None, (waits,))))
    if dry_run:
        return applied
    if hindrances := applied.hindrances:
        raise NotApplicable(handoff.anchor, "; ".join(f"{file.path!r}: {file.why}" for file in hindrances))
    place(base, puts, handoff.anchor, of=handoff.id)
    return replace(applied, done=True)


def _bound_steps(merging: _Merging, force: bool) -> Iterator[_Step]:
    clone, bound, blobs = merging.clone, merging.bound, merging.blobs
    differing: dict[str, tuple[str, Sight]] = {}
    for path, was in sorted(bound.files.items()):
        now = sight(clone.root, path_of(path))
        if was.same(now.bound):
            yield _Step(PlacedFile(path, "same"))
        elif was.mode not in MODES or (was.mode != "absent" and not was.kept):
            yield _Step(PlacedFile(path, "not kept", why_not_kept(was)))
        else:
            try:
                differing[path] = clone.real(path_of(path)), now
            except _Outside as outside:
                yield _Step(PlacedFile(path, "conflict", str(outside)))
    heads = clone.entries(clone.commit, (real for real, _ in differing.values()))
    moved = {} if force else _moved(clone, bound, {path: real for path, (real, _) in differing.items()}, heads)
    for path, (real, now) in differing.items():
        step = _bound_step(clone, blobs, path, bound.files[path], real, now, heads.get(real, NOTHING))
        if path in moved and step.put:
            step = _Step(PlacedFile(path, "conflict", moved[path]))
        yield merging.of_target(step, real, now) if step.told.action == "conflict" else step


def _moved(clone: _Clone, bound: Binding, reals: Mapping[str, str], heads: Mapping[str, GitEntry]) -> dict[str, str]:
    """The files that commits here have changed since the work began, and that in words. Not those that they made what
    the handoff has. Where nobody knows what the commits have changed, it may be every file that the commit has.
    """
    parting = clone.parting(bound)
    then = heads if parting == clone.commit else clone.entries(parting or "", reals.values())
    changed = {path for path, real in reals.items() if heads.get(real) != then.get(real)}
    why = "changed here by later commits"
    if parting is None:
        why = "maybe changed here by later commits, for the commit at which the work began is not known here"
    return {path: f"{why}: {_FORCED}" for path in changed if not _is_of(bound.files[path], heads.get(reals[path]))}


def _is_of(was: Bound, head: GitEntry | None) -> bool:
    return was.mode == head.mode and was.blob == head.id if head else was.mode == "absent"


def _bound_step(clone: _Clone, blobs: Blobs, path: str, was: Bound, real: str, now: Sight, head: GitEntry) -> _Step:
    only_kind = {was.mode, now.bound.mode} == {"file", "exec"} and was.digest == now.bound.digest
    if not only_kind and (hindrance := _hindrance(clone, real, now, head)):
        return _Step(PlacedFile(path, "conflict", hindrance))
    if was.mode == "absent":
        return _Step(PlacedFile(path, "remove"), Put(real, "absent", found=now.bound))
    return _Step(PlacedFile(path, "write"), Put(real, was.mode, _content(blobs, path, was, now), now.bound))


def _hindrance(clone: _Clone, path: str, now: Sight, head: GitEntry) -> str:
    """Why what is there cannot give way; "" when it can. Folders are looked at when everything is known."""
    if now.bound.mode == "absent" or now.bound.why == "folder" or clone.is_unmodified(path, now, head):
        return ""
    if now.bound.mode == "special":
        return f"what is in its place cannot give way: {now.bound.why}"
    if clone.top and not ask_git.found():
        return f"it is not what the handoff has, and {_NO_GIT} whether a commit has it"
    if head == NOTHING:
        return "the commit here has no such file, and what is there is not what the handoff has"
    return "it has changes of its own: it is neither what the commit here has nor what the handoff has"


def _content(blobs: Blobs, path: str, was: Bound, now: Sight) -> bytes:
    """What was kept, proven. A text gets the line ends of the text that gives way."""
    if was.kept != was.digest:
        raise IntegrityBroken(f"bound file {path}", "the content that it names is not the one that was seen")
    content = blobs.get(was.kept)
    return with_ends_of(now.content or b"", content) if was.blob and now.bound.blob else content


# -- what both sides changed -------------------------------------------------------------------------


class _Merging(NamedTuple):
    """Steps that were conflicts, merged where that can be done: where not, they stay what they were."""

    clone: _Clone
    bound: Binding
    blobs: Blobs
    leave: bool

    def of_target(self, step: _Step, real: str, now: Sight) -> _Step:
        was, base = self.bound.files[step.told.path], self._base(real)
        if base is None:
            return step
        work = Side(was.mode, b"" if was.mode == "absent" else _content(self.blobs, step.told.path, was, now))
        return self._merged(step, real, now, base, work)

    def patched(self, step: _Step, sections: Sequence[Section]) -> _Step:
        clone = self.clone
        of = [each for each in sections if clone.shown(each.path) == step.told.path]
        if step.told.action != "conflict" or len(of) != 1 or clone.top is None or not _is_free(clone, of[0].path):
            return step
        found = patching.sides(clone.top, of[0])
        if found is None:
            return step
        made, base = found
        work = Side(made.goal.mode, made.content)
        return self._merged(step, of[0].path, sight(clone.top, of[0].path), Side(made.head.mode, base), work)

    def _base(self, real: str) -> Side | None:
        """What the commit had from which the work and the clone both went on; None when nobody knows."""
        top, parting = self.clone.top, self.clone.parting(self.bound)
        if top is None or not parting:
            return None
        entry = self.clone.entries(parting, [real]).get(real, NOTHING)
        try:
            return Side(entry.mode, patching.content_of(top, real, entry))
        except patching.UnreadablePatch:
            return None

    def _merged(self, step: _Step, real: str, now: Sight, base: Side, work: Side) -> _Step:
        found = merge(real, now, base, work, step.told.why, leave=self.leave)
        return _Step(replace(step.told, action=found.action, why=found.why), found.put)


def _is_free(clone: _Clone, path: str) -> bool:
    try:
        return bool(clone.checked(path))
    except _Outside:
        return False


# -- the other files ---------------------------------------------------------------------------------


def _sections(clone: _Clone, bound: Binding, blobs: Blobs) -> list[Section] | None:
    """The parts of the patch that are about files that are not bound; None when git makes nothing of it."""
    if not bound.patch:
        return []
    with suppress(patching.UnreadablePatch):
        return patching.sections_of(blobs.get(bound.patch), {*_reals(clone, bound)})
    return None


def _patch_steps(clone: _Clone, bound: Binding, sections: Sequence[Section] | None) -> Iterator[_Step]:
    """What the patch does to files below the root that are not bound."""
    try:
        if sections is None:
            raise patching.UnreadablePatch
        yield from _steps_of(clone, [section for section in sections if clone.holds(section.path)])
    except patching.UnreadablePatch:
        why = "git can make nothing of its uncommitted changes here" if ask_git.found() else _NEEDS_GIT
        for path in bound.dirty_files:
            yield _Step(PlacedFile(path, "conflict", why, True))


def _reals(clone: _Clone, bound: Binding) -> Iterator[str]:
    for path in bound.files:
        with suppress(_Outside):
            yield clone.real(path_of(path))


def _steps_of(clone: _Clone, sections: Sequence[Section]) -> Iterator[_Step]:
    if not sections:
        return
    if clone.top is None or not clone.commit:
        why = "its uncommitted changes are kept as a patch, which needs a clone with a commit"
        for path in sorted({section.path for section in sections}):
            yield _Step(PlacedFile(clone.shown(path), "conflict", why, True))
        return
    found = patching.patched(clone.top, clone.commit, sections)
    yield from (_Step(PlacedFile(clone.shown(path), "same", patched=True)) for path in found.present)
    for path, why in found.conflicts.items():
        yield _Step(PlacedFile(clone.shown(path), "conflict", why, True))
    for path, made in found.made.items():
        yield _patch_step(clone, path, made, sight(clone.top, path))


def _patch_step(clone: _Clone, path: str, made: Made, now: Sight) -> _Step:
    told = PlacedFile(clone.shown(path), "remove" if made.goal == NOTHING else "write", patched=True)
    try:
        hindrance = _hindrance(clone, clone.checked(path), now, made.head)
    except _Outside as outside:
        hindrance = str(outside)
    if hindrance or made.goal.mode not in MODES:
        return _Step(replace(told, action="conflict", why=hindrance or f"it is a {made.goal.mode}"))
    return _Step(told, Put(path, made.goal.mode, made.content, now.bound))


# -- what is in the way ------------------------------------------------------------------------------


def _once(steps: Iterable[_Step]) -> Iterator[_Step]:
    """The steps, of which no two put the same file: links may lead to it by several names."""
    known: dict[str, Put] = {}
    for step in steps:
        first = known.setdefault(step.put.path, step.put) if step.put else None
        if first is step.put:
            yield step
        elif first == step.put:
            yield _Step(step.told)
        else:
            yield _Step(replace(step.told, action="conflict", why="another bound path leads to the same file"))


def _unblocked(clone: _Clone, steps: Sequence[_Step]) -> Iterator[_Step]:
    """The steps; those are conflicts that lead out, or whose place is not free once everything that goes is gone."""
    puts = [step.put for step in steps if step.put]
    gone = {put.path for put in puts if put.mode == "absent"}
    come = {put.path for put in puts if put.mode != "absent"}
    for step in steps:
        if step.put and step.put.mode == "absent" and step.put.found.why == "folder":
            yield _Step(replace(step.told, action="same"))  # the file is gone already
        elif step.put and (why := clone.link_refused(step.put) or _in_the_way(clone.base, step.put, gone, come)):
            yield _Step(replace(step.told, action="conflict", why=why))
        else:
            yield step


def _in_the_way(base: Path, put: Put, gone: set[str], come: set[str]) -> str:
    parts = put.path.split("/")
    for depth in range(1, len(parts)):
        above = "/".join(parts[:depth])
        if above in come and put.mode != "absent":
            return f"it is inside of {above!r}, which is a file too"
        if os.path.lexists(base / above) and not is_folder(f"{base}/{above}") and above not in gone:
            return f"{above!r} is no folder here"
    if put.found.why == "folder" and not gone.issuperset(files_below(base, put.path)):
        return "a folder is in its place"
    return ""


# -- what else is to be said -------------------------------------------------------------------------


def _notes(clone: _Clone, bound: Binding, steps: Sequence[_Step], beside: Sequence[str]) -> Iterator[str]:
    if bound.commit and bound.commit != clone.commit:
        yield from _commit_notes(clone, bound, steps)
    if bound.branch and clone.branch and bound.branch != clone.branch:
        yield f"the branch here is {clone.branch}, the work was on {bound.branch}"
    come = {step.told.path for step in steps if step.told.action == "write" and not step.told.patched}
    for old, new in sorted(_renamed(clone, bound, come).items()):
        yield f"{old!r} is not there, and the same content is at {names_in_words(new)}: it may have been renamed here"
    if bound.patch_why:
        why = _PATCH_WHY.get(bound.patch_why, bound.patch_why)
        yield f"uncommitted changes of files that are no targets were not kept: {why}"
    if beside:
        others = names_in_words(beside)
        yield f"these have uncommitted changes too, but are outside of the root and were left alone: {others}"
    brought = {step.told.path for step in steps} | {*beside}
    if left := [path for path in dict.fromkeys((*bound.dirty_files, *bound.untracked)) if path not in brought]:
        more = ", and maybe more" if len(bound.dirty_files) >= DIRTY_FILES else ""
        yield f"these other files were not committed either and are not brought along: {names_in_words(left)}{more}"


def _renamed(clone: _Clone, bound: Binding, come: set[str]) -> dict[str, tuple[str, ...]]:
    gone = {path for path in come if not os.path.lexists(clone.root / path_of(path))}
    if not gone:
        return {}
    return renames(clone.root, bound, {path: each for path, each in bound.files.items() if path not in gone})


def _commit_notes(clone: _Clone, bound: Binding, steps: Sequence[_Step]) -> Iterator[str]:
    began, here = bound.commit[:12], clone.commit[:12] or "none that git can tell"
    has = git.has_commit(clone.root, bound.commit)
    if has is None and not ask_git.found():
        yield f"{_NO_GIT} whether commit {began}, at which the work began, is in this clone"
        return
    if not has:
        yield f"commit {began}, at which the work began, is not in this clone; the commit here is {here}"
        return
    yield f"the commit here is {here}, the work began at {began}"
    overwritten = [step for step in steps if step.told.action in ("write", "remove") and not step.told.patched]
    paths = [step.put.path for step in overwritten if step.put]
    then, now = clone.entries(clone.parting(bound) or "", paths), clone.entries(clone.commit, paths)
    if moved := [clone.shown(path) for path in paths if then.get(path) != now.get(path)]:
        yield f"commits have changed these since, which gives way and is still in git: {names_in_words(moved)}"
