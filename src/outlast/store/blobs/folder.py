"""Blobs: content in a folder, named by its digest, verified when read. Small content may be in the ledger instead.

A blob is durable before anything refers to it: file synced, renamed, folder synced. Writing the same
content twice is harmless. A crash leaves at most a file nobody refers to. `gc` moves such files to the trash; a blob
that is there is still found.
"""

from __future__ import annotations

import os
import re
import stat
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from outlast import errors, failpoints
from outlast.store.contract.blobs import BlobFile, IsNeeded, Shelf, nothing_inside
from outlast.store.disk import PIECE_BYTES, sync_file, sync_folder, translated, translating
from outlast.values.codec import FEW_BYTES, digest
from outlast.values.late import late
from outlast.values.private import NotPlain, kind_of, make_folder, open_file, open_plain, read_plain

if TYPE_CHECKING:
    import hashlib

    from outlast.store.contract.blobs import Inside, Intake, Trash
else:
    hashlib = late("hashlib")


class FolderBlobs:
    """A folder of blobs: `ab/abcdef…`. See contract.blobs.Blobs."""

    def __init__(self, folder: Path, inside: Inside = nothing_inside) -> None:
        self.folder, self._inside = folder, inside
        self._named: set[str] = set()  # folders whose own names this process has synced, whoever made them

    @property
    def place(self) -> str:
        return str(self.folder)

    def path(self, name: str) -> Path:
        return self.folder / name[:2] / name

    def size_of(self, name: str) -> int:
        try:
            return self.path(name).stat().st_size
        except OSError:
            return len(self._inside(name) or b"")

    def intake(self) -> Intake:
        from outlast.store.blobs.content import FolderIntake  # late: most commands take nothing in

        return FolderIntake(self)

    def trash(self) -> Trash:
        return FolderTrash(self)

    def probe(self) -> dict[str, str]:
        return {}

    def put(self, content: bytes) -> str:
        name = digest(content)
        path = self.path(name)
        with translating(self.folder):
            if not self._rely_on(path, content):
                self._write(path, (content,))
        return name

    def adopt(self, path: Path, known: str = "") -> str:
        """Store a file's content durably, in constant memory, and give its digest. The file stays where it is.

        Nobody writes to it any more: on the same disk it and the blob are one file, with two names. `known` is its
        digest where the caller has read it to its end already.
        """
        with open_plain(path) as file:
            name = known or _digest_of(file)
            if not self._linked(path, name):
                file.seek(0)
                self.keep(name, iter(lambda: file.read(PIECE_BYTES), b""))
        return name

    def _linked(self, path: Path, name: str) -> bool:
        """Whether the file has a second name among the blobs now. Where the disk knows no such names it is copied."""
        there = self.path(name)
        if os.path.lexists(there):
            return False
        beside = there.with_name(f".{name}.{os.getpid()}.{threading.get_ident()}")
        try:
            make_folder(there.parent)
            os.link(path, beside, follow_symlinks=False)
            os.utime(beside)  # young, so that no sweep takes it before somebody relies on it
        except OSError:
            return False
        try:
            self.move_in(beside, name)
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise translated(error, str(self.folder), of_home=True) from error
        return True

    def _rely_on(self, path: Path, content: bytes) -> bool:
        """Whether the blob is there, whole. Its name is synced: who wrote it may have died before doing so."""
        try:
            if path.lstat().st_size != len(content) or read_plain(path) != content:
                return False
            os.utime(path)  # whoever relies on a blob makes it young again, so that no sweep takes it
        except (FileNotFoundError, NotPlain):
            return False
        self._sync_names(path)
        return True

    def _write(self, path: Path, pieces: Iterable[bytes]) -> None:
        make_folder(path.parent)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
        try:
            with open(temporary, "wb", opener=open_file) as file:
                file.writelines(pieces)
                file.flush()
                os.fsync(file.fileno())
            if failpoints.armed:
                failpoints.armed("blob.written")
            os.replace(temporary, path)
        except Exception:
            temporary.unlink(missing_ok=True)
            raise
        self._named_now(path)

    def _named_now(self, path: Path) -> None:
        if failpoints.armed:
            failpoints.armed("blob.named")
        self._sync_names(path)
        if failpoints.armed:
            failpoints.armed("blob.synced")

    def move_in(self, temporary: Path, name: str) -> None:
        """Give a file beside the blobs, whose content has that digest, its name; durable when this returns."""
        path = self.path(name)
        make_folder(path.parent)
        sync_file(temporary)
        if failpoints.armed:
            failpoints.armed("blob.written")
        os.replace(temporary, path)
        self._named_now(path)

    def renew(self, name: str) -> bool:
        """Whether the blob is in its place, whole; then it is young again, and its name is durable.

        What only the ledger has gets a place here: there it stays as long as what it was committed with.
        """
        path = self.path(name)
        if not self._touch(path):
            content = self._inside(name)
            return content is not None and self.put(content) == name
        if not self._is_whole(name):
            return False
        self._sync_names(path)
        return True

    def _sync_names(self, path: Path) -> None:
        """The file's name, and that of the folder it is in."""
        sync_folder(path.parent)
        if path.parent.name not in self._named:
            sync_folder(self.folder)
            self._named.add(path.parent.name)

    def get(self, name: str) -> bytes:
        with translating(self.folder), self._opened(name) as file:
            content = file.read()
        if digest(content) != name:
            raise errors.IntegrityBroken(f"blob {name[:12]}", "its content was changed")
        return content

    def pieces(self, name: str) -> Iterator[bytes]:
        with translating(self.folder), self._opened(name) as file:
            yield from checked(name, iter(lambda: file.read(PIECE_BYTES), b""))

    def check(self, name: str) -> None:
        with translating(self.folder), self._opened(name) as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != name:
            raise errors.IntegrityBroken(f"blob {name[:12]}", "its content was changed")

    def keep(self, name: str, pieces: Iterable[bytes]) -> None:
        path = self.path(name)
        with translating(self.folder):
            if self._touch(path) and self._is_whole(name):
                self._sync_names(path)
            else:
                self._write(path, checked(name, pieces))

    def _touch(self, path: Path) -> bool:
        """Make a blob young before relying on it, so that no sweep takes it. False when it is not there."""
        try:
            os.utime(path, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def _is_whole(self, name: str) -> bool:
        try:
            self.check(name)
        except errors.IntegrityBroken:
            return False
        return True

    def has(self, name: str) -> bool:
        places = self.path(name), self.folder / "trash" / name, self.path(name)  # it may be back meanwhile
        return any(os.path.lexists(path) and not kind_of(path) for path in places) or self._inside(name) is not None

    def opened(self, name: str) -> BinaryIO:
        """The blob's file, for who proves what he reads of it. Raises IntegrityBroken when it is missing."""
        try:
            return self._opened(name)
        except OSError as error:
            raise translated(error, str(self.folder)) from error

    def _opened(self, name: str) -> BufferedReader | BytesIO:
        path = self.path(name)
        if (found := _plain(path)) is not None:
            return found
        if (content := self._inside(name)) is not None:
            return BytesIO(content)
        if (found := _plain(self.folder / "trash" / name) or _plain(path)) is not None:  # it may be back meanwhile
            return found
        raise errors.IntegrityBroken(f"blob {name[:12]}", "it is missing")


def _plain(path: Path) -> BufferedReader | None:
    """A blob's file; None when there is none. Raises IntegrityBroken for what is no file."""
    try:
        return open_plain(path)
    except FileNotFoundError:
        return None
    except NotPlain as error:
        raise errors.IntegrityBroken(f"blob {path.name[:12]}", str(error.strerror)) from error


def _digest_of(file: BufferedReader) -> str:
    content = file.read(FEW_BYTES + 1)
    if len(content) <= FEW_BYTES:
        return digest(content)
    file.seek(0)
    return hashlib.file_digest(file, "sha256").hexdigest()


def checked(name: str, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same pieces. Raises IntegrityBroken after the last one if they are not what the name says."""
    found = hashlib.sha256()
    for piece in pieces:
        found.update(piece)
        yield piece
    if found.hexdigest() != name:
        raise errors.IntegrityBroken(f"blob {name[:12]}", "its content was changed")


# -- its trash: where unreferenced blobs wait before they are gone -----------------------------------


GRACE_SECONDS = 3600.0
_NAME = r"[0-9a-f]{64}"
_TEMPORARY = r"\.[0-9a-f]{64}\.(\d+)\.\d+"


class FolderTrash:
    """Moves blobs of one folder out of the way, and back. See contract.blobs.Trash.

    A saver that relies on a blob touches it, then commits its reference. A sweep must not come between. The order:

    1. The sweep finds that no reference names the blob and that nobody has touched it for a grace period.
    2. It renames the blob into the trash. From here on a saver finds no blob and writes it anew.
    3. It looks again. A reference that was committed meanwhile, or a touch between 1 and 2, puts the blob back.
    4. It touches the blob in the trash: a second grace period begins, during which readers still find it there.
    5. A later sweep looks for references once more, puts the blob back if there is one, and else removes it.

    Killed after 2, the touch that step 3 looks for is still on the file, and step 5 sees it. Killed anywhere else, the
    next sweep goes on.
    """

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
        try:
            Path(name).unlink(missing_ok=True)
        except OSError as error:
            return f"{name} could not be removed: {error.strerror or error}"
        return ""

    def refusal(self) -> str:
        return ""

    # -- moving ------------------------------------------------------------------------------------

    def throw(self, name: str, is_needed: IsNeeded) -> bool:
        place = self.folder / name
        with translating(self.folder), suppress(FileNotFoundError):
            make_folder(self.folder)
            os.replace(self.blobs.path(name), place)
            failpoints.reached("sweep.trashed")
            if is_needed(name) or not self._is_old(place.stat()):
                self.put_back(name)
                return False
            os.utime(place)
            failpoints.reached("sweep.dated")
            return True
        return False

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
        with translating(self.folder), suppress(FileNotFoundError):
            if is_needed(blob.name):
                self.put_back(blob.name)
            elif blob.old:
                (self.folder / blob.name).unlink()
                failpoints.reached("sweep.emptied")
                return True
        return False


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    with translating(folder), suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as found:
        return sorted(found, key=lambda entry: entry.name)
    return []


def _stat(path: Path) -> os.stat_result | None:
    """A file's facts; None when it is gone, or no plain file."""
    try:
        seen = path.lstat()
    except FileNotFoundError:
        return None
    return seen if stat.S_ISREG(seen.st_mode) else None
