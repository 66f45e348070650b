"""Files that a finished step left: as they were then, kept where that is small enough, and what is there now.

A file is told by its stamp: one that is the same, and was written and touched at the same moments, has the same
content. Only where the stamp says nothing is the content read, up to a size.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from msgspec.structs import replace

from outlast.files.changes import SeenFile, from_facts, never, to_facts
from outlast.files.snapshot import GONE, look_at, stamp_of
from outlast.values.codec import digest, text
from outlast.values.frozen import NamedTuple

HASH_BYTES = 64 << 20  # of a larger file only the size is compared, unless somebody will read it

Found = Literal["same", "changed", "missing"]
SAME: tuple[Found, str] = ("same", "")
NOTHING: tuple[Found, str] = ("missing", "nothing")


# -- in the journal ----------------------------------------------------------------------------------


def digests_of(seen: Mapping[str, SeenFile]) -> dict[str, str]:
    """The files with their digests: what a receipt says of them."""
    return {text(path): each.digest for path, each in seen.items()}


def details_of(seen: Mapping[str, SeenFile]) -> dict[str, dict[str, Any]]:
    """All else that is known of them."""
    return {path: _detail(fact, seen[path_]) for path_, (path, fact) in zip(seen, to_facts(seen).items(), strict=True)}


def _detail(fact: dict[str, Any], seen: SeenFile) -> dict[str, Any]:
    known = {name: value for name, value in fact.items() if name != "digest"}
    return known | ({"stamp": seen.stamp} if seen.stamp else {})


def seen_in(files: Mapping[str, str], details: Mapping[str, Mapping[str, Any]]) -> dict[str, SeenFile]:
    """What both were made of. Raises ValueError, TypeError or LookupError for what no receipt says."""
    found: dict[str, SeenFile] = {}
    for name, known in details.items():
        plain = {key: value for key, value in known.items() if key != "stamp"}
        ((path, seen),) = from_facts({name: {"digest": files[name], **plain}}).items()
        if is_inside(path):
            found[path] = replace(seen, stamp=str(known.get("stamp", "")))
    return found


def is_inside(path: str) -> bool:
    """Whether a path from a record names a file below its folder, of those that can be declared."""
    parts = path.split("/")
    return bool(path) and "\0" not in path and not any(part in ("", ".", "..") or never(part) for part in parts)


# -- now ---------------------------------------------------------------------------------------------


class Looker(NamedTuple):
    """Looks at files below one folder. What it learns of folders it learns once."""

    root: Path
    folders: dict[str, str]  # by path, what is wrong with each; "" for a folder

    def compare(self, path: str, was: SeenFile, *, whole: bool = False) -> tuple[Found, str]:
        """How a file is to what it was, and what is there if it is not the same. `whole`: whatever its size."""
        wrong = self._above(path.rpartition("/")[0])
        if wrong:
            return "missing", wrong
        try:
            return _compare(f"{self.root}/{path}", was, whole)
        except OSError as error:
            return NOTHING if error.errno in GONE else ("changed", f"it cannot be read ({error.strerror})")

    def _above(self, folder: str) -> str:
        """What is wrong with a folder below the root; links are not followed."""
        if not folder:
            return ""
        if folder not in self.folders:
            self.folders[folder] = self._above(folder.rpartition("/")[0]) or _no_folder(f"{self.root}/{folder}")
        return self.folders[folder]


def looker(root: Path) -> Looker:
    return Looker(root, {})


def _no_folder(path: str) -> str:
    try:
        mode = os.lstat(path).st_mode
    except OSError as error:
        return "nothing" if error.errno in GONE else f"its folder cannot be read ({error.strerror})"
    return "" if stat.S_ISDIR(mode) else "its folder is a link now" if stat.S_ISLNK(mode) else "its folder is gone"


def _compare(path: str, was: SeenFile, whole: bool) -> tuple[Found, str]:
    found = os.lstat(path)
    if stat.S_ISLNK(found.st_mode):
        return _compare_link(path, was)
    if stat.S_ISDIR(found.st_mode):
        return "missing", "a folder is there"
    if not stat.S_ISREG(found.st_mode):
        return SAME if was.mode == "special" else ("missing", "a pipe, a socket or a device is there")
    if was.mode in ("link", "special", "folder"):
        return "changed", "a plain file is there"
    if not was.digest:  # nobody could read it then
        return SAME
    if found.st_size != was.size:
        return "changed", f"{found.st_size:,} bytes, not {was.size:,}"
    if stamp_of(found) == was.stamp or (found.st_size > HASH_BYTES and not whole):
        return SAME
    return _compare_content(path, was)


def _compare_link(path: str, was: SeenFile) -> tuple[Found, str]:
    if was.mode == "link" and digest(os.fsencode(os.readlink(path))) == was.digest:
        return SAME
    if not os.path.exists(path):
        return "missing", "a link to nothing is there"
    return "changed", "another link is there" if was.mode == "link" else "a link is there"


def _compare_content(path: str, was: SeenFile) -> tuple[Found, str]:
    look = look_at(path, 0)
    if look is None:
        return NOTHING
    if not look.seen.digest:
        return "changed", "it cannot be read"
    return SAME if look.seen.digest == was.digest else ("changed", f"other content, {look.seen.size:,} bytes")
