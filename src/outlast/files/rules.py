"""Rules about files: whether one is there, gone, has a digest or contains a text. Only looks, and never writes."""

from __future__ import annotations

import os
import stat
from hashlib import file_digest
from io import FileIO
from pathlib import Path
from typing import Literal, get_args

from msgspec import Struct

from outlast.files.snapshot import GONE
from outlast.values.codec import readable

Rule = Literal["exists", "absent", "sha256", "contains"]
RULES: tuple[Rule, ...] = get_args(Rule)
_CHUNK_BYTES = 65_536
_SHOWN = 200  # characters of a text that was not found
_SPECIAL = "is neither a plain file nor a folder"


class FileRule(Struct, frozen=True):
    """What must hold of one file."""

    file: str
    rule: Rule
    value: str = ""  # the digest in small letters, or the text it contains


def broken_rule(root: Path, rule: FileRule) -> str:
    """What is wrong with the file, in words; "" when the rule holds.

    Links are followed as long as they stay inside the root. Nothing but plain files is ever opened.
    """
    try:
        if not root.is_dir():
            return readable(f"cannot be read: {root} is no folder")
        return _broken(os.path.realpath(root), os.path.join(root, rule.file), rule)
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    except ValueError as error:  # no file can have such a name
        return f"cannot be read: {error}"


def inside(root: str, path: str) -> bool:
    """Whether a real path is the real root, or below it."""
    return os.path.commonpath((root, path)) == root


def _broken(root: str, path: str, rule: FileRule) -> str:
    real = os.path.realpath(path)
    if not inside(root, real):
        return "leaves the root"
    named, found = _stat(path.rstrip("/")), _stat(real)
    if rule.rule == "absent":
        return "" if named is None and found is None else "is there"
    if found is None or stat.S_ISLNK(found.st_mode):
        return "is missing" if named is None else "is a link that leads nowhere"
    if stat.S_ISDIR(found.st_mode):
        return "" if rule.rule == "exists" else "is a folder"
    if not stat.S_ISREG(found.st_mode):
        return _SPECIAL
    if path.endswith("/"):
        return "is no folder"
    return "" if rule.rule == "exists" else _wrong_content(real, rule)


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError as error:
        if error.errno in GONE:
            return None
        raise


def _wrong_content(path: str, rule: FileRule) -> str:
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)  # it may be another by now
    with open(handle, "rb", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return _SPECIAL
        if rule.rule == "contains":
            return "" if _contains(file, rule.value.encode("utf-8", "surrogatepass")) else _lacks(rule.value)
        digest = file_digest(file, "sha256").hexdigest()
        return "" if digest == rule.value.lower() else f"has digest {digest}"


def _contains(file: FileIO, wanted: bytes) -> bool:
    """Whether the text is there, in constant memory: of what was read only what may begin it is kept."""
    kept = b""
    while chunk := file.read(max(_CHUNK_BYTES, len(wanted))):
        kept += chunk
        if wanted in kept:
            return True
        kept = kept[len(kept) - len(wanted) + 1 :] if len(wanted) > 1 else b""
    return not wanted


def _lacks(wanted: str) -> str:
    shown = repr(wanted)
    return f"does not contain {shown if len(shown) <= _SHOWN else f'{shown[:_SHOWN]}… ({len(wanted)} characters)'}"
