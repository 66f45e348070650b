"""Where the content of a bound file is that is not at its path any more: it was probably renamed.

By content alone, so that it does not matter how it was moved. What was there already when the handoff was stored is no
new place of anything.

Whoever asks is somewhere that is not known to be the handoff's repository: nothing there says anything about it.

What somebody edited since a handoff was stored, as text for who recovers it: hunks, within a limit.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from posixpath import basename
from shlex import quote
from typing import TYPE_CHECKING

from outlast.errors import OtherPlace
from outlast.files import git
from outlast.files.changes import path_of, text
from outlast.files.patterns import never
from outlast.files.snapshot import sight
from outlast.handoffs.binding import had_then, walked
from outlast.handoffs.carry import differing
from outlast.handoffs.difference import FileDiff, file_text
from outlast.handoffs.handoff import ABSENT, Binding, Bound, Handoff
from outlast.handoffs.reported import PLACES
from outlast.handoffs.verdict import command
from outlast.ledger.verdict import Reason

if TYPE_CHECKING:
    from outlast.home.home import Home


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


SHOWN = 64_000  # characters of all hunks; what is longer is a matter for `outlast handoff diff`


def edits(home: Home, handoff: Handoff, root: str, now: Binding, paths: Collection[str]) -> str:
    """How these files differ, each whole or named with the command that shows it. No content can play with a terminal.

    A file of which there is nothing to compare says why.
    """
    room, parts = SHOWN, []
    for each in differing(home, handoff, Path(root), now, paths):
        text = file_text(each)
        if len(text) > room:
            text = file_text(_named(each, handoff))
        room -= len(text)
        parts.append(text)
    return "\n".join(parts)


def _named(file: FileDiff, handoff: Handoff) -> FileDiff:
    return replace(file, text="", note=f"too long to be shown here: {command(handoff, 'diff')}")


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
    names = (name for name in _names(root) if text(name) not in known and _size(root, name) in sizes)
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


def _size(root: Path, name: str) -> int:
    try:
        return os.lstat(root / name).st_size
    except OSError:
        return -1
