"""Seeing what became of a handoff's work, and bringing it to another clone: `diff`, `diff_revisions`, `apply`.

What is to be done to which file is decided by `bring.py`, before anything is touched; files are put in place by
`files/place.py`; how a difference reads is `handoffs/difference.py`.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from outlast.errors import IntegrityBroken, NotApplicable
from outlast.files import git
from outlast.files.changes import path_of, text
from outlast.files.place import place
from outlast.files.snapshot import sight
from outlast.files.undo import interrupted, undo_interrupted
from outlast.handoffs.binding import observe
from outlast.handoffs.bring import listed, plan_of
from outlast.handoffs.difference import Applied, Difference, FileDiff, field_diffs, file_diff, why_not_kept
from outlast.handoffs.handoff import ABSENT, Binding, Bound, Handoff

if TYPE_CHECKING:
    from outlast.home.home import Home
    from outlast.store.contract.blobs import Blobs

__all__ = ["Applied", "Difference", "apply", "diff", "diff_revisions"]

# -- diff --------------------------------------------------------------------------------------------


def diff(home: Home, handoff: Handoff, root: Path) -> Difference:
    """What changed in the files since the handoff was stored: kept content against the files below a folder now."""
    root = Path(os.path.realpath(root))
    before, after = f"revision {handoff.revision}", f"the files in {text(str(root))}"
    if handoff.binding is None:
        note = "nobody looked at the files when it was stored: there is nothing to compare"
        return Difference(anchor=handoff.anchor, before=before, after=after, notes=(note,))
    seen = observe(handoff, root)
    files = differing(home, handoff, root, seen.binding)
    notes = tuple(f"the same content as {old!r} had is at {listed(new)}" for old, new in sorted(seen.renamed.items()))
    return Difference(anchor=handoff.anchor, before=before, after=after, files=files, notes=notes)


def differing(
    home: Home, handoff: Handoff, root: Path, now: Binding, paths: Collection[str] | None = None
) -> tuple[FileDiff, ...]:
    """How the bound files, or those of them that are named, differ from what was found of them below a folder."""
    was = handoff.binding or _UNBOUND
    found = [*_differing(was.files, now.files, False), *_differing(was.environment, now.environment, True)]
    wanted = [each for each in found if paths is None or (each[0] in paths and not each[3])]
    return tuple(_file_now(home.blobs, root, *each) for each in wanted)


_Pair = tuple[str, Bound, Bound, bool]


def _differing(before: Mapping[str, Bound], after: Mapping[str, Bound], environment: bool) -> Iterator[_Pair]:
    """The files that are not the same on both sides, whatever their line ends are."""
    for path in sorted({*before, *after}):
        was, now = before.get(path, ABSENT), after.get(path, ABSENT)
        if not was.same(now):
            yield path, was, now, environment


def _file_now(blobs: Blobs, root: Path, path: str, was: Bound, now: Bound, environment: bool) -> FileDiff:
    seen = sight(root, path_of(path))
    new: bytes | str = seen.content if seen.content is not None else _unseen(seen.bound)
    return file_diff(path, was, now, _kept(blobs, was), new, environment=environment)


def _unseen(now: Bound) -> bytes | str:
    if now.mode == "absent":
        return b""
    return f"what is there now is not shown: {now.why or f'it has {now.size} bytes'}"


def _kept(blobs: Blobs, bound: Bound) -> bytes | str:
    """The content, or why there is none."""
    if bound.mode == "absent":
        return b""
    if not bound.kept:
        return why_not_kept(bound)
    try:
        return blobs.get(bound.kept)
    except IntegrityBroken as broken:
        return f"the kept content cannot be shown: {broken}"


def diff_revisions(home: Home, before: Handoff, after: Handoff) -> Difference:
    """What changed between two revisions: fields, the commit, branch and score, and the files by their kept content."""
    old, new = before.binding or _UNBOUND, after.binding or _UNBOUND
    found = [*_differing(old.files, new.files, False), *_differing(old.environment, new.environment, True)]
    files = [
        file_diff(path, was, now, _kept(home.blobs, was), _kept(home.blobs, now), environment=environment)
        for path, was, now, environment in found
    ]
    return Difference(
        anchor=after.anchor,
        before=_revision(before, after),
        after=f"revision {after.revision}",
        files=tuple(files),
        fields=field_diffs(before, after),
    )


_UNBOUND = Binding(root="", host="")


def _revision(one: Handoff, other: Handoff) -> str:
    of = "" if (one.scope, one.anchor) == (other.scope, other.anchor) else f" of {one.anchor} in {one.scope}"
    return f"revision {one.revision}{of}"


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
    plan = plan_of(home, handoff, root, force=force, leave_conflicts=leave_conflicts)
    applied = replace(plan.applied, notes=(*plan.applied.notes, *filter(None, (waits,))))
    if dry_run:
        return applied
    if hindrances := applied.hindrances:
        raise NotApplicable(handoff.anchor, "; ".join(f"{file.path!r}: {file.why}" for file in hindrances))
    place(plan.base, plan.puts, handoff.anchor, of=handoff.id)
    return replace(applied, done=True)
