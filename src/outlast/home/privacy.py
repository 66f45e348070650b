"""How open a home is: 0700 and its files 0600, or 0770 and 0660 for a group that its `settings.yaml` shares it with.

A home of ours that stands more open is closed when it is opened to work in it: two looks at the disk tell whether that
is needed. What another user owns is left as it is, and `doctor` names it. What a new file is given is decided in
`values/private.py`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from outlast.home.home_settings import SETTINGS, given_in
from outlast.values.private import FOLDER, SHARED_FOLDER

_FILES = {".gitignore", ".id", SETTINGS, "secrets.yaml", "hooks.log", "keys.db", "restored.json"}
_FOLDERS = {".hooks", "runs", ".made", ".lost"}
_DATABASE = "outlast.db"
_PERMISSIONS = 0o7777


def is_shared(home: Path) -> bool:
    """Whether the home's settings share it with its group. Raises HomeSettingsInvalid."""
    return given_in(home).get("shared") == "group"


def close_home(home: Path) -> None:
    """Give a home of ours, and all that is ours in it, the modes that they should have.

    Raises HomeSettingsInvalid, OSError.
    """
    seen = os.stat(home)
    if seen.st_uid != os.geteuid():
        return
    wanted = SHARED_FOLDER if is_shared(home) else FOLDER
    if seen.st_mode & _PERMISSIONS == wanted:
        return
    for path in _ours(home):
        _close(path, wanted, seen.st_gid)
    if _is_all_ours(home):
        _close_one(str(home), os.lstat(home), wanted, seen.st_gid)  # last: until then the next one does it again


def _is_all_ours(home: Path) -> bool:
    """Whether a home is a folder of its own. One put into another's folder leaves that as it is."""
    return home.name == ".outlast" or {os.path.basename(path) for path in _ours(home)} == {*os.listdir(home)}


def _ours(home: Path) -> list[str]:
    """What lies in the home's folder and is ours."""
    with os.scandir(home) as found:
        return [entry.path for entry in found if _is_ours(entry)]


def _is_ours(entry: os.DirEntry[str]) -> bool:
    if entry.is_symlink():
        return False
    if entry.is_dir():
        return entry.name in _FOLDERS or os.path.lexists(os.path.join(entry.path, _DATABASE))
    return entry.name in _FILES or entry.name.startswith(("keys.db-", "hooks.log."))


def _close(path: str, wanted: int, group: int) -> None:
    for each, seen in _below(path):
        _close_one(each, seen, wanted, group)


def _close_one(path: str, seen: os.stat_result, wanted: int, group: int) -> None:
    bits = _fitting(seen, wanted)
    with suppress(FileNotFoundError):
        if seen.st_uid == os.geteuid() and seen.st_gid != group and wanted == SHARED_FOLDER:
            os.chown(path, -1, group)
        if seen.st_uid == os.geteuid() and seen.st_mode & _PERMISSIONS != bits:
            os.chmod(path, bits)


def _fitting(seen: os.stat_result, wanted: int) -> int:
    """The bits that something should have: what its owner may, the group of a shared home may too, others nothing."""
    own = seen.st_mode & 0o700
    if wanted == FOLDER:
        return own
    return own | own >> 3 | (stat.S_ISGID if stat.S_ISDIR(seen.st_mode) else 0)


def _below(path: str) -> Iterator[tuple[str, os.stat_result]]:
    """A file or folder and all below it, no link followed."""
    with suppress(FileNotFoundError):
        seen = os.lstat(path)
        if stat.S_ISLNK(seen.st_mode):
            return
        yield path, seen
        if stat.S_ISDIR(seen.st_mode):
            with suppress(PermissionError):
                for name in os.listdir(path):
                    yield from _below(os.path.join(path, name))


def too_open(home: Path) -> list[str]:
    """What of a home more people may read or change than should: each path with its mode and owner."""
    wanted = SHARED_FOLDER if is_shared(home) else FOLDER
    found = [(str(home), os.lstat(home))] if _is_all_ours(home) else []
    found += [each for path in _ours(home) for each in _below(path)]
    loose = ((path, seen) for path, seen in found if seen.st_mode & 0o777 & ~_fitting(seen, wanted))
    return [f"{path} ({stat.filemode(seen.st_mode)}, uid {seen.st_uid})" for path, seen in loose]
