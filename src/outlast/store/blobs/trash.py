"""The trash of a blob folder: where unreferenced blobs wait before they are gone.

A saver that relies on a blob touches it, then commits its reference. A sweep must not come between. The order:

1. The sweep finds that no reference names the blob and that nobody has touched it for a grace period.
2. It renames the blob into the trash. From here on a saver finds no blob and writes it anew.
3. It looks again. A reference that was committed meanwhile, or a touch between 1 and 2, puts the blob back.
4. It touches the blob in the trash: a second grace period begins, during which readers still find it there.
5. A later sweep looks for references once more, puts the blob back if there is one, and else removes it.

Killed after 2, the touch that step 3 looks for is still on the file, and step 5 sees it. Killed anywhere else, the
next sweep goes on.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from outlast import failpoints
from outlast.errors import HomeReadOnly
from outlast.store.blobs.folder import FolderBlobs
from outlast.store.contract.blobs import BlobFile, IsNeeded, Shelf
from outlast.store.disk import translated
from outlast.values.private import make_folder

GRACE_SECONDS = 3600.0
_NAME = r"[0-9a-f]{64}"
_TEMPORARY = r"\.[0-9a-f]{64}\.(\d+)\.\d+"


class FolderTrash:
    """Moves blobs of one folder out of the way, and back."""

    def __init__(self, blobs: FolderBlobs, grace_seconds: float = GRACE_SECONDS) -> None:
        self.blobs, self.grace_seconds = blobs, grace_seconds
        self.folder = blobs.folder / "trash"

    # -- looking -----------------------------------------------------------------------------------

    def shelves(self) -> Iterator[Shelf]:
        """The blobs by the first two digits of their names, with the paths of what is half-written; then the trash."""
        for entry in _entries(self.blobs.folder):
            if len(entry.name) == 2 and entry.is_dir(follow_symlinks=False):
                folder = Path(entry.path)
                left = [each.path for each in _entries(folder) if self._is_left_over(Path(each.path))]
                yield Shelf(entry.name, self._files(folder), [], left)
        yield Shelf("", [], self._files(self.folder), [])

    def _files(self, folder: Path) -> list[BlobFile]:
        found = []
        for entry in _entries(folder):
            if re.fullmatch(_NAME, entry.name) and (seen := _stat(Path(entry.path))):
                found.append(BlobFile(entry.name, seen.st_size, self._is_old(seen)))
        return sorted(found)

    def _is_old(self, seen: os.stat_result) -> bool:
        return seen.st_mtime < time.time() - self.grace_seconds

    def _is_left_over(self, path: Path) -> bool:
        match, seen = re.fullmatch(_TEMPORARY, path.name), _stat(path)
        return bool(match and seen and self._is_old(seen) and not os.path.exists(f"/proc/{match[1]}"))

    def clear(self, name: str) -> str:
        """Remove what was left half-written; says why it could not be, else nothing."""
        try:
            Path(name).unlink(missing_ok=True)
        except OSError as error:
            return f"{name} could not be removed: {error.strerror or error}"
        return ""

    def refusal(self) -> str:
        return ""

    # -- moving ------------------------------------------------------------------------------------

    def throw(self, name: str, is_needed: IsNeeded) -> bool:
        """Move a blob to the trash. False when somebody turned out to need it: then it is in its place."""
        place = self.folder / name
        try:
            make_folder(self.folder)
            os.replace(self.blobs.path(name), place)
            failpoints.reached("sweep.trashed")
            if is_needed(name) or not self._is_old(place.stat()):
                self.put_back(name)
                return False
            os.utime(place)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise translated(error, str(self.folder), HomeReadOnly) from error
        failpoints.reached("sweep.dated")
        return True

    def put_back(self, name: str) -> None:
        """Put a blob back in its place, young again; if a saver has written it anew, that one stays."""
        place, path = self.folder / name, self.blobs.path(name)
        if path.is_file():
            failpoints.reached("sweep.restored")
            place.unlink(missing_ok=True)
            return
        make_folder(path.parent)
        os.replace(place, path)
        failpoints.reached("sweep.restored")
        os.utime(path)

    def remove(self, blob: BlobFile, is_needed: IsNeeded) -> bool:
        """Remove a blob from the trash for good. False when it is needed, and back, or was put there lately."""
        try:
            if is_needed(blob.name):
                self.put_back(blob.name)
                return False
            if not blob.old:
                return False
            (self.folder / blob.name).unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise translated(error, str(self.folder), HomeReadOnly) from error
        failpoints.reached("sweep.emptied")
        return True


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise translated(error, str(folder), HomeReadOnly) from error


def _stat(path: Path) -> os.stat_result | None:
    """A file's facts; None when it is gone, or no plain file."""
    try:
        seen = path.lstat()
    except FileNotFoundError:
        return None
    return seen if stat.S_ISREG(seen.st_mode) else None
