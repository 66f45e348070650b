"""What unfinished attempts left in their files, each file with what is different from before the attempt.

Only what can be told is shown: text, of a size that a person reads, whose content before was kept or that is new. What
looks like a secret is masked, as it is in transcripts.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from msgspec import Struct

from outlast.commands.leftovers import facts_of, previous_of
from outlast.errors import OutlastError
from outlast.files.changes import FileChange, LeftFiles, SeenFile, from_facts
from outlast.files.patch import unified
from outlast.home.home import Home
from outlast.runs.call import Past, labels
from outlast.runs.found import find
from outlast.secrets.find import mask
from outlast.store.contract import RunRow

MOST_BYTES = 256 << 10  # of a file whose difference is shown
BINARY = "it is no text"
LARGE = "it is too large to be shown here"
NOT_KEPT = "its content before was not kept"


class LeftFile(Struct, frozen=True):
    """A file that is not as it was before an attempt: its difference, or why there is none."""

    path: str
    change: str
    diff: str = ""
    why: str = ""


class LeftAttempt(Struct, frozen=True):
    """What the last attempt of a step left."""

    step: str
    attempt: int
    status: str
    judgement: str  # none, partial, complete
    shared: str
    files: tuple[LeftFile, ...]


def left_by_attempts(home: Home, row: RunRow) -> list[LeftAttempt]:
    """What unfinished attempts of a run left, by step, as it is found now. Nothing is written."""
    lease = home.store.read(lambda look: look.lease_of(row.id))
    if lease is None:
        return []
    found = home.store.read(lambda look: find(look, row, lease))
    unfinished = [past for past in found.ledger.calls.values() if past.kind == "step" and not past.finished]
    names = labels(found.rows) if unfinished else {}
    told = ((past, previous_of(home, row.id, past)) for past in unfinished if past.attempts)
    return [_told(home, names.get(past.call, past.call.path), past, left) for past, left in told if left is not None]


def _told(home: Home, step: str, past: Past, left: LeftFiles) -> LeftAttempt:
    facts = facts_of(home, past.begun or past.payload)
    root = (home.project or Path.cwd()) / str(facts.get("declared", {}).get("folder", ""))
    before = from_facts(facts.get("before") or {})
    files = tuple(_file(home, root, change, before.get(change.path)) for change in left.files)
    return LeftAttempt(step, left.attempt, left.status, left.judgement, left.shared, files)


def _file(home: Home, root: Path, change: FileChange, before: SeenFile | None) -> LeftFile:
    old, new = _before(home, change, before), _now(root, change)
    for each in (old, new):
        if isinstance(each, _Why):
            return LeftFile(change.path, change.change, why=each)
    was, now = ("/dev/null" if not text else change.path for text in (change.before, change.after))
    diff = unified(mask(str(old)), mask(str(new)), was, now)
    return LeftFile(change.path, change.change, diff, "" if diff else "only its permissions or line ends are others")


class _Why(str):
    """Why there is no text."""


def _before(home: Home, change: FileChange, before: SeenFile | None) -> str | _Why:
    if not change.before:
        return ""
    if before is None or not before.kept:
        return _Why(NOT_KEPT)
    if before.size > MOST_BYTES:
        return _Why(LARGE)
    try:
        return _text(home.blobs.get(before.kept))
    except OutlastError:
        return _Why(NOT_KEPT)


def _now(root: Path, change: FileChange) -> str | _Why:
    """As it is on disk: no link is followed, and nothing is waited for."""
    if not change.after:
        return ""
    try:
        handle = os.open(root / change.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return _Why("it is not there any more")
    with os.fdopen(handle, "rb") as file:
        raw = file.read(MOST_BYTES + 1)
    return _Why(LARGE) if len(raw) > MOST_BYTES else _text(raw)


def _text(raw: Any) -> str | _Why:
    try:
        text = bytes(raw).decode()
    except ValueError:
        return _Why(BINARY)
    return _Why(BINARY) if "\0" in text else text
