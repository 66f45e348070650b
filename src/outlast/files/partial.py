"""Partial work: what an attempt left in the files it declared to write, and putting it back.

`look_and_keep` before an attempt, `judged` after it, `restore` when somebody asks for it. The rules are in
`files/changes.py`, the looking in `snapshot.py`. Nothing here writes the journal.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from posixpath import relpath

from outlast.files.ask_git import ask
from outlast.files.changes import (
    GIT_PATHS,
    LeftFiles,
    SeenFile,
    blobs_of,
    changes,
    from_facts,
    judge,
    last_lines,
    readable,
    to_facts,
)
from outlast.files.patterns import never
from outlast.files.restore import RestoredFiles, refuse_restore, restore
from outlast.files.snapshot import look, look_and_keep

__all__ = [
    "RestoredFiles",
    "blobs_of",
    "changed_by_git",
    "from_facts",
    "judged",
    "look",
    "look_and_keep",
    "refuse_restore",
    "restore",
    "to_facts",
]

GIT_SECONDS = 5.0


def judged(
    root: Path,
    patterns: Sequence[str],
    before: Mapping[str, SeenFile],
    *,
    attempt: int,
    status: str,
    tail: str = "",
    exit: int | None = None,
    error: str = "",
) -> LeftFiles:
    """What an attempt left, as it is now. `tail` may be the whole transcript: its last lines are taken."""
    now = look(root, patterns)
    git = changed_by_git(root)
    return LeftFiles(
        attempt=attempt,
        status=status,
        judgement=judge(patterns, before, now),
        files=changes(before, now),
        tail=last_lines(tail),
        git=git[:GIT_PATHS],
        git_more=max(0, len(git) - GIT_PATHS),
        exit=exit,
        error=readable(error),
    )


def changed_by_git(root: Path) -> tuple[str, ...]:
    """The paths of the work tree that git finds changed or untracked, seen from the root.

    They say where to look and decide nothing: without git, outside of a work tree, or when git takes longer than
    five seconds, there are none.
    """
    status = _git(root, "status", "--porcelain=v1", "-z", "--untracked-files=all")
    prefix = _git(root, "rev-parse", "--show-prefix") if status else ""
    seen_from_root = (relpath(path, prefix.removesuffix("\n") or ".") for path in _paths_in(status))
    return tuple(sorted(path for path in set(seen_from_root) if not any(map(never, path.split("/")))))


def _git(root: Path, *command: str) -> str:
    answer = ask(root, *command, seconds=GIT_SECONDS)
    return os.fsdecode(answer.out) if answer and not answer.exit else ""


def _paths_in(status: str) -> list[str]:
    """The paths of `git status -z`: `XY path`, and after a rename or copy the old path on its own."""
    paths = []
    fields = iter(status.split("\0"))
    for field in fields:
        if field:
            paths.append(field[3:].rstrip("/"))
            if {"R", "C"} & set(field[:2]):
                paths.append(next(fields, ""))
    return [path for path in paths if path]
