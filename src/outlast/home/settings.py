"""The rare knobs, as one frozen value.

What the `settings.yaml` of a home says: with whom it is shared, how long an unreceived outcome is kept, whose runs of
checks count, and in which bucket its content is kept.

How open a home is: 0700 and its files 0600, or 0770 and 0660 for a group that its `settings.yaml` shares it with.

A home of ours that stands more open is closed when it is opened to work in it: two looks at the disk tell whether that
is needed. What another user owns is left as it is, and `doctor` names it. What a new file is given is decided in
`values/private.py`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from outlast import errors
from outlast.errors import Invalid
from outlast.store.blobs.chosen import place_of
from outlast.values.private import FOLDER, SHARED_FOLDER
from outlast.values.text import duration


class Settings(Struct, frozen=True):
    """Defaults fit nearly everyone; tests shorten the times."""

    lease_seconds: float = 30.0  # silence after which another worker may take over
    claim_seconds: float = 15 * 60.0  # how long a handoff is claimed without being used
    beat_seconds: float = 5.0  # how often a process says that it lives
    inline_bytes: int = 32 * 1024  # larger results live in the blob store
    close_seconds: float = 30.0  # how long closing waits for runs that were asked to stop
    grace_seconds: float = 30.0  # for the step under way, after the first signal
    patience_seconds: float = 5.0  # between TERM and KILL, for a command that is to end
    state_bytes: int = 64 * 1024
    crashes_before_asking: int = 3  # in one step, before a person is asked
    sleep_in_place_seconds: float = 60.0  # longer sleeps end the process's part and leave a timer
    redeliver_seconds: float = 3600.0  # how long an outcome that nobody received is kept for an equal call; 0: not
    evidence: str = "client"  # whose runs of checks count besides a runner's: a client's; "runner": nobody's
    mirror_seconds: float = 1.0  # how far behind the mirror of a Python flow may be; 0: none until asked for
    secret_patterns: Mapping[str, str | Mapping[str, str]] = field(default_factory=dict)  # rules of one's own, by name


SETTINGS = "settings.yaml"
_KNOWN = ("shared", "redeliver", "evidence", "blobs")
_BYTES = 1 << 16


def given_in(home: Path) -> dict[str, Any]:
    """What is set, checked. Raises HomeSettingsInvalid."""
    path = home / SETTINGS
    if not os.path.lexists(path):
        return {}
    given = _read(path)
    if unknown := [str(name) for name in given if name not in _KNOWN]:
        raise errors.HomeSettingsInvalid(str(path), f"{unknown[0]!r} is no setting", f"it takes: {', '.join(_KNOWN)}")
    if given.get("shared", "no") not in ("no", "group", False, None):
        raise errors.HomeSettingsInvalid(
            str(path), f"shared is {given['shared']!r}", "write `shared: group`, or leave it out"
        )
    if "redeliver" in given and _seconds(given) is None:
        why = f"redeliver is {given['redeliver']!r:.100}"
        raise errors.HomeSettingsInvalid(str(path), why, "write a duration, `redeliver: 1h`, or 0 for not at all")
    if "blobs" in given:
        _check_bucket(path, given["blobs"])
    if given.get("evidence", "client") not in ("client", "runner"):
        why = f"evidence is {given['evidence']!r:.100}"
        raise errors.HomeSettingsInvalid(
            str(path), why, "write `evidence: runner`, or `evidence: client`, or leave it out"
        )
    return given


def _check_bucket(path: Path, url: Any) -> None:
    try:
        place_of(url)
    except Invalid as error:
        raise errors.HomeSettingsInvalid(
            str(path), f"blobs: {error.detail}", "write `blobs: s3://BUCKET/PREFIX`"
        ) from error


def settings_in(home: Path) -> Settings:
    """The defaults, with what the home sets otherwise. Raises HomeSettingsInvalid."""
    given = given_in(home)
    seconds, settings = _seconds(given), Settings()
    if seconds is not None:
        settings = replace(settings, redeliver_seconds=seconds)
    return replace(settings, evidence=given["evidence"]) if "evidence" in given else settings


def _seconds(given: dict[str, Any]) -> float | None:
    """How long an outcome is kept; None when that is not said, or is no duration."""
    return duration(given["redeliver"]) if "redeliver" in given else None


def _read(path: Path) -> dict[Any, Any]:
    import yaml  # late: most homes have no settings

    try:
        if not path.is_file() or path.stat().st_size > _BYTES:
            raise errors.HomeSettingsInvalid(
                str(path), "this is no plain file of at most 64 KiB", "make it one, or remove it"
            )
        given = yaml.safe_load(path.read_bytes())
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        raise errors.HomeSettingsInvalid(str(path), f"it cannot be read ({error})", "mend it, or remove it") from error
    if given is not None and not isinstance(given, dict):
        raise errors.HomeSettingsInvalid(str(path), "it is no mapping", "write `shared: group`, or remove it")
    return given or {}


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
    for path, inside in (each for ours in _ours(home) for each in _below(ours)):
        _close_one(path, inside, wanted, seen.st_gid)
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
