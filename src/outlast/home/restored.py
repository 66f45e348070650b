"""What a restored home knows of itself: which backup it was made from. What happened after that backup is not in it."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from outlast.values.plain import read_plain
from outlast.values.private import open_file

FILE = "restored.json"


class Restoration(msgspec.Struct, frozen=True):
    """Where a home came from."""

    backup: str  # the backup's id
    home: str  # the home that it was taken of
    made_at: int  # microseconds: nothing later is known here
    restored_at: int


def restoration_of(home: Path) -> Restoration | None:
    """Of which backup a home was made; None for one that was not. A note that cannot be read counts as none."""
    try:
        return msgspec.json.decode(read_plain(home / FILE, 1 << 16), type=Restoration)
    except (OSError, msgspec.MsgspecError, UnicodeError):
        return None


def write_restoration(home: Path, what: Restoration) -> None:
    """Note it in a home that is being made."""
    handle = open_file(home / FILE, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW)
    with open(handle, "wb") as file:
        file.write(msgspec.json.encode(what) + b"\n")
