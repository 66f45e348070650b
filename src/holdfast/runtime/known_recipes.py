"""Flow files that were read and checked before: the same bytes need not be parsed again to go on with a run.

A home keeps what it once understood under the digest of the file's bytes. What is not there, or cannot be read, is
parsed; nothing depends on it.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

import msgspec

from holdfast.domain.digest import digest
from holdfast.domain.recipe import Recipe

_FORMAT = b"holdfast recipe 1\n"
_BYTES = 1 << 20


def known(path: Path, folder: Path) -> Recipe | None:
    """The flow of a file whose bytes were understood before; None when it has to be parsed."""
    try:
        return msgspec.json.decode(_place(path, folder).read_bytes(), type=Recipe)
    except (OSError, ValueError):
        return None


def remember(path: Path, recipe: Recipe, folder: Path) -> None:
    """Keep what a file means. A disk that is full or read-only only makes the next resume slower."""
    with suppress(OSError, ValueError):
        place = _place(path, folder)
        if place.exists():
            return
        folder.mkdir(exist_ok=True)
        temporary = place.with_name(f".{place.name}.{os.getpid()}.{threading.get_ident()}")
        temporary.write_bytes(msgspec.json.encode(recipe))
        os.replace(temporary, place)


def _place(path: Path, folder: Path) -> Path:
    if not path.is_file() or path.stat().st_size > _BYTES:
        raise ValueError("no flow file")
    return folder / digest(_FORMAT + path.read_bytes())
