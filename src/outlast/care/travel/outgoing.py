"""A file that leaves a home: where it goes, what it may replace, and that it is there whole or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, TypeVar

from outlast.errors import Conflict, Invalid, StoreReadOnly
from outlast.ids import random_id
from outlast.store.disk import PIECE_BYTES, sync_folder, translated
from outlast.values.frozen import NamedTuple
from outlast.values.private import own_file

T = TypeVar("T")
SUFFIX = ".outlast.zip"


class Written(NamedTuple):
    """A file as it lies on the disk."""

    size: int
    digest: str  # SHA-256


def target(path: Path, name: str) -> Path:
    """The file: the one named, or one of this name in the folder that was named. Raises Invalid."""
    try:
        return path.absolute() / name if path.is_dir() else path.absolute()
    except (OSError, ValueError) as error:
        raise Invalid(detail=f"{str(path)!r} cannot be a file's name: {error}; choose another") from error


def file_name(words: str, id_: str, otherwise: str) -> str:
    """`<words>-<id>.outlast.zip`, safe on every file system."""
    kept = "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in words)[:60]
    return f"{kept.lstrip('.') or otherwise}-{id_}{SUFFIX}"


def refuse_to_replace(path: Path, force: bool, is_ours: Callable[[Path], bool]) -> None:
    """Only what is ours is replaced unasked. Raises Conflict, Invalid, StoreReadOnly."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        if path.parent.is_dir():
            return
        raise Invalid(detail=f"there is no folder {path.parent}; make it, or name another") from None
    except (OSError, ValueError) as error:
        raise StoreReadOnly(str(path), getattr(error, "strerror", None) or str(error)) from error
    if not stat.S_ISREG(found.st_mode):
        raise Conflict(detail=f"{path} is there and no plain file; name another one")
    if not (force or is_ours(path)):
        raise Conflict(detail=f"{path} is there already; name another file, or replace it with force=True (--force)")


def write_whole(path: Path, fill: Callable[[BinaryIO], T]) -> tuple[T, Written]:
    """Write a file under another name and give it its own once it is durable. What `fill` gave, and the file."""
    temporary = path.with_name(f".{random_id()}.tmp")
    try:
        with open(temporary, "xb", opener=own_file) as file:
            given = fill(file)
            file.flush()
            os.fsync(file.fileno())
        written = _measured(temporary)
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        raise translated(error, str(path.parent)) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
    return given, written


def _measured(path: Path) -> Written:
    digest, size = sha256(), 0
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            digest.update(piece)
            size += len(piece)
    return Written(size, digest.hexdigest())
