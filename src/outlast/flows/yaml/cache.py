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

from outlast.flows.yaml.model import Recipe
from outlast.values.digest import digest
from outlast.values.plain import read_plain

_FORMAT = b"outlast recipe 1\n"
_BYTES = 1 << 20


def key_of(path: Path) -> str:
    """What a flow file is known by: the digest of its bytes; empty for what cannot be one."""
    try:
        return digest(_FORMAT + read_plain(path.resolve())) if path.is_file() and path.stat().st_size <= _BYTES else ""
    except OSError:
        return ""


def known(key: str, folder: Path) -> Recipe | None:
    """The flow that was understood from these bytes; None when they have to be parsed."""
    try:
        return msgspec.json.decode(read_plain(folder / key), type=Recipe) if key else None
    except (OSError, ValueError):
        return None


def remember(key: str, recipe: Recipe, folder: Path) -> None:
    """Keep what these bytes mean. A disk that is full or read-only only makes the next resume slower."""
    if not key or known(key, folder) is not None:
        return
    temporary = folder / f".{key}.{os.getpid()}.{threading.get_ident()}"
    try:
        folder.mkdir(exist_ok=True)
        temporary.write_bytes(msgspec.json.encode(recipe))
        os.replace(temporary, folder / key)
    except OSError:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
