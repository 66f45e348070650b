"""Looking at what a session left: its transcript, its files, and what git sees changed. Nothing is written."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from outlast.doors.hooks import transcript as plans
from outlast.doors.hooks.compose import Work
from outlast.doors.hooks.events import HookEvent
from outlast.doors.hooks.place import Place, anchor_of
from outlast.doors.hooks.transcript import Told
from outlast.files.patterns import never
from outlast.handoffs.handoff import MAX_FILES
from outlast.values.codec import encode
from outlast.values.digest import digest

if TYPE_CHECKING:
    from outlast.files.git import Changed

EDITED = 100  # files of the session itself that are named, the last edited first
NEW_FILE_BYTES = 20 << 20  # a larger file that git does not know is no work to hand over


def look(place: Place, event: HookEvent, *, late: bool = False) -> Work:
    """What a session left, as it is now. A transcript that cannot be read tells nothing, and that is said."""
    from outlast.files import git

    root = Path(place.top)
    branch = place.branch or (git.branch_of(root) if place.git else "")
    told, trouble = _told(event)
    state = git.look(root) if place.git else None
    targets, others = _targets(root, event, told, state.changed if state else ())
    anchor = anchor_of(place._replace(branch=branch), event.task)
    work = Work(event, anchor, place.top, told, targets, (*trouble, *others), late=late)
    return work._replace(signature=signature_of(work))


def _told(event: HookEvent) -> tuple[Told, tuple[str, ...]]:
    try:
        return plans.read(_transcript(event)), ()
    except OSError as error:
        return Told(), (f"Its transcript could not be read: {error.strerror}.",)


def _transcript(event: HookEvent) -> str:
    """The session's transcript; of Codex, which may not name it, by the session's id."""
    if event.transcript or event.client != "codex" or not event.session.replace("-", "").isalnum():
        return event.transcript
    folder = Path(os.environ.get("CODEX_HOME") or os.path.expanduser("~/.codex")) / "sessions"
    found = sorted(folder.glob(f"*/*/*/rollout-*-{event.session}.jsonl"))
    return str(found[-1]) if found else ""


def _targets(
    root: Path, event: HookEvent, told: Told, changed: Iterable[Changed]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The files that the work is about, from the root: those edited in the session, then all that git sees changed."""
    inside, outside = [], 0
    for path in told.files:
        found = _inside(root, os.path.join(event.cwd, path))
        outside += found is None
        inside += [found] if found else []
    large = [each.path for each in changed if each.kind == "untracked" and _is_large(root / each.path)]
    seen = [each.path for each in changed if not each.path.endswith("/") and each.path not in large]
    there = [path for path in inside if path in seen or os.path.lexists(root / path)]  # else nothing came of the edit
    names = dict.fromkeys(path for path in (*there[:EDITED], *seen) if _is_ours(path))
    others = [f"{outside} files that it edited lie elsewhere."] if outside else []
    if large:
        others.append(f"New files too large to hand over: {', '.join(large[:5])}.")
    return tuple(names), tuple(others)


def _inside(root: Path, path: str) -> str | None:
    try:
        real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    except ValueError:  # a NUL
        return None
    found = os.path.relpath(real, root)
    return None if found == "." or found.split(os.sep)[0] == ".." else found


def _is_ours(path: str) -> bool:
    """Whether a handoff can name it: text, and no file of git's or ours."""
    return path.encode("utf-8", "replace").decode() == path and not any(map(never, path.split("/")))


def _is_large(path: Path) -> bool:
    try:
        return path.lstat().st_size > NEW_FILE_BYTES
    except OSError:
        return False


def signature_of(work: Work) -> str:
    """What must differ for a new revision: the plan, and the files with their content."""
    from outlast.files.bound import sight

    files = []
    for path in sorted(work.targets[:MAX_FILES]):
        bound = sight(Path(work.root), path, NEW_FILE_BYTES).bound
        files.append([path, bound.mode, bound.blob or bound.digest or str(bound.size)])
    return digest(encode([work.told.plan, files, len(work.targets)]))
