"""Blobs: content in a folder, named by its digest, verified when read. Small content may be in the ledger instead.

A blob is durable before anything refers to it: file synced, renamed, folder synced. Writing the same
content twice is harmless. A crash leaves at most a file nobody refers to. `gc` moves such files to the trash
(`trash.py`); a blob that is there is still found.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from outlast import failpoints
from outlast.errors import HomeReadOnly, IntegrityBroken
from outlast.store.contract.blobs import nothing_inside
from outlast.store.disk import PIECE_BYTES, sync_file, sync_folder, translated
from outlast.values.codec import FEW_BYTES, digest
from outlast.values.late import late
from outlast.values.private import NotPlain, kind_of, make_folder, open_file, open_plain, read_plain

if TYPE_CHECKING:
    import hashlib

    from outlast.store.contract.blobs import Inside, Intake, Trash
else:
    hashlib = late("hashlib")


class FolderBlobs:
    """A folder of blobs: `ab/abcdef…`."""

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
        from outlast.store.blobs.trash import FolderTrash

        return FolderTrash(self)

    def probe(self) -> dict[str, str]:
        return {}

    def put(self, content: bytes) -> str:
        """Store content durably and give its digest."""
        name = digest(content)
        path = self.path(name)
        try:
            if self._rely_on(path, content):
                return name
            self._write(path, (content,))
        except OSError as error:
            raise translated(error, str(self.folder), HomeReadOnly) from error
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
            raise translated(error, str(self.folder), HomeReadOnly) from error
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
                for piece in pieces:
                    file.write(piece)
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
        """The content. Raises IntegrityBroken when it is missing or not what was stored."""
        try:
            with self._opened(name) as file:
                content = file.read()
        except OSError as error:
            raise translated(error, str(self.folder), HomeReadOnly) from error
        if digest(content) != name:
            raise IntegrityBroken(f"blob {name[:12]}", "its content was changed")
        return content

    def pieces(self, name: str) -> Iterator[bytes]:
        """The content piece by piece, for what need not fit in memory. IntegrityBroken comes after the last piece."""
        try:
            with self._opened(name) as file:
                yield from checked(name, iter(lambda: file.read(PIECE_BYTES), b""))
        except OSError as error:
            raise translated(error, str(self.folder), HomeReadOnly) from error

    def check(self, name: str) -> None:
        """Raises IntegrityBroken unless the content is there, and what was stored. Read in constant memory."""
        try:
            with self._opened(name) as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise translated(error, str(self.folder), HomeReadOnly) from error
        if found != name:
            raise IntegrityBroken(f"blob {name[:12]}", "its content was changed")

    def keep(self, name: str, pieces: Iterable[bytes]) -> None:
        """Store content of a known digest durably, piece by piece. Raises IntegrityBroken if it is other content."""
        path = self.path(name)
        try:
            if self._touch(path) and self._is_whole(name):
                self._sync_names(path)
            else:
                self._write(path, checked(name, pieces))
        except OSError as error:
            raise translated(error, str(self.folder), HomeReadOnly) from error

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
        except IntegrityBroken:
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
        raise IntegrityBroken(f"blob {name[:12]}", "it is missing")


def _plain(path: Path) -> BufferedReader | None:
    """A blob's file; None when there is none. Raises IntegrityBroken for what is no file."""
    try:
        return open_plain(path)
    except FileNotFoundError:
        return None
    except NotPlain as error:
        raise IntegrityBroken(f"blob {path.name[:12]}", str(error.strerror)) from error


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
        raise IntegrityBroken(f"blob {name[:12]}", "its content was changed")
