"""Previews: what of an artifact, of files that were left, or of an error a page shows by itself.

Text is shown as text, pictures as pictures, all else is to be saved.

A picture is shown by an <img> whose source is the same file to save that every artifact is: its answer is sandboxed and
an attachment, so that nothing in it is ever a page. Only kinds that are nothing but pixels count as pictures.
"""

from __future__ import annotations

import re
from posixpath import basename, dirname
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from outlast.errors import OutlastError

if TYPE_CHECKING:
    from outlast import RunRecord
    from outlast.doors.console.asked import PageRequest

TEXT_BYTES = 64 << 10
PICTURE_BYTES = 16 << 20
PICTURES = {  # what a file of each kind begins with
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/webp": (b"RIFF",),
}
TEXTS = ("application/json", "application/yaml", "application/toml", "application/x-sh")
FRAME = re.compile(r'^([ |+]*File ")([^"\n]+)"', re.MULTILINE)  # of a trace
LIBRARY = re.compile(r"^.*/(?:site-packages|dist-packages|lib/python\d[.\d]*)/|^.*/src/(?=outlast/)")
REFS = 12  # of what one question shows so many are looked up


class Preview(Struct, frozen=True):
    """What a page shows of an artifact."""

    ref: str
    name: str
    media_type: str
    size: int
    summary: str
    is_picture: bool = False
    text: str | None = None
    is_cut: bool = False


def preview(found: Any) -> Preview:
    """What is shown of an artifact. One that cannot be read is shown by its name alone."""
    known = Preview(found.ref, found.name, found.media_type, found.size, found.summary)
    kind = found.media_type.partition(";")[0].strip().lower()
    try:
        if kind in PICTURES and found.size <= PICTURE_BYTES:
            head = found.read(0, min(16, found.size))
            return _replaced(known, is_picture=head.startswith(PICTURES[kind]))
        if kind.startswith("text/") or kind in TEXTS:
            raw = found.read(0, min(TEXT_BYTES, found.size))
            return _replaced(known, text=raw.decode(errors="replace"), is_cut=found.size > TEXT_BYTES)
    except OutlastError:
        pass
    return known


def _replaced(known: Preview, **change: Any) -> Preview:
    return Preview(known.ref, known.name, known.media_type, known.size, known.summary, **change)


def shown_values(asked: PageRequest, payload: dict[str, Any]) -> list[tuple[str, Any, Preview | None]]:
    """What a question shows, each by its name; with a preview where it is the ref of an artifact."""
    shown, left = list[tuple[str, Any, Preview | None]](), REFS
    for name, value in payload.items():
        is_ref = isinstance(value, str) and value.startswith("artifact:") and len(value) < 500
        found = asked.maybe("workspace_get", ref=value) if is_ref and left else None
        left -= is_ref
        shown.append((name, value, preview(found) if found is not None else None))
    return shown


# -- partial work: the files that an unfinished attempt left, each with what is different from before it ------

FILES = 20  # of one attempt
WORK = {"none": "nothing", "partial": "partial work", "complete": "all its files, and did not say that it was done"}


def has_left(run: RunRecord) -> bool:
    """Whether it may have left anything: of commands, and not over."""
    return run.is_of_commands and not run.finished and run.status != "running"


def left_of(asked: PageRequest, run_id: str, step: str | None = None) -> list[dict[str, Any]]:
    """What a page shows of it; nothing where it cannot be looked at from here."""
    try:
        found = asked.left(run_id)
    except (OutlastError, OSError):
        return []
    return [_attempt(one) for one in found if one.files and step in (None, one.step)]


def _attempt(one: Any) -> dict[str, Any]:
    shown = [
        {"path": file.path, "change": file.change, "diff": file.diff, "why": file.why} for file in one.files[:FILES]
    ]
    return {
        "step": one.step,
        "attempt": one.attempt,
        "status": one.status,
        "says": WORK.get(one.judgement, one.judgement),
        "shared": one.shared,
        "files": shown,
        "more": max(len(one.files) - FILES, 0),
    }


# -- errors ------------------------------------------------------------------------------------------------


def error_shown(kept: dict[str, Any] | None) -> dict[str, str] | None:
    """An error with the frames of the user's own files first, each named from the folder of the flow's file on."""
    if not kept:
        return None
    trace = str(kept.get("trace", ""))
    own = [file for _, file in FRAME.findall(trace) if not LIBRARY.match(file)]
    folder = dirname(own[0]) if own else ""
    told = FRAME.sub(lambda found: f'{found[1]}{_nearby(found[2], folder)}"', trace)
    frames = [frame for frame in told.split("\n  File ")[1:] if not frame.startswith('"<')]
    return {
        "type": str(kept.get("type", "")).rpartition(":")[2],
        "message": str(kept.get("message", "")),
        "own": "\n".join(f"  File {frame}" for frame in frames[-3:]),
        "trace": told,
    }


def _nearby(file: str, folder: str) -> str:
    """A file without the folders of the machine that it is on."""
    if folder and file.startswith(f"{folder}/"):
        return file.removeprefix(f"{folder}/")
    if found := LIBRARY.match(file):
        return f"<{file[found.end() :]}>"
    return f"…/{basename(dirname(file))}/{basename(file)}" if file.startswith("/") else file
